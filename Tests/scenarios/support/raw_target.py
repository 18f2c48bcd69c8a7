"""The broker that gets the raw requests: its routes, its sessions, and the hidden request that must not be executed."""

import argparse
import concurrent.futures
import socket
import threading

from verdicts import Verdicts
from wire import answers, read_all

options = argparse.ArgumentParser()
options.add_argument("--broker", required=True)
options.add_argument("--management", required=True)
options.add_argument("--session", required=True, help="a session token")
options.add_argument("--victim", required=True, help="another session's token")
options.add_argument("--without", default="", help="a route that is left out")
options.add_argument("--backend", required=True, help="a backend's credential for forward-auth")
options.add_argument("--pid", required=True, type=int)
options.add_argument("--only", help="cases whose name has this in it")
options.add_argument("--idle", type=int, default=2000, help="idle sockets while others are served")
options.add_argument("--no-slow", action="store_true", help="leave out the slow clients (they take over a minute)")
options = options.parse_args()

AUTHORITY = options.broker.removeprefix("http://")
HOST, PORT = AUTHORITY.split(":")
BEARER = f"Authorization: Bearer {options.session}"
verdicts = Verdicts()
verdict, lock = verdicts.verdict, threading.Lock()


def connect(receive_buffer=None):
    end = socket.socket()
    if receive_buffer:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    end.settimeout(10)
    end.connect((HOST, int(PORT)))
    end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return end


def exchange(data, seconds=10):
    """Sends data, even if the other side does not read all of it, and then reads until the end. Returns the answers, and whether
    the connection ended."""
    end = connect()

    def send():
        try:
            end.sendall(data)
        except OSError:
            pass

    sender = threading.Thread(target=send, daemon=True)
    sender.start()
    got, how = read_all(end, seconds)
    end.close()
    sender.join(5)
    return answers(got), how != "open"


class Route:
    def __init__(self, name, line, *fields):
        self.name, self.line, self.fields = name, line, list(fields)

    def request(self, *fields, body=b"", line=None, host=f"Host: {AUTHORITY}", version="HTTP/1.1"):
        """Builds a request from fields and a body, as text (Latin-1) or bytes. `line` replaces method and target."""
        text = [f"{line or self.line} {version}"] + ([host] if host else []) + self.fields + list(fields)
        head = b"\r\n".join(part if isinstance(part, bytes) else part.encode("latin1") for part in text)
        return head + b"\r\n\r\n" + (body if isinstance(body, bytes) else body.encode("latin1"))


SESSION = Route("session", "GET /v1/session", BEARER)
LOGINS = Route("logins", "POST /v1/logins", "Content-Type: application/json")
FORWARD_AUTH = Route(
    "forward-auth", "GET /v1/forward-auth", f"X-Coatcheck-Backend: {options.backend}", f"X-Coatcheck-Session: {options.session}")
RELAY = Route("relay", "POST /v1/relay/api/echo", BEARER, "Content-Type: text/plain")
ROUTES = [route for route in (SESSION, LOGINS, FORWARD_AUTH, RELAY) if route.name != options.without]
GETS = [route for route in (SESSION, FORWARD_AUTH) if route in ROUTES]
VICTIM = f"Authorization: Bearer {options.victim}"
SMUGGLED = Route("smuggled", "DELETE /v1/session", VICTIM).request()
smuggled_count = 0


def with_smuggled(data):
    global smuggled_count
    with lock:
        smuggled_count += 1
    return data + SMUGGLED


def run(jobs, work):
    jobs = [job for job in jobs if not options.only or len(job) < 2 or options.only in job[1]]
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        for done in [pool.submit(work, *job) for job in jobs]:
            done.result()
