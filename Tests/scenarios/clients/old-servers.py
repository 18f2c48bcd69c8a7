"""Starts the old servers of examples/old-servers, and plays the broker that moves their sessions in. Then a real broker moves them
in. The provider is the sandbox, which rotates refresh tokens strictly: a spent refresh token ends its grant.
"""

import base64
import datetime
import hmac
import json
import os
import pathlib
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), ".."))
from support.broker import Broker
from support.calls import call
from support.cases import main
from support.database import Database
from support.programs import COATCHECK
from support.sandbox import Sandbox
from support.waiting import GaveUp, wait_for
from support.wire import ROOT, free_port

EXAMPLES = ROOT / "examples/old-servers"
CREDENTIAL = "claim-credential-0d3a91"
# Coatcheck demands at least 16 characters.
CLIENT_SECRET = "old-servers-secret-8c1f"
UNKNOWN = {
    "a random text": "nobody-has-this-token",
    "an empty text": "",
    "a NUL": "\0",
    "half of a character": "\ud800",
    "a broken percent code": "s%3A%",
    "a quote": "' OR 1=1 --",
    "16 KiB": "x" * 16384,
    "a Django key": "0123456789abcdefghijklmnopqrstuv",
    "a Flask session whose signature is missing": "6b0c5a7e-9e8e-4b0e-8d6c-0c1d2e3f4a5b",
    "a Flask session with a wrong signature": "6b0c5a7e-9e8e-4b0e-8d6c-0c1d2e3f4a5b.AAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "an Express session with a wrong signature": "s%3Aabcdefgh.AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA",
    "a Spring session": base64.b64encode(b"6b0c5a7e-9e8e-4b0e-8d6c-0c1d2e3f4a5b").decode(),
}


def id_of(token, client="ios"):
    """The claim's id, as the broker makes it: an HMAC of provider, client and token."""
    digest = hmac.digest(b"the broker's index key", f"oidc\0{client}\0{token}".encode(errors="surrogatepass"), "sha256")
    return base64.urlsafe_b64encode(digest).decode().rstrip("=")


class Redis:
    """A Redis that keeps its data in memory only."""

    def __init__(self, case):
        self.port = free_port()
        if not shutil.which("redis-server"):
            raise GaveUp("redis-server is missing: scripts/setup test installs it")
        case.start(["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", case.folder], "redis.log")
        if not wait_for(30, lambda: self.ask("PING").startswith(b"+PONG")):
            raise GaveUp("Redis fails to start")

    def ask(self, command):
        try:
            with socket.create_connection(("127.0.0.1", self.port), 2) as end:
                end.sendall(command.encode() + b"\r\n")
                return end.recv(65536)
        except OSError:
            return b""

    def environment(self, port=None):
        return {"REDIS_URL": f"redis://127.0.0.1:{port or self.port}/0"}


class PostgreSQL:
    """A PostgreSQL of its own."""

    def __init__(self, case):
        self.database = Database()
        self.port = self.database.port

    def environment(self, port=None):
        return {"DATABASE_URL": self.database.url(port)}


class Fuse:
    """A proxy in front of the store. Once it is armed with a claim's id, it kills the old server as soon as the store has confirmed
    the claim's transaction, and before the old server knows this.
    """

    def __init__(self, storage, confirmation):
        self.storage, self.confirmation = storage, confirmation
        self.marker = self.process = None
        self.blown = threading.Event()
        self.sent = b""
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            client, _ = self.listener.accept()
            server = socket.create_connection(("127.0.0.1", self.storage.port))
            link = {"sent": b"", "answered": b""}
            threading.Thread(target=self.pump, args=(client, server, link, "sent"), daemon=True).start()
            threading.Thread(target=self.pump, args=(server, client, link, "answered"), daemon=True).start()

    def pump(self, source, target, link, way):
        try:
            while data := source.recv(65536):
                if self.marker and (way == "sent" or self.marker in link["sent"]):
                    link[way] += data
                    if self.confirmation in link["answered"] and not self.blown.is_set():
                        self.sent = link["sent"]
                        self.process.kill()
                        self.process.wait()
                        self.blown.set()
                        return
                target.sendall(data)
        except OSError:
            pass
        for end in (source, target):
            try:
                end.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


