"""A DPoP client from another project, `requests_oauth2client`, uses the broker as an app does: it makes the proofs, keeps the
nonce and repeats requests.
"""

import pathlib
import sys
import time

import requests
from requests_oauth2client import DPoPKey, DPoPToken
from requests_oauth2client.dpop import RepeatedDPoPNonce
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

ENFORCE = {"mode": "enforce"}


class SignIn(requests.auth.AuthBase):
    """Adds the library's proof to a request without a token, and repeats the request with the nonce from a refusal."""

    def __init__(self, key):
        self.key = key

    def __call__(self, request):
        request.headers["DPoP"] = str(self.key.proof(htm=request.method, htu=request.url))
        request.register_hook("response", self.repeat)
        return request

    def repeat(self, answer, **options):
        if answer.status_code != 401 or answer.json().get("code") != "use_dpop_nonce":
            return answer
        self.key.handle_rs_provided_dpop_nonce(answer)
        again = answer.request.copy()
        again.deregister_hook("response", self.repeat)
        return answer.connection.send(self(again), **options)


def told(answer):
    found = answer.json() if answer.content else {}
    return " ".join(filter(None, [str(answer.status_code), found.get("code"), found.get("reason")]))


def begin(broker, key, user="ana"):
    """Starts a login and signs the user in. Returns the body of the forward: the callback's URL and the login token."""
    begun = requests.post(broker.url + "/v1/logins", json={"provider": "oidc", "client": "android"}, auth=SignIn(key), timeout=20)
    begun.raise_for_status()
    callback = call(f"{begun.json()['authorization_url']}&sandbox_user={user}").fields["Location"]
    return {"callback_url": callback, "login_token": begun.json()["login_token"]}


def forward(broker, key, body):
    return requests.post(broker.url + "/v1/sessions", json=body, auth=SignIn(key), timeout=20)


def started(case, clock=None):
    broker = Broker(case, Sandbox(case), clock=clock, start=False, settings={"providers": {"oidc": {"clients": {"android": {"binding": ENFORCE}}}}})
    broker.configure(upstreams={"api": {"base_url": broker.sandbox.url + "/oidc", "provider": "oidc", "allow": ["GET /**"]}})
    broker.start()
    return broker


def signing_in(case):
    """A sign-in with the library's proofs."""
    broker = started(case)
    body = {"provider": "oidc", "client": "android"}
    logins = broker.url + "/v1/logins"
    case.same("401 proof_required", told(requests.post(logins, json=body, timeout=20)), "a bound client's login without a proof → 401 proof_required")
    answer = requests.post(logins, json=body, headers={"DPoP": str(DPoPKey.generate().proof("POST", logins))}, timeout=20)
    case.same("401 use_dpop_nonce", told(answer), "a login with a proof without a nonce → 401 use_dpop_nonce")
    case.verdict(answer.headers["WWW-Authenticate"].startswith('DPoP error="use_dpop_nonce"'), "a login with a proof without a nonce → the answer has the challenge that the app's DPoP library expects")
    for algorithm in ("ES384", "RS256", "EdDSA"):
        answer = requests.post(logins, json=body, auth=SignIn(DPoPKey.generate(alg=algorithm, rs_nonce=answer.headers["DPoP-Nonce"])), timeout=20)
        case.same("401 proof_invalid algorithm", told(answer), f"a login with a proof by {algorithm} → 401 proof_invalid algorithm")
    owner, thief = DPoPKey.generate(), DPoPKey.generate()
    caught = begin(broker, owner)
    case.same("401 proof_required", told(requests.post(broker.url + "/v1/sessions", json=caught, timeout=20)), "a forward without a proof → 401 proof_required")
    case.same("403 login_not_yours", told(forward(broker, thief, caught)), "a thief's forward with login token and callback, but another key → 403 login_not_yours")
    for hours in (0, -24, 24):
        key = DPoPKey.generate(iat_generator=lambda hours=hours: int(time.time()) + hours * 3600)
        answer = forward(broker, key, begin(broker, key))
        case.same((201, key.dpop_jkt), (answer.status_code, answer.json()["binding"]["jkt"]), f"a sign-in with the phone's clock {hours} hours off → 201, bound to the phone's key")


def calling(case):
    """Calls with the library's token, its nonce and a pass."""
    clock = Clock(case)
    broker = started(case, clock)
    key = DPoPKey.generate()
    session = forward(broker, key, begin(broker, key)).json()
    token, where = session["session_token"], broker.url + "/v1/session"
    for scheme in ("Bearer", "DPoP"):
        case.same("401 proof_required", told(requests.get(where, headers={"Authorization": f"{scheme} {token}"}, timeout=20)), f"a bound session's token as {scheme}, without a proof → 401 proof_required")
    try:
        answer = requests.get(where, auth=DPoPToken(token, _dpop_key=DPoPKey.generate()), timeout=20)
    except RepeatedDPoPNonce as refusal:  # The library raises this if a second nonce would not help.
        answer = refusal.response
    case.same("401 proof_invalid key", told(answer), "a thief with the session token and another key → 401 proof_invalid key")
    own = DPoPToken(token, _dpop_key=key)
    request = requests.Request("GET", where, auth=own).prepare()
    with requests.Session() as wire:
        case.same("200", told(wire.send(request, timeout=20)), "a bound session's call with a proof → 200")
        request.hooks["response"].clear()
        case.same("401 proof_invalid replayed", told(wire.send(request, timeout=20)), "a bound session's call with a used proof → 401 proof_invalid replayed")

    def calls(method, path, **more):
        return requests.request(method, broker.url + path, auth=own, timeout=20, **more)

    for method, path in [("GET", "/v1/sessions"), ("POST", "/v1/session/refresh"), ("GET", "/v1/relay/api/userinfo?a=b%20c"), ("GET", "/v1/session")]:
        case.same("200", told(calls(method, path)), f"a bound session's {method} {path} with a proof → 200")
    before = key.rs_nonce
    clock.set(wall=1000, monotonic=1000)
    case.same("200", told(calls("GET", "/v1/session")), "a call after the nonce has expired → the app's DPoP library repeats the call, and the answer is 200")
    case.verdict(key.rs_nonce != before, "a call after the nonce has expired → the broker's refusal contains a new nonce")
    case.same("401 proof_required", told(requests.get(where, headers={"Authorization": f"Bearer {token}", "Coatcheck-Pass": session["pass"]["pass"]}, timeout=20)),
              "a call with an expired pass, without a proof → 401 proof_required")
    held = calls("POST", "/v1/session/pass")
    case.same((200, 600), (held.status_code, held.json().get("expires_in")), "a request for a pass, with a proof → a pass for 600 seconds")
    named = {"Authorization": f"Bearer {token}", "Coatcheck-Pass": held.json()["pass"]}
    case.same("401 proof_required", told(requests.post(broker.url + "/v1/session/pass", headers=named, timeout=20)), "a request for a pass, with a pass in place of a proof → 401 proof_required")
    case.same("200", told(requests.get(where, headers=named, timeout=20)), "a bound session's call with a pass in place of a proof → 200")
    case.same(204, requests.delete(where, headers={"Authorization": f"DPoP {token}"}, timeout=20).status_code, "a bound session's log-out without a proof → 204")
    case.same("401 session_ended logged_out", told(requests.get(where, headers=named, timeout=20)), "a call with a pass after the log-out → 401 session_ended logged_out")


CASES = {"signing_in": (signing_in, 180), "calling": (calling, 180)}

if __name__ == "__main__":
    main(CASES, __doc__)
