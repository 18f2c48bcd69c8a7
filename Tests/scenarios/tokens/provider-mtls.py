"""Mutual TLS to providers and upstreams (RFC 8705): sign-ins and refreshes that a certificate proves, and tokens that are bound
to it. Certificates are renewed while sessions live, refused, expired, or half written. No session ever ends for these reasons.
"""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.authority import Authority  # noqa: E402
from support.harness import COATCHECK, SANDBOX, Broker, GaveUp, Sandbox, call, free_port, main, wait_for  # noqa: E402

MTLS = {"auth": "tls_client_auth", "sender_constrained": "mtls"}
REGISTERED = {
    "auth": "tls_client_auth", "tls_client_auth_san_dns": "client.example", "tls_client_certificate_bound_access_tokens": True}


class MutualSandbox(Sandbox):
    """A sandbox with an additional listener for clients with certificates."""

    def __init__(self, case, authority):
        authority.sign("server", "DNS:localhost")
        self.url = f"http://127.0.0.1:{free_port()}"
        self.mtls_port = free_port()
        folder = case.folder
        case.start(
            [
                SANDBOX, "--listen", self.url.removeprefix("http://"), "--mtls-port", str(self.mtls_port),
                "--mtls-certificate", str(folder / "server.pem"), "--mtls-key", str(folder / "server.key"),
                "--mtls-client-roots", str(folder / "root.pem"),
            ], "sandbox.log")
        if not wait_for(60, lambda: call(self.url + "/_sandbox/health", seconds=5).status == 200):
            raise GaveUp("the sandbox did not start")
        for client in ("ios-app", "web-app"):
            self.control("PUT", f"/clients/oidc/{client}", REGISTERED)

    def requests(self, endpoint, provider="oidc"):
        return self.control("GET", f"/requests?provider={provider}&endpoint={endpoint}").json["items"]

    def shown(self, endpoint, provider="oidc"):
        return [request["certificate"] for request in self.requests(endpoint, provider)]


def put(case, certificate, key=None, name="shown"):
    """Replaces the configured certificate and key, each file whole at once."""
    for source, target in ((f"{certificate}.pem", f"{name}.pem"), (f"{key or certificate}.key", f"{name}.key")):
        shutil.copy(case.folder / source, case.folder / f"{target}.next")
        os.replace(case.folder / f"{target}.next", case.folder / target)


def stack(case, authority=None, settings=None, start=True, **client):
    authority = authority or Authority(case)
    sandbox = MutualSandbox(case, authority)
    if not (case.folder / "shown.pem").exists():
        put(case, authority.sign("first"))
    tls = {
        "certificate": str(case.folder / "shown.pem"), "key": str(case.folder / "shown.key"),
        "ca_file": str(case.folder / "root.pem")}
    everybody = {"tls": tls, "clients": {name: MTLS | client for name in ("ios", "web")} | {"android": None}}
    upstream = {
        "base_url": f"https://localhost:{sandbox.mtls_port}/api", "provider": "oidc", "allow": ["ANY /**"],
        "tls": {"ca_file": str(case.folder / "root.pem")}}
    broker = Broker(
        case, sandbox, start=start,
        settings={
            "providers": {"oidc": {"par": "required", "identity": {"source": "userinfo"}} | everybody},
            "upstreams": {"api": upstream}} | (settings or {}))
    return authority, sandbox, broker


def relay(broker, session, method="GET", **more):
    return broker.call(method, "/v1/relay/api/private/echo", session, **more)


def hang_up(broker, line):
    """SIGHUP, and the line that it ends in."""
    before = broker.log().count(line)
    broker.process.send_signal(signal.SIGHUP)
    if not wait_for(20, lambda: broker.log().count(line) > before):
        raise GaveUp(f"no line '{line}': {broker.log()[-500:]}")


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


