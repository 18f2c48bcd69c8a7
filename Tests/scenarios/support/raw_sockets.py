"""Sends ambiguous and hostile bytes to a running broker (SEC-101 to SEC-106); raw-sockets.sh starts both. After each refused
request, a whole second request follows at once on the same connection. It would end the victim's session. So there must be
exactly one answer with the right status, and the connection must end. At the end, the victim must still be signed in. Slow
clients must be cut while others are served.
"""

import argparse
import concurrent.futures
import json
import os
import resource
import socket
import threading
import time
import traceback
import urllib.request

from verdicts import Verdicts
from wire import answers, read_all

options = argparse.ArgumentParser()
options.add_argument("--broker", required=True)
options.add_argument("--management", required=True)
options.add_argument("--session", required=True, help="a session token")
options.add_argument("--victim", required=True, help="another session's token")
options.add_argument("--without", default="", help="a route that is left out")
options.add_argument("--backend", required=True, help="a backend's credential for forward-auth")
options.add_argument("--pid", required=True, type=int)
options.add_argument("--only", help="cases whose name has this in it")
options.add_argument("--idle", type=int, default=2000, help="idle sockets while others are served")
options.add_argument("--no-slow", action="store_true", help="leave out the slow clients (they take over a minute)")
options = options.parse_args()

AUTHORITY = options.broker.removeprefix("http://")
HOST, PORT = AUTHORITY.split(":")
BEARER = f"Authorization: Bearer {options.session}"
verdicts = Verdicts()
verdict, lock = verdicts.verdict, threading.Lock()


# ---- talking ---------------------------------------------------------------------------------------------------------


def connect(receive_buffer=None):
    end = socket.socket()
    if receive_buffer:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    end.settimeout(10)
    end.connect((HOST, int(PORT)))
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


def exchange(data, seconds=10):
    """Sends, perhaps more than is read at the other side, and reads to the end."""
    end = connect()

    def send():
        try:
            end.sendall(data)
        except OSError:
            pass

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    got, how = read_all(end, seconds)
    end.close()
    sender.join(5)
    return answers(got), how != "open"


# ---- routes ----------------------------------------------------------------------------------------------------------


class Route:
    def __init__(self, name, line, *fields):
        self.name, self.line, self.fields = name, line, list(fields)

    def request(self, *fields, body=b"", line=None, host=f"Host: {AUTHORITY}", version="HTTP/1.1"):
        """Builds a request from fields and a body, as text (Latin-1) or bytes; `line` replaces method and target."""
        text = [f"{line or self.line} {version}"] + ([host] if host else []) + self.fields + list(fields)
        head = b"\r\n".join(part if isinstance(part, bytes) else part.encode("latin1") for part in text)
        return head + b"\r\n\r\n" + (body if isinstance(body, bytes) else body.encode("latin1"))


SESSION = Route("session", "GET /v1/session", BEARER)
LOGINS = Route("logins", "POST /v1/logins", "Content-Type: application/json")
FORWARD_AUTH = Route(
    "forward-auth", "GET /v1/forward-auth", f"X-Coatcheck-Backend: {options.backend}", f"X-Coatcheck-Session: {options.session}")
RELAY = Route("relay", "POST /v1/relay/api/echo", BEARER, "Content-Type: text/plain")
ROUTES = [route for route in (SESSION, LOGINS, FORWARD_AUTH, RELAY) if route.name != options.without]
GETS = [route for route in (SESSION, FORWARD_AUTH) if route in ROUTES]
VICTIM = f"Authorization: Bearer {options.victim}"
SMUGGLED = Route("smuggled", "DELETE /v1/session", VICTIM).request()
smuggled_count = 0


def with_smuggled(data):
    global smuggled_count
    with lock:
        smuggled_count += 1
    return data + SMUGGLED


# ---- what is ambiguous -----------------------------------------------------------------------------------------------

CHUNK = "0\r\n\r\n"


