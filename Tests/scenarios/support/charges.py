"""One address at full speed, without a session: all requests that make a row or a call at a provider, for some seconds.

    python3 charges.py --broker http://127.0.0.1:PORT --host NAME --from ADDRESS --seconds N --issuer URL

Prints one JSON object. For each kind of request, it has the number of answers by status.
"""

import argparse
import base64
import collections
import http.client
import json
import secrets
import threading
import time
import urllib.parse

options = argparse.ArgumentParser()
options.add_argument("--broker", required=True)
options.add_argument("--host", required=True)
options.add_argument("--from", dest="address", required=True)
options.add_argument("--seconds", type=float, default=5)
options.add_argument("--issuer", required=True)
options.add_argument("--only", default="")
options = options.parse_args()
broker = urllib.parse.urlsplit(options.broker)
end = time.monotonic() + options.seconds
results = collections.defaultdict(collections.Counter)
lock = threading.Lock()


def token():
    return secrets.token_urlsafe(32)


class Client:
    def __init__(self):
        self.connection = None

    def send(self, kind, method, path, body=None, content="application/json", fields=None):
        if isinstance(body, dict):
            body = json.dumps(body)
        headers = {"Host": options.host, **(fields or {})}
        if body is not None:
            headers["Content-Type"] = content
        for attempt in (0, 1):
            try:
                if self.connection is None:
                    self.connection = http.client.HTTPConnection(
                        broker.hostname, broker.port, timeout=20, source_address=(options.address, 0))
                self.connection.request(method, path, body, headers)
                answer = self.connection.getresponse()
                data = answer.read()
                break
            except (OSError, http.client.HTTPException):
                self.connection = None
        else:
            with lock:
                results[kind]["broken"] += 1
            return None, None, b""
        with lock:
            results[kind][str(answer.status)] += 1
        return answer.status, answer.headers, data


def jwt(header):
    def part(value):
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    claims = {"iss": options.issuer, "aud": "ios-app", "jti": token(), "iat": int(time.time()), "sub": "user-ana",
              "events": {"http://schemas.openid.net/event/backchannel-logout": {}}}
    return part(header) + "." + part(claims) + "." + base64.urlsafe_b64encode(secrets.token_bytes(256)).decode().rstrip("=")


hosted = {"state": None}


def start(client):
    client.send("logins", "POST", "/v1/logins", {"provider": "oidc", "client": "ios"})


def start_pushed(client):
    client.send("logins with PAR", "POST", "/v1/logins", {"provider": "cloudentity", "client": "service"})


def start_hosted(client):
    """The callbacks below are for the newest login that waits for a hosted callback."""
    status, _, data = client.send("hosted logins", "POST", "/v1/logins", {"provider": "oidc", "client": "hosted"})
    if status == 201:
        hosted["state"] = json.loads(data)["state"]


def provider_started(client):
    client.send("provider-started arrivals", "POST", "/v1/sessions",
                {"callback_url": "com.example.strict:/cb?code=" + token(), "login_token": token()})


def provider_started_pushed(client):
    client.send("provider-started arrivals with PAR", "POST", "/v1/sessions",
                {"callback_url": "com.example.ceservice:/cb?code=" + token(), "login_token": token()})


def app_code(client):
    client.send("invented codes", "POST", "/v1/sessions",
                {"provider": "oidc", "client": "ios", "code": token(), "code_verifier": token(), "login_token": token()})


def app_callback(client):
    state = token()
    url = "com.example.app:/cb?" + urllib.parse.urlencode({"code": token(), "state": state, "iss": options.issuer})
    client.send("invented callbacks", "POST", "/v1/sessions",
                {"provider": "oidc", "client": "ios", "callback_url": url, "state": state, "code_verifier": token()})


def native_code(client):
    client.send("native codes", "POST", "/v1/sessions",
                {"provider": "google", "client": "web", "code": token(), "login_token": token(), "nonce": token()})


def imported_tokens(client):
    client.send("imported tokens", "POST", "/v1/sessions",
                {"provider": "clover", "client": "ios", "login_token": token(),
                 "tokens": {"access_token": token(), "refresh_token": token(), "merchant_id": "MFAKE1"}})


def zephr_session(client):
    client.send("invented Zephr sessions", "POST", "/v1/sessions",
                {"provider": "zephr", "client": "ios", "login_token": token(),
                 "callback_url": "my-app:/oauthRedirect?status=success&session_id=" + token()})


def zephr_partial(client):
    client.send("invented partial registrations", "POST", "/v1/sessions",
                {"provider": "zephr", "client": "ios", "login_token": token(),
                 "callback_url": "my-app:/oauthRedirect?status=partial&identifier=a%40example.org&state_key=" + token()})


def registration(client):
    client.send("guessed state keys", "POST", "/v1/registrations",
                {"provider": "zephr", "client": "ios", "state_key": token(), "attributes": {"first-name": "A"},
                 "login_token": token()})


def callback(client):
    query = {"code": token(), "state": hosted["state"] or token(), "iss": options.issuer, "padding": "x" * 4000}
    client.send("callbacks of one login", "GET", "/callback/oidc?" + urllib.parse.urlencode(query))


def posted_callback(client):
    query = {"code": token(), "state": hosted["state"] or token(), "iss": options.issuer, "padding": "x" * 40000}
    client.send("posted callbacks of one login", "POST", "/callback/oidc", urllib.parse.urlencode(query),
                "application/x-www-form-urlencoded")


def unknown_callback(client):
    query = {"code": token(), "state": token(), "iss": options.issuer}
    client.send("callbacks of no login", "GET", "/callback/oidc?" + urllib.parse.urlencode(query))


def logout_token(client):
    client.send("logout tokens of unknown keys", "POST", "/v1/backchannel-logout/oidc",
                "logout_token=" + jwt({"alg": "RS256", "typ": "logout+jwt", "kid": token()}),
                "application/x-www-form-urlencoded")


def handoff(client):
    client.send("invented handoffs", "POST", "/v1/sessions", {"handoff": token(), "login_token": token()})


def log_out(client):
    client.send("invented log-outs", "DELETE", "/v1/session", fields={"Authorization": "Bearer " + token()})


def session(client):
    client.send("invented sessions", "GET", "/v1/session", fields={"Authorization": "Bearer " + token()})


kinds = [start, start_pushed, start_hosted, provider_started, provider_started_pushed, app_code, app_callback, native_code,
         imported_tokens, zephr_session, zephr_partial, registration, callback, posted_callback, unknown_callback,
         logout_token, handoff, log_out, session]
if options.only:
    kinds = [kind for kind in kinds if kind.__name__ in options.only.split(",")]


def work(kind):
    client = Client()
    while time.monotonic() < end:
        kind(client)


start_hosted(Client())
threads = [threading.Thread(target=work, args=(kind,), daemon=True) for kind in kinds]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join(options.seconds + 60)
print(json.dumps({kind: dict(sorted(counter.items())) for kind, counter in sorted(results.items())}))
