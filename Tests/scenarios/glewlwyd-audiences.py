"""Tokens for an audience at a server from outside this project: Glewlwyd, which accepts one resource indicator a call (RFC
8707). Its refresh tokens stay, or rotate.
"""

import base64
import http.server
import json
import threading
import urllib.parse

from support.glewlwyd import Browser, Glewlwyd
from support.harness import Broker, GaveUp, Sandbox, main, wait_for

ORDERS, LEDGER, OTHERS = (f"https://{name}.example.org/" for name in ("orders", "ledger", "others"))
APP = "com.example.real:/cb"


class Api:
    """An API that accepts every call, and keeps the claims of its access token."""

    def __init__(self):
        api = self
        self.claims = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                part = self.headers["Authorization"].split()[1].split(".")[1]
                api.claims.append(json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))))
                self.send_response(204)
                self.end_headers()

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Stage:
    """A provider, an API under several names, and a broker."""

    def __init__(self, case, resources, settings=None, **issuer):
        self.case, self.api = case, Api()
        self.glewlwyd = Glewlwyd(case)
        address = self.glewlwyd.issuer("resources", **{
            "oauth-dpop-allowed": False, "resource-allowed": True, "resource-scope": {"openid": [ORDERS, LEDGER]}} | issuer)
        self.glewlwyd.client("mobile", APP, dpop_bound="0")
        upstream = {"base_url": self.api.url, "provider": "real", "allow": ["ANY /**"], "internal": True}
        self.broker = Broker(case, Sandbox(case), settings={
            "providers": {"oauth2": None, "real": {
                "kind": "oidc", "issuer": address, "identity": {"source": "userinfo"},
                "clients": {"ios": {"client_id": "mobile", "auth": "none", "scope": "openid", "redirect_uris": [APP]}}} | (settings or {})},
            "upstreams": {"own": upstream} | {name: upstream | {"token": {"resource": uri}} for name, uri in resources.items()}})

    def log_in(self):
        """A login up to its callback."""
        begun = self.broker.call("POST", "/v1/logins", body={"provider": "real", "client": "ios"})
        if begun.status != 201:
            raise GaveUp(f"no login: {begun.told} {self.broker.log()[-600:]}")
        self.asked = urllib.parse.parse_qsl(urllib.parse.urlsplit(begun.json["authorization_url"]).query)
        return begun, Browser(self.glewlwyd).open(begun.json["authorization_url"])

    def forward(self, begun, callback):
        return self.broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=begun.fields["Set-Cookie"].split(";")[0])

    def sign_in(self):
        answer = self.forward(*self.log_in())
        if answer.status != 201:
            raise GaveUp(f"no session: {answer.told} {self.broker.log()[-600:]} {self.glewlwyd.log()[-900:]}")
        return next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck=")).split(";")[0].split("=")[1]

    def relay(self, session, name):
        """The answer to a relayed call in a few words, or the client whose token reached the API."""
        answer = self.broker.call("GET", f"/v1/relay/{name}/things", session)
        return self.api.claims[-1]["aud"] if answer.status == 204 else answer.told

    def detail(self, error):
        """Whether the log has the provider's refusal of a target."""
        return wait_for(5, lambda: any(
            "refuses an access token for another API" in line and error in line for line in self.broker.log().splitlines()))


def stays(case):
    """Refresh tokens that stay: each API gets its own token."""
    stage = Stage(case, {"orders": ORDERS, "ledger": LEDGER}, **{"refresh-token-one-use": "never"})
    answer = stage.forward(*stage.log_in())
    case.same("400 code_rejected", answer.told, "with two resources in one call the code is refused")
    stage.broker.configure(providers={"real": {"token_request": {"omit": ["resource"]}}})
    stage.broker.restart()
    session = stage.sign_in()
    case.same([ORDERS, LEDGER], [value for name, value in stage.asked if name == "resource"], "the authorization request has both")
    case.same("openid", stage.relay(session, "own"), "the session's own token is for neither")
    for turn in ("", ", again"):
        case.same(ORDERS, stage.relay(session, "orders"), f"one API gets a token for itself{turn}")
        case.same(LEDGER, stage.relay(session, "ledger"), f"and the other for itself{turn}")
    case.same([(2,)], stage.broker.query("SELECT count(*) FROM audience_tokens"), "of one call each")
    case.same("200", stage.broker.refresh(session).told, "the session is refreshed")
    case.same("openid", stage.relay(session, "own"), "and its token is for neither still")
    stage.broker.restart()
    case.same([ORDERS, LEDGER], [stage.relay(session, name) for name in ("orders", "ledger")], "a broker that was killed uses them")
    case.same("204", stage.broker.log_out(session).told, "a log-out")
    case.same([(0,)], stage.broker.query("SELECT count(*) FROM audience_tokens"), "drops them")


