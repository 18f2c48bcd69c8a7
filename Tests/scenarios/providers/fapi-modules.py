"""The OpenID Foundation's client plan for the FAPI 2.0 Security Profile (final, plain responses). A broker with `profile:
fapi2` runs at a server that plays each module, by its `testName`. For each variant of client authentication and token binding
there is a table of the broker's answers. The script also checks each request that the server received.
"""

import base64
import hashlib
import json
import pathlib
import re
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.fapi import PREFIX, Server, broker, fields  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

UPSTREAM = "/v1/relay/api/private/echo"
# For each testName (without the prefix), the broker's answer to the login's start if the login ends there, or else to the
# forwarded callback.
REFUSED_TOKEN = "502 identity_rejected"
ANSWERS = {
    "test-happy-path": "201",
    "test-discovery-issuer-mismatch": "502 provider_error",
    "test-invalid-iss": REFUSED_TOKEN,
    "test-invalid-aud": REFUSED_TOKEN,
    "test-invalid-secondary-aud": REFUSED_TOKEN,
    "test-invalid-null-alg": REFUSED_TOKEN,
    "test-invalid-alternate-alg": REFUSED_TOKEN,
    "test-invalid-expired-exp": REFUSED_TOKEN,
    "test-invalid-missing-exp": REFUSED_TOKEN,
    "test-invalid-missing-aud": REFUSED_TOKEN,
    "test-invalid-missing-iss": REFUSED_TOKEN,
    "test-valid-aud-as-array": "201",
    "test-invalid-nonce": REFUSED_TOKEN,
    "test-invalid-missing-nonce": REFUSED_TOKEN,
    "test-invalid-authorization-response-iss": "400 issuer_mismatch",
    "test-remove-authorization-response-iss": "400 issuer_mismatch",
    "test-ensure-authorization-response-with-invalid-state-fails": "400 state_mismatch",
    "test-ensure-authorization-response-with-invalid-missing-state-fails": "409 login_required",
    "test-token-endpoint-response-without-expires_in": "201",
    "test-token-type-case-insensitivity": "201",
    "test-rs-dpop-auth-scheme-case-insensitivity": "201",
    "test-happy-path-no-dpop-nonce": "201",
    "refresh-token-test": "201",
}
# For each module that succeeds, the fault that the sandbox plays. If it played none, the module would only repeat the happy path.
PLAYED = {
    "test-valid-aud-as-array": "aud-array", "test-token-endpoint-response-without-expires_in": "no-expires-in",
    "test-token-type-case-insensitivity": "token-type-inverted", "test-rs-dpop-auth-scheme-case-insensitivity": "inverted-scheme",
    "refresh-token-test": "status"}
# Certificate-bound tokens have neither proofs nor nonces, so the plan itself leaves these modules out.
WITHOUT_MEANING = {"mtls": {"test-rs-dpop-auth-scheme-case-insensitivity", "test-happy-path-no-dpop-nonce"}, "dpop": set()}


def decoded(segment):
    return json.loads(base64.urlsafe_b64decode(segment + "=" * (-len(segment) % 4)))


def jwt(text):
    header, claims, _ = text.split(".")
    return decoded(header), decoded(claims)


def form(request):
    return dict(urllib.parse.parse_qsl(request["body"], keep_blank_values=True))


def begin(made):
    return made.call("POST", "/v1/logins", body={"provider": "oidc", "client": "web"})


def forward(made, begun, user="ana"):
    """Signs the user in at the server and forwards the callback. Returns the callback's URL and the broker's answer."""
    cookie = re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]
    opened = call(begun.json["authorization_url"] + f"&sandbox_user={user}")
    callback = opened.fields["Location"]
    if not callback:
        raise GaveUp(f"the server does not open {begun.json['authorization_url']}: {opened.body[-300:]}")
    body = {"callback_url": callback, "provider": "oidc", "client": "web"}
    return callback, made.call("POST", "/v1/sessions", body=body, Cookie=cookie)


def session_of(answer):
    found = re.search(r"coatcheck=([^;]+)", ", ".join(answer.fields.get_all("Set-Cookie") or []))
    return found[1] if found and found[1] else None