class OldServer:
    """An old server of the examples, and its user's browser."""

    def __init__(self, stage, port=None, **environment):
        self.stage = stage
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.environment = stage.storage.environment(port) | {
            "PORT": str(self.port), "ISSUER": stage.sandbox.url + "/oidc", "CREDENTIAL": CREDENTIAL, "SECRET_KEY": "a-secret-key-for-cookies", "CLIENT_SECRET": CLIENT_SECRET,
            "UNTIL": "2099-12-31", "SWEEP_SECONDS": "1"} | environment
        self.process = stage.case.start([stage.folder / "run"], f"server-{self.port}.log", self.environment)
        if not wait_for(60, lambda: call(self.url + "/").status == 401):
            raise GaveUp(f"{stage.kind} did not start: " + (stage.case.folder / f"server-{self.port}.log").read_text()[-400:])

    def sign_in(self):
        """Signs Ana in with a browser, and returns the value of the session's cookie."""
        jar = {}

        def visit(url):
            answer = call(url, Cookie="; ".join(f"{name}={value}" for name, value in jar.items()), User_Agent="Shop/4.1 (iPhone)" + " x" * 40)
            for field in answer.fields.get_all("Set-Cookie") or []:
                name, _, value = field.partition(";")[0].partition("=")
                jar[name] = value
            return answer

        consent = visit(self.url + "/login")
        back = call((consent.fields["Location"] or "") + "&sandbox_user=ana")
        last = visit(back.fields["Location"] or self.url)
        if last.status != 302 or self.stage.cookie not in jar:
            raise GaveUp(f"{self.stage.kind}: no sign-in: {consent.status} {back.status} {last.status} {last.body[:200]}")
        return jar[self.stage.cookie]

    def page(self, cookie):
        return call(self.url + "/", Cookie=f"{self.stage.cookie}={cookie}")

    def log_out(self, cookie):
        return call(self.url + "/logout", "POST", Cookie=f"{self.stage.cookie}={cookie}")

    def claim(self, token, id=None, authorization=f"Bearer {CREDENTIAL}", body=None, method="POST"):
        """Asks for a session as the broker does."""
        body = body if body is not None else json.dumps({"id": id or id_of(token), "provider": "oidc", "client": "ios", "token": token}).encode()
        fields = {"Authorization": authorization} if authorization is not None else {}
        return call(self.url + "/coatcheck/claim", method, body, seconds=20, Content_Type="application/json", **fields)


class Stage:
    """One kind of old server, with its store and a provider."""

    def __init__(self, case, kind, cookie, storage):
        self.case, self.kind, self.cookie, self.folder = case, kind, cookie, EXAMPLES / kind
        self.sandbox = Sandbox(case)
        self.sandbox.settings("oidc", refresh_mode="rotate-strict")
        self.sandbox.control("PUT", "/clients/oidc/web", {"secret": CLIENT_SECRET, "auth": ["client_secret_basic"]})
        self.storage = storage(case)
        self.server = OldServer(self)

    def access_lives(self, seconds):
        self.sandbox.settings("oidc", access_token_lifetime=seconds)

    @property
    def refreshes(self):
        return self.sandbox.calls("oidc/refresh")

    @property
    def revocations(self):
        return self.sandbox.calls("oidc/revoke")

    def live(self):
        """The provider's live refresh tokens."""
        found = self.sandbox.control("GET", "/tokens?provider=oidc").json["items"]
        return {item["token"] for item in found if item["live"] and item["token"].startswith("rt-")}

    def signed_in(self, server=None):
        """A new session: its cookie, and its refresh token."""
        before = self.live()
        cookie = (server or self.server).sign_in()
        return cookie, (self.live() - before).pop()

    def refresh(self, token):
        """The broker's refresh: the status, and the new refresh token if it lives."""
        basic = base64.b64encode(f"web:{CLIENT_SECRET}".encode()).decode()
        form = urllib.parse.urlencode({"grant_type": "refresh_token", "refresh_token": token})
        answer = call(self.sandbox.url + "/oidc/token", "POST", form, Content_Type="application/x-www-form-urlencoded", Authorization=f"Basic {basic}")
        fresh = answer.json.get("refresh_token")
        return answer.status, fresh if self.sandbox.lives(fresh) else None


def claimed(answer):
    """The refresh token of an answer, or a description of the answer."""
    return answer.json.get("refresh_token") or f"{answer.status} {answer.body[:200]}"


