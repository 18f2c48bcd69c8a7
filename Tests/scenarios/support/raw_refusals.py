"""Requests that are refused, each with a hidden request after it (SEC-101 to SEC-104)."""

import concurrent.futures
import json
import socket
import time

from raw_framing import CHUNK, framing, lines
from raw_target import AUTHORITY, GETS, HOST, LOGINS, ROUTES, SESSION, SMUGGLED, connect, exchange, options, run, verdict, with_smuggled
from wire import answers, read_all


def refused(route, name, data, status):
    try:
        found, ended = exchange(with_smuggled(data))
    except OSError as error:
        return verdict(False, f"{route.name}, a request with the fault “{name}” → one answer {status}, and the connection closes", f"cannot connect: {error}")
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
    verdict(good, f"{route.name}, a request with the fault “{name}” → one answer {status}, and the connection closes", why)


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


def broken_chunks():
    """The head is well formed but the body is not, so the request is refused while its body is read."""
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
            ("trailer of 20,000 bytes", "5\r\nhello\r\n0\r\n" + "X: " + "a" * 20_000 + "\r\n\r\n"),
        ):
            jobs.append((route, "chunk: " + name, route.request("Transfer-Encoding: chunked", body=body)))

    def work(route, name, data):
        found, ended = exchange(with_smuggled(data))
        statuses = [answer[0] for answer in found]
        # A GET is answered at once (decision 88), perhaps before the fault after 16 KiB arrives.
        is_late = route in GETS and len(data) > 16_384
        verdict((statuses == [400] or is_late and statuses == [200]) and ended, f"{route.name}, a request with the fault “{name}” → one answer 400, and the connection closes",
                f"got {statuses}, {'ended' if ended else 'still open'}")

    run(jobs, work)


def other_names(route):
    """A request for another host name gets 421, in any form."""
    method, target = route.line.split(" ")
    for name, data in (
        ("Host evil.example", route.request("Connection: close", host="Host: evil.example")),
        ("Host evil.example:80", route.request("Connection: close", host="Host: evil.example:80")),
        ("Host with the broker's name as a prefix", route.request("Connection: close", host=f"Host: {HOST}.evil.example")),
        ("absolute-form of evil.example, Host too",
         route.request("Connection: close", line=f"{method} http://evil.example{target}", host="Host: evil.example")),
    ):
        refused(route, name, data, 421)
    found, ended = exchange(route.request("Connection: close", "Content-Length: 2", line=f"{method} http://{AUTHORITY}{target}", body="{}"))
    statuses = [answer[0] for answer in found]
    verdict(len(statuses) == 1 and statuses[0] not in (0, 404, 421) and statuses[0] < 500 and ended,
            f"{route.name}, a request line in absolute-form with the broker's own authority → served", f"got {statuses}")


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
                f"{route.name}, an upgrade request ({name}) → one answer ({statuses}), and the connection closes", f"got {statuses}, {'ended' if ended else 'still open'}")


