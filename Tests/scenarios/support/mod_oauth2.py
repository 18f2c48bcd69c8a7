"""Apache with mod_oauth2 in front of an API: a resource server from another project. It checks access tokens with the
provider's keys, and the proofs that come with them.
"""

import contextlib
import http.client
import http.server
import json
import os
import pathlib
import threading
import urllib.parse

from .authority import Authority
from .calls import call
from .waiting import GaveUp, wait_for
from .wire import free_port

PROGRAM = pathlib.Path("/usr/sbin/apache2")
MODULES = pathlib.Path("/usr/lib/apache2/modules")

CONFIGURATION = """
{modules}
ServerRoot {folder}
ServerName 127.0.0.1
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/apache.log
LogLevel warn oauth2:debug
StartServers 1
MinSpareThreads 1
{user}
Listen 127.0.0.1:{port}
ProxyPass / {api}/
OAuth2TokenVerify jwks_uri {keys} {binding}
{tls}
<Location />
    AuthType oauth2
    Require valid-user
</Location>
# As the standard has it (RFC 9449 section 7.1) ...
<Location /standard>
    OAuth2AcceptTokenIn header name=Authorization&type={word}
</Location>
# ... and as this module has it unless told otherwise: /before keeps the word Bearer.
"""


class Behind:
    """The API behind Apache: it reports the received requests."""

    def __init__(self):
        self.calls = calls = []

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                found = {"method": self.command, "target": self.path, "fields": dict(self.headers.items()), "body": len(body)}
                calls.append(found)
                told = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(told)))
                self.end_headers()
                self.wfile.write(told)

            do_POST = do_GET

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


# Apache asks for a certificate, and the module compares it with the token's (RFC 8705).
TLS = """SSLEngine on
SSLCertificateFile {folder}/{certificate}.pem
SSLCertificateKeyFile {folder}/{certificate}.key
SSLCACertificateFile {folder}/{root}.pem
SSLVerifyClient optional
SSLOptions +StdEnvVars +ExportCertData
SSLSessionCache none"""


class Apache:
    """One Apache that accepts the tokens of one issuer. It requires proofs, or its clients' certificates if there is an
    authority.
    """

    def __init__(self, case, issuer, name="apache", authority: Authority | None = None):
        if not (MODULES / "mod_oauth2.so").exists():
            raise GaveUp("no mod_oauth2: scripts/setup test installs what is missing")
        folder = case.folder / name
        folder.mkdir()
        self.behind = Behind()
        self.log_file = folder / "apache.log"
        port = free_port()
        self.url = f"{'https' if authority else 'http'}://127.0.0.1:{port}"
        self.context = authority.context() if authority else None
        modules = "mpm_event authn_core authz_core authz_user proxy proxy_http oauth2" + (" ssl" if authority else "")
        if authority:
            authority.sign(name, "IP:127.0.0.1")
        configuration = folder / "apache.conf"
        configuration.write_text(CONFIGURATION.format(
            folder=folder, port=port, api=self.behind.url, keys=f"{issuer}/jwks",
            modules="\n".join(f"LoadModule {module}_module {MODULES}/mod_{module}.so" for module in modules.split()),
            user="" if os.getuid() else "User www-data\nGroup www-data",
            # This module's HTTP client does not know the authority of the provider's certificate.
            binding="type=mtls&mtls.policy=required&jwks_uri.ssl_verify=false" if authority else "type=dpop",
            word="Bearer" if authority else "DPoP",
            tls=TLS.format(folder=authority.folder, certificate=name, root=authority.name) if authority else ""))
        # Apache runs in one process, because workers would survive if their parent was killed.
        case.start([PROGRAM, "-d", folder, "-f", configuration, "-X"], f"{name}.log")
        if not wait_for(60, lambda: self.call("/standard").status == 401):
            raise GaveUp("Apache did not start: " + self.log()[-600:])

    def call(self, path, context=None, **fields):
        """Makes a GET. `context` may have a client's certificate."""
        if not self.context:
            return call(self.url + path, **fields)
        parts = urllib.parse.urlsplit(self.url)
        connection = http.client.HTTPSConnection(parts.hostname, parts.port, timeout=40, context=context or self.context)
        with contextlib.closing(connection):
            return call(self.url + path, connection=connection, **fields)

    def log(self):
        with contextlib.suppress(OSError):
            return self.log_file.read_text(errors="replace")
        return ""

    @property
    def reached(self):
        """Returns the number of calls that Apache has passed on."""
        return len(self.behind.calls)