def framing():
    """Yields (name, fields and other arguments of a request, the smuggled request inside the body too?)."""
    chunked = "Transfer-Encoding: chunked"
    yield "CL then TE", ["Content-Length: 5", chunked], {"body": CHUNK}
    yield "TE then CL", [chunked, "Content-Length: 5"], {"body": CHUNK}
    yield "TE with CL 0", [chunked, "Content-Length: 0"], {"body": CHUNK}
    yield "CL twice, equal", ["Content-Length: 2", "Content-Length: 2"], {"body": "{}"}
    yield "CL twice, different", ["Content-Length: 2", "Content-Length: 0"], {"body": "{}"}
    for value in ("2, 2", "2,0", "+2", "-2", "-0", "0x2", "2 0", "2\t0", "", "2.0", "1e1", "two", "2;", "\u00b2",
                  "18446744073709551618", "99999999999999999999999"):
        yield f"CL {value!r}", [f"Content-Length: {value}"], {"body": "{}"}
    for value in ("gzip", "gzip, chunked", "chunked, gzip", "identity", "chunked, identity", "chunked, chunked", "xchunked",
                  "chunked;q=1", "\"chunked\"", "", "\x0bchunked", "chunked\x0b", "chun ked", "cow"):
        yield f"TE {value!r}", [f"Transfer-Encoding: {value}"], {"body": CHUNK}
    yield "TE twice", [chunked, chunked], {"body": CHUNK}
    yield "TE twice, one empty", [chunked, "Transfer-Encoding: identity"], {"body": CHUNK}
    yield "TE on HTTP/1.0", [chunked], {"body": CHUNK, "version": "HTTP/1.0"}
    yield "TE behind a vertical tab", ["Transfer-Encoding:\x0bchunked"], {"body": CHUNK}
    yield "TE name with a tab", ["Transfer-Encoding\t: chunked"], {"body": CHUNK}
    yield "obs-fold", ["X-A: b\r\n  c"], {}
    yield "obs-fold with a tab", ["X-A: b\r\n\tContent-Length: 5"], {}
    yield "obs-fold of TE", ["Transfer-Encoding:\r\n chunked"], {"body": CHUNK}
    yield "first field begins with a space", [], {"host": f" X-A: b\r\nHost: {AUTHORITY}"}
    for name in ("Content-Length", "Transfer-Encoding", "X-A"):
        yield f"space before the colon of {name}", [f"{name} : 5"], {"body": "hello"}
    yield "field without a colon", ["X-A"], {}
    yield "empty field name", [": x"], {}
    for byte in ("(", "[", "@", "\x7f", "\xe9", "\x00", "\x01", "\"", "/", " "):
        yield f"{byte!r} in a field name", [f"X{byte}A: b"], {}
    for byte in ("\x00", "\x01", "\x0b", "\x0c", "\x1b", "\x7f", "\r", "\rX-B: c", "\n Y: z"):
        yield f"{byte!r} in a field value", [f"X-A: b{byte}c"], {}
    yield "bare CR ends a field", ["X-A: b\rContent-Length: 5"], {}
    yield "bare LF ends a field", ["X-A: b\nX-B: c"], {}
    yield "bare LF ends the head", [b"X-A: b\n\n"], {}
    yield "CR CR LF", ["X-A: b\r\r\nX-B: c"], {}
    yield "underscore in a field name", ["X_Coatcheck_Session: x"], {}
    yield "Content_Length", ["Content_Length: 5"], {}
    yield "no Host", [], {"host": None}
    yield "no Host in HTTP/1.0", [], {"host": None, "version": "HTTP/1.0"}
    yield "two Hosts", [], {"host": f"Host: {AUTHORITY}\r\nHost: evil.example"}
    yield "two Hosts, equal", [], {"host": f"Host: {AUTHORITY}\r\nhost: {AUTHORITY}"}
    for value in ("", f"user@{AUTHORITY}", f"{AUTHORITY}/x", f"{AUTHORITY}, {AUTHORITY}", f"{HOST}:", f"{HOST}:80x", f"{HOST}:999999",
                  f"{HOST} x", "[::1", "a\\b", "http://" + AUTHORITY, "%31", "a?b", "a#b", "\xe9"):
        yield f"Host {value!r}", [], {"host": f"Host: {value}"}


