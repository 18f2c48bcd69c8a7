"""The OpenID Foundation's client plan for the FAPI 2.0 Security Profile (final, plain responses). A broker with `profile:
fapi2` runs at a server that plays each module, by its `testName`. For each variant of client authentication and token binding
there is a table of the broker's answers. The server's received requests are checked on the wire.
"""

import base64
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.harness import COATCHECK, Broker, GaveUp, Sandbox, call, main, wait_for  # noqa: E402

PREFIX = "fapi2-security-profile-final-client-"
REDIRECT = "https://app.example.org/bank"
UPSTREAM = "/v1/relay/api/private/echo"

# testName without the prefix → the broker's answer: to the login's start if it ends there, else to the forwarded callback.
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
# The server's behaviour in the modules that succeed; without it they would be the happy path again.
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


class Server(Sandbox):
    """A FAPI 2 server with one client; with certificates also a listener that asks for them."""

    def __init__(self, case, authentication, binding):
        self.folder = case.folder
        self.certificates = "mtls" in (authentication, binding)
        self.more = []
        if self.certificates:
            self.issue()
            self.more = [
                "--mtls-port", "0", "--mtls-certificate", self.folder / "server.pem", "--mtls-key", self.folder / "server.key",
                "--mtls-client-roots", self.folder / "ca.pem"]
        start = case.start
        case.start = lambda command, log, environment=None: start([*command, *self.more], log, environment)
        try:
            super().__init__(case)
        finally:
            case.start = start
        registered = {
            "auth": "private_key_jwt" if authentication == "private_key_jwt" else "tls_client_auth", "redirect_uris": [REDIRECT],
            "jwks": {"keys": [self.control("GET", "/client-key.json").json]}, "require_pkce": True}
        if self.certificates:
            registered |= {"tls_client_auth_san_dns": "client.example.org", "tls_client_certificate_bound_access_tokens": binding == "mtls"}
        if self.control("PUT", "/clients/oidc/bank-client", registered).status != 204:
            raise GaveUp("the client is not registered")
        key = self.control("GET", "/client-key.pem")
        (self.folder / "client-key.pem").write_bytes(key.body)
        (self.folder / "client-key.pem").chmod(0o600)
        self.key_id = key.fields["X-Key-Id"]

    def issue(self):
        """A new authority, with the server's certificate and the client's."""

        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
        for name, host in (("server", "localhost"), ("client", "client.example.org")):
            (self.folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{host}\n")
            openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            openssl(
                "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", f"{name}.ext", "-out", f"{name}.pem")
            (self.folder / f"{name}.key").chmod(0o600)

    def play(self, name, binding):
        answer = self.control("PUT", "/modules/oidc", {"module": PREFIX + name, "sender_constrain": binding})
        self.control("DELETE", "/requests")
        return answer.json.get("applies")

    def requests(self, endpoint, provider="oidc"):
        return self.control("GET", f"/requests?provider={provider}&endpoint={endpoint}").json["items"]


def fields(request, name):
    return [value for key, value in request["headers"] if key.lower() == name.lower()]


def form(request):
    return dict(urllib.parse.parse_qsl(request["body"], keep_blank_values=True))


def broker(case, server, authentication, binding, name, start=True):
    """A broker with `profile: fapi2` and the client's settings; all else comes from the profile."""
    client = {"client_id": "bank-client", "redirect_uris": [REDIRECT], "scope": "openid email offline_access", "auth": None, "login": None}
    if authentication == "private_key_jwt":
        client["private_key"] = {"file": str(server.folder / "client-key.pem"), "key_id": server.key_id, "algorithm": "ES256"}
        if binding == "mtls":
            client["sender_constrained"] = "mtls"
    elif binding == "dpop":
        client["sender_constrained"] = "dpop"
    provider = {"profile": "fapi2", "clients": {"ios": None, "android": None, "web": client}}
    base = server.url
    upstream = {"base_url": f"{base}/api", "provider": "oidc", "allow": ["ANY /**"]}
    if server.certificates:
        provider["tls"] = {
            "certificate": str(server.folder / "client.pem"), "key": str(server.folder / "client.key"), "ca_file": str(server.folder / "ca.pem")}
    if binding == "mtls":
        document = call(f"{base}/oidc/.well-known/openid-configuration").json
        secure = document["mtls_endpoint_aliases"]["token_endpoint"].removesuffix("/oidc/token")
        upstream |= {"base_url": f"{secure}/api", "tls": {"ca_file": str(server.folder / "ca.pem")}}
    return Broker(case, server, name=name, settings={"providers": {"oauth2": None, "oidc": provider}, "upstreams": {"api": upstream}}, start=start)


def begin(made):
    return made.call("POST", "/v1/logins", body={"provider": "oidc", "client": "web"})


def forward(made, begun, user="ana"):
    """Returns the server's callback, and the broker's answer."""
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
    case.same(["client_id", "request_uri"], names, f"{label}: authorization URL → has client_id and request_uri alone")
    first = form(pushed[-1])
    case.same(("S256", 43), (first.get("code_challenge_method"), len(first.get("code_challenge", ""))), f"{label}: pushed request → has a PKCE challenge with S256")
    verifier = [form(request).get("code_verifier") for request in server.requests("token")][-1:]
    if verifier:
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier[0].encode()).digest()).rstrip(b"=").decode()
        case.same(first["code_challenge"], challenge, f"{label}: token call → has the verifier of the pushed challenge")
    own = pushed + tokens + server.requests("revoke")
    if authentication == "private_key_jwt":
        assertions = [jwt(form(request)["client_assertion"]) for request in own]
        case.same({issuer}, {json.dumps(claims["aud"]).strip('"') for _, claims in assertions}, f"{label}: client assertions → aud is the issuer")
        case.verdict(all(isinstance(claims["aud"], str) for _, claims in assertions), f"{label}: client assertions → aud is a text, not a list")
        case.same({"ES256"}, {header["alg"] for header, _ in assertions}, f"{label}: client assertions → signed with ES256")
        identifiers = [claims["jti"] for _, claims in assertions]
        case.same(len(identifiers), len(set(identifiers)), f"{label}: {len(identifiers)} client assertions → each is sent once")
    else:
        case.verdict(all("client_assertion" not in form(r) and "client_secret" not in form(r) for r in own), f"{label}, the client's calls → authenticated by the certificate alone")
    if server.certificates:
        case.verdict(all(request["certificate"] for request in own), f"{label}, the client's calls → each shows the certificate")
    case.verdict(not any(fields(request, "Authorization") for request in own), f"{label}, the client's calls → none has an Authorization field")
    if binding == "dpop":
        case.verdict(first.get("dpop_jkt"), f"{label}: pushed request → names the DPoP key")
        proofs = [jwt(proof) for request in pushed + tokens for proof in fields(request, "DPoP")]
        case.same(len(pushed + tokens), len(proofs), f"{label}: pushed requests and token calls → each has a DPoP proof")
        identifiers = [claims["jti"] for _, claims in proofs]
        case.same(len(identifiers), len(set(identifiers)), f"{label}: {len(identifiers)} DPoP proofs → each is sent once")
    else:
        case.verdict(not any(fields(request, "DPoP") for request in own), f"{label}, the client's calls with mTLS → none has a DPoP proof")


