"""A sandbox, and a broker with an upstream, with any host name."""

from .broker import Broker
from .sandbox import Sandbox


def stack(case, name="127.0.0.1", **settings):
    """Starts a sandbox, and a broker whose public URL has this host name. Returns both."""
    sandbox = Sandbox(case)
    upstream = {"base_url": sandbox.url + "/api", "provider": "oidc", "allow": ["GET /**", "POST /**", "PUT /**"]}
    broker = Broker(case, sandbox, settings={"upstreams": {"api": upstream}} | settings, start=False)
    broker.configure(server={"public_url": f"http://{name}:{broker.port}"})
    broker.start()
    return sandbox, broker
