"""Relayed answers in progress when their session ends, at two replicas on one PostgreSQL (guarantee 6). Event streams end within
a second, or five if the notice is lost, and look complete. Downloads are broken off five seconds after the end.
"""

import contextlib
import http.server
import pathlib
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import ADMIN, Broker, sha256  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.gate import Gate  # noqa: E402
from support.replicas import psql  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402

# In seconds: the one second of the guarantee, and some time for a slow machine.
AT_ONCE = 1.5
WITHOUT_NOTICE = 5.5


class Upstream:
    """An API with endless answers: `/events` and `/download` write repeatedly, `/quiet` writes once and waits.

    The API records, by the call's `id`, when each call's caller disconnected.
    """

    def __init__(self):
        upstream = self
        self.closed = {}

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_GET(self):
                parts = urllib.parse.urlsplit(self.path)
                name = urllib.parse.parse_qs(parts.query)["id"][0]
                with contextlib.suppress(OSError):
                    self.send_response(200)
                    self.send_header("Content-Type", "text/plain" if parts.path == "/download" else "text/event-stream")
                    self.send_header("Transfer-Encoding", "chunked")
                    self.end_headers()
                    self.wfile.write(b"6\r\n: hi\n\n\r\n")
                    while not Gate.hung_up(self.connection):
                        time.sleep(0.05)
                        if parts.path != "/quiet":
                            self.wfile.write(b"9\r\ndata: a\n\n\r\n")
                upstream.closed[name] = time.monotonic()
                self.close_connection = True

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


class Stream:
    """A relayed answer, which a thread reads until its end."""

    count = 0

    def __init__(self, upstream, broker, session, path="/events", bearer=False):
        Stream.count += 1
        self.upstream, self.name = upstream, str(Stream.count)
        self.data, self.ended, self.how = b"", None, None
        credential = f"Authorization: Bearer {session}" if bearer else f"Cookie: coatcheck={session}"
        host = urllib.parse.urlsplit(broker.settings["server"]["public_url"]).netloc
        self.socket = socket.create_connection(("127.0.0.1", broker.port))
        self.socket.sendall(
            f"GET /v1/relay/api{path}?id={self.name} HTTP/1.1\r\nHost: {host}\r\n{credential}\r\nConnection: close\r\n\r\n".encode())
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while part := self.socket.recv(1 << 16):
                self.data += part
            self.how = "fin"
        except OSError:
            self.how = "reset"
        self.ended = time.monotonic()

    def opens(self):
        return wait_for(20, lambda: b": hi" in self.data)

    @property
    def is_whole(self):
        return self.how == "fin" and self.data.endswith(b"\r\n0\r\n\r\n")

    def after(self, moment):
        """Returns after how many seconds since `moment` the client and the upstream noticed the answer's end, or None."""
        return tuple(None if end is None else end - moment for end in (self.ended, self.upstream.closed.get(self.name)))


def is_within(times, limit, least=0):
    return all(time is not None and least <= time <= limit for time in times)


def told(times):
    return [None if time is None else round(time, 2) for time in times]


class Stage:
    """Two replicas in front of one upstream."""

    def __init__(self, case, database):
        self.case, self.database, self.upstream = case, database, Upstream()
        self.sandbox = Sandbox(case)
        self.brokers = []
        for name in ("one", "two"):
            broker = Broker(
                case, self.sandbox, name=name, like=self.brokers[0] if self.brokers else None, start=False, settings={
                    "store": {"url": database.url()},
                    "providers": {"oidc": {"clients": {"ios": {"children": {
                        "widget": {"upstreams": ["api"]}, "brief": {"upstreams": ["api"], "idle": "6s"}}}}}},
                    "upstreams": {"api": {"base_url": self.upstream.url, "provider": "oidc", "allow": ["GET /**"]}}})
            if self.brokers:
                broker.configure(server={"public_url": self.brokers[0].url})
            broker.start()
            self.brokers.append(broker)
        self.one, self.two = self.brokers
        self.users = 0

    def begin(self, user=None):
        self.users += 1
        return self.one.sign_in(user=user or f"user-{self.users}")

    def child(self, parent, kind="widget"):
        answer = self.one.call("POST", "/v1/session/children", parent, {"kind": kind, "name": "home"})
        return answer.json["session_token"]

    def open(self, session, path="/events", bearer=False):
        """Opens a relayed answer of this path at both replicas, and returns the two streams."""
        return [Stream(self.upstream, broker, session, path, bearer) for broker in self.brokers]

    def query(self, sql):
        subprocess.run(psql(self.database, "-c", sql), check=True, capture_output=True)


