"""Sessions that belong to a key of the device. The cases show the worth of a copied cookie, a stolen callback or a replayed
proof, and the needs of an honest phone. Refusals before acceptances.
"""

import http.client
import http.server
import json
import re
import signal
import subprocess
import threading
import time
import urllib.parse

from support.dpop import Phone, encoded
from support.harness import ADMIN, BACKEND, Broker, Clock, Database, Sandbox, call, main, wait_for

ENFORCE = {"mode": "enforce"}
FORM = "application/x-www-form-urlencoded"


def bound(case, sandbox, binding=None, **more):
    """A broker whose clients have this `binding`."""
    settings = {"providers": {"oidc": {"clients": {
        name: {"binding": binding or ENFORCE} for name in ("ios", "android")}}}}
    return Broker(case, sandbox, settings=settings, **more)


def told(answer):
    found = answer.json
    return " ".join(filter(None, [str(answer.status), found.get("code"), found.get("reason")]))


def is_evidence_wanted(case, answer, code, sentence):
    """A 401 that requires evidence: its code twice, a nonce, a challenge, and no change of the cookie."""
    case.same(f"401 {code}", told(answer), sentence)
    case.verdict(
        re.fullmatch(r"[A-Za-z0-9_-]{16}", answer.fields["DPoP-Nonce"] or "") and answer.fields["Coatcheck-Code"] == code.split()[0]
        and (answer.fields["WWW-Authenticate"] or "").startswith("DPoP error=") and not answer.fields["Set-Cookie"],
        f"{sentence}: nonce, code and challenge, and no cookie is cleared", str(answer.fields))


