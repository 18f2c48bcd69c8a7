"""Bound sessions: their passes, their evidence at backends and proxies, their event streams, and three replicas."""

import http.client
import http.server
import pathlib
import re
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.bound_broker import bound, is_evidence_wanted, told  # noqa: E402
from support.broker import BACKEND  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.database import Database  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402

FORM = "application/x-www-form-urlencoded"


def passes(case):
    """Passes. A pass replaces proofs by the session's key for ten minutes."""
    sandbox = Sandbox(case)
    clock = Clock(case)
    broker = bound(case, sandbox, clock=clock)
    phone, other = Phone(broker), Phone(broker)
    phone.sign_in()
    other.sign_in("bob")
    case.same("401 proof_invalid pass", told(phone.passing("GET", "/v1/session", held=other.held_pass)), "bound session's request with another session's pass → refused")
    case.same("401 proof_invalid pass", told(phone.passing("GET", "/v1/session", held="A" * 32)), "bound session's request with an invented pass → refused")
    case.same("400 invalid_request", told(phone.passing("GET", "/v1/session", Coatcheck_Pass=other.held_pass)), "bound session's request with two different passes → refused")
    case.same(200, phone.passing("GET", "/v1/session").status, "bound session's request with its own pass in a cookie → 200")
    case.same(200, broker.call("GET", "/v1/session", phone.session, Coatcheck_Pass=phone.held_pass).status, "bound session's request with its own pass in a field → 200")
    case.same(
        "401 proof_invalid method", told(phone.passing("GET", "/v1/session", DPoP=phone.proof("POST", "/v1/session", phone.session))),
        "bound session's request with a good pass and a wrong proof → refused because of the proof")
    clock.set(wall=601, monotonic=601)
    is_evidence_wanted(case, phone.passing("GET", "/v1/session"), "proof_required", "bound session's request with an expired pass → proof_required, as without a pass")
    renewed = phone.call("POST", "/v1/session/pass", phone.session)
    case.same((200, 600), (renewed.status, renewed.json.get("expires_in")), "app asks for a pass with a proof, after the first pass expired → a new pass for 600 s")
    phone.held_pass = re.search(r"coatcheck-pass=([^;]+)", renewed.fields["Set-Cookie"])[1]
    case.same(200, phone.passing("GET", "/v1/session").status, "bound session's request with the pass that replaced an expired one → 200")
    case.same(200, phone.call("GET", "/v1/session", phone.session).status, "bound session's request with a proof, although the session has a pass → 200")
    broker.restart()
    case.same(200, phone.passing("GET", "/v1/session").status, "bound session's request with a pass from before a restart → 200")
    out = phone.passing("DELETE", "/v1/session")
    case.same(
        2, sum("Max-Age=0" in field for field in out.fields.get_all("Set-Cookie") or []), "bound session's log-out with a pass → the cookies of session and pass are cleared")
    broker.configure(
        providers={"oidc": {"clients": {"ios": {"binding": {"mode": "enforce", "evidence": "proof"}}}}}, backends={"orders": {"original_request": True}})
    broker.restart()
    answer = phone.sign_in()
    case.same((201, None), (answer.status, answer.json.get("pass")), "a sign-in of a client with `evidence: proof` → 201 without a pass")
    case.same("403 client_not_allowed", told(phone.call("POST", "/v1/session/pass", phone.session)), "app of a client with `evidence: proof` asks for a pass → refused")
    case.same("401 proof_required", told(other.passing("GET", "/v1/session")), "request with a pass from before the client got `evidence: proof` → refused")


