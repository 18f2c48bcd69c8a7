"""Requests whose target and fields are sent unchanged."""

import socket
import urllib.parse

from .wire import answers, read_all


def raw(broker, method, path, *fields, body=""):
    """Sends a request with its target and fields unchanged, and returns the answers."""
    length = [f"Content-Length: {len(body)}"] if body else []
    return sent(broker, head(broker, method, path, "Connection: close", *fields, *length) + body)


def head(broker, method, path, *fields):
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {urllib.parse.urlsplit(broker.url).netloc}", *fields, "", ""])


def sent(broker, text):
    """Sends any text on one connection, and returns the answers."""
    with socket.create_connection(("127.0.0.1", broker.port), 5) as end:
        end.sendall(text.encode("latin1"))
        return answers(read_all(end, 10)[0]) or [(0, {}, b"")]
