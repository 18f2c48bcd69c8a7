"""Tokens that a provider binds to a key of the broker (`sender_constrained: dpop`). Sign-ins and refreshes succeed at servers
that demand proofs and nonces, change them, forget them, or answer Bearer, and through brokers that are killed. A thief's token
is useless, and bound tokens stay bound when the setting goes.
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
    """A started login: the app's values, and the callback that it will forward."""
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
    """Sign-in, identity and refreshes, for each way of handling nonces."""
    for nonces in ("off", "keep", "change"):
        sandbox, broker = stack(case, {"identity": {"source": "userinfo"}}, name=nonces, nonces=nonces)
        session = broker.sign_in()
        for _ in range(3):
            case.same("200", broker.refresh(session).told, f"nonces {nonces}, a refresh → 200")
        case.same(3, sandbox.calls("oidc/refresh"), f"nonces {nonces}: three refreshes → one call each, because the nonce is known")
        proofs = [proof for endpoint in ("par", "token", "refresh", "userinfo")
                  for request in requests(sandbox, endpoint) for proof in fields(request, "DPoP")]
        case.same(len(proofs), len(set(proofs)), f"nonces {nonces}: {len(proofs)} proofs → each is sent once")
        case.verdict(
            all(fields(request, "Authorization")[0].startswith("DPoP ") for request in requests(sandbox, "userinfo")),
            f"nonces {nonces}: userinfo → the access token is sent as DPoP")
        broker.stop()


def forgetful(case):
    """The server forgets its nonces once, then demands a new nonce for every refresh, and then refuses a proof."""
    sandbox, broker = stack(case, nonces="keep", refresh_mode="rotate-strict")
    session = broker.sign_in()
    sandbox.fault("oidc", endpoint="refresh", fault="forgets-nonces", times=1)
    case.same("200", broker.refresh(session).told, "a forgotten nonce → the refresh is 200")
    case.same(2, sandbox.calls("oidc/refresh"), "a forgotten nonce → two calls")
    sandbox.fault("oidc", endpoint="refresh", fault="repeats-nonce")
    for _ in range(3):
        answer = broker.refresh(session)
        case.verdict(answer.is_passing_fault, "a server that demands a new nonce every time → 503, and the cookie stays", answer.told)
        time.sleep(1.2)
    sandbox.control("DELETE", "/faults")
    case.same("200", wait_for(10, lambda: (found := broker.refresh(session)).status == 200 and found.told, 0.5), "the server accepts nonces again → the refresh is 200")
    sandbox.fault("oidc", endpoint="refresh", fault="refuses-proof", times=1)
    answer = broker.refresh(session)
    case.verdict(answer.is_passing_fault, "a refused proof → 503", answer.told)
    case.verdict(
        wait_for(5, lambda: "compare the clocks" in broker.log()), "a refused proof → the log suggests comparing the clocks", broker.log()[-600:])
    case.same("200", broker.look(session).told, "the session after forgotten, endless and refused nonces → alive")


def killed(case):
    """kill -9 between PAR and callback, between a challenge and its repeat, between a commit and the next call."""
    sandbox, broker = stack(case, refresh_mode="rotate-strict")
    cookie, callback = begin(broker)
    broker.restart()
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)
    case.same(201, answer.status, "kill -9 between PAR and callback → the login's key redeems the code")
    session = next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck=")).split(";")[0].split("=")[1]
    case.same("200", broker.refresh(session).told, "a refresh before the kill → 200")
    broker.restart()
    case.same("200", broker.refresh(session).told, "kill -9 between a commit and the next call → the refresh is 200")
    killed_at_challenge(case, sandbox, broker, "refresh", broker.refresh, session)
    told = wait_for(60, lambda: (found := broker.refresh(session)).status in (200, 401) and found.told, 0.5)
    case.same("200", told, "kill -9 between a challenge and its repeat → another refresh is 200")

    # If the broker dies after the challenge to a code, the code's fate is unknown, so the login ends.
    cookie, callback = begin(broker)

    def forward():
        return broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)

    killed_at_challenge(case, sandbox, broker, "token", forward)
    sent = sandbox.calls("oidc/token")
    told = wait_for(60, lambda: (found := forward()).status != 503 and found.told, 0.5)
    case.same("409 login_required", told, "kill -9 between a code's challenge and its repeat → the login ends")
    case.same(sent, sandbox.calls("oidc/token"), "the repeated forward → the code is not sent again")
    broker.sign_in()
    case.same("200", broker.look(session).told, "a new sign-in after a lost code → the first session lives")


