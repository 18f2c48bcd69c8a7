"""Mutual TLS to providers (RFC 8705): sign-ins and refreshes with a client certificate, tokens that are bound to it, and
certificates that the provider refuses. A refused certificate ends no session.
"""

import json
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.authority import Authority  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.mutual_tls import REGISTERED, hang_up, put, relay, stack  # noqa: E402
from support.waiting import wait_for  # noqa: E402


def whole(case):
    """A sign-in, a userinfo call, a refresh, a relayed call and a log-out.
    The broker makes each call with the certificate, at the address from the metadata's `mtls_endpoint_aliases`.
    """
    authority, sandbox, broker = stack(case)
    first = authority.thumbprint("first")
    session = broker.sign_in()
    case.same("200", broker.refresh(session).told, "refresh with the client's certificate → 200")
    answer = relay(broker, session)
    case.same("200", answer.told, "relayed call to an upstream that demands the token's certificate → 200")
    fields = dict(answer.json["headers"])
    case.verdict(fields["Authorization"].startswith("Bearer "), "relayed call with a certificate-bound token → has the token as Bearer", fields["Authorization"][:12])
    broker.log_out(session)
    wait_for(10, lambda: sandbox.calls("oidc/revoke"))
    for endpoint in ("par", "token", "userinfo", "refresh", "revoke"):
        shown = sandbox.shown(endpoint)
        case.verdict(shown and set(shown) == {first}, f"endpoint {endpoint} at its mTLS alias → receives the client's certificate", shown)
    for endpoint in ("discovery", "jwks", "authorize"):
        case.same({None}, set(sandbox.shown(endpoint)), f"endpoint {endpoint} without an mTLS alias → receives no certificate")
    session = broker.sign_in()
    told = broker.exchange(session)
    case.same("400 invalid_target", f"{told.status} {told.json['error']}", "backend's token exchange for a certificate-bound token → invalid_target")
    token = next(
        item["token"] for item in sandbox.control("GET", "/tokens?provider=oidc").json["items"]
        if item["live"] and item["kind"] == "access_token")
    case.same(401, call(sandbox.url + "/api/private/echo", Authorization="Bearer " + token).status, "thief calls the API with a certificate-bound token but without the certificate → 401")


def refused(case):
    """The provider refuses the client's certificate, which is the operator's fault.
    Apps get 503, the log names the reason, and no session ends.
    """
    authority, sandbox, broker = stack(case)
    stranger = Authority(case, "stranger")
    session, other = broker.sign_in(), broker.sign_in()
    stranger.sign("foreign")
    authority.sign("expired", days=-1)
    for name, word in (("foreign", "unknown_ca"), ("expired", "certificate_expired")):
        before = sandbox.calls("oidc/refresh")
        put(case, name)
        hang_up(broker, "configuration reloaded")
        for what, answer in (
            ("a sign-in", broker.log_in()[1]), ("a refresh", broker.refresh(session)), ("a relayed call", relay(broker, session)),
        ):
            case.verdict(answer.is_passing_fault, f"{what}, and the provider refuses the client's certificate as {word} → 503", answer.told)
        case.same("200", broker.look(session).told, f"the provider refuses the client's certificate as {word} → the session is alive")
        case.same(before, sandbox.calls("oidc/refresh"), f"the provider refuses the client's certificate as {word} → the provider receives no refresh")
    lines = [json.loads(line) for line in broker.log().splitlines() if '"client certificate refused"' in line]
    case.verdict(lines and lines[0]["level"] == "error", "client certificate is refused → a line in the log with the level error", lines[:1])
    case.verdict(any("unknown_ca" in line["detail"] for line in lines), "client certificate is refused → the log has the name of the TLS alert", lines[:1])
    case.verdict(len(lines) <= 3, "client certificates are refused in six provider calls → at most three lines in the log", len(lines))
    days = [item["days_left"] for item in call(broker.management + "/readyz").json["certificates"]]
    case.verdict(all(left < 0 for left in days), "client certificate has expired → readiness shows negative days", days)
    broker.restart()
    case.verdict("has run out" in broker.log(), "broker starts with an expired client certificate → a warning in the log", broker.log()[-300:])
    case.same("200", broker.look(session).told, "broker starts with an expired client certificate → the session is alive")
    put(case, "first")
    hang_up(broker, "configuration reloaded")
    for held in (session, other):
        answer = wait_for(15, lambda: (found := relay(broker, held)).status == 200 and found, 0.5) or relay(broker, held)
        case.same("200", answer.told, "the accepted client certificate is restored → a relayed call is 200")
    # Here the server refuses the certificate with an HTTP answer instead of a TLS alert.
    sandbox.control("PUT", "/clients/oidc/ios-app", REGISTERED | {"tls_client_auth_san_dns": "other.example"})
    answer = broker.refresh(session)
    case.verdict(answer.is_passing_fault, "refresh with a certificate that the server has not registered for this client → 503", answer.told)
    sandbox.control("PUT", "/clients/oidc/ios-app", REGISTERED)
    case.same("200", wait_for(15, lambda: (found := broker.refresh(session)).status == 200 and found.told, 0.5), "server registers the client's certificate again → a refresh is 200")


def two_clients(case):
    """Two clients, each with a certificate.
    A connection with one client's certificate is never used for the other client's calls.
    """
    authority = Authority(case)
    case_tls = {}
    for client in ("ios", "web"):
        put(case, authority.sign(client), name=f"{client}-shown")
        case_tls[client] = {
            "tls": {"certificate": str(case.folder / f"{client}-shown.pem"), "key": str(case.folder / f"{client}-shown.key")}}
    put(case, authority.sign("first"))
    _, sandbox, broker = stack(case, authority, start=False)
    broker.configure(providers={"oidc": {"clients": case_tls}})
    broker.start()
    sessions = {client: broker.sign_in(client=client) for client in ("ios", "web")}
    for _ in range(5):
        for client, session in sessions.items():
            if relay(broker, session).status != 200 or broker.refresh(session).status != 200:
                case.verdict(False, f"two clients in turn, a relayed call and a refresh of the client {client} → 200")
    for endpoint, provider in (("api", "api"), ("refresh", "oidc")):
        shown = sandbox.shown(endpoint, provider)
        wanted = [authority.thumbprint("ios"), authority.thumbprint("web")] * 5
        case.same(wanted, shown, f"{endpoint} calls of two clients in turn → each call shows its own client's certificate")
    for endpoint in ("token", "userinfo"):
        by_client = [request["certificate"] for request in sandbox.requests(endpoint)]
        case.same([authority.thumbprint("ios"), authority.thumbprint("web")], by_client, f"{endpoint} calls of two clients → each call shows its own client's certificate")


def bound_to_another(case):
    """A server binds a token to another certificate.
    The broker uses this token until the upstream answers 401, and then refreshes once for that call.
    """
    _, sandbox, broker = stack(case)
    session = broker.sign_in()
    sandbox.fault("oidc", endpoint="refresh", fault="bound-to-another", times=1)
    case.same("200", broker.refresh(session).told, "refresh whose new token is bound to another certificate → 200")
    case.same("200", relay(broker, session).told, "upstream answers 401 to a token bound to another certificate → the broker refreshes, and the relayed call is 200")
    case.same(2, sandbox.calls("oidc/refresh"), "upstream answers 401 to a token bound to another certificate → one more refresh")


CASES = {
    "whole": (whole, 120),
    "refused": (refused, 180),
    "two_clients": (two_clients, 120),
    "bound_to_another": (bound_to_another, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
