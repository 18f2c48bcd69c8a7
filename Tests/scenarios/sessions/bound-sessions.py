"""Bound sessions, which belong to a key of the device. The cases show that a copied cookie, a stolen callback or a replayed
proof is useless.
"""

import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.bound_broker import ENFORCE, bound, is_evidence_wanted, told  # noqa: E402
from support.broker import ADMIN  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.dpop import Phone, encoded  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402


def sign_ins(case):
    """Sign-ins of a client with `binding: {mode: enforce}`, which need proofs by a key."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox)
    phone = Phone(broker)
    body = {"provider": "oidc", "client": "ios"}
    is_evidence_wanted(case, broker.call("POST", "/v1/logins", body=body), "proof_required", "a login without a proof → proof_required")
    is_evidence_wanted(
        case, broker.call("POST", "/v1/logins", body=body, DPoP=phone.proof("POST", "/v1/logins")), "use_dpop_nonce", "a login with a proof that has no nonce → use_dpop_nonce")
    answer = phone.call("POST", "/v1/logins", body=body, retry=False)
    case.same("401 use_dpop_nonce", told(answer), "the phone's first login, before the phone has a nonce → use_dpop_nonce")
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
        case.same({f"401 proof_invalid {reason}"}, set(map(told, answers)), f"{len(proofs)} logins, each with a proof whose fault is {reason} → refused with the reason {reason}")
    case.same(0, broker.query("SELECT count(*) FROM logins")[0][0], "all logins are refused because of their proofs → the store has no login row")
    good = phone.proof("POST", "/v1/logins")
    first = broker.call("POST", "/v1/logins", body=body, DPoP=good)
    case.same(201, first.status, "a login with a good proof → 201")
    is_evidence_wanted(case, broker.call("POST", "/v1/logins", body=body, DPoP=good), "proof_invalid replayed", "a second login with the same proof → refused as replayed")

    # The forward of a bound login.
    begun, fields = phone.begin()
    callback = phone.callback(begun)
    is_evidence_wanted(
        case, broker.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields), "proof_required", "a bound login's forward without a proof → refused")
    is_evidence_wanted(
        case, phone.call("POST", "/v1/sessions", body={"callback_url": callback}, retry=False, proof=False, DPoP=phone.proof(
            "POST", "/v1/sessions", header={"jwk": other.jwk}), **fields), "proof_invalid signature", "a bound login's forward with a broken proof → refused")
    calls = sandbox.calls("oidc/token")
    answer = phone.forward(callback, fields)
    case.same("201", told(answer), "a bound login's forward with a proof by the login's own key, after two refused forwards → a session")
    case.same(calls + 1, sandbox.calls("oidc/token"), "a bound login with two refused forwards and a good one → one token call")
    session = answer.json
    case.same({"jkt": phone.thumbprint, "evidence": "pass"}, session.get("binding"), "a bound login's forward succeeds → the session in the answer names the key")
    case.verdict(590 <= session["pass"]["expires_in"] <= 600 and "pass" not in session["pass"], "a bound login's forward succeeds → the answer has the remaining time of the pass, but not the pass", str(session.get("pass")))
    again = phone.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields)
    case.same((201, session["handle"]), (again.status, again.json.get("handle")), "a bound login's forward, repeated by the same key → the same session")
    other.nonce = phone.nonce
    case.same(
        "403 login_not_yours", told(other.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields)), "a bound login's forward, repeated by another key → refused")
    case.same(200, phone.call("GET", "/v1/session", phone.session).status, "a bound login's forward was repeated by another key → the session lives")

    # A thief forwards with the stolen login token and callback before their owner does.
    begun, fields = phone.begin()
    callback = phone.callback(begun)
    case.same("403 login_not_yours", told(other.forward(callback, fields)), "a thief forwards a bound login's callback with the login token and a proof by the thief's key → refused")
    case.same(None, other.session, "a thief's forward of a bound login → no session")
    case.same("400 state_mismatch", told(phone.forward(callback, fields)), "a thief's forward of a bound login was refused, and then the owner forwards the callback → 400 state_mismatch, because the login is burnt")
    case.same(calls + 1, sandbox.calls("oidc/token"), "a thief's forward of a bound login, then the owner's → no token call")

    # Flow B: the app has started the login.
    verifier = "v" * 43
    flow = {"provider": "oidc", "client": "ios", "code": "nobody-made-this-code", "code_verifier": verifier, "login_token": "t" * 43}
    is_evidence_wanted(case, broker.call("POST", "/v1/sessions", body=flow), "proof_required", "a login that the app started, without a proof → proof_required")
    case.same(calls + 1, sandbox.calls("oidc/token"), "a login that the app started, without a proof → no token call")


def every_route(case):
    """A thief has a bound session's cookie, and tries each route that needs a session."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox)
    broker.configure(upstreams={"api": {"base_url": sandbox.url + "/oidc", "provider": "oidc", "allow": ["ANY /**"]}})
    broker.restart()
    phone = Phone(broker)
    case.same(201, phone.sign_in().status, "a phone signs in with a key → a bound session")
    routes = [
        ("GET", "/v1/session"), ("POST", "/v1/session/pass"), ("POST", "/v1/session/token"), ("POST", "/v1/session/refresh"),
        ("GET", "/v1/session/events"), ("GET", "/v1/sessions"), ("DELETE", "/v1/sessions?except=current"),
        ("DELETE", "/v1/sessions/ses_" + "A" * 22), ("GET", "/v1/relay/api/userinfo"), ("POST", "/v1/relay/api/userinfo")]
    for method, path in routes:
        answer = broker.call(method, path, phone.session)
        is_evidence_wanted(case, answer, "proof_required", f"{method} {path} with a copied cookie → proof_required")
        bearer = broker.call(method, path, Authorization=f"DPoP {phone.session}")
        case.same("401 proof_required", told(bearer), f"{method} {path} with Authorization: DPoP and no proof → refused")
    thief = Phone(broker)
    thief.nonce = phone.nonce
    for method, path in routes:
        answer = thief.call(method, path, phone.session)
        case.same("401 proof_invalid key", told(answer), f"{method} {path} with a copied cookie and a proof by the thief's key → refused")
    case.same("401 proof_invalid token", told(broker.call(
        "GET", "/v1/session", phone.session, DPoP=phone.proof("GET", "/v1/session", "another-token"))), "a bound session's request with a proof for another session's token → refused")
    case.same("401 proof_invalid token", told(broker.call(
        "GET", "/v1/session", phone.session, DPoP=phone.proof("GET", "/v1/session"))), "a bound session's request with a proof that lacks the session token's hash → refused")
    for method, path in [("POST", "/v1/session/pass"), ("POST", "/v1/session/token")]:
        case.same("401 proof_required", told(phone.passing(method, path)), f"{method} {path} with a pass in place of a proof → refused, because the result would be valid longer than a pass")
    log_out = broker.call("DELETE", "/v1/session?logout_url=true", phone.session)
    case.same((200, None), (log_out.status, log_out.json.get("logout_url")), "a bound session's log-out with logout_url=true, without a proof → 200, but no logout_url")
    case.same("401 session_ended logged_out", told(phone.call("GET", "/v1/session", phone.session)), "a bound session's log-out without a proof → the session has ended")


