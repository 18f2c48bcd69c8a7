"""The resources that a stranger can make the broker use (SEC-102, SEC-105): resident memory (from /proc), descriptors,
processor time, an upstream's places.

Every case has its own broker, and so its own memory: at rest, and the highest during the case. The brokers have an https
`public_url`, because with a loopback one, limits would spare loopback clients. Each flood is bounded in bytes and time, and
stops when the broker has used 400 MiB more than at rest. The limits are those of a release build.
"""

import concurrent.futures
import http.server
import os
import pathlib
import resource
import select
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker as PlainBroker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.measures import MIB  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.wire import answers, read_all  # noqa: E402

NAME = "auth.example.test"
ALLOWED = 32 * MIB
GIVE_UP = 400 * MIB


# ---- an upstream -----------------------------------------------------------------------------------------------------


# Bytes that contain their own position, so that a lost or doubled piece is noticed.
PATTERN = b"".join(b"%011d\n" % line for line in range(8 * MIB // 12 + 1))


def pattern(count):
    return PATTERN[:count]


class App(http.server.BaseHTTPRequestHandler):
    """The API behind the relay: answers of every framing, at once or late, and early answers to uploads."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def do_GET(self):
        self.server.seen.append(f"{self.command} {self.path}")
        _, kind, amount = self.path.split("/")
        if kind == "later":
            time.sleep(float(amount))
        body = pattern(int(amount)) if kind in ("bytes", "unknown") else b"done"
        self.send_response(200)
        if kind == "unknown":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(body), 8192):
                piece = body[start : start + 8192]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def do_POST(self):
        self.server.seen.append(f"{self.command} {self.path}")
        _, kind, amount = self.path.split("/")
        if kind == "refuse":
            # The answer comes before the body was read, so its end does not wait for the body.
            self.send_response(413)
            self.send_header("Content-Length", amount)
            self.end_headers()
            self.wfile.write(pattern(int(amount)))
            self.wfile.flush()
            self.connection.settimeout(30)
            while self.rfile.read1(65536):
                pass
            self.close_connection = True
            return
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            left -= len(self.rfile.read(min(left, 65536)) or b"x" * left)
        if kind == "later":
            time.sleep(float(amount))
        self.send_response(201)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"taken")


class Upstream(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), App)
        self.seen = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass


# ---- a broker --------------------------------------------------------------------------------------------------------


class Broker(PlainBroker):
    """A broker in front of its own upstream, with measurements of its memory."""

    def __init__(self, case, title, trusted=(), cache="5s", places=1024, descriptors=None):
        self.title, self.upstream = title, Upstream()
        case.sandbox = getattr(case, "sandbox", None) or Sandbox(case)
        super().__init__(
            case, case.sandbox, name="".join(c if c.isalnum() else "-" for c in title),
            prefix=["prlimit", f"--nofile={descriptors}"] if descriptors else [],
            settings={
                "server": {"public_url": f"https://{NAME}", "trusted_proxies": list(trusted)}, "session": {"cache": cache},
                "upstreams": {"app": {
                    "base_url": self.upstream.url, "provider": "oidc", "max_concurrent": places,
                    "allow": ["GET /bytes/*", "GET /unknown/*", "GET /later/*", "POST /taken/*", "POST /later/*", "POST /refuse/*"]}}})
        self.lowest = self.highest = self.resident()
        self.watching = True
        threading.Thread(target=self.watch, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watching = False
        died = self.process.poll() is not None
        self.stop()
        self.upstream.shutdown()
        self.upstream.server_close()
        if died:
            self.case.verdict(False, f"{self.title}, end of the case → the broker still runs")

    # -- memory and time

    def watch(self):
        while self.watching:
            self.highest = max(self.highest, self.resident())
            time.sleep(0.02)

    def rest(self):
        """Begins to measure: the memory that is resident now counts as rest."""
        for path in ("/v1/providers", "/openapi.yaml", "/nothing"):
            self.ask("GET", path)
        time.sleep(0.3)
        self.lowest = self.highest = self.resident()

    @property
    def is_swollen(self):
        return self.highest - self.lowest > GIVE_UP

    def within(self, name, note=""):
        """Prints the measured values, and whether they are low enough."""
        self.highest = max(self.highest, self.resident())
        before, peak = self.lowest / MIB, self.highest / MIB
        self.case.say(f"{name}: {before:.0f} → {peak:.0f} MiB{' (' + note + ')' if note else ''}")
        self.case.verdict(
            self.highest - self.lowest <= ALLOWED, f"{name}, resident memory → stays within 32 MiB of rest",
            f"{before:.1f} → {peak:.1f} MiB")

    def processor_time(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # -- requests

    def connect(self, source=None, slow=False, seconds=10):
        end = socket.socket()
        if slow:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        if source:
            end.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
            end.bind((source, 0))
        end.settimeout(seconds)
        end.connect(("127.0.0.1", self.port))
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return end

    def ask(self, method, path, *fields, body=b"", source=None, seconds=10):
        """Makes one call on its own connection: (status, fields, body), or status 0 and the reason."""
        try:
            end = self.connect(source, seconds=seconds)
            with end:
                end.sendall(head(f"{method} {path}", "Connection: close", *fields, length=len(body)) + body)
                found = answers(read_all(end, seconds)[0])
                return found[0] if found else (0, {}, b"no answer")
        except OSError as error:
            return 0, {}, str(error).encode()

    def sign_in(self, user="ana"):
        """Signs a user in and returns the field that holds the session."""
        return "Authorization: Bearer " + super().sign_in(user, client="android")


def head(line, *fields, length=0, version="HTTP/1.1", host=NAME):
    text = [f"{line} {version}", f"Host: {host}", *fields] + ([f"Content-Length: {length}"] if length else [])
    return ("\r\n".join(text) + "\r\n\r\n").encode()


def wait(end, events, milliseconds):
    """Waits for a socket; `select` knows only the first 1,024 descriptors."""
    poll = select.poll()
    poll.register(end, events)
    found = poll.poll(milliseconds)
    return found[0][1] if found else 0


def flood(broker, end, piece, total, seconds=8, stall=2.5, reads=False):
    """Sends `piece` repeatedly, as fast as possible, up to `total` bytes, also after the other side has ended. Returns the
    number of accepted bytes, the answer (if it `reads`), and the reason for its end:
    - `all` or `time`
    - `stalled`: no byte was accepted for a while, and the broker was idle
    - `closed`
    - `swollen`: the broker has used far too much memory
    """
    end.setblocking(False)
    sent, got = 0, bytearray()
    begin = moved = time.monotonic()
    worked = broker.processor_time()
    while True:
        now = time.monotonic()
        if now - moved > stall and broker.processor_time() - worked > stall / 10:
            moved, worked = now, broker.processor_time()
        why = (
            "all" if sent >= total else "time" if now - begin > seconds else "stalled" if now - moved > stall
            else "swollen" if broker.is_swollen else None)
        if why:
            return sent, bytes(got), why
        events = wait(end, select.POLLOUT | (select.POLLIN if reads else 0), 100)
        try:
            if reads and events & (select.POLLIN | select.POLLHUP):
                part = end.recv(1 << 16)
                reads = bool(part)
                got += part
            if events & ~select.POLLIN:
                offset = sent % len(piece)
                sent += end.send(memoryview(piece)[offset : offset + (1 << 18)])
                moved, worked = now, broker.processor_time()
        except BlockingIOError:
            pass
        except OSError:
            return sent, bytes(got), "closed"


def is_open(end):
    """Whether the other side is still open and silent."""
    return not wait(end, select.POLLIN, 0)


def settled(ends, seconds=20):
    """The number of connections that stay open: once it has been the same for a second, or after `seconds`."""
    count, since, last = -1, 0.0, time.monotonic() + seconds
    while (now := time.monotonic()) < last:
        found = sum(map(is_open, ends))
        if found != count:
            count, since = found, now
        elif now - since >= 1:
            break
        time.sleep(0.1)
    return count


# ---- (a) pipelined requests, unread ----------------------------------------------------------------------------------


def pipelined(name, path, status, with_session=False):
    def run(case):
        with Broker(case, name) as broker:
            fields = [broker.sign_in()] if with_session else []
            broker.rest()
            request = head(f"GET {path}", *fields)
            with broker.connect("127.0.0.9", slow=True) as end:
                sent, _, why = flood(broker, end, request * 1000, len(request) * 100_000, seconds=25)
                time.sleep(0.5)
                served, *_ = broker.ask("GET", "/v1/providers", source="127.0.0.10")
                case.verdict(served == 200, f"{name}, another client meanwhile → served", served)
                broker.within(name, f"{sent // len(request)} requests taken, then {why}")
                end.settimeout(10)
                start = end.recv(64)
                case.verdict(start.startswith(b"HTTP/1.1 %d " % status), f"{name}, the unread answers → begin with the expected status", start)

    return run


# ---- (b) what follows an upgrade or CONNECT --------------------------------------------------------------------------


def upgraded(name, line, status, *fields, with_session=False, host=NAME, stays=False, body=b""):
    """Floods after a request for another protocol; the request right after it must not be served.

    `stays` marks an answer that goes on (an event stream).
    """

    def run(case):
        with Broker(case, name) as broker:
            session = broker.sign_in()
            broker.rest()
            own = [session] if with_session else []
            request = head(line, *own, *fields, length=len(body), host=host) + body
            behind = head("DELETE /v1/session", session)
            junk = head("GET /nothing") * 4096
            with broker.connect("127.0.0.9") as end:
                end.sendall(request + behind)
                sent, got, why = flood(broker, end, junk, 256 * MIB, reads=True)
                time.sleep(0.3)
                broker.within(name, f"{sent // MIB} MiB taken, then {why}")
                more, _ = read_all(end, 0.5) if why != "closed" else (b"", "")
                found = [(0, {}, got + more)] if stays else answers(got + more)
            if stays:
                top = (got + more).partition(b"\r\n\r\n")[0].lower()
                case.verdict(
                    top.startswith(b"http/1.1 %d " % status) and b"\r\nconnection: close" in top,
                    f"{name}, an event stream's request → {status} over HTTP/1.1 with `Connection: close`", top[:300])
                case.verdict((got + more).count(b"HTTP/1.1 ") == 1, f"{name}, the requests behind an event stream's request → unanswered")
            else:
                case.verdict(
                    [answer[0] for answer in found] == [status] and found[0][1].get("connection") == "close",
                    f"{name}, the first request → {status} alone, with `Connection: close`",
                    [(answer[0], answer[1].get("connection")) for answer in found][:4])
            alive, *_ = broker.ask("GET", "/v1/session", session)
            case.verdict(alive == 200, f"{name}, the log-out behind the first request → not carried out", alive)

    return run


H2C = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA"]


# ---- (c) slow readers of closing answers -----------------------------------------------------------------------------


def read_slowly(end, rate=16 * 1024, seconds=90):
    """Reads this number of bytes a second to the end."""
    data, begin = bytearray(), time.monotonic()
    end.settimeout(seconds)
    while time.monotonic() - begin < seconds:
        try:
            part = end.recv(rate // 16)
        except OSError as error:
            return bytes(data), "open" if isinstance(error, TimeoutError) else "reset"
        if not part:
            return bytes(data), "fin"
        data += part
        time.sleep(max(0, begin + len(data) / rate - time.monotonic()))
    return bytes(data), "open"


def slow_readers(case):
    name = "slow readers"
    size = 800_000
    with Broker(case, name) as broker:
        session = broker.sign_in()
        broker.ask("GET", f"/v1/relay/app/bytes/{size}", session)
        contract = broker.ask("GET", "/openapi.yaml")[2]
        broker.rest()

        def reader(what, request, status, expected, upload=0, rate=16 * 1024):
            with broker.connect("127.0.0.9", slow=True) as end:
                end.sendall(request)
                if upload:
                    # A client that writes for a while before it reads the answer.
                    flood(broker, end, b"x" * 4096, upload, seconds=2, stall=1)
                    end.setblocking(True)
                data, how = read_slowly(end, rate)
            found = answers(data)
            body = found[0][2] if found else b""
            if expected is None:
                expected = body if found and len(body) == int(found[0][1].get("content-length", -1)) else b"whole"
            case.verdict(
                len(found) == 1 and found[0][0] == status and body == expected,
                f"{name}, {what} → arrives whole, byte for byte",
                f"{[answer[0] for answer in found]}, {len(body)} of {len(expected)} bytes, ended by {how}")

        relayed = "GET /v1/relay/app"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [
                pool.submit(
                    reader, "the contract with Connection: close", head("GET /openapi.yaml", "Connection: close"), 200, contract),
                pool.submit(
                    reader, "a relayed answer of known length with Connection: close",
                    head(f"{relayed}/bytes/{size}", session, "Connection: close"), 200, pattern(size)),
                pool.submit(
                    reader, "a relayed answer of unknown length with Connection: close",
                    head(f"{relayed}/unknown/{size}", session, "Connection: close"), 200, pattern(size)),
                pool.submit(
                    reader, "a relayed answer of unknown length to HTTP/1.0",
                    head(f"{relayed}/unknown/{size}", session, version="HTTP/1.0"), 200, pattern(size)),
                pool.submit(
                    reader, "a relayed answer of known length to HTTP/1.0",
                    head(f"{relayed}/bytes/{size}", session, version="HTTP/1.0"), 200, pattern(size)),
                pool.submit(
                    reader, "the answer to an upload that is too large",
                    head("POST /v1/logins", "Content-Type: application/json", length=64 * MIB), 413, None, 4 * MIB, 64),
                pool.submit(
                    reader, "the upstream's answer to an upload that it did not read",
                    head(f"POST /v1/relay/app/refuse/{size}", session, length=64 * MIB), 413, pattern(size), 4 * MIB),
            ]
            for job in jobs:
                job.result()
        broker.within(name)


def cut_answers(case):
    """Unread answers are cut after the write deadline, and each of them looks incomplete."""
    name = "unread answers"
    size = 8 * MIB
    with Broker(case, name) as broker:
        session = broker.sign_in()
        broker.ask("GET", f"/v1/relay/app/bytes/{size}", session)
        broker.rest()
        requests = {
            "HTTP/1.0, unknown length": head(f"GET /v1/relay/app/unknown/{size}", session, version="HTTP/1.0"),
            "HTTP/1.0, known length": head(f"GET /v1/relay/app/bytes/{size}", session, version="HTTP/1.0"),
            "HTTP/1.1, chunked, closing": head(f"GET /v1/relay/app/unknown/{size}", session, "Connection: close"),
            "HTTP/1.1, known length, closing": head(f"GET /v1/relay/app/bytes/{size}", session, "Connection: close"),
            "HTTP/1.1, known length": head(f"GET /v1/relay/app/bytes/{size}", session),
        }
        ends = {}
        for what, request in requests.items():
            ends[what] = broker.connect("127.0.0.9", slow=True)
            ends[what].sendall(request)
        time.sleep(72)
        broker.within(name)
        for what, end in ends.items():
            with end:
                data, how = read_all(end, 15)
            found = answers(data)
            body = found[0][2] if found else b""
            tells = how == "reset" or (
                how == "fin" and bool(found) and (
                    "cut" in found[0][1] or len(body) < int(found[0][1].get("content-length", 0))))
            case.verdict(
                tells and len(body) < size, f"{name}, {what} → the client sees that the answer was cut",
                f"{len(body)} of {size} bytes, ended by {how}")


# ---- (d) idle connections --------------------------------------------------------------------------------------------


def idle(case):
    name = "3,000 idle connections"
    with Broker(case, name) as broker:
        broker.rest()
        ends = []
        try:
            for index in range(3000):
                ends.append(broker.connect(f"127.0.0.{2 + index % 30}"))
            time.sleep(2)
            begin = time.monotonic()
            served, *_ = broker.ask("GET", "/v1/providers", source="127.0.0.40")
            case.verdict(served == 200 and time.monotonic() - begin < 5, f"{name}, another client → served within 5 s", served)
            case.verdict(all(is_open(end) for end in ends), f"{name} → all are kept", sum(map(is_open, ends)))
            broker.within(name)
        finally:
            for end in ends:
                end.close()


# ---- (e) a hostile upload set on a small upstream --------------------------------------------------------------------


def hostile_uploads(case):
    name = "slow uploads and downloads at a small upstream"
    with Broker(case, name, places=8) as broker:
        hostile, second, other = broker.sign_in("bob"), broker.sign_in("bob"), broker.sign_in("ana")
        broker.ask("GET", "/v1/relay/app/bytes/1000", other)
        broker.rest()
        ends, streamed = [], []
        for session in (hostile, second):
            for index in range(12):
                held = broker.connect("127.0.0.9")
                held.sendall(head("POST /v1/relay/app/taken/1", session, length=60_000))
                stream = broker.connect("127.0.0.9")
                stream.sendall(head("POST /v1/relay/app/taken/1", session, length=10 * MIB) + b"x" * 100)
                reader = broker.connect("127.0.0.9", slow=True)
                reader.sendall(head(f"GET /v1/relay/app/bytes/{8 * MIB}", session))
                ends += [held, stream, reader]
                streamed.append(stream)
        begin, seen, worst = time.monotonic(), [], 0.0
        while time.monotonic() - begin < 50:
            for end in ends:
                try:
                    end.send(b"x")
                except OSError:
                    pass
            started = time.monotonic()
            seen.append(broker.ask("GET", "/v1/relay/app/bytes/1000", other, source="127.0.0.10")[0])
            worst = max(worst, time.monotonic() - started)
            time.sleep(1)
        good = seen.count(200)
        case.say(f"{name}: {good} of {len(seen)} calls of another user answered, the slowest in {worst:.2f} s")
        case.verdict(good == len(seen), f"{name}, another user's calls meanwhile → all are 200", seen)
        alive = sum(map(is_open, streamed))
        case.verdict(alive == 0, f"{name}, uploads below 1 KiB/s → ended", f"{alive} of {len(streamed)} go on")
        broker.within(name)
        for end in ends:
            end.close()


# ---- (f) bodies that lack their last byte ----------------------------------------------------------------------------


def withheld(broker, count, source, lift=None):
    """Opens connections that each send a body without its last byte.

    Returns how many are open and unanswered, were answered 429 and closed, or ended without an answer.
    """
    body = b'{"provider":"' + b"x" * (64 * 1024 - 13)
    ends = []
    kept = None
    if lift:
        kept = broker.connect(source)
        kept.sendall(head("GET /v1/session", lift))
        kept.recv(65536)
    for _ in range(count - (1 if lift else 0)):
        try:
            end = broker.connect(source)
            ends.append(end)
            end.sendall(head("POST /v1/logins", "Content-Type: application/json", length=len(body)) + body[:-1])
        except OSError:
            pass
        if broker.is_swollen:
            break
    settled(ends)
    waiting, refused, ended = [], 0, 0
    for end in ends:
        if is_open(end):
            waiting.append(end)
            continue
        data, how = read_all(end, 2)
        found = answers(data)
        if found and found[0][0] == 429 and how != "open":
            refused += 1
        else:
            ended += 1
        end.close()
    return waiting, refused, ended, kept


def last_byte(case):
    name = "512 bodies of one address without their last byte"
    with Broker(case, name) as broker:
        session = broker.sign_in()
        broker.rest()
        waiting, refused, ended, kept = withheld(broker, 512, "127.0.0.50", session)
        served, *_ = broker.ask("GET", "/v1/providers", source="127.0.0.51")
        case.say(f"{name}: {len(waiting)} wait, {refused} answered 429, {ended} ended unanswered")
        case.verdict(
            64 <= len(waiting) <= 128, f"{name} → the first 8 MiB are kept, and no more", f"{len(waiting)} connections")
        case.verdict(refused + len(waiting) == 511, f"{name}, the newest connections → 429, and closed", f"{refused} of {511}")
        case.verdict(served == 200, f"{name}, another address → served", served)
        broker.within(name)
        done = 0
        for end in waiting[:8]:
            end.sendall(b"}")
            found = answers(read_all(end, 3)[0])
            done += bool(found) and found[0][0] not in (0, 429)
        case.verdict(done == len(waiting[:8]), f"{name}, the first bodies once they are whole → answered", done)
        for end in waiting + [kept]:
            end.close()

    name = "200 connections of an address without a session"
    with Broker(case, name) as broker:
        broker.rest()
        ends = [broker.connect("127.0.0.50") for _ in range(200)]
        alive = settled(ends)
        case.verdict(alive == 128, f"{name} → 128 are kept", f"{alive} of 200")
        for end in ends:
            end.close()

    name = "a trusted proxy"
    with Broker(case, name, trusted=["127.0.0.60"]) as broker:
        waiting, refused, ended, _ = withheld(broker, 600, "127.0.0.60")
        case.verdict(
            len(waiting) == 600, f"{name}, 600 connections with 64 KiB each → kept",
            f"{len(waiting)} wait, {refused} answered 429, {ended} ended")
        for end in waiting:
            end.close()


def user_bodies(case):
    name = "640 bodies of one user without their last byte, from eight addresses"
    with Broker(case, name) as broker:
        session, second, other = broker.sign_in(), broker.sign_in(), broker.sign_in("bob")
        broker.ask("POST", "/v1/relay/app/taken/1", other, body=b"x" * 1000)
        broker.rest()
        body = b"x" * 65_535
        ends = []
        for index in range(640):
            end = broker.connect(f"127.0.0.{70 + index % 8}")
            ends.append(end)
            try:
                end.sendall(head("POST /v1/relay/app/taken/1", session if index % 2 else second, length=65_536) + body)
            except OSError:
                pass
        settled(ends)
        waiting = [end for end in ends if is_open(end)]
        refused = sum(answers(read_all(end, 2)[0])[:1] != [] for end in ends if end not in waiting)
        case.say(f"{name}: {len(waiting)} wait, {refused} were answered")
        case.verdict(len(waiting) == 128, f"{name} → 8 MiB are kept, and no more", f"{len(waiting)} wait")
        case.verdict(refused == 640 - len(waiting), f"{name}, all bodies beyond 8 MiB → answered", refused)
        broker.within(name)
        served, *_ = broker.ask("POST", "/v1/relay/app/taken/1", other, body=b"x" * 60_000, source="127.0.0.70")
        case.verdict(served == 201, f"{name}, another user at the same address → served", served)
        for end in waiting[:4]:
            end.sendall(b"y")
        done = [answers(read_all(end, 5)[0])[:1] for end in waiting[:4]]
        case.verdict(all(found and found[0][0] == 201 for found in done), f"{name}, the kept bodies once they are whole → answered", done)
        for end in ends:
            end.close()


def own_bodies(case):
    name = "640 bodies of one user to the broker itself without their last byte, from eight addresses"
    with Broker(case, name) as broker:
        session, second, other = broker.sign_in(), broker.sign_in(), broker.sign_in("bob")
        broker.rest()
        fields = ["Content-Type: application/json"]
        ends = []
        for index in range(640):
            end = broker.connect(f"127.0.0.{70 + index % 8}")
            ends.append(end)
            try:
                own = session if index % 2 else second
                end.sendall(head("POST /v1/session/children", own, *fields, length=65_536) + b"{" + b" " * 65_534)
            except OSError:
                pass
        settled(ends)
        waiting = [end for end in ends if is_open(end)]
        refused = sum(found[:1] != [] and found[0][0] == 429 for found in (answers(read_all(end, 2)[0]) for end in ends if end not in waiting))
        case.say(f"{name}: {len(waiting)} wait, {refused} were answered 429")
        case.verdict(len(waiting) == 128, f"{name} → 8 MiB are kept, and no more", f"{len(waiting)} wait")
        case.verdict(refused == 640 - len(waiting), f"{name}, all bodies beyond 8 MiB → 429", refused)
        broker.within(name)
        served, *_ = broker.ask("POST", "/v1/session/children", other, *fields, body=b"{}", source="127.0.0.70")
        case.verdict(served in (400, 403), f"{name}, another user at the same address → served", served)
        for end in waiting[:4]:
            end.sendall(b"}")
        done = [answers(read_all(end, 5)[0])[:1] for end in waiting[:4]]
        case.verdict(
            all(found and found[0][0] in (400, 403) for found in done), f"{name}, the kept bodies once they are whole → answered", done)
        for end in ends:
            end.close()


# ---- (g) behind an answer that says close, and half-closed clients ---------------------------------------------------


def endings(case):
    name = "an answer with Connection: close"
    # A smaller body is read completely with its head, and another request may follow.
    large = b"1" * 20_000
    with Broker(case, name, cache="off") as broker:
        first = {
            "a refused relay call with a body": lambda own: head("POST /v1/relay/app/none/1", own, length=20_000) + large,
            "a refused relay path with a body": lambda own: head("POST /v1/relay/app/a;b", own, length=20_000) + large,
            "a slow relayed call with Connection: close": lambda own: head("GET /v1/relay/app/later/1", own, "Connection: close"),
            "a broker call with Connection: close": lambda own: head("GET /v1/session", own, "Connection: close"),
            "a request of HTTP/1.0": lambda own: head("GET /v1/session", own, version="HTTP/1.0"),
        }
        session = broker.sign_in()
        for what, build in first.items():
            # The following bytes may be parsed before or after the answer is made, so several tries are needed.
            for _ in range(8 if what.startswith("a refused") else 2):
                broker.upstream.seen.clear()
                behind = head("POST /v1/relay/app/taken/2", session, length=4) + b"more"
                with broker.connect() as end:
                    end.sendall(build(session) + behind + head("DELETE /v1/session", session))
                    data, how = read_all(end, 5)
                    time.sleep(0.5)
                found = answers(data)
                alive, *_ = broker.ask("GET", "/v1/session", session)
                posts = [call for call in broker.upstream.seen if call.startswith("POST /taken")]
                closes = bool(found) and found[0][1].get("connection") == "close"
                good = alive == 200 and not posts and closes and len(found) == 1
                if not good:
                    break
            case.verdict(
                good, f"{name}, requests behind {what} → not carried out",
                f"answers {[answer[0] for answer in found]}, closes {closes}, upstream {posts}, session {alive}, {how}")
            if alive != 200:
                session = broker.sign_in()

    name = "a half-closed client"
    with Broker(case, name) as broker:
        session = broker.sign_in()
        cases = {
            "POST through the relay": (
                head("POST /v1/relay/app/later/1", session, length=4) + b"more", 201, b"taken"),
            "GET through the relay": (head("GET /v1/relay/app/later/1", session), 200, b"done"),
            "POST to the broker": (
                head("POST /v1/logins", "Content-Type: application/json", length=38)
                + b'{"provider":"oidc","client":"android"}', 201, None),
        }
        for what, (request, status, body) in cases.items():
            with broker.connect() as end:
                end.sendall(request)
                end.shutdown(socket.SHUT_WR)
                data, how = read_all(end, 5)
            found = answers(data)
            case.verdict(
                len(found) == 1 and found[0][0] == status and body in (None, found[0][2]),
                f"{name}, {what} → answered", f"{[(answer[0], answer[2][:80]) for answer in found]}, {how}")
        with broker.connect() as end:
            end.sendall(head("GET /v1/session/events", session))
            end.recv(4096)
            end.shutdown(socket.SHUT_WR)
            _, how = read_all(end, 5)
            case.verdict(how != "open", f"{name}, an event stream → ends", how)
        # A client that goes on sending after a parser error gets the answer, too.
        with broker.connect() as end:
            end.sendall(b"GARBAGE\r\n\r\n")
            sent, got, why = flood(broker, end, b"x" * 4096, 64 * 1024, seconds=1, reads=True)
            end.settimeout(3)
            more, how = read_all(end, 3) if why != "closed" else (b"", why)
            found = answers(got + more)
            case.verdict(
                len(found) == 1 and found[0][0] == 400 and sent >= 64 * 1024,
                f"{name}, a parser error with more bytes behind it → the answer arrives whole",
                f"{[answer[0] for answer in found]}, {sent} bytes taken, {why}, {how}")


# ---- (h) descriptors -------------------------------------------------------------------------------------------------


def descriptors(case):
    for name, limit in {"128 descriptors": "128:128", "128 descriptors at the start, 4,096 possible": "128:4096"}.items():
        with Broker(case, name, descriptors=limit) as broker:
            session = broker.sign_in()
            broker.rest()
            ends = []
            for index in range(300):
                try:
                    # Beyond the limit a connection waits in the listener's queue, and then it is not made at all.
                    ends.append(broker.connect(f"127.0.0.{2 + index % 10}", seconds=0.2))
                except OSError:
                    break
            time.sleep(0.5)
            before = broker.processor_time()
            time.sleep(3)
            spent = broker.processor_time() - before
            ready = call(broker.management + "/readyz", seconds=3).status == 200
            case.say(f"{name}: {len(ends)} idle connections opened, {spent:.2f} s of processor time in 3 s")
            case.verdict(spent < 0.15, f"{name}, all descriptors in use → almost no processor time", f"{spent:.2f} s of processor time in 3 s")
            case.verdict(ready, f"{name}, all descriptors in use → /readyz is 200")
            if limit.endswith("4096"):
                served, *_ = broker.ask("GET", "/v1/relay/app/bytes/10", session, source="127.0.0.20", seconds=3)
                case.verdict(served == 200, f"{name}, a relayed call beyond the soft limit → 200", served)
            broker.within(name)
            for end in ends:
                end.close()
            for _ in range(60):
                served, *_ = broker.ask("GET", "/v1/relay/app/bytes/10", session, source="127.0.0.20", seconds=1)
                if served == 200:
                    break
                time.sleep(0.05)
            case.verdict(served == 200, f"{name}, a relayed call once the idle connections have closed → 200", served)


# ---- the run ---------------------------------------------------------------------------------------------------------

LOGIN = b'{"provider":"oidc","client":"android"}'
QUICK = {
    "pipelined-contract": pipelined("pipelined contract", "/openapi.yaml", 200),
    "pipelined-404": pipelined("pipelined 404", "/nothing", 404),
    "pipelined-providers": pipelined("pipelined providers", "/v1/providers", 200),
    "pipelined-session": pipelined("pipelined session check", "/v1/session", 200, with_session=True),
    "upgrade-events": upgraded(
        "upgrade on an event stream", "GET /v1/session/events", 200, *H2C, with_session=True, stays=True),
    "upgrade-404": upgraded("upgrade on a 404", "GET /nothing", 404, *H2C),
    "upgrade-login": upgraded(
        "upgrade of a login", "POST /v1/logins", 201, *H2C, "Content-Type: application/json", body=LOGIN),
    "upgrade-relay": upgraded("upgrade on a relay path", "GET /v1/relay/app/bytes/10", 200, *H2C, with_session=True),
    "connect": upgraded("CONNECT", "CONNECT example.org:443", 400, host="example.org:443"),
    "idle": idle,
    "last-byte": last_byte,
    "user-bodies": user_bodies,
    "own-bodies": own_bodies,
    "endings": endings,
    "descriptors": descriptors,
}
SLOW = {"hostile-uploads": hostile_uploads, "slow-readers": slow_readers, "cut-answers": cut_answers}

if __name__ == "__main__":
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    # Concurrent measurements would disturb each other, so they run one at a time, next to cases that wait for a minute.
    main({name: (case, 600 if name in QUICK else 240) for name, case in (SLOW | QUICK).items()}, __doc__, in_turn=QUICK)