def at_the_resource(case, server, made, session, label, binding):
    """A call of the API: the token as it is bound, in the header alone."""
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
        case.verdict(name in WITHOUT_MEANING[binding], f"{label}, the sandbox refuses the module → the module has no meaning for {binding}")
        return "– (no proofs, no nonces)"
    placed = [fault["fault"] for fault in server.control("GET", "/faults").json["items"]]
    if name in PLAYED:
        case.same([PLAYED[name]], placed, f"{label}, the sandbox → plays the module's fault")
    made = broker(case, server, authentication, binding, name)
    try:
        begun = begin(made)
        if begun.status != 201:
            case.same(ANSWERS[name], begun.told, f"{label}, a login → its start is refused as the plan expects")
            case.same(0, server.calls("oidc/par") + server.calls("oidc/token"), f"{label}, a login whose start is refused → zero calls of the PAR and token endpoints")
            return begun.told
        callback, answer = forward(made, begun)
        case.same(ANSWERS[name], answer.told, f"{label}, a forwarded callback → answered as the plan expects")
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
            case.same((None, 0), (session_of(answer), made_sessions), f"{label}, a refused sign-in → no session")
            if told == REFUSED_TOKEN:
                good = [r for r in server.requests("token") if r["status"] == 200]
                case.same(1, len(good), f"{label}, a refused id_token → its code was redeemed once")
                case.verdict(wait_for(10, lambda: server.calls("oidc/revoke") >= 1), f"{label}, a refused id_token → its tokens are revoked")
                live = wait_for(5, lambda: not any(i["live"] for i in server.control("GET", "/tokens?provider=oidc").json["items"]))
                case.verdict(live, f"{label}, a refused id_token → none of its tokens is alive")
                case.same(0, server.calls("oidc/userinfo") + server.calls("api/api"), f"{label}, a refused id_token → no call of userinfo or the API")
            else:
                case.same(0, server.calls("oidc/token"), f"{label}, a refused callback → its code is not sent")
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
        case.same([PREFIX + name for name in ANSWERS], known, "the sandbox's list of modules → the plan's 23 modules, in its order")
        found = {}
        for name in ANSWERS:
            server.control("POST", "/revoke", {"provider": "oidc"})
            found[name] = module(case, server, authentication, binding, name)
        case.lines.append(f"# {authentication} × {binding}")
        case.lines += [f"#   {PREFIX}{name:<68} {told}" for name, told in found.items()]

    run.__doc__ = f"Client authentication by {authentication}, tokens bound by {binding}"
    return run