def on_the_wire(case, server, begun, label, authentication, binding):
    """The duties of a FAPI 2 client, checked in the requests that the server received."""
    issuer = f"{server.url}/oidc"
    pushed = server.requests("par")
    tokens = server.requests("token") + server.requests("refresh")
    names = sorted(dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(begun.json["authorization_url"]).query)))
    case.same(["client_id", "request_uri"], names, f"{label}: authorization URL → has exactly client_id and request_uri")
    first = form(pushed[-1])
    case.same(("S256", 43), (first.get("code_challenge_method"), len(first.get("code_challenge", ""))), f"{label}: pushed request → has a PKCE challenge with S256")
    verifier = [form(request).get("code_verifier") for request in server.requests("token")][-1:]
    if verifier:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier[0].encode()).digest()).rstrip(b"=").decode()
        case.same(first["code_challenge"], challenge, f"{label}: token call → has the verifier of the pushed PKCE challenge")
    own = pushed + tokens + server.requests("revoke")
    if authentication == "private_key_jwt":
        assertions = [jwt(form(request)["client_assertion"]) for request in own]
        case.same({issuer}, {json.dumps(claims["aud"]).strip('"') for _, claims in assertions}, f"{label}: client assertions → aud is the issuer")
        case.verdict(all(isinstance(claims["aud"], str) for _, claims in assertions), f"{label}: client assertions → aud is a text, not a list")
        case.same({"ES256"}, {header["alg"] for header, _ in assertions}, f"{label}: client assertions → signed with ES256")
        identifiers = [claims["jti"] for _, claims in assertions]
        case.same(len(identifiers), len(set(identifiers)), f"{label}: {len(identifiers)} client assertions → each is sent once")
    else:
        case.verdict(all("client_assertion" not in form(r) and "client_secret" not in form(r) for r in own), f"{label}, the client's calls → have neither client_assertion nor client_secret, because the certificate authenticates")
    if server.certificates:
        case.verdict(all(request["certificate"] for request in own), f"{label}, the client's calls → each uses the client certificate")
    case.verdict(not any(fields(request, "Authorization") for request in own), f"{label}, the client's calls → have no Authorization field")
    if binding == "dpop":
        case.verdict(first.get("dpop_jkt"), f"{label}: pushed request → names the DPoP key")
        proofs = [jwt(proof) for request in pushed + tokens for proof in fields(request, "DPoP")]
        case.same(len(pushed + tokens), len(proofs), f"{label}: pushed requests and token calls → each has a DPoP proof")
        identifiers = [claims["jti"] for _, claims in proofs]
        case.same(len(identifiers), len(set(identifiers)), f"{label}: {len(identifiers)} DPoP proofs → each is sent once")
    else:
        case.verdict(not any(fields(request, "DPoP") for request in own), f"{label}, the client's calls with mTLS → have no DPoP proof")


def at_the_resource(case, server, made, session, label, binding):
    """Relays a call to the API, and checks the token's scheme and whether there is a DPoP proof."""
    answer = made.call("GET", UPSTREAM, session)
    case.same(200, answer.status, f"{label}, a relayed call to the API → 200")
    sent = {name.lower(): value for name, value in (answer.json.get("headers") or [])}
    scheme = "DPoP" if binding == "dpop" else "Bearer"
    case.verdict(sent.get("authorization", "").startswith(scheme + " "), f"{label}, a relayed call to the API → the token has the scheme {scheme}", sent)
    case.same(binding == "dpop", "dpop" in sent, f"{label}, a relayed call to the API → a DPoP proof only if the token is bound to a key")


