"""A user whose phone has a session key and a presence key, and a broker with an upstream that requires presence."""

import collections
import http.server
import threading

from .broker import Broker
from .dpop import Phone
from .step_up import told
from .wire import free_port

KEY = "/v1/session/presence-key"
PAY = "/v1/relay/pay/payments"


class Upstream:
    """An upstream that counts its requests and keeps their fields. A test can switch it off."""

    def __init__(self):
        self.calls, self.fields = collections.Counter(), []
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.server = None
        self.come()

    def come(self):
        upstream = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def do_POST(self):
                self.rfile.read(int(self.headers.get("Content-Length") or 0))
                upstream.calls[self.command] += 1
                upstream.fields.append(dict(self.headers))
                self.send_response(200)
                self.send_header("Content-Length", "2")
                self.send_header("Connection", "close")
                self.end_headers()
                self.wfile.write(b"ok")

            do_GET = do_PUT = do_POST

        http.server.ThreadingHTTPServer.daemon_threads = True
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", self.port), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def go(self):
        self.server.shutdown()
        self.server.server_close()

    @property
    def count(self):
        return sum(self.calls.values())


class User:
    """A phone with both keys. It counts the prompts to its user."""

    def __init__(self, broker, client="ios"):
        self.broker, self.phone, self.face = broker, Phone(broker, client), Phone(broker, client)
        self.asked = 0

    @property
    def session(self):
        return self.phone.session

    def presence(self, method, path, session=None, nonce=None, **claims):
        self.asked += 1
        self.face.nonce = nonce or self.phone.nonce
        return self.face.proof(method, path, session or self.session, **claims)

    def send(self, method, path, presence=None, through=None, **fields):
        """Makes a request with a new proof by the session's key. If the broker requires another nonce, repeats the request with
        the same presence proof.
        """
        if presence:
            fields["Coatcheck_Presence"] = presence
        for _ in range(2):
            answer = (through or self.broker).call(
                method, path, self.session, DPoP=self.phone.proof(method, path, self.session), **fields)
            self.phone.nonce = answer.fields["DPoP-Nonce"] or self.phone.nonce
            if (answer.json or {}).get("code") != "use_dpop_nonce":
                break
        return answer

    def register(self, through=None):
        return self.send("PUT", KEY, self.presence("PUT", KEY), through)

    def pay(self, through=None, method="POST"):
        """Pays as a client does: after the refusal presence_required, it prompts the user and repeats the call with a presence
        proof.
        """
        answer = self.send(method, PAY, through=through)
        if told(answer) == "401 presence_required":
            answer = self.send(method, PAY, self.presence(method, PAY), through)
        return answer


def paying(case, sandbox, upstream, **more):
    settings = {
        "providers": {"oidc": {"clients": {
            "ios": {"binding": {"mode": "enforce"}, "children": {"widget": {"upstreams": ["pay"]}}},
            "android": {"binding": {"mode": "off"}}}}},
        "upstreams": {"pay": {
            "base_url": upstream.url, "provider": "oidc", "allow": ["ANY /**"], "internal": True,
            "require": [{"allow": "ANY /payments/**", "presence": True}]}},
        "backends": {"orders": {"original_request": True}}}
    return Broker(case, sandbox, settings=settings, **more)
