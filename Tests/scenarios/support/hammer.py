#!/usr/bin/env python3
"""Requests one URL repeatedly while the broker behind it is restarted, and reports its clients' results. hammer.py PORT PATH
COOKIE FOLDER: four clients connect for every request, and one keeps its connection. Makes FOLDER/hammering once each client was
answered, and ends when FOLDER/enough exists, or after two minutes. Prints JSON: answers by status, `refused` and `broken`
connections, the longest time without any good connection, and the longest wait for an answer.
"""

import json
import os
import socket
import sys
import threading
import time

port, path, cookie, folder = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
HEAD = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookie}\r\n"
end = time.monotonic() + 120
stop = threading.Event()
lock = threading.Lock()
events = []  # of (time, outcome, seconds it took)
strange = []
answered = set()


def note(begin, outcome, detail=None):
    now = time.monotonic()
    with lock:
        events.append((now, outcome, now - begin))
        if detail is not None and len(strange) < 5:
            strange.append(detail)


def answer(connection):
    """Reads one answer; returns its status and whether the connection stays open."""
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise EOFError(f"{len(data)} bytes and the end")
        data += part
    head, body = data.split(b"\r\n\r\n", 1)
    lines = head.decode("latin-1").lower().split("\r\n")
    fields = dict(line.split(": ", 1) for line in lines[1:])
    while len(body) < int(fields.get("content-length", 0)):
        part = connection.recv(65536)
        if not part:
            raise EOFError("an answer that is not whole")
        body += part
    status = int(lines[0].split()[1])
    if status == 503 and (not fields.get("retry-after") or b'"shutting_down"' not in body):
        raise EOFError(f"a 503 that is not ours: {data[:300]!r}")
    return status, fields.get("connection") != "close"


def client(keeps):
    connection = None
    while time.monotonic() < end and not stop.is_set():
        begin, isNew = time.monotonic(), connection is None
        try:
            if isNew:
                connection = socket.create_connection(("127.0.0.1", port), 30)
        except ConnectionRefusedError:
            note(begin, "refused")
            time.sleep(0.001)
            continue
        except OSError as error:
            note(begin, "broken", f"connect: {error}")
            continue
        try:
            connection.sendall((HEAD + ("\r\n" if keeps else "Connection: close\r\n\r\n")).encode())
            status, goesOn = answer(connection)
            note(begin, str(status))
            answered.add(threading.get_ident())
        except (OSError, EOFError, ValueError) as error:
            note(begin, "broken" if isNew else "broken when kept", f"{error!r}")
            goesOn = False
        if not (keeps and goesOn):
            connection.close()
            connection = None


threads = [threading.Thread(target=client, args=(number == 0,), daemon=True) for number in range(5)]
for thread in threads:
    thread.start()
while time.monotonic() < end and not os.path.exists(os.path.join(folder, "enough")):
    if len(answered) == len(threads):
        open(os.path.join(folder, "hammering"), "w").close()
    time.sleep(0.05)
stop.set()
for thread in threads:
    thread.join(40)
events.sort()
counts, longest, first = {}, 0.0, None
for moment, outcome, _ in events:
    counts[outcome] = counts.get(outcome, 0) + 1
    if outcome[0].isdigit():
        first = None
    else:
        first = moment if first is None else first
        longest = max(longest, moment - first)
print(json.dumps({
    "answers": counts, "refused": counts.get("refused", 0), "refused_ms": round(longest * 1000),
    "broken": sum(count for outcome, count in counts.items() if "broken" in outcome),
    "slowest_ms": round(max((took for _, _, took in events), default=0) * 1000), "strange": strange,
}))
