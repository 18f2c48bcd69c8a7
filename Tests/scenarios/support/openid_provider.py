"""Starts Canaille, an OpenID provider from another project, on loopback.

    python openid_provider.py --port 0 --redirect-uri com.example.app:/oauth2redirect [--redirect-uri ...]

Prints one JSON line when it answers: {"issuer": ..., "port": ..., "pid": ...}. Its data are in a temporary folder. It has the
user `ana` and the users of `--user NAME`, all with the password `correct horse battery staple`. It has two clients: `mobile-app`,
public with PKCE, and `web-app`, whose secret has reserved characters.
"""

import argparse
import atexit
import datetime
import json
import logging
import os
import shutil
import signal
import socket
import sys
import tempfile

from joserfc.jwk import RSAKey
from werkzeug.serving import make_server

USER = "ana"
PASSWORD = "correct horse battery staple"
SECRET = "web-app-wq8ZrT5nLk2:with/reserved+characters"


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--port", type=int, default=0)
    arguments.add_argument("--redirect-uri", action="append", required=True)
    arguments.add_argument("--user", action="append", default=[])
    options = arguments.parse_args()

    listener = socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("127.0.0.1", options.port))
    port = listener.getsockname()[1]
    issuer = f"http://127.0.0.1:{port}"

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    from canaille import create_app

    key = RSAKey.generate_key(2048, {"use": "sig", "alg": "RS256"}, auto_kid=True)
    folder = tempfile.mkdtemp(prefix="openid-provider.")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    app = create_app(
        {
            "SECRET_KEY": os.urandom(32).hex(),
            "SERVER_NAME": f"127.0.0.1:{port}",
            "PREFERRED_URL_SCHEME": "http",
            "SESSION_COOKIE_SECURE": False,
            # A file of SQLite, because Canaille's in-memory store finds a code by the client alone.
            "CANAILLE_SQL": {"DATABASE_URI": f"sqlite:///{folder}/provider.db"},
            "CANAILLE": {"JAVASCRIPT": False, "SMTP": None},
            "CANAILLE_OIDC": {"ACTIVE_JWKS": [key.as_dict(private=True)]},
        }
    )
    # With plain http, the redirects to https would be endless.
    for extension in app.extensions.values():
        if type(extension).__name__ == "Talisman":
            extension.force_https = False

    with app.app_context():
        from canaille.app import models

        backend = app.backend
        with backend.session():
            for user in (USER, *options.user):
                name = user.capitalize()
                backend.save(
                    models.User(
                        user_name=user, password=PASSWORD, given_name=name, family_name="Example",
                        formatted_name=f"{name} Example", display_name=name, emails=[f"{user}@example.org"],
                    )
                )
            common = {
                "client_uri": "http://127.0.0.1",
                "redirect_uris": options.redirect_uri,
                "scope": ["openid", "profile", "email", "offline_access"],
                "grant_types": ["authorization_code", "refresh_token"],
                "response_types": ["code"],
                "client_id_issued_at": datetime.datetime.now(datetime.timezone.utc),
            }
            clients = [
                models.Client(
                    client_id="mobile-app", client_name="Mobile", token_endpoint_auth_method="none", **common
                ),
                models.Client(
                    client_id="web-app", client_name="Web", client_secret=SECRET,
                    token_endpoint_auth_method="client_secret_basic", **common,
                ),
            ]
            for client in clients:
                # Canaille's own console does the same for a new client: the client becomes the audience of its tokens.
                backend.save(client)
                client.audience = [client]
                backend.save(client)

    listener.listen(128)
    server = make_server("127.0.0.1", port, app, threaded=True, fd=listener.fileno())
    print(json.dumps({"issuer": issuer, "port": port, "pid": os.getpid()}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    sys.exit(main())
