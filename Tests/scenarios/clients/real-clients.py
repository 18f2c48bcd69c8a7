"""Foreign clients and servers with their default settings. Servers: nginx, HAProxy, lighttpd, Varnish, Squid, mod_auth_openidc. HTTP
clients and cookie jars: Java, Apache, Go, Python, curl, wget.
"""

import asyncio
import concurrent.futures
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import sys
import threading
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import balancers  # noqa: E402
from support.authority import Authority  # noqa: E402
from support.broker import BACKEND, Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.jars import KINDS, life  # noqa: E402
from support.recipes import MODULES  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402
from support.wire import ROOT, free_port  # noqa: E402

# The authentication methods for a client of introspection.
INTROSPECTION = ("client_secret_basic", "client_secret_post")
JAVA = ROOT / "Tests/scenarios/support/java"
JARS = ":".join(f"/usr/share/java/{name}.jar" for name in ("httpclient", "httpcore", "commons-logging", "commons-codec"))


def stack(case, name="127.0.0.1", **settings):
    """A sandbox, and a broker with this host name."""
    sandbox = Sandbox(case)
    upstream = {"base_url": sandbox.url + "/api", "provider": "oidc", "allow": ["GET /**", "POST /**", "PUT /**"]}
    broker = Broker(case, sandbox, settings={"upstreams": {"api": upstream}} | settings, start=False)
    broker.configure(server={"public_url": f"http://{name}:{broker.port}"})
    broker.start()
    return sandbox, broker


class Service:
    """The protected service, which records its requests."""

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


# ---- nginx -----------------------------------------------------------------------------------------------------------

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
    """nginx with `proxy_pass` alone, which uses HTTP/1.0 and buffers, and `auth_request` with the user's Content-Length."""
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
        case.same((401, []), (answer.status, service.seen), f"nginx, a stranger's POST of {len(body)} bytes → 401, and its service is not reached")
        answer = call(url + "/app/orders", "POST", body, Content_Type=kind, **cookie)
        case.same((200, [("POST", "/orders", body)]), (answer.status, service.seen[-1:]), f"nginx, a POST of {len(body)} bytes with a session → reaches its service whole")
        case.verdict(answer.seconds < 10, "nginx, a POST with a session → answered within 10 s", answer.seconds)
        service.seen.clear()
        kept = [call(url + "/kept/orders", method, body, Content_Type=kind, **cookie).status for method in ("POST", "GET", "POST", "POST")]
        case.same([200] * 4, kept, "nginx: calls on kept connections → 200")
        service.seen.clear()
    answer, begin = balancers.first_bytes(port, "/v1/session/events", session)
    case.same(b"event: session\n", begin.splitlines(keepends=True)[0] if begin else b"", "nginx, the session's event stream → begins with the event `session`")
    broker.refresh(session)
    # The line behind the first event, then the next.
    case.same([b"\n", b"event: tokens_refreshed\n"], [answer.readline(), answer.readline()] if answer else [], "nginx, the session's event stream after a refresh → the next event arrives")
    _, begin = balancers.first_bytes(port, "/v1/relay/api/events/100", session, 5)
    case.same(b"data: 0\n\n", begin, "nginx, a relayed event stream of ten seconds → its first event arrives")


# ---- mod_auth_openidc ------------------------------------------------------------------------------------------------

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
    """mod_auth_openidc as a client of introspection."""
    if not pathlib.Path(MODULES, "mod_auth_openidc.so").exists():
        raise GaveUp("mod_auth_openidc is missing: scripts/setup test installs it")
    _, broker = stack(case)
    service, authority = Service(), Authority(case)
    certificate = authority.file(authority.sign("apache", "IP:127.0.0.1"))
    session = broker.sign_in(client="android")
    for method in INTROSPECTION:
        wrong = openidc(case, broker.url, service.port, certificate, method, secret="another-credential-0815", name=f"wrong-{method}")
        answer = call(wrong + "/orders", Authorization=f"Bearer {session}")
        case.same((401, []), (answer.status, service.seen), f"mod_auth_openidc: {method} with a wrong secret → 401")
        url = openidc(case, broker.url, service.port, certificate, method, name=method)
        for token, status in (("guess", 401), (session, 200)):
            answer = call(url + "/orders", Authorization=f"Bearer {token}")
            case.same(status, answer.status, f"mod_auth_openidc: {method} with {'a session' if status == 200 else 'a guess'} → 200 for a session alone")
        service.seen.clear()
    broker.log_out(session)


# ---- Java ------------------------------------------------------------------------------------------------------------


