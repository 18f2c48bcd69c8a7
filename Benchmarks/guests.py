"""Makes the soak's load. Each guest has a session and does random acts. Each stranger signs in, makes a call and logs out."""

import asyncio
import collections
import hashlib
import json
import random
import urllib.parse

import load

RELAY = "/v1/relay/api"
KIB, MIB = 1024, 1024 * 1024


class Tally:
    """Counts the acts, and every unexpected answer."""

    def __init__(self):
        self.done = collections.Counter()
        self.wrong = collections.Counter()
        self.examples = {}

    def expect(self, holds, kind, status, body=b""):
        if not holds:
            name = f"{kind}: {status}"
            self.wrong[name] += 1
            self.examples.setdefault(name, body[:300])

    @property
    def total(self):
        return sum(self.done.values())


class Guest:
    """A guest: one session on one kept connection."""

    def __init__(self, env, tally, dice, name):
        self.broker, self.sandbox = env["BROKER"], env["SANDBOX"]
        self.backend = env["BACKEND_TOKEN"]
        self.tally, self.dice, self.name = tally, dice, name
        self.connection = load.Connection(self.broker)
        self.cookie = None

    async def sign_in(self):
        sandbox = load.Connection(self.sandbox)
        started = await load.start_login(self.connection, sandbox, self.name)
        self.cookie = load.session_cookie(await load.forward(self.connection, *started))
        sandbox.close()

    async def visit(self, until):
        """Does one act after the other until the time is over."""
        kinds = {
            self.read: 40, self.ask: 10, self.look: 6, self.empty: 6, self.upload: 10, self.upload_in_chunks: 4,
            self.download: 10, self.download_in_chunks: 4, self.hang_up_waiting: 3, self.hang_up_reading: 3,
            self.hang_up_sending: 3, self.refused: 0.2, self.refresh: 0.2,
        }
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            kind, = self.dice.choices(list(kinds), kinds.values())
            await self.attempt(kind)
        self.connection.close()

    async def attempt(self, kind):
        name = kind.__name__.replace("_", " ")
        try:
            await asyncio.wait_for(kind(name), 60)
        except (OSError, EOFError, asyncio.TimeoutError, ValueError) as error:
            self.tally.expect(False, name, type(error).__name__, str(error).encode())
            self.connection.close()
        self.tally.done[name] += 1

    async def request(self, kind, method, target, expected=200, headers=None, body=None, source=None):
        """Sends one request, and returns the answer's body. Counts the answer if it is unexpected."""
        fields = {"Cookie": self.cookie, **(headers or {})}
        status, answer, data = await self.connection.request(method, target, fields, body)
        holds = status == expected and (source is None or dict(answer).get("coatcheck-source") == source)
        self.tally.expect(holds, kind, status, data)
        return data if holds else b""

    async def relay(self, kind, method, path, expected=200, headers=None, body=None):
        return await self.request(kind, method, f"{RELAY}{path}", expected, headers, body, "upstream")

    # -- calls that are answered

    async def read(self, kind):
        await self.relay(kind, "GET", f"/private/echo?n={self.dice.randrange(1000)}")

    async def ask(self, kind):
        await self.request(kind, "GET", "/v1/forward-auth", headers={"X-Coatcheck-Backend": self.backend})

    async def look(self, kind):
        await self.request(kind, "GET", "/v1/session")

    async def empty(self, kind):
        method, path, expected = self.dice.choice(
            [("GET", "/private/status/204", 204), ("GET", "/private/status/304", 304), ("HEAD", "/private/echo", 200)])
        await self.relay(kind, method, path, expected)

    async def upload(self, kind):
        body = self.bytes(MIB)
        data = await self.relay(kind, "POST", "/private/echo", body=body)
        self.compare(kind, data, body)

    async def upload_in_chunks(self, kind):
        body = self.bytes(256 * KIB)
        parts = [body[start:start + 16 * KIB] for start in range(0, len(body), 16 * KIB)]
        data = await self.relay(kind, "POST", "/private/echo", body=parts)
        self.compare(kind, data, body)

    def compare(self, kind, data, body):
        """Counts a failure if the upstream received another body, according to its echo `data`. An empty `data` is skipped."""
        if data:
            echo = json.loads(data)
            self.tally.expect(echo["body_sha256"] == hashlib.sha256(body).hexdigest(), kind, "another body", data)

    async def download(self, kind):
        size = self.dice.choice([4 * KIB, 64 * KIB, MIB, 4 * MIB])
        data = await self.relay(kind, "GET", f"/private/bytes/{size}")
        self.tally.expect(len(data) in (0, size), kind, "another length")

    async def download_in_chunks(self, kind):
        data = await self.relay(kind, "GET", "/private/chunked/2000")
        self.tally.expect(len(data) in (0, 20000), kind, "another length")

    async def refused(self, kind):
        """Calls an upstream that answers 401 even after the refresh that this 401 caused."""
        await self.relay(kind, "GET", "/401-always", 401)

    async def refresh(self, kind):
        await self.request(kind, "POST", "/v1/session/refresh")

    def bytes(self, most):
        return self.dice.randbytes(self.dice.choice([100, most // 16, most // 4, most]))

    # -- calls whose client goes away

    async def hang_up_waiting(self, _):
        writer = await self.begin("GET", "/private/slow?ms=3000")
        await asyncio.sleep(self.dice.uniform(0, 0.3))
        self.leave(writer)

    async def hang_up_reading(self, _):
        writer = await self.begin("GET", f"/private/bytes/{32 * MIB}")
        await self.reader.read(64 * KIB)
        self.leave(writer)

    async def hang_up_sending(self, _):
        writer = await self.begin("POST", "/private/echo", f"Content-Length: {4 * MIB}\r\n")
        writer.write(self.bytes(256 * KIB))
        await asyncio.sleep(self.dice.uniform(0, 0.1))
        self.leave(writer)

    async def begin(self, method, path, more=""):
        host = urllib.parse.urlsplit(self.broker)
        self.reader, writer = await asyncio.open_connection(host.hostname, host.port)
        writer.write(
            f"{method} {RELAY}{path} HTTP/1.1\r\nHost: {host.netloc}\r\nCookie: {self.cookie}\r\n{more}\r\n".encode())
        return writer

    def leave(self, writer):
        """Closes the connection with or without a reset."""
        writer.close() if self.dice.random() < 0.5 else writer.transport.abort()

    # -- listening

    async def listen(self, until):
        """Opens event streams one after the other, and closes each after a while."""
        loop = asyncio.get_running_loop()
        while loop.time() < until:
            await self.attempt(self.events)

    async def events(self, kind):
        host = urllib.parse.urlsplit(self.broker)
        reader, writer = await asyncio.open_connection(host.hostname, host.port)
        writer.write(
            f"GET /v1/session/events HTTP/1.1\r\nHost: {host.netloc}\r\nCookie: {self.cookie}\r\n\r\n".encode())
        try:
            head = await asyncio.wait_for(reader.readuntil(b"event: session\n"), 20)
            self.tally.expect(head.startswith(b"HTTP/1.1 200"), kind, head[9:12].decode(), head)
            await asyncio.sleep(self.dice.uniform(0, 8))
        finally:
            self.leave(writer)


async def strangers(env, tally, dice, until):
    """A stranger signs in, calls an API that refuses the first token, and logs out. Then the next stranger begins."""
    loop = asyncio.get_running_loop()
    number = 0
    while loop.time() < until:
        number += 1
        guest = Guest(env, tally, dice, f"stranger{number}")

        async def stranger(kind):
            await guest.sign_in()
            await guest.relay(kind, "GET", "/401-until-refreshed")
            await guest.request(kind, "DELETE", "/v1/session", 204)
            await guest.request(kind, "GET", "/v1/session", 401)

        await guest.attempt(stranger)
        guest.connection.close()
        await asyncio.sleep(0.2)