def clocks(case):
    """The phones' clocks are wrong by a day or more. Their proofs are accepted, because the broker's nonces date them."""
    sandbox = Sandbox(case)
    clock = Clock(case)
    broker = bound(case, sandbox, clock=clock)
    for hours in (-24, 24, -24 * 365 * 50):
        case.same(201, Phone(broker, clock=hours * 3600).sign_in().status, f"a phone whose clock is {hours} hours off → signs in")
    # A nonce is accepted until the end of the period of five minutes that follows its own. So the sign-in is at the beginning of
    # a period.
    begin = 301 - time.time() % 300
    clock.set(wall=begin, monotonic=begin)
    phone = Phone(broker)
    phone.sign_in()
    clock.set(wall=begin + 310, monotonic=begin + 310)
    answer = phone.call("GET", "/v1/session", phone.session, retry=False)
    case.verdict(answer.status == 200 and answer.fields["DPoP-Nonce"], "a proof with a nonce that is 310 s old → accepted, and the answer has a new nonce", told(answer))
    stale = Phone(broker)
    stale.key, stale.nonce = phone.key, None
    stale.call("GET", "/v1/session", phone.session)
    clock.set(wall=begin + 1000, monotonic=begin + 1000)
    answer = stale.call("GET", "/v1/session", phone.session, retry=False)
    case.same("401 use_dpop_nonce", told(answer), "a proof with a nonce that has expired → use_dpop_nonce")
    case.same(200, stale.call("GET", "/v1/session", phone.session).status, "an app's request with an expired nonce → succeeds after one repeat with the new nonce")


