"""HTTP/1.1 byte by byte, for messages that a client library would never send or show."""

import pathlib
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parents[3]


def free_port():
    """A port without a listener, reserved from other scenarios for a while."""
    return int(subprocess.run([ROOT / "scripts/free-port"], check=True, capture_output=True, text=True).stdout)


def read_all(end, seconds=10):
    """The received bytes, and the connection's end: `fin`, `reset` or `open`."""
    data, deadline = bytearray(), time.monotonic() + seconds
    while (left := deadline - time.monotonic()) > 0:
        end.settimeout(left)
        try:
            part = end.recv(1 << 18)
        except socket.timeout:
            break
        except OSError:
            return bytes(data), "reset"
        if not part:
            return bytes(data), "fin"
        data += part
    return bytes(data), "open"


def answers(data):
    """Splits bytes into answers: [(status, fields, body)]; a piece that is no answer is (0, {}, piece).

    A chunked body without its end has the field `cut`.
    """
    found = []
    while data:
        top, separator, rest = data.partition(b"\r\n\r\n")
        lines = top.decode("latin1").split("\r\n")
        words = lines[0].split(" ")
        if not separator or len(words) < 2 or not words[0].startswith("HTTP/1.") or not words[1].isdigit():
            return found + [(0, {}, data)]
        fields = {}
        for line in lines[1:]:
            name, _, value = line.partition(":")
            fields[name.lower()] = value.strip()
        status = int(words[1])
        if status < 200:
            data = rest
            continue
        if fields.get("transfer-encoding") == "chunked":
            body = b""
            while True:
                size, separator, rest = rest.partition(b"\r\n")
                if not separator:
                    fields["cut"] = "yes"
                    break
                count = int(size or b"0", 16)
                body, rest = body + rest[:count], rest[count + 2 :]
                if not count:
                    break
        elif "content-length" in fields or status in (204, 304):
            length = 0 if status in (204, 304) else int(fields["content-length"])
            body, rest = rest[:length], rest[length:]
        else:
            # Without a length, the body ends with the connection. A second answer in these bytes counts as unrequested.
            end = rest.find(b"HTTP/1.")
            body, rest = (rest, b"") if end < 0 else (rest[:end], rest[end:])
        found.append((status, fields, body))
        data = rest
    return found