def refuses(stage):
    """The refusals: credentials, bodies, and unknown tokens."""
    case, server, kind = stage.case, stage.server, stage.kind
    cookie, token = stage.signed_in()
    for name, authorization in {
            "no credential": None, "an empty credential": "", "Bearer without a credential": "Bearer ", "a wrong credential": "Bearer wrong",
            "the beginning of the credential": f"Bearer {CREDENTIAL[:-1]}", "the credential and a letter": f"Bearer {CREDENTIAL}x",
            "the credential by Basic": f"Basic {CREDENTIAL}", "letters outside ASCII": "Bearer \xfc\xff"}.items():
        for what, old in {"a live session": cookie, "an unknown token": "unknown"}.items():
            answer = server.claim(old, authorization=authorization)
            case.same((401, False), (answer.status, token.encode() in answer.body), f"{kind}: claim of {what} with {name} → 401")
    good = {"id": id_of(cookie), "provider": "oidc", "client": "ios", "token": cookie}
    for name, body in {
            "no JSON": b"{", "bytes outside UTF-8": b"\xff\xfe", "an array": b"[]", "null": b"null", "no members": b"{}",
            "no id": json.dumps(good | {"id": None}).encode(), "a number as id": json.dumps(good | {"id": 7}).encode(),
            "a short id": json.dumps(good | {"id": "short"}).encode(), "an id with a quote": json.dumps(good | {"id": '"' * 43}).encode(),
            "a line end after the id": json.dumps(good | {"id": good["id"] + "\n"}).encode(),
            "no token": json.dumps(good | {"token": None}).encode(), "a list as token": json.dumps(good | {"token": [cookie]}).encode()}.items():
        answer = server.claim(cookie, body=body)
        case.same((400, False), (answer.status, token.encode() in answer.body), f"{kind}: claim with {name} → 400")
    answer = server.claim(cookie, body=b" " * 200_000 + json.dumps(good).encode())
    case.verdict(answer.status in (0, 200, 400, 413, 503), f"{kind}: claim of 200 KB → answered, or refused by another status than 404", answer.status)
    if answer.status == 200:
        cookie, token = stage.signed_in()
    answer = server.claim(cookie, method="GET")
    case.verdict(answer.status != 200 and b'"id"' not in answer.body, f"{kind}: claim by GET → refused", answer.status)
    for name, unknown in UNKNOWN.items():
        answer = server.claim(unknown)
        case.same((404, {"id": id_of(unknown)}), (answer.status, answer.json), f"{kind}: claim with {name} → 404 with the request's id")
    case.same("application/json", answer.fields["Content-Type"], f"{kind}: the 404 → is JSON")
    other = "B" if cookie[-10] == "A" else "A"
    for name, broken in {"another letter": cookie[:-10] + other + cookie[-9:], "its last letters cut off": cookie[:-3]}.items():
        case.same(404, server.claim(broken).status, f"{kind}: claim of a session's cookie with {name} → 404")
    begun = (call(server.url + "/login").fields["Set-Cookie"] or "").partition(";")[0].partition("=")[2]
    case.same(404, server.claim(begun).status, f"{kind}: claim of a half sign-in → 404")
    case.verdict(stage.sandbox.lives(token), f"{kind}: session after refused claims → its refresh token lives")
    case.same(200, server.log_out(cookie).status, f"{kind}: session after refused claims → it can log out")
    case.same((401, 404, {"id": id_of(cookie)}), (server.page(cookie).status, (gone := server.claim(cookie)).status, gone.json),
        f"{kind}: claim of a session that its user logged out → 404 with the request's id")
    case.verdict(not stage.sandbox.lives(token), f"{kind}: log-out of a session that stays → the old server revokes its token")