def restarts(case):
    """A proof for a change is accepted once, even if a broker on SQLite, which keeps used proofs in memory, restarts."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox)
    phone = Phone(broker)
    phone.sign_in()
    phone.call("POST", "/v1/session/refresh", phone.session)
    caught = phone.proof("POST", "/v1/session/refresh", phone.session)
    case.same(200, broker.call("POST", "/v1/session/refresh", phone.session, DPoP=caught).status, "a refresh with a proof → 200")
    case.same("401 proof_invalid replayed", told(broker.call("POST", "/v1/session/refresh", phone.session, DPoP=caught)), "a second refresh with the same proof → refused as replayed")
    broker.restart()
    case.same("401 use_dpop_nonce", told(broker.call("POST", "/v1/session/refresh", phone.session, DPoP=caught)), "a refresh with the same proof again, after a restart → refused because of the proof's nonce")
    case.same(200, phone.call("POST", "/v1/session/refresh", phone.session).status, "a refresh after a restart → 200 with the nonce from the refusal")
    many = [broker.call("GET", "/v1/session", phone.session, DPoP=phone.proof("GET", "/v1/session", phone.session, jti="once")) for _ in range(3)]
    case.same(["200", "401 proof_invalid replayed", "401 proof_invalid replayed"], [f"{a.status}" if a.status == 200 else told(a) for a in many], "three requests with proofs of the same jti → one is accepted")
    racing = phone.proof("POST", "/v1/session/refresh", phone.session)
    answers = [case.beside(lambda: broker.call("POST", "/v1/session/refresh", phone.session, DPoP=racing)) for _ in range(16)]
    found = [told(answer.result(30)) for answer in answers]
    case.same(1, sum(word.startswith("200") for word in found), "sixteen refreshes at the same time with one proof → one is accepted")


def observing(case):
    """With `binding: {mode: observe}`, the broker only counts the requests that `enforce` would refuse."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox, {"mode": "observe"})

    def counted(result):
        return broker.metric("coatcheck_proofs_total", provider="oidc", client="ios", result=result)

    case.verdict('result="replayed"' in call(broker.management + "/metrics").body.decode(), "a broker has just started in observe mode → the metric of proofs already has the series for replayed proofs")
    session = broker.sign_in()
    case.same(2.0, counted("proof_required"), "observe mode, an old app's login and forward without proofs → both are counted")
    case.same(200, broker.look(session).status, "observe mode, a read of an old app's session → 200")
    phone = Phone(broker)
    begun, fields = phone.begin(retry=False)
    case.same((201, 1.0), (begun.status, counted("use_dpop_nonce")), "observe mode, a login with a proof without a nonce → 201, and counted")
    case.verdict(phone.nonce, "observe mode, a login with a proof without a nonce → the 201 has a nonce")
    answer = phone.forward(phone.callback(begun), fields, retry=False)
    case.same((201, None, 1.0), (answer.status, answer.json.get("binding"), counted("accepted")), "observe mode, a sign-in with good proofs → counted, and the session is unbound")
    case.same(201, phone.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios"}, proof=False, DPoP="junk").status, "observe mode, a login with a broken proof → 201")
    case.same(1.0, counted("malformed"), "observe mode, a login with a broken proof → counted as malformed")
    broker.configure(providers={"oidc": {"clients": {"ios": {"binding": ENFORCE}}}})
    broker.restart()
    case.same(200, broker.look(session).status, "enforce mode, an unbound session from before the change to this mode → 200")
    phone.sign_in("bob")
    broker.configure(providers={"oidc": {"clients": {"ios": {"binding": {"mode": "off"}}}}})
    broker.restart()
    case.same("401 proof_required", told(broker.look(phone.session)), "binding mode off, a request of a bound session without a proof → refused")
    case.same(200, phone.call("GET", "/v1/session", phone.session).status, "binding mode off, a request of a bound session with a proof → 200")
    case.same(None, Phone(broker).sign_in().json.get("binding"), "binding mode off, a sign-in with a proof → an unbound session")
    listed = broker.call("GET", "/v1/providers").json["items"][0]["clients"][0]
    case.same({"mode": "off", "evidence": "pass"}, listed.get("binding"), "the list of providers → has the client's binding mode and kind of evidence")


def operators(case):
    """Operators list and end the unbound sessions."""
    sandbox = Sandbox(case)
    broker = bound(case, sandbox, {"mode": "off"})
    unbound = [broker.sign_in(user) for user in ("ana", "ben", "eva")]
    broker.configure(providers={"oidc": {"clients": {"ios": {"binding": ENFORCE}}}})
    broker.restart()
    phone = Phone(broker)
    case.same(201, phone.sign_in("bob").status, "three unbound sessions exist, and another user signs in with a key → a session")

    def listed(filters=""):
        return call(f"{broker.management}/admin/v1/sessions?provider=oidc{filters}", Authorization=f"Bearer {ADMIN}")

    token = case.folder / "admin"
    token.write_text(ADMIN)

    def sessions(verb, *more):
        return subprocess.run(
            [broker.program, "sessions", verb, "--management", broker.management, "--token-file", token, *more],
            capture_output=True, text=True, timeout=30)

    case.same(4, len(listed().json["items"]), "an operator's list of one bound and three unbound sessions → has all four")
    bindings = [item["binding"] for item in listed("&binding=none").json["items"]]
    case.same([None] * 3, bindings, "an operator's list with binding=none → has the three unbound sessions")
    case.same(400, listed("&binding=pass").status, "an operator's list with binding=pass → 400, because the value is unknown")
    refused = sessions("end", "--provider", "oidc", "--unbound")
    case.verdict(refused.returncode == 64 and "--all" in refused.stderr, "sessions end --unbound without --all → a usage error", refused.stderr)
    case.same(3, len(sessions("list", "--unbound", "--no-header").stdout.splitlines()), "sessions list --unbound → one line for each of the three unbound sessions")
    rows = [line.split("\t") for line in sessions("list").stdout.splitlines()]
    columns = "HANDLE PROVIDER CLIENT CREATED_AT LAST_USED_AT SUBJECT SENDER_CONSTRAINED KEY KIND PARENT".split()
    case.same(columns, rows[0], "sessions list → its first line has the column names")
    case.same(
        sorted([[phone.thumbprint, "-", "-"]] + [["-"] * 3] * 3), sorted(row[7:] for row in rows[1:]),
        "sessions list → has each session's key, kind and parent")
    case.same("ended 3", sessions("end", "--provider", "oidc", "--client", "ios", "--unbound", "--all").stdout.strip(), "sessions end --unbound → three sessions ended")
    case.same(["401 session_ended admin"] * 3, [told(broker.look(session)) for session in unbound], "sessions end --unbound → the unbound sessions get 401 with the reason admin")
    case.same(200, phone.call("GET", "/v1/session", phone.session).status, "sessions end --unbound → the bound session lives")
    case.same([("oidc/ios/unbound",)], broker.query("SELECT target FROM audit WHERE action = 'end_sessions'"), "sessions end --unbound → one row in the audit table")


CASES = {
    "sign_ins": (sign_ins, 180),
    "every_route": (every_route, 120),
    "clocks": (clocks, 120),
    "restarts": (restarts, 120),
    "observing": (observing, 120),
    "operators": (operators, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