def backends(case):
    """Backends pass on the app's proof or pass, and proxies also pass on the request that the proof is for (W6)."""
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
    case.same((200, {"active": False, "code": "proof_required"}), (answer.status, answer.json), "introspection of a bound session without evidence → inactive, with only proof_required")
    case.verdict(answer.fields["DPoP-Nonce"], "introspection of a bound session without evidence → the answer has a nonce")
    answer = ask("/v1/token", **exchange)
    case.same((400, "invalid_grant", "proof_required"), (answer.status, answer.json.get("error"), answer.json.get("code")), "token exchange for a bound session without evidence → invalid_grant with proof_required")
    case.verdict(answer.fields["DPoP-Nonce"], "token exchange for a bound session without evidence → the answer has a nonce")
    case.same(
        {"active": False, "code": "proof_invalid", "reason": "pass"}, ask("/v1/introspect", token=phone.session, **{"pass": "A" * 32}).json, "introspection of a bound session with an invented pass → inactive")
    answer = ask("/v1/introspect", token=phone.session, **{"pass": phone.held_pass}).json
    case.same(
        (True, "DPoP", {"jkt": phone.thumbprint}), (answer.get("active"), answer.get("token_type"), answer.get("cnf")), "introspection of a bound session with the session's pass → active, with the session's key")
    case.same(200, ask("/v1/token", **exchange, **{"pass": phone.held_pass}).status, "token exchange for a bound session with the session's pass → 200")
    phone.call("GET", "/v1/session", phone.session)
    address = "https://orders.example.com/orders/7"
    proof = phone.proof("GET", "", phone.session, htu=address)
    form = {"token": phone.session, "dpop": proof, "htm": "GET", "htu": address}
    case.same("address", ask("/v1/introspect", **form | {"htu": address + "8"}).json.get("reason"), "introspection with a proof for another address → refused")
    case.same("method", ask("/v1/introspect", **form | {"htm": "POST"}).json.get("reason"), "introspection with a proof for another method → refused")
    case.same(400, ask("/v1/introspect", **{k: v for k, v in form.items() if k != "htm"}).status, "introspection with a proof, but without the method of the app's request → 400")
    case.same(True, ask("/v1/introspect", **form).json.get("active"), "introspection with a good proof → active")
    case.same("replayed", ask("/v1/introspect", **form).json.get("reason"), "introspection with a used proof → refused as replayed")
    case.same({"jkt": phone.thumbprint}, ask("/v1/introspect", "own-credential", token=phone.session).json.get("cnf"), "introspection without evidence by a backend that checks proofs itself → the answer has the session's key")

    def gate(**fields):
        return broker.call("GET", "/v1/forward-auth", phone.session, X_Coatcheck_Backend=BACKEND, **fields)

    is_evidence_wanted(case, gate(), "proof_required", "forward-auth of a bound session without evidence → proof_required")
    case.same(200, gate(Coatcheck_Pass=phone.held_pass).status, "forward-auth of a bound session with the session's pass → 200")
    address = "https://app.example.com/orders?page=2"

    def proved(htu=address.split("?")[0], method="GET"):
        return phone.proof(method, "", phone.session, htu=htu)

    case.same("401 proof_required", told(gate(DPoP=proved(), X_Original_Method="GET")), "forward-auth with a proof, but without the address of the app's request → proof_required, as without a proof")
    case.same("401 proof_invalid address", told(gate(DPoP=proved(), X_Original_Method="GET", X_Original_URL="https://app.example.com/transfer")), "forward-auth with a proof for another address → refused")
    case.same("401 proof_invalid method", told(gate(DPoP=proved(), X_Original_Method="POST", X_Original_URL=address)), "forward-auth with a proof for another method → refused")
    case.same("401 proof_invalid address", told(gate(
        DPoP=proved("https://evil.example/orders"), X_Original_Method="GET", X_Original_URL="https://evil.example/orders")), "forward-auth with a proof for an origin that the backend's list lacks → refused")
    case.same("400 invalid_request", told(gate(
        DPoP=proved(), X_Original_Method="GET", X_Original_URL=address, X_Forwarded_Method="GET", X_Forwarded_Proto="https",
        X_Forwarded_Host="app.example.com", X_Forwarded_Uri="/transfer")), "forward-auth with a proof, and X-Original-* differs from X-Forwarded-* → 400")
    case.same("400 invalid_request", told(gate(
        Coatcheck_Pass=phone.held_pass, X_Original_Method="GET", X_Original_URL=address, X_Forwarded_Method="POST",
        X_Forwarded_Proto="https", X_Forwarded_Host="app.example.com", X_Forwarded_Uri="/orders")), "forward-auth with a pass, and X-Original-* differs from X-Forwarded-* → 400")
    case.same(200, gate(DPoP=proved(), X_Original_Method="GET", X_Original_URL=address).status, "forward-auth with a proof and X-Original-* → 200")
    case.same(200, gate(
        DPoP=proved(), X_Forwarded_Method="GET", X_Forwarded_Proto="https", X_Forwarded_Host="app.example.com", X_Forwarded_Uri="/orders?page=3").status, "forward-auth with a proof and X-Forwarded-* → 200")
    case.same("401 proof_required", told(gate(DPoP="", X_Original_Method="GET", X_Original_URL=address)).replace("proof_invalid malformed", "proof_required"), "forward-auth with an empty proof → refused")