def deep_json():
    for name, body in (
        ("60,000 arrays", "[" * 60_000), ("12,000 objects", '{"a":' * 12_000), ("9 levels", "[" * 9 + "]" * 9),
        ("60,000 characters of a number", "9" * 60_000), ("one name 5,000 times", "{" + '"a":1,' * 5000 + '"a":1}'),
        ("one name 5,000 times under a long one", '{"' + "n" * 30_000 + '":{' + '"a":1,' * 4999 + '"a":1}}'),
        ("an exponent of 50,000 digits", '{"provider":1e' + "9" * 50_000 + "}"), ("lone surrogates", '{"provider":"\\ud800\\udc"}'),
        # Strings are compared by canonical equivalence, so their combining marks must be sorted first.
        ("a name of 21,000 combining marks", '{"provider' + "\u0301\u0327\u0316" * 7_000 + '":1,"provider":2}'),
        ("a value of 21,000 combining marks", '{"provider":"oidc","client":"i' + "\u0301\u0327\u0316" * 7_000 + '"}'),
        ("70,000 bytes", '{"provider":"' + "x" * 70_000 + '"}'),
    ):
        body = body.encode()
        begin = time.monotonic()
        found, _ = exchange(LOGINS.request("Connection: close", f"Content-Length: {len(body)}", body=body))
        statuses, took = [answer[0] for answer in found], time.monotonic() - begin
        wanted = 413 if name == "70,000 bytes" else 400
        verdict(statuses == [wanted] and took < 2, f"a login's JSON with {name} → {wanted} in {took * 1000:.0f} ms", f"got {statuses}")
    marks_of_8k = b"a" + "\u0301\u0327\u0316".encode() * 1_300
    for name in ("Origin", "Sec-Fetch-Site", "Content-Type", "X-Forwarded-For", "X-Forwarded-Proto", "Authorization", "Cookie",
                 "User-Agent", "X-Coatcheck-Session", "X-Coatcheck-Backend", "Purpose", "Connection", "Expect", "Accept"):
        begin = time.monotonic()
        data = LOGINS.request(name.encode() + b": " + marks_of_8k, "Content-Length: 2", body="{}")
        found, _ = exchange(data * 10 + LOGINS.request("Connection: close", "Content-Length: 2", body="[]"), 30)
        took = time.monotonic() - begin
        verdict(len(found) > 0 and 400 <= found[0][0] < 500 and took < 2,
                f"the field {name} of 3,900 combining marks → {found[0][0] if found else 0}, ten requests in {took * 1000:.0f} ms", f"{len(found)} answers")
    # The worst request is sent 200 times at once, because the cost of a single one would not be noticed.
    body = '{"' + "n" * 30_000 + '":{' + '"a":1,' * 4999 + '"a":1}}'
    data = LOGINS.request(f"Content-Length: {len(body)}", body=body) * 20
    begin = time.monotonic()
    with concurrent.futures.ThreadPoolExecutor(10) as pool:
        work = [pool.submit(exchange, data + LOGINS.request("Connection: close", "Content-Length: 2", body="[]"), 60) for _ in range(10)]
        counts = [len(done.result()[0]) for done in work]
    took = time.monotonic() - begin
    verdict(counts == [21] * 10, f"200 logins at the same time, each with 5,000 equal member names in the JSON body → all are answered, in {took:.1f} s", f"got {counts}")


def pipelined():
    good = SESSION.request()
    found, ended = exchange(good * 50 + SESSION.request("Connection: close"), 20)
    verdict([answer[0] for answer in found] == [200] * 51 and ended, "51 pipelined requests → 51 answers in order", f"{len(found)}")
    for route in ROUTES:
        found, ended = exchange(
            with_smuggled(good * 10 + route.request("Content-Length: 5", "Transfer-Encoding: chunked", body=CHUNK)), 20)
        statuses = [answer[0] for answer in found]
        verdict(statuses == [200] * 10 + [400] and ended, f"{route.name}, 10 pipelined requests and an ambiguous one → 10 answers 200, then 400",
                f"got {statuses}, {'ended' if ended else 'still open'}")
        found, ended = exchange(
            with_smuggled(route.request("Content-Length: 30", "Connection: close", body="{}") + SMUGGLED[:28]), 20)
        verdict(len(found) == 1 and ended, f"{route.name}, a second request after a request with Connection: close → only the first is answered", f"got {[a[0] for a in found]}")
    for piece in (1, 2, 7):
        end = connect()
        for index in range(0, len(good), piece):
            end.sendall(good[index : index + piece])
        end.shutdown(socket.SHUT_WR)
        got, how = read_all(end)
        statuses = [answer[0] for answer in answers(got)]
        verdict(statuses == [200] and how != "open", f"a client sends a request in packets of {piece} bytes and closes its sending side → answered", f"got {statuses}")
