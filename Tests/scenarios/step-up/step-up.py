"""Step-up: the user signs in again for an existing session. Refusals come first. Calls to the provider are counted."""

import http.server
import pathlib
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND, Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.step_up import A_PAIR, MFA, WEAK, Login, step_up, told  # noqa: E402
from support.waiting import wait_for  # noqa: E402


def refusals(case):
    """Step-ups that the broker refuses, and step-ups that fail. The session does not change."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings={
        "providers": {
            "oidc": {"revocation": {"reaches": "user"}, "clients": {"ios": {"children": {"widget": {}}}}},
            "plain": {"kind": "oidc", "issuer": f"{sandbox.url}/oidc", "step_up": {"acr": False}, "clients": {"ios": {
                "client_id": "plain-app", "auth": "none", "redirect_uris": ["com.example.plain:/cb"], "login": "both"}}}}})
    session = broker.sign_in()
    before = broker.look(session).json
    case.same(("pwd", ["pwd"]), (before["acr"], before["amr"]), "a user has signed in → the session object has acr and methods of this sign-in")
    case.verdict(before["authenticated_at"] is not None, "a user has signed in → the session object has the time of this sign-in")
    logins = "SELECT count(*) FROM logins"
    count = broker.query(logins)[0][0]

    def begin(body, session=session, **fields):
        return told(broker.call("POST", "/v1/logins", session, body, **fields))

    for body, why in [
            ({"step_up": {}}, "which demands nothing"), ({"step_up": {"max_age": -1}}, "with a negative age"),
            ({"step_up": {"max_age": "5"}}, "with an age as a text"), ({"step_up": {"acr_values": 'a"b'}}, "with a quote in an acr"),
            ({"step_up": {"acr_values": " ".join("abcdefghi")}}, "with nine acr values"), ({"step_up": {"presence": True}}, "with an unknown member"),
            (WEAK | {"provider": "oauth2"}, "at another provider than the session's"), (WEAK | {"client": "android"}, "of another client"),
            (WEAK | {"scope": "openid"}, "with a scope"), (WEAK | {"parameters": {"acr_values": "mfa"}}, "with the demand as a parameter")]:
        case.same("400 invalid_request", begin(body), f"the start of a step-up {why} → refused")
    case.same("400 invalid_request", begin(WEAK, None), "the start of a step-up by a request that lacks both a session and a provider → refused")
    case.same("401 session_required", begin(WEAK, "x" * 43), "the start of a step-up with an unknown session token → refused")
    case.same("403 cross_origin", begin(WEAK, Sec_Fetch_Site="cross-site"), "the start of a step-up by a cross-site request → refused")
    widget = broker.call("POST", "/v1/session/children", session, {"kind": "widget", "name": "home"}).json
    case.same(
        "403 client_not_allowed", begin(WEAK, None, Authorization=f"Bearer {widget['session_token']}"), "the start of a step-up by a child session → refused")
    case.same(("pwd", before["authenticated_at"]), (widget["acr"], widget["authenticated_at"]), "a new child session → has its parent's acr and time of sign-in")
    oauth2 = broker.sign_in(provider="oauth2")
    case.same("403 client_not_allowed", begin(WEAK, oauth2), "the start of a step-up by a session of a provider of kind oauth2 → refused")
    case.same((None, [], None), tuple(broker.look(oauth2).json[name] for name in ("acr", "amr", "authenticated_at")), "a session of kind oauth2 → acr, methods and time of the sign-in are empty")
    case.same("403 client_not_allowed", begin(MFA | {"provider": "plain"}, None), "the configuration marks a provider as unable to use `acr`, and a login demands `acr_values` → refused")
    case.same(count + 1, broker.query(logins)[0][0], "step-ups that are refused at their start → leave no login row (the only new row is from the oauth2 sign-in)")

    tokens = sandbox.calls("oidc/token")
    login = Login(broker, session).sign_in()
    case.same("600", login.asked["max_age"], "a step-up by age → the provider receives `max_age`")
    case.same("401 session_required", told(login.forward(None)), "a step-up's forward without the session's token → refused")
    other = broker.sign_in()
    case.same("403 login_not_yours", told(login.forward(other)), "a step-up's forward with another session of the same user → refused")
    case.same("400 state_mismatch", told(login.forward()), "a step-up's forward came with another session, and then comes with the right session → refused, because the login is burned")
    login = Login(broker, session).sign_in()
    login.cookie, login.token = None, None
    case.same("403 login_not_yours", told(login.forward()), "a step-up's forward with the session's token, but without the login token → refused")
    ended = broker.sign_in()
    login = Login(broker, ended).sign_in()
    broker.log_out(ended)
    case.same("401 session_ended logged_out", told(login.forward()), "a session ends during its step-up, and then the app forwards the callback → refused")
    case.same(tokens + 2, sandbox.calls("oidc/token"), "the refused forwards of step-ups → their codes did not reach the provider (the only two token calls were for sign-ins)")

    login = Login(broker, session).sign_in("ben")
    case.same("409 subject_mismatch", told(login.forward()), "another user signs in for a step-up → subject_mismatch")
    case.same("409 subject_mismatch", told(login.forward()), "another user signed in for a step-up, and the forward is repeated → again subject_mismatch")
    sandbox.fault("oidc", fault="other-user-callback", times=1)
    case.same("409 subject_mismatch", told(step_up(broker, session)), "the provider answers a step-up as another user → subject_mismatch")
    failed = step_up(broker, session, WEAK, sandbox_auth_age=4000)
    case.same("403 step_up_failed", told(failed), "a step-up that demands an age of ten minutes, and the new sign-in is older than an hour → step_up_failed")
    case.same({"max_age": 600}, failed.json["required"], "a step-up by age, and the new sign-in is too old → the answer has the required age")
    case.verdict(failed.json["got"]["authenticated_at"] < before["authenticated_at"], "a step-up by age, and the new sign-in is too old → the answer has the time of this sign-in")
    sandbox.settings("oidc", step_up="ignores")
    failed = step_up(broker, session, MFA)
    case.same(("403 step_up_failed", {"acr_values": "mfa"}, None), (told(failed), failed.json["required"], failed.json["got"]["acr"]), "a step-up by acr, and the provider ignores `acr_values` → step_up_failed, with the acr that the provider returned")
    sandbox.settings("oidc", step_up="silent")
    failed = step_up(broker, session)
    case.same(("403 step_up_failed", None), (told(failed), failed.json["got"]["authenticated_at"]), "a step-up by age, and the provider omits the time of the sign-in → step_up_failed")
    sandbox.settings("oidc", step_up="refuses")
    for body, code in [(MFA, "403 step_up_failed"), (WEAK, "409 interaction_required")]:
        case.same(code, told(step_up(broker, session, body)), f"a step-up with {body['step_up']}, and the provider refuses to prompt the user again → refused")
    sandbox.settings("oidc", step_up="honours")
    sandbox.fault("oidc", fault="missing-auth-time", times=1)
    failed = step_up(broker, session)
    case.same(
        ("403 step_up_failed", "pwd", None), (told(failed), failed.json["got"]["acr"], failed.json["got"]["authenticated_at"]),
        "a step-up by age, and the provider returns the acr but not the time of the sign-in → step_up_failed")
    for error, code in [
            ("unmet_authentication_requirements", "403 step_up_failed"), ("login_required", "409 interaction_required"), ("access_denied", "403 access_denied")]:
        login = Login(broker, session)
        sandbox.fault("oidc", fault="error-callback", value=error, times=1)
        login.sign_in()
        case.same(code, told(login.forward()), f"a step-up's callback has the error {error} → {code}")
        case.same("400 state_mismatch", told(login.forward()), f"a step-up's callback had the error {error}, and the forward is repeated → refused, because the login is used up")
    after = broker.look(session).json
    case.same(
        {name: before[name] for name in before if name not in ("last_used_at", "idle_expires_at")},
        {name: after[name] for name in after if name not in ("last_used_at", "idle_expires_at")}, "a session after refused and failed step-ups → is unchanged")
    case.same(200, broker.exchange(session).status, "a session after failed step-ups → its token exchange works")
    case.same(200, broker.refresh(session).status, "a session after failed step-ups → its refresh works")
    case.verdict(wait_for(30, lambda: broker.query("SELECT count(*) FROM outbox") == [(0,)]), "failed step-ups → the outbox is empty within 30 seconds")
    case.same(2 * A_PAIR, sandbox.calls("oidc/revoke"), "failed step-ups at a provider where a revocation ends all tokens of a user → the broker revokes only the tokens of the other user")

    # A first sign-in, whose login demands a class or an age.
    failed = Login(broker, None, WEAK | {"provider": "oidc", "client": "ios"}).sign_in(sandbox_auth_age=4000).forward()
    case.same("403 step_up_failed", told(failed), "a login demands an age, and the user's sign-in is too old → step_up_failed")
    made = Login(broker, None, {"provider": "oidc", "client": "ios", "step_up": {"acr_values": "phr mfa"}}).sign_in().forward()
    case.same(("201", "phr"), (told(made), made.json["acr"]), "a login demands an acr, and the user's sign-in has this acr → a session with this acr")


def acceptances(case):
    """The same session continues with the new sign-in and the new grant."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings={"providers": {"oidc": {"revocation": {"reaches": "token"}}}})
    session = broker.sign_in(sandbox_auth_age=5000)
    before = broker.look(session).json
    login = Login(broker, session, {"step_up": {"acr_values": "phr mfa", "max_age": 300}}).sign_in()
    case.same(("300", "phr mfa", "openid email offline_access"), tuple(login.asked[name] for name in ("max_age", "acr_values", "scope")), "a step-up by age and acr values → the provider receives age, acr values and scope")
    tokens = sandbox.calls("oidc/token")
    answer = login.forward()
    case.same("200", told(answer), "the user signs in as a step-up demands, and the app forwards the callback → 200")
    case.same(before["handle"], answer.json["handle"], "a step-up → the session keeps its handle")
    case.verdict(f"coatcheck={session}" in (answer.fields["Set-Cookie"] or ""), "a step-up → the answer sets the same session cookie")
    case.verdict("session_token" not in answer.json, "a step-up of a cookie session → no session token in the body")
    case.same("phr", answer.json["acr"], "a step-up → the session has the new acr")
    case.verdict(answer.json["authenticated_at"] > before["authenticated_at"], "a step-up → the session has the new time of sign-in")
    case.same(before["expires_at"], answer.json["expires_at"], "a step-up → the session's absolute expiry stays")
    case.same((2, 1, 2), broker.row(session, "token_version, fence, grant_version"), "a step-up → raises the versions of tokens and grant, and the fence")
    again = login.forward()
    case.same(("200", answer.json["authenticated_at"]), (told(again), again.json["authenticated_at"]), "a step-up has succeeded, and the app repeats the forward → 200 with the time of the step-up")
    case.same(tokens + 1, sandbox.calls("oidc/token"), "a step-up has succeeded, and the app repeats the forward → the code is sent to the provider only once")
    case.verdict(wait_for(20, lambda: sandbox.calls("oidc/revoke") == A_PAIR), "a step-up → the old grant is revoked")
    case.same(200, broker.refresh(session).status, "a refresh after the step-up → 200")
    after = broker.look(session).json
    case.same(("phr", answer.json["authenticated_at"]), (after["acr"], after["authenticated_at"]), "a refresh after the step-up → acr and time of the sign-in stay")
    case.same(1.0, broker.metric("coatcheck_logins_total", result="stepped_up"), "one step-up → the metric of step-ups is 1")

    sandbox.fault("oidc", fault="no-refresh-token", times=1)
    revoked = sandbox.calls("oidc/revoke")
    kept = step_up(broker, session, MFA)
    case.same(("200", "mfa", True), (told(kept), kept.json["acr"], kept.json["tokens"]["refreshable"]), "a step-up without a new refresh token → 200, and the session stays refreshable")
    for _ in range(3):
        case.same(200, broker.refresh(session).status, "a refresh after a step-up without a new refresh token → 200")
    case.same("mfa", broker.look(session).json["acr"], "refreshes after a step-up without a new refresh token → the session keeps the new acr")
    time.sleep(2)
    case.same(revoked, sandbox.calls("oidc/revoke"), "a step-up without a new refresh token → no revocation")

    bearer = broker.sign_in(client="android")
    answer = Login(broker, bearer, MFA, bearer=True).sign_in().forward()
    case.same(("200", False), (told(answer), "session_token" in answer.json), "a step-up of a bearer session → 200, without a new session token")
    case.same(200, broker.call("GET", "/v1/session", Authorization=f"Bearer {bearer}").status, "a read of the bearer session with its token after the step-up → 200")


