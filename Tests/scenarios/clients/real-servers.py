"""Servers from other projects with their default settings, in front of the broker: nginx, HAProxy, lighttpd, Varnish, Squid,
mod_auth_openidc."""

import http.server
import os
import pathlib
import shutil
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import balancers  # noqa: E402
from support.authority import Authority  # noqa: E402
from support.broker import BACKEND  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.plain_stack import stack  # noqa: E402
from support.recipes import MODULES  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402
from support.wire import free_port  # noqa: E402

# The methods by which mod_auth_openidc authenticates at introspection.
INTROSPECTION = ("client_secret_basic", "client_secret_post")


class Service:
    """A protected service, which records its requests."""

    def __init__(self):
        self.seen = seen = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def log_message(self, *_):
                pass

            def do_POST(self):
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                seen.append((self.command, self.path, body))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            do_GET = do_POST

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


NGINX = """{user}daemon off; master_process off; pid {folder}/pid; error_log stderr warn; events {{ }}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi; scgi_temp_path {folder}/scgi; access_log off;
    upstream kept {{ server 127.0.0.1:{broker}; keepalive 4; }}
    server {{
        listen 127.0.0.1:{port};
        # As nginx 1.29.7 does by default.
        location /kept/ {{ auth_request /ask-kept; proxy_pass http://127.0.0.1:{service}/; }}
        location = /ask-kept {{
            internal;
            proxy_pass http://kept/v1/forward-auth;
            proxy_http_version 1.1;
            proxy_set_header Host 127.0.0.1:{broker};
            proxy_set_header Connection "";
            proxy_set_header X-Coatcheck-Backend "{credential}";
        }}
        location / {{ proxy_pass http://127.0.0.1:{broker}; }}
        location /app/ {{ auth_request /ask; proxy_pass http://127.0.0.1:{service}/; }}
        location = /ask {{
            internal;
            proxy_pass http://127.0.0.1:{broker}/v1/forward-auth;
            proxy_set_header X-Coatcheck-Backend "{credential}";
        }}
    }}
}}
"""