def errors_need_iss(case):
    """In addition to the plan, an error without `iss` is ignored, and so is a server without PAR."""
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
    case.verdict(begun.status in (502, 503) and not begun.json.get("authorization_url"), "a server whose PAR fails → no plain authorization request in place of a pushed one", begun.told)
    case.same(0, server.calls("oidc/token"), "a server whose PAR fails → no code is sent")


def cloudentity(case):
    """A FAPI 2 workspace of Cloudentity: the preset with the one line."""
    server = Server(case, "private_key_jwt", "dpop")
    registered = {"auth": "private_key_jwt", "redirect_uris": [REDIRECT]}
    server.control("PUT", "/clients/cloudentity/bank-client", registered)
    server.control("PUT", "/modules/cloudentity", {"module": PREFIX + "test-happy-path", "sender_constrain": "dpop"})
    client = {
        "client_id": "bank-client", "redirect_uris": [REDIRECT], "scope": "openid email offline_access",
        "private_key": {"file": str(server.folder / "client-key.pem"), "key_id": server.key_id, "algorithm": "ES256"}}
    workspace = {
        "preset": "cloudentity", "issuer": f"{server.url}/cloudentity/example/demo", "profile": "fapi2", "clients": {"web": client}}
    made = Broker(case, server, settings={"providers": {"oauth2": None, "oidc": None, "cloudentity": workspace}})
    session = made.sign_in(provider="cloudentity", client="web")
    for _ in range(3):
        case.same("200", made.refresh(session).told, "a refresh at Cloudentity → 200")
    sent = [fields(r, "X-Idempotency-Key")[0] for e in ("token", "refresh") for r in server.requests(e, "cloudentity")]
    case.same(len(sent), len(set(sent)), f"{len(sent)} token calls at Cloudentity → each has its own idempotency key")
    challenged = [r for r in server.requests("token", "cloudentity") if r["status"] == 400]
    server.fault("cloudentity", endpoint="refresh", fault="forgets-nonces", times=1)
    case.same("200", made.refresh(session).told, "a refresh after Cloudentity forgot its nonce → 200")
    again = server.requests("refresh", "cloudentity")[-2:]
    case.same([400, 200], [r["status"] for r in again], "a refresh after Cloudentity forgot its nonce → refused once, then repeated with success")
    keys = [fields(r, "X-Idempotency-Key")[0] for r in again]
    case.verdict(keys[0] != keys[1], "a repeated refresh at Cloudentity → has a new idempotency key, because the old key repeats the refusal", keys)
    case.same([], challenged, "a code's token call at Cloudentity → has the nonce from the pushed request")
    names = [sorted(dict(urllib.parse.parse_qsl(r["query"]))) for r in server.requests("authorize", "cloudentity")]
    case.same([["client_id", "request_uri", "sandbox_user"]], names, "Cloudentity's authorization URL → has client_id and request_uri alone")


MEMBERS = [
    "pushed_authorization_request_endpoint", "dpop_signing_alg_values_supported", "token_endpoint_auth_methods_supported",
    "token_endpoint_auth_signing_alg_values_supported", "authorization_response_iss_parameter_supported",
    "code_challenge_methods_supported", "id_token_signing_alg_values_supported"]


