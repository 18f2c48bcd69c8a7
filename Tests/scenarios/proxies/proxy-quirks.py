"""The unusual requests of docs/reference/leniency-proxies.md, sent byte by byte, and unusual configuration files."""

import contextlib
import json
import pathlib
import socket
import sqlite3
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND, Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402
from support.wire import answers, read_all  # noqa: E402

# X-Forwarded-For as it is after one, two and three proxies.
ONE, TWO, THREE = "198.51.100.7", "198.51.100.7, 10.0.0.2", "198.51.100.7, 10.0.0.2, 10.0.0.3"
PLAIN = [
    (None, "http"), (ONE, "http"), (ONE, "ws"), (ONE, "https, http"), (ONE, "https", "http"), (TWO, "http, https"), (TWO, "http", "https"),
    (TWO, "https,,http"), (THREE, "http, https, https"), (THREE, "https, https"), (ONE, "https,"), (ONE, "ftp"),
]
SECURE = [
    (ONE, "https"), (ONE, "HTTPS"), (ONE, "wss"), (ONE, "WSS"), (ONE, "http, https"), (TWO, "https,http"), (TWO, "https", "http"),
    (TWO, "\thttps \t,  http"), (THREE, "https, http, http"), (THREE, "wss", "http, ws"), (TWO, "https"), (None, "http,https"),
]
# Fields that announce a body.
ANNOUNCED = [
    ("Content-Length: 27",), ("Content-Length: 27", "Content-Type: application/json"), ("Transfer-Encoding: chunked",),
    ("Content-Length: 27", "Expect: 100-continue"), ("Content-Length: 4000000000",),
]
OFFER = ("Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAEAAEAAAAIAAAAAAAMAAAAAAAQBAAAAAAUAAEAAAAYABgAA")
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nHost: localhost\r\n\r\n"


def raw(broker, method, path, *fields, rest=b"", version="1.1", seconds=8, port=None):
    """Sends one request with these fields and bytes. Returns the answers, how the connection ended, and the seconds it took."""
    begin = time.monotonic()
    name = broker.settings["server"]["public_url"].split("//")[1]
    head = "\r\n".join([f"{method} {path} HTTP/{version}", f"Host: {name}", *fields, "", ""])
    with socket.create_connection(("127.0.0.1", port or broker.port), 5) as end:
        end.sendall(head.encode("latin1") + rest)
        data, how = read_all(end, seconds)
    return answers(data), how, time.monotonic() - begin