def nginx(case):
    """nginx with only `proxy_pass` and `auth_request`.
    The first uses HTTP/1.0 and buffers, and the second passes on the app's Content-Length.
    """
    _, broker = stack(case)
    service, folder, port = Service(), case.folder / "nginx", free_port()
    folder.mkdir()
    (folder / "nginx.conf").write_text(NGINX.format(
        folder=folder, port=port, broker=broker.port, service=service.port, credential=BACKEND, user="" if os.getuid() else "user root; "))
    case.start([shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin"), "-e", "stderr", "-c", folder / "nginx.conf"], "nginx.log")
    url = f"http://127.0.0.1:{port}"
    if not wait_for(20, lambda: call(url + "/v1/providers").status == 200):
        raise GaveUp("nginx fails: " + (case.folder / "nginx.log").read_text()[-400:])
    session = broker.sign_in()
    cookie = {"Cookie": f"coatcheck={session}"}
    for body, kind in ((b'{"a": "b"}', "application/json"), (b"x" * 300_000, "text/plain")):
        answer = call(url + "/app/orders", "POST", body, Content_Type=kind)
        case.same((401, []), (answer.status, service.seen), f"nginx, a POST of {len(body)} bytes without a session → 401, and the service is not reached")
        answer = call(url + "/app/orders", "POST", body, Content_Type=kind, **cookie)
        case.same((200, [("POST", "/orders", body)]), (answer.status, service.seen[-1:]), f"nginx, a POST of {len(body)} bytes with a session → reaches the service completely")
        case.verdict(answer.seconds < 10, "nginx, a POST with a session → answered within 10 s", answer.seconds)
        service.seen.clear()
        kept = [call(url + "/kept/orders", method, body, Content_Type=kind, **cookie).status for method in ("POST", "GET", "POST", "POST")]
        case.same([200] * 4, kept, "nginx, calls on connections that stay open between requests → 200")
        service.seen.clear()
    answer, begin = balancers.first_bytes(port, "/v1/session/events", session)
    case.same(b"event: session\n", begin.splitlines(keepends=True)[0] if begin else b"", "nginx, the session's event stream → begins with the event `session`")
    broker.refresh(session)
    # The first line that is read ends the first event; the second line begins the next event.
    case.same([b"\n", b"event: tokens_refreshed\n"], [answer.readline(), answer.readline()] if answer else [], "nginx, the session's event stream after a refresh → the next event arrives")
    _, begin = balancers.first_bytes(port, "/v1/relay/api/events/100", session, 5)
    case.same(b"data: 0\n\n", begin, "nginx, a relayed event stream of ten seconds → its first event arrives")


APACHE = """{modules}
ServerRoot {folder}
ServerName 127.0.0.1
PidFile {folder}/apache.pid
DefaultRuntimeDir {folder}
ErrorLog {folder}/apache.log
LogLevel warn auth_openidc:debug
{user}
Listen 127.0.0.1:{port}
Listen 127.0.0.1:{tls}
SSLSessionCache none
# The module wants TLS at the introspection endpoint.
<VirtualHost 127.0.0.1:{tls}>
    SSLEngine on
    SSLCertificateFile {certificate}.pem
    SSLCertificateKeyFile {certificate}.key
    ProxyPass / {broker}/
</VirtualHost>
<VirtualHost 127.0.0.1:{port}>
    OIDCOAuthIntrospectionEndpoint https://127.0.0.1:{tls}/v1/introspect
    OIDCOAuthClientID {client}
    OIDCOAuthClientSecret "{secret}"
    OIDCOAuthIntrospectionEndpointAuth {method}
    OIDCOAuthSSLValidateServer Off
    OIDCOAuthRemoteUserClaim sub
    ProxyPass / http://127.0.0.1:{service}/
    <Location />
        AuthType oauth20
        Require valid-user
    </Location>
</VirtualHost>
"""


def openidc(case, broker, service, certificate, method, secret=BACKEND, name="apache"):
    folder, port = case.folder / name, free_port()
    folder.mkdir()
    modules = "mpm_event authn_core authz_core authz_user proxy proxy_http ssl auth_openidc"
    (folder / "apache.conf").write_text(APACHE.format(
        folder=folder, port=port, tls=free_port(), broker=broker, client="orders", secret=secret, method=method, service=service,
        certificate=certificate,
        modules="\n".join(f"LoadModule {module}_module {MODULES}/mod_{module}.so" for module in modules.split()),
        user="" if os.getuid() else "User www-data\nGroup www-data"))
    case.start(["/usr/sbin/apache2", "-d", folder, "-f", folder / "apache.conf", "-X"], f"{name}.log")
    url = f"http://127.0.0.1:{port}"
    if not wait_for(30, lambda: call(url + "/").status):
        raise GaveUp("Apache fails: " + (case.folder / f"{name}.log").read_text()[-600:])
    return url


def introspection(case):
    """mod_auth_openidc asks the broker's introspection about each request."""
    if not pathlib.Path(MODULES, "mod_auth_openidc.so").exists():
        raise GaveUp("mod_auth_openidc is missing: scripts/setup test installs it")
    _, broker = stack(case)
    service, authority = Service(), Authority(case)
    certificate = authority.file(authority.sign("apache", "IP:127.0.0.1"))
    session = broker.sign_in(client="android")
    for method in INTROSPECTION:
        wrong = openidc(case, broker.url, service.port, certificate, method, secret="another-credential-0815", name=f"wrong-{method}")
        answer = call(wrong + "/orders", Authorization=f"Bearer {session}")
        case.same((401, []), (answer.status, service.seen), f"mod_auth_openidc asks for a session by {method} with a wrong secret → the client gets 401")
        url = openidc(case, broker.url, service.port, certificate, method, name=method)
        for token, status in (("guess", 401), (session, 200)):
            answer = call(url + "/orders", Authorization=f"Bearer {token}")
            case.same(status, answer.status, f"mod_auth_openidc asks by {method} for {'a live session' if status == 200 else 'an invented token'} → the client gets {status}")
        service.seen.clear()
    broker.log_out(session)


def in_front(case):
    """HAProxy, lighttpd, Varnish and Squid before the broker."""
    if absent := balancers.missing():
        raise GaveUp(f"{', '.join(absent)}: missing; scripts/setup test installs them")
    _, broker = stack(case)
    urls = {name: balancers.start(case, name, broker) for name in balancers.BALANCERS}
    for name, url in urls.items():
        balancers.wait(case, broker, name, url)
        balancers.calls(case, broker, name, url)


CASES = {"nginx": (nginx, 50), "introspection": (introspection, 50), "in-front": (in_front, 55)}

if __name__ == "__main__":
    main(CASES, __doc__)
