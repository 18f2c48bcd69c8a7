"""Hooks for schemathesis. Each request that needs a session gets a new session."""

import json
import os
import urllib.error
import urllib.request

import schemathesis

BROKER = os.environ["BROKER"]


class KeepRedirect(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *arguments):
        return None


opener = urllib.request.build_opener(KeepRedirect)


def post(path, body):
    request = urllib.request.Request(BROKER + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with opener.open(request, timeout=20) as answer:
        return json.load(answer)


def sign_in():
    """A session token of the bearer client."""
    login = post("/v1/logins", {"provider": "oidc", "client": "android"})
    try:
        opener.open(login["authorization_url"] + "&sandbox_user=ana", timeout=20)
    except urllib.error.HTTPError as answer:
        callback = answer.headers["Location"]
    return post("/v1/sessions", {"callback_url": callback, "login_token": login["login_token"]})["session_token"]


@schemathesis.auth(refresh_interval=None).apply_to(
    operation_id=["getSession", "logOut", "refreshSession", "listSessions", "endOtherSessions", "endSessionByHandle"]
)
class LiveSession:
    def get(self, case, context):
        return sign_in()

    def set(self, case, data, context):
        case.headers = case.headers or {}
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.auth(refresh_interval=None).apply_to(operation_id=["introspect", "exchangeToken"])
class Backend:
    def get(self, case, context):
        return "orders-credential-4f1d9c"

    def set(self, case, data, context):
        case.headers = case.headers or {}
        case.headers["X-Coatcheck-Backend"] = data


@schemathesis.auth(refresh_interval=None).apply_to(operation_id=["forwardAuth"])
class Gateway:
    def get(self, case, context):
        return sign_in()

    def set(self, case, data, context):
        case.headers = case.headers or {}
        case.headers["X-Coatcheck-Backend"] = "gateway-credential-4f1d9c"
        case.headers["X-Coatcheck-Session"] = data
