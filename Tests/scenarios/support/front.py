"""A reverse proxy in front of its own sandbox. It edits the provider's answers."""

import http.client
import http.server
import json
import threading

from .gate import QuietHandler
from .sandbox import Sandbox


class Front:
    """`edits` has functions that change answers, by a part of the path. A function gets (status, fields, body, request body),
    and returns the first three.
    """

    def __init__(self, case):
        front = self
        self.edits = {}

        class Handler(QuietHandler):
            def do_POST(self):
                front.forward(self)

            do_GET = do_PUT = do_DELETE = do_POST

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.sandbox = Sandbox(case, base_url=f"http://127.0.0.1:{self.server.server_port}")

    def forward(self, handler):
        request = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        connection = http.client.HTTPConnection("127.0.0.1", self.sandbox.port, timeout=30)
        fields = {name: value for name, value in handler.headers.items() if name.lower() not in ("content-length", "connection")}
        connection.request(handler.command, handler.path, request, fields)
        answer = connection.getresponse()
        body, status = answer.read(), answer.status
        framing = ("content-length", "transfer-encoding", "connection")
        fields = {name: value for name, value in answer.getheaders() if name.lower() not in framing}
        connection.close()
        for piece, edit in self.edits.items():
            if piece in handler.path:
                status, fields, body = edit(status, fields, body, request)
        handler.send_response_only(status)
        for name, value in fields.items():
            handler.send_header(name, value)
        if status != 204:
            handler.send_header("Content-Length", str(len(body)))
        handler.end_headers()
        handler.wfile.write(body)


def of_type(text):
    """An edit that changes an answer's media type, or removes it."""
    def edit(status, fields, body, _):
        others = {name: value for name, value in fields.items() if name.lower() != "content-type"}
        return status, others | ({"Content-Type": text} if text else {}), body
    return edit


def with_members(refresh_only=False, **members):
    """Returns an edit that merges members into a JSON answer. `...` removes a member."""
    def edit(status, fields, body, request):
        if status != 200 or (refresh_only and b"grant_type=refresh_token" not in request):
            return status, fields, body
        found = json.loads(body) | members
        return status, fields, json.dumps({name: value for name, value in found.items() if value is not ...}).encode()
    return edit
