"""An API behind the relay. Its answers have every framing, and come at once, late or early."""

import http.server
import threading
import time

from .measures import MIB

# Bytes that contain their own position, so that a lost or repeated piece is noticed.
PATTERN = b"".join(b"%011d\n" % line for line in range(8 * MIB // 12 + 1))


def pattern(count):
    return PATTERN[:count]


class App(http.server.BaseHTTPRequestHandler):
    """The API behind the relay: answers with every framing, at once or late, and early answers to uploads."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        try:
            super().handle_one_request()
        except OSError:
            self.close_connection = True

    def do_GET(self):
        self.server.seen.append(f"{self.command} {self.path}")
        _, kind, amount = self.path.split("/")
        if kind == "later":
            time.sleep(float(amount))
        body = pattern(int(amount)) if kind in ("bytes", "unknown") else b"done"
        self.send_response(200)
        if kind == "unknown":
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            for start in range(0, len(body), 8192):
                piece = body[start : start + 8192]
                self.wfile.write(b"%x\r\n%s\r\n" % (len(piece), piece))
            self.wfile.write(b"0\r\n\r\n")
        else:
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def do_POST(self):
        self.server.seen.append(f"{self.command} {self.path}")
        _, kind, amount = self.path.split("/")
        if kind == "refuse":
            # The answer comes before the body is read, so it must not wait for the body.
            self.send_response(413)
            self.send_header("Content-Length", amount)
            self.end_headers()
            self.wfile.write(pattern(int(amount)))
            self.wfile.flush()
            self.connection.settimeout(30)
            while self.rfile.read1(65536):
                pass
            self.close_connection = True
            return
        left = int(self.headers.get("Content-Length", 0))
        while left > 0:
            left -= len(self.rfile.read(min(left, 65536)) or b"x" * left)
        if kind == "later":
            time.sleep(float(amount))
        self.send_response(201)
        self.send_header("Content-Length", "5")
        self.end_headers()
        self.wfile.write(b"taken")


class Upstream(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def __init__(self):
        super().__init__(("127.0.0.1", 0), App)
        self.seen = []
        self.url = f"http://127.0.0.1:{self.server_port}"
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def handle_error(self, *_):
        pass
