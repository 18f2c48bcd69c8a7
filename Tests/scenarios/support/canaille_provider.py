"""Canaille, an OpenID provider from another project, as a process (`openid_provider.py`), and a browser for its users.
"""

import json
import os
import pathlib
import re
import sys
import urllib.parse

from .calls import call
from .waiting import GaveUp, wait_for

HERE = pathlib.Path(__file__).resolve().parent
USER, PASSWORD = "ana", "correct horse battery staple"


class Canaille:
    """One process of Canaille, with the clients that `openid_provider.py` defines. PYTHON is an interpreter that has
    Canaille."""

    def __init__(self, case, *redirects, users=()):
        """`users` are the names of more users, with the same password."""
        interpreter = os.environ.get("PYTHON") or sys.executable
        words = [word for uri in redirects for word in ("--redirect-uri", uri)] + [word for user in users for word in ("--user", user)]
        case.start([interpreter, HERE / "openid_provider.py", "--port", "0", *words], "canaille.log")
        log = case.folder / "canaille.log"
        line = wait_for(150, lambda: re.search(r'^\{.*"issuer".*\}$', log.read_text(errors="replace"), re.MULTILINE), 0.2)
        if not line:
            raise GaveUp("Canaille did not start: " + log.read_text(errors="replace")[-600:])
        self.issuer = json.loads(line[0])["issuer"]
        if not wait_for(60, lambda: call(self.issuer + "/.well-known/openid-configuration").status == 200, 0.2):
            raise GaveUp("Canaille does not answer")

    def browser(self, user=USER):
        return Browser(self.issuer, user)


class Browser:
    """A user's browser. It keeps cookies, and fills in pages that ask for a name and a password."""

    def __init__(self, url, user=USER):
        self.url, self.user, self.cookies = url, user, {}
        # The number of times that it was asked for a password.
        self.asked = 0

    def call(self, method, url, form=None):
        fields = {"Cookie": "; ".join(f"{n}={v}" for n, v in self.cookies.items())} if self.cookies else {}
        if form is not None:
            fields["Content_Type"] = "application/x-www-form-urlencoded"
        answer = call(url, method, urllib.parse.urlencode(form) if form is not None else None, **fields)
        for field in answer.fields.get_all("Set-Cookie") or []:
            name, _, value = field.split(";")[0].partition("=")
            self.cookies[name] = value
        return answer

    def open(self, url):
        """Opens an authorization URL, signs in if a page asks for this, and returns the callback URL for the app."""
        answer = self.call("GET", url)
        for _ in range(12):
            location = answer.fields["Location"]
            if location:
                url = urllib.parse.urljoin(url, location)
                if not url.startswith(self.url):
                    return url
                answer = self.call("GET", url)
                continue
            page = answer.body.decode(errors="replace")
            token = re.search(r'name="csrf_token"[^>]*value="([^"]*)"', page)
            form = {"csrf_token": token[1]} if token else {}
            if 'name="password"' in page:
                self.asked += 1
                form["password"] = PASSWORD
            elif 'name="login"' in page:
                form["login"] = self.user
            else:
                break
            answer = self.call("POST", url, form)
        said = re.sub(r"(?s)<[^>]*>|\s+", " ", answer.body.decode(errors="replace"))
        raise GaveUp(f"Canaille lets {self.user} not in: {url} {answer.status} {said[-600:]}")
