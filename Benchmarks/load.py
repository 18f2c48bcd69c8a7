"""Makes load: wrk for single URLs, and whole logins over raw sockets."""

import asyncio
import http.cookies
import json
import re
import socket
import statistics
import subprocess
import time
import urllib.parse


class Target:
    """One URL to measure, and the server that answers it."""

    def __init__(self, name, title, server, path, headers=(), script=None, connections=32):
        self.connections = connections
        self.name, self.title, self.server = name, title, server
        self.url = f"http://127.0.0.1:{server.port}{path}"
        self.headers, self.script = list(headers), script
        self.runs = []  # of (requests per second, CPU microseconds per request, p50, p99 in ms)

    def arguments(self, seconds):
        arguments = ["wrk", "-t1", f"-c{self.connections}", f"-d{seconds}s", "--latency"]
        for header in self.headers:
            arguments += ["-H", header]
        if self.script:
            arguments += ["-s", self.script]
        return arguments + [self.url]

    def run(self, seconds, keep=True):
        before = self.server.cpu()
        output = subprocess.run(self.arguments(seconds), capture_output=True, text=True, check=True).stdout
        used = self.server.cpu() - before
        if "Non-2xx" in output or "Socket errors" in output:
            raise SystemExit(f"bench: {self.title} did not answer as it should:\n{output}")
        rate = float(re.search(r"Requests/sec:\s+([\d.]+)", output).group(1))
        total = int(re.search(r"(\d+) requests in", output).group(1))
        latency = [milliseconds(re.search(rf"(?m)^\s+{percent}%\s+(\S+)", output).group(1)) for percent in (50, 99)]
        if keep:
            self.runs.append((rate, used / max(total, 1) * 1e6, *latency))

    def median(self, column=0):
        return statistics.median(run[column] for run in self.runs)

    def ratio(self, peer):
        """Returns the median of the rounds' ratios. Results of the same round can be compared best."""
        return statistics.median(mine[0] / theirs[0] for mine, theirs in zip(self.runs, peer.runs))


def milliseconds(text):
    number, unit = re.fullmatch(r"([\d.]+)(us|ms|s|m)", text).groups()
    return float(number) * {"us": 0.001, "ms": 1, "s": 1000, "m": 60000}[unit]


class Connection:
    """A persistent HTTP/1.1 connection that implements only the necessary parts of the protocol."""

    def __init__(self, base):
        self.host = urllib.parse.urlsplit(base)
        self.reader = self.writer = None

    async def request(self, method, target, headers=None, body=None):
        if self.writer is None:
            self.reader, self.writer = await asyncio.open_connection(self.host.hostname, self.host.port)
        lines = [f"{method} {target} HTTP/1.1", f"Host: {self.host.netloc}"]
        lines += [f"{name}: {value}" for name, value in (headers or {}).items()]
        more, payload = framed(body)
        self.writer.write("\r\n".join(lines + more).encode() + b"\r\n\r\n" + payload)
        head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ", 2)[1])
        fields = [(name.lower(), value.strip()) for name, _, value in (line.partition(":") for line in head[1:]) if name]
        values = dict(fields)
        if method == "HEAD" or status in (204, 304):
            data = b""
        elif "content-length" in values:
            data = await self.reader.readexactly(int(values["content-length"]))
        elif values.get("transfer-encoding") == "chunked":
            data = b""
            while size := int(await self.reader.readline(), 16):
                data += await self.reader.readexactly(size)
                await self.reader.readexactly(2)
            await self.reader.readline()
        else:
            data = b""
        if values.get("connection", "").lower() == "close":
            self.close()
        return status, fields, data

    def close(self):
        if self.writer is not None:
            self.writer.close()
            self.reader = self.writer = None


def framed(body):
    """Returns a body's header fields and its bytes on the wire.

    A list is sent as chunks. Bytes and forms are sent unchanged. Any other value is sent as JSON."""
    if body is None:
        return [], b""
    if isinstance(body, list):
        chunks = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in body)
        return ["Content-Type: application/octet-stream", "Transfer-Encoding: chunked"], chunks + b"0\r\n\r\n"
    if isinstance(body, str):
        kind, payload = "x-www-form-urlencoded", body.encode()
    else:
        kind, payload = ("octet-stream", body) if isinstance(body, bytes) else ("json", json.dumps(body).encode())
    return [f"Content-Type: application/{kind}", f"Content-Length: {len(payload)}"], payload