def killed_at_challenge(case, sandbox, broker, endpoint, call, *arguments):
    """Makes a call whose challenge is delayed, and kills the broker before the challenge arrives."""
    sandbox.control("PUT", "/faults/oidc", [
        {"endpoint": endpoint, "fault": "forgets-nonces", "times": 1},
        {"endpoint": endpoint, "fault": "slow-after", "delay_ms": 4000, "times": 1}])
    before = sandbox.calls(f"oidc/{endpoint}")
    case.beside(call, *arguments)
    if not wait_for(10, lambda: sandbox.calls(f"oidc/{endpoint}") > before):
        raise GaveUp(f"no call to {endpoint}")
    broker.restart()
    case.same(before + 1, sandbox.calls(f"oidc/{endpoint}"), f"{endpoint}: kill -9 before the challenge arrives → no repeat")


def answers_bearer(case):
    """A server forgets to bind its tokens. After a code, they are refused. After a refresh, only the access token is dropped.
    """
    sandbox, broker = stack(case, refresh_mode="rotate-strict")
    sandbox.fault("oidc", endpoint="token", fault="token-type-bearer", times=1)
    cookie, callback = begin(broker)
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)
    case.same("502 provider_error", answer.told, "a Bearer answer to a code → refused")
    case.verdict(
        wait_for(10, lambda: sandbox.calls("oidc/revoke") >= 1), "a Bearer answer to a code → its tokens are revoked", sandbox.calls("oidc/revoke"))
    session = broker.sign_in()
    sandbox.fault("oidc", endpoint="refresh", fault="token-type-bearer", times=1)
    answer = broker.refresh(session)
    case.verdict(answer.is_passing_fault, "a Bearer answer to a refresh → 503, and the cookie stays", answer.told)
    case.same(None, broker.look(session).json["tokens"]["expires_at"], "a Bearer answer to a refresh → no access token is kept")
    answer = broker.refresh(session)
    case.verdict(
        answer.is_passing_fault and int(answer.fields["Retry-After"]) <= 30, "the next refresh → 503 for at most half a minute", answer.told)
    case.same(1, sandbox.calls("oidc/refresh"), "two refreshes within the half minute → one call of the provider")
    told = wait_for(45, lambda: (found := broker.refresh(session)).status in (200, 401) and found.told, 1)
    case.same("200", told, "after the half minute → the newest refresh token works")
    case.same(2, sandbox.calls("oidc/refresh"), "after the half minute → one more call")


def nobody_elses(case):
    """The token is useless without its key. It is withheld from apps and backends, and stays bound when the setting goes."""
    sandbox, broker = stack(case, nonces="off")
    session = broker.sign_in()
    tokens = sandbox.control("GET", "/tokens").json["items"]
    token = next(item["token"] for item in tokens if item["token"].startswith("at-"))
    stolen = call(f"{sandbox.url}/oidc/userinfo", Authorization=f"Bearer {token}")
    case.same(401, stolen.status, "a stolen access token as Bearer → 401")
    form = (f"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={session}"
            "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token")
    answer = broker.call("POST", "/v1/token", body=form, Authorization=f"Bearer {BACKEND}", Content_Type="application/x-www-form-urlencoded")
    case.same("400 invalid_request", answer.told, "a backend's exchange without an address → refused")
    case.same("invalid_target", answer.json.get("error"), "a backend's exchange without an address → the error is invalid_target")
    broker.configure(providers={"oidc": {"sender_constrained": "off"}})
    broker.restart()
    case.same("200", broker.refresh(session).told, "the setting is off → a bound session can be refreshed")
    case.verdict(all(fields(r, "DPoP") for r in requests(sandbox, "refresh")), "the setting is off → each refresh of a bound session has a proof")
    sandbox.settings("oidc", dpop="off")
    plain = broker.sign_in()
    case.same([], fields(requests(sandbox, "token")[-1], "DPoP"), "the setting is off → a new sign-in has no proof")
    sandbox.settings("oidc", dpop="require")
    broker.configure(providers={"oidc": {"sender_constrained": "dpop"}})
    broker.restart()
    case.same("200", broker.refresh(plain).told, "`sender_constrained: dpop` is set again → an unbound session is refreshed")
    case.same(1, len(fields(requests(sandbox, "refresh")[-1], "DPoP")), "`sender_constrained: dpop` is set again → the refresh of an unbound session has a proof")