def sign_ins(case):
    """Sign-ins of a client that has to prove a key."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox)
    phone = Phone(broker)
    body = {"provider": "oidc", "client": "ios"}
    is_evidence_wanted(case, broker.call("POST", "/v1/logins", body=body), "proof_required", "a login without a proof")
    is_evidence_wanted(
        case, broker.call("POST", "/v1/logins", body=body, DPoP=phone.proof("POST", "/v1/logins")), "use_dpop_nonce", "a proof without a nonce")
    answer = phone.call("POST", "/v1/logins", body=body, retry=False)
    case.same("401 use_dpop_nonce", told(answer), "a proof with no nonce of ours")
    other = Phone(broker)
    wrong = {
        "malformed": [
            "x.y", "", phone.proof("POST", "/v1/logins", header={"typ": "JWT"}), phone.proof("POST", "/v1/logins", jti=None),
            phone.proof("POST", "/v1/logins", jti="a" * 129), phone.proof("POST", "/v1/logins", iat="now"),
            phone.proof("POST", "/v1/logins", htu=None), phone.proof("POST", "/v1/logins", header={"crit": ["b64"]}),
            phone.proof("POST", "/v1/logins", header={"jwk": phone.jwk | {"d": "AA"}}),
            phone.proof("POST", "/v1/logins", header={"jwk": phone.jwk | {"crv": "P-384"}}),
            phone.proof("POST", "/v1/logins", header={"jwk": None}),
            phone.proof("POST", "/v1/logins", x="a" * 4096)],
        "algorithm": [phone.proof("POST", "/v1/logins", header={"alg": name}) for name in ("none", "RS256", "HS256", "ES384")],
        "method": [phone.proof("GET", "/v1/logins"), phone.proof("post", "/v1/logins")],
        "address": [
            phone.proof("POST", "/v1/sessions"), phone.proof("POST", "/v1/logins/"),
            phone.proof("POST", "", htu=f"https://elsewhere.example{'/v1/logins'}"),
            phone.proof("POST", "", htu=broker.url.replace("http:", "https:") + "/v1/logins")],
        "signature": [
            phone.proof("POST", "/v1/logins", header={"jwk": other.jwk}), phone.proof("POST", "/v1/logins")[:-4] + "AAAA",
            phone.proof("POST", "/v1/logins", header={"jwk": phone.jwk | {"y": encoded(bytes(31) + b"\1")}})],
    }
    for reason, proofs in wrong.items():
        answers = [broker.call("POST", "/v1/logins", body=body, DPoP=proof) for proof in proofs]
        case.same({f"401 proof_invalid {reason}"}, set(map(told, answers)), f"{len(proofs)} proofs that are refused by {reason}")
    case.same(0, broker.query("SELECT count(*) FROM logins")[0][0], "no row was made for any of them")
    good = phone.proof("POST", "/v1/logins")
    first = broker.call("POST", "/v1/logins", body=body, DPoP=good)
    case.same(201, first.status, "a login with a good proof")
    is_evidence_wanted(case, broker.call("POST", "/v1/logins", body=body, DPoP=good), "proof_invalid replayed", "the same proof again")

    # The bound login.
    begun, fields = phone.begin()
    callback = phone.callback(begun)
    is_evidence_wanted(
        case, broker.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields), "proof_required", "its forward without a proof")
    is_evidence_wanted(
        case, phone.call("POST", "/v1/sessions", body={"callback_url": callback}, retry=False, proof=False, DPoP=phone.proof(
            "POST", "/v1/sessions", header={"jwk": other.jwk}), **fields), "proof_invalid signature", "its forward with a broken proof")
    calls = sandbox.calls("oidc/token")
    answer = phone.forward(callback, fields)
    case.same("201", told(answer), "none of these burned it: its own key has the session")
    case.same(calls + 1, sandbox.calls("oidc/token"), "with one token call")
    session = answer.json
    case.same({"jkt": phone.thumbprint, "evidence": "pass"}, session.get("binding"), "the session says its key")
    case.verdict(590 <= session["pass"]["expires_in"] <= 600 and "pass" not in session["pass"], "and when its pass ends", str(session.get("pass")))
    again = phone.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields)
    case.same((201, session["handle"]), (again.status, again.json.get("handle")), "the answer is repeated to the same key")
    other.nonce = phone.nonce
    case.same(
        "403 login_not_yours", told(other.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields)), "and to no other")
    case.same(200, phone.call("GET", "/v1/session", phone.session).status, "which ends nothing")

    # Stolen: login token and callback, before their owner.
    begun, fields = phone.begin()
    callback = phone.callback(begun)
    case.same("403 login_not_yours", told(other.forward(callback, fields)), "a thief's own key, with login token and callback")
    case.same(None, other.session, "makes no session")
    case.same("400 state_mismatch", told(phone.forward(callback, fields)), "and the login is burned")
    case.same(calls + 1, sandbox.calls("oidc/token"), "without a token call")

    # Flow B.
    verifier = "v" * 43
    flow = {"provider": "oidc", "client": "ios", "code": "nobody-made-this-code", "code_verifier": verifier, "login_token": "t" * 43}
    is_evidence_wanted(case, broker.call("POST", "/v1/sessions", body=flow), "proof_required", "a login that the app started, without a proof")
    case.same(calls + 1, sandbox.calls("oidc/token"), "spends nothing")


def every_route(case):
    """A copied cookie, on every route that takes a session."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox)
    broker.configure(upstreams={"api": {"base_url": sandbox.url + "/oidc", "provider": "oidc", "allow": ["ANY /**"]}})
    broker.restart()
    phone = Phone(broker)
    case.same(201, phone.sign_in().status, "a bound session")
    routes = [
        ("GET", "/v1/session"), ("POST", "/v1/session/pass"), ("POST", "/v1/session/token"), ("POST", "/v1/session/refresh"),
        ("GET", "/v1/session/events"), ("GET", "/v1/sessions"), ("DELETE", "/v1/sessions?except=current"),
        ("DELETE", "/v1/sessions/ses_" + "A" * 22), ("GET", "/v1/relay/api/userinfo"), ("POST", "/v1/relay/api/userinfo")]
    for method, path in routes:
        answer = broker.call(method, path, phone.session)
        is_evidence_wanted(case, answer, "proof_required", f"{method} {path}")
        bearer = broker.call(method, path, Authorization=f"DPoP {phone.session}")
        case.same("401 proof_required", told(bearer), f"{method} {path} by Authorization: DPoP, which is no evidence")
    thief = Phone(broker)
    thief.nonce = phone.nonce
    for method, path in routes:
        answer = thief.call(method, path, phone.session)
        case.same("401 proof_invalid key", told(answer), f"{method} {path} with the thief's own key")
    case.same("401 proof_invalid token", told(broker.call(
        "GET", "/v1/session", phone.session, DPoP=phone.proof("GET", "/v1/session", "another-token"))), "a proof of another session token")
    case.same("401 proof_invalid token", told(broker.call(
        "GET", "/v1/session", phone.session, DPoP=phone.proof("GET", "/v1/session"))), "and one of none")
    for method, path in [("POST", "/v1/session/pass"), ("POST", "/v1/session/token")]:
        case.same("401 proof_required", told(phone.passing(method, path)), f"{method} {path} with a pass: what it gives outlives one")
    log_out = broker.call("DELETE", "/v1/session?logout_url=true", phone.session)
    case.same((200, None), (log_out.status, log_out.json.get("logout_url")), "an ending needs no proof, and tells a thief no log-out page")
    case.same("401 session_ended logged_out", told(phone.call("GET", "/v1/session", phone.session)), "it has ended")


