"""Glewlwyd, an OpenID provider from another project, on loopback, and a browser for its users. It is a process with its own
database, and its administration API sets it up. Each issuer is an instance of its OpenID plugin. One process may have several
issuers.
"""

import contextlib
import http.client
import pathlib
import sqlite3
import ssl
import urllib.parse

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat

from .calls import call
from .dpop import encoded
from .waiting import GaveUp, wait_for
from .wire import free_port

PROGRAM = pathlib.Path("/usr/bin/glewlwyd")
SCHEMA = pathlib.Path("/usr/share/dbconfig-common/data/glewlwyd/install/sqlite3")
USER, PASSWORD = "ana", "correct horse battery staple"

CONFIGURATION = """
port={port}
bind_address="127.0.0.1"
external_url="{url}"
login_url="login.html"
api_prefix="api"
static_files_path="/usr/share/glewlwyd/webapp/"
static_files_mime_types=({{ extension=".html" mime_type="text/html" }})
log_mode="console"
log_level="DEBUG"
cookie_secure=0
session_expiration=86400
session_key="SSO"
admin_scope="g_admin"
profile_scope="g_profile"
hash_algorithm="SHA512"
user_module_path="/usr/lib/glewlwyd/user"
client_module_path="/usr/lib/glewlwyd/client"
user_auth_scheme_module_path="/usr/lib/glewlwyd/scheme"
plugin_module_path="/usr/lib/glewlwyd/plugin"
{tls}
database={{ type="sqlite3" path="{database}" }}
"""


TLS = """use_secure_connection=true
secure_connection_pem_file="{certificate}"
secure_connection_key_file="{key}"
secure_connection_ca_file="{roots}"
"""


class Glewlwyd:
    """One process of Glewlwyd, with one user. With `tls` (files: certificate, key, roots) it asks its clients for
    certificates."""

    def __init__(self, case, tls=None):
        if not (PROGRAM.exists() and SCHEMA.exists()):
            raise GaveUp("no glewlwyd: scripts/setup test installs what is missing")
        port = free_port()
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{port}"
        self.context = ssl.create_default_context(cafile=tls["roots"]) if tls else None
        self.log_file = case.folder / "glewlwyd.log"
        self.database = case.folder / "glewlwyd.db"
        with contextlib.closing(sqlite3.connect(self.database)) as database:
            database.executescript(SCHEMA.read_text())
        configuration = case.folder / "glewlwyd.conf"
        configuration.write_text(CONFIGURATION.format(
            port=port, url=self.url, database=self.database, tls=TLS.format(**tls) if tls else ""))
        case.start([PROGRAM, "--config-file", configuration], self.log_file.name)
        if not wait_for(60, lambda: self.call("GET", f"{self.url}/config").status == 200):
            raise GaveUp("glewlwyd did not start: " + self.log()[-600:])
        # The administrator account that a new database of Glewlwyd has.
        self.administrator = Browser(self, "admin", "password")
        self.administrator.log_in()
        self.add("user", username=USER, password=PASSWORD, name="Ana Example", email="ana@example.org", enabled=True, scope=["openid"])

    def call(self, method, url, body=None, context=None, **fields):
        """Makes a request to Glewlwyd; `context` may have a client's certificate."""
        if not self.context:
            return call(url, method, body, **fields)
        parts = urllib.parse.urlsplit(url)
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=40, context=context or self.context)
        with contextlib.closing(connection):
            return call(url, method, body, connection=connection, **fields)

    def log(self):
        return self.log_file.read_text(errors="replace")

    def add(self, kind, **settings):
        answer = self.administrator.call("POST", f"/api/{kind}/", settings)
        if answer.status != 200:
            raise GaveUp(f"glewlwyd takes no {kind}: {answer.status} {answer.body[:600]}")

    def issuer(self, name, **parameters):
        """Adds an issuer that binds tokens to keys, and returns its address."""
        private, public = signing_key()
        address = f"{self.url}/api/{name}"
        on = dict.fromkeys((
            "auth-type-code-enabled", "auth-type-refresh-enabled", "refresh-token-rolling", "pkce-allowed", "pkce-required", "oauth-as-iss-id",
            "oauth-dpop-allowed", "introspection-revocation-allowed", "introspection-revocation-allow-target-client", "request-parameter-allow",
            "session-management-allowed", "jwks-show"), True)
        off = dict.fromkeys(("auth-type-token-enabled", "auth-type-id-token-enabled", "auth-type-password-enabled", "auth-type-client-enabled"), False)
        self.add("mod/plugin", module="oidc", name=name, display_name=name, parameters=on | off | {
            "iss": address, "jwt-type": "ecdsa", "jwt-key-size": "256", "key": private, "cert": public,
            "access-token-duration": 3600, "refresh-token-duration": 86400, "code-duration": 600, "refresh-token-one-use": "always",
            "allow-non-oidc": False, "name-claim": "mandatory", "email-claim": "mandatory", "scope-claim": "mandatory",
            "session-cookie-name": f"{name}-session", "session-cookie-expiration": 86400,
            "client-jwks-parameter": "jwks", "request-maximum-exp": 3600,
            "oauth-dpop-iat-duration": 60, "oauth-dpop-iat-gap-duration": 5, "oauth-dpop-dpop_bound_access_tokens-property": "dpop_bound",
            "oauth-par-request_uri-prefix": "urn:ietf:params:oauth:request_uri:", "oauth-par-duration": 90,
        } | parameters)
        return address

    def bank(self, name="mtls", **parameters):
        """Adds an issuer that authenticates its clients by certificates, and binds tokens to the certificates. Returns its
        address.
        """
        return self.issuer(name, **{
            "client-cert-source": "TLS", "client-cert-use-endpoint-aliases": True, "oauth-dpop-allowed": False,
            "oauth-par-allowed": True, "oauth-par-required": True} | parameters)

    def client(self, name, redirect, **settings):
        """Adds a client, which is public by default."""
        self.add("client", **{
            "client_id": name, "name": name, "enabled": True, "confidential": False, "authorization_type": ["code", "refresh_token"],
            "redirect_uri": [redirect], "scope": [], "dpop_bound": "1"} | settings)

    def refused(self, reason):
        """Returns how many proofs Glewlwyd has refused for a reason."""
        return self.log().count(f"oidc_verify_dpop_proof - {reason}")

    def query(self, sql, *values):
        with contextlib.closing(sqlite3.connect(self.database, timeout=10)) as database:
            return database.execute(sql, values).fetchall()


