"""The endings file: `kill -9` during log-outs, and a full disk (guarantees 4 and 6)."""

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
from support.disk import Disk, own_mounts  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402


def with_endings_file(case, sandbox, file):
    return Broker(case, sandbox, settings={"store": {"endings_file": str(file)}})


def digests(file):
    """The token digests in an endings file, even if its last line is incomplete."""
    lines = file.read_bytes().split(b"\n")[1:-1]
    return {base64.urlsafe_b64decode(line.split(b" ")[0] + b"=") for line in lines}


def digest(session):
    return hashlib.sha256(session.encode()).digest()


def backed_up(case, broker, name):
    """Makes a backup by copying the stopped broker's file, and returns its path. (backup.sh tests `coatcheck backup`.)"""
    broker.stop(signal.SIGTERM)
    copy = case.folder / name
    shutil.copy(broker.data / "coatcheck.db", copy)
    broker.start()
    return copy


def restore(broker, copy, *options):
    return subprocess.run(
        [COATCHECK, "restore", copy, "--config", broker.configuration, *options], capture_output=True, text=True)


def endings_kept(case):
    """`kill -9` during log-outs.
    Each log-out that was answered with 204 is in the endings file, and a restored backup does not revive its session.
    """
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
        # The kill depends on the number of answers, not on time, so on any machine it comes between two log-outs.
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
        case.same([], lost, f"kill -9 during six log-outs → all {len(answered)} log-outs that were answered with 204 so far are in the endings file")
        # A machine's crash may leave an incomplete last line like this one. The broker has to start with such a file.
        with open(file, "ab") as torn:
            torn.write(b"q83vEjRWeJCrze8")
        broker.start()
    case.verdict(len(answered) >= 6, "six rounds of log-outs and kill -9 → at least six log-outs are answered with 204", len(answered))
    late = [s for s in unanswered if broker.look(s).status == 401 and digest(s) not in digests(file)]
    case.same([], late, "at kill -9, endings are in the database but not in the endings file → the next start adds these endings to the file")
    done = restore(broker, copy)
    case.verdict(done.returncode == 1 and "another process" in done.stderr, "`restore` while the broker runs → refused", done.stderr)
    broker.stop(signal.SIGTERM)
    broker.configure(store={"endings_file": None})
    done = restore(broker, copy)
    case.verdict(
        done.returncode == 1 and "log-outs since 20" in done.stderr and "--without-endings" in done.stderr,
        "`restore` while the configuration has no endings file → refused, and prints since when log-outs would be lost", done.stderr)
    broker.configure(store={"endings_file": str(file)})
    away = file.rename(file.with_name("away"))
    done = restore(broker, copy)
    case.verdict(done.returncode == 1 and "is not there" in done.stderr, "`restore` while the configured endings file is missing → refused", done.stderr)
    away.rename(file)
    done = restore(broker, copy)
    case.verdict(done.returncode == 0 and "had ended since" in done.stdout, "`restore` with the endings file → succeeds, and reports the sessions ended since the backup", done.stdout + done.stderr)
    broker.start()
    back = [s for s in answered if broker.look(s).told != "401 session_ended logged_out"]
    case.same([], back, f"a backup restored with the endings file → all {len(answered)} sessions whose log-out was answered with 204 stay ended")
    case.same("200", broker.look(stays).told, "a backup restored with the endings file → the session that never logged out is alive")
    broker.stop(signal.SIGTERM)
    broker.configure(store={"endings_file": None})
    done = restore(broker, copy, "--without-endings")
    case.verdict(done.returncode == 0 and "are lost" in done.stderr, "`restore --without-endings` → succeeds, and reports the lost log-outs", done.stderr)
    broker.start()
    case.same("200", broker.look(answered[0]).told, "a backup restored with --without-endings → a session that logged out after the backup is alive again")


def endings_disk_full(case):
    """The disk of the endings file is full.
    A log-out gets 503 but takes effect, sign-ins continue, and readiness names the fault.
    """
    disk = Disk(case, "1m")
    try:
        sandbox = Sandbox(case)
        file = disk.path / "endings"
        broker = with_endings_file(case, sandbox, file)
        sessions = [broker.sign_in(f"user-{n}") for n in range(3)]
        case.same("204", broker.log_out(sessions[0]).told, "a log-out while the endings file's disk has room → 204")
        disk.fill()
        # The file's last page on the disk still has room for some endings, so repeat sign-in and log-out until a log-out fails.
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
        case.verdict(broker.metric("coatcheck_store_endings_unkept") == 1, "the endings file's disk is full → the metric of unwritten endings is 1")
        broker.restart()
        case.same("401 session_ended logged_out", broker.look(session).told, "kill -9 and a start while the endings file's disk is full → the session stays refused")
        case.same("503 store_unavailable", broker.log_out(session).told, "a repeated log-out after kill -9 and a start, while the endings file's disk is still full → 503 store_unavailable")
        disk.free()
        good = wait_for(10, lambda: broker.log_out(session).status == 204, pause=0.2)
        case.verdict(good, "a repeated log-out after the endings file's disk has room → 204")
        case.verdict(digest(session) in digests(file), "a repeated log-out after the endings file's disk has room → the ending is in the endings file")
    finally:
        case.end()
        disk.unmount()


if __name__ == "__main__":
    own_mounts()
    main({"endings-kept": (endings_kept, 120), "endings-disk-full": (endings_disk_full, 60)}, __doc__)