def endings(case):
    """Event streams at both replicas, and the ways to end a session."""
    with Database() as database:
        stage = Stage(case, database)
        one, two = stage.one, stage.two

        def admin(session):
            handle = one.look(session).json["handle"]
            return call(f"{two.management}/admin/v1/sessions/{handle}", "DELETE", Authorization=f"Bearer {ADMIN}").status

        others = {}
        ways = {
            "a log-out": lambda session: two.log_out(session).status,
            "an operator": admin,
            "a log-out of all others": lambda session: two.call("DELETE", "/v1/sessions?except=current", others[session]).status,
        }
        for name, end in ways.items():
            session = stage.begin(user=name.replace(" ", "-"))
            others[session] = stage.begin(user=name.replace(" ", "-"))
            child = stage.child(session)
            streams = stage.open(session) + stage.open(session, "/quiet") + stage.open(child, bearer=True)
            rest = Stream(stage.upstream, two, others[session])
            opened = [stream.opens() for stream in [*streams, rest]]
            case.verdict(all(opened), f"seven streams are opened before {name} → all are open", opened)
            begun = time.monotonic()
            status = end(session)
            case.verdict(status in (200, 204), f"the session is ended by {name} → 200 or 204", status)
            wait_for(8, lambda: all(stream.ended and stream.name in stage.upstream.closed for stream in streams))
            times = [stream.after(begun) for stream in streams]
            case.verdict(all(is_within(time, AT_ONCE) for time in times), f"a session is ended by {name} → at both replicas, the streams of the session and its child end within a second, and so do their upstream calls", [told(time) for time in times])
            case.verdict(all(stream.is_whole for stream in streams), f"a session is ended by {name} → each of the session's streams ends with its last chunk, like a complete answer", [stream.how for stream in streams])
            case.verdict(rest.ended is None, f"the session is ended by {name} → another session's stream continues")
            case.same(204, one.log_out(others[session]).status, "a log-out of a session whose stream is open → 204")
            case.verdict(wait_for(5, lambda: rest.is_whole), "a log-out of a session whose stream is open → the stream ends with its last chunk, like a complete answer")


def silent(case):
    """A session ends without a notice, another one lapses, and a third one ends during downloads."""
    with Database() as database:
        stage = Stage(case, database)
        parent = stage.begin()
        quiet, busy = stage.child(parent, "brief"), stage.child(stage.begin(), "brief")
        made = time.monotonic()
        lapsing = stage.open(quiet, "/quiet", bearer=True)
        used = stage.open(busy, bearer=True)
        lost, loading = stage.begin(), stage.begin()
        unnoticed, downloads = stage.open(lost) + stage.open(lost, "/quiet"), stage.open(loading, "/download")
        opened = [stream.opens() for stream in [*lapsing, *used, *unnoticed, *downloads]]
        case.verdict(all(opened), "streams and downloads of four sessions are opened → all ten are in progress", opened)

        begun = time.monotonic()
        token = f"token = '\\x{sha256(lost)}'"
        stage.query(
            f"UPDATE session_states SET ended = true WHERE {token}; UPDATE sessions SET ended_at = {int(time.time() * 1000)}, "
            f"end_reason = 'admin', tokens_key = NULL, tokens = NULL WHERE {token}")
        ended = time.monotonic()
        case.same(204, stage.two.log_out(loading).status, "a log-out of the session with downloads → 204")
        wait_for(12, lambda: all(stream.ended and stream.name in stage.upstream.closed for stream in unnoticed + downloads))
        times = [stream.after(begun) for stream in unnoticed]
        case.verdict(all(is_within(time, WITHOUT_NOTICE) for time in times), "a session ends and the replicas get no notice → the session's streams end within five seconds", [told(time) for time in times])
        case.verdict(all(stream.is_whole for stream in unnoticed), "a session ends and the replicas get no notice → the session's streams end with their last chunk, like complete answers", [stream.how for stream in unnoticed])
        times = [stream.after(ended) for stream in downloads]
        case.verdict(all(is_within(time, 5 + AT_ONCE, 4.9) for time in times), "a session ends during downloads → the downloads continue for five seconds", [told(time) for time in times])
        case.verdict(not any(stream.data.endswith(b"0\r\n\r\n") for stream in downloads), "a session ended during downloads → the downloads are broken off without a last chunk, so that apps see an incomplete answer", [stream.how for stream in downloads])

        wait_for(10, lambda: all(stream.ended and stream.name in stage.upstream.closed for stream in lapsing))
        times = [stream.after(made) for stream in lapsing]
        case.verdict(all(is_within(time, 6 + AT_ONCE, 4) for time in times), "a child session is not used for its idle time of six seconds → the session lapses, and its streams end", [told(time) for time in times])
        case.verdict(all(stream.is_whole for stream in lapsing), "a child session lapses → its streams end with their last chunk, like complete answers", [stream.how for stream in lapsing])
        time.sleep(max(0, made + 14 - time.monotonic()))
        case.verdict(not any(stream.ended for stream in used), "a child session whose streams carry bytes → the streams go on for 14 seconds, beyond the idle time")
        case.same(200, stage.two.call("GET", "/v1/session", Authorization=f"Bearer {busy}").status, "a child session whose streams carry bytes → replica two serves the session after 14 seconds")


if __name__ == "__main__":
    main({"endings": (endings, 120), "silent": (silent, 120)}, __doc__)