def lines(route):
    """Yields (name, request line without its end, status)."""
    method, target = route.line.split(" ")
    yield "absolute-form of another authority", f"{method} http://evil.example{target}", 400
    yield "absolute-form with user information", f"{method} http://user@{AUTHORITY}{target}", 400
    yield "absolute-form of another scheme", f"{method} ftp://{AUTHORITY}{target}", 400
    yield "authority-form", f"{method} {AUTHORITY}", 400
    yield "asterisk-form", f"{method} *", 400
    yield "CONNECT", f"CONNECT {AUTHORITY}", 400
    yield "a space in the target", f"{method} {target} x", 400
    yield "a tab before the target", f"{method}\t{target}", 400
    yield "a fragment in the target", f"{method} {target}#x", 400
    for byte in ("\x00", "\x01", "\x7f", "\xe9", "\r", "\n"):
        yield f"{byte!r} in the target", f"{method} {target}{byte}x", 400
    yield "relative target", f"{method} {target[1:]}", 400
    yield "no target", f"{method} ", 400
    yield "method in lower case", f"{method.lower()} {target}", 400
    yield "unknown method", f"SMUGGLE {target}", 400
    yield "space before the method", f" {method} {target}", 400
    yield "target of 64 KiB", f"{method} {target}?{'x' * 65536}", 431
    yield "target of 9,000 bytes", f"{method} {target}?{'x' * 9000}", 431


def refused(route, name, data, status):
    try:
        found, ended = exchange(with_smuggled(data))
    except OSError as error:
        return verdict(False, f"{route.name}: {name}", f"cannot connect: {error}")
    statuses = [answer[0] for answer in found]
    why = f"expected [{status}] and the end, got {statuses}, {'ended' if ended else 'still open'}"
    good = statuses == [status] and ended
    if good:
        (_, fields, body), = found
        code = {400: "invalid_request", 431: "headers_too_large", 421: "wrong_host"}.get(status)
        try:
            told = json.loads(body).get("code")
        except ValueError:
            told = None
        good = told == code and fields.get("content-type") == "application/problem+json" and fields.get("connection") == "close"
        why = f"expected the problem {code}, got {told}, {fields}"
    verdict(good, f"{route.name}: {name}: {status}, one answer, closed", why)


def corpus():
    jobs = []
    for route in ROUTES:
        for name, fields, arguments in framing():
            jobs.append((route, name, route.request(*fields, **arguments), 400))
        for name, line, status in lines(route):
            jobs.append((route, name, route.request(line=line), status))
        for version in ("HTTP/1.2", "HTTP/2.0", "HTTP/3.0", "HTTP/1.1x", "HTTP/1", "http/1.1", "HTTQ/1.1", "HTTP/0.9", "HTTP/11.1"):
            jobs.append((route, f"version {version}", route.request(version=version), 400))
        jobs.append((route, "no version", route.line.encode() + b"\r\n", 400))
        jobs.append((route, "HTTP/2 preface", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 400))
        jobs.append((route, "TLS on the plain port", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"\x00" * 64, 400))
        for name, fields in (
            ("80 fields", ["X-A: b"] * 80),
            ("one field of 9,000 bytes", ["X-A: " + "b" * 9000]),
            ("a field name of 9,000 bytes", ["X-" + "A" * 9000 + ": b"]),
            ("fields of 20,000 bytes together", ["X-A: " + "b" * 1000] * 20),
            ("200,000 tiny fields", ["a: b"] * 200_000),
            ("a field of 4 MiB", ["X-A: " + "b" * (4 << 20)]),
        ):
            jobs.append((route, name, route.request(*fields), 431))
    run(jobs, refused)
    broken_chunks()
    run([(route,) for route in ROUTES], other_names)
    run([(route,) for route in ROUTES], upgrade)
    if not options.only:
        deep_json()
        pipelined()


def run(jobs, work):
    jobs = [job for job in jobs if not options.only or len(job) < 2 or options.only in job[1]]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(work, *job) for job in jobs]:
            done.result()


