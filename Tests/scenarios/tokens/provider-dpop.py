"""Tokens that a provider binds to a key of the broker (`sender_constrained: dpop`).

- Sign-ins and refreshes at servers that demand proofs and nonces, change or forget their nonces, or answer Bearer tokens.
- The broker is killed between two calls.
- A stolen token is useless, and bound tokens stay bound after the setting is removed.
"""

import base64
import hashlib
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND, Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

DPOP = {"sender_constrained": "dpop", "par": "required"}


def stack(case, settings=None, name="broker", **sandbox_settings):
    sandbox = Sandbox(case)
    sandbox.settings("oidc", **({"dpop": "require", "nonces": "change"} | sandbox_settings))
    return sandbox, Broker(case, sandbox, name=name, settings={"providers": {"oidc": DPOP | (settings or {})}})


def begin(broker):
    """Starts a login and signs the user in. Returns the login cookie and the callback's URL."""
    begun = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios"})
    if begun.status != 201:
        raise GaveUp(f"no login: {begun.told} {broker.log()[-400:]}")
    cookie = begun.fields["Set-Cookie"].split(";")[0]
    return cookie, call(begun.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]


def requests(sandbox, endpoint):
    return sandbox.control("GET", f"/requests?provider=oidc&endpoint={endpoint}").json["items"]


def fields(request, name):
    return [value for key, value in request["headers"] if key.lower() == name.lower()]


def whatever_the_nonces(case):
    """A sign-in, a userinfo call and refreshes at a server without nonces, with one lasting nonce, and with changing nonces."""
    for nonces in ("off", "keep", "change"):
        sandbox, broker = stack(case, {"identity": {"source": "userinfo"}}, name=nonces, nonces=nonces)
        session = broker.sign_in()
        for _ in range(3):
            case.same("200", broker.refresh(session).told, f"server's nonces setting is {nonces}, a refresh → 200")
        case.same(3, sandbox.calls("oidc/refresh"), f"server's nonces setting is {nonces}, three refreshes → one call each, because the broker knows the nonce")
        proofs = [proof for endpoint in ("par", "token", "refresh", "userinfo")
                  for request in requests(sandbox, endpoint) for proof in fields(request, "DPoP")]
        case.same(len(proofs), len(set(proofs)), f"server's nonces setting is {nonces}, the broker makes {len(proofs)} proofs → each is sent once")
        case.verdict(
            all(fields(request, "Authorization")[0].startswith("DPoP ") for request in requests(sandbox, "userinfo")),
            f"server's nonces setting is {nonces}, a userinfo call → has the access token with the scheme DPoP")
        broker.stop()


def forgetful(case):
    """The server forgets its nonces once, then demands a new nonce for each repeat, and then refuses a proof."""
    sandbox, broker = stack(case, nonces="keep", refresh_mode="rotate-strict")
    session = broker.sign_in()
    sandbox.fault("oidc", endpoint="refresh", fault="forgets-nonces", times=1)
    case.same("200", broker.refresh(session).told, "server has forgotten its DPoP nonce, and the app refreshes → 200")
    case.same(2, sandbox.calls("oidc/refresh"), "server has forgotten its DPoP nonce, and the app refreshes → two calls, because the first is refused")
    sandbox.fault("oidc", endpoint="refresh", fault="repeats-nonce")
    for _ in range(3):
        answer = broker.refresh(session)
        case.verdict(answer.is_passing_fault, "refresh at a server that demands a new nonce every time → 503, and the cookie stays", answer.told)
        time.sleep(1.2)
    sandbox.control("DELETE", "/faults")
    case.same("200", wait_for(10, lambda: (found := broker.refresh(session)).status == 200 and found.told, 0.5), "server accepts its nonces again → a refresh is 200")
    sandbox.fault("oidc", endpoint="refresh", fault="refuses-proof", times=1)
    answer = broker.refresh(session)
    case.verdict(answer.is_passing_fault, "refresh whose DPoP proof the server refuses → 503", answer.told)
    case.verdict(
        wait_for(5, lambda: "compare the clocks" in broker.log()), "refresh whose DPoP proof the server refuses → the log suggests comparing the clocks", broker.log()[-600:])
    case.same("200", broker.look(session).told, "server has forgotten nonces, demanded new ones and refused a proof → the session is alive")


