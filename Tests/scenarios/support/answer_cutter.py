"""A proxy to PostgreSQL that withholds an answer:
    python3 answer_cutter.py PORT TO MARKER
While the file MARKER exists, the proxy looks for a client that sends the text in MARKER. After the server has answered, the
proxy closes that client's connection without the answer. It removes MARKER, and makes `MARKER.cut` when it is done.
"""

import os
import socket
import struct
import sys
import threading

PORT, TO, MARKER = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]


def shut(*ends):
    for end in ends:
        try:
            end.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass


def is_ready(answer):
    """Returns whether a server's messages contain the end of an answer: `Z`, after the commit."""
    at = 0
    while at + 5 <= len(answer):
        if answer[at : at + 1] == b"Z":
            return True
        at += 1 + struct.unpack("!I", answer[at + 1 : at + 5])[0]
    return False


def is_marked(data):
    """Returns whether the data contain the text in MARKER. If so, removes MARKER, so the next call returns false."""
    try:
        with open(MARKER, "rb") as file:
            text = file.read()
        if not text or text not in data:
            return False
        os.unlink(MARKER)
    except OSError:
        return False
    return True


def serve(client):
    server = socket.create_connection(("127.0.0.1", TO))
    doomed = threading.Event()

    def forward():
        try:
            while data := client.recv(65536):
                if is_marked(data):
                    doomed.set()
                server.sendall(data)
        except OSError:
            pass
        if not doomed.is_set():
            shut(client, server)

    threading.Thread(target=forward, daemon=True).start()
    held = b""
    try:
        while data := server.recv(65536):
            if not doomed.is_set():
                client.sendall(data)
                continue
            held += data
            if is_ready(held):
                with open(MARKER + ".cut", "w") as file:
                    file.write("cut")
                break
    except OSError:
        pass
    shut(client, server)
    client.close()
    server.close()


listener = socket.create_server(("127.0.0.1", PORT))
print("listening", flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
