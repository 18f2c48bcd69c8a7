"""The pace of the outbox: revocations go as fast as the provider answers, and rest when it says 429, on both engines.

One row of a session that was logged out is copied many times: the provider answers each copy as it answers the first.
"""

import contextlib
import os
import pathlib
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.harness import Broker, Database, Sandbox, main, wait_for  # noqa: E402
from support.replicas import psql  # noqa: E402

# The rate that is demanded here is far below the promised one: the machine has other work during tests.
ROWS = int(os.environ.get("ROWS", "1500"))
DEMANDED = 40

COPIES = {
    "sqlite": """WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < {rows})
        INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT randomblob(32), bound_to, tokens_key, tokens, created_at, created_at, 0 FROM outbox, copies""",
    "postgresql": """INSERT INTO outbox (key, bound_to, tokens_key, tokens, created_at, next_attempt_at, attempts)
        SELECT sha256((n || random()::text)::bytea), bound_to, tokens_key, tokens, created_at, created_at, 0
        FROM outbox, generate_series(1, {rows}) n""",
}


class Stage:
    def __init__(self, case, engine, database):
        self.case, self.engine, self.database = case, engine, database
        self.sandbox = Sandbox(case, record=False)
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
        return int(self.do("SELECT count(*) FROM outbox"))

    def fill(self, rows, **fault):
        """Makes so many rows that are due, while the provider answers with a fault."""
        self.sandbox.fault("oidc", endpoint="revoke", fault="status", **fault)
        before = self.sandbox.calls("oidc/revoke")
        session = self.broker.sign_in()
        self.case.same(204, self.broker.log_out(session).status, "a session is logged out")
        tried = wait_for(10, lambda: self.sandbox.calls("oidc/revoke") > before)
        self.case.verdict(tried, f"its revocation is tried, and answered {fault['status']}")
        self.do(COPIES[self.engine].format(rows=rows))


def pace(case, engine, database):
    stage = Stage(case, engine, database)
    stage.fill(ROWS, status=500)
    stage.sandbox.control("DELETE", "/faults")
    begun, signed_in = time.monotonic(), []
    while stage.left() > 1 and time.monotonic() - begun < ROWS / DEMANDED:
        signed_in.append(stage.broker.log_in()[1].status)
        time.sleep(0.1)
    took = time.monotonic() - begun
    case.same(1, stage.left(), f"{ROWS} log-outs are revoked in {took:.1f} s, {ROWS / took:.0f} a second: at least {DEMANDED}")
    case.same({201}, set(signed_in), f"{len(signed_in)} sign-ins beside them find a place")

    stage.fill(200, status=429, headers={"Retry-After": "4"})
    counted, left = stage.sandbox.calls("oidc/revoke"), stage.left()
    time.sleep(2)
    more = stage.sandbox.calls("oidc/revoke") - counted
    case.verdict(more <= 4, "a provider that says 429 is left alone", f"{more} calls")
    case.same(left, stage.left(), "and no row is lost for it")
    stage.sandbox.control("DELETE", "/faults")
    case.verdict(wait_for(20, lambda: stage.left() <= 2, 0.2), "after its time they are revoked", stage.left())


def on_sqlite(case):
    pace(case, "sqlite", None)


def on_postgresql(case):
    with Database() as database:
        pace(case, "postgresql", database)


CASES = {"sqlite": (on_sqlite, 120), "postgresql": (on_postgresql, 120)}

if __name__ == "__main__":
    main(CASES, __doc__)
