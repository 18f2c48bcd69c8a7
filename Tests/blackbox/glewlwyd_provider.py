"""Starts Glewlwyd, an OpenID provider that is not part of this project, on loopback.

    python3 glewlwyd_provider.py FOLDER

Prints one JSON line when it answers: {"issuer": ..., "pid": ..., "session": ...}, and runs until it is ended. It keeps its data in FOLDER,
and knows one user (`ana`) who is signed in by the cookie `session` and has consented, and two clients: `posting-app`,
registered for `client_secret_post`, and `signing-app`, which proves itself by the key `FOLDER/client-key.pem`.
"""

import http.cookies
import json
import pathlib
import signal
import socket
import sqlite3
import subprocess
import sys
import time
import urllib.error
import urllib.request

PROGRAM = "/usr/bin/glewlwyd"
SCHEMA = "/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3"
MODULES = "/usr/lib/glewlwyd"
COOKIE = "GLEWLWYD2_SESSION_ID"
SECRET = "wq8ZrT5nLk2YvB7xHs0dPq4mJc6t9RfA"
PASSWORD = "correct horse battery staple"

SETTINGS = """
port = {port}
bind_address = "127.0.0.1"
external_url = "{base}"
login_url = "login.html"
api_prefix = "api"
log_mode = "console"
log_level = "INFO"
cookie_domain = "127.0.0.1"
cookie_secure = 0
session_expiration = 86400
session_key = "{cookie}"
admin_scope = "g_admin"
profile_scope = "g_profile"
user_module_path = "{modules}/user"
user_middleware_module_path = "{folder}/none"
client_module_path = "{modules}/client"
user_auth_scheme_module_path = "{modules}/scheme"
plugin_module_path = "{modules}/plugin"
hash_algorithm = "SHA512"
database = {{ type = "sqlite3"; path = "{folder}/provider.db"; }};
"""


def make_key(path):
    """An EC key in PEM; returns its public half."""
    command = ["openssl", "genpkey", "-algorithm", "EC", "-pkeyopt", "ec_paramgen_curve:P-256", "-out", str(path)]
    subprocess.run(command, check=True, capture_output=True)
    path.chmod(0o600)
    public = subprocess.run(["openssl", "pkey", "-in", str(path), "-pubout"], check=True, capture_output=True)
    return public.stdout.decode()


class Account:
    """Somebody who is signed in at the provider."""

    def __init__(self, base, name, password):
        self.base, self.cookie = base, None
        answer = self.call("POST", "/api/auth", {"username": name, "password": password})
        self.cookie = http.cookies.SimpleCookie(answer.headers["Set-Cookie"])[COOKIE].value

    def call(self, method, path, body):
        request = urllib.request.Request(self.base + path, json.dumps(body).encode(), method=method)
        request.add_header("Content-Type", "application/json")
        if self.cookie:
            request.add_header("Cookie", f"{COOKIE}={self.cookie}")
        return urllib.request.urlopen(request, timeout=20)


def plugin(issuer, folder):
    """The OpenID plugin: rotation, revocation, PAR, `iss` in callbacks."""
    public = make_key(folder / "provider-key.pem")
    on = [
        "auth-type-code-enabled", "auth-type-client-enabled", "auth-type-refresh-enabled", "refresh-token-rolling",
        "jwks-show", "pkce-allowed", "introspection-revocation-allowed",
        "introspection-revocation-allow-target-client", "oauth-par-allowed", "oauth-as-iss-id",
    ]
    off = ["auth-type-token-enabled", "auth-type-id-token-enabled", "auth-type-password-enabled", "oauth-dpop-allowed"]
    parameters = {
        "iss": issuer, "jwt-type": "ecdsa", "jwt-key-size": "256", "subject-type": "public",
        "key": (folder / "provider-key.pem").read_text(), "cert": public,
        "access-token-duration": 3600, "refresh-token-duration": 86400, "code-duration": 600,
        "refresh-token-one-use": "always", "oauth-par-duration": 90,
        "oauth-par-request_uri-prefix": "urn:ietf:params:oauth:request_uri:",
        "request-parameter-allow": True, "client-pubkey-parameter": "pubkey",
        "scope": [], "additional-parameters": [], "claims": [], "introspection-revocation-auth-scope": [],
        "name-claim": "mandatory", "email-claim": "mandatory", "scope-claim": "no",
    }
    parameters |= dict.fromkeys(on, True) | dict.fromkeys(off, False)
    return {"module": "oidc", "name": "oidc", "display_name": "OpenID", "order_rank": 0, "parameters": parameters}


def client(name, redirect, method, more):
    return {
        "client_id": name, "name": name, "enabled": True, "confidential": True, "redirect_uri": [redirect],
        "authorization_type": ["code", "refresh_token", "client_credentials"], "scope": ["openid"],
        "token_endpoint_auth_method": [method], **more,
    }


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(mode=0o700, exist_ok=True)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    base = f"http://127.0.0.1:{port}"
    issuer = base + "/api/oidc"
    with sqlite3.connect(folder / "provider.db") as database:
        database.executescript(pathlib.Path(SCHEMA).read_text())
    settings = SETTINGS.format(port=port, base=base, folder=folder, modules=MODULES, cookie=COOKIE)
    (folder / "provider.conf").write_text(settings)
    process = subprocess.Popen(
        [PROGRAM, f"--config-file={folder}/provider.conf"], stdout=sys.stderr, stderr=sys.stderr)
    signal.signal(signal.SIGTERM, lambda *_: process.terminate())
    try:
        for _ in range(600):
            try:
                admin = Account(base, "admin", "password")
                break
            except (urllib.error.URLError, ConnectionError):
                if process.poll() is not None:
                    sys.exit("it ended by itself")
                time.sleep(0.1)
        else:
            sys.exit("it does not answer")
        admin.call("POST", "/api/mod/plugin/", plugin(issuer, folder))
        admin.call("POST", "/api/user/", {
            "username": "ana", "password": PASSWORD, "name": "Ana Example", "email": "ana@example.org",
            "enabled": True, "scope": ["openid", "g_profile"]})
        signing = {"pubkey": make_key(folder / "client-key.pem")}
        admin.call("POST", "/api/client/", client(
            "posting-app", "com.example.posting:/cb", "client_secret_post", {"client_secret": SECRET}))
        admin.call("POST", "/api/client/", client(
            "signing-app", "com.example.signing:/cb", "private_key_jwt", signing))
        ana = Account(base, "ana", PASSWORD)
        for name in ["posting-app", "signing-app"]:
            ana.call("PUT", f"/api/auth/grant/{name}/", {"scope": "openid"})
        print(json.dumps({"issuer": issuer, "pid": process.pid, "session": f"{COOKIE}={ana.cookie}"}), flush=True)
        process.wait()
    finally:
        process.terminate()
        process.wait()


main()
