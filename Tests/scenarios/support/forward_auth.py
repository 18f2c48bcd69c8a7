"""The two servers that the test of the forward-auth recipes needs in addition to the broker (forward_auth.bash).

  forward_auth.py upstream PORT   the protected service: answers with the headers that it got, and /count with their number
  forward_auth.py broker PORT     takes a broker's place, and answers according to the last `PUT /mode` and MODES
"""

import http.server
import json
import socketserver
import sys
import time

PROBLEM = {"Content-Type": "application/problem+json"}
IDENTITY = {"X-Auth-Subject": "mallory", "X-Auth-Session": "ses_0000000000000000000000"}



def wanting(code, title, challenge, reason=None):
    """The broker's 401 for a session that has not ended."""
    headers = {**PROBLEM, "WWW-Authenticate": challenge, "Coatcheck-Code": code, "DPoP-Nonce": "the-next-nonce-0"}
    body = {"type": f"urn:coatcheck:problem:{code}", "title": title, "status": 401, "code": code}
    if reason:
        headers["Coatcheck-Reason"] = body["reason"] = reason
    return 401, headers, json.dumps(body), 0


# Mode: status, headers, body, seconds to wait.
MODES = {
    "busy": (503, {**PROBLEM, "Retry-After": "7"}, '{"status":503,"code":"store_unavailable"}', 0),
    "limited": (429, {**PROBLEM, "Retry-After": "7"}, '{"status":429,"code":"rate_limited"}', 0),
    "broken": (500, PROBLEM, '{"status":500,"code":"internal_error"}', 0),
    "bad-gateway": (502, PROBLEM, '{"status":502,"code":"provider_error"}', 0),
    "ambiguous": (400, PROBLEM, '{"status":400,"code":"invalid_request"}', 0),
    "forbidden": (403, PROBLEM, '{"status":403,"code":"backend_not_allowed"}', 0),
    "misdirected": (421, PROBLEM, '{"status":421,"code":"wrong_host"}', 0),
    "redirect": (302, {"Location": "/mode"}, "", 0),
    "not-modified": (304, {}, "", 0),
    "html": (404, {"Content-Type": "text/html"}, "<h1>Welcome</h1>", 0),
    "aging": (200, {**IDENTITY, "DPoP-Nonce": "the-next-nonce-0"}, "", 0),
    "step-up": wanting("step_up_required", "Step-up required", 'DPoP error="insufficient_user_authentication", acr_values="mfa"'),
    "presence": wanting("presence_required", "Presence required", 'DPoP error="presence_required", algs="ES256"'),
    "presence-nonce": wanting("presence_invalid", "Invalid proof of presence", 'DPoP error="presence_invalid", algs="ES256"', "nonce"),
    "slow": (200, IDENTITY, "", 6),
    "nothing": (0, {}, "", 0),
}
mode = ["busy"]
count = [0]


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def read_body(self):
        return self.rfile.read(int(self.headers.get("Content-Length") or 0))

    def answer(self, status, headers, body):
        body = body.encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        if status != 304:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD" and status != 304:
            self.wfile.write(body)

    def log_message(self, *_):
        pass


class Upstream(Handler):
    def do_any(self):
        body = self.read_body().decode("latin-1")
        if self.path == "/count":
            return self.answer(200, {}, str(count[0]))
        count[0] += 1
        fields = {}
        for name, value in self.headers.items():
            # The names that a service gets if it maps them to variables, as CGI does.
            plain = "".join(c if c.isalnum() else "_" for c in name.lower())
            fields.setdefault(plain, []).append(value)
        document = {"method": self.command, "path": self.path, "body": body, "fields": fields, "served": "protected"}
        self.answer(200, {"Content-Type": "application/json", "DPoP-Nonce": "of-the-service"}, json.dumps(document))

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_any


class Broker(Handler):
    def do_PUT(self):
        mode[0] = self.read_body().decode()
        self.answer(200 if mode[0] in MODES else 400, {}, "")

    def do_GET(self):
        self.read_body()
        status, headers, body, wait = MODES[mode[0]]
        if self.path == "/mode":  # where the redirect leads: a "yes" that must not be believed
            return self.answer(200, IDENTITY, "")
        time.sleep(wait)
        if status == 0:
            self.close_connection = True
            return None
        try:
            self.answer(status, headers, body)
        except OSError:
            pass


class Server(socketserver.ThreadingMixIn, http.server.HTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    request_queue_size = 128


if __name__ == "__main__":
    role, port = sys.argv[1:]
    Server(("127.0.0.1", int(port)), {"upstream": Upstream, "broker": Broker}[role]).serve_forever()