def killed(case):
    """kill -9 between the pushed request and the callback, between a nonce challenge and the repeated call, and after a commit.
    """
    sandbox, broker = stack(case, refresh_mode="rotate-strict")
    cookie, callback = begin(broker)
    broker.restart()
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)
    case.same(201, answer.status, "kill -9 of the broker between the pushed request and the callback → the code is redeemed with the login's key")
    session = next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck=")).split(";")[0].split("=")[1]
    case.same("200", broker.refresh(session).told, "refresh of a bound session before kill -9 → 200")
    broker.restart()
    case.same("200", broker.refresh(session).told, "kill -9 after a refresh was committed → the next refresh is 200")
    killed_at_challenge(case, sandbox, broker, "refresh", broker.refresh, session)
    told = wait_for(60, lambda: (found := broker.refresh(session)).status in (200, 401) and found.told, 0.5)
    case.same("200", told, "kill -9 between a refresh call's nonce challenge and the repeated call → a later refresh is 200")

    # If the broker is killed after sending a code, it cannot know whether the code is spent, so the login ends.
    cookie, callback = begin(broker)

    def forward():
        return broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)

    killed_at_challenge(case, sandbox, broker, "token", forward)
    sent = sandbox.calls("oidc/token")
    told = wait_for(60, lambda: (found := forward()).status != 503 and found.told, 0.5)
    case.same("409 login_required", told, "kill -9 between a token call's nonce challenge and the repeated call → the login ends with 409 login_required")
    case.same(sent, sandbox.calls("oidc/token"), "app repeats a forward whose token call was interrupted by kill -9 → the code is not sent again")
    broker.sign_in()
    case.same("200", broker.look(session).told, "user signs in again after kill -9 ended a login → a session from before the kill is alive")


def killed_at_challenge(case, sandbox, broker, endpoint, call, *arguments):
    """Makes a call whose nonce challenge the server delays, and kills the broker before the challenge arrives."""
    sandbox.control("PUT", "/faults/oidc", [
        {"endpoint": endpoint, "fault": "forgets-nonces", "times": 1},
        {"endpoint": endpoint, "fault": "slow-after", "delay_ms": 4000, "times": 1}])
    before = sandbox.calls(f"oidc/{endpoint}")
    case.beside(call, *arguments)
    if not wait_for(10, lambda: sandbox.calls(f"oidc/{endpoint}") > before):
        raise GaveUp(f"no call to {endpoint}")
    broker.restart()
    case.same(before + 1, sandbox.calls(f"oidc/{endpoint}"), f"kill -9 before the nonce challenge of a {endpoint} call arrives → the call is not repeated")


def answers_bearer(case):
    """A server does not bind its tokens.
    The broker refuses such an answer to a code. After a refresh, it drops only the access token.
    """
    sandbox, broker = stack(case, refresh_mode="rotate-strict")
    sandbox.fault("oidc", endpoint="token", fault="token-type-bearer", times=1)
    cookie, callback = begin(broker)
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)
    case.same("502 provider_error", answer.told, "server answers a code with a Bearer token → the sign-in is refused")
    case.verdict(
        wait_for(10, lambda: sandbox.calls("oidc/revoke") >= 1), "server answers a code with a Bearer token → the tokens of this answer are revoked", sandbox.calls("oidc/revoke"))
    session = broker.sign_in()
    sandbox.fault("oidc", endpoint="refresh", fault="token-type-bearer", times=1)
    answer = broker.refresh(session)
    case.verdict(answer.is_passing_fault, "server answers a refresh with a Bearer token → 503, and the cookie stays", answer.told)
    case.same(None, broker.look(session).json["tokens"]["expires_at"], "server answers a refresh with a Bearer token → the session keeps no access token")
    answer = broker.refresh(session)
    case.verdict(
        answer.is_passing_fault and int(answer.fields["Retry-After"]) <= 30, "server answered a refresh with a Bearer token, and the app refreshes again at once → 503 with Retry-After of at most 30 s", answer.told)
    case.same(1, sandbox.calls("oidc/refresh"), "server answered a refresh with a Bearer token, and the app refreshes again at once → no further provider call")
    told = wait_for(45, lambda: (found := broker.refresh(session)).status in (200, 401) and found.told, 1)
    case.same("200", told, "server answered a refresh with a Bearer token, and the app refreshes more than 30 s later → 200 with the newest refresh token")
    case.same(2, sandbox.calls("oidc/refresh"), "server answered a refresh with a Bearer token, and the app refreshes more than 30 s later → one more provider call")


