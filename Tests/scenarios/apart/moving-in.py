"""A fleet of phones moves in: each posts the refresh token of its old SDK to one of three replicas, which are killed in turns.
`make prove-moving-in` starts it. PHONES=10000 is their number.

A phone behaves as the client libraries do. It stores its post before it sends it, repeats the same post after 503, 502, 429 and a
missing answer, and erases its old token after 201 and after 409 `login_required`.
"""

import base64
import collections
import concurrent.futures
import hashlib
import http.client
import json
import os
import pathlib
import queue
import re
import secrets
import signal
import sys
import threading
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker, merged  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

PHONES = int(os.environ.get("PHONES", "10000"))
# The number of phones that post at the same time.
AT_ONCE = 32
# One answer in so many is lost after the provider has spent the token.
LOST = 50
PATIENCE = 180
UNTIL = "2099-12-31"


class Phone:
    """A phone with the tokens of its old SDK."""

    def __init__(self, number, token, loses):
        self.number, self.token, self.loses = number, token, loses
        self.post = {
            "provider": "oidc", "client": "ios", "tokens": {"refresh_token": token},
            "login_token": secrets.token_urlsafe(32), "device": f"phone {number}"}
        self.told = self.session = self.reason = None
        self.repeats = 0


def old_token(sandbox, user, connection):
    """The refresh token of an SDK that signed the user in itself."""
    base = sandbox.url + "/oidc"
    verifier = secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urllib.parse.urlencode({
        "client_id": "ios-app", "redirect_uri": "com.example.app:/cb", "response_type": "code", "state": "s",
        "sandbox_user": user, "scope": "openid email offline_access", "code_challenge": challenge,
        "code_challenge_method": "S256"})
    callback = call(f"{base}/authorize?{query}", connection=connection).fields["Location"]
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(callback).query)["code"][0]
    form = urllib.parse.urlencode({
        "grant_type": "authorization_code", "code": code, "redirect_uri": "com.example.app:/cb", "client_id": "ios-app",
        "code_verifier": verifier})
    answer = call(f"{base}/token", "POST", form, connection=connection, Content_Type="application/x-www-form-urlencoded")
    return answer.json["refresh_token"]


def in_turn(work, function):
    """Calls a function with each item, in many threads, and raises the first error."""
    items, errors = queue.SimpleQueue(), []
    for item in work:
        items.put(item)

    def run():
        try:
            connections = {}
            while not errors:
                function(items.get_nowait(), connections)
        except queue.Empty:
            pass
        except BaseException as error:  # noqa: BLE001
            errors.append(error)

    threads = [threading.Thread(target=run, daemon=True) for _ in range(AT_ONCE)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]


class Fleet:
    """The phones, and the replicas that they call."""

    def __init__(self, case, sandbox, brokers, phones):
        self.case, self.sandbox, self.brokers = case, sandbox, brokers
        self.phones = [None] * phones
        in_turn(range(phones), self.get_token)

    def get_token(self, number, connections):
        connection = connections.setdefault("sandbox", http.client.HTTPConnection("127.0.0.1", self.sandbox.port, timeout=60))
        token = old_token(self.sandbox, f"phone-{number}", connection)
        self.phones[number] = Phone(number, token, number % LOST == LOST - 1)

    def lose_answers(self, phones):
        """Lets the provider's first answer to some tokens get lost after the provider has spent them."""
        for phone in phones:
            self.sandbox.fault("oidc", endpoint="refresh", fault="drop-after", times=1, match=phone.token)

    def move(self, phone, connections):
        end = time.monotonic() + PATIENCE
        turn = phone.number
        while True:
            broker = self.brokers[turn % len(self.brokers)]
            connection = connections.get(broker.name) or http.client.HTTPConnection("127.0.0.1", broker.port, timeout=30)
            answer = call(broker.url + "/v1/sessions", "POST", phone.post, connection=connection)
            connections[broker.name] = None if answer.status == 0 else connection
            if answer.status == 201 or answer.told.startswith("409 login_required"):
                break
            if answer.status not in (0, 429, 502, 503) or time.monotonic() > end:
                break
            turn += 1
            phone.repeats += 1
            time.sleep(0.3)
        phone.told, phone.reason = answer.told, answer.json.get("reason")
        if answer.status == 201:
            phone.session = re.search(r"coatcheck=([^;]+)", ", ".join(answer.fields.get_all("Set-Cookie")))[1]

    def look(self, phone, connections):
        """Reads the phone's session at the next replica; each tenth phone then refreshes it."""
        broker = self.brokers[(phone.number + 1) % len(self.brokers)]
        found = [broker.look(phone.session).told]
        if phone.number % 10 == 0:
            found.append(broker.refresh(phone.session).told)
        phone.told = " ".join(found)


def kill_in_turns(brokers, work):
    """Kills the replicas in turns until the work is over, and starts each again. Returns the number of kills.

    It runs in the case's own thread, because a process ends with the thread that started it.
    """
    kills = 0
    while not work.done():
        broker = brokers[kills % len(brokers)]
        broker.stop(signal.SIGKILL)
        kills += 1
        time.sleep(0.5)
        broker.start()
        concurrent.futures.wait([work], timeout=2)
    work.result()
    return kills