class Upstream:
    """An API that answers each request below /strict with a 401 and a step-up challenge (RFC 9470)."""

    def __init__(self):
        upstream = self
        self.calls, self.challenge = [], 'Bearer error="insufficient_user_authentication", acr_values="mfa", max_age="0"'

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                upstream.calls.append((self.command, self.path, self.headers["Authorization"]))
                refuses = self.path.startswith("/strict")
                body = b"{}"
                self.send_response(401 if refuses else 200)
                if refuses:
                    self.send_header("WWW-Authenticate", upstream.challenge)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_POST = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


def requirements(case):
    """Calls that need a stronger sign-in. The broker refuses them with the demand, and serves them after a step-up."""
    sandbox, upstream = Sandbox(case), Upstream()
    broker = Broker(case, sandbox, settings={
        "providers": {"oidc": {"clients": {"ios": {"children": {"widget": {"upstreams": ["api"], "backends": ["orders"]}}}}}},
        "upstreams": {
            "api": {
                "base_url": upstream.url, "provider": "oidc", "allow": ["ANY /**"],
                "require": [{"allow": "POST /payments/**", "acr": ["mfa", "phr"]}, {"allow": "ANY /payments/*", "max_age": "5m"}]},
            "foreign": {"base_url": upstream.url, "provider": "oidc", "allow": ["GET /**"], "challenges": "off"},
            "plain": {"base_url": upstream.url, "provider": "oauth2", "allow": ["GET /**"]}}})
    gate = {"X_Coatcheck_Backend": BACKEND}
    session = broker.sign_in(sandbox_auth_age=1000)

    def relay(path="/payments/1", method="POST", session=session, upstream="api", **more):
        return broker.call(method, f"/v1/relay/{upstream}{path}", session, **more)

    def forward_auth(query="", session=session, **more):
        return broker.call("GET", f"/v1/forward-auth{query}", session, **gate, **more)

    refused = relay()
    case.same("401 step_up_required", told(refused), "a relayed call that needs a stronger sign-in → step_up_required")
    case.same({"acr_values": "mfa phr", "max_age": 300}, refused.json["step_up"], "a relayed call that needs a step-up → the refusal has the demanded acr values and age")
    case.same(
        'Bearer error="insufficient_user_authentication", acr_values="mfa phr", max_age="300"', refused.fields["WWW-Authenticate"], "a relayed call that needs a step-up → the refusal has the challenge of RFC 9470")
    case.verdict(not refused.fields["Set-Cookie"], "a relayed call that needs a step-up → the cookie stays")
    case.same("broker", refused.fields["Coatcheck-Source"], "a relayed call that needs a step-up → the refusal comes from the broker")
    case.same("401 step_up_required", told(relay("/p%61yments/1")), "a relayed call to a path that needs a step-up, with an escaped letter → step_up_required")
    case.same({"max_age": 300}, relay(method="GET").json["step_up"], "a relayed GET to a path whose POST demands more → refused with the GET's own demand")
    case.same(0, len(upstream.calls), "relayed calls refused for a step-up → zero calls at the upstream")
    case.same(200, relay("/accounts", "GET").status, "a relayed call to a path without a demand → 200")
    for query in ["?acr=mfa&acr=pwd", "?max_age=5", "?max_age=x", "?acr=", "?level=2", "?acr=a%22b", "?max_age=300&presence=1"]:
        case.same("403 backend_not_allowed", told(forward_auth(query)), f"forward-auth with the query {query} → 403 backend_not_allowed")
    case.same("401 step_up_required", told(forward_auth("?acr=mfa")), "forward-auth that demands an acr that the session lacks → step_up_required")
    passed = forward_auth("?acr=pwd&max_age=3600")
    case.same((200, "pwd"), (passed.status, passed.fields["X-Auth-Acr"]), "forward-auth demands an acr and an age, and the session meets both → 200 with the session's acr")
    other = broker.sign_in(provider="oauth2")
    passed = forward_auth(session=other)
    case.same((200, "", ""), (passed.status, passed.fields["X-Auth-Acr"], passed.fields["X-Auth-Time"]), "forward-auth of a session without acr and time of the sign-in → 200, with empty fields for both")
    refused = forward_auth("?max_age=300", session=other)
    case.same("403 step_up_failed", told(refused), "forward-auth that demands an age, for a session whose provider cannot step up → step_up_failed, so that the app opens no browser")
    told_of = broker.call("POST", "/v1/introspect", body=f"token={session}", Content_Type="application/x-www-form-urlencoded", **gate).json
    case.same("pwd", told_of["acr"], "introspection of a session → has the acr of the sign-in")
    case.verdict(abs(told_of["auth_time"] + 1000 - time.time()) < 60, "introspection of a session → has the time of the sign-in")
    broker.configure(backends={"orders": {"require": {"acr": ["mfa"], "max_age": "5m"}}})
    broker.restart()
    case.same("401 step_up_required", told(forward_auth()), "a backend's configuration has `require`, and its forward-auth demands nothing itself → step_up_required")
    refused = broker.exchange(session)
    case.same(
        (400, "insufficient_user_authentication", "mfa", 300), (refused.status, *(refused.json.get(n) for n in ("error", "acr_values", "max_age"))), "a backend's configuration has `require`, and the session is too weak → a token exchange is refused with this demand")
    made = broker.call("POST", "/v1/session/children", session, {"kind": "widget", "name": "home"}).json["session_token"]

    # An upstream answers with its own step-up challenge.
    before = sandbox.calls("oidc/refresh")
    refused = relay("/strict", "GET")
    case.same(("401 step_up_required", {"acr_values": "mfa", "max_age": 0}), (told(refused), refused.json.get("step_up")), "an upstream answers with its own step-up challenge → step_up_required with the upstream's demand")
    case.same(before, sandbox.calls("oidc/refresh"), "an upstream answers with its own step-up challenge → no refresh")
    case.same(("401", "upstream"), (str(relay("/strict", "GET", upstream="foreign").status), relay("/strict", "GET", upstream="foreign").fields["Coatcheck-Source"]), "an upstream with `challenges: off` answers with a step-up challenge → the app gets the upstream's 401")

    case.same("200", told(step_up(broker, session, {"step_up": {"acr_values": "mfa", "max_age": 300}})), "the user steps up with the acr and age that the calls demand → 200")
    case.same(200, relay().status, "a relayed call that needs an acr and an age, after the step-up → 200")
    case.same(200, forward_auth("?acr=mfa&max_age=300").status, "forward-auth that demands an acr and an age, after the step-up → 200")
    case.same(200, broker.exchange(session).status, "token exchange of a backend with `require`, after the step-up → 200")
    refused = relay("/strict", "GET")
    case.same("403 step_up_failed upstream", told(refused), "an upstream demands an acr that the session already has → step_up_failed with the reason upstream")
    refused = relay(session=None, Authorization=f"Bearer {made}")
    case.same(("401 step_up_required", True), (told(refused), refused.json.get("parent")), "a child session was made before its parent's step-up, and makes a relay call → still refused, and the answer has `parent`")
    made = broker.call("POST", "/v1/session/children", session, {"kind": "widget", "name": "home"}).json["session_token"]
    case.same(200, relay(session=None, Authorization=f"Bearer {made}").status, "a child session was made after its parent's step-up, and makes a relay call → 200")


CASES = {
    "requirements": (requirements, 120),
    "refusals": (refusals, 120),
    "acceptances": (acceptances, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
