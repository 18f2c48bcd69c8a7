"""The table behind every-provider.sh: checks 12 providers in flows A, B and C, and prints a line for each check."""
import base64
import hashlib
import http.client
import json
import secrets
import sys
import urllib.parse as u

BROKER, SANDBOX = sys.argv[1:]
TENANT = "11111111-2222-4333-8444-555555555555"
# For each provider: the iss of its callbacks (None if unpublished), whether the broker refuses a missing iss, whether PKCE is
# used, the session's scope in flows A and C, the session's scope in flow B.
PROVIDERS = {
    "oidc": (SANDBOX + "/oidc", True, True, "openid email", "openid email"),
    "cloudentity": (SANDBOX + "/cloudentity/example/demo", True, True, "openid email", "openid email"),
    "oauth2": (None, False, True, "profile email", "profile email"),
    "google": (SANDBOX + "/google", False, True, "openid email", "openid email"),
    "microsoft": (f"{SANDBOX}/microsoft/{TENANT}/v2.0", False, True, "openid email", "openid email"),
    "github": (SANDBOX + "/github/login/oauth", False, True, "read:user user:email", "read:user user:email"),
    "slack": (None, False, False, "identity.basic identity.email", "identity.basic identity.email"),
    "facebook": (None, False, True, "public_profile email", ""),
    "linkedin": (SANDBOX + "/linkedin/oauth", False, False, "openid profile email", "openid profile email"),
    "apple": (SANDBOX + "/apple", False, True, "openid name email", "openid name email"),
    "clever": ("https://clever.com", False, False, "", ""),
    "clover": (None, False, True, "", ""),
}
# For each form of an error: the callback's parameters, and the status, `code` and `provider_error` of the broker's answer.
ERRORS = [
    ("error=access_denied", 403, "access_denied", "access_denied"),
    ("error=consent_required", 403, "access_denied", "consent_required"),
    ("error=user_denied", 403, "access_denied", None),
    ("error=user_cancelled_login", 403, "access_denied", None),
    ("error=user_cancelled_authorize", 403, "access_denied", None),
    ("error=unauthorized-user", 403, "access_denied", None),
    ("denied=1", 403, "access_denied", None),
    ("error=login_required", 409, "interaction_required", "login_required"),
    ("error=interaction_required", 409, "interaction_required", "interaction_required"),
    ("error=account_selection_required", 409, "interaction_required", "account_selection_required"),
    ("error=temporarily_unavailable", 503, "provider_unavailable", "temporarily_unavailable"),
    ("error=server_error", 503, "provider_unavailable", "server_error"),
    ("error=invalid_scope", 502, "provider_error", "invalid_scope"),
    ("error=unauthorized_client", 502, "provider_error", "unauthorized_client"),
    ("error_code=1349042&error_message=x", 502, "provider_error", None),
    ("error=made%3Cup%3E", 502, "provider_error", None),
]
connections = {}


def send(method, url, body=None, headers=None):
    """Sends one request; returns status, headers, body."""
    parts = u.urlsplit(url)
    for attempt in (1, 2):
        connection = connections.setdefault(parts.netloc, http.client.HTTPConnection(parts.netloc, timeout=60))
        try:
            connection.request(method, parts.path + ("?" + parts.query if parts.query else ""), body, headers or {})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        except (http.client.RemoteDisconnected, ConnectionError):
            connections.pop(parts.netloc).close()
            if attempt == 2:
                raise


def post(path, members, cookie=None):
    headers = {"Content-Type": "application/json"}
    if cookie:
        headers["Cookie"] = cookie
    status, fields, body = send("POST", BROKER + path, json.dumps(members), headers)
    return status, fields, json.loads(body) if body else {}


def with_value(name, value, url):
    """Returns the URL with that parameter set. None removes the parameter."""
    head, _, query = url.partition("?")
    pairs = [p for p in u.parse_qsl(query, keep_blank_values=True) if p[0] != name]
    if value is not None:
        pairs.append((name, value))
    return head + ("?" + u.urlencode(pairs) if pairs else "")


