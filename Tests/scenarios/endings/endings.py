"""Endings that are interrupted: by `kill -9` between the steps of a back-channel log-out or of the endings file, and by a full
disk. An answered ending is on disk, and any other can be sent again (guarantees 4 and 6).

A full disk is a small tmpfs, so the script needs root or a user's own mount namespace (`unshare --map-root-user --mount`).
"""

import base64
import contextlib
import hashlib
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.measures import MIB  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

ROUNDS = int(os.environ.get("ROUNDS", "50"))


# ---- kill -9 between the steps of a back-channel logout --------------------------------------------------------------


def multiply(broker, session, copies):
    """Gives a session's subject this many further sessions, without tokens, so that ending them takes several steps."""
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
    """`kill -9` between the steps of a back-channel logout of 250 sessions, fifty times, at fifty moments of it."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox)
    # Each ending takes a while, so that a kill can come between two. The database itself waits, without the broker's knowledge.
    with contextlib.closing(broker.database()) as database:
        database.execute(
            """CREATE TRIGGER slow BEFORE UPDATE OF ended_at ON sessions BEGIN
               SELECT max(n) FROM (WITH RECURSIVE c(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM c WHERE n < 100) SELECT n FROM c);
               END""")

    # Copies of a row are bound to another row, so they do not open, and readiness reports this.
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
    case.same((200, 0), (answer.status, living()), f"a logout token without a kill → ends all 250 sessions, in {min(took) * 1000:.0f} ms and more")
    outcomes, bad = {}, 0
    for number in range(ROUNDS):
        session, token = prepare(f"user-{number}")
        # The kills are spread evenly from before the token is read to after it is answered, by the time that earlier tries
        # took.
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
        case.say(f"{count} × {outcome}")
    case.same(0, bad, f"{ROUNDS} kills during a logout token's work → the sessions ended, or the token works when sent again")
    amid = sum(count for outcome, count in outcomes.items() if not outcome.startswith("answered"))
    case.verdict(amid >= ROUNDS / 3, "the kills during a logout token's work → at least a third come before the answer", amid)


# ---- a full disk -----------------------------------------------------------------------------------------------------


class Disk:
    """A separate file system of this size."""

    def __init__(self, case, size):
        self.path = case.folder / "disk"
        self.path.mkdir(mode=0o700)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", self.path], capture_output=True, text=True)
        if done.returncode:
            raise GaveUp("no tmpfs can be mounted: " + done.stderr.strip())
        self.filler = self.path / "filler"

    def fill(self):
        with open(self.filler, "ab", buffering=0) as file:
            for size in (MIB, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self):
        self.filler.unlink()

    def unmount(self):
        subprocess.run(["umount", "--lazy", self.path], capture_output=True)


@contextlib.contextmanager
def full_disk(case, size):
    """A broker with four sessions on a disk that is full, and has met that."""
    disk = Disk(case, size)
    try:
        sandbox = Sandbox(case)
        broker = Broker(case, sandbox, data=disk.path / "data")
        sessions = [broker.sign_in(f"user-{n}") for n in range(4)]
        disk.fill()
        # The log has a little room left; after that, sign-ins meet the full disk.
        refused = None
        for n in range(2000):
            answer = broker.log_in(f"more-{n}")[1]
            if answer.status != 201:
                refused = answer
                break
        if refused is None:
            raise GaveUp("the disk is not full")
        case.same("503 store_unavailable", refused.told, "a sign-in on a full disk → 503 store_unavailable")
        yield disk, broker, sessions
    finally:
        case.end()
        disk.unmount()


def with_a_reserve(case):
    """The disk is full, and the broker has reserved room for endings: a log-out, kill -9, and a start while it is still full.
    """
    with full_disk(case, "288m") as (disk, broker, sessions):
        out = [broker.log_out(s) for s in sessions[:2]]
        case.same(["204", "204"], [a.told for a in out], "log-outs on a full disk with reserved room → 204")
        case.same(["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]], "sessions that logged out on a full disk → refused at once")
        broker.restart()
        case.same(
            ["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]],
            "kill -9 and a start on the full disk → the logged-out sessions stay refused")
        case.same(["200"] * 2, [broker.look(s).told for s in sessions[2:]], "kill -9 and a start on the full disk → the other sessions are alive")
        case.same("204", broker.log_out(sessions[2]).told, "another log-out on the full disk, after kill -9 and a start → 204")
        disk.free()
        status = wait_for(10, lambda: broker.log_in("late")[1].status == 201, pause=0.5)
        case.verdict(status, "the disk has room again → sign-ins succeed", broker.log_in("late")[1].told)
        broker.restart()
        case.same("401 session_ended logged_out", broker.look(sessions[2]).told, "kill -9 after the disk has room again → the last session that logged out stays ended")
        case.same("200", broker.look(sessions[3]).told, "kill -9 after the disk has room again → the session that did not log out is alive")


def without_a_reserve(case):
    """The disk is full to the last byte, and no room is reserved. A log-out can be written once there is room again."""
    with full_disk(case, "24m") as (disk, broker, sessions):
        out = [broker.log_out(s) for s in sessions[:2]]
        told = [a.told for a in out]
        case.verdict(
            all(a.is_passing_fault and a.told == "503 store_unavailable" for a in out),
            "a log-out that cannot be written → 503 store_unavailable, and the cookie is kept", told)
        case.same(["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]], "sessions whose log-out could not be written → refused by this process")
        case.same("200", broker.look(sessions[2]).told, "log-outs that cannot be written → another session is alive")
        disk.free()
        written = "SELECT count(*) FROM sessions WHERE end_reason = 'logged_out'"
        wait_for(10, lambda: broker.query(written)[0][0] == 2)
        broker.restart()
        case.same(
            ["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]],
            "log-outs that are written once the disk has room again → kept after kill -9")
        case.same("204", broker.log_out(sessions[2]).told, "a log-out once the disk has room again → 204")


def killed_on_a_full_disk(case):
    """The same, and kill -9 before there is room again: endings answered with 204 are kept."""
    with full_disk(case, "24m") as (disk, broker, sessions):
        out = [broker.log_out(s) for s in sessions[:2]]
        broker.stop()
        disk.free()
        broker.start()
        back = [s for s, a in zip(sessions, out) if a.status == 204 and broker.look(s).status == 200]
        case.same([], back, f"log-outs answered {', '.join(a.told for a in out)}, then kill -9 → each session answered 204 stays ended")
        # The app repeats the unanswered log-outs.
        again = [broker.log_out(s).told for s in sessions[:2]]
        case.same((["204"] * 2, ["401"] * 2), (again, [broker.look(s).told[:3] for s in sessions[:2]]), "the app repeats its log-outs after kill -9 on a full disk → 204, and the sessions are refused")


def stopped_on_a_full_disk(case):
    """The same, and SIGTERM while room is made: the broker tries once more at its end."""
    with full_disk(case, "24m") as (disk, broker, sessions):
        out = [broker.log_out(s) for s in sessions[:2]]
        # This falls between two tries of the running broker, because its drain takes two seconds.
        broker.process.send_signal(signal.SIGTERM)
        disk.free()
        broker.process.wait(40)
        broker.start()
        case.same(
            ["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]],
            f"log-outs answered {', '.join(a.told for a in out)}, then SIGTERM → ended after the restart")


# ---- the endings file ------------------------------------------------------------------------------------------------


def with_endings_file(case, sandbox, file):
    return Broker(case, sandbox, settings={"store": {"endings_file": str(file)}})


def digests(file):
    """The token digests of an endings file, with any last line."""
    lines = file.read_bytes().split(b"\n")[1:-1]
    return {base64.urlsafe_b64decode(line.split(b" ")[0] + b"=") for line in lines}


def digest(session):
    return hashlib.sha256(session.encode()).digest()


def backed_up(case, broker, name):
    """A backup, as a copy of the stopped broker's file; Tests/scenarios/operators/backup.sh tests `coatcheck backup` itself."""
    broker.stop(signal.SIGTERM)
    copy = case.folder / name
    shutil.copy(broker.data / "coatcheck.db", copy)
    broker.start()
    return copy