def java(program, *arguments, jars="."):
    """Runs a Java program from its source; returns its lines by their first word."""
    done = subprocess.run(
        ["java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, JAVA / f"{program}.java", *arguments], capture_output=True, text=True,
        timeout=50)
    found = {}
    for line in done.stdout.splitlines():
        name, _, rest = line.partition(" ")
        found[name] = rest
    return found, done.stderr[-600:]


def java_clients(case):
    """Java's own HttpClient with its offers of HTTP/2 and its jar, and Apache's HttpClient."""
    if not shutil.which("javac"):
        case.lines.append("skipped: javac is missing")
    _, broker = stack(case)
    bearer = broker.sign_in(client="android")
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        own = pool.submit(java, "JavaClient", broker.url, bearer)
        apache = pool.submit(java, "ApacheClient", broker.url, bearer, BACKEND, jars=JARS)
    found, errors = own.result()
    sizes = {"relay-get-1": 0, "relay-get-2": 0, "relay-get-3": 0, "relay-post": 3000, "relay-chunked": 3000, "relay-expect": 3000}
    for name, size in sizes.items():
        words = found.get(name, errors)
        case.verdict(words.startswith("200 HTTP_1_1 ") and f'"body_length":{size},' in words.replace(" ", ""), f"Java's HttpClient: {name} → 200 over HTTP/1.1 with the whole body", words[:300])
    case.verdict(not any(word in " ".join(found.values()).lower() for word in ("http2-settings", '"upgrade"')), "Java's HttpClient, its offer of HTTP/2 → stays at the relay")
    case.same("200 data: 0||data: 1|", found.get("relay-events"), "Java's HttpClient, a relayed event stream → read to its end")
    for name, status in (
            ("stranger", 401), ("not-yours", 403), ("burned", 400), ("session", 200), ("url-connection", 200), ("login", 201), ("forward", 201),
            ("jar-session", 200), ("jar-echo", 200), ("jar-refresh-1", 200), ("jar-refresh-2", 200), ("login-2", 201), ("forward-2", 201),
            ("jar-session-2", 200), ("old", 401), ("log-out", 204), ("after", 401)):
        case.same(str(status), found.get(name, errors)[:3], f"Java, the step {name} → the expected status")
    case.verdict("coatcheck/0/true" in found.get("held", "").split(","), "Java's CookieManager, a sign-in → it keeps the session's cookie, unquoted", found.get("held"))
    case.same("true", found.get("renewed"), "Java's CookieManager, a second sign-in → the session's cookie is replaced")
    case.verdict("coatcheck/" not in found.get("left", "coatcheck/"), "Java's CookieManager, a log-out → the session's cookie is removed", found.get("left"))
    found, errors = apache.result()
    for name, status in (("relay-1", 200), ("relay-2", 200), ("introspect-utf8", 200), ("introspect", 200), ("relay-expect", 200), ("login", 201),
                         ("forward", 201), ("jar-session", 200)):
        case.same(str(status), found.get(name, errors)[:3], f"Apache's HttpClient, the step {name} → the expected status")
    case.verdict('"active":true' in found.get("introspect", "").replace(" ", ""), "Apache's HttpClient: introspection of a session → active")


# ---- Python and curl -------------------------------------------------------------------------------------------------


async def aiohttp_calls(read, echo, cookie, pieces):
    """The statuses of a read, and the bytes that a chunked post brought."""
    import aiohttp

    async def chunks():
        for piece in pieces():
            yield piece

    async with aiohttp.ClientSession(headers=cookie, timeout=aiohttp.ClientTimeout(10)) as client:
        async with client.get(read) as answer, client.post(echo, data=chunks()) as posted:
            return answer.status, (await posted.json(content_type=None))["body_length"]


def pythons(case):
    """Python's clients and curl as HTTP/1.0."""
    import httpx
    import requests

    _, broker = stack(case)
    session = broker.sign_in()
    cookie, body = {"Cookie": f"coatcheck={session}"}, b"x" * 3000
    echo, read = broker.url + "/v1/relay/api/echo", broker.url + "/v1/session"

    def pieces():
        yield body

    def urllib_post(data, **fields):
        return json.load(urllib.request.urlopen(urllib.request.Request(echo, data, cookie | fields), timeout=10))

    def curl(*arguments):
        return subprocess.run(["curl", "-s", "-m", "10", "-H", f"Cookie: coatcheck={session}", *arguments], capture_output=True, timeout=20).stdout

    case.same(200, urllib.request.urlopen(urllib.request.Request(read, headers=cookie), timeout=10).status, "urllib, a read of the session → 200")
    case.same(3000, urllib_post(body)["body_length"], "urllib, a relayed POST → the whole body arrives")
    case.same(3000, urllib_post(pieces())["body_length"], "urllib, a relayed POST in chunks → the whole body arrives")
    with requests.Session() as jar:
        jar.cookies.set("coatcheck", session)
        case.same([200, 200], [jar.get(read, timeout=10).status_code for _ in range(2)], "requests: two reads of the session on one connection → 200")
        case.same([3000, 3000], [jar.post(echo, data=data, timeout=10).json()["body_length"] for data in (body, pieces())], "requests: relayed POSTs, plain and in chunks → the whole body arrives")
        case.same(200, jar.get(read, data=body, timeout=10).status_code, "requests, a read of the session with a body → 200")
    with httpx.Client(cookies={"coatcheck": session}) as jar:
        case.same([200, 3000], [jar.get(read).status_code, jar.post(echo, content=body).json()["body_length"]], "httpx, a read of the session and a relayed POST → both succeed")
    case.same((200, 3000), asyncio.run(aiohttp_calls(read, echo, cookie, pieces)), "aiohttp, a read of the session and a relayed POST in chunks → both succeed")
    case.verdict(b'"handle"' in curl("--http1.0", read), "curl --http1.0: a read of the session → the session object")
    case.same(3000, json.loads(curl("--http1.0", "--data-binary", body.decode(), echo))["body_length"], "curl --http1.0: a relayed POST → the whole body arrives")
    case.same(b"data: 0\n\ndata: 1\n\n", curl("--http1.0", "-N", broker.url + "/v1/relay/api/events/2"), "curl --http1.0: a relayed event stream → read to its end")
    case.verdict(curl("--http1.0", "-N", "-m", "1", broker.url + "/v1/session/events").startswith(b"event: session\n"), "curl --http1.0: the session's event stream → begins with the event `session`")
    case.verdict(b'"handle"' in curl("--http2", read), "curl --http2, which offers h2c, a read of the session → the session object")
    case.same(3000, json.loads(curl("--http2", "--data-binary", body.decode(), echo))["body_length"], "curl --http2, which offers h2c, a relayed POST → the whole body arrives")
    begin = time.monotonic()
    case.verdict(b'"handle"' in curl("-X", "GET", "-H", "Content-Length: 9", read) and time.monotonic() - begin < 5, "curl with an announced body that it does not send → the session object within 5 s")


# ---- jars and Go -----------------------------------------------------------------------------------------------------


def jars(case):
    """The jars of Python's clients, curl and wget."""
    _, broker = stack(case, "localhost")
    site = f"http://localhost:{broker.port}"
    for kind in KINDS:
        jar, other = kind(site, case.folder), kind(site, case.folder)
        life(case, kind.__name__, jar, other)
        jar.close()
        other.close()


def go(case):
    """Go's net/http and cookiejar."""
    if not shutil.which("gccgo"):
        raise GaveUp("gccgo is missing: scripts/setup test installs it")
    program = case.folder / "client"
    command = ["gccgo", "-o", program, ROOT / "Tests/scenarios/support/go/client.go"]
    built = case.beside(lambda: subprocess.run(command, capture_output=True, timeout=40))
    _, broker = stack(case, "localhost")
    bearer = broker.sign_in(client="android")
    if built.result().returncode:
        raise GaveUp("gccgo fails: " + built.result().stderr.decode()[-400:])
    done = subprocess.run([program, f"http://localhost:{broker.port}", bearer], capture_output=True, text=True, timeout=40)
    found = {line.partition(" ")[0]: line.partition(" ")[2] for line in done.stdout.splitlines()}
    for name, status in (
            ("stranger", 401), ("not-yours", 403), ("burned", 400), ("session", 200), ("relay-get", 200), ("login", 201), ("forward", 201),
            ("jar-session", 200), ("jar-refresh", 200), ("login-2", 201), ("forward-2", 201), ("jar-session-2", 200), ("log-out", 204), ("after", 401)):
        case.same(str(status), found.get(name, done.stderr)[:3], f"Go, the step {name} → the expected status")
    for name in ("relay-post", "relay-chunked"):
        case.verdict('"body_length":3000,' in found.get(name, "").replace(" ", ""), f"Go: {name} → the whole body arrives", found.get(name))
    case.same("200 data: 0||data: 1|", found.get("relay-events"), "Go, a relayed event stream → read to its end")
    case.verdict("coatcheck" in found.get("held", "").split(" ")[-1].split(","), "Go's cookie jar, a sign-in → it keeps the session's cookie", found.get("held"))
    case.verdict("coatcheck" not in found.get("left", "coatcheck").split(" ")[-1].split(","), "Go's cookie jar, a log-out → the session's cookie is removed", found.get("left"))


# ---- balancers and caches --------------------------------------------------------------------------------------------


def in_front(case):
    """HAProxy, lighttpd, Varnish and Squid before the broker."""
    if absent := balancers.missing():
        raise GaveUp(f"{', '.join(absent)}: missing; scripts/setup test installs them")
    _, broker = stack(case)
    urls = {name: balancers.start(case, name, broker) for name in balancers.BALANCERS}
    for name, url in urls.items():
        balancers.wait(case, broker, name, url)
        balancers.calls(case, broker, name, url)


CASES = {
    "nginx": (nginx, 50), "introspection": (introspection, 50), "java": (java_clients, 55), "pythons": (pythons, 50), "jars": (jars, 50), "go": (go, 50),
    "in-front": (in_front, 55)}

if __name__ == "__main__":
    main(CASES, __doc__)
