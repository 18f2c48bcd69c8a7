"""The pace of the outbox, on both engines. The broker sends revocations as fast as the provider answers, also during sign-ins,
and pauses after a 429. Another provider's backlog does not delay them.

The script copies the outbox row of one logged-out session many times. The provider answers each copy like the original.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.measures import quantile  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.replicas import psql  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402

ROWS = int(os.environ.get("ROWS", "10000"))
# The minimum number of revocations a second. 170 a second are 100,000 in ten minutes. A debug build is far slower.
IS_RELEASE = "/debug/" not in os.path.realpath(COATCHECK)
DEMANDED = 170 if IS_RELEASE else 20
BACKLOG = 20_000

COPIES = {
    "sqlite": """WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < {rows})
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT randomblob(32), bound_to, tokens_key, tokens, created_at, created_at, 0
        FROM (SELECT * FROM outbox ORDER BY created_at DESC LIMIT 1), copies""",
    "postgresql": """INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT sha256((n || random()::text)::bytea), bound_to, tokens_key, tokens, created_at, created_at, 0
        FROM (SELECT * FROM outbox ORDER BY created_at DESC LIMIT 1) o, generate_series(1, {rows}) n""",
}


class Stage:
    def __init__(self, case, engine, database):
        self.case, self.engine, self.database = case, engine, database
        self.sandbox = Sandbox(case, record=False)
        self.copied = "1 = 0"
        self.broker = Broker(case, self.sandbox, settings={
            "limits": {"logins_per_minute": 100000}, **({"store": {"url": database.url()}} if database else {})})

    def do(self, sql):
        if self.database:
            run = subprocess.run(psql(self.database, "-tAc", sql), check=True, capture_output=True, text=True)
            return run.stdout.strip()
        with contextlib.closing(self.broker.database()) as database:
            row = database.execute(sql).fetchone()
            return str(row[0]) if row else ""

    def left(self):
        """Returns the number of remaining copies. Rows of other sessions, which sign-ins have ended, do not count."""
        return int(self.do(f"SELECT count(*) FROM outbox WHERE {self.copied}"))

    def fill(self, rows, provider="oidc", lifted=False, **fault):
        """Makes this many due rows, while the provider still answers with a fault or after the fault was `lifted`. (The original
        row waits for a minute after the fault.)
        """
        self.sandbox.fault(provider, endpoint="revoke", fault="status", **fault)
        before = self.sandbox.calls(f"{provider}/revoke")
        session = self.broker.sign_in(provider=provider)
        self.case.same(204, self.broker.log_out(session).status, f"a log-out while the provider answers revocations with {fault['status']} → 204")
        tried = wait_for(10, lambda: self.sandbox.calls(f"{provider}/revoke") > before)
        self.case.verdict(tried, f"a log-out while the provider answers revocations with {fault['status']} → a revocation is tried")
        if lifted:
            self.sandbox.control("DELETE", "/faults")
        encoded = "hex(bound_to)" if self.engine == "sqlite" else "encode(bound_to, 'hex')"
        owner = self.do(f"SELECT {encoded} FROM outbox ORDER BY created_at DESC LIMIT 1")
        self.copied = f"{encoded} = '{owner}'"
        self.do(COPIES[self.engine].format(rows=rows))

    def sign_ins(self, found, goes_on):
        """Signs in repeatedly as long as `goes_on` returns true. Records each status and time."""
        while goes_on():
            begun = time.monotonic()
            status = self.broker.log_in()[1].status
            found.append((status, time.monotonic() - begun))
            time.sleep(0.05)


def another(stage):
    """Log-outs at one provider, while the outbox has a backlog of another provider that fails."""
    case = stage.case
    stage.fill(BACKLOG, "oauth2", status=503)
    # Wait until the outbox has begun with the rows of the backlog, which are all due.
    time.sleep(2)
    waits = []
    for _ in range(3):
        session, before = stage.broker.sign_in(), stage.sandbox.calls("oidc/revoke")
        begun = time.monotonic()
        stage.broker.log_out(session)
        wait_for(60, lambda: stage.sandbox.calls("oidc/revoke") > before)
        waits.append(time.monotonic() - begun)
    case.verdict(
        max(waits) < 20 and min(waits) < 5, f"{BACKLOG} outbox rows of a failing provider → three revocations at another provider are sent, each within 20 s and one within 5 s",
        " ".join(f"{wait:.1f} s" for wait in waits))
    case.say("three log-outs at another provider, until the provider gets the revocation: " + ", ".join(f"{wait:.1f} s" for wait in waits))
    stage.sandbox.control("DELETE", "/faults")
    stage.do("DELETE FROM outbox")


def pace(case, engine, database):
    stage = Stage(case, engine, database)
    another(stage)
    alone, beside, until = [], [], time.monotonic() + 5
    stage.sign_ins(alone, lambda: time.monotonic() < until)
    stage.fill(ROWS, lifted=True, status=500)
    begun = time.monotonic()
    going = threading.Event()
    thread = threading.Thread(target=stage.sign_ins, args=(beside, lambda: not going.is_set()))
    thread.start()
    while (left := stage.left()) > 1 and time.monotonic() - begun < ROWS / DEMANDED:
        time.sleep(0.2)
    took = time.monotonic() - begun
    going.set()
    thread.join()
    case.verdict(left <= 1, f"{ROWS} revocations in the outbox → sent in {took:.1f} s, {ROWS / took:.0f} a second (at least {DEMANDED} a second are demanded)", f"{left} are left")
    case.same({201}, {status for status, _ in beside}, f"{len(beside)} sign-ins while {ROWS} revocations are sent → all succeed")
    best, worst = (quantile([seconds for _, seconds in found], 0.99) for found in (alone, beside))
    case.verdict(
        worst <= 2 * best + 0.05, f"p99 of a sign-in → {best * 1e3:.0f} ms alone, {worst * 1e3:.0f} ms during revocations (allowed: twice as long plus 50 ms)")

    stage.fill(200, status=429, headers={"Retry-After": "4"})
    counted, left = stage.sandbox.calls("oidc/revoke"), stage.left()
    time.sleep(2)
    more = stage.sandbox.calls("oidc/revoke") - counted
    case.verdict(more <= 4, "a provider answers revocations with 429 → within two seconds, the broker makes at most four more calls", f"{more} calls")
    case.same(left, stage.left(), "a provider answers revocations with 429 → the store keeps all outbox rows for this provider")
    stage.sandbox.control("DELETE", "/faults")
    case.verdict(wait_for(20, lambda: stage.left() <= 2, 0.2), "a provider answered revocations with 429 → the broker sends the outbox rows after the Retry-After", stage.left())


def on_sqlite(case):
    """The pace of the outbox on SQLite."""
    pace(case, "sqlite", None)


def on_postgresql(case):
    """The pace of the outbox on PostgreSQL."""
    with Database() as database:
        pace(case, "postgresql", database)


LIMIT = 240 + ROWS // DEMANDED
CASES = {"sqlite": (on_sqlite, LIMIT), "postgresql": (on_postgresql, LIMIT)}

if __name__ == "__main__":
    main(CASES, __doc__, in_turn=CASES)