def broken_chunks():
    """The head is well formed and the body is not, so the request is refused while its body is read."""
    jobs = []
    for route in ROUTES:
        for name, body in (
            ("size -1", "-1\r\nhello\r\n" + CHUNK), ("size 0x5", "0x5\r\nhello\r\n" + CHUNK), ("size +5", "+5\r\nhello\r\n" + CHUNK),
            ("size zz", "zz\r\nhello\r\n" + CHUNK), ("no size", "\r\nhello\r\n" + CHUNK), ("size ;", ";a=b\r\nhello\r\n" + CHUNK),
            ("size with a space", "5 \r\nhello\r\n" + CHUNK), ("size behind a space", " 5\r\nhello\r\n" + CHUNK),
            ("size of 64 bits and more", "FFFFFFFFFFFFFFFFF\r\nhello\r\n" + CHUNK),
            ("size with an underscore", "1_0\r\nhellohellohello!\r\n" + CHUNK),
            ("size ended by LF", "5\nhello\r\n" + CHUNK), ("size ended by CR", "5\rhello\r\n" + CHUNK),
            ("data longer than its size", "5\r\nhelloX\r\n" + CHUNK), ("data ended by LF", "5\r\nhello\n" + CHUNK),
            ("LF in an extension", "5;a=\nb\r\nhello\r\n" + CHUNK), ("NUL in an extension", "5;a=\0\r\nhello\r\n" + CHUNK),
            ("trailer without a colon", "5\r\nhello\r\n0\r\nX\r\n\r\n"), ("trailer folded", "5\r\nhello\r\n0\r\nX: a\r\n b\r\n\r\n"),
            ("trailer with NUL", "5\r\nhello\r\n0\r\nX: \0\r\n\r\n"),
            ("trailers of 20,000 bytes", "5\r\nhello\r\n0\r\n" + "X: " + "a" * 20_000 + "\r\n\r\n"),
        ):
            jobs.append((route, "chunk: " + name, route.request("Transfer-Encoding: chunked", body=body)))

    def work(route, name, data):
        found, ended = exchange(with_smuggled(data))
        statuses = [answer[0] for answer in found]
        # A GET is answered at once (decision 88), so perhaps before the fault behind 16 KiB has come.
        is_late = route in GETS and len(data) > 16_384
        verdict((statuses == [400] or is_late and statuses == [200]) and ended, f"{route.name}: {name}: 400, one answer, closed",
                f"got {statuses}, {'ended' if ended else 'still open'}")

    run(jobs, work)


def other_names(route):
    """A name that is not the broker's is 421, in any form."""
    method, target = route.line.split(" ")
    for name, data in (
        ("Host evil.example", route.request("Connection: close", host="Host: evil.example")),
        ("Host evil.example:80", route.request("Connection: close", host="Host: evil.example:80")),
        ("Host with our name as a prefix", route.request("Connection: close", host=f"Host: {HOST}.evil.example")),
        ("absolute-form of evil.example, Host too",
         route.request("Connection: close", line=f"{method} http://evil.example{target}", host="Host: evil.example")),
    ):
        refused(route, name, data, 421)
    found, ended = exchange(route.request("Connection: close", "Content-Length: 2", line=f"{method} http://{AUTHORITY}{target}", body="{}"))
    statuses = [answer[0] for answer in found]
    verdict(len(statuses) == 1 and statuses[0] not in (0, 404, 421) and statuses[0] < 500 and ended,
            f"{route.name}: absolute-form of our own authority is served", f"got {statuses}")