def cookies(fields):
    jar = {}
    for name, value in fields:
        if name == "set-cookie":
            jar.update({key: morsel.value for key, morsel in http.cookies.SimpleCookie(value).items()})
    return "; ".join(f"{key}={value}" for key, value in jar.items())


async def start_login(broker, sandbox, user):
    """Starts a login and signs `user` in at the sandbox; returns the URL of the callback, and the app's cookie."""
    status, fields, data = await broker.request("POST", "/v1/logins", body={"provider": "oidc", "client": "ios"})
    if status != 201:
        raise SystemExit(f"bench: a login could not be started: {status} {data!r}")
    url = urllib.parse.urlsplit(json.loads(data)["authorization_url"])
    status, answer, data = await sandbox.request("GET", f"{url.path}?{url.query}&sandbox_user={user}")
    callback = dict(answer).get("location")
    if not callback:
        raise SystemExit(f"bench: the sandbox gave no code: {status} {data!r}")
    return callback, cookies(fields)


async def forward(broker, callback, cookie):
    status, fields, data = await broker.request(
        "POST", "/v1/sessions", {"Cookie": cookie}, {"callback_url": callback})
    if status != 201:
        raise SystemExit(f"bench: a code was not taken: {status} {data!r}")
    return cookies(fields)


async def in_flight(count, places, broker_url, sandbox_url, work):
    """Runs `work(index, broker, sandbox)` for 0..<count, at most `places` at a time. Returns the results."""
    results, indices = [None] * count, iter(range(count))

    async def worker():
        broker, sandbox = Connection(broker_url), Connection(sandbox_url)
        for index in indices:
            results[index] = await work(index, broker, sandbox)
        broker.close()
        sandbox.close()

    await asyncio.gather(*(worker() for _ in range(places)))
    return results


def sign_in(broker_url, sandbox_url, user="ana"):
    """Makes one session and returns its cookie."""

    async def work():
        broker, sandbox = Connection(broker_url), Connection(sandbox_url)
        return session_cookie(await forward(broker, *await start_login(broker, sandbox, user)))

    return asyncio.run(work())


class Forwards:
    """A batch of codes that wait to be forwarded."""

    def __init__(self, count, broker_url, sandbox_url, prefix):
        self.urls = broker_url, sandbox_url
        self.pending = asyncio.run(
            in_flight(count, 32, *self.urls, lambda index, b, s: start_login(b, s, f"{prefix}{index}")))

    def run(self, places=64):
        """Forwards all codes. Returns the time in seconds."""
        begin = time.monotonic()
        self.run_for_cookies(places)
        return time.monotonic() - begin

    def run_for_cookies(self, places=64):
        """Forwards all codes. Returns the sessions' cookies."""
        return [session_cookie(cookie) for cookie in asyncio.run(
            in_flight(len(self.pending), places, *self.urls, lambda index, b, s: forward(b, *self.pending[index])))]


def session_cookie(cookie):
    """Returns the cookies without the login's cookie."""
    return "; ".join(part for part in cookie.split("; ") if "login" not in part)


def touch(cookies_of_sessions, broker_url, backend):
    """Checks every session once, with 32 checks at a time. Ends the run if a session is not live."""

    async def work(index, broker, _):
        headers = {"Cookie": cookies_of_sessions[index], "X-Coatcheck-Backend": backend}
        status, _, data = await broker.request("GET", "/v1/forward-auth", headers)
        if status != 200:
            raise SystemExit(f"bench: a session is not live: {status} {data!r}")

    asyncio.run(in_flight(len(cookies_of_sessions), 32, broker_url, broker_url, work))


class Listeners:
    """Some open event streams. Each has already received its first event."""

    def __init__(self, cookies_of_sessions, broker_url):
        self.cookies, self.base, self.sockets = cookies_of_sessions, urllib.parse.urlsplit(broker_url), []

    @property
    def count(self):
        return len(self.sockets)

    def __enter__(self):
        for cookie in self.cookies:
            connection = socket.create_connection((self.base.hostname, self.base.port), 10)
            connection.sendall(
                f"GET /v1/session/events HTTP/1.1\r\nHost: {self.base.netloc}\r\nCookie: {cookie}\r\n"
                "Accept: text/event-stream\r\n\r\n".encode())
            self.sockets.append(connection)
        for connection in self.sockets:
            data = b""
            while b"event: session" not in data:
                part = connection.recv(4096)
                if not part:
                    raise SystemExit(f"bench: an event stream ended: {data!r}")
                data += part
        return self

    def __exit__(self, *_):
        for connection in self.sockets:
            connection.close()
