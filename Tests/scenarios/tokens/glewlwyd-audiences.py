"""Tokens for an audience at Glewlwyd, a server from outside this project. It accepts one resource indicator in a call (RFC
8707). Its refresh tokens are reusable or rotate, as configured.
"""

import base64
import http.server
import json
import pathlib
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.glewlwyd import Browser, Glewlwyd  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

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
    """Glewlwyd, one API that is configured as several upstreams, and a broker."""

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
        """Starts a login and signs the user in. Returns the answer of the start and the callback's URL."""
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
        """Returns the answer to a relayed call in a few words, or the `aud` claim of the token that reached the API."""
        answer = self.broker.call("GET", f"/v1/relay/{name}/things", session)
        return self.api.claims[-1]["aud"] if answer.status == 204 else answer.told

    def detail(self, error):
        """Returns whether the log has the provider's refusal of a target with this error."""
        return wait_for(5, lambda: any(
            "refuses an access token for another API" in line and error in line for line in self.broker.log().splitlines()))


def stays(case):
    """Refresh tokens that may be used repeatedly: each API gets a token of its own."""
    stage = Stage(case, {"orders": ORDERS, "ledger": LEDGER}, **{"refresh-token-one-use": "never"})
    answer = stage.forward(*stage.log_in())
    case.same("400 code_rejected", answer.told, "token call with two resources → Glewlwyd refuses the code")
    stage.broker.configure(providers={"real": {"token_request": {"omit": ["resource"]}}})
    stage.broker.restart()
    session = stage.sign_in()
    case.same([ORDERS, LEDGER], [value for name, value in stage.asked if name == "resource"], "a login with two configured APIs → the authorization request has both resources")
    case.same("openid", stage.relay(session, "own"), "the session's own token → is not for one of the two APIs")
    for turn in ("", ", again"):
        case.same(ORDERS, stage.relay(session, "orders"), f"a relayed call to the first API{turn} → sent with a token for that API")
        case.same(LEDGER, stage.relay(session, "ledger"), f"a relayed call to the second API{turn} → sent with a token for that API")
    case.same([(2,)], stage.broker.query("SELECT count(*) FROM audience_tokens"), "repeated calls to two APIs → two stored tokens")
    case.same("200", stage.broker.refresh(session).told, "a refresh of a session with two APIs' tokens → 200")
    case.same("openid", stage.relay(session, "own"), "the session's own token after a refresh → is still not for one of the two APIs")
    stage.broker.restart()
    case.same([ORDERS, LEDGER], [stage.relay(session, name) for name in ("orders", "ledger")], "kill -9 and a start of the broker → calls to each of two APIs are sent with a token for that API")
    case.same("204", stage.broker.log_out(session).told, "a log-out of a session with two APIs' tokens → 204")
    case.same([(0,)], stage.broker.query("SELECT count(*) FROM audience_tokens"), "a log-out of a session with two APIs' tokens → both tokens are deleted")


def pushed(case):
    """Pushed requests that name the resources of two APIs."""
    stage = Stage(case, {"orders": ORDERS, "ledger": LEDGER}, {"par": "required", "token_request": {"omit": ["resource"]}}, **{
        "refresh-token-one-use": "never", "oauth-par-allowed": True, "oauth-par-required": True})
    session = stage.sign_in()
    case.same([], [value for name, value in stage.asked if name == "resource"], "a pushed request with two resources → the authorization URL has no resource")
    case.same([ORDERS, LEDGER], [stage.relay(session, name) for name in ("orders", "ledger")], "a sign-in with a pushed request → each API gets a token for that API")


def refused(case):
    """A resource that Glewlwyd refuses."""
    stage = Stage(case, {"orders": ORDERS, "others": OTHERS}, {"token_request": {"omit": ["resource"]}}, **{"refresh-token-one-use": "never"})
    _, callback = stage.log_in()
    case.verdict("error=invalid_target" in callback, "a sign-in with a resource that the server does not allow → invalid_target", callback)
    stage.broker.configure(upstreams={"others": None})
    stage.broker.restart()
    session = stage.sign_in()
    stage.broker.configure(upstreams={"others": stage.broker.settings["upstreams"]["orders"] | {"token": {"resource": OTHERS}}})
    stage.broker.restart()
    case.same(["502 provider_error"] * 2, [stage.relay(session, "others") for _ in range(2)], "relayed calls to an API whose resource the server does not allow → 502 provider_error")
    case.verdict(stage.detail("invalid_target"), "relayed calls to an API whose resource the server does not allow → invalid_target in the log", stage.broker.log()[-600:])
    case.same("200", stage.broker.look(session).told, "the server has refused an API's resource → the session is alive")
    case.same([ORDERS] * 2, [stage.relay(session, name) for name in ("orders", "own")], "the server has refused one API's resource, and a call goes to the allowed API → sent with a token for the allowed API")
    case.same("200", stage.broker.refresh(session).told, "the server has refused an API's resource, and then the session is refreshed → 200")


def rotates(case):
    """Refresh tokens that rotate: a refresh for one resource limits the next refresh token to this resource."""
    stage = Stage(case, {"orders": ORDERS, "ledger": LEDGER}, {"token_request": {"omit": ["resource"]}})
    session = stage.sign_in()
    case.same(ORDERS, stage.relay(session, "orders"), "a server with rotating refresh tokens, a call to the first of two APIs → sent with a token for this API")
    case.same("502 provider_error", stage.relay(session, "ledger"), "a server with rotating refresh tokens, a call to the second of two APIs → 502 provider_error")
    case.verdict(stage.detail("invalid_target"), "a server with rotating refresh tokens, a call to the second of two APIs → invalid_target in the log", stage.broker.log()[-600:])
    case.same("200", stage.broker.refresh(session).told, "a server with rotating refresh tokens, a refresh after the second API's token was refused → 200")
    case.same(ORDERS, stage.relay(session, "own"), "a server with rotating refresh tokens, an API was called and the session refreshed → the session's own token is for this API")
    session = stage.sign_in()
    case.same("200", stage.broker.refresh(session).told, "a server with rotating refresh tokens, a new session is refreshed before it calls an API → 200")
    case.same("502 provider_error", stage.relay(session, "orders"), "a server with rotating refresh tokens, a session is refreshed and then calls its first API → 502 provider_error")
    case.same("200", stage.broker.look(session).told, "a server with rotating refresh tokens, a session's call to an API was refused → the session is alive")

    # A process remembers a refused target for a while, so restart the broker.
    stage.broker.restart()
    case.same(LEDGER, stage.relay(stage.sign_in(), "ledger"), "a server with rotating refresh tokens, a new session first calls the second API → sent with a token for that API")

    # With one configured resource, every token is for that resource, even the session's own token.
    stage.broker.configure(upstreams={"ledger": None}, providers={"real": {"token_request": None}})
    stage.broker.restart()
    session = stage.sign_in()
    for _ in range(3):
        case.same([ORDERS, ORDERS], [stage.relay(session, name) for name in ("own", "orders")], "only one resource is configured → the session's own token and the API's token are both for this resource")
        case.same("200", stage.broker.refresh(session).told, "only one resource is configured → a refresh of the session is 200")


CASES = {"stays": (stays, 90), "pushed": (pushed, 90), "refused": (refused, 90), "rotates": (rotates, 90)}

if __name__ == "__main__":
    main(CASES, __doc__)