def nobody_elses(case):
    """A bound token is useless without its key.
    A backend gets it only with a proof, and it stays bound after the setting is removed.
    """
    sandbox, broker = stack(case, nonces="off")
    session = broker.sign_in()
    tokens = sandbox.control("GET", "/tokens").json["items"]
    token = next(item["token"] for item in tokens if item["token"].startswith("at-"))
    stolen = call(f"{sandbox.url}/oidc/userinfo", Authorization=f"Bearer {token}")
    case.same(401, stolen.status, "thief sends a bound access token as Bearer to the provider → 401")
    form = (f"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={session}"
            "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token")
    answer = broker.call("POST", "/v1/token", body=form, Authorization=f"Bearer {BACKEND}", Content_Type="application/x-www-form-urlencoded")
    case.same("400 invalid_request", answer.told, "backend's token exchange for a bound session, without dpop_htm and dpop_htu → refused")
    case.same("invalid_target", answer.json.get("error"), "backend's token exchange for a bound session, without dpop_htm and dpop_htu → the error is invalid_target")
    broker.configure(providers={"oidc": {"sender_constrained": "off"}})
    broker.restart()
    case.same("200", broker.refresh(session).told, "`sender_constrained` is turned off → a refresh of a bound session is 200")
    case.verdict(all(fields(r, "DPoP") for r in requests(sandbox, "refresh")), "`sender_constrained` is turned off → each refresh of a bound session has a proof")
    sandbox.settings("oidc", dpop="off")
    plain = broker.sign_in()
    case.same([], fields(requests(sandbox, "token")[-1], "DPoP"), "`sender_constrained` is turned off → the token call of a new sign-in has no proof")
    sandbox.settings("oidc", dpop="require")
    broker.configure(providers={"oidc": {"sender_constrained": "dpop"}})
    broker.restart()
    case.same("200", broker.refresh(plain).told, "`sender_constrained: dpop` is set again → a refresh of an unbound session is 200")
    case.same(1, len(fields(requests(sandbox, "refresh")[-1], "DPoP")), "`sender_constrained: dpop` is set again → the refresh of an unbound session has a proof")


