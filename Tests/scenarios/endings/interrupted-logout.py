"""`kill -9` interrupts a back-channel log-out. Either the log-out has taken effect, or the provider can send the logout token
again (guarantees 4 and 6)."""

import contextlib
import hashlib
import os
import pathlib
import signal
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "50"))


def multiply(broker, session, copies):
    """Adds this many sessions to a session's subject, without tokens, so that ending them takes several steps."""
    digest = hashlib.sha256(session.encode()).digest()
    with contextlib.closing(broker.database()) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(sessions)")]
        new = {
            "id": "NULL", "token": "randomblob(32)", "handle": "'ses_' || substr(hex(randomblob(16)), 1, 22)",
            "refreshable": "0", "tokens_key": "NULL", "tokens": "NULL"}
        database.execute("BEGIN IMMEDIATE")
        database.execute(
            f"""WITH RECURSIVE copies(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM copies WHERE n < ?2)
                INSERT INTO sessions ({', '.join(columns)})
                SELECT {', '.join(new.get(c, c) for c in columns)} FROM sessions, copies WHERE token = ?1""",
            (digest, copies))
        database.execute("COMMIT")


def logout_token(sandbox, user):
    return sandbox.control(
        "POST", "/backchannel-logout", {"provider": "oidc", "client_id": "ios-app", "user": user, "mutate": {"sid": None}}
    ).json["token"]


def tell(broker, token):
    return broker.call(
        "POST", "/v1/backchannel-logout/oidc", body=f"logout_token={token}",
        Content_Type="application/x-www-form-urlencoded")


def interrupted_logout(case):
    """`kill -9` between the steps of a back-channel logout of 250 sessions, fifty times, each time at another moment."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox)
    # A trigger in the database makes each ending slow, so that a kill can come between two endings.
    with contextlib.closing(broker.database()) as database:
        database.execute(
            """CREATE TRIGGER slow BEFORE UPDATE OF ended_at ON sessions BEGIN
               SELECT max(n) FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100) SELECT n FROM c);
               END""")

    # The copied rows do not open, because they are sealed for the original row. Readiness reports this, so the start waits for
    # /livez.
    broker.health = "/livez"

    def prepare(user):
        session = broker.sign_in(user)
        multiply(broker, session, 249)
        return session, logout_token(sandbox, user)

    def living():
        return broker.query("SELECT count(*) FROM sessions WHERE ended_at IS NULL")[0][0]

    took = []
    for user in ("first", "second", "third"):
        session, token = prepare(user)
        answer = tell(broker, token)
        took.append(answer.seconds)
    case.same((200, 0), (answer.status, living()), f"a logout token for 250 sessions, without kill -9 → all 250 end (fastest of three: {min(took) * 1000:.0f} ms)")
    outcomes, bad = {}, 0
    for number in range(ROUNDS):
        session, token = prepare(f"user-{number}")
        # The kills are spread evenly over the time that earlier attempts took, from before the token is read until after it is
        # answered.
        moment = number * 0.618 % 1 * 1.05 * sum(took[-3:]) / 3
        killer = threading.Timer(moment, os.kill, (broker.process.pid, signal.SIGKILL))
        killer.start()
        first = tell(broker, token)
        killer.join()
        broker.process.wait(10)
        left = living()
        broker.start()
        again = tell(broker, token)
        after = living()
        if first.status == 200:
            good, outcome = left == after == 0, "answered"
            took.append(first.seconds)
        elif again.status == 400:
            good, outcome = left == after == 0, "took effect unanswered, and is a replay when sent again"
        else:
            good, outcome = again.status == 200 and after == 0, f"could be sent again ({again.status})"
        if after == 0:
            good = good and broker.look(session).told == "401 session_ended provider_logout"
        if left not in (0, 250):
            outcome += ", killed between two steps"
        if not good:
            outcome += f": AND {after} LIVE"
            bad += 1
        outcomes[outcome] = outcomes.get(outcome, 0) + 1
        if after:
            with contextlib.closing(broker.database()) as database:
                database.execute("DELETE FROM sessions WHERE ended_at IS NULL")
    for outcome, count in sorted(outcomes.items()):
        case.say(f"kill -9 while the broker processes a logout token: {count} times {outcome}")
    case.same(0, bad, f"{ROUNDS} times kill -9 while the broker processes a logout token → each time, the sessions have ended, or the token works when the provider sends it again")
    amid = sum(count for outcome, count in outcomes.items() if not outcome.startswith("answered"))
    case.verdict(amid >= ROUNDS / 3, f"{ROUNDS} times kill -9 while the broker processes a logout token → at least a third of the kills come before the broker's answer", amid)


if __name__ == "__main__":
    main({"interrupted-logout": (interrupted_logout, 240)}, __doc__)
