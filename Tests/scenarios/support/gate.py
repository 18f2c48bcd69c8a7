"""A gate in front of a provider. It delays, counts, answers or breaks off calls."""

import contextlib
import dataclasses
import http.server
import select
import socket
import threading
import time
import urllib.parse

from .calls import call


@dataclasses.dataclass
class GatedCall:
    """A call at the gate: its path and form, when it began and ended (answered or broken off), and the answer's status."""

    path: str
    form: dict
    began: float
    ended: float | None = None
    status: int | None = None

    @property
    def refresh_token(self):
        return self.form.get("refresh_token")


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """A handler that keeps its connections and logs nothing. If a client disconnects, the connection just ends."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        with contextlib.suppress(OSError):
            super().handle_one_request()


class Gate:
    """A gate in front of a provider. It passes calls on, and applies the planned effects to the next calls.

    `plan` has the effects for the next calls in order, `always` the effect for all later calls. An effect is a function of the
    call and of a function that passes the call on. It returns (status, fields, body), or None to break off.
    """

    def __init__(self, sandbox):
        gate = self
        self.sandbox = sandbox
        self.calls = []
        self.plan = []
        self.always = Gate.pass_on
        self.lock = threading.Lock()

        class Handler(QuietHandler):
            def do_POST(self):
                gate.take(self)

            do_GET = do_POST

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1024

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        form = dict(urllib.parse.parse_qsl(body.decode("latin1")))
        taken = GatedCall(handler.path, form, time.monotonic())
        taken.is_open = lambda: not Gate.hung_up(handler.connection)
        with self.lock:
            self.calls.append(taken)
            what = self.plan.pop(0) if self.plan else self.always

        def forward():
            fields = {n.replace("-", "_"): v for n, v in handler.headers.items() if n.lower() not in ("host", "content-length", "connection")}
            answer = call(self.sandbox.url + handler.path, handler.command, body, **fields)
            return answer.status, {"Content-Type": answer.fields["Content-Type"] or "text/plain"}, answer.body

        answer = what(taken, forward)
        taken.ended = time.monotonic()
        if answer is None or Gate.hung_up(handler.connection):
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        taken.status, fields, content = answer
        handler.send_response(taken.status)
        for name, value in fields.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    @staticmethod
    def hung_up(connection):
        if not select.select([connection], [], [], 0)[0]:
            return False
        try:
            return connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    @staticmethod
    def wait(taken, seconds=None, event=None):
        """Waits for `seconds`, or for an event. Ends early if the caller disconnects."""
        end = time.monotonic() + (60 if seconds is None else seconds)
        while time.monotonic() < end and taken.is_open():
            if event and event.wait(0.02):
                return
            if not event:
                time.sleep(0.02)

    # The effects on a call.

    @staticmethod
    def pass_on(_, forward):
        return forward()

    @staticmethod
    def slow(seconds):
        """Passes the call on to the provider after this time, if the caller is still connected."""

        def act(taken, forward):
            Gate.wait(taken, seconds)
            return forward() if taken.is_open() else None

        return act

    @staticmethod
    def hang(seconds=60):
        """Waits for this time, and then breaks the call off. The provider does not receive it."""

        def act(taken, _):
            Gate.wait(taken, seconds)

        return act

    @staticmethod
    def hold(event):
        """Passes the call on at once, and holds the provider's answer back until an event."""

        def act(taken, forward):
            answer = forward()
            taken.worked = True
            Gate.wait(taken, event=event)
            return answer

        return act

    @staticmethod
    def answer(status, body=b"", **fields):
        return lambda *_: (status, {name.replace("_", "-"): value for name, value in fields.items()}, body)

    # The received calls.

    def refreshes(self, token=None):
        return [c for c in list(self.calls) if c.refresh_token and token in (None, c.refresh_token)]

    @staticmethod
    def most_at_once(calls):
        """The greatest number of calls in progress at the same time."""
        now = time.monotonic()
        moments = sorted([(c.began, 1) for c in calls] + [(c.ended or now, -1) for c in calls])
        most = running = 0
        for _, step in moments:
            running += step
            most = max(most, running)
        return most