def schemes(case):
    """X-Forwarded-Proto with one or more entries, behind one, two and three proxies."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings={
        "server": {"public_url": "https://auth.example.com", "trusted_proxies": ["127.0.0.1", "10.0.0.0/8"]}, "log": {"requests": True}})

    def status(row):
        fields = [f"X-Forwarded-For: {row[0]}"] if row[0] else []
        found, _, _ = raw(broker, "GET", "/v1/providers", *fields, *(f"X-Forwarded-Proto: {one}" for one in row[1:]), "Connection: close")
        return [answer[0] for answer in found]

    for row in PLAIN:
        case.same([400], status(row), f"X-Forwarded-For and X-Forwarded-Proto as {row} → 400")
    case.verdict(wait_for(5, lambda: "2 entries behind 3 hops" in broker.log()), "an X-Forwarded-Proto with fewer entries than hops → the log contains both numbers")
    case.verdict("entry 2 from the right" in broker.log(), "an X-Forwarded-Proto with an `http` entry → the log contains the entry's position")
    for row in SECURE:
        case.same([200], status(row), f"X-Forwarded-For and X-Forwarded-Proto as {row} → 200")
    broker.configure(server={"trusted_proxies": ["192.0.2.1"]})
    broker.restart()
    for row in (PLAIN[0], PLAIN[8], PLAIN[9]):
        case.same([200], status(row), f"X-Forwarded-For and X-Forwarded-Proto as {row}, from an untrusted peer → ignored")


def bodies(case):
    """Forward-auth requests that announce the body of the app's request, and offers of HTTP/2."""
    sandbox = Sandbox(case)
    upstream = {"base_url": sandbox.url + "/api", "provider": "oidc", "allow": ["GET /**", "POST /**", "PUT /**"]}
    broker = Broker(case, sandbox, settings={"upstreams": {"api": upstream}})
    session = broker.sign_in()
    cookie, proof = f"Cookie: coatcheck={session}", f"X-Coatcheck-Backend: {BACKEND}"
    gate = (proof, f"X-Coatcheck-Session: {session}")

    for rest in (b"", b"hello", b"0\r\n\r\n", b"zz\r\n"):
        for coding in ("Content-Length: 5", "Content-Length: 400", "Transfer-Encoding: chunked"):
            found, how, _ = raw(broker, "GET", "/v1/forward-auth", *gate, coding, rest=rest + SMUGGLED + SMUGGLED)
            # If the bytes are not a valid chunk, the request is malformed (SEC-101).
            status = 400 if "chunked" in coding and not rest.startswith(b"0") else 200
            case.same([status], [answer[0] for answer in found], f"forward-auth with {coding}, the body {rest} and two smuggled requests → one answer in all")
    for fields in (("Upgrade: websocket", "Connection: Upgrade"), ("Connection: Upgrade",), ("Upgrade: TLS/1.2", "Connection: Upgrade"),
                   ("Upgrade: h2c, websocket", "Connection: Upgrade"), ("Upgrade: h2c", "Upgrade: websocket", "Connection: Upgrade")):
        found, _, _ = raw(broker, "GET", "/v1/relay/api/echo", cookie, *fields, "Connection: close")
        case.same([400], [answer[0] for answer in found], f"a relayed call with {fields} → 400")

    calls = [("/v1/forward-auth", *gate), ("/v1/forward-auth", proof), ("/v1/session", cookie), ("/v1/sessions", cookie), ("/v1/providers",),
             ("/openapi.yaml",), ("/callback/oidc?error=access_denied&state=x",)]
    for path, *fields in calls:
        for method in ("GET", "HEAD"):
            without, _, _ = raw(broker, method, path, *fields, "Connection: close")
            for announced in ANNOUNCED:
                found, how, took = raw(broker, method, path, *fields, *announced)
                case.same((without[0][0], 1, "close"), (found[0][0], len(found), found[0][1].get("connection")), f"{method} {path} with {announced}, which announces a body → the usual answer once, and the connection closes")
                case.verdict(took < 5, f"{method} {path} with {announced}, which announces a body → answered within 5 s", took)
    for path in ("/livez", "/readyz", "/metrics"):
        found, _, took = raw(broker, "GET", path, "Content-Length: 27", port=broker.management_port)
        case.verdict(found[0][0] == 200 and took < 5, f"GET {path} announces a body but sends none → 200 within 5 s", (found[0][0], took))

    form = json.dumps({"a": "b" * 3000}).encode()
    chunked = b"%x\r\n%s\r\n0\r\n\r\n" % (len(form), form)
    for fields, rest in (((), b""), ((f"Content-Length: {len(form)}",), form), (("Transfer-Encoding: chunked",), chunked)):
        found, _, _ = raw(broker, "POST" if rest else "GET", "/v1/relay/api/echo", cookie, *OFFER, *fields, rest=rest)
        case.same([200], [answer[0] for answer in found], f"a relayed call with an offer of HTTP/2 (h2c) and {fields} → answered over HTTP/1.1")
        seen = json.loads(found[0][2])
        names = {name.lower() for name, _ in seen["headers"]}
        case.same((len(form) if rest else 0, set()), (seen["body_length"], names & {"upgrade", "http2-settings"}), "a relayed call with an offer of HTTP/2 (h2c) → the upstream gets the body without the offer")
    for path, *fields in (("/v1/session", cookie), ("/v1/forward-auth", *gate), ("/v1/providers",)):
        found, _, _ = raw(broker, "GET", path, *fields, *OFFER, rest=b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + SMUGGLED)
        case.same([200], [answer[0] for answer in found], f"GET {path} with an offer of HTTP/2 (h2c), and a second request right behind it → only the first is answered")

    for path, version in (("/v1/session/events", "1.1"), ("/v1/session/events", "1.0"), ("/v1/relay/api/events/2", "1.0"), ("/v1/relay/api/events/2", "1.1")):
        found, _, _ = raw(broker, "GET", path, cookie, version=version, seconds=1.5)
        fields, body = found[0][1], found[0][2]
        case.same(("no", True), (fields.get("x-accel-buffering"), b"data: " in body), f"the event stream {path} over HTTP/{version} → has X-Accel-Buffering `no`, and its first event arrives")


def kept(case):
    """An idle connection stays open for `server.keep_alive`."""
    broker = Broker(case, Sandbox(case), settings={"server": {"keep_alive": "5s"}})
    head = f"GET /v1/providers HTTP/1.1\r\nHost: 127.0.0.1:{broker.port}\r\n".encode()
    with contextlib.ExitStack() as stack:
        ends = [stack.enter_context(socket.create_connection(("127.0.0.1", broker.port), 5)) for _ in range(2)]
        begin = time.monotonic()
        ends[0].sendall(head + b"\r\n")
        ends[1].sendall(head)
        for end, answered in zip(ends, (200, 0)):
            data, how = read_all(end, 15)
            took = time.monotonic() - begin
            case.same(answered, answers(data)[0][0] if data else 0, f"a client sends {'a whole' if answered else 'half a'} request head and then waits → {'the answer' if answered else 'no answer'}")
            case.verdict(how == "fin" and 4.5 < took < 12, f"a client sends {'a whole' if answered else 'half a'} request head and then waits → its connection is closed after keep_alive, five seconds", (how, took))


