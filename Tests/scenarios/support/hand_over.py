#!/usr/bin/env python3
"""Holds listening sockets and starts a program with them, like systemd with a socket unit.

hand_over.py NAME:PORT… -- COMMAND…: reads lines from standard input. `start` starts the command and prints its process
id; `wait` waits for the last process and prints its status. The sockets are closed at the end of the input.
"""

import os
import socket
import sys

split = sys.argv.index("--")
sockets, names = [], []
for argument in sys.argv[1:split]:
    name, _, port = argument.rpartition(":")
    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", int(port)))
    listener.listen(4096)
    sockets.append(listener)
    names.append(name)
command = sys.argv[split + 1:]
child = None


def start():
    pid = os.fork()
    if pid:
        return pid
    # First, the descriptors get other numbers, because one may have the number that another one needs.
    high = [os.dup(listener.fileno()) for listener in sockets]
    for place, descriptor in enumerate([os.dup2(descriptor, 200 + index) for index, descriptor in enumerate(high)]):
        os.dup2(descriptor, 3 + place, inheritable=True)
        os.close(descriptor)
    os.environ.update(LISTEN_FDS=str(len(sockets)), LISTEN_FDNAMES=":".join(names), LISTEN_PID=str(os.getpid()))
    os.execv(command[0], command)


for line in sys.stdin:
    if line.strip() == "start":
        child = start()
        print(child, flush=True)
    elif line.strip() == "wait":
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
