"""Measures what a proof costs on the way to an API (RFC 9449): the broker's CPU for a relayed GET whose token goes out as Bearer,
and for one whose token is bound to a key, in rounds that alternate. The API is an nginx that looks at neither.
"""

import os

import bound
import processes
from bound import Kind, harness

LIMIT = 60


def measure(directory, report):
    folder = os.path.join(directory, "dpop")
    os.mkdir(folder, 0o755)
    case, servers = harness.Processes(folder), []
    try:
        run(case, folder, servers, report)
    finally:
        case.end()
        for server in servers:
            server.stop()


def run(case, folder, servers, report):
    # Two of them: the second gives a nonce with every answer.
    for name, nonce in (("plain", ""), ("nonces", 'add_header DPoP-Nonce "n-$request_id" always;')):
        port = processes.free_port()
        servers.append(processes.nginx(f"dpop-{name}", folder, port, f"""
  server {{ listen 127.0.0.1:{port}; location / {{ default_type application/json; {nonce} return 200 '{processes.SMALL}'; }} }}"""))
    plain, nonces = (server.url for server in servers)
    sandbox = harness.Sandbox(case, record=False)
    sandbox.settings("oidc", dpop="accept")
    names = {"plain": plain, "nonces": nonces}
    broker = harness.Broker(case, sandbox, settings={
        "providers": {"oidc": {"clients": {"web": {"sender_constrained": "dpop"}}}},
        "upstreams": {name: {"base_url": url, "provider": "oidc", "allow": ["GET /**"]} for name, url in names.items()}})

    def kind(title, client, upstream):
        # One session each, whose tokens are what its client's setting makes of them.
        cookie = {"Cookie": f"coatcheck={broker.sign_in(client=client)}"}
        return Kind(title, broker, 200, lambda: [cookie], f"/v1/relay/{upstream}/small")

    bearer = kind("relayed GET, Bearer", "ios", "plain")
    proven = kind("relayed GET, DPoP", "web", "plain")
    changing = kind("relayed GET, DPoP with a nonce from each answer", "web", "nonces")
    listed = harness.call(broker.management + "/admin/v1/sessions", Authorization=f"Bearer {harness.ADMIN}").json["items"]
    if [item["sender_constrained"] for item in listed] != ["dpop", "dpop", None]:
        raise SystemExit(f"bench: the tokens are not bound as they should be: {listed}")
    bound.alternate([bearer, proven, changing], report)
    bound.bound(report, "a relayed GET with DPoP, more than with Bearer, CPU", proven.beside(bearer)[0], LIMIT, "µs")