def passes(case):
    """Passes: for some minutes the evidence of a key that was proved."""
    sandbox = Sandbox(case)
    clock = Clock(case)
    broker = bound(case, sandbox, clock=clock)
    phone, other = Phone(broker), Phone(broker)
    phone.sign_in()
    other.sign_in("bob")
    case.same("401 proof_invalid pass", told(phone.passing("GET", "/v1/session", held=other.held_pass)), "another session's pass")
    case.same("401 proof_invalid pass", told(phone.passing("GET", "/v1/session", held="A" * 32)), "an invented one")
    case.same("400 invalid_request", told(phone.passing("GET", "/v1/session", Coatcheck_Pass=other.held_pass)), "two that differ")
    case.same(200, phone.passing("GET", "/v1/session").status, "its own, by cookie")
    case.same(200, broker.call("GET", "/v1/session", phone.session, Coatcheck_Pass=phone.held_pass).status, "or by field")
    case.same(
        "401 proof_invalid method", told(phone.passing("GET", "/v1/session", DPoP=phone.proof("POST", "/v1/session", phone.session))),
        "where both are there, the proof decides")
    clock.set(wall=601, monotonic=601)
    is_evidence_wanted(case, phone.passing("GET", "/v1/session"), "proof_required", "a pass that has ended is as none")
    renewed = phone.call("POST", "/v1/session/pass", phone.session)
    case.same((200, 600), (renewed.status, renewed.json.get("expires_in")), "a proof brings a new one")
    phone.held_pass = re.search(r"coatcheck-pass=([^;]+)", renewed.fields["Set-Cookie"])[1]
    case.same(200, phone.passing("GET", "/v1/session").status, "which opens the session")
    case.same(200, phone.call("GET", "/v1/session", phone.session).status, "as a proof does")
    broker.restart()
    case.same(200, phone.passing("GET", "/v1/session").status, "a restart ends none")
    out = phone.passing("DELETE", "/v1/session")
    case.same(
        2, sum("Max-Age=0" in field for field in out.fields.get_all("Set-Cookie") or []), "a log-out clears both cookies")
    broker.configure(
        providers={"oidc": {"clients": {"ios": {"binding": {"mode": "enforce", "evidence": "proof"}}}}}, backends={"orders": {"original_request": True}})
    broker.restart()
    answer = phone.sign_in()
    case.same((201, None), (answer.status, answer.json.get("pass")), "a client whose evidence is a proof gets none")
    case.same("403 client_not_allowed", told(phone.call("POST", "/v1/session/pass", phone.session)), "nor by asking")
    case.same("401 proof_required", told(other.passing("GET", "/v1/session")), "and none of before counts for it")


def clocks(case):
    """The phones' clocks are a day off; the nonces are the broker's."""
    sandbox = Sandbox(case)
    clock = Clock(case)
    broker = bound(case, sandbox, clock=clock)
    for hours in (-24, 24, -24 * 365 * 50):
        case.same(201, Phone(broker, clock=hours * 3600).sign_in().status, f"a phone whose clock is {hours} hours off signs in")
    phone = Phone(broker)
    phone.sign_in()
    clock.set(wall=310, monotonic=310)
    answer = phone.call("GET", "/v1/session", phone.session, retry=False)
    case.verdict(answer.status == 200 and answer.fields["DPoP-Nonce"], "an aging nonce is taken, and the answer brings a new one", told(answer))
    stale = Phone(broker)
    stale.key, stale.nonce = phone.key, None
    stale.call("GET", "/v1/session", phone.session)
    clock.set(wall=1000, monotonic=1000)
    answer = stale.call("GET", "/v1/session", phone.session, retry=False)
    case.same("401 use_dpop_nonce", told(answer), "one of long ago is not")
    case.same(200, stale.call("GET", "/v1/session", phone.session).status, "and one repeat is enough")