def answers(stage):
    """A claim, its repeats, and the old cookie afterwards."""
    case, server, kind = stage.case, stage.server, stage.kind
    stage.access_lives(30)  # each page of a session that has not moved refreshes
    cookie, token = stage.signed_in()
    case.same(200, server.page(cookie).status, f"{kind}: page of a session → 200")
    case.same((1, False), (stage.refreshes, stage.sandbox.lives(token)), f"{kind}: access token near its end → the old server refreshes")
    before, now = (stage.refreshes, stage.revocations), time.time()
    answer = server.claim(cookie)
    case.same((200, "application/json"), (answer.status, (answer.fields["Content-Type"] or "").partition(";")[0]), f"{kind}: claim of a session → 200, JSON")
    found = answer.json
    case.same({"subject": str, "refresh_token": str, "scope": str, "created_at": int, "expires_at": int, "device": str},
        {name: type(value) for name, value in found.items()}, f"{kind}: the answer's members → have their types")
    case.same("user-ana", found.get("subject"), f"{kind}: the answer's subject → the provider's")
    case.same({"openid", "profile", "offline_access"}, set(found.get("scope", "").split()), f"{kind}: the answer's scope → the granted one")
    case.verdict(now - 60 < found.get("created_at", 0) <= now + 1, f"{kind}: created_at → the time of the sign-in", found)
    case.same(7776000, found.get("expires_at", 0) - found.get("created_at", 0), f"{kind}: expires_at → the end of the old session")
    case.same(("Shop/4.1 (iPhone)" + " x" * 40)[:64], found.get("device"), f"{kind}: device → at most 64 characters")
    case.verdict(stage.sandbox.lives(found.get("refresh_token")), f"{kind}: the answer's refresh token → lives")
    other = server.claim(cookie, id=id_of(cookie, "web"))
    case.same((404, {"id": id_of(cookie, "web")}), (other.status, other.json), f"{kind}: claim of a moved session with another id → 404")
    if kind == "node":
        case.same(404, server.claim(urllib.parse.unquote(cookie)).status, f"{kind}: claim of a moved session with another spelling of its cookie → 404")
    case.same([answer.body] * 3, [server.claim(cookie).body for _ in range(3)], f"{kind}: repeats with the same id → the same bytes")
    case.same([200] * 4, [server.page(cookie).status for _ in range(4)], f"{kind}: pages with the old cookie after the claim → 200")
    case.same(before, (stage.refreshes, stage.revocations), f"{kind}: claim, repeats and pages → refreshes and revocations stay as before")
    status, moved = stage.refresh(found["refresh_token"])
    case.same((200, True), (status, moved is not None), f"{kind}: the broker's refresh with the answer → granted")
    case.same([answer.body, 200], [server.claim(cookie).body, server.page(cookie).status], f"{kind}: repeat and page after the broker's refresh → unchanged")
    case.same(200, server.log_out(cookie).status, f"{kind}: log-out with the old cookie → 200")
    case.same(404, server.claim(cookie).status, f"{kind}: repeat after the log-out → 404")
    case.same((before[0] + 1, before[1], True), (stage.refreshes, stage.revocations, stage.sandbox.lives(moved)),
        f"{kind}: log-out of a moved session → the grant lives")

    stage.access_lives(8)
    cookie, token = stage.signed_in()
    before = stage.refreshes, stage.revocations
    case.same((token, 200), (claimed(server.claim(cookie)), server.page(cookie).status), f"{kind}: page between the claim and the access token's end → 200")
    case.verdict(wait_for(20, lambda: server.page(cookie).status == 401, 0.2), f"{kind}: page after the access token's end → 401")
    case.same((*before, True), (stage.refreshes, stage.revocations, stage.sandbox.lives(token)),
        f"{kind}: the old access token's end → refreshes stay as before, and the grant lives")
    case.same(token, claimed(server.claim(cookie)), f"{kind}: repeat after the old access token's end → the same refresh token")


