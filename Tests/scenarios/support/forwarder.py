"""Passes TCP connections from one loopback port on to another, ending TLS if it has a certificate:

    python3 forwarder.py FROM TO [CERTIFICATE KEY]
"""

import socket
import ssl
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
context = None
if len(sys.argv) > 3:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(sys.argv[3], sys.argv[4])
while True:
    client, _ = listener.accept()
    if context:
        try:
            client = context.wrap_socket(client, server_side=True)
        except (ssl.SSLError, OSError):
            continue
    server = socket.create_connection(("127.0.0.1", int(sys.argv[2])))
    for source, target in ((client, server), (server, client)):
        threading.Thread(target=pump, args=(source, target), daemon=True).start()