def restarts(case):
    """A proof for a change is accepted once, also over a restart of a broker that has no shared memory."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox)
    phone = Phone(broker)
    phone.sign_in()
    phone.call("POST", "/v1/session/refresh", phone.session)
    caught = phone.proof("POST", "/v1/session/refresh", phone.session)
    case.same(200, broker.call("POST", "/v1/session/refresh", phone.session, DPoP=caught).status, "a proof is taken")
    case.same("401 proof_invalid replayed", told(broker.call("POST", "/v1/session/refresh", phone.session, DPoP=caught)), "once")
    broker.restart()
    case.same("401 use_dpop_nonce", told(broker.call("POST", "/v1/session/refresh", phone.session, DPoP=caught)), "not after a restart either")
    case.same(200, phone.call("POST", "/v1/session/refresh", phone.session).status, "its phone goes on with the nonce that the refusal brings")
    many = [broker.call("GET", "/v1/session", phone.session, DPoP=phone.proof("GET", "/v1/session", phone.session, jti="once")) for _ in range(3)]
    case.same(["200", "401 proof_invalid replayed", "401 proof_invalid replayed"], [f"{a.status}" if a.status == 200 else told(a) for a in many], "a jti is one")
    racing = phone.proof("POST", "/v1/session/refresh", phone.session)
    answers = [case.beside(lambda: broker.call("POST", "/v1/session/refresh", phone.session, DPoP=racing)) for _ in range(16)]
    found = [told(answer.result(30)) for answer in answers]
    case.same(1, sum(word.startswith("200") for word in found), "of sixteen at once one is taken")


def observing(case):
    """`observe` only counts the requests that `enforce` would refuse."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox, {"mode": "observe"})

    def counted(result):
        return broker.metric("coatcheck_proofs_total", provider="oidc", client="ios", result=result)

    case.verdict('result="replayed"' in call(broker.management + "/metrics").body.decode(), "every result is there from the start")
    session = broker.sign_in()
    case.same(2.0, counted("proof_required"), "an old app's two requests are counted")
    case.same(200, broker.look(session).status, "and its session is as ever")
    phone = Phone(broker)
    begun, fields = phone.begin(retry=False)
    case.same((201, 1.0), (begun.status, counted("use_dpop_nonce")), "a proof without a nonce passes, and is counted")
    case.verdict(phone.nonce, "and its 201 brings the nonce")
    answer = phone.forward(phone.callback(begun), fields, retry=False)
    case.same((201, None, 1.0), (answer.status, answer.json.get("binding"), counted("accepted")), "a good one is accepted, and binds nothing")
    case.same(201, phone.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios"}, proof=False, DPoP="junk").status, "a broken one passes, too")
    case.same(1.0, counted("malformed"), "and is counted by its reason")
    broker.configure(providers={"oidc": {"clients": {"ios": {"binding": ENFORCE}}}})
    broker.restart()
    case.same(200, broker.look(session).status, "unbound sessions of before live on under enforce")
    phone.sign_in("bob")
    broker.configure(providers={"oidc": {"clients": {"ios": {"binding": {"mode": "off"}}}}})
    broker.restart()
    case.same("401 proof_required", told(broker.look(phone.session)), "what is bound is judged in every mode")
    case.same(200, phone.call("GET", "/v1/session", phone.session).status, "and opened by its key")
    case.same(None, Phone(broker).sign_in().json.get("binding"), "with the mode off no session becomes bound")
    listed = broker.call("GET", "/v1/providers").json["items"][0]["clients"][0]
    case.same({"mode": "off", "evidence": "pass"}, listed.get("binding"), "apps can see their client's mode")


def operators(case):
    """Operators list and end the sessions that belong to no key."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox, {"mode": "off"})
    unbound = [broker.sign_in(user) for user in ("ana", "ben", "eva")]
    broker.configure(providers={"oidc": {"clients": {"ios": {"binding": ENFORCE}}}})
    broker.restart()
    phone = Phone(broker)
    case.same(201, phone.sign_in("bob").status, "three sessions of before, and a bound one")

    def listed(filters=""):
        return call(f"{broker.management}/admin/v1/sessions?provider=oidc{filters}", Authorization=f"Bearer {ADMIN}")

    token = case.folder / "admin"
    token.write_text(ADMIN)

    def sessions(verb, *more):
        return subprocess.run(
            [broker.program, "sessions", verb, "--management", broker.management, "--token-file", token, *more],
            capture_output=True, text=True, timeout=30)

    case.same(4, len(listed().json["items"]), "all are listed")
    bindings = [item["binding"] for item in listed("&binding=none").json["items"]]
    case.same([None] * 3, bindings, "binding=none lists those without a key")
    case.same(400, listed("&binding=pass").status, "no other word is taken")
    refused = sessions("end", "--provider", "oidc", "--unbound")
    case.verdict(refused.returncode == 64 and "--all" in refused.stderr, "the command wants --all", refused.stderr)
    case.same(3, len(sessions("list", "--unbound", "--no-header").stdout.splitlines()), "sessions list --unbound")
    rows = [line.split("\t") for line in sessions("list").stdout.splitlines()]
    columns = "HANDLE PROVIDER CLIENT CREATED_AT LAST_USED_AT SUBJECT SENDER_CONSTRAINED KEY KIND PARENT".split()
    case.same(columns, rows[0], "sessions list names its columns")
    case.same(
        sorted([[phone.thumbprint, "-", "-"]] + [["-"] * 3] * 3), sorted(row[7:] for row in rows[1:]),
        "and prints each session's key, kind and parent")
    case.same("ended 3", sessions("end", "--provider", "oidc", "--client", "ios", "--unbound", "--all").stdout.strip(), "sessions end --unbound")
    case.same(["401 session_ended admin"] * 3, [told(broker.look(session)) for session in unbound], "they have ended, by an operator")
    case.same(200, phone.call("GET", "/v1/session", phone.session).status, "and the bound one lives")
    case.same([("oidc/ios/unbound",)], broker.query("SELECT target FROM audit WHERE action = 'end_sessions'"), "it is on record")


def backends(case):
    """Backends pass on the app's evidence, and proxies the request that it belongs to (W6)."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox)
    broker.configure(backends={
        "orders": {"original_request": True, "origins": ["https://app.example.com"]},
        "own": {"sha256": __import__("hashlib").sha256(b"own-credential").hexdigest(), "may": ["introspect"], "evidence": "own"}})
    broker.restart()
    phone = Phone(broker)
    phone.sign_in()

    def ask(path, credential=BACKEND, **form):
        return broker.call("POST", path, body=urllib.parse.urlencode(form), X_Coatcheck_Backend=credential, Content_Type=FORM)

    exchange = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": phone.session,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    answer = ask("/v1/introspect", token=phone.session)
    case.same((200, {"active": False, "code": "proof_required"}), (answer.status, answer.json), "introspection without evidence says so, and nothing of the session")
    case.verdict(answer.fields["DPoP-Nonce"], "and brings a nonce")
    answer = ask("/v1/token", **exchange)
    case.same((400, "invalid_grant", "proof_required"), (answer.status, answer.json.get("error"), answer.json.get("code")), "token exchange, too")
    case.verdict(answer.fields["DPoP-Nonce"], "with a nonce")
    case.same(
        {"active": False, "code": "proof_invalid", "reason": "pass"}, ask("/v1/introspect", token=phone.session, **{"pass": "A" * 32}).json, "a pass that is not ours")
    answer = ask("/v1/introspect", token=phone.session, **{"pass": phone.held_pass}).json
    case.same(
        (True, "DPoP", {"jkt": phone.thumbprint}), (answer.get("active"), answer.get("token_type"), answer.get("cnf")), "with the pass it is told, with its key")
    case.same(200, ask("/v1/token", **exchange, **{"pass": phone.held_pass}).status, "and exchanged")
    phone.call("GET", "/v1/session", phone.session)
    address = "https://orders.example.com/orders/7"
    proof = phone.proof("GET", "", phone.session, htu=address)
    form = {"token": phone.session, "dpop": proof, "htm": "GET", "htu": address}
    case.same("address", ask("/v1/introspect", **form | {"htu": address + "8"}).json.get("reason"), "a proof of another address")
    case.same("method", ask("/v1/introspect", **form | {"htm": "POST"}).json.get("reason"), "of another method")
    case.same(400, ask("/v1/introspect", **{k: v for k, v in form.items() if k != "htm"}).status, "a proof without its method is 400")
    case.same(True, ask("/v1/introspect", **form).json.get("active"), "a good one")
    case.same("replayed", ask("/v1/introspect", **form).json.get("reason"), "once")
    case.same({"jkt": phone.thumbprint}, ask("/v1/introspect", "own-credential", token=phone.session).json.get("cnf"), "a backend that checks proofs itself gets the key")

    def gate(**fields):
        return broker.call("GET", "/v1/forward-auth", phone.session, X_Coatcheck_Backend=BACKEND, **fields)

    is_evidence_wanted(case, gate(), "proof_required", "forward-auth without evidence")
    case.same(200, gate(Coatcheck_Pass=phone.held_pass).status, "with the pass as the app sent it")
    address = "https://app.example.com/orders?page=2"

    def proved(htu=address.split("?")[0], method="GET"):
        return phone.proof(method, "", phone.session, htu=htu)

    case.same("401 proof_required", told(gate(DPoP=proved(), X_Original_Method="GET")), "a proof whose address the proxy does not say is as none")
    case.same("401 proof_invalid address", told(gate(DPoP=proved(), X_Original_Method="GET", X_Original_URL="https://app.example.com/transfer")), "another address")
    case.same("401 proof_invalid method", told(gate(DPoP=proved(), X_Original_Method="POST", X_Original_URL=address)), "another method")
    case.same("401 proof_invalid address", told(gate(
        DPoP=proved("https://evil.example/orders"), X_Original_Method="GET", X_Original_URL="https://evil.example/orders")), "an origin that is not listed")
    case.same("400 invalid_request", told(gate(
        DPoP=proved(), X_Original_Method="GET", X_Original_URL=address, X_Forwarded_Method="GET", X_Forwarded_Proto="https",
        X_Forwarded_Host="app.example.com", X_Forwarded_Uri="/transfer")), "two sorts that differ")
    case.same("400 invalid_request", told(gate(
        Coatcheck_Pass=phone.held_pass, X_Original_Method="GET", X_Original_URL=address, X_Forwarded_Method="POST",
        X_Forwarded_Proto="https", X_Forwarded_Host="app.example.com", X_Forwarded_Uri="/orders")), "beside a pass as well")
    case.same(200, gate(DPoP=proved(), X_Original_Method="GET", X_Original_URL=address).status, "X-Original-*")
    case.same(200, gate(
        DPoP=proved(), X_Forwarded_Method="GET", X_Forwarded_Proto="https", X_Forwarded_Host="app.example.com", X_Forwarded_Uri="/orders?page=3").status, "X-Forwarded-*")
    case.same("401 proof_required", told(gate(DPoP="", X_Original_Method="GET", X_Original_URL=address)).replace("proof_invalid malformed", "proof_required"), "an empty proof is none")


def streams(case):
    """An event stream, also a relayed one, ends cleanly with the pass that opened it. If a proof opened it, it lives on."""
    sandbox = Sandbox(case)

    class Upstream(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        broken_off = []

        def do_GET(self):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream; charset=utf-8" if self.path == "/events" else "text/plain")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"4\r\n: a\n\r\n")
                    time.sleep(0.5)
            except OSError:
                self.broken_off.append(self.path)

        def log_message(self, *arguments):
            pass

    upstream = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Upstream)
    threading.Thread(target=upstream.serve_forever, daemon=True).start()
    broker = bound(case, sandbox, {"mode": "enforce", "pass": "60s"}, start=False)
    broker.configure(upstreams={
        "far": {"base_url": f"http://127.0.0.1:{upstream.server_port}", "provider": "oidc", "allow": ["GET /**"]}})
    broker.start()
    phone = Phone(broker)
    phone.sign_in()

    def listen(path="/v1/session/events", **fields):
        connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=90)
        connection.request("GET", path, headers=fields | {"Host": f"127.0.0.1:{broker.port}"})
        return connection.getresponse()

    begun = time.monotonic()
    by_pass = listen(Cookie=f"coatcheck={phone.session}; coatcheck-pass={phone.held_pass}")
    phone.call("GET", "/v1/session", phone.session)
    by_proof = listen(Cookie=f"coatcheck={phone.session}", DPoP=phone.proof("GET", "/v1/session/events", phone.session))
    case.same((200, 200), (by_pass.status, by_proof.status), "two streams")
    both = {"Cookie": f"coatcheck={phone.session}; coatcheck-pass={phone.held_pass}"}
    relayed = case.beside(listen("/v1/relay/far/events", **both).read)
    download, far_by_proof = listen("/v1/relay/far/download", **both), listen(
        "/v1/relay/far/events", Cookie=f"coatcheck={phone.session}", DPoP=phone.proof("GET", "/v1/relay/far/events", phone.session))
    whole = by_pass.read().decode()
    took = time.monotonic() - begun
    case.verdict(40 < took < 75, "the one of the pass ends with the pass", f"{took:.1f} s")
    case.verdict("event: session\n" in whole and "session_ended" not in whole, "whole, and without a session_ended", whole[-200:])
    far = relayed.result(timeout=20)
    case.verdict(
        len(far) > 200 and not len(far) % 4 and time.monotonic() - begun < 80, "a relayed one that the pass opened ends with it, whole", str(len(far)))
    case.verdict(wait_for(10, lambda: Upstream.broken_off == ["/events"]), "and is no longer read from its upstream", str(Upstream.broken_off))
    case.verdict(download.read1(4) and far_by_proof.read1(4), "a download that the pass opened goes on, and a relayed stream that a proof opened")
    phone.call("DELETE", "/v1/session", phone.session)
    case.verdict("logged_out" in by_proof.read().decode(), "the one of the proof hears the log-out")


