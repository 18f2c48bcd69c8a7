"""A broker with a client certificate, and a provider that demands it."""

import os
import shutil
import signal

from .authority import Authority
from .broker import Broker
from .calls import call
from .programs import SANDBOX
from .sandbox import Sandbox
from .waiting import GaveUp, wait_for
from .wire import free_port

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
    """Replaces the configured certificate and key. Each file is replaced as a whole."""
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
    """Sends SIGHUP, and waits for the line that reports its result."""
    before = broker.log().count(line)
    broker.process.send_signal(signal.SIGHUP)
    if not wait_for(20, lambda: broker.log().count(line) > before):
        raise GaveUp(f"no line '{line}': {broker.log()[-500:]}")
