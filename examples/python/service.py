# A service that asks the broker which user a session token belongs to.
import json, os, urllib.parse, urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

def who_is(token, evidence):
    request = urllib.request.Request(os.environ["COATCHECK_URL"] + "/v1/introspect",
        urllib.parse.urlencode({"token": token} | evidence).encode(), {"X-Coatcheck-Backend": os.environ["CREDENTIAL"]})
    with urllib.request.urlopen(request, timeout=5) as answer:  # raises OSError for anything but 200: answer 503, not 401
        return json.load(answer) | {"nonce": answer.headers["DPoP-Nonce"]}

class Service(BaseHTTPRequestHandler):
    def evidence(self):  # what the app shows that a bound session is its own
        found = {"pass": self.headers["Coatcheck-Pass"], "dpop": self.headers["DPoP"]}
        if found["dpop"]:
            found |= {"htm": self.command, "htu": os.environ["ORIGIN"] + self.path}
        return {name: value for name, value in found.items() if value}

    def do_GET(self):
        token = self.headers.get("Authorization", "").removeprefix("Bearer ").removeprefix("DPoP ")
        try:
            session = who_is(token, self.evidence()) if token else {"active": False}
            self.send_response(200 if session["active"] else 401)
            if code := session.get("code"):  # evidence is missing or refused; the session lives
                error = code if code == "use_dpop_nonce" else "invalid_dpop_proof"
                self.send_header("Coatcheck-Code", code)
                self.send_header("DPoP-Nonce", session["nonce"])
                self.send_header("WWW-Authenticate", f'DPoP error="{error}", algs="ES256"')
        except OSError:
            session = {}
            self.send_response(503)
            self.send_header("Retry-After", "5")
        self.end_headers()
        self.wfile.write(session.get("sub", "").encode())

ThreadingHTTPServer(("127.0.0.1", int(os.environ["PORT"])), Service).serve_forever()