def replicas(case, sandbox, database, number):
    settings = {
        "store": {"url": database.url()},
        # All phones of this test have one address.
        "limits": {"logins_per_minute": 1000000},
        "providers": {"oidc": {"clients": {"ios": {"import_tokens": {"until": UNTIL}}}}}}
    one = Broker(case, sandbox, name="one", start=False, settings=settings)
    public = {"server": {"public_url": one.url}}
    others = [
        Broker(case, sandbox, name=name, like=one, start=False, settings=merged(settings, public))
        for name in ("two", "three")[: number - 1]]
    for broker in (one, *others):
        broker.start()
    return [one, *others]


def move(case, mode, phones):
    sandbox = Sandbox(case, record=False)
    sandbox.settings("oidc", refresh_mode=mode, refresh_token="always", access_token_lifetime=3600)
    with Database() as database:
        brokers = replicas(case, sandbox, database, 3)
        fleet = Fleet(case, sandbox, brokers, phones)
        # A refusal counts only after the first granted import, so one phone goes first.
        fleet.move(fleet.phones[0], {})
        case.same("201", fleet.phones[0].told, f"{mode}: the first phone → a session")
        # The last fifth of the phones moves while all replicas live, so that the metrics are complete.
        calm = phones - phones // 5
        before = sandbox.calls("oidc/refresh")
        fleet.lose_answers(phone for phone in fleet.phones[1:calm] if phone.loses)
        begun = time.monotonic()
        kills = kill_in_turns(brokers, case.beside(in_turn, fleet.phones[1:calm], fleet.move))
        seconds = time.monotonic() - begun
        counted = {broker.name: {reason: broker.metric("coatcheck_moved_total", way="tokens", result=reason) for reason in (
            "moved", "refresh_lost", "grant_revoked")} for broker in brokers}
        fleet.lose_answers(phone for phone in fleet.phones[calm:] if phone.loses)
        in_turn(fleet.phones[calm:], fleet.move)
        calls = sandbox.calls("oidc/refresh") - before
        told = collections.Counter(phone.told for phone in fleet.phones)
        lost = [phone for phone in fleet.phones if phone.loses]
        out = [phone for phone in fleet.phones if phone.session is None]
        unlucky = [phone for phone in out if not phone.loses]
        case.say(
            f"{mode}: {phones} phones, {kills} kills, {seconds:.0f} s with kills, {sum(p.repeats for p in fleet.phones)} "
            f"repeats; {dict(told)}; {len(unlucky)} of the phones that are told to sign in had lost their owner; {calls} calls")
        case.verdict(kills >= 3, f"{mode}: the replicas are killed in turns", kills)
        case.same([], [phone.told for phone in out if phone.reason != "refresh_lost"][:5],
                  f"{mode}: each phone gets a session, or is told `refresh_lost`")
        if mode == "rotate-strict":
            # A killed process had at most AT_ONCE posts in progress.
            case.verdict(len(unlucky) <= kills * AT_ONCE, f"{mode}: the other phones sign in only after a kill", len(unlucky))
            case.same([], [phone.number for phone in unlucky if phone.number >= calm], f"{mode}: in the calm last fifth, only phones whose answer was lost sign in")
            case.same([], [phone.number for phone in lost if phone.session], f"{mode}: an answer of a strict provider is lost → the phone signs in")
        else:
            # If the owner is killed during the confirming call, both of a token's calls are lost.
            case.same([], [phone.number for phone in unlucky], f"{mode}: the other phones get a session, although owners were killed")
            case.verdict(len(out) <= kills, f"{mode}: a phone signs in only if its answer was lost and its owner was killed", len(out))
        # Each token makes one call that may have arrived, and one more only after a lost answer.
        case.verdict(
            calls <= phones - 1 + len(lost) + len(unlucky) + kills * AT_ONCE,
            f"{mode}: a second call comes only after a lost answer", calls)
        for reason in ("moved", "refresh_lost", "grant_revoked"):
            grown = sum(broker.metric("coatcheck_moved_total", way="tokens", result=reason) - counted[broker.name][reason] for broker in brokers)
            expected = [phone for phone in fleet.phones[calm:] if (reason == "moved" if phone.session else reason == phone.reason)]
            case.same(len(expected), int(grown), f"{mode}: the phones that were told `{reason}` after the kills → as many are counted")
        living = [phone for phone in fleet.phones if phone.session]
        in_turn(living, fleet.look)
        wrong = [phone.told for phone in living if set(phone.told.split()) != {"200"}]
        case.same([], wrong[:5], f"{mode}: each moved session lives at another replica, and a tenth of them is refreshed")
        logs = "".join(broker.log() for broker in brokers)
        case.same([], [phone.number for phone in fleet.phones if phone.token in logs], f"{mode}: the logs are free of old tokens")
        case.same([], case.traps(), f"{mode}: the logs show only running processes")


def strict(case):
    """A provider that ends the grant if a spent refresh token comes again."""
    move(case, "rotate-strict", PHONES)


def grace(case):
    """A provider that still accepts the former refresh token."""
    move(case, "overlap", PHONES // 2)


if __name__ == "__main__":
    main({"strict": (strict, 1500), "grace": (grace, 900)}, __doc__, in_turn=("strict", "grace"))
