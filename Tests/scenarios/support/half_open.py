#!/usr/bin/env python3
"""Begins many TLS handshakes and leaves them open: PORT PID HOW-MANY. Prints their cost as a JSON object.

The handshakes come from many loopback addresses, so that the limit of an address does not stop them. Each connection sends
half of a ClientHello.
"""
import json
import resource
import select
import socket
import ssl
import sys
import time

resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
port, pid, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])


def resident():
    with open("/proc/%s/status" % pid) as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS"))


def hello():
    """The first half of a client's first message."""
    incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.wrap_bio(incoming, outgoing, server_hostname="auth.example.com").do_handshake()
    except ssl.SSLWantReadError:
        pass
    text = outgoing.read()
    return text[: len(text) // 2]


def honest(source):
    """Makes a whole handshake and a request. Returns whether the answer is 200."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    plain = socket.create_connection(("127.0.0.1", port), 20, (source, 0))
    with context.wrap_socket(plain, server_hostname="auth.example.com") as stream:
        stream.sendall(b"GET /v1/providers HTTP/1.1\r\nHost: auth.example.com:%d\r\nConnection: close\r\n\r\n" % port)
        return stream.recv(4096).startswith(b"HTTP/1.1 200")


honest("127.0.0.1")
before = resident()
begun = time.monotonic()
first_half = hello()
peers = []
for number in range(count):
    peer = socket.socket()
    peer.bind(("127.0.%d.%d" % (1 + number // 100, 1 + number % 100), 0))
    peer.connect(("127.0.0.1", port))
    peer.sendall(first_half)
    peers.append(peer)
time.sleep(1)
during = resident()
served = honest("127.0.0.1")
# A single address may have 128 connections, so 172 of these 300 are refused.
own = []
for number in range(300):
    peer = socket.socket()
    peer.bind(("127.9.9.9", 0))
    peer.connect(("127.0.0.1", port))
    own.append(peer)
poller = select.poll()
for peer in own:
    poller.register(peer, select.POLLIN)
refused, patience = 0, time.monotonic() + 20
while refused < 172 and time.monotonic() < patience:
    refused = len(poller.poll(0))
    time.sleep(0.05)
# The server closes each unfinished handshake when the time for it is over.
closed, deadline = set(), time.monotonic() + 60
while len(closed) < len(peers) and time.monotonic() < deadline:
    open_peers = [peer for peer in peers if peer not in closed]
    poller = select.poll()
    for peer in open_peers:
        poller.register(peer, select.POLLIN | select.POLLHUP | select.POLLERR)
    known = {peer.fileno(): peer for peer in open_peers}
    for descriptor, _ in poller.poll(1000):
        try:
            # An alert may come before the end.
            if not known[descriptor].recv(4096):
                closed.add(known[descriptor])
        except OSError:
            closed.add(known[descriptor])
took = time.monotonic() - begun
after = resident()
print(json.dumps({
    "kib_each": round((during - before) / count, 1), "kib_in_all": during - before, "kib_left": after - before,
    "served_meanwhile": served, "refused_of_one_address": refused, "closed": len(closed), "seconds": round(took, 1),
    "ok": served and refused >= 150 and len(closed) == count and during - before < 128 * 1024,
}))
