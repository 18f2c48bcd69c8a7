"""Mutual TLS to providers (RFC 8705): sign-ins and refreshes that a certificate proves, tokens that are bound to it, and refused
certificates. No session ends for these reasons.
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
    """A sign-in by certificate, its identity, refreshes, relayed calls, a log-out: each at the alias, and each with the
    certificate.
    """
    authority, sandbox, broker = stack(case)
    first = authority.thumbprint("first")
    session = broker.sign_in()
    case.same("200", broker.refresh(session).told, "a refresh with the certificate → 200")
    answer = relay(broker, session)
    case.same("200", answer.told, "an upstream that demands the token's certificate → 200")
    fields = dict(answer.json["headers"])
    case.verdict(fields["Authorization"].startswith("Bearer "), "a relayed call → the token is sent as Bearer", fields["Authorization"][:12])
    broker.log_out(session)
    wait_for(10, lambda: sandbox.calls("oidc/revoke"))
    for endpoint in ("par", "token", "userinfo", "refresh", "revoke"):
        shown = sandbox.shown(endpoint)
        case.verdict(shown and set(shown) == {first}, f"{endpoint} at its alias → receives the certificate", shown)
    for endpoint in ("discovery", "jwks", "authorize"):
        case.same({None}, set(sandbox.shown(endpoint)), f"{endpoint} without an alias → receives no certificate")
    session = broker.sign_in()
    told = broker.exchange(session)
    case.same("400 invalid_target", f"{told.status} {told.json['error']}", "a backend's token exchange → invalid_target")
    token = next(
        item["token"] for item in sandbox.control("GET", "/tokens?provider=oidc").json["items"]
        if item["live"] and item["kind"] == "access_token")
    case.same(401, call(sandbox.url + "/api/private/echo", Authorization="Bearer " + token).status, "a stolen token without the certificate → 401")


def refused(case):
    """A certificate that the provider refuses is the operator's fault: 503, a log line about it, and every session stays."""
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
            case.verdict(answer.is_passing_fault, f"{what} with a certificate refused as {word} → 503", answer.told)
        case.same("200", broker.look(session).told, f"a certificate refused as {word} → the session lives")
        case.same(before, sandbox.calls("oidc/refresh"), f"a certificate refused as {word} → the provider receives no refresh")
    lines = [json.loads(line) for line in broker.log().splitlines() if '"client certificate refused"' in line]
    case.verdict(lines and lines[0]["level"] == "error", "a refused certificate → a line in the log, as an error", lines[:1])
    case.verdict(any("unknown_ca" in line["detail"] for line in lines), "a refused certificate → the log has the name of the TLS alert", lines[:1])
    case.verdict(len(lines) <= 3, "many refused calls → at most three lines in the log", len(lines))
    days = [item["days_left"] for item in call(broker.management + "/readyz").json["certificates"]]
    case.verdict(all(left < 0 for left in days), "an expired certificate → readiness shows negative days", days)
    broker.restart()
    case.verdict("has run out" in broker.log(), "a start with an expired certificate → a warning in the log", broker.log()[-300:])
    case.same("200", broker.look(session).told, "a start with an expired certificate → the session is served")
    put(case, "first")
    hang_up(broker, "configuration reloaded")
    for held in (session, other):
        answer = wait_for(15, lambda: (found := relay(broker, held)).status == 200 and found, 0.5) or relay(broker, held)
        case.same("200", answer.told, "the first certificate is restored → relayed calls are 200")
    # Here the server refuses the certificate with an HTTP answer instead of a TLS alert.
    sandbox.control("PUT", "/clients/oidc/ios-app", REGISTERED | {"tls_client_auth_san_dns": "other.example"})
    answer = broker.refresh(session)
    case.verdict(answer.is_passing_fault, "another client's certificate → 503", answer.told)
    sandbox.control("PUT", "/clients/oidc/ios-app", REGISTERED)
    case.same("200", wait_for(15, lambda: (found := broker.refresh(session)).status == 200 and found.told, 0.5), "the client's certificate is registered again → a refresh is 200")


def two_clients(case):
    """Two clients with their own certificates: no connection of one ever carries the other's call."""
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
                case.verdict(False, f"a call or a refresh of {client} → 200")
    for endpoint, provider in (("api", "api"), ("refresh", "oidc")):
        shown = sandbox.shown(endpoint, provider)
        wanted = [authority.thumbprint("ios"), authority.thumbprint("web")] * 5
        case.same(wanted, shown, f"{endpoint}, two clients in turn → each call shows its own certificate")
    for endpoint in ("token", "userinfo"):
        by_client = [request["certificate"] for request in sandbox.requests(endpoint)]
        case.same([authority.thumbprint("ios"), authority.thumbprint("web")], by_client, f"{endpoint}, two clients → each call shows its own certificate")


def bound_to_another(case):
    """A server binds its tokens to another certificate. The broker uses such a token until the upstream answers 401, and then
    refreshes once for that call.
    """
    _, sandbox, broker = stack(case)
    session = broker.sign_in()
    sandbox.fault("oidc", endpoint="refresh", fault="bound-to-another", times=1)
    case.same("200", broker.refresh(session).told, "a refresh with a wrongly bound token → 200")
    case.same("200", relay(broker, session).told, "an upstream refuses a wrongly bound token → the next token is accepted")
    case.same(2, sandbox.calls("oidc/refresh"), "an upstream refuses a wrongly bound token → one more refresh")


CASES = {
    "whole": (whole, 120),
    "refused": (refused, 180),
    "two_clients": (two_clients, 120),
    "bound_to_another": (bound_to_another, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
