"""An HTTP proxy that leads every CONNECT to one loopback port, and records the requested names:
    python3 connect_proxy.py PORT TO LOG CREDENTIALS
It refuses hosts that begin with `refuse`, and leaves hosts that begin with `silent` without an answer.
"""

import base64
import socket
import sys
import threading


def pump(source, target):
    try:
        while data := source.recv(65536):
            target.sendall(data)
    except OSError:
        pass
    for end in (source, target):
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def serve(client):
    head = b""
    while not head.endswith(b"\r\n\r\n"):
        byte = client.recv(1)
        if not byte:
            return
        head += byte
    lines = head.decode().split("\r\n")
    method, target, _ = lines[0].split(" ")
    fields = dict(line.lower().split(": ", 1) for line in lines[1:] if line)
    expected = "basic " + base64.b64encode(sys.argv[4].encode()).decode().lower()
    is_right = fields.get("proxy-authorization") == expected and fields.get("host") == target
    with open(sys.argv[3], "a") as log:
        print(method, target, "right" if is_right else "wrong", sorted(fields), file=log, flush=True)
    if target.startswith("silent"):
        return client.recv(1)
    if method != "CONNECT" or target.startswith("refuse") or not is_right:
        return client.sendall(b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno")
    server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    client.sendall(b"HTTP/1.1 200 Connection established\r\nVia: 1.1 proxy\r\n\r\n")
    threading.Thread(target=pump, args=(server, client), daemon=True).start()
    pump(client, server)


def serve_and_close(client):
    with client:
        serve(client)


listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    threading.Thread(target=serve_and_close, args=(listener.accept()[0],), daemon=True).start()
