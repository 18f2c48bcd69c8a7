"""Measures the broker's CPU for a proof to an API (RFC 9449).

Each round measures three kinds of relayed GET: with a Bearer token, with a token that is bound to a key, and with such a token
at an API that returns a nonce with every answer. The APIs are nginx servers, which do not check tokens.
"""

import os

import bound
import processes
from bound import Kind
# The import of `bound` puts the folder of `support` into the path.
from support.broker import ADMIN, Broker
from support.calls import call
from support.cases import Processes
from support.sandbox import Sandbox

LIMIT = 60


def measure(directory, report):
    folder = os.path.join(directory, "dpop")
    os.mkdir(folder, 0o755)
    case, servers = Processes(folder), []
    try:
        run(case, folder, servers, report)
    finally:
        case.end()
        for server in servers:
            server.stop()


def run(case, folder, servers, report):
    # There are two APIs. The second one returns a nonce with every answer.
    for name, nonce in (("plain", ""), ("nonces", 'add_header DPoP-Nonce "n-$request_id" always;')):
        port = processes.free_port()
        servers.append(processes.nginx(f"dpop-{name}", folder, port, f"""
  server {{ listen 127.0.0.1:{port}; location / {{ default_type application/json; {nonce} return 200 '{processes.SMALL}'; }} }}"""))
    plain, nonces = (server.url for server in servers)
    sandbox = Sandbox(case, record=False)
    sandbox.settings("oidc", dpop="accept")
    names = {"plain": plain, "nonces": nonces}
    broker = Broker(case, sandbox, settings={
        "providers": {"oidc": {"clients": {"web": {"sender_constrained": "dpop"}}}},
        "upstreams": {name: {"base_url": url, "provider": "oidc", "allow": ["GET /**"]} for name, url in names.items()}})

    def kind(title, client, upstream):
        # Each client gets one session. The client's setting decides whether its tokens are bound.
        cookie = {"Cookie": f"coatcheck={broker.sign_in(client=client)}"}
        return Kind(title, broker, 200, lambda: [cookie], f"/v1/relay/{upstream}/small")

    bearer = kind("relayed GET, Bearer", "ios", "plain")
    proven = kind("relayed GET, DPoP", "web", "plain")
    changing = kind("relayed GET, DPoP with a nonce from each answer", "web", "nonces")
    listed = call(broker.management + "/admin/v1/sessions", Authorization=f"Bearer {ADMIN}").json["items"]
    if [item["sender_constrained"] for item in listed] != ["dpop", "dpop", None]:
        raise SystemExit(f"bench: the tokens are not bound as they should be: {listed}")
    bound.alternate([bearer, proven, changing], report)
    bound.bound(report, "a relayed GET with DPoP, more than with Bearer, CPU", proven.beside(bearer)[0], LIMIT, "µs")