def races(stage):
    """Claims at the same time as other claims, refreshes, and pages."""
    case, server, kind = stage.case, stage.server, stage.kind
    stage.access_lives(3600)
    cookie, token = stage.signed_in()
    both = [case.beside(server.claim, cookie) for _ in range(6)]
    both = [each.result(20) for each in both]
    case.same(({200}, 1, token), ({each.status for each in both}, len({each.body for each in both}), claimed(both[0])),
        f"{kind}: six claims at the same time → the same bytes")
    cookie, token = stage.signed_in()
    ids = [id_of(cookie, f"client-{number}") for number in range(6)]
    many = [case.beside(server.claim, cookie, each) for each in ids]
    case.same([200, 404, 404, 404, 404, 404], sorted(each.result(20).status for each in many),
        f"{kind}: six claims with different ids at the same time → one answer")

    for milliseconds, waits in ((2000, True), (6500, False)):
        stage.access_lives(30)
        cookie, spent = stage.signed_in()
        begun = stage.refreshes
        stage.sandbox.fault("oidc", fault="slow-after", endpoint="refresh", times=1, delay_ms=milliseconds)
        page = case.beside(server.page, cookie)
        if not wait_for(10, lambda: stage.refreshes > begun):
            raise GaveUp("the page fails to refresh")
        answer = server.claim(cookie)
        if waits:
            case.same(200, answer.status, f"{kind}: claim while the old server refreshes → waits for it")
        else:
            case.verdict(answer.status not in (0, 200, 404, 410) and answer.seconds < 5,
                f"{kind}: claim while a refresh takes 6.5 s → a passing fault within 5 s", answer)
            page.result(20)
            answer = server.claim(cookie)
        case.same((200, True, True), (answer.status, claimed(answer) != spent, stage.sandbox.lives(claimed(answer))),
            f"{kind}: claim during a refresh of {milliseconds} ms → the new refresh token")
        case.same((200, begun + 1), (page.result(20).status, stage.refreshes), f"{kind}: the page that refreshes during a claim → 200, one refresh")

    cookie, spent = stage.signed_in()
    stage.sandbox.fault("oidc", fault="slow", endpoint="refresh", times=2, delay_ms=150)
    pages, claims, counts = [], [], []

    def asks():
        # Like the broker, this asks again if the lock is taken for too long.
        claims.append(wait_for(20, lambda: (answer := server.claim(cookie)).status != 503 and answer))
        counts.append(stage.refreshes)

    for number in range(10):
        pages.append(case.beside(asks if number in (3, 6) else lambda: server.page(cookie).status))
    results = [each.result(30) for each in pages]
    case.same(({200}, 1), ({each.status for each in claims}, len({each.body for each in claims})),
        f"{kind}: two claims among eight refreshing pages → the same bytes")
    case.verdict(stage.sandbox.lives(claimed(claims[0])), f"{kind}: claims among refreshing pages → the refresh token lives", claimed(claims[0]))
    case.same([stage.refreshes] * 2, counts, f"{kind}: refreshing pages after the claim → refreshes stay as before")
    case.verdict(set(results) <= {None, 200, 503}, f"{kind}: pages around a claim → 200, or a passing fault", results)
    case.same(200, stage.refresh(claimed(claims[0]))[0], f"{kind}: the broker's refresh after these claims → granted")

    stage.access_lives(3600)
    ends = set()
    for _ in range(6):
        cookie, token = stage.signed_in()
        out, answer = case.beside(server.log_out, cookie), server.claim(cookie)
        out.result(20)
        ends.add((answer.status, stage.sandbox.lives(token), server.claim(cookie).status))
    case.verdict(ends <= {(200, True, 404), (404, False, 404)}, f"{kind}: claim and log-out at the same time → one of them is first, and repeats get 404", ends)
    cookie, token = stage.signed_in()
    revoked, seen = stage.revocations, stage.sandbox.calls("oidc/userinfo")
    stage.sandbox.fault("oidc", fault="slow-after", endpoint="userinfo", times=1, delay_ms=3000)
    page = case.beside(server.page, cookie)
    wait_for(10, lambda: stage.sandbox.calls("oidc/userinfo") > seen)
    answer = server.claim(cookie)
    case.same((token, False, 200), (claimed(answer), page.done(), page.result(20).status),
        f"{kind}: claim while a slow page is in progress → answered before the page")
    server.log_out(cookie)
    case.same((revoked, True), (stage.revocations, stage.sandbox.lives(token)),
        f"{kind}: slow page that began before the claim → the record still lacks the refresh token")