def files(case):
    """YAML merge keys in the configuration, and spellings of the store's URL."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, start=False)

    def check(text=None, **settings):
        broker.configure(**settings)
        if text:
            broker.configuration.write_text(text(json.dumps(broker.settings, indent=1)))
        done = subprocess.run([COATCHECK, "check", "--config", broker.configuration], capture_output=True, text=True, timeout=20)
        return done.returncode, done.stdout + done.stderr

    data = broker.data
    misspelt = [
        f"sqlite:/{data}/x.db", f"sqlite://localhost{data}/x.db", "sqlite::memory:", "sqlite:///:memory:", f"sqlite:{data}/a%20b.db",
        f"sqlite:file:{data}/x.db", "sqlite:///./x.db", "sqlite:~/x.db"]
    for url in misspelt:
        status, said = check(store={"url": url})
        case.verdict(status != 0 and "store.url" in said and ("sqlite:data/coatcheck.db" in said or "the character itself" in said), f"`check` of the store {url} → refused with a hint", said[-300:])
    started = subprocess.run([COATCHECK, "serve", "--config", broker.configuration], capture_output=True, text=True, timeout=20)
    case.verdict(started.returncode != 0 and "store.url" in started.stdout + started.stderr, "`serve` with a misspelt store URL → refused", started.stderr[-300:])
    case.same([], sorted(path.name for path in data.iterdir()), "`check` and `serve` with misspelt store URLs → no file in the data folder")
    case.verdict(not list(broker.folder.glob("*memory*")) and not list(broker.folder.glob("file:*")), "`check` and `serve` with misspelt store URLs → no file in the broker's folder")
    old = data / "a%20b.db"
    sqlite3.connect(old).close()
    status, said = check(store={"url": f"sqlite:{old}"})
    case.verdict(status == 0 and "opened until 0.3.0" in said, "a database that an older release made for a URL with %20 → opened, with a warning", said[-300:])
    broker.start()
    case.verdict(broker.sign_in(), "a database that an older release made for a URL with %20 → a sign-in succeeds")
    broker.stop()
    for url in (f"sqlite:{data}/x.db", f"sqlite://{data}/x.db", f"sqlite:///{data}/x.db", "sqlite:data/x.db", "sqlite:./data/x.db"):
        status, said = check(store={"url": url})
        case.same(0, status, f"`check` of the store {url} → accepted")

    def clients(lines, top=""):
        # JSON is also YAML, so most of the file is JSON. Only the clients have the merge keys that users of Compose know.
        def write(settings):
            whole = json.loads(settings)
            whole["providers"].pop("oauth2")
            provider = whole["providers"].pop("oidc") | {"clients": None}
            text = "\n".join(f"{key}: {json.dumps(value)}" for key, value in whole.items() if key != "providers")
            inner = "\n".join(f"    {key}: {json.dumps(value)}" for key, value in provider.items() if key != "clients")
            return f"{top}\n{text}\nproviders:\n  oidc:\n{inner}\n    clients:\n{lines}\n"
        return write

    top = "x-app: &app\n  auth: none\n  scope: openid email offline_access\n  login: both\nx-old: &old {transport: bearer, scope: openid}"
    own = '      ios: {<<: *app, client_id: ios-app, redirect_uris: ["com.example.app:/cb"]}\n'
    for lines, line, words in (
            (own + "      web: {<<: app, client_id: web-app}", None, "`<<` takes a mapping"),
            (own.replace("client_id", "x-note: 1, client_id"), None, "x-note"), (own.replace("<<", '"<<"'), None, "<<"),
            (own.replace("*app", "[*app, 7]"), None, "`<<` takes a mapping")):
        status, said = check(clients(lines, top))
        case.verdict(status != 0 and words in said and "line " in said, f"a configuration with a faulty YAML merge key → `check` refuses the configuration: {words}", said[-300:])
    status, said = check(clients(own, top.replace("login: both", "login: sometimes")))
    case.verdict(status != 0 and "line 4: providers.oidc.clients.ios.login" in said, "a configuration with a wrong value in a merged YAML mapping → `check` prints the line of this value", said[-300:])
    laughs = "x-0: &a0 [ha]\n" + "\n".join(f"x-{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 40))
    status, said = check(clients(own, top + "\n" + laughs))
    case.verdict(status != 0 and "10,000" in said, "a configuration with more than 10,000 aliases → `check` refuses", said[-300:])
    status, said = check(clients(own + '      android: {<<: [*old, *app], client_id: android-app, redirect_uris: ["com.example.android:/cb"]}', top))
    case.same(0, status, f"a configuration whose clients have YAML merge keys → `check` accepts {said[-300:] if status else ''}")
    broker.start()
    case.verdict(broker.sign_in(), "a client whose settings merge one YAML mapping → a sign-in succeeds")
    case.verdict(broker.sign_in(client="android"), "a client whose settings merge two YAML mappings → a sign-in succeeds")


CASES = {"schemes": (schemes, 40), "bodies": (bodies, 40), "kept": (kept, 40), "files": (files, 40)}

if __name__ == "__main__":
    main(CASES, __doc__)
