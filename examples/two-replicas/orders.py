"""The protected service. nginx has asked a broker about each request, and names the user in X-Auth-Subject."""

import json
import os
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import unquote


class Orders(BaseHTTPRequestHandler):
    def do_GET(self):
        user = unquote(self.headers.get("X-Auth-Subject") or "")
        body = json.dumps({"user": user, "orders": ["tea", "bread"]} if user else {}).encode()
        self.send_response(200 if user else 401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)


ThreadingHTTPServer(("127.0.0.1", int(os.environ.get("ORDERS_PORT", "3000"))), Orders).serve_forever()