def outlives(stage):
    """The session's record ends, and the answer ends."""
    case, kind = stage.case, stage.kind
    stage.access_lives(3600)
    server = OldServer(stage, IDLE_SECONDS="6")
    cookie, token = stage.signed_in(server)
    unclaimed, left = stage.signed_in(server)
    before = stage.revocations
    answer = server.claim(cookie)
    case.same(token, claimed(answer), f"{kind}: claim of a session that soon ends → its refresh token")

    def ended():
        if kind == "django":
            subprocess.run([stage.folder / "run", "sweep"], env=os.environ | server.environment, check=True, timeout=60)
        if isinstance(stage.storage, Redis):
            name = f"session:{unclaimed.partition('.')[0]}" if kind == "flask" else "sess:" + urllib.parse.unquote(unclaimed)[2:].partition(".")[0]
            return stage.storage.ask(f"EXISTS {name}") == b":0\r\n"
        return not stage.sandbox.lives(left)

    case.verdict(wait_for(40, ended, 0.5), f"{kind}: unused sessions → their records end")
    swept = 0 if isinstance(stage.storage, Redis) else 1
    case.same(before + swept, stage.revocations, f"{kind}: two records end, one of them after a claim → revocations of the other session only")
    case.same((401, True), (server.page(cookie).status, stage.sandbox.lives(token)), f"{kind}: record that ended after its claim → the provider's grant lives")
    case.same((200, answer.body), ((again := server.claim(cookie)).status, again.body), f"{kind}: repeat after the record's end → the same bytes")
    case.same(404, server.claim(unclaimed).status, f"{kind}: first claim after the record's end → 404")
    case.same(200, server.log_out(cookie).status, f"{kind}: log-out after the record's end → 200")
    case.same((404, before + swept), (server.claim(cookie).status, stage.revocations), f"{kind}: repeat after this log-out → 404, revocations stay as before")

    server, later = OldServer(stage, LIFETIME_SECONDS="6", UNTIL="2020-01-01"), OldServer(stage, LIFETIME_SECONDS="6")
    long, _ = stage.signed_in(later)
    cookie, token = stage.signed_in(server)
    unclaimed, left = stage.signed_in(server)
    answer = server.claim(cookie)
    case.same(token, claimed(answer), f"{kind}: claim after UNTIL → the session's refresh token")
    kept = later.claim(long)
    case.verdict(wait_for(20, lambda: server.claim(cookie).status == 404, 0.3), f"{kind}: end of the session and of UNTIL → the answer is deleted, 404")
    case.verdict(wait_for(20, lambda: (server.page(unclaimed).status, later.page(long).status) == (401, 401), 0.3),
        f"{kind}: page of a session that is too old → 401")
    case.same(404, server.claim(unclaimed).status, f"{kind}: claim of a session that is too old → 404")
    case.same((200, kept.body), ((again := later.claim(long)).status, again.body), f"{kind}: repeat between the session's end and UNTIL → the same bytes")
    server.page(cookie)
    server.log_out(cookie)
    case.same((before + swept, True), (stage.revocations, stage.sandbox.lives(token)),
        f"{kind}: end of the kept answer, page and log-out → revocations stay as before, the grant lives")


def killed(stage):
    """The old server is killed between storing the answer and sending it."""
    case, kind = stage.case, stage.kind
    stage.access_lives(30)
    fuse = Fuse(stage.storage, b"*2\r\n" if isinstance(stage.storage, Redis) else b"COMMIT\0")
    server = OldServer(stage, port=fuse.port)
    cookie, _ = stage.signed_in(server)
    server.page(cookie)
    fuse.process, fuse.marker = server.process, id_of(cookie).encode()
    before = stage.refreshes, stage.revocations
    lost = server.claim(cookie)
    case.same((0, True), (lost.status, fuse.blown.wait(10)), f"{kind}: kill -9 after the answer is stored → the connection just ends")
    server = OldServer(stage)
    answers = [server.claim(cookie) for _ in range(2)]
    case.same([200, 200], [each.status for each in answers], f"{kind}: repeat after kill -9 → 200")
    case.verdict(answers[0].body in fuse.sent and answers[0].body == answers[1].body, f"{kind}: repeat after kill -9 → the stored bytes", answers[0].body)
    case.same((200, *before), (server.page(cookie).status, stage.refreshes, stage.revocations), f"{kind}: page after kill -9 → 200, refreshes stay as before")
    case.same(200, stage.refresh(claimed(answers[0]))[0], f"{kind}: the broker's refresh after kill -9 → granted")