def readiness(case):
    """The reports of /readyz, /metrics and `check` about it."""
    authority, _, broker = stack(case)
    found = call(broker.management + "/readyz").json
    case.same(["ios", "web"], sorted(item["client"] for item in found["certificates"]), "readiness → it names each client's certificate")
    case.verdict(all(item["days_left"] in (29, 30) for item in found["certificates"]), "readiness → it has the days left", found["certificates"])
    left = broker.metric("coatcheck_client_certificate_expiry_seconds", provider="oidc", client="ios") - time.time()
    case.verdict(29 * 86400 < left < 31 * 86400, "the metric of expiry → a Unix time", left)
    case.same(0.0, broker.metric("coatcheck_certificate_reload_failures_total"), "no failed reload → the metric is zero")

    def run(command):
        done = subprocess.run(
            [COATCHECK, command, "--config", str(broker.configuration)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    status, words = run("check")
    case.verdict(status == 0 and "sender_constrained: mtls" in words, "check → it names the kind of binding", words[-300:])
    put(case, authority.sign("expired", days=-1))
    status, words = run("check")
    case.verdict(status == 1 and "has run out" in words, "check with an expired certificate → fails", words[-300:])
    put(case, authority.sign("second"), "first")
    broker.stop()
    for command in ("check", "serve"):
        status, words = run(command)
        case.verdict(
            status != 0 and "is not the key of the first certificate" in words, f"{command} with a key that does not match the certificate → fails", words[-300:])


def renewed(case):
    """Another certificate while sessions live: one refresh on use, and no log-out."""
    authority, sandbox, broker = stack(case)
    sessions = [broker.sign_in() for _ in range(3)]
    for session in sessions:
        case.same("200", relay(broker, session).told, "a relayed call before the renewal → 200")
    put(case, authority.sign("second"))
    second = authority.thumbprint("second")
    case.verdict(
        wait_for(20, lambda: "client certificate reloaded" in broker.log()), "a renewed certificate → reloaded without a signal", broker.log()[-300:])
    time.sleep(0.5)
    case.same(0, sandbox.calls("oidc/refresh"), "a renewed certificate alone → no refresh")
    for session in sessions[:2]:
        for _ in range(2):
            case.same("200", relay(broker, session).told, "a relayed call after the renewal → 200")
    case.same(2, sandbox.calls("oidc/refresh"), "two used sessions after the renewal → one refresh each")
    case.same({second}, set(sandbox.shown("refresh")), "refreshes after the renewal → they show the new certificate")
    case.same([second] * 4, sandbox.shown("api", "api")[-4:], "relayed calls after the renewal → new connections with the new certificate")
    case.same("200", broker.look(sessions[2]).told, "an unused session after the renewal → it lives")
    put(case, authority.sign("third"))
    hang_up(broker, "configuration reloaded")
    case.same("200", relay(broker, sessions[2]).told, "SIGHUP with a third certificate → the relayed call is 200")
    broker.restart()
    case.same("200", relay(broker, sessions[0]).told, "kill -9 after the renewal → the relayed call is 200")
    case.same(4, sandbox.calls("oidc/refresh"), "two more sessions used → one refresh each")


def half_written(case):
    """A pair that does not load leaves the old one."""
    authority, sandbox, broker = stack(case)
    session = broker.sign_in()
    authority.sign("second")
    put(case, "second", "first")
    case.verdict(
        wait_for(20, lambda: broker.metric("coatcheck_certificate_reload_failures_total") >= 1), "a key that does not match → the metric counts a failed reload")
    case.verdict("client certificate not reloaded" in broker.log(), "a key that does not match → a line in the log", broker.log()[-300:])
    case.same("200", broker.refresh(session).told, "a failed reload → refreshes go on")
    case.same({authority.thumbprint("first")}, set(sandbox.shown("refresh")), "a failed reload → the earlier certificate is shown")
    hang_up(broker, "configuration not reloaded")
    case.same("200", relay(broker, session).told, "SIGHUP with a wrong key → refused, and calls go on")
    put(case, "second")
    case.verdict(wait_for(20, lambda: "client certificate reloaded" in broker.log()), "a whole pair → reloaded")
    case.same("200", relay(broker, session).told, "a whole pair → the relayed call is 200")
    os.remove(case.folder / "shown.key")
    hang_up(broker, "client certificate not reloaded")
    case.same("200", broker.refresh(session).told, "a deleted key file → refreshes go on")


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
            case.verdict(answer.is_passing_fault, f"{word}: {what} → 503", answer.told)
        case.same("200", broker.look(session).told, f"{word} → the session lives")
        case.same(before, sandbox.calls("oidc/refresh"), f"{word} → the provider reads no refresh")
    lines = [json.loads(line) for line in broker.log().splitlines() if '"client certificate refused"' in line]
    case.verdict(lines and lines[0]["level"] == "error", "a refused certificate → a line in the log, as an error", lines[:1])
    case.verdict(any("unknown_ca" in line["detail"] for line in lines), "a refused certificate → the log has the name of the TLS alert", lines[:1])
    case.verdict(len(lines) <= 3, "many refused calls → at most three lines in the log", len(lines))
    days = [item["days_left"] for item in call(broker.management + "/readyz").json["certificates"]]
    case.verdict(all(left < 0 for left in days), "an expired certificate → readiness reports negative days", days)
    broker.restart()
    case.verdict("has run out" in broker.log(), "a start with an expired certificate → a warning in the log", broker.log()[-300:])
    case.same("200", broker.look(session).told, "a start with an expired certificate → the session is served")
    put(case, "first")
    hang_up(broker, "configuration reloaded")
    for held in (session, other):
        answer = wait_for(15, lambda: (found := relay(broker, held)).status == 200 and found, 0.5) or relay(broker, held)
        case.same("200", answer.told, "the first certificate is restored → relayed calls are 200")
    # The server itself refuses it, over HTTP.
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
        case.same(wanted, shown, f"{endpoint}, two clients by turns → each call shows its own certificate")
    for endpoint in ("token", "userinfo"):
        by_client = [request["certificate"] for request in sandbox.requests(endpoint)]
        case.same([authority.thumbprint("ios"), authority.thumbprint("web")], by_client, f"{endpoint}, two clients → each call shows its own certificate")


def bound_to_another(case):
    """A server that binds its tokens to another certificate is not believed for ever: the upstream's 401 costs one refresh a
    call.
    """
    _, sandbox, broker = stack(case)
    session = broker.sign_in()
    sandbox.fault("oidc", endpoint="refresh", fault="bound-to-another", times=1)
    case.same("200", broker.refresh(session).told, "a refresh with a wrongly bound token → 200")
    case.same("200", relay(broker, session).told, "an upstream refuses a wrongly bound token → the next token is accepted")
    case.same(2, sandbox.calls("oidc/refresh"), "an upstream refuses a wrongly bound token → one more refresh")


def upstream_of_its_own(case):
    """An upstream's own certificate, behind nginx, with unbound tokens."""
    authority = Authority(case)
    authority.sign("server", "DNS:localhost")
    put(case, authority.sign("own"), name="own-shown")
    sandbox = Sandbox(case)
    port = free_port()
    (case.folder / "nginx").mkdir()
    (case.folder / "nginx.conf").write_text(f"""
pid {case.folder}/nginx/pid; error_log {case.folder}/nginx/error.log; daemon off; worker_processes 1;
events {{}}
http {{
  access_log off; client_body_temp_path {case.folder}/nginx/a; proxy_temp_path {case.folder}/nginx/b;
  fastcgi_temp_path {case.folder}/nginx/c; uwsgi_temp_path {case.folder}/nginx/d; scgi_temp_path {case.folder}/nginx/e;
  server {{
    listen 127.0.0.1:{port} ssl; ssl_certificate {case.folder}/server.pem; ssl_certificate_key {case.folder}/server.key;
    ssl_client_certificate {case.folder}/root.pem; ssl_verify_client on;
    location / {{ proxy_pass {sandbox.url}; proxy_set_header X-Shown $ssl_client_s_dn; }}
  }}
}}
""")
    case.start(["nginx", "-c", str(case.folder / "nginx.conf"), "-p", str(case.folder)], "nginx.log")
    folder = case.folder
    broker = Broker(case, sandbox, settings={"upstreams": {
        "api": {
            "base_url": f"https://localhost:{port}/api", "provider": "oidc", "allow": ["GET /**"],
            "tls": {
                "certificate": str(folder / "own-shown.pem"), "key": str(folder / "own-shown.key"), "ca_file": str(folder / "root.pem")}},
        "bare": {
            "base_url": f"https://localhost:{port}/api", "provider": "oidc", "allow": ["GET /**"],
            "tls": {"ca_file": str(folder / "root.pem")}}}})
    session = broker.sign_in()
    answer = wait_for(10, lambda: (found := relay(broker, session)).status == 200 and found) or relay(broker, session)
    case.same("200", answer.told, "nginx that demands a certificate → the relayed call is 200")
    case.same("CN=own", dict(answer.json["headers"]).get("X-Shown"), "a relayed call → nginx receives the upstream's certificate")
    case.same(400, broker.call("GET", "/v1/relay/bare/private/echo", session).status, "an upstream without a certificate → nginx refuses the call")
    put(case, authority.sign("renewed"), name="own-shown")
    case.verdict(wait_for(20, lambda: "upstreams.api" in broker.log()), "new files for the upstream → reloaded without a signal", broker.log()[-300:])
    case.same("CN=renewed", dict(relay(broker, session).json["headers"]).get("X-Shown"), "new files for the upstream → nginx receives the new certificate")


if __name__ == "__main__":
    main({
        "whole": (whole, 120), "readiness": (readiness, 60), "renewed": (renewed, 180), "half_written": (half_written, 180),
        "refused": (refused, 180), "two_clients": (two_clients, 120), "bound_to_another": (bound_to_another, 60),
        "upstream_of_its_own": (upstream_of_its_own, 120),
    }, __doc__)