def replicas(case):
    """Three replicas: a nonce of any replica is good at each, and a proof for a change is accepted once over all (W3)."""
    sandbox = Sandbox(case)
    with Database() as database:
        first = bound(case, sandbox, name="one", start=False)
        first.configure(store={"url": database.url()})
        first.start()
        brokers = [first]
        for name in ("two", "three"):
            broker = bound(case, sandbox, name=name, like=first, start=False)
            broker.configure(store={"url": database.url()}, server={"public_url": first.url})
            broker.start()
            brokers.append(broker)
        phone = Phone(first)
        phone.sign_in()
        for broker in brokers[1:]:
            answer = broker.call("GET", "/v1/session", phone.session, DPoP=phone.proof("GET", "/v1/session", phone.session))
            case.same(200, answer.status, f"the first one's nonce is good at {broker.name}")
            case.same(200, broker.call("GET", "/v1/session", phone.session, Coatcheck_Pass=phone.held_pass).status, f"and its pass at {broker.name}")
        for round in range(10):
            racing = phone.proof("POST", "/v1/session/refresh", phone.session)
            answers = [case.beside(broker.call, "POST", "/v1/session/refresh", phone.session, None) if False else case.beside(
                lambda broker=broker: broker.call("POST", "/v1/session/refresh", phone.session, DPoP=racing)) for broker in brokers * 3]
            found = [told(answer.result(30)) for answer in answers]
            good = sum(word.startswith("200") for word in found)
            if good != 1 or set(word for word in found if not word.startswith("200")) != {"401 proof_invalid replayed"}:
                case.verdict(False, "one proof that changes something, nine times at once at three replicas, is taken once", str(found))
                break
        else:
            case.verdict(True, "one proof that changes something, nine times at once at three replicas, is taken once, ten rounds")
        answer = brokers[1].log_out(phone.session)
        case.same(204, answer.status, "an ending at one")
        ended = wait_for(6, lambda: told(brokers[2].call(
            "GET", "/v1/session", phone.session, Coatcheck_Pass=phone.held_pass)).startswith("401 session_ended"))
        case.verdict(ended, "ends its passes at every other")


CASES = {
    "sign_ins": (sign_ins, 180), "every_route": (every_route, 120), "passes": (passes, 120), "clocks": (clocks, 120),
    "restarts": (restarts, 120), "observing": (observing, 120), "operators": (operators, 120), "backends": (backends, 120), "streams": (streams, 180),
    "replicas": (replicas, 240),
}

if __name__ == "__main__":
    main(CASES, __doc__)