def moves(stage):
    """Coatcheck moves the sessions in."""
    case, kind = stage.case, stage.kind
    stage.access_lives(3600)
    server = OldServer(stage)
    (case.folder / "claim").write_text(CREDENTIAL)
    (case.folder / "secret").write_text(CLIENT_SECRET)
    for name in ("claim", "secret"):
        (case.folder / name).chmod(0o600)
    broker = Broker(case, stage.sandbox, settings={"providers": {"oidc": {"clients": {"old": {
        "client_id": "web", "auth": "client_secret_basic", "client_secret": {"file": str(case.folder / "secret")},
        "redirect_uris": [server.url + "/callback"], "scope": "openid profile offline_access",
        "move_in": {
            "from": {"url": server.url + "/coatcheck/claim", "credential": {"file": str(case.folder / "claim")}},
            "cookie": stage.cookie, "until": str(datetime.date.today() + datetime.timedelta(days=180))}}}}}})

    def post(legacy, login_token=None, **fields):
        secret = login_token or secrets.token_urlsafe(32)
        return broker.call("POST", "/v1/sessions", body={"provider": "oidc", "client": "old", "legacy": legacy, "login_token": secret}, **fields)

    checked = subprocess.run([broker.program, "check", "--online", "--config", broker.configuration], capture_output=True, text=True, timeout=60)
    told = checked.stdout + checked.stderr
    case.verdict("refuses a made-up token" in told and "refuses a wrong credential" in told, f"{kind}: `check --online` → the old server refuses a made-up token and a wrong credential", told[-400:])
    case.same("409 login_required unknown_session", post({"token": "nobody-has-this-token"}).told, f"{kind}: post of a made-up token → unknown_session")
    first, token = stage.signed_in(server)
    case.same(200, server.log_out(first).status, f"{kind}: log-out at the old server → 200")
    case.same("409 login_required unknown_session", post({"token": first}).told, f"{kind}: post of a session that its user logged out → unknown_session")
    before = stage.refreshes
    for way in ("body", "cookie"):
        old, token = stage.signed_in(server)
        mine, fields = secrets.token_urlsafe(32), {} if way == "body" else {"Cookie": f"{stage.cookie}={old}"}
        legacy = {"token": old} if way == "body" else {}
        answer = post(legacy, mine, **fields)
        case.same((201, "user-ana"), (answer.status, answer.json.get("subject")), f"{kind}: post of a session by {way} → a session of the same user")
        session = re.search(r"coatcheck=([^;]+)", ", ".join(answer.fields.get_all("Set-Cookie") or [""]))
        again = post(legacy, mine, **fields)
        case.same((201, answer.json.get("handle")), (again.status, again.json.get("handle")), f"{kind}: the same post by {way} again → the same session")
        case.same("409 code_already_used", post(legacy, **fields).told, f"{kind}: another phone's post by {way} → code_already_used")
        before += 1
        case.same(before, stage.refreshes, f"{kind}: a move by {way} and its repetitions → one refresh")
        case.same(200, server.page(old).status, f"{kind}: page with the old cookie after a move by {way} → 200")
        server.log_out(old)
        case.same(200, broker.refresh(session and session[1]).status, f"{kind}: log-out at the old server after a move by {way} → the session is refreshed")
        before += 1
        case.same(204, broker.log_out(session and session[1]).status, f"{kind}: log-out at Coatcheck → 204")
        log = broker.log()
        case.same([], [value for value in (old, token, CREDENTIAL) if value in log], f"{kind}: Coatcheck's log after a move by {way} → free of old cookie, token and credential")
    broker.stop()