def pushed(case):
    """Pushed requests that name both."""
    stage = Stage(case, {"orders": ORDERS, "ledger": LEDGER}, {"par": "required", "token_request": {"omit": ["resource"]}}, **{
        "refresh-token-one-use": "never", "oauth-par-allowed": True, "oauth-par-required": True})
    session = stage.sign_in()
    case.same([], [value for name, value in stage.asked if name == "resource"], "the address has no resource")
    case.same([ORDERS, LEDGER], [stage.relay(session, name) for name in ("orders", "ledger")], "each API gets its own token")


def refused(case):
    """A resource that the server refuses."""
    stage = Stage(case, {"orders": ORDERS, "others": OTHERS}, {"token_request": {"omit": ["resource"]}}, **{"refresh-token-one-use": "never"})
    _, callback = stage.log_in()
    case.verdict("error=invalid_target" in callback, "a resource that is not allowed is refused at the sign-in", callback)
    stage.broker.configure(upstreams={"others": None})
    stage.broker.restart()
    session = stage.sign_in()
    stage.broker.configure(upstreams={"others": stage.broker.settings["upstreams"]["orders"] | {"token": {"resource": OTHERS}}})
    stage.broker.restart()
    case.same(["502 provider_error"] * 2, [stage.relay(session, "others") for _ in range(2)], "one that came later is refused")
    case.verdict(stage.detail("invalid_target"), "by invalid_target, as the log says", stage.broker.log()[-600:])
    case.same("200", stage.broker.look(session).told, "the session lives")
    case.same([ORDERS] * 2, [stage.relay(session, name) for name in ("orders", "own")], "its other tokens come, for the one that was asked for")
    case.same("200", stage.broker.refresh(session).told, "and it is refreshed")


def rotates(case):
    """Refresh tokens that rotate: a call limits the resources of the next one."""
    stage = Stage(case, {"orders": ORDERS, "ledger": LEDGER}, {"token_request": {"omit": ["resource"]}})
    session = stage.sign_in()
    case.same(ORDERS, stage.relay(session, "orders"), "the first API that is asked for gets its token")
    case.same("502 provider_error", stage.relay(session, "ledger"), "and no other ever")
    case.verdict(stage.detail("invalid_target"), "by invalid_target, as the log says", stage.broker.log()[-600:])
    case.same("200", stage.broker.refresh(session).told, "the session is refreshed")
    case.same(ORDERS, stage.relay(session, "own"), "its own token is that API's from then on")
    session = stage.sign_in()
    case.same("200", stage.broker.refresh(session).told, "another is refreshed first")
    case.same("502 provider_error", stage.relay(session, "orders"), "and gets none")
    case.same("200", stage.broker.look(session).told, "the session lives")

    # A process remembers a refusal, and does not ask again for a while.
    stage.broker.restart()
    case.same(LEDGER, stage.relay(stage.sign_in(), "ledger"), "a new sign-in has both again")

    # With one resource, every token is for it, also the session's own.
    stage.broker.configure(upstreams={"ledger": None}, providers={"real": {"token_request": None}})
    stage.broker.restart()
    session = stage.sign_in()
    for _ in range(3):
        case.same([ORDERS, ORDERS], [stage.relay(session, name) for name in ("own", "orders")], "with one resource, every token is for it")
        case.same("200", stage.broker.refresh(session).told, "through refreshes")


CASES = {"stays": (stays, 90), "pushed": (pushed, 90), "refused": (refused, 90), "rotates": (rotates, 90)}

if __name__ == "__main__":
    main(CASES, __doc__)
