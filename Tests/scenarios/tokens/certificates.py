"""Client certificates for mutual TLS: how they are reported, their renewal while sessions live, a pair that is half written,
and an upstream's own certificate."""

import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.authority import Authority  # noqa: E402
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.mutual_tls import hang_up, put, relay, stack  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402
from support.wire import free_port  # noqa: E402


def readiness(case):
    """/readyz, /metrics and `check` report on the clients' certificates."""
    authority, _, broker = stack(case)
    found = call(broker.management + "/readyz").json
    case.same(["ios", "web"], sorted(item["client"] for item in found["certificates"]), "two clients with certificates → readiness names both")
    case.verdict(all(item["days_left"] in (29, 30) for item in found["certificates"]), "certificates for 30 days → readiness shows 29 or 30 remaining days", found["certificates"])
    left = broker.metric("coatcheck_client_certificate_expiry_seconds", provider="oidc", client="ios") - time.time()
    case.verdict(29 * 86400 < left < 31 * 86400, "certificate for 30 days → the expiry metric is the Unix time in about 30 days", left)
    case.same(0.0, broker.metric("coatcheck_certificate_reload_failures_total"), "no certificate reload has failed → the metric of failed reloads is zero")

    def run(command):
        done = subprocess.run(
            [COATCHECK, command, "--config", str(broker.configuration)], capture_output=True, text=True, timeout=60)
        return done.returncode, done.stdout + done.stderr

    status, words = run("check")
    case.verdict(status == 0 and "sender_constrained: mtls" in words, "client with sender_constrained: mtls → check succeeds and shows this setting", words[-300:])
    put(case, authority.sign("expired", days=-1))
    status, words = run("check")
    case.verdict(status == 1 and "has run out" in words, "client's certificate has expired → check fails", words[-300:])
    put(case, authority.sign("second"), "first")
    broker.stop()
    for command in ("check", "serve"):
        status, words = run(command)
        case.verdict(
            status != 0 and "is not the key of the first certificate" in words, f"client's key does not match its certificate → {command} fails", words[-300:])


def renewed(case):
    """A client's certificate is replaced while sessions live. A session is refreshed at its next use, and no session ends."""
    authority, sandbox, broker = stack(case)
    sessions = [broker.sign_in() for _ in range(3)]
    for session in sessions:
        case.same("200", relay(broker, session).told, "a relayed call before the client's certificate is renewed → 200")
    put(case, authority.sign("second"))
    second = authority.thumbprint("second")
    case.verdict(
        wait_for(20, lambda: "client certificate reloaded" in broker.log()), "a client's certificate file is renewed → the broker reloads the file without a signal", broker.log()[-300:])
    time.sleep(0.5)
    case.same(0, sandbox.calls("oidc/refresh"), "client's certificate is renewed, and no session is used → no refresh")
    for session in sessions[:2]:
        for _ in range(2):
            case.same("200", relay(broker, session).told, "a relayed call after the client's certificate was renewed → 200")
    case.same(2, sandbox.calls("oidc/refresh"), "two sessions are used after the client's certificate was renewed → one refresh for each session")
    case.same({second}, set(sandbox.shown("refresh")), "refreshes after the client's certificate was renewed → show the new certificate")
    case.same([second] * 4, sandbox.shown("api", "api")[-4:], "relayed calls after the client's certificate was renewed → use new connections with the new certificate")
    case.same("200", broker.look(sessions[2]).told, "session that was not used since the client's certificate was renewed → is alive")
    put(case, authority.sign("third"))
    hang_up(broker, "configuration reloaded")
    case.same("200", relay(broker, sessions[2]).told, "SIGHUP after the certificate was renewed a second time → the relayed call is 200")
    broker.restart()
    case.same("200", relay(broker, sessions[0]).told, "kill -9 and a start after the client's certificate was renewed → the relayed call is 200")
    case.same(4, sandbox.calls("oidc/refresh"), "two sessions are used after the certificate was renewed a second time → one more refresh for each session")


def half_written(case):
    """If a new certificate and its key do not load, the old certificate stays in use."""
    authority, sandbox, broker = stack(case)
    session = broker.sign_in()
    authority.sign("second")
    put(case, "second", "first")
    case.verdict(
        wait_for(20, lambda: broker.metric("coatcheck_certificate_reload_failures_total") >= 1), "new certificate with a key that does not match → the metric counts a failed reload")
    case.verdict("client certificate not reloaded" in broker.log(), "new certificate with a key that does not match → a line in the log", broker.log()[-300:])
    case.same("200", broker.refresh(session).told, "reload of a client's certificate has failed → a refresh is 200")
    case.same({authority.thumbprint("first")}, set(sandbox.shown("refresh")), "reload of a client's certificate has failed → the refresh uses the earlier certificate")
    hang_up(broker, "configuration not reloaded")
    case.same("200", relay(broker, session).told, "SIGHUP while the key does not match the certificate → the reload is refused, and a relayed call is 200")
    put(case, "second")
    case.verdict(wait_for(20, lambda: "client certificate reloaded" in broker.log()), "key file of a certificate whose reload failed is replaced by the matching one → the certificate is reloaded")
    case.same("200", relay(broker, session).told, "key file of a certificate whose reload failed is replaced by the matching one → a relayed call is 200")
    os.remove(case.folder / "shown.key")
    hang_up(broker, "client certificate not reloaded")
    case.same("200", broker.refresh(session).told, "key file of a client's certificate is deleted → the reload is refused, and a refresh is 200")


def upstream_of_its_own(case):
    """An upstream with a client certificate of its own, which nginx demands. The tokens are not bound."""
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
    case.same("200", answer.told, "relayed call to an upstream with a certificate, which nginx demands → 200")
    case.same("CN=own", dict(answer.json["headers"]).get("X-Shown"), "relayed call to an upstream with a certificate → nginx receives this certificate")
    case.same(400, broker.call("GET", "/v1/relay/bare/private/echo", session).status, "relayed call to an upstream without a certificate → nginx answers 400")
    put(case, authority.sign("renewed"), name="own-shown")
    case.verdict(wait_for(20, lambda: "upstreams.api" in broker.log()), "new certificate files for an upstream → the broker reloads the files without a signal", broker.log()[-300:])
    case.same("CN=renewed", dict(relay(broker, session).json["headers"]).get("X-Shown"), "new certificate files for an upstream → nginx receives the new certificate")


CASES = {
    "readiness": (readiness, 60),
    "renewed": (renewed, 180),
    "half_written": (half_written, 180),
    "upstream_of_its_own": (upstream_of_its_own, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
