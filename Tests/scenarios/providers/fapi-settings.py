"""The settings of a FAPI 2.0 client: `check --online` against a server's metadata, and sign-ins at a FAPI 2 workspace of
Cloudentity."""

import pathlib
import subprocess
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.fapi import PREFIX, REDIRECT, Server, broker, fields  # noqa: E402
from support.programs import COATCHECK  # noqa: E402


def cloudentity(case):
    """A FAPI 2 workspace of Cloudentity. For FAPI 2, the configuration needs only the line `profile: fapi2` next to the preset."""
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
        case.same("200", made.refresh(session).told, "refresh of a FAPI 2 session at Cloudentity → 200")
    sent = [fields(r, "X-Idempotency-Key")[0] for e in ("token", "refresh") for r in server.requests(e, "cloudentity")]
    case.same(len(sent), len(set(sent)), f"{len(sent)} token calls at Cloudentity → each has its own idempotency key")
    challenged = [r for r in server.requests("token", "cloudentity") if r["status"] == 400]
    server.fault("cloudentity", endpoint="refresh", fault="forgets-nonces", times=1)
    case.same("200", made.refresh(session).told, "refresh after Cloudentity has forgotten its DPoP nonce → 200")
    again = server.requests("refresh", "cloudentity")[-2:]
    case.same([400, 200], [r["status"] for r in again], "refresh after Cloudentity has forgotten its DPoP nonce → refused once, then repeated with success")
    keys = [fields(r, "X-Idempotency-Key")[0] for r in again]
    case.verdict(keys[0] != keys[1], "refresh repeated because of a DPoP nonce → has a new idempotency key, because the old key would repeat the refusal", keys)
    case.same([], challenged, "first token call of a FAPI 2 sign-in → accepted, because the pushed request has already brought the DPoP nonce")
    names = [sorted(dict(urllib.parse.parse_qsl(r["query"]))) for r in server.requests("authorize", "cloudentity")]
    case.same([["client_id", "request_uri", "sandbox_user"]], names, "Cloudentity's authorization URL → has only client_id and request_uri")


MEMBERS = [
    "pushed_authorization_request_endpoint", "dpop_signing_alg_values_supported", "token_endpoint_auth_methods_supported",
    "token_endpoint_auth_signing_alg_values_supported", "authorization_response_iss_parameter_supported",
    "code_challenge_methods_supported", "id_token_signing_alg_values_supported"]


def check_online(case):
    """`check --online` names each member that the metadata lacks, and pushes one authorization request, whose URL it never opens."""
    server = Server(case, "private_key_jwt", "dpop")
    server.play("test-happy-path", "dpop")
    made = broker(case, server, "private_key_jwt", "dpop", "checked", start=False)

    def check():
        found = subprocess.run([COATCHECK, "check", "--online", "--config", made.configuration], capture_output=True, text=True)
        return found.returncode, found.stdout + found.stderr

    status, text = check()
    case.same(0, status, "server with complete metadata and a known client → `check --online` succeeds")
    case.verdict("profile: fapi2: par required, pkce required, auth private_key_jwt, sender_constrained dpop" in text, "`check --online` with `profile: fapi2` → prints the settings that follow from the profile", text)
    case.verdict("ok     providers.oidc par: client `web`: a request that nobody opens was taken" in text, "`check --online` with `profile: fapi2` → reports that the server took a pushed request", text)
    case.verdict("the server gives nonces" in text, "`check --online` at a server with DPoP nonces → reports the nonces", text)
    opened = [request for request in server.requests("authorize") if "request_uri" in request["query"]]
    case.same(([], 0), (opened, server.calls("oidc/token")), "`check --online` pushes an authorization request → the request's URL is never opened, and no code is sent")
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

    # Without `profile: fapi2`, a missing member is only a warning.
    plain = {"profile": None, "par": "optional", "sender_constrained": "dpop", "clients": {"web": {"auth": "private_key_jwt"}}}
    made.configure(providers={"oidc": plain})
    server.settings("oidc", discovery={"id_token_signing_alg_values_supported": None})
    status, text = check()
    case.verdict("warn   providers.oidc metadata: id_token_signing_alg_values_supported" in text, "metadata without id_token algorithms, client without `profile: fapi2` → `check --online` prints a warning", text)
    case.same(0, status, "metadata without id_token algorithms, client without `profile: fapi2` → `check --online` succeeds")

    # `serve` and `check` refuse the same contradiction.
    made.configure(providers={"oidc": {"profile": "fapi2", "par": "off"}})
    words = "providers.oidc.par: contradicts profile fapi2: "
    for command in (["check"], ["serve"]):
        found = subprocess.run([COATCHECK, *command, "--config", made.configuration], capture_output=True, text=True, timeout=60)
        case.verdict(found.returncode != 0 and words in found.stdout + found.stderr, f"`{command[0]}` with `profile: fapi2` and `par: off` → refused as a contradiction", found.stderr)


CASES = {
    "check-online": (check_online, 120),
    "cloudentity": (cloudentity, 90),
}

if __name__ == "__main__":
    main(CASES, __doc__)
