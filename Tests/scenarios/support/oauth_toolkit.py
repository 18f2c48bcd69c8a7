"""Django OAuth Toolkit, an OpenID provider from another project, on loopback. It rotates refresh tokens. If a spent one comes
again, it ends the whole grant, or it still accepts the token for some seconds (`grace`).

    python oauth_toolkit.py FOLDER GRACE

prints its issuer, and ends with the process that started it. Its users have one password. Its clients are public.
"""

import os
import pathlib
import re
import socket
import sys
import urllib.parse

USERS = ("ana", "ben", "cem", "dora")
PASSWORD = "correct horse battery staple"
CLIENTS = ("mobile-app", "another-app")
APP = "com.example.real:/cb"


class OAuthToolkit:
    """One process of the provider. PYTHON is an interpreter that has Django OAuth Toolkit."""

    def __init__(self, case, grace):
        from .waiting import GaveUp, wait_for
        interpreter = os.environ.get("PYTHON") or sys.executable
        case.start([interpreter, __file__, case.folder, str(grace)], "oauth-toolkit.log")
        log = case.folder / "oauth-toolkit.log"
        line = wait_for(60, lambda: re.search(r"^issuer (\S+)$", log.read_text(errors="replace"), re.MULTILINE))
        if not line:
            raise GaveUp("Django OAuth Toolkit did not start: " + log.read_text(errors="replace")[-600:])
        self.issuer = line[1]
        self.url = self.issuer.removesuffix("/o")


class Browser:
    """A user's browser. It signs in at once, and keeps its cookies."""

    def __init__(self, provider, user="ana"):
        from .calls import call
        form = urllib.parse.urlencode({"username": user, "password": PASSWORD})
        answer = call(f"{provider.url}/login", "POST", form, Content_Type="application/x-www-form-urlencoded")
        self.cookie = answer.fields["Set-Cookie"].split(";")[0]

    def open(self, url):
        """Opens an authorization URL, and returns the callback URL for the app."""
        from .calls import call
        return call(url, Cookie=self.cookie).fields["Location"]


def application(folder, issuer, grace):
    """Makes the provider, with its users and clients, as a WSGI application."""
    import django
    from cryptography.hazmat.primitives.asymmetric import rsa
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
    from django.conf import settings

    key = rsa.generate_private_key(65537, 2048).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    settings.configure(
        SECRET_KEY=os.urandom(32).hex(), ALLOWED_HOSTS=["127.0.0.1"], ROOT_URLCONF=__name__, USE_TZ=True,
        LOGIN_URL="/login", DEFAULT_AUTO_FIELD="django.db.models.BigAutoField",
        PASSWORD_HASHERS=["django.contrib.auth.hashers.MD5PasswordHasher"],
        INSTALLED_APPS=["django.contrib.auth", "django.contrib.contenttypes", "django.contrib.sessions", "oauth2_provider"],
        MIDDLEWARE=["django.contrib.sessions.middleware.SessionMiddleware", "django.contrib.auth.middleware.AuthenticationMiddleware"],
        DATABASES={"default": {
            "ENGINE": "django.db.backends.sqlite3", "NAME": pathlib.Path(folder, "oauth-toolkit.db"),
            "OPTIONS": {"transaction_mode": "IMMEDIATE", "timeout": 20, "init_command": "PRAGMA synchronous=OFF"}}},
        # Make the tables at once, because the many migrations take seconds.
        MIGRATION_MODULES=dict.fromkeys(("auth", "contenttypes", "sessions", "oauth2_provider")),
        OAUTH2_PROVIDER={
            "OIDC_ENABLED": True, "OIDC_ISS_ENDPOINT": issuer, "OIDC_RSA_PRIVATE_KEY": key,
            "SCOPES": {"openid": "OpenID", "offline_access": "Refresh tokens"},
            "ALLOWED_REDIRECT_URI_SCHEMES": ["com.example.real"],
            "REFRESH_TOKEN_GRACE_PERIOD_SECONDS": grace, "REFRESH_TOKEN_REUSE_PROTECTION": not grace})
    django.setup()
    from django.contrib.auth import get_user_model
    from django.core.management import call_command
    from django.core.wsgi import get_wsgi_application
    from oauth2_provider.models import get_application_model

    call_command("migrate", run_syncdb=True, verbosity=0)
    for user in USERS:
        get_user_model().objects.create_user(user, password=PASSWORD)
    for client in CLIENTS:
        get_application_model().objects.create(
            client_id=client, client_type="public", authorization_grant_type="authorization-code", redirect_uris=APP, algorithm="RS256",
            skip_authorization=True)
    return get_wsgi_application()


def log_in(request):
    from django.contrib import auth
    from django.http import HttpResponse

    auth.login(request, auth.authenticate(request, username=request.POST["username"], password=request.POST["password"]))
    return HttpResponse("welcome")


def __getattr__(name):
    # Django reads `urlpatterns` after its setup.
    if name != "urlpatterns":
        raise AttributeError(name)
    from django.urls import include, path

    return [path("login", log_in), path("o/", include("oauth2_provider.urls", namespace="oauth2_provider"))]


def main():
    from werkzeug.serving import make_server

    listener = socket.create_server(("127.0.0.1", 0), backlog=128)
    port = listener.getsockname()[1]
    issuer = f"http://127.0.0.1:{port}/o"
    server = make_server("127.0.0.1", port, application(sys.argv[1], issuer, int(sys.argv[2])), threaded=True, fd=listener.fileno())
    print(f"issuer {issuer}", flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
