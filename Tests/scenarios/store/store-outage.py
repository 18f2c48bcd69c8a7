"""Two replicas on one PostgreSQL (guarantees 2 and 3). The database is unreachable for longer than a claim lasts, while one
replica has new tokens that it cannot write. Every session survives. The provider revokes a grant if a refresh token is sent
twice, so a repeated call would end the session. OUTAGE_ROUNDS is the number of outages, by default one.
"""

import contextlib
import os
import pathlib
import random
import signal
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.gate import Gate  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

PHONES = 10


class Wire:
    """A TCP forwarder. While `whole` is cleared, it holds back all bytes and the ends of connections."""

    def __init__(self, port):
        self.target = port
        self.whole = threading.Event()
        self.whole.set()
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            near, _ = self.listener.accept()
            threading.Thread(target=self.join, args=[near], daemon=True).start()

    def join(self, near):
        self.whole.wait()
        try:
            far = socket.create_connection(("127.0.0.1", self.target))
        except OSError:
            return near.close()
        for ends in ((near, far), (far, near)):
            threading.Thread(target=self.pump, args=ends, daemon=True).start()

    def pump(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                self.whole.wait()
                target.sendall(data)
        self.whole.wait()
        for end in (source, target):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)


def replica(case, sandbox, url, name, gate=None, gated=(), like=None):
    return Broker(case, sandbox, gate, gated, name=name, like=like, settings={"store": {"url": url}})


def pairs_in_hand(one, gate, count):
    """Signs `count` phones in and starts their refreshes. The replica gets the new tokens after the event `arrived` is set.
    Returns the sessions, this event, and the waiting calls.
    """
    arrived = threading.Event()
    sessions = [one.sign_in() for _ in range(count)]
    time.sleep(2.2)
    before = len(gate.calls)
    gate.always = Gate.hold(arrived)
    callers = [one.case.beside(one.refresh, session) for session in sessions]
    if not wait_for(10, lambda: sum(getattr(c, "worked", False) for c in gate.calls[before:]) == count):
        raise GaveUp("the refreshes are not at the provider")
    return sessions, arrived, callers


def ask_until(broker, session, seconds, told):
    """Repeats a refresh as a phone does, until it is 200 or 401 or the time is over. Appends the answers to `told`."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        told.append(broker.refresh(session).told)
        if told[-1].startswith(("200", "401")):
            return
        time.sleep(0.5)


@contextlib.contextmanager
def stack(case):
    sandbox = Sandbox(case)
    sandbox.settings("oidc", refresh_mode="rotate-strict", access_token_lifetime=2)
    with Database() as database:
        yield sandbox, Gate(sandbox), database


def judge(case, told, sentence):
    ends = [answers[-1] for answers in told]
    case.say(f"{sentence}, last answers of the phones' refreshes: {', '.join(f'{ends.count(end)} times {end}' for end in sorted(set(ends)))}")
    case.same(0, sum(end != "200" for end in ends), f"{sentence} → the refresh of every phone gets 200, and no session has ended")


def outage(case):
    """PostgreSQL is away for half a minute. One replica has ten unwritten token pairs, and the phones ask the other replica."""
    with stack(case) as (sandbox, gate, database):
        one = replica(case, sandbox, database.url(), "one", gate, ["refresh"])
        two = replica(case, sandbox, database.url(), "two", like=one)
        for number in range(int(os.environ.get("OUTAGE_ROUNDS", "1"))):
            gate.always = Gate.pass_on
            sessions, arrived, callers = pairs_in_hand(one, gate, PHONES)
            away = random.uniform(32, 34)
            database.do("away")
            begin = time.monotonic()
            time.sleep(0.3)
            arrived.set()
            told = [[] for _ in sessions]
            phones = [case.beside(ask_until, two, s, 150, t) for s, t in zip(sessions, told, strict=True)]
            time.sleep(max(0, begin + away - time.monotonic()))
            database.do("back")
            for phone in phones + callers:
                phone.result(200)
            judge(case, told, f"round {number + 1}, {away:.1f} s without PostgreSQL, {time.monotonic() - begin - away:.1f} s after its return")


def partition(case):
    """One replica cannot reach PostgreSQL for forty seconds, and has three unwritten token pairs. The other replica can reach it.
    """
    with stack(case) as (sandbox, gate, database):
        wire = Wire(database.port)
        one = replica(case, sandbox, database.url(wire.port), "one", gate, ["refresh"])
        two = replica(case, sandbox, database.url(), "two", like=one)
        sessions, arrived, callers = pairs_in_hand(one, gate, 3)
        wire.whole.clear()
        begin = time.monotonic()
        arrived.set()
        told = [[] for _ in sessions]
        phones = [case.beside(ask_until, two, s, 150, t) for s, t in zip(sessions, told, strict=True)]
        time.sleep(40)
        wire.whole.set()
        for phone in phones + callers:
            phone.result(200)
        judge(case, told, f"{time.monotonic() - begin - 40:.1f} s after a replica's partition from PostgreSQL")


def stands_still(pid):
    """Returns whether every thread of a process has been stopped."""
    states = [task.read_text().rsplit(")", 1)[1].split()[0] for task in pathlib.Path(f"/proc/{pid}/task").glob("*/stat")]
    return set(states) == {"T"}


def frozen(case):
    """A replica is stopped during the exchange of a code, for longer than its claim lasts.
    The tokens that it receives late are revoked.
    """
    with stack(case) as (sandbox, gate, database):
        one = replica(case, sandbox, database.url(), "one", gate, ["token"])
        two = replica(case, sandbox, database.url(), "two", like=one)
        arrived = threading.Event()
        gate.always = Gate.hold(arrived)
        begun = one.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios"})
        cookie = begun.fields["Set-Cookie"].split(";")[0]
        callback = call(begun.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]

        def forward(broker):
            return broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)

        caller = case.beside(forward, one)
        if not wait_for(10, lambda: any(getattr(c, "worked", False) for c in gate.calls)):
            raise GaveUp("no call for the code")
        one.process.send_signal(signal.SIGSTOP)
        # SIGSTOP takes effect after a moment. Wait until every thread has stopped, so that the provider's answer cannot be
        # faster.
        if not wait_for(10, lambda: stands_still(one.process.pid)):
            raise GaveUp("the replica goes on")
        arrived.set()
        time.sleep(30)
        case.same("409 login_required", forward(two).told, "a replica freezes during a code exchange, and the app forwards to the other replica → 409 login_required")
        one.process.send_signal(signal.SIGCONT)
        caller.result(60)
        case.verdict(
            wait_for(90, lambda: sandbox.calls("oidc/revoke") >= 1), "a replica freezes during a code exchange, continues, and then receives the tokens → these late tokens are revoked",
            sandbox.control("GET", "/counts").body[:300])


if __name__ == "__main__":
    rounds = int(os.environ.get("OUTAGE_ROUNDS", "1"))
    main(
        {"outage": (outage, 120 + 220 * rounds), "partition": (partition, 300), "frozen": (frozen, 240)},
        (__doc__ or "").splitlines()[0])