def restore(broker, copy, *options):
    return subprocess.run(
        [COATCHECK, "restore", copy, "--config", broker.configuration, *options], capture_output=True, text=True)


def endings_kept(case):
    """kill -9 under log-outs: each one answered with 204 is in the endings file, and a restored backup does not revive it."""
    sandbox = Sandbox(case)
    folder = case.folder / "endings"
    folder.mkdir(mode=0o700)
    file = folder / "endings"
    broker = with_endings_file(case, sandbox, file)
    sessions = [broker.sign_in(f"user-{n}") for n in range(36)]
    stays = broker.sign_in("stays")
    copy = backed_up(case, broker, "backup.db")
    answered, unanswered = [], []

    def log_out(session, enough):
        (answered if broker.log_out(session).status == 204 else unanswered).append(session)
        # The kill depends on the number of answers and not on time, so it comes between others on any machine.
        if len(answered) >= enough:
            with contextlib.suppress(ProcessLookupError):
                os.kill(broker.process.pid, signal.SIGKILL)

    for begin in range(0, 36, 6):
        enough = len(answered) + 1 + begin // 6 % 3
        threads = [threading.Thread(target=log_out, args=(s, enough)) for s in sessions[begin:begin + 6]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        broker.process.wait(10)
        kept = digests(file)
        lost = [s for s in answered if digest(s) not in kept]
        case.same([], lost, f"kill -9 during six log-outs → all {len(answered)} log-outs answered so far are in the endings file")
        # A crash of the machine may leave this.
        with open(file, "ab") as torn:
            torn.write(b"q83vEjRWeJCrze8")
        broker.start()
    case.verdict(len(answered) >= 6, "six rounds of log-outs and kill -9 → at least six log-outs are answered", len(answered))
    late = [s for s in unanswered if broker.look(s).status == 401 and digest(s) not in digests(file)]
    case.same([], late, "sessions that only the database had ended → in the endings file after the start")
    done = restore(broker, copy)
    case.verdict(done.returncode == 1 and "another process" in done.stderr, "`restore` while the broker runs → refused", done.stderr)
    broker.stop(signal.SIGTERM)
    broker.configure(store={"endings_file": None})
    done = restore(broker, copy)
    case.verdict(
        done.returncode == 1 and "log-outs since 20" in done.stderr and "--without-endings" in done.stderr,
        "`restore` without an endings file → refused, and names the time since when log-outs are lost", done.stderr)
    broker.configure(store={"endings_file": str(file)})
    away = file.rename(file.with_name("away"))
    done = restore(broker, copy)
    case.verdict(done.returncode == 1 and "is not there" in done.stderr, "`restore` with a missing endings file → refused", done.stderr)
    away.rename(file)
    done = restore(broker, copy)
    case.verdict(done.returncode == 0 and "had ended since" in done.stdout, "`restore` with the endings file → succeeds, and reports the sessions ended since the backup", done.stdout + done.stderr)
    broker.start()
    back = [s for s in answered if broker.look(s).told != "401 session_ended logged_out"]
    case.same([], back, f"a restored backup with the endings file → all {len(answered)} sessions answered 204 stay ended")
    case.same("200", broker.look(stays).told, "a restored backup with the endings file → the session that never logged out is alive")
    broker.stop(signal.SIGTERM)
    broker.configure(store={"endings_file": None})
    done = restore(broker, copy, "--without-endings")
    case.verdict(done.returncode == 0 and "are lost" in done.stderr, "`restore --without-endings` → succeeds, and reports the lost log-outs", done.stderr)
    broker.start()
    case.same("200", broker.look(answered[0]).told, "a backup restored without endings → a logged-out session is alive again, as this test expects")


def endings_disk_full(case):
    """The endings file's own disk is full: a log-out is 503 and holds, sign-ins go on, and readiness names the fault."""
    disk = Disk(case, "1m")
    try:
        sandbox = Sandbox(case)
        file = disk.path / "endings"
        broker = with_endings_file(case, sandbox, file)
        sessions = [broker.sign_in(f"user-{n}") for n in range(3)]
        case.same("204", broker.log_out(sessions[0]).told, "a log-out with an endings file → 204")
        disk.fill()
        # The page that the last line is on has room for some.
        for n in range(100):
            session = broker.sign_in(f"more-{n}")
            out = broker.log_out(session)
            if out.status != 204:
                break
        case.verdict(
            out.is_passing_fault and out.told == "503 store_unavailable", "a log-out while the endings file's disk is full → 503 store_unavailable", out.told)
        case.same("401 session_ended logged_out", broker.look(session).told, "a session whose log-out does not fit into the endings file → refused at once")
        case.same("503 store_unavailable", broker.log_out(session).told, "a repeated log-out while the endings file's disk is full → 503 store_unavailable")
        case.same("200", broker.look(sessions[1]).told, "the endings file's disk is full → other sessions are alive")
        case.same(201, broker.log_in("late")[1].status, "a sign-in while the endings file's disk is full → 201")
        ready = call(broker.management + "/readyz")
        case.same((200, "its disk is full"), (ready.status, ready.json.get("endings_file")), "readiness while the endings file's disk is full → 200, and names the full disk")
        case.verdict(broker.metric("coatcheck_store_endings_unkept") == 1, "the endings file's disk is full → the metric of unkept endings is 1")
        broker.restart()
        case.same("401 session_ended logged_out", broker.look(session).told, "kill -9 and a start while the endings file's disk is full → the session stays refused")
        case.same("503 store_unavailable", broker.log_out(session).told, "a repeated log-out after kill -9, the endings file's disk still full → 503 store_unavailable")
        disk.free()
        good = wait_for(10, lambda: broker.log_out(session).status == 204, pause=0.2)
        case.verdict(good, "a repeated log-out once the endings file's disk has room → 204")
        case.verdict(digest(session) in digests(file), "a repeated log-out once the endings file's disk has room → the ending is in the file")
    finally:
        case.end()
        disk.unmount()


CASES = {
    "endings-kept": (endings_kept, 120),
    "endings-disk-full": (endings_disk_full, 60),
    "interrupted-logout": (interrupted_logout, 240),
    "full-disk-with-a-reserve": (with_a_reserve, 90),
    "full-disk-without-a-reserve": (without_a_reserve, 60),
    "killed-on-a-full-disk": (killed_on_a_full_disk, 60),
    "stopped-on-a-full-disk": (stopped_on_a_full_disk, 60),
}

if __name__ == "__main__":
    if "OWN_MOUNTS" not in os.environ:
        # The cases need a mount namespace. A user without the right to one gets it inside a user namespace.
        may = subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode == 0
        spaces = ["--mount"] if may else ["--user", "--map-root-user", "--mount"]
        os.execvpe("unshare", ["unshare", *spaces, sys.executable, *sys.argv], os.environ | {"OWN_MOUNTS": "1"})
    main(CASES, __doc__)