def upstreams_and_backends(case):
    """A bound token at an API. The broker relays calls with a proof and the API's nonces. A backend gets a proof for one call."""
    sandbox = Sandbox(case)
    sandbox.settings("oidc", dpop="require", nonces="change")
    sandbox.settings("api", nonces="change")
    broker = Broker(case, sandbox, settings={
        "providers": {"oidc": DPOP}, "upstreams": {"api": {"base_url": f"{sandbox.url}/api", "provider": "oidc", "allow": ["ANY /**"]}}})
    session = broker.sign_in()
    for number in range(3):
        answer = broker.call("GET", "/v1/relay/api/private/echo?q=1", session)
        case.same(200, answer.status, f"relayed call {number + 1} of a bound session, to an API with nonces → 200")
        sent = {name.lower(): value for name, value in answer.json["headers"]}
        case.verdict(sent["authorization"].startswith("DPoP ") and sent["dpop"], "relayed call of a bound session → the API receives the token with the scheme DPoP, and a proof", sent)
        case.same(None, answer.fields["DPoP-Nonce"], "relayed call of a bound session → the app receives no nonce of the API")
    case.same(200, broker.call("GET", "/v1/relay/api/401-until-refreshed", session).status, "API answers 401 until the token is refreshed → the relayed call is 200")
    answer = broker.call("POST", "/v1/relay/api/private/echo", session, body=b"x" * 200_000)
    case.same(200, answer.status, "relayed upload while the broker knows the API's nonce → 200")
    sandbox.fault("api", endpoint="api", fault="forgets-nonces", times=1)
    answer = broker.call("POST", "/v1/relay/api/private/echo", session, body=b"x" * 200_000)
    case.same("503 upstream_nonce", answer.told, "relayed upload after the API has forgotten its nonce → 503 upstream_nonce")
    case.verdict(answer.fields["Retry-After"] == "1" and answer.fields["Coatcheck-Source"] == "broker", "relayed upload after the API has forgotten its nonce → Retry-After is one second", str(answer.fields))
    case.same(200, broker.call("POST", "/v1/relay/api/private/echo", session, body=b"x" * 200_000).status, "relayed upload repeated after 503 upstream_nonce → 200")
    case.same("200", broker.look(session).told, "API has forgotten its nonce during an upload → the session is alive")

    # A backend calls the API itself, with the token and the proof from its token exchange.
    form = (f"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={session}"
            "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token")

    def exchange(more=""):
        return broker.call(
            "POST", "/v1/token", body=form + more, Authorization=f"Bearer {BACKEND}", Content_Type="application/x-www-form-urlencoded")

    case.same("invalid_target", exchange().json["error"], "backend's token exchange without dpop_htm and dpop_htu → invalid_target")
    address = f"{sandbox.url}/api/private/echo"
    nonce = call(address).fields["DPoP-Nonce"]
    answer = exchange(f"&dpop_htm=GET&dpop_htu={address}&dpop_nonce={nonce}")
    case.same("DPoP", answer.json.get("token_type"), "backend's token exchange with dpop_htm and dpop_htu of the backend's call → a token of type DPoP")
    made = {"Authorization": f"DPoP {answer.json.get('access_token')}", "DPoP": answer.json.get("dpop_proof", "")}
    case.same(200, call(address, **made).status, "backend calls the API with the proof from its token exchange → 200")
    case.same(401, call(address, **made).status, "backend calls the API a second time with the same proof → 401")
    case.same(401, call(f"{sandbox.url}/api/private/other", **made).status, "backend calls another address of the API with the same proof → 401")
    for bad in ("&dpop_htm=GET", f"&dpop_htu={address}", f"&dpop_htm=GET&dpop_htu={address}?x=1", "&dpop_htm=GET&dpop_htu=http%3A%2F%2Fapi.example.com%2F",
                f"&dpop_htm=GET&dpop_htu={sandbox.url}/oidc/token", f"&dpop_htm=POST&dpop_htu={sandbox.url}/oidc/par",
                f"&dpop_htm=G%20T&dpop_htu={address}", f"&dpop_htm=GET&dpop_htu={address}&dpop_nonce=a%22b"):
        case.same("400 invalid_request", exchange(bad).told, f"backend's token exchange with {bad} → refused")


def unpushed_and_apps_own(case):
    """Logins without pushed requests.
    In flow A, the authorization URL names the DPoP key. In flow B, the app builds the URL, so the broker makes the key at the
    token call.
    """
    sandbox, broker = stack(case, {"par": "off"})
    cookie, callback = begin(broker)
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)
    case.same(201, answer.status, "login without a pushed request → a session")
    case.same(1, sum("dpop_jkt=" in request["query"] for request in requests(sandbox, "authorize")), "login without a pushed request → the authorization URL names the DPoP key")
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    location = call(
        f"{sandbox.url}/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app%3A%2Fcb&scope=openid%20email"
        f"&code_challenge={challenge}&code_challenge_method=S256&state=app-state-1&sandbox_user=ana").fields["Location"]
    body = {"provider": "oidc", "client": "ios", "callback_url": location, "code_verifier": verifier, "state": "app-state-1"}
    answer = broker.call("POST", "/v1/sessions", body=body)
    case.same(201, answer.status, "app-started login (flow B) at a provider with DPoP → a session")
    session = next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck=")).split(";")[0].split("=")[1]
    case.same("200", broker.refresh(session).told, "refresh of a session from an app-started login at a provider with DPoP → 200")


CASES = {
    "whatever-the-nonces": (whatever_the_nonces, 90),
    "forgetful": (forgetful, 60),
    "killed": (killed, 180),
    "answers-bearer": (answers_bearer, 90),
    "nobody-elses": (nobody_elses, 90),
    "upstreams-and-backends": (upstreams_and_backends, 90),
    "unpushed-and-apps-own": (unpushed_and_apps_own, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
