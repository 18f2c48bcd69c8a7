"""A FAPI 2 server with one client, and a broker with `profile: fapi2`."""

import subprocess

from .broker import Broker
from .calls import call
from .sandbox import Sandbox
from .waiting import GaveUp

PREFIX = "fapi2-security-profile-final-client-"
REDIRECT = "https://app.example.org/bank"


class Server(Sandbox):
    """A FAPI 2 server with one client. With certificates, it also has a listener that asks for them."""

    def __init__(self, case, authentication, binding):
        self.folder = case.folder
        self.certificates = "mtls" in (authentication, binding)
        self.more = []
        if self.certificates:
            self.issue()
            self.more = [
                "--mtls-port", "0", "--mtls-certificate", self.folder / "server.pem", "--mtls-key", self.folder / "server.key",
                "--mtls-client-roots", self.folder / "ca.pem"]
        start = case.start
        case.start = lambda command, log, environment=None: start([*command, *self.more], log, environment)
        try:
            super().__init__(case)
        finally:
            case.start = start
        registered = {
            "auth": "private_key_jwt" if authentication == "private_key_jwt" else "tls_client_auth", "redirect_uris": [REDIRECT],
            "jwks": {"keys": [self.control("GET", "/client-key.json").json]}, "require_pkce": True}
        if self.certificates:
            registered |= {"tls_client_auth_san_dns": "client.example.org", "tls_client_certificate_bound_access_tokens": binding == "mtls"}
        if self.control("PUT", "/clients/oidc/bank-client", registered).status != 204:
            raise GaveUp("the client is not registered")
        key = self.control("GET", "/client-key.pem")
        (self.folder / "client-key.pem").write_bytes(key.body)
        (self.folder / "client-key.pem").chmod(0o600)
        self.key_id = key.fields["X-Key-Id"]

    def issue(self):
        """Makes a certificate authority, the server's certificate and the client's certificate."""

        def openssl(*words):
            subprocess.run(["openssl", *words], cwd=self.folder, check=True, capture_output=True)

        key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes")
        openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "ca.pem", "-days", "2", "-subj", "/CN=authority")
        for name, host in (("server", "localhost"), ("client", "client.example.org")):
            (self.folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{host}\n")
            openssl("req", *key, "-keyout", f"{name}.key", "-out", f"{name}.csr", "-subj", f"/CN={name}")
            openssl(
                "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2",
                "-extfile", f"{name}.ext", "-out", f"{name}.pem")
            (self.folder / f"{name}.key").chmod(0o600)

    def play(self, name, binding):
        answer = self.control("PUT", "/modules/oidc", {"module": PREFIX + name, "sender_constrain": binding})
        self.control("DELETE", "/requests")
        return answer.json.get("applies")

    def requests(self, endpoint, provider="oidc"):
        return self.control("GET", f"/requests?provider={provider}&endpoint={endpoint}").json["items"]


def fields(request, name):
    return [value for key, value in request["headers"] if key.lower() == name.lower()]


def broker(case, server, authentication, binding, name, start=True):
    """A broker with `profile: fapi2` and the client's settings. All other settings come from the profile."""
    client = {"client_id": "bank-client", "redirect_uris": [REDIRECT], "scope": "openid email offline_access", "auth": None, "login": None}
    if authentication == "private_key_jwt":
        client["private_key"] = {"file": str(server.folder / "client-key.pem"), "key_id": server.key_id, "algorithm": "ES256"}
        if binding == "mtls":
            client["sender_constrained"] = "mtls"
    elif binding == "dpop":
        client["sender_constrained"] = "dpop"
    provider = {"profile": "fapi2", "clients": {"ios": None, "android": None, "web": client}}
    base = server.url
    upstream = {"base_url": f"{base}/api", "provider": "oidc", "allow": ["ANY /**"]}
    if server.certificates:
        provider["tls"] = {
            "certificate": str(server.folder / "client.pem"), "key": str(server.folder / "client.key"), "ca_file": str(server.folder / "ca.pem")}
    if binding == "mtls":
        document = call(f"{base}/oidc/.well-known/openid-configuration").json
        secure = document["mtls_endpoint_aliases"]["token_endpoint"].removesuffix("/oidc/token")
        upstream |= {"base_url": f"{secure}/api", "tls": {"ca_file": str(server.folder / "ca.pem")}}
    return Broker(case, server, name=name, settings={"providers": {"oauth2": None, "oidc": provider}, "upstreams": {"api": upstream}}, start=start)
