"""HTTP clients and cookie jars of other projects, with their default settings: Java, Apache, Go, Python, curl, wget."""

import asyncio
import concurrent.futures
import json
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND  # noqa: E402
from support.cases import main  # noqa: E402
from support.jars import KINDS, life  # noqa: E402
from support.plain_stack import stack  # noqa: E402
from support.waiting import GaveUp  # noqa: E402
from support.wire import ROOT  # noqa: E402

JAVA = ROOT / "Tests/scenarios/support/java"
JARS = ":".join(f"/usr/share/java/{name}.jar" for name in ("httpclient", "httpcore", "commons-logging", "commons-codec"))


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
    """Java's own HttpClient, which offers HTTP/2, with its cookie jar, and Apache's HttpClient."""
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
    case.verdict(not any(word in " ".join(found.values()).lower() for word in ("http2-settings", '"upgrade"')), "Java's HttpClient, a relayed call that offers an upgrade to HTTP/2 → the upstream does not get the offer")
    case.same("200 data: 0||data: 1|", found.get("relay-events"), "Java's HttpClient, a relayed event stream → read to its end")
    for name, status in (
            ("stranger", 401), ("not-yours", 403), ("burned", 400), ("session", 200), ("url-connection", 200), ("login", 201), ("forward", 201),
            ("jar-session", 200), ("jar-echo", 200), ("jar-refresh-1", 200), ("jar-refresh-2", 200), ("login-2", 201), ("forward-2", 201),
            ("jar-session-2", 200), ("old", 401), ("log-out", 204), ("after", 401)):
        case.same(str(status), found.get(name, errors)[:3], f"Java's HttpClient sends the request “{name}” → {status}")
    case.verdict("coatcheck/0/true" in found.get("held", "").split(","), "Java's CookieManager after a sign-in → keeps the session's cookie, unquoted", found.get("held"))
    case.same("true", found.get("renewed"), "Java's CookieManager, a second sign-in → the session's cookie is replaced")
    case.verdict("coatcheck/" not in found.get("left", "coatcheck/"), "Java's CookieManager, a log-out → the session's cookie is removed", found.get("left"))
    found, errors = apache.result()
    for name, status in (("relay-1", 200), ("relay-2", 200), ("introspect-utf8", 200), ("introspect", 200), ("relay-expect", 200), ("login", 201),
                         ("forward", 201), ("jar-session", 200)):
        case.same(str(status), found.get(name, errors)[:3], f"Apache's HttpClient sends the request “{name}” → {status}")
    case.verdict('"active":true' in found.get("introspect", "").replace(" ", ""), "Apache's HttpClient: introspection of a session → active")


async def aiohttp_calls(read, echo, cookie, pieces):
    """Returns the status of a read of the session, and the body length that the upstream got from a chunked POST."""
    import aiohttp

    async def chunks():
        for piece in pieces():
            yield piece

    async with aiohttp.ClientSession(headers=cookie, timeout=aiohttp.ClientTimeout(10)) as client:
        async with client.get(read) as answer, client.post(echo, data=chunks()) as posted:
            return answer.status, (await posted.json(content_type=None))["body_length"]


def pythons(case):
    """Python's clients, and curl with HTTP/1.0 and with an offer of HTTP/2."""
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

    case.same(200, urllib.request.urlopen(urllib.request.Request(read, headers=cookie), timeout=10).status, "Python's urllib, a read of the session → 200")
    case.same(3000, urllib_post(body)["body_length"], "Python's urllib, a relayed POST → the whole body arrives")
    case.same(3000, urllib_post(pieces())["body_length"], "Python's urllib, a relayed POST in chunks → the whole body arrives")
    with requests.Session() as jar:
        jar.cookies.set("coatcheck", session)
        case.same([200, 200], [jar.get(read, timeout=10).status_code for _ in range(2)], "Python's library requests, two reads of the session on one connection → 200")
        case.same([3000, 3000], [jar.post(echo, data=data, timeout=10).json()["body_length"] for data in (body, pieces())], "Python's library requests, a relayed POST with a length and one in chunks → each whole body arrives")
        case.same(200, jar.get(read, data=body, timeout=10).status_code, "Python's library requests, a read of the session with a body → 200")
    with httpx.Client(cookies={"coatcheck": session}) as jar:
        case.same([200, 3000], [jar.get(read).status_code, jar.post(echo, content=body).json()["body_length"]], "Python's httpx, a read of the session and a relayed POST → both succeed")
    case.same((200, 3000), asyncio.run(aiohttp_calls(read, echo, cookie, pieces)), "Python's aiohttp, a read of the session and a relayed POST in chunks → both succeed")
    case.verdict(b'"handle"' in curl("--http1.0", read), "curl --http1.0: a read of the session → the session object")
    case.same(3000, json.loads(curl("--http1.0", "--data-binary", body.decode(), echo))["body_length"], "curl --http1.0: a relayed POST → the whole body arrives")
    case.same(b"data: 0\n\ndata: 1\n\n", curl("--http1.0", "-N", broker.url + "/v1/relay/api/events/2"), "curl --http1.0: a relayed event stream → read to its end")
    case.verdict(curl("--http1.0", "-N", "-m", "1", broker.url + "/v1/session/events").startswith(b"event: session\n"), "curl --http1.0: the session's event stream → begins with the event `session`")
    case.verdict(b'"handle"' in curl("--http2", read), "curl --http2, which offers h2c, a read of the session → the session object")
    case.same(3000, json.loads(curl("--http2", "--data-binary", body.decode(), echo))["body_length"], "curl --http2, which offers h2c, a relayed POST → the whole body arrives")
    begin = time.monotonic()
    case.verdict(b'"handle"' in curl("-X", "GET", "-H", "Content-Length: 9", read) and time.monotonic() - begin < 5, "curl announces a body of 9 bytes for a read of the session, but sends none → the session object arrives within 5 s")


def jars(case):
    """The cookie jars of Python's clients, curl and wget."""
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
        case.same(str(status), found.get(name, done.stderr)[:3], f"Go's net/http sends the request “{name}” → {status}")
    for name in ("relay-post", "relay-chunked"):
        case.verdict('"body_length":3000,' in found.get(name, "").replace(" ", ""), f"Go's net/http sends the request “{name}” → the whole body arrives", found.get(name))
    case.same("200 data: 0||data: 1|", found.get("relay-events"), "Go's net/http, a relayed event stream → read to its end")
    case.verdict("coatcheck" in found.get("held", "").split(" ")[-1].split(","), "Go's cookie jar after a sign-in → keeps the session's cookie", found.get("held"))
    case.verdict("coatcheck" not in found.get("left", "coatcheck").split(" ")[-1].split(","), "Go's cookie jar, a log-out → the session's cookie is removed", found.get("left"))


CASES = {"java": (java_clients, 55), "pythons": (pythons, 50), "jars": (jars, 50), "go": (go, 50)}

if __name__ == "__main__":
    main(CASES, __doc__)
