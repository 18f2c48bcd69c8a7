"""Settings and requests for the scenarios about child sessions."""

from .waiting import GaveUp

CHILDREN = {
    "widget": {"idle": "1d", "absolute": "2d", "upstreams": ["api"], "backends": ["orders"]},
    "watch": {},
}


def settings(sandbox, children=CHILDREN, **more):
    return {
        "providers": {
            "oidc": {"clients": {name: {"children": children} | more for name in ("ios", "android")}},
            "oauth2": {"clients": {"ios": {"children": children | {"widget": {"backends": ["orders"]}}}}}},
        "upstreams": {
            "api": {"base_url": sandbox.url + "/oidc", "provider": "oidc", "allow": ["GET /**"]},
            "other": {"base_url": sandbox.url + "/oidc", "provider": "oidc", "allow": ["GET /**"]}}}


def told(answer):
    found = answer.json
    return " ".join(filter(None, [str(answer.status), found.get("code"), found.get("reason")]))


def ask(broker, parent, kind="widget", name="home", **more):
    return broker.call("POST", "/v1/session/children", parent, {"kind": kind, "name": name} | more)


def child(broker, parent, kind="widget", name="home", **more):
    answer = ask(broker, parent, kind, name, **more)
    if answer.status != 201:
        raise GaveUp(f"no child: {told(answer)}")
    return answer.json["session_token"]


def by(broker, token, method="GET", path="/v1/session", **more):
    return broker.call(method, path, Authorization=f"Bearer {token}", **more)
