"""Ambiguous framing, fields and request lines."""

from raw_target import AUTHORITY, HOST

CHUNK = "0\r\n\r\n"


def framing():
    """Yields (name, header fields, other arguments of the request)."""
    chunked = "Transfer-Encoding: chunked"
    yield "Content-Length then Transfer-Encoding", ["Content-Length: 5", chunked], {"body": CHUNK}
    yield "Transfer-Encoding then Content-Length", [chunked, "Content-Length: 5"], {"body": CHUNK}
    yield "Transfer-Encoding with Content-Length 0", [chunked, "Content-Length: 0"], {"body": CHUNK}
    yield "Content-Length twice, equal", ["Content-Length: 2", "Content-Length: 2"], {"body": "{}"}
    yield "Content-Length twice, different", ["Content-Length: 2", "Content-Length: 0"], {"body": "{}"}
    for value in ("2, 2", "2,0", "+2", "-2", "-0", "0x2", "2 0", "2\t0", "", "2.0", "1e1", "two", "2;", "\u00b2",
                  "18446744073709551618", "99999999999999999999999"):
        yield f"Content-Length {value!r}", [f"Content-Length: {value}"], {"body": "{}"}
    for value in ("gzip", "gzip, chunked", "chunked, gzip", "identity", "chunked, identity", "chunked, chunked", "xchunked",
                  "chunked;q=1", "\"chunked\"", "", "\x0bchunked", "chunked\x0b", "chun ked", "cow"):
        yield f"Transfer-Encoding {value!r}", [f"Transfer-Encoding: {value}"], {"body": CHUNK}
    yield "Transfer-Encoding twice", [chunked, chunked], {"body": CHUNK}
    yield "Transfer-Encoding twice, one is identity", [chunked, "Transfer-Encoding: identity"], {"body": CHUNK}
    yield "Transfer-Encoding on HTTP/1.0", [chunked], {"body": CHUNK, "version": "HTTP/1.0"}
    yield "Transfer-Encoding behind a vertical tab", ["Transfer-Encoding:\x0bchunked"], {"body": CHUNK}
    yield "Transfer-Encoding name with a tab", ["Transfer-Encoding\t: chunked"], {"body": CHUNK}
    yield "a folded field (obs-fold)", ["X-A: b\r\n  c"], {}
    yield "a folded field with a tab", ["X-A: b\r\n\tContent-Length: 5"], {}
    yield "a folded Transfer-Encoding", ["Transfer-Encoding:\r\n chunked"], {"body": CHUNK}
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