class Browser:
    """A user's browser. It keeps cookies, and does the work of the provider's page."""

    def __init__(self, provider, user=USER, password=PASSWORD):
        self.provider, self.user, self.password = provider, user, password
        self.cookies = {}

    def call(self, method, path, body=None):
        url = path if path.startswith("http") else self.provider.url + path
        cookies = {"Cookie": "; ".join(f"{name}={value}" for name, value in self.cookies.items())} if self.cookies else {}
        answer = self.provider.call(method, url, body, **cookies)
        for field in answer.fields.get_all("Set-Cookie") or []:
            name, _, value = field.split(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    def log_in(self):
        answer = self.call("POST", "/api/auth/", {"username": self.user, "password": self.password})
        if answer.status != 200:
            raise GaveUp(f"glewlwyd lets {self.user} not in: {answer.status}")

    def open(self, url):
        """Opens an authorization URL, logs in and consents if the page asks for this, and returns the callback URL for the app.
        """
        answer = self.call("GET", url)
        page = answer.fields["Location"] or ""
        if "/login.html?" not in page:
            return page or f"{answer.status} {answer.body[:200]}"
        if self.call("GET", page).status != 200:
            raise GaveUp("glewlwyd shows no login page")
        asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(page).query))
        if not self.cookies:
            self.log_in()
        if "scope" in asked:
            self.call("PUT", f"/api/auth/grant/{asked['client_id']}/", {"scope": asked["scope"]})
        if "callback_url" not in asked:
            return page
        back = asked["callback_url"]
        return self.call("GET", back + ("&" if "?" in back else "?") + "g_continue").fields["Location"]


def signing_key():
    """A key on P-256 as text: its private and its public half."""
    key = ec.generate_private_key(ec.SECP256R1())
    return (
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo).decode())


def public_jwk(key, key_id):
    """The public half of a key on P-256, in the form for a client's registration."""
    numbers = key.public_key().public_numbers()
    return {"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": key_id} | {
        name: encoded(getattr(numbers, name).to_bytes(32, "big")) for name in "xy"}
