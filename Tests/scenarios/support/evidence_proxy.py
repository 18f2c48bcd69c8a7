"""An HTTP proxy in front of the broker's replicas. It uses them in turn, reports each request with its evidence, and disturbs
requests if a test asks for it. Prints its port, and ends with its input.

    python3 evidence_proxy.py TARGET_PORT… [--port PORT]

    GET /_calls                     the requests since the last DELETE: {method, path, proof, pass, presence, status, code, iat}
    DELETE /_calls                  forgets them, and the planned disturbances
    POST /_meddle/KIND/TIMES/PATH   disturbs the next TIMES requests for a path:
        twice       sent to the broker twice, as a network stack does; the second answer is passed on
        cut         the connection is closed without an answer
        lost        sent to the broker, and the connection is closed without its answer
        late        sent to the broker; the answer is passed on after POST /_release
        CODE        answered here with a 401 and that code: `use_dpop_nonce`, `proof_required`; `key` makes `proof_invalid`;
                    `step_up_required` requires a sign-in of the last five minutes; `presence-REASON` makes `presence_invalid`
        held        like `step_up_required`, but after POST /_release
        older       answered with the session as an out-of-date replica shows it: the version before, without a presence key,
                    with the class `older`; event streams, too
        unversioned the same, as a release without versions shows it
    POST /_end/PASS                 from now on, that pass is removed from requests, as if it had ended
"""

import base64
import http.client
import http.server
import json
import os
import itertools
import re
import sys
import threading

port = int(sys.argv.pop(sys.argv.index("--port") + 1)) if "--port" in sys.argv else 0
targets = itertools.cycle([int(one) for one in sys.argv[1:] if one != "--port"])
lock = threading.Lock()
calls = []
meddling = []
ended = set()
released = threading.Event()


def claims_of(proof):
    try:
        part = proof.split(".")[1]
        return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))
    except (AttributeError, IndexError, ValueError):
        return {}


def former(session, kind):
    """A session object as it was before its last change."""
    session |= {"presence": None, "acr": "older"}
    session |= {"version": session["version"] - 1} if kind == "older" else {}
    return {name: value for name, value in session.items() if name != "version" or kind == "older"}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def answer(self, status, fields, body):
        self.send_response_only(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def control(self):
        global calls, meddling
        with lock:
            if self.command == "DELETE":
                calls, meddling = [], []
                released.clear()
            elif self.path == "/_release":
                released.set()
            elif self.path.startswith("/_end/"):
                ended.add(self.path.split("/")[2])
            elif self.command == "POST":
                _, _, kind, times, path = self.path.split("/", 4)
                meddling += [(kind, "/" + path)] * int(times)
            body = json.dumps(calls).encode()
        self.answer(200, [("Content-Type", "application/json")], body)

    def refusal(self, kind):
        code, reason = ("proof_invalid", kind) if kind == "key" else (kind, None)
        if kind.startswith("presence-"):
            code, reason = "presence_invalid", kind.split("-")[1]
        problem = {"type": "about:blank", "title": "Refused", "status": 401, "code": code, "detail": "", "request_id": "req_" + "A" * 22}
        if reason:
            problem["reason"] = reason
        if code == "step_up_required":
            problem["step_up"] = {"max_age": 300}
        fields = [("Content-Type", "application/problem+json"), ("Coatcheck-Source", "broker")]
        if code != "presence_invalid":
            fields.append(("DPoP-Nonce", "A" * 16))
        return 401, fields, json.dumps(problem).encode()

    def forward(self, body, kind):
        fields = {name: value for name, value in self.headers.items() if name.lower() not in ("connection", "keep-alive")}
        fields = {name: value for name, value in fields.items() if value not in ended}
        for name in fields:
            if name.lower() == "cookie":
                fields[name] = "; ".join(part for part in fields[name].split("; ") if part.split("=")[-1] not in ended)
        for _ in range(2 if kind == "twice" else 1):
            with lock:
                target = next(targets)
            connection = http.client.HTTPConnection("127.0.0.1", target, timeout=90)
            connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
            for name, value in fields.items():
                connection.putheader(name, value)
            connection.endheaders(body)
            response = connection.getresponse()
            if kind == "twice" and _ == 0:
                response.read()
                connection.close()
        return response

    def serve(self):
        if self.path.startswith("/_"):
            return self.control()
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.split("?")[0]
        with lock:
            found = next((one for one in meddling if one[1] == path), None)
            if found:
                meddling.remove(found)
        kind = found[0] if found else None
        claims = claims_of(self.headers.get("DPoP"))
        presence = claims_of(self.headers.get("Coatcheck-Presence"))
        call = {
            "method": self.command, "path": path, "proof": bool(self.headers.get("DPoP")), "iat": claims.get("iat"), "jti": claims.get("jti"), "presence": presence.get("jti"),
            "pass": bool(self.headers.get("Coatcheck-Pass")) or bool(re.search(r"-pass=", self.headers.get("Cookie") or ""))}
        with lock:
            calls.append(call)
        if kind == "cut":
            self.close_connection = True
            return
        if kind == "held":
            released.wait(60)
            kind = "step_up_required"
        if kind not in (None, "twice", "lost", "late", "older", "unversioned"):
            status, fields, content = self.refusal(kind)
            call |= {"status": status, "code": json.loads(content)["code"]}
            return self.answer(status, fields, content)
        response = self.forward(body, kind)
        if kind == "lost":
            response.read()
            self.close_connection = True
            return
        call["status"] = response.status
        fields = [pair for pair in response.getheaders() if pair[0].lower() not in ("connection", "keep-alive", "transfer-encoding", "content-length")]
        call["code"] = response.getheader("Coatcheck-Code")
        if "event-stream" not in (response.getheader("Content-Type") or ""):
            body = response.read()
            if kind == "late":
                released.wait(60)
            if kind in ("older", "unversioned") and response.status == 200:
                body = json.dumps(former(json.loads(body), kind)).encode()
            return self.answer(response.status, fields, body)
        self.send_response_only(response.status)
        for name, value in fields + [("Connection", "close")]:
            self.send_header(name, value)
        self.end_headers()
        self.close_connection = True
        while part := response.readline() if kind else response.read1(65536):
            if kind in ("older", "unversioned") and part.startswith(b'data: {"handle"'):
                part = b"data: " + json.dumps(former(json.loads(part[6:]), kind)).encode() + b"\n"
            self.wfile.write(part)
            self.wfile.flush()

    do_GET = do_POST = do_PUT = do_DELETE = do_PATCH = do_HEAD = serve


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 256

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", port), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_port, flush=True)
sys.stdin.read()
os._exit(0)