def module(case, server, authentication, binding, name):
    """Runs one module; returns the broker's answer."""
    label = name
    if not server.play(name, binding):
        case.verdict(name in WITHOUT_MEANING[binding], f"{label}, the sandbox refuses to play this module for {binding} → the test plan expects the refusal")
        return "– (no proofs, no nonces)"
    placed = [fault["fault"] for fault in server.control("GET", "/faults").json["items"]]
    if name in PLAYED:
        case.same([PLAYED[name]], placed, f"{label}, the sandbox plays this module → it has placed exactly the module's fault")
    made = broker(case, server, authentication, binding, name)
    try:
        begun = begin(made)
        if begun.status != 201:
            case.same(ANSWERS[name], begun.told, f"{label}, the broker refuses to start a login → the app gets the answer that the test plan expects")
            case.same(0, server.calls("oidc/par") + server.calls("oidc/token"), f"{label}, the broker refuses to start a login → zero calls of the PAR and token endpoints")
            return begun.told
        callback, answer = forward(made, begun)
        case.same(ANSWERS[name], answer.told, f"{label}, a forwarded callback → gets the answer that the test plan expects")
        told = answer.told
        made_sessions = made.query("SELECT count(*) FROM sessions")[0][0]
        if answer.status == 201:
            session = session_of(answer)
            case.verdict(session and made_sessions == 1, f"{label}, a successful sign-in → one session")
            if name == "refresh-token-test":
                codes = [made.call("GET", UPSTREAM, session).status for _ in range(2)]
                case.same([401, 200], codes, f"{label}: two relayed calls to an API that wants newer tokens → 401, then 200")
                refreshes = [form(request)["refresh_token"] for request in server.requests("refresh") if request["status"] == 200]
                case.same((2, 2), (len(refreshes), len(set(refreshes))), f"{label}: two refreshes for relayed calls → each refresh token is used once")
                told += ", two refreshes"
            else:
                case.same("200", made.refresh(session).told, f"{label}, the session's refresh → 200")
            at_the_resource(case, server, made, session, label, binding)
            if name == "test-rs-dpop-auth-scheme-case-insensitivity":
                challenges = [r for r in server.requests("api", "api") if r["status"] == 401]
                case.verdict(challenges, f"{label}, a relayed call to the API → the API asked for a nonce first")
            if name == "test-happy-path-no-dpop-nonce":
                proofs = [jwt(p)[1] for e in ("par", "token", "refresh") for r in server.requests(e) for p in fields(r, "DPoP")]
                case.verdict(not any("nonce" in claims for claims in proofs), f"{label}, all calls to a server without nonces → no proof has a nonce")
                case.same(1, server.calls("oidc/token"), f"{label}, a sign-in at a server without nonces → one token call")
        else:
            case.same((None, 0), (session_of(answer), made_sessions), f"{label}, a refused callback → no session")
            if told == REFUSED_TOKEN:
                good = [r for r in server.requests("token") if r["status"] == 200]
                case.same(1, len(good), f"{label}, the broker refuses the id_token of a login → the login's code was redeemed once")
                case.verdict(wait_for(10, lambda: server.calls("oidc/revoke") >= 1), f"{label}, the broker refuses the id_token of a login → it revokes the tokens that came with the id_token")
                live = wait_for(5, lambda: not any(i["live"] for i in server.control("GET", "/tokens?provider=oidc").json["items"]))
                case.verdict(live, f"{label}, the broker refuses the id_token of a login → at the server, no token is alive")
                case.same(0, server.calls("oidc/userinfo") + server.calls("api/api"), f"{label}, the broker refuses the id_token of a login → no call of userinfo or the API")
            else:
                case.same(0, server.calls("oidc/token"), f"{label}, a refused callback → zero token calls")
            before = server.calls("oidc/token")
            cookie = re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]
            again = made.call("POST", "/v1/sessions", body={"callback_url": callback, "provider": "oidc", "client": "web"}, Cookie=cookie)
            case.verdict(again.status >= 400 and not session_of(again), f"{label}, a refused callback, forwarded again → refused again", again.told)
            case.same(before, server.calls("oidc/token"), f"{label}, a refused callback, forwarded again → zero token calls")
        on_the_wire(case, server, begun, label, authentication, binding)
        return told
    finally:
        made.stop()


def variant(authentication, binding):
    def run(case):
        server = Server(case, authentication, binding)
        known = server.control("GET", "/modules").json["items"]
        case.same([PREFIX + name for name in ANSWERS], known, "the sandbox's list of modules → equals the test plan's 23 modules, in the same order")
        found = {}
        for name in ANSWERS:
            server.control("POST", "/revoke", {"provider": "oidc"})
            found[name] = module(case, server, authentication, binding, name)
        case.lines.append(f"# {authentication} × {binding}")
        case.lines += [f"#   {PREFIX}{name:<68} {told}" for name, told in found.items()]

    run.__doc__ = f"Client authentication by {authentication}, tokens bound by {binding}"
    return run


def errors_need_iss(case):
    """In addition to the plan: the broker refuses an error without `iss`, and starts no login if the server's PAR endpoint fails."""
    server = Server(case, "private_key_jwt", "dpop")
    server.play("test-happy-path", "dpop")
    made = broker(case, server, "private_key_jwt", "dpop", "errors")
    server.fault("oidc", endpoint="authorize", fault="no-iss-callback")
    _, answer = forward(made, begin(made), user="denied")
    case.same("400 issuer_mismatch", answer.told, "an authorization error without iss → 400 issuer_mismatch")
    server.control("DELETE", "/faults")
    _, answer = forward(made, begin(made), user="denied")
    case.same("403 access_denied", answer.told, "an authorization error with iss → 403 access_denied")
    server.fault("oidc", endpoint="par", fault="status", status=503)
    begun = begin(made)
    case.verdict(begun.status in (502, 503) and not begun.json.get("authorization_url"), "login while the PAR endpoint answers 503 → refused, without an authorization URL", begun.told)
    case.same(0, server.calls("oidc/token"), "login while the PAR endpoint answers 503 → zero token calls")


CASES = {
    "private_key_jwt-dpop": (variant("private_key_jwt", "dpop"), 240),
    "private_key_jwt-mtls": (variant("private_key_jwt", "mtls"), 240),
    "mtls-dpop": (variant("mtls", "dpop"), 240),
    "mtls-mtls": (variant("mtls", "mtls"), 240),
    "errors-need-iss": (errors_need_iss, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
