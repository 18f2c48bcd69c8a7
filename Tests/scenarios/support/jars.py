"""HTTP clients of other projects, each with its own cookie jar and default settings. A jar has `send(method, path, body)`,
which returns status and text, and `names()`, which returns the broker's cookies in the jar.
"""

import asyncio
import http.cookiejar
import json
import re
import subprocess
import urllib.error
import urllib.request

from .calls import call
from .waiting import GaveUp

TYPE = {"Content-Type": "application/json"}


class Jar:
    def __init__(self, site, folder):
        self.site, self.folder = site, folder
        self.open()

    def open(self):
        pass

    def close(self):
        pass


class Urllib(Jar):
    def open(self):
        self.jar = http.cookiejar.CookieJar()
        self.opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))

    def send(self, method, path, body=None):
        data, fields = (json.dumps(body).encode(), TYPE) if body else (None, {})
        try:
            with self.opener.open(urllib.request.Request(self.site + path, data, fields, method=method), timeout=20) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as refusal:
            return refusal.code, refusal.read().decode()

    def names(self):
        return {cookie.name for cookie in self.jar}


class Requests(Jar):
    def open(self):
        import requests

        self.client = requests.Session()

    def send(self, method, path, body=None):
        answer = self.client.request(method, self.site + path, json=body, timeout=20)
        return answer.status_code, answer.text

    def names(self):
        return {cookie.name for cookie in self.client.cookies}

    def close(self):
        self.client.close()


class Httpx(Jar):
    def open(self):
        import httpx

        self.client = httpx.Client(timeout=20)

    def send(self, method, path, body=None):
        answer = self.client.request(method, self.site + path, json=body)
        return answer.status_code, answer.text

    def names(self):
        return {cookie.name for cookie in self.client.cookies.jar}

    def close(self):
        self.client.close()


class Aiohttp(Jar):
    """The jar of aiohttp ignores cookies from an address, so the site needs a name."""

    def open(self):
        import aiohttp

        async def client():
            return aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(20))

        self.loop = asyncio.new_event_loop()
        self.client = self.loop.run_until_complete(client())

    def send(self, method, path, body=None):
        async def ask():
            async with self.client.request(method, self.site + path, json=body) as answer:
                return answer.status, await answer.text()

        return self.loop.run_until_complete(ask())

    def names(self):
        return {cookie.key for cookie in self.client.cookie_jar}

    def close(self):
        self.loop.run_until_complete(self.client.close())
        self.loop.close()


class OfFile(Jar):
    """A program that stores its cookies in a file in Netscape's form."""

    def open(self):
        self.file = self.folder / f"{type(self).__name__}-{id(self)}.jar"
        self.file.touch()

    def names(self):
        lines = self.file.read_text().replace("#HttpOnly_", "").splitlines()
        return {line.split("\t")[5] for line in lines if line.count("\t") == 6}


class Curl(OfFile):
    def send(self, method, path, body=None):
        more = ["-H", "Content-Type: application/json", "--data", json.dumps(body)] if body else []
        command = ["curl", "-s", "-m", "20", "-b", self.file, "-c", self.file, "-X", method, "-w", "\n%{http_code}", *more, self.site + path]
        text, _, status = subprocess.run(command, capture_output=True, text=True, timeout=30).stdout.rpartition("\n")
        return int(status or 0), text


class Wget(OfFile):
    def send(self, method, path, body=None):
        more = ["--header", "Content-Type: application/json", "--body-data", json.dumps(body)] if body else []
        command = [
            "wget", "--no-config", "-t", "1", "-T", "20", "-q", "-S", "-O", "-", "--content-on-error", "--load-cookies", self.file, "--save-cookies", self.file,
            "--keep-session-cookies", "--method", method, *more, self.site + path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        found = re.search(r"^ *HTTP/1\.[01] (\d+)", done.stderr, re.MULTILINE)
        return int(found[1]) if found else 0, done.stdout


KINDS = (Urllib, Requests, Httpx, Aiohttp, Curl, Wget)


def life(case, name, jar, other):
    """The life of sessions in one cookie jar: refusals, a sign-in, refreshes, a second sign-in, the log-out."""
    def begin():
        status, text = jar.send("POST", "/v1/logins", {"provider": "oidc", "client": "ios"})
        if status != 201:
            raise GaveUp(f"{name} begins no login: {status} {text[:200]}")
        return {"callback_url": call(json.loads(text)["authorization_url"] + "&sandbox_user=ana").fields["Location"]}

    case.same(401, jar.send("GET", "/v1/session")[0], f"{name}, a read without a session → 401")
    stolen = begin()
    tries = [each.send("POST", "/v1/sessions", stolen)[0] for each in (other, jar)]
    case.same([403, 400], tries, f"{name}, a callback is forwarded with another cookie jar and then with the starter's → 403, then 400")
    handles = []
    for turn in ("a sign-in", "a second sign-in"):
        status, text = jar.send("POST", "/v1/sessions", begin())
        case.same(201, status, f"{name}, {turn} → 201")
        case.verdict("coatcheck" in jar.names(), f"{name}, a sign-in → the jar keeps the cookie", jar.names())
        status, text = jar.send("GET", "/v1/session")
        handles.append((status, json.loads(text).get("handle")))
        asked = [jar.send(*ask)[0] for ask in (("POST", "/v1/session/refresh"), ("POST", "/v1/session/refresh"), ("GET", "/v1/relay/api/echo"))]
        case.same([200, 200, 200], asked, f"{name}, two refreshes and a relayed call → 200")
    case.verdict(handles[0][0] == handles[1][0] == 200 and handles[0] != handles[1], f"{name}, two sign-ins in one jar → two different sessions", handles)
    case.same(204, jar.send("DELETE", "/v1/session")[0], f"{name}, a log-out → 204")
    case.verdict("coatcheck" not in jar.names(), f"{name}, a log-out → the jar drops the cookie", jar.names())
    case.same(401, jar.send("GET", "/v1/session")[0], f"{name}, a read after the log-out → 401")
