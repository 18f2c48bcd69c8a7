"""A broker with a reading of its anonymous memory, and clients that send bodies of one-byte chunks from many addresses."""

import os
import pathlib
import re
import select
import socket
import ssl
import subprocess
import threading
import time

from .broker import Broker as PlainBroker
from .measures import quantile
from .sandbox import Sandbox

NAME = "auth.example.test"
IPV6_FREEBIND = 78
HEAD = f"POST /v1/logins HTTP/1.1\r\nHost: {NAME}\r\nContent-Type: application/json\r\n"
CHUNKS = 10_900
CHUNKED = (HEAD + "Transfer-Encoding: chunked\r\n\r\n").encode() + b"1\r\n \r\n" * CHUNKS
PLAIN = (HEAD + f"Content-Length: {CHUNKS}\r\n\r\n").encode() + b" " * CHUNKS


def addresses(network, each):
    """Returns the senders' addresses: one of each /64 of a network, or an IPv4 address, each of them `each` times."""
    if ":" not in network:
        return [network] * each
    import ipaddress

    found = ipaddress.ip_network(network)
    subnets = [found] if found.prefixlen == 64 else found.subnets(new_prefix=64)
    return [str(part[1]) for _, part in zip(range(64 if found.prefixlen >= 56 else 2048), subnets) for _ in range(each)]


class Broker(PlainBroker):
    """A broker, with measurements of its anonymous memory."""

    def __init__(self, case, is_secure=False):
        self.is_secure = is_secure
        case.sandbox = getattr(case, "sandbox", None) or Sandbox(case, record=False)
        server = {"public_url": f"https://{NAME}"}
        if is_secure:
            key, certificate = case.folder / "key.pem", case.folder / "certificate.pem"
            subprocess.run(
                ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-keyout", key, "-out",
                 certificate, "-days", "30", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"],
                check=True, capture_output=True)
            key.chmod(0o600)
            server["tls"] = {"certificate": str(certificate), "key": str(key)}
        super().__init__(case, case.sandbox, settings={"server": server}, start=False)
        self.configure(server={"listen": f"[::]:{self.port}"})
        self.start()
        for _ in range(50):
            self.honest()
        time.sleep(0.5)
        self.rest = self.highest = self.anonymous()
        self.watching = True
        threading.Thread(target=self.watch, daemon=True).start()

    def anonymous(self):
        found = re.search(r"^RssAnon:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024

    def watch(self):
        while self.watching:
            try:
                self.highest = max(self.highest, self.anonymous())
            except (OSError, TypeError):
                return
            time.sleep(0.02)

    def spent(self):
        fields = pathlib.Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def connect(self, address):
        family = socket.AF_INET6 if ":" in address else socket.AF_INET
        end = socket.socket(family)
        if family == socket.AF_INET6:
            end.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
        else:
            end.setsockopt(socket.IPPROTO_IP, 24, 1)  # IP_BIND_ADDRESS_NO_PORT
        end.bind((address, 0))
        end.settimeout(10)
        end.connect(("::1" if family == socket.AF_INET6 else "127.0.0.1", self.port))
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.is_secure:
            return end
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context.wrap_socket(end, server_hostname=NAME)

    def honest(self, end=None):
        """Sends a small request from another address; returns its time."""
        begin = time.monotonic()
        own = end or self.connect("127.0.0.77")
        own.sendall(f"GET /v1/providers HTTP/1.1\r\nHost: {NAME}\r\n\r\n".encode())
        data = b""
        while b"\r\n\r\n" not in data or len(data.partition(b"\r\n\r\n")[2]) < int(re.search(rb"(?i)content-length: (\d+)", data)[1]):
            part = own.recv(65536)
            if not part:
                raise OSError("no answer")
            data += part
        if not end:
            own.close()
        return time.monotonic() - begin


def p99(broker, seconds):
    """The 99th percentile of the time until an honest client's request is answered."""
    end, found, until = broker.connect("127.0.0.77"), [], time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            found.append(broker.honest(end))
        except OSError:
            # A request without an answer within ten seconds counts as ten seconds.
            found.append(10.0)
            break
        time.sleep(0.002)
    end.close()
    return quantile(found, 0.99)


def open_all(broker, sources):
    ends = []
    for source in sources:
        try:
            ends.append(broker.connect(source))
        except OSError:
            pass
    return ends


def send(ends, data, until):
    """Sends the same bytes on all connections, as fast as each accepts them, until this time. Discards the answers. Returns the
    number of connections that have accepted all bytes."""
    poll, left, done = select.epoll(), {}, 0
    for end in ends:
        end.setblocking(False)
        left[end.fileno()] = [end, memoryview(data)]
        poll.register(end, select.EPOLLOUT | select.EPOLLIN)
    while left and time.monotonic() < until:
        for number, events in poll.poll(0.1):
            end, rest = left[number]
            try:
                if events & select.EPOLLIN and not end.recv(65536):
                    raise OSError("ended")
                if events & select.EPOLLOUT:
                    left[number][1] = rest = rest[end.send(rest[:32768]) :]
                    if not rest:
                        raise OSError("sent")
            except (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
            except OSError:
                done += not rest
                poll.unregister(number)
                del left[number]
    poll.close()
    return done