def streams(case):
    """An event stream that was opened with a pass ends when the pass expires, even if it is relayed.
    One opened with a proof stays.
    """
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
    case.same((200, 200), (by_pass.status, by_proof.status), "an app opens one event stream with a pass and one with a proof → both are open")
    both = {"Cookie": f"coatcheck={phone.session}; coatcheck-pass={phone.held_pass}"}
    relayed = case.beside(listen("/v1/relay/far/events", **both).read)
    download, far_by_proof = listen("/v1/relay/far/download", **both), listen(
        "/v1/relay/far/events", Cookie=f"coatcheck={phone.session}", DPoP=phone.proof("GET", "/v1/relay/far/events", phone.session))
    whole = by_pass.read().decode()
    took = time.monotonic() - begun
    case.verdict(40 < took < 75, "a pass expires → the event stream that was opened with this pass ends", f"{took:.1f} s")
    case.verdict("event: session\n" in whole and "session_ended" not in whole, "a pass expires → the event stream that was opened with this pass ends without the event session_ended", whole[-200:])
    far = relayed.result(timeout=20)
    case.verdict(
        len(far) > 200 and not len(far) % 4 and time.monotonic() - begun < 80, "a pass expires → the relayed event stream that was opened with this pass ends after a whole event", str(len(far)))
    case.verdict(wait_for(10, lambda: Upstream.broken_off == ["/events"]), "a pass expires, so a relayed event stream ends → the broker also closes the connection to the upstream", str(Upstream.broken_off))
    case.verdict(download.read1(4) and far_by_proof.read1(4), "a pass has expired → a relayed download opened with this pass, and a relayed stream opened with a proof, continue")
    phone.call("DELETE", "/v1/session", phone.session)
    case.verdict("logged_out" in by_proof.read().decode(), "bound session's log-out → the event stream opened with a proof reports logged_out")


def replicas(case):
    """Three replicas: each accepts the nonces of the others, and only one of them accepts a proof for a change (W3)."""
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
            case.same(200, answer.status, f"proof with the first replica's nonce, sent to replica {broker.name} → 200")
            case.same(200, broker.call("GET", "/v1/session", phone.session, Coatcheck_Pass=phone.held_pass).status, f"the first replica's pass, sent to replica {broker.name} → 200")
        for round in range(10):
            racing = phone.proof("POST", "/v1/session/refresh", phone.session)
            answers = [case.beside(broker.call, "POST", "/v1/session/refresh", phone.session, None) if False else case.beside(
                lambda broker=broker: broker.call("POST", "/v1/session/refresh", phone.session, DPoP=racing)) for broker in brokers * 3]
            found = [told(answer.result(30)) for answer in answers]
            good = sum(word.startswith("200") for word in found)
            if good != 1 or set(word for word in found if not word.startswith("200")) != {"401 proof_invalid replayed"}:
                case.verdict(False, "nine refreshes with the same proof, at the same time at three replicas → one succeeds", str(found))
                break
        else:
            case.verdict(True, "nine refreshes with the same proof, at the same time at three replicas, ten times → one succeeds each time")
        answer = brokers[1].log_out(phone.session)
        case.same(204, answer.status, "bound session's log-out at one replica → 204")
        ended = wait_for(6, lambda: told(brokers[2].call(
            "GET", "/v1/session", phone.session, Coatcheck_Pass=phone.held_pass)).startswith("401 session_ended"))
        case.verdict(ended, "bound session's log-out at one replica → another replica refuses the session's pass within 6 s")


CASES = {
    "passes": (passes, 120),
    "backends": (backends, 120),
    "streams": (streams, 180),
    "replicas": (replicas, 240),
}

if __name__ == "__main__":
    main(CASES, __doc__)
