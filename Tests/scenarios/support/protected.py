"""The two servers around a proxy with a recipe of deploy/forward-auth. One is the protected service, and the other takes the
place of the broker. Both run in this process.
"""

import http.server
import json
import threading


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128

    def handle_error(self, *_):
        pass


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, fields, body=b"", status=200):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)


def serve(handler):
    server = Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    return f"127.0.0.1:{server.server_port}"


class Service:
    """A service that counts its requests. It answers with the header fields that it received, each with all its values."""

    def __init__(self):
        self.count, service = 0, self

        class Protected(Handler):
            def do_GET(self):
                service.count += 1
                fields = {}
                for name, value in self.headers.items():
                    # The names that a service sees if it maps names to variables, like CGI.
                    fields.setdefault("".join(c if c.isalnum() else "_" for c in name.lower()), []).append(value)
                self.answer({"Content-Type": "application/json"}, json.dumps({"path": self.path, "fields": fields}).encode())

            do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_GET

        self.address = serve(Protected)


class Yes:
    """Answers every question of a proxy with 200 and these fields, and records the fields of the question."""

    def __init__(self):
        self.fields, self.asked, yes = {}, None, self

        class Broker(Handler):
            def do_GET(self):
                yes.asked, yes.path = self.headers, self.path
                self.answer(yes.fields)

        self.address = serve(Broker)
