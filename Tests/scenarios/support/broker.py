"""A broker as a process: one configuration, which `settings` override, and its requests, metrics and rows."""

import contextlib
import hashlib
import json
import pathlib
import re
import shutil
import signal
import sqlite3
import subprocess
import urllib.parse

from .calls import call
from .programs import COATCHECK
from .waiting import GaveUp, wait_for
from .wire import free_port

BACKEND = "orders-credential-4f1d9c"
ADMIN = "admin-ender-b81c64e2f0"


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


def merged(settings, more):
    """The settings, overridden by others. None as a value removes a setting."""
    found = dict(settings)
    for key, value in more.items():
        found[key] = merged(found.get(key) or {}, value) if isinstance(value, dict) else value
    return {key: value for key, value in found.items() if value is not None}


class Broker:
    """A broker with its folder, which can be killed and started again; `settings` override the usual ones."""

    def __init__(
            self, case, sandbox, gate=None, gated=(), clock=None, data=None, like=None, name="broker", settings=None, prefix=(), start=True):
        self.case, self.sandbox, self.clock, self.name, self.prefix = case, sandbox, clock, name, prefix
        self.folder = case.folder / name
        self.folder.mkdir(mode=0o700)
        self.data = pathlib.Path(data) if data else self.folder / "data"
        self.data.mkdir(mode=0o700, exist_ok=True)
        self.port, self.management_port = free_port(), free_port()
        self.url, self.management = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.management_port}"
        self.settings = merged(self.every_brokers(gate, gated), settings or {})
        self.configuration = self.folder / "coatcheck.yaml"
        self.configure()
        if like:
            shutil.copy(like.folder / "keys.json", self.folder)
        else:
            subprocess.run(
                [COATCHECK, "keys", "generate", "--file", self.folder / "keys.json"], check=True, capture_output=True)
        self.process = None
        self.program = COATCHECK
        self.health = "/readyz"
        if start:
            self.start()

    def configure(self, **settings):
        """Overrides settings, and writes the configuration as JSON, which is also YAML."""
        self.settings = merged(self.settings, settings)
        self.configuration.write_text(json.dumps(self.settings, indent=1))
        self.configuration.chmod(0o600)

    def every_brokers(self, gate, gated):
        provider = self.sandbox.url
        paths = {"refresh": "/oidc/token", "token": "/oidc/token", "revocation": "/oidc/revoke", "jwks": "/oidc/jwks"}
        endpoints = {key: gate.url + paths[key] for key in gated}
        if "jwks" in gated:
            endpoints["jwks"] = gate.url + urllib.parse.urlsplit(
                call(provider + "/oidc/.well-known/openid-configuration").json["jwks_uri"]).path
        public = {"auth": "none", "scope": "openid email offline_access", "login": "both"}
        return {
            "server": {"listen": f"127.0.0.1:{self.port}", "public_url": self.url},
            "management": {
                "listen": f"127.0.0.1:{self.management_port}",
                "admin_tokens": [{"name": "ender", "sha256": sha256(ADMIN), "may": ["read", "end"]}]},
            "store": {"url": f"sqlite:{self.data}/coatcheck.db"},
            "keys": {"file": f"{self.folder}/keys.json"},
            "log": {"level": "info", "requests": False},
            # Sessions of tests refresh several times in a minute.
            "limits": {"forced_refresh_pause": "0s"},
            "providers": {
                "oidc": {
                    "kind": "oidc", "issuer": f"{provider}/oidc", "endpoints": endpoints,
                    "clients": {
                        "ios": public | {"client_id": "ios-app", "redirect_uris": ["com.example.app:/cb"]},
                        "web": public | {"client_id": "web-app", "redirect_uris": ["com.example.web:/cb"]},
                        "android": public | {
                            "client_id": "android-app", "redirect_uris": ["com.example.android:/cb"], "transport": "bearer"},
                    }},
                "oauth2": {
                    "kind": "oauth2",
                    "endpoints": {
                        "authorization": f"{provider}/oauth2/authorize", "token": f"{provider}/oauth2/token",
                        "revocation": f"{provider}/oauth2/revoke"},
                    "identity": {
                        "source": "api", "url": f"{provider}/oauth2/api/me", "subject": "/id", "name": "/profile/name",
                        "email": "/profile/email"},
                    "clients": {"ios": {
                        "client_id": "oauth2-app", "auth": "none", "redirect_uris": ["com.example.oauth2:/cb"],
                        "scope": "profile email"}},
                }},
            "backends": {"orders": {"sha256": sha256(BACKEND), "may": ["introspect", "token", "forward-auth"]}},
        }

    def spawn(self):
        environment = self.clock.environment if self.clock else None
        self.process = self.case.start(
            [*self.prefix, self.program, "serve", "--config", str(self.configuration)], f"{self.name}.log", environment)

    def start(self):
        self.spawn()
        if not wait_for(60, self.is_ready):
            raise GaveUp("the broker did not start: " + self.log()[-400:])

    def is_ready(self):
        return call(self.management + self.health, seconds=5).status == 200

    def stop(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(40)

    def restart(self, how=signal.SIGKILL):
        self.stop(how)
        self.start()

    def log(self):
        return (self.case.folder / f"{self.name}.log").read_text(errors="replace")

    # -- the broker's own reports

    def metric(self, name, **labels):
        """The sum of a metric's series that have these labels."""
        text = call(self.management + "/metrics").body.decode()
        total = 0.0
        for found in re.finditer(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE):
            if all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
                total += float(found[2])
        return total

    def resident(self):
        found = re.search(r"^VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024

    # -- its database, from outside

    def database(self, **options):
        return sqlite3.connect(self.data / "coatcheck.db", isolation_level=None, timeout=10, **options)

    def query(self, sql, *values):
        with contextlib.closing(self.database()) as database:
            return database.execute(sql, values).fetchall()

    # -- requests

    def call(self, method, path, session=None, body=None, **more):
        if session:
            more["Cookie"] = f"coatcheck={session}"
        # The Host is the broker's public name, even through a proxy.
        more.setdefault("Host", urllib.parse.urlsplit(self.settings["server"]["public_url"]).netloc)
        return call(self.url + path, method, body, **more)

    def look(self, session):
        return self.call("GET", "/v1/session", session)

    def refresh(self, session):
        return self.call("POST", "/v1/session/refresh", session)

    def log_out(self, session):
        return self.call("DELETE", "/v1/session", session)

    def exchange(self, session):
        """The answer with the access token that a backend gets."""
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": session,
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }
        return self.call(
            "POST", "/v1/token", body=urllib.parse.urlencode(form), X_Coatcheck_Backend=BACKEND,
            Content_Type="application/x-www-form-urlencoded")

    def log_in(self, user="ana", provider="oidc", client="ios", **authorize):
        """Does a login, and forwards its callback. Returns the answers of /v1/logins and /v1/sessions."""
        begun = self.call("POST", "/v1/logins", body={"provider": provider, "client": client})
        if begun.status != 201:
            return begun, begun
        token = begun.json.get("login_token")
        proof = {"login_token": token} if token else {}
        fields = {} if token else {"Cookie": re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]}
        query = urllib.parse.urlencode({"sandbox_user": user} | authorize)
        url = begun.json["authorization_url"] + "&" + query
        callback = call(url).fields["Location"]
        return begun, self.call("POST", "/v1/sessions", body={"callback_url": callback} | proof, **fields)

    def sign_in(self, *arguments, **more):
        """Does a whole login. Returns the session's token."""
        _, answer = self.log_in(*arguments, **more)
        if answer.status != 201:
            raise GaveUp(f"no session: {answer.told} {answer.body[:200]}")
        held = re.search(r"coatcheck=([^;]+)", ", ".join(answer.fields.get_all("Set-Cookie") or []))
        return answer.json.get("session_token") or held[1]

    def row(self, session, columns):
        """Columns of a session's row."""
        digest = hashlib.sha256(session.encode()).digest()
        rows = self.query(f"SELECT {columns} FROM sessions WHERE token = ?", digest)
        return rows[0] if rows else None