def page(stage):
    """The README's configuration and commands move a session in, and an app's refresh token."""
    case, kind = stage.case, stage.kind
    stage.access_lives(3600)
    stage.sandbox.settings("oidc", refresh_token="always")
    server = OldServer(stage)
    old, _ = stage.signed_in(server)
    text = (EXAMPLES / "README.md").read_text()
    yaml, = re.findall(r"```yaml\n(.*?)^```", text, re.M | re.S)
    shell, = re.findall(r"```sh\n(mkdir.*?)^```", text, re.M | re.S)
    port, management = free_port(), free_port()
    changes = {
        "127.0.0.1:8081": f"127.0.0.1:{port}", "127.0.0.1:9091": f"127.0.0.1:{management}", "http://127.0.0.1:8000": server.url,
        "http://127.0.0.1:8089": stage.sandbox.url, "cookie: session": f"cookie: {stage.cookie}"}
    for was, now in changes.items():
        yaml, shell = yaml.replace(was, now), shell.replace(was, now)
    folder = case.folder / "readme"
    folder.mkdir(mode=0o700)
    (folder / "coatcheck.yaml").write_text(yaml)
    programs = folder / "bin"
    programs.mkdir()
    (programs / "coatcheck").symlink_to(COATCHECK)
    environment = os.environ | {
        "PATH": f"{programs}:{os.environ['PATH']}", "CREDENTIAL": CREDENTIAL, "CLIENT_SECRET": CLIENT_SECRET, "COOKIE": old}
    checked = subprocess.run([COATCHECK, "check", "--config", "coatcheck.yaml"], cwd=folder, env=environment, capture_output=True, text=True)
    case.verdict(checked.returncode == 1 and "keys.json does not exist" in checked.stderr and checked.stderr.count("error:") == 1,
        f"{kind}: the README's configuration → only its key file is missing", checked.stderr)
    # The block leaves the broker running, in the session of its shell.
    with open(folder / "printed", "w") as printed:
        shown = subprocess.Popen(["bash", "-euc", shell], cwd=folder, env=environment, stdout=printed, stderr=printed, start_new_session=True)
    try:
        status, text = shown.wait(90), (folder / "printed").read_text()
        case.verdict(status == 0 and "HTTP/1.1 201" in text and '"subject":"user-ana"' in text, f"{kind}: the README's commands → 201 with the old session's user", text[-400:])
        grant = stage.sandbox.control("POST", "/native-code/oidc", {"client_id": "ios-app", "user": "ana", "scope": "openid offline_access"}).json
        tokens = call(stage.sandbox.url + "/oidc/token", "POST", urllib.parse.urlencode(
            {"grant_type": "authorization_code", "client_id": "ios-app", "code": grant["code"]}), Content_Type="application/x-www-form-urlencoded").json
        moved = call(f"http://127.0.0.1:{port}/v1/sessions", "POST", {"provider": "oidc", "client": "ios", "tokens": {"refresh_token": tokens.get("refresh_token", "missing")}})
        case.same((201, "user-ana"), (moved.status, moved.json.get("subject")), f"{kind}: an app's refresh token at the README's client `ios` → a session")
    finally:
        os.killpg(shown.pid, signal.SIGTERM)


KINDS = {"django": ("sessionid", PostgreSQL), "flask": ("session", Redis), "node": ("connect.sid", Redis), "spring": ("SESSION", PostgreSQL)}
COMPARES = {"django": "constant_time_compare", "flask": "hmac.compare_digest", "node": "timingSafeEqual", "spring": "MessageDigest.isEqual"}
SOURCES = {"django": "server.py", "flask": "server.py", "node": "server.js", "spring": "OldServer.java"}


def case_of(kind):
    def run(case):
        folder, cases = EXAMPLES / kind, ({"CREDENTIAL": ""}, {"UNTIL": "tomorrow"}, {"SECRET_KEY": ""}, {"CLIENT_SECRET": ""})
        for missing in cases:
            name = next(iter(missing))
            ended = subprocess.run([folder / "run"], env=os.environ | {"CREDENTIAL": "x", "SECRET_KEY": "x", "CLIENT_SECRET": "x", "UNTIL": "2099-12-31"} | missing,
                capture_output=True, text=True, timeout=30)
            case.same((1, True), (ended.returncode, name in ended.stderr), f"{kind}: start while {name} is missing or wrong → refused with a hint")
        source = pathlib.Path(folder, SOURCES[kind]).read_text()
        part = re.search(r"---- The claim part: copy it from here\.(.*)---- The end of the claim part\.", source, re.S)
        case.verdict(part and COMPARES[kind] in part[1], f"{kind}: the claim part → compares the credential in constant time")
        case.same([], [mark for mark in "(a) (b) (c) (d) (e)".split() if mark not in source], f"{kind}: each promise → is marked in the source")
        stage = Stage(case, kind, *KINDS[kind])
        for function in (refuses, answers, races, outlives, killed, moves, page):
            case.say(function.__doc__)
            try:
                function(stage)
            except GaveUp as error:
                case.verdict(False, f"{kind}: {function.__name__} → runs to its end", repr(error))

    run.__doc__ = f"examples/old-servers/{kind}"
    return run


CASES = {kind: (case_of(kind), 400) for kind in KINDS}

if __name__ == "__main__":
    main(CASES, __doc__)