def check_online(case):
    """`check --online` names each member that the metadata lacks, and pushes one request that is never opened."""
    server = Server(case, "private_key_jwt", "dpop")
    server.play("test-happy-path", "dpop")
    made = broker(case, server, "private_key_jwt", "dpop", "checked", start=False)

    def check():
        found = subprocess.run([COATCHECK, "check", "--online", "--config", made.configuration], capture_output=True, text=True)
        return found.returncode, found.stdout + found.stderr

    status, text = check()
    case.same(0, status, "complete metadata and a known client → `check --online` succeeds")
    case.verdict("profile: fapi2: par required, pkce required, auth private_key_jwt, sender_constrained dpop" in text, "`check --online` with `profile: fapi2` → prints the settings that follow from the profile", text)
    case.verdict("ok     providers.oidc par: client `web`: a request that nobody opens was taken" in text, "`check --online` with `profile: fapi2` → reports that the server took a pushed request", text)
    case.verdict("the server gives nonces" in text, "`check --online` at a server with DPoP nonces → reports the nonces", text)
    opened = [request for request in server.requests("authorize") if "request_uri" in request["query"]]
    case.same(([], 0), (opened, server.calls("oidc/token")), "the request that `check --online` pushed → is never opened, and no code is sent")
    pushed = server.requests("par")
    case.same([400, 201], [request["status"] for request in pushed], "`check --online` at a server with DPoP nonces → pushes once, and once more with the nonce")
    for member in MEMBERS:
        server.settings("oidc", discovery={member: None})
        status, text = check()
        faults = [line for line in text.splitlines() if line.startswith("FAULT") and " fapi2: " in line]
        case.same((1, 1), (status, len(faults)), f"metadata without {member} → `check --online` prints one fault")
        case.verdict(faults and member in faults[0], f"metadata without {member} → the fault names the member", text)
    server.settings("oidc", discovery={"id_token_signing_alg_values_supported": ["RS256"], "dpop_signing_alg_values_supported": ["RS256"]})
    status, text = check()
    case.same((1, 2), (status, text.count("FAULT  providers.oidc fapi2: ")), "metadata whose lists lack the profile's algorithms → `check --online` prints two faults")
    server.settings("oidc", discovery={})
    server.control("PUT", "/clients/oidc/bank-client", {"auth": "private_key_jwt", "jwks": {"keys": []}, "redirect_uris": ["https://else.example/cb"]})
    server.settings("oidc", assertion_typ="other")
    status, text = check()
    case.verdict(status == 1 and "its pushed request is refused: " in text and "invalid_client" in text, "a client that the server does not know → `check --online` prints the refused pushed request", text)
    server.settings("oidc", assertion_typ=None)

    # Outside the profile these members are no faults.
    plain = {"profile": None, "par": "optional", "sender_constrained": "dpop", "clients": {"web": {"auth": "private_key_jwt"}}}
    made.configure(providers={"oidc": plain})
    server.settings("oidc", discovery={"id_token_signing_alg_values_supported": None})
    status, text = check()
    case.verdict("warn   providers.oidc metadata: id_token_signing_alg_values_supported" in text, "metadata without id_token algorithms, no `profile: fapi2` → `check --online` prints a warning", text)
    case.same(0, status, "metadata without id_token algorithms, no `profile: fapi2` → `check --online` succeeds")

    # `serve` refuses as `check` does.
    made.configure(providers={"oidc": {"profile": "fapi2", "par": "off"}})
    words = "providers.oidc.par: contradicts profile fapi2: "
    for command in (["check"], ["serve"]):
        found = subprocess.run([COATCHECK, *command, "--config", made.configuration], capture_output=True, text=True, timeout=60)
        case.verdict(found.returncode != 0 and words in found.stdout + found.stderr, f"`{command[0]}` with `profile: fapi2` and `par: off` → refused as a contradiction", found.stderr)


CASES = {
    "check-online": (check_online, 120),
    "cloudentity": (cloudentity, 90),
    "private_key_jwt-dpop": (variant("private_key_jwt", "dpop"), 240),
    "private_key_jwt-mtls": (variant("private_key_jwt", "mtls"), 240),
    "mtls-dpop": (variant("mtls", "dpop"), 240),
    "mtls-mtls": (variant("mtls", "mtls"), 240),
    "errors-need-iss": (errors_need_iss, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