class Login:
    """One sign-in of a new device, until the callback."""

    def __init__(self, provider, flow, pkce):
        self.provider, self.flow, self.pkce = provider, flow, pkce
        client = "hosted" if flow == "C" else "app"
        status, fields, started = post("/v1/logins", {"provider": provider, "client": client})
        assert status == 201, (provider, flow, started)
        self.cookie = fields["Set-Cookie"].split(";")[0]
        url = started["authorization_url"]
        if flow == "B":
            # The app builds its own authorization request: that of flow A, with the app's state and challenge.
            self.state, self.verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
            url = with_value("nonce", None, with_value("state", self.state, url))
            if pkce:
                digest = hashlib.sha256(self.verifier.encode()).digest()
                url = with_value("code_challenge", base64.urlsafe_b64encode(digest).decode().rstrip("="), url)
        status, fields, body = send("GET", url + "&sandbox_user=ana", headers={"Accept": "application/json"})
        if fields["Location"]:
            self.callback = fields["Location"]
        else:
            form = json.loads(body)
            self.callback = form["action"] + "?" + form["body"]

    def end(self):
        """Forwards the callback. Returns status, code, provider_error and the body."""
        if self.flow == "C":
            if self.provider == "apple":
                target, _, form = self.callback.partition("?")
                _, fields, _ = send("POST", target, form, {"Content-Type": "application/x-www-form-urlencoded"})
            else:
                _, fields, _ = send("GET", self.callback)
            back = dict(u.parse_qsl(u.urlsplit(fields["Location"]).query))
            if "error" in back:
                # In flow C, an error's redirect to the app contains only the error code.
                return None, back["error"], None, {}
            status, _, body = post("/v1/sessions", {"handoff": back["handoff"]}, self.cookie)
        elif self.flow == "B":
            members = {"provider": self.provider, "client": "app", "callback_url": self.callback, "state": self.state}
            if self.pkce:
                members["code_verifier"] = self.verifier
            status, _, body = post("/v1/sessions", members)
        else:
            status, _, body = post("/v1/sessions", {"callback_url": self.callback}, self.cookie)
        return status, body.get("code"), body.get("provider_error"), body


def expect(login, status, code, word, sentence):
    found = login.end()[:3]
    wanted = (None, code, None) if login.flow == "C" else (status, code, word)
    print(("ok " if found == wanted else "not ok ") + sentence + ("" if found == wanted else f": {found}"), flush=True)


def token_calls(provider):
    return json.loads(send("GET", SANDBOX + "/_sandbox/counts")[2]).get(provider + "/token", 0)


for name, (issuer, demanded, pkce, granted, own) in PROVIDERS.items():
    for flow in "ABC":
        print(f"\n# {name}, flow {flow}", flush=True)
        before = token_calls(name)
        login = Login(name, flow, pkce)
        # If the provider publishes no issuer, the broker refuses only an iss that is the issuer of another configured provider.
        login.callback = with_value("iss", "https://evil.example" if issuer else SANDBOX + "/oidc", login.callback)
        expect(login, 400, "issuer_mismatch", None, f"{name}, flow {flow}, a callback with another issuer → issuer_mismatch")
        if demanded:
            login = Login(name, flow, pkce)
            login.callback = with_value("iss", None, login.callback)
            expect(login, 400, "issuer_mismatch", None, f"{name}, flow {flow}, a callback without the promised iss → issuer_mismatch")
        for parameters, status, code, word in ERRORS:
            login = Login(name, flow, pkce)
            login.callback = with_value("code", None, login.callback)
            login.callback += ("&" if "?" in login.callback else "?") + parameters
            expect(login, status, code, word, f"{name}, flow {flow}, a callback with {parameters} → {code}")
        same = token_calls(name) == before
        print(("ok " if same else "not ok ") + f"{name}, flow {flow}, all refused callbacks → no code is sent to the provider", flush=True)
        for iss in [issuer or "https://vendor.example"] + ([] if demanded else [None]):
            login = Login(name, flow, pkce)
            login.callback = with_value("iss", iss, login.callback)
            status, code, _, body = login.end()
            scope = " ".join(body.get("scope", ["?"]))
            good = status == 201 and scope == (own if flow == "B" else granted)
            said = "the provider's iss" if iss else "no iss"
            print(("ok " if good else "not ok ") + f"{name}, flow {flow}, a callback with {said} → a session with exactly the expected scope"
                  + ("" if good else f": {status} {code} {scope}"), flush=True)