def upgrade(route):
    """An upgrade is ignored, and the following bytes are not read as requests (SEC-101)."""
    for name, fields in (
        ("h2c", ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAARAAAAAAAIAAAAA"]),
        ("websocket", ["Connection: Upgrade", "Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="]),
        ("without Connection", ["Upgrade: h2c"]),
    ):
        found, ended = exchange(with_smuggled(route.request(*fields)))
        statuses = [answer[0] for answer in found]
        verdict(len(statuses) == 1 and statuses[0] not in (0, 101) and statuses[0] < 500 and ended,
                f"{route.name}: upgrade {name}: one answer ({statuses}), closed", f"got {statuses}, {'ended' if ended else 'still open'}")


def deep_json():
    for name, body in (
        ("60,000 arrays", "[" * 60_000), ("20,000 objects", '{"a":' * 12_000), ("9 levels", "[" * 9 + "]" * 9),
        ("60,000 characters of a number", "9" * 60_000), ("one name 5,000 times", "{" + '"a":1,' * 5000 + '"a":1}'),
        ("one name 5,000 times under a long one", '{"' + "n" * 30_000 + '":{' + '"a":1,' * 4999 + '"a":1}}'),
        ("an exponent of 50,000 digits", '{"provider":1e' + "9" * 50_000 + "}"), ("lone surrogates", '{"provider":"\\ud800\\udc"}'),
        # Strings are compared by canonical equivalence, so their combining marks have to be sorted first.
        ("a name of 20,000 combining marks", '{"provider' + "\u0301\u0327\u0316" * 7_000 + '":1,"provider":2}'),
        ("a value of 20,000 combining marks", '{"provider":"oidc","client":"i' + "\u0301\u0327\u0316" * 7_000 + '"}'),
        ("70 KiB", '{"provider":"' + "x" * 70_000 + '"}'),
    ):
        body = body.encode()
        begin = time.monotonic()
        found, _ = exchange(LOGINS.request("Connection: close", f"Content-Length: {len(body)}", body=body))
        statuses, took = [answer[0] for answer in found], time.monotonic() - begin
        wanted = 413 if name == "70 KiB" else 400
        verdict(statuses == [wanted] and took < 2, f"JSON: {name}: {wanted} in {took * 1000:.0f} ms", f"got {statuses}")
    marks_of_8k = b"a" + "\u0301\u0327\u0316".encode() * 1_300
    for name in ("Origin", "Sec-Fetch-Site", "Content-Type", "X-Forwarded-For", "X-Forwarded-Proto", "Authorization", "Cookie",
                 "User-Agent", "X-Coatcheck-Session", "X-Coatcheck-Backend", "Purpose", "Connection", "Expect", "Accept"):
        begin = time.monotonic()
        data = LOGINS.request(name.encode() + b": " + marks_of_8k, "Content-Length: 2", body="{}")
        found, _ = exchange(data * 10 + LOGINS.request("Connection: close", "Content-Length: 2", body="[]"), 30)
        took = time.monotonic() - begin
        verdict(len(found) > 0 and 400 <= found[0][0] < 500 and took < 2,
                f"{name} of 4,000 combining marks: {found[0][0] if found else 0}, ten in {took * 1000:.0f} ms", f"{len(found)} answers")
    # 200 of the worst requests at once, because a single one would not be noticed.
    body = '{"' + "n" * 30_000 + '":{' + '"a":1,' * 4999 + '"a":1}}'
    data = LOGINS.request(f"Content-Length: {len(body)}", body=body) * 20
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        work = [pool.submit(exchange, data + LOGINS.request("Connection: close", "Content-Length: 2", body="[]"), 60) for _ in range(10)]
        counts = [len(done.result()[0]) for done in work]
    took = time.monotonic() - begin
    verdict(counts == [21] * 10, f"JSON: 200 of the worst bodies in {took:.1f} s", f"got {counts}")


def pipelined():
    good = SESSION.request()
    found, ended = exchange(good * 50 + SESSION.request("Connection: close"), 20)
    verdict([answer[0] for answer in found] == [200] * 51 and ended, "51 pipelined requests: 51 answers in order", f"{len(found)}")
    for route in ROUTES:
        found, ended = exchange(
            with_smuggled(good * 10 + route.request("Content-Length: 5", "Transfer-Encoding: chunked", body=CHUNK)), 20)
        statuses = [answer[0] for answer in found]
        verdict(statuses == [200] * 10 + [400] and ended, f"{route.name}: 10 pipelined, then an ambiguous one: 10 answers and 400",
                f"got {statuses}, {'ended' if ended else 'still open'}")
        found, ended = exchange(
            with_smuggled(route.request("Content-Length: 30", "Connection: close", body="{}") + SMUGGLED[:28]), 20)
        verdict(len(found) == 1 and ended, f"{route.name}: nothing is read after Connection: close", f"got {[a[0] for a in found]}")
    for piece in (1, 2, 7):
        end = connect()
        for index in range(0, len(good), piece):
            end.sendall(good[index : index + piece])
        end.shutdown(socket.SHUT_WR)
        got, how = read_all(end)
        statuses = [answer[0] for answer in answers(got)]
        verdict(statuses == [200] and how != "open", f"a request {piece} bytes a packet, then half-closed: answered", f"got {statuses}")


# ---- slow clients ----------------------------------------------------------------------------------------------------


class Normal(threading.Thread):
    """A client that behaves, on a fresh connection each time; keeps the slowest answer."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stop, self.served, self.slow, self.wrong = threading.Event(), 0, [], []
        self.begin = time.monotonic()

    def run(self):
        routes = well_formed()
        while not self.stop.wait(0.2):
            begin = time.monotonic()
            try:
                found, _ = exchange(routes[self.served % len(routes)])
            except OSError as error:
                found = [(str(error), {}, b"")]
            # 40,000 pipelined requests arrive at once, next to other tests, so seconds of waiting are normal on a small
            # machine. A starved client waits as long as the slow ones stay.
            if time.monotonic() - begin >= 8:
                self.slow.append(f"{time.monotonic() - begin:.1f} s at {begin - self.begin:.1f} s")
            self.served += 1
            if [answer[0] for answer in found] != [200]:
                self.wrong.append([answer[0] for answer in found])


def well_formed():
    """Requests that are answered 200, one of every route that can."""
    made = [route.request("Connection: close") for route in GETS]
    return made + [RELAY.request("Connection: close", "Content-Length: 2", body="{}")] * (RELAY in ROUTES)


def trickle(data, pause):
    """Sends `data` a byte at a time, and then nothing, until the other side ends; returns the answers and the time."""
    end, begin = connect(), time.monotonic()
    end.settimeout(pause)
    got, index = b"", 0
    while time.monotonic() - begin < 150:
        try:
            if index < len(data):
                end.sendall(data[index : index + 1])
                index += 1
            part = end.recv(4096)
            if not part:
                break
            got += part
        except socket.timeout:
            continue
        except OSError:
            break
    else:
        return answers(got), None
    return answers(got), time.monotonic() - begin


def silent(data):
    end, begin = connect(), time.monotonic()
    if data:
        end.sendall(data)
    got, how = read_all(end, 150)
    return answers(got), time.monotonic() - begin if how != "open" else None


def server_holds(end):
    """Whether the broker still has the connection. This client cannot see its end, because the kernel still keeps a part of the
    answer.
    """
    here, there = end.getsockname()[1], int(PORT)
    with open("/proc/net/tcp") as table:
        for line in table:
            words = line.split()
            if words[1].endswith(f":{there:04X}") and words[2].endswith(f":{here:04X}"):
                return words[3] == "01"
    return False


def slow_reader(data):
    """Reads nothing, so the broker must drop the unread answer. Returns the time when the other side ended, and the answers if
    that was at once.
    """
    end, begin = connect(receive_buffer=4096), time.monotonic()
    end.settimeout(1)
    sent = 0
    while time.monotonic() - begin < 150:
        try:
            if sent < len(data):
                sent += end.send(data[sent : sent + (1 << 16)])
            else:
                time.sleep(0.5)
        except socket.timeout:
            pass
        except OSError:
            break
        if not server_holds(end):
            break
    else:
        return [], None
    after = time.monotonic() - begin
    return (answers(read_all(end, 2)[0]) if after < 10 else []), after


def slow_clients():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    idle_sockets()
    normal = Normal()
    normal.start()
    long_body = b'{"provider":"' + b"x" * 900
    length = "Content-Length: 60000"
    jobs = [
        # name, work, data…, the statuses that may come, seconds from and to
        ("nothing sent at all", silent, (b"",), [[]], 50, 110),
        ("half a request line", silent, (b"GET /v1/ses",), [[], [400], [408]], 50, 110),
        ("half a head", silent, (SESSION.request()[:-2],), [[], [400], [408]], 50, 110),
        ("a head, one byte every 2 s", trickle, (SESSION.request("X-A: " + "b" * 4000), 2), [[], [400], [408]], 50, 110),
        ("logins: half a body", silent, (LOGINS.request(length, body=long_body),), [[408]], 25, 75),
        ("logins: a body, one byte every 2 s", trickle_body(LOGINS, length, long_body), (), [[408]], 25, 75),
        ("logins: chunks, one every 2 s", trickle_body(LOGINS, "Transfer-Encoding: chunked", b"1\r\nx\r\n" * 200), (), [[408]], 25, 75),
        ("session: half a body", silent, (SESSION.request(length, body=long_body),), [[200]], 0, 15),
        ("forward-auth: half a body", silent, (FORWARD_AUTH.request(length, body=long_body),), [[200]], 0, 15),
        ("relay: half a body", silent, (RELAY.request(length, body=long_body),), [[408], [400]], 25, 110),
        ("relay: a whole answer never read", slow_reader,
         (RELAY.request(line="GET /v1/relay/api/bytes/200000000"),), [[]], 20, 130),
        ("session: 20,000 answers never read", slow_reader, (SESSION.request() * 20_000,), [[]], 20, 130),
        ("forward-auth: 20,000 answers never read", slow_reader, (FORWARD_AUTH.request() * 20_000,), [[]], 20, 130),
        ("an answered connection, then silence", silent, (SESSION.request(),), [[200]], 50, 110),
        ("an answered connection, then half a head", silent, (SESSION.request() + b"GET /",), [[200], [200, 400], [200, 408]], 50, 110),
    ]
    jobs = [job for job in jobs if not options.without or not job[0].startswith(options.without)]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        work = [(job, pool.submit(job[1], *job[2])) for job in jobs]
        for (name, _, _, wanted, earliest, latest), done in work:
            found, after = done.result()
            statuses = [answer[0] for answer in found]
            verdict(after is not None and earliest <= after <= latest and statuses in wanted,
                    f"slow: {name}: {'never cut' if after is None else f'cut after {after:.0f} s'}, {statuses}", f"expected one of {wanted} in {earliest} to {latest} s")
    normal.stop.set()
    normal.join(15)
    verdict(not normal.wrong and not normal.slow and normal.served > 50,
            f"meanwhile {normal.served} requests of a normal client were served, each in less than 8 s",
            f"wrong: {normal.wrong[:5]}, slow: {normal.slow[:5]}")


def trickle_body(route, field, body):
    def work():
        end, begin = connect(), time.monotonic()
        end.sendall(route.request(field))
        end.settimeout(2)
        got, index, step = b"", 0, 6 if body.startswith(b"1\r\n") else 1
        while time.monotonic() - begin < 150:
            try:
                end.sendall(body[index : index + step])
                index += step
                part = end.recv(4096)
                if not part:
                    return answers(got), time.monotonic() - begin
                got += part
            except socket.timeout:
                continue
            except OSError:
                return answers(got), time.monotonic() - begin
        return answers(got), None

    return work


def idle_sockets():
    sockets = []
    try:
        for _ in range(options.idle):
            sockets.append(connect())
        times, routes = [], well_formed()
        for index in range(60):
            begin = time.monotonic()
            found, _ = exchange(routes[index % len(routes)])
            times.append(time.monotonic() - begin if [answer[0] for answer in found] == [200] else 99)
        verdict(max(times) < 5, f"{len(sockets)} idle sockets: 60 requests served, the slowest in {max(times) * 1000:.0f} ms")
    except OSError as error:
        verdict(False, f"{options.idle} idle sockets", f"{error} after {len(sockets)}")
    finally:
        for end in sockets:
            end.close()


# ---- the end ---------------------------------------------------------------------------------------------------------


def victim(line):
    found, _ = exchange(Route("victim", line, VICTIM).request("Connection: close"))
    return [answer[0] for answer in found]


def last():
    statuses = victim("GET /v1/session")
    verdict(statuses == [200], f"none of {smuggled_count} smuggled second requests ended the victim's session", f"{statuses}")
    # This checks the check: alone, the second request does end the session.
    ended, after = victim("DELETE /v1/session"), victim("GET /v1/session")
    verdict(ended == [204] and after == [401], "the second request by itself does", f"{ended}, then {after}")
    try:
        os.kill(options.pid, 0)
        with urllib.request.urlopen(options.management + "/readyz", timeout=5) as answer:
            verdict(answer.status == 200, "the process is the same and is ready")
    except OSError as error:
        verdict(False, "the process is the same and is ready", str(error))


if __name__ == "__main__":
    try:
        corpus()
        if not options.no_slow:
            slow_clients()
        last()
    except Exception as error:  # what went wrong is said where the verdicts are, not only on standard error
        verdict(False, "every case came to its verdict", f"{type(error).__name__}: {error} {traceback.format_exc()[-250:]}")
    verdicts.finish()
