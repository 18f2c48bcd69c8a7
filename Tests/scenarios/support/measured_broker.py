"""A broker in front of its own upstream, with measurements of its memory and its processor time.

Every case has its own broker, so the memory belongs to that case. It is measured at rest, and as the highest value during the
case. The brokers have an https `public_url`, because limits do not apply to loopback clients if `public_url` is a loopback
address. Each flood is limited in bytes and time, and stops when the broker uses 400 MiB more than at rest. The limits are those
of a release build.
"""

import os
import resource
import socket
import threading
import time

from .broker import Broker as PlainBroker
from .measures import MIB
from .relayed_app import Upstream
from .sandbox import Sandbox
from .wire import answers, read_all

NAME = "auth.example.test"
ALLOWED = 32 * MIB
GIVE_UP = 400 * MIB


class Broker(PlainBroker):
    """A broker in front of its own upstream, with measurements of its memory."""

    def __init__(self, case, title, trusted=(), cache="5s", places=1024, descriptors=None):
        self.title, self.upstream = title, Upstream()
        case.sandbox = getattr(case, "sandbox", None) or Sandbox(case)
        super().__init__(
            case, case.sandbox, name="".join(c if c.isalnum() else "-" for c in title),
            prefix=["prlimit", f"--nofile={descriptors}"] if descriptors else [],
            settings={
                "server": {"public_url": f"https://{NAME}", "trusted_proxies": list(trusted)}, "session": {"cache": cache},
                "upstreams": {"app": {
                    "base_url": self.upstream.url, "provider": "oidc", "max_concurrent": places,
                    "allow": ["GET /bytes/*", "GET /unknown/*", "GET /later/*", "POST /taken/*", "POST /later/*", "POST /refuse/*"]}}})
        self.lowest = self.highest = self.resident()
        self.watching = True
        threading.Thread(target=self.watch, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.watching = False
        died = self.process.poll() is not None
        self.stop()
        self.upstream.shutdown()
        self.upstream.server_close()
        if died:
            self.case.verdict(False, f"{self.title}, end of the case → the broker still runs")

    # -- memory and time

    def watch(self):
        while self.watching:
            self.highest = max(self.highest, self.resident())
            time.sleep(0.02)

    def rest(self):
        """Begins to measure. The present resident memory counts as rest."""
        for path in ("/v1/providers", "/openapi.yaml", "/nothing"):
            self.ask("GET", path)
        time.sleep(0.3)
        self.lowest = self.highest = self.resident()

    @property
    def is_swollen(self):
        return self.highest - self.lowest > GIVE_UP

    def within(self, name, note=""):
        """Prints the measured values, and whether they are low enough."""
        self.highest = max(self.highest, self.resident())
        before, peak = self.lowest / MIB, self.highest / MIB
        self.case.say(f"{name}: the broker's memory is {before:.0f} MiB before and {peak:.0f} MiB at its peak{' (' + note + ')' if note else ''}")
        self.case.verdict(
            self.highest - self.lowest <= ALLOWED, f"{name} → the broker's resident memory grows by at most 32 MiB",
            f"{before:.1f} → {peak:.1f} MiB")

    def processor_time(self):
        fields = open(f"/proc/{self.process.pid}/stat").read().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    # -- requests

    def connect(self, source=None, slow=False, seconds=10):
        end = socket.socket()
        if slow:
            end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 1400)
        if source:
            end.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
            end.bind((source, 0))
        end.settimeout(seconds)
        end.connect(("127.0.0.1", self.port))
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return end

    def ask(self, method, path, *fields, body=b"", source=None, seconds=10):
        """Makes one call on its own connection. Returns (status, fields, body), or status 0 and the reason."""
        try:
            end = self.connect(source, seconds=seconds)
            with end:
                end.sendall(head(f"{method} {path}", "Connection: close", *fields, length=len(body)) + body)
                found = answers(read_all(end, seconds)[0])
                return found[0] if found else (0, {}, b"no answer")
        except OSError as error:
            return 0, {}, str(error).encode()

    def sign_in(self, user="ana"):
        """Signs a user in and returns the field that holds the session."""
        return "Authorization: Bearer " + super().sign_in(user, client="android")


def head(line, *fields, length=0, version="HTTP/1.1", host=NAME):
    text = [f"{line} {version}", f"Host: {host}", *fields] + ([f"Content-Length: {length}"] if length else [])
    return ("\r\n".join(text) + "\r\n\r\n").encode()


def allow_descriptors():
    """Allows this process, and its brokers, to use as many descriptors as the machine permits."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
