"""Upstreams and a backend that get access tokens of their own, and the calls that the provider received for them."""

import collections
import urllib.parse

from .broker import BACKEND

ORDERS, BILLS = "https://api.example.org/orders", "https://api.example.org/bills"
EXCHANGE = "urn:ietf:params:oauth:grant-type:token-exchange"
ACCESS_TOKEN = "urn:ietf:params:oauth:token-type:access_token"
WIDE = {"logins_per_minute": 100000, "pending_logins": 100000, "sessions_per_subject_and_client": 5000}
SECRET = "mT4rLk2YvB7xHs0dPq4mJc6t"
ROWS = "SELECT count(*) FROM audience_tokens"
ENDED = "SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL"


def settings(sandbox, **more):
    sandbox.control("PUT", "/clients/oidc/web-app", {"secret": SECRET, "auth": "client_secret_basic"})

    def upstream(path, token=None, **rest):
        made = {"base_url": f"{sandbox.url}/api{path}", "provider": "oidc", "allow": ["ANY /**"]} | rest
        return made | ({"token": token} if token else {})

    return {
        "limits": WIDE,
        "providers": {"oidc": {"clients": {"web": {
            "auth": "client_secret_basic", "client_secret": SECRET}}}},
        "upstreams": {
            "own": upstream("/private"),
            "orders": upstream("/audience/orders", {"resource": ORDERS}),
            "mail": upstream("/scope/email", {"scope": "email"}),
            "ledger": upstream("/audience/ledger", {"exchange": {"audience": "ledger"}}, clients=["web"]),
        },
        "backends": {"orders": {"tokens": [{"resource": [ORDERS, BILLS]}, {"audience": "stock", "scope": "email"}]}},
    } | more


def relay(broker, session, upstream, path="/echo", method="GET"):
    return broker.call(method, f"/v1/relay/{upstream}{path}", session)


def requests(sandbox, endpoint, provider="oidc"):
    """Returns the form of each request that an endpoint received, as name-value pairs."""
    found = sandbox.control("GET", f"/requests?provider={provider}&endpoint={endpoint}").json["items"]
    return [urllib.parse.parse_qsl(item["body"] or item["query"]) for item in found]


def target(pairs):
    """Returns the target of a request: its `resource`, `audience` and `scope`, as pairs."""
    return [(name, value) for name, value in pairs if name in ("resource", "audience", "scope")]


def exchange(broker, session, *fields):
    form = [("grant_type", EXCHANGE), ("subject_token", session), ("subject_token_type", ACCESS_TOKEN), *fields]
    return broker.call(
        "POST", "/v1/token", body=urllib.parse.urlencode(form), X_Coatcheck_Backend=BACKEND,
        Content_Type="application/x-www-form-urlencoded")


def never_twice(case, sandbox):
    """Checks that each refresh token was sent once, except for a refresh without a target after a refused target."""
    seen = collections.Counter()
    for pairs in requests(sandbox, "refresh"):
        seen[dict(pairs)["refresh_token"], not target(pairs)] += 1
    case.verdict(all(count == 1 for count in seen.values()), "all refreshes of this case → each refresh token was sent at most once with a target, and at most once without a target", seen.most_common(2))
