"""Passes TCP connections from one loopback port on to another: python3 forwarder.py FROM TO"""

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


listener = socket.create_server(("127.0.0.1", int(sys.argv[1])))
while True:
    client, _ = listener.accept()
    server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    for source, target in ((client, server), (server, client)):
        threading.Thread(target=pump, args=(source, target), daemon=True).start()