def upstreams_and_backends(case):
    """A bound token at an API: relayed with its proof and the API's nonces, and used by a backend with a proof for one call."""
    sandbox = Sandbox(case)
    sandbox.settings("oidc", dpop="require", nonces="change")
    sandbox.settings("api", nonces="change")
    broker = Broker(case, sandbox, settings={
        "providers": {"oidc": DPOP}, "upstreams": {"api": {"base_url": f"{sandbox.url}/api", "provider": "oidc", "allow": ["ANY /**"]}}})
    session = broker.sign_in()
    for number in range(3):
        answer = broker.call("GET", "/v1/relay/api/private/echo?q=1", session)
        case.same(200, answer.status, f"relayed call {number + 1} → 200")
        sent = {name.lower(): value for name, value in answer.json["headers"]}
        case.verdict(sent["authorization"].startswith("DPoP ") and sent["dpop"], "a relayed call → the upstream receives the token as DPoP and a proof", sent)
        case.same(None, answer.fields["DPoP-Nonce"], "a relayed call → the app receives no nonce of the API")
    case.same(200, broker.call("GET", "/v1/relay/api/401-until-refreshed", session).status, "an API's 401 → one refresh and a new proof, then 200")
    answer = broker.call("POST", "/v1/relay/api/private/echo", session, body=b"x" * 200_000)
    case.same(200, answer.status, "a streamed body with a known nonce → 200")
    sandbox.fault("api", endpoint="api", fault="forgets-nonces", times=1)
    answer = broker.call("POST", "/v1/relay/api/private/echo", session, body=b"x" * 200_000)
    case.same("503 upstream_nonce", answer.told, "a streamed body whose nonce was forgotten → 503 upstream_nonce")
    case.verdict(answer.fields["Retry-After"] == "1" and answer.fields["Coatcheck-Source"] == "broker", "a streamed body whose nonce was forgotten → Retry-After is one second", str(answer.fields))
    case.same(200, broker.call("POST", "/v1/relay/api/private/echo", session, body=b"x" * 200_000).status, "the repeated upload → 200")
    case.same("200", broker.look(session).told, "after the lost nonce → the session lives")

    # A backend uses the token with a proof from its exchange.
    form = (f"grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&subject_token={session}"
            "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aaccess_token")

    def exchange(more=""):
        return broker.call(
            "POST", "/v1/token", body=form + more, Authorization=f"Bearer {BACKEND}", Content_Type="application/x-www-form-urlencoded")

    case.same("invalid_target", exchange().json["error"], "a backend's exchange without an address → invalid_target")
    address = f"{sandbox.url}/api/private/echo"
    nonce = call(address).fields["DPoP-Nonce"]
    answer = exchange(f"&dpop_htm=GET&dpop_htu={address}&dpop_nonce={nonce}")
    case.same("DPoP", answer.json.get("token_type"), "a backend's exchange with an address → a token with a proof")
    made = {"Authorization": f"DPoP {answer.json.get('access_token')}", "DPoP": answer.json.get("dpop_proof", "")}
    case.same(200, call(address, **made).status, "a backend's call with the proof from its exchange → 200")
    case.same(401, call(address, **made).status, "a backend's call with a used proof → 401")
    case.same(401, call(f"{sandbox.url}/api/private/other", **made).status, "a backend's call with the proof at another address → 401")
    for bad in ("&dpop_htm=GET", f"&dpop_htu={address}", f"&dpop_htm=GET&dpop_htu={address}?x=1", "&dpop_htm=GET&dpop_htu=http%3A%2F%2Fapi.example.com%2F",
                f"&dpop_htm=GET&dpop_htu={sandbox.url}/oidc/token", f"&dpop_htm=POST&dpop_htu={sandbox.url}/oidc/par",
                f"&dpop_htm=G%20T&dpop_htu={address}", f"&dpop_htm=GET&dpop_htu={address}&dpop_nonce=a%22b"):
        case.same("400 invalid_request", exchange(bad).told, f"exchange with {bad} → refused")


def unpushed_and_apps_own(case):
    """Without PAR, and flow B: the key is named in the URL, or made with the exchange."""
    sandbox, broker = stack(case, {"par": "off"})
    cookie, callback = begin(broker)
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)
    case.same(201, answer.status, "a login without PAR → 201")
    case.same(1, sum("dpop_jkt=" in request["query"] for request in requests(sandbox, "authorize")), "a login without PAR → the authorization URL names the key")
    verifier = "v" * 43
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    location = call(
        f"{sandbox.url}/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app%3A%2Fcb&scope=openid%20email"
        f"&code_challenge={challenge}&code_challenge_method=S256&state=app-state-1&sandbox_user=ana").fields["Location"]
    body = {"provider": "oidc", "client": "ios", "callback_url": location, "code_verifier": verifier, "state": "app-state-1"}
    answer = broker.call("POST", "/v1/sessions", body=body)
    case.same(201, answer.status, "a login that the app started → 201")
    session = next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck=")).split(";")[0].split("=")[1]
    case.same("200", broker.refresh(session).told, "a refresh of the app's login → 200")


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
