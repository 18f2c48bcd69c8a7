"""Bound tokens at servers from outside this project. Glewlwyd issues them, and Apache with mod_oauth2 checks their DPoP proofs
or certificates."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.authority import Authority  # noqa: E402
from support.broker import ADMIN  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.glewlwyd import Glewlwyd  # noqa: E402
from support.glewlwyd_broker import APP, apache, begin, broker_of, relayed, sign_in  # noqa: E402
from support.mod_oauth2 import Apache  # noqa: E402
from support.waiting import wait_for  # noqa: E402


def certificates(case):
    """A client that authenticates with a certificate, and tokens bound to this certificate, which the API checks (RFC 8705)."""
    authority = Authority(case)
    authority.sign("server", "IP:127.0.0.1")
    for name in ("client", "stranger"):
        authority.sign(name, f"DNS:{name}.example")
    glewlwyd = Glewlwyd(case, {"certificate": authority.file("server.pem"), "key": authority.file("server.key"), "roots": authority.file("root.pem")})
    issuer = glewlwyd.bank()
    glewlwyd.client(
        "bank", APP, confidential=True, token_endpoint_auth_method=["tls_client_auth"], tls_client_auth_san_dns="client.example")
    api = Apache(case, issuer, authority=authority)
    roots = {"ca_file": authority.file("root.pem")}
    api_settings = {"standard": {"base_url": f"{api.url}/standard", "provider": "real", "allow": ["ANY /**"], "tls": roots}}

    def settings(name):
        shown = {"certificate": authority.file(f"{name}.pem"), "key": authority.file(f"{name}.key")} if name else {}
        return {"sender_constrained": "mtls", "par": "required", "tls": roots | shown, "clients": {"ios": {
            "client_id": "bank", "auth": "tls_client_auth", "scope": "openid", "redirect_uris": [APP]}}}

    stranger = broker_of(case, issuer, api_settings, name="stranger-broker", **settings("stranger"))
    case.verdict(begin(stranger).status >= 500, "login with a certificate of another client → the provider refuses the pushed request", begin(stranger).told)
    stranger.stop()
    broker = broker_of(case, issuer, api_settings, **settings("client"))
    session, answer = sign_in(broker, glewlwyd)
    case.same("Ana Example", answer.json["identity"]["name"], "sign-in with the client's certificate → a session with the user's name")
    for number in range(3):
        case.same("200", broker.refresh(session).told, "refresh with the client's certificate → 200")
        case.same(200, relayed(broker, session).status, "relayed call to Apache, which checks the certificate → 200")
        broker.restart()
    sent = {name.lower(): value for name, value in relayed(broker, session).json["fields"].items()}
    token = sent["authorization"].removeprefix("Bearer ")
    case.verdict(authority.thumbprint("client") in sent["oauth2_claim_cnf"], "token of a relayed call → is bound to the client's certificate", sent.get("oauth2_claim_cnf"))
    for name in (None, "stranger"):
        answer = api.call("/standard/things", context=authority.context(name), Authorization=f"Bearer {token}")
        case.same(401, answer.status, f"direct call to Apache with the bound token and {f'the certificate of {name}' if name else 'no certificate'} → 401")
    listed = call(f"{broker.management}/admin/v1/sessions?provider=real", Authorization=f"Bearer {ADMIN}")
    case.same(["mtls"], [item["sender_constrained"] for item in listed.json["items"]], "admin's list of sessions → shows the binding mtls")
    # Glewlwyd spends a refresh token before it refuses the client's authentication. So a refresh with a wrong certificate cannot
    # be repeated, and is not checked here.
    case.same("204", broker.log_out(session).told, "log-out of a session with bound tokens → 204")
    case.verdict(
        wait_for(10, lambda: broker.metric("coatcheck_revocations_total", provider="real", result="done") == 1),
        "log-out of a session with bound tokens → the broker revokes the tokens, with the client's certificate", broker.log()[-500:])


CASES = {
    "apache": (apache, 120),
    "certificates": (certificates, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
