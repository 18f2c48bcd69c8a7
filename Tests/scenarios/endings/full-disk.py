"""Log-outs on a full disk. A log-out that was answered 204 is on the disk. An app can repeat any other log-out (guarantees 4
and 6)."""

import contextlib
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.disk import Disk, own_mounts  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402


@contextlib.contextmanager
def full_disk(case, size):
    """A broker with four sessions on a full disk. The broker has already noticed that the disk is full."""
    disk = Disk(case, size)
    try:
        sandbox = Sandbox(case)
        broker = Broker(case, sandbox, data=disk.path / "data")
        sessions = [broker.sign_in(f"user-{n}") for n in range(4)]
        disk.fill()
        # The database's write-ahead log still has a little room, so sign in until a sign-in is refused.
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
    """The disk is full, and the broker has reserved room for endings.
    A user logs out, then kill -9 and a start follow while the disk is still full.
    """
    with full_disk(case, "288m") as (disk, broker, sessions):
        out = [broker.log_out(s) for s in sessions[:2]]
        case.same(["204", "204"], [a.told for a in out], "log-outs on a full disk, and the broker has reserved room → 204")
        case.same(["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]], "sessions that logged out on a full disk → refused at once")
        broker.restart()
        case.same(
            ["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]],
            "kill -9 and a start on the full disk → the sessions that logged out stay refused")
        case.same(["200"] * 2, [broker.look(s).told for s in sessions[2:]], "kill -9 and a start on the full disk → the other sessions are alive")
        case.same("204", broker.log_out(sessions[2]).told, "another log-out on the full disk, after kill -9 and a start → 204")
        disk.free()
        status = wait_for(10, lambda: broker.log_in("late")[1].status == 201, pause=0.5)
        case.verdict(status, "the disk has room again → sign-ins succeed", broker.log_in("late")[1].told)
        broker.restart()
        case.same("401 session_ended logged_out", broker.look(sessions[2]).told, "kill -9 after the disk has room again → the last session that logged out stays ended")
        case.same("200", broker.look(sessions[3]).told, "kill -9 after the disk has room again → the session that did not log out is alive")


def without_a_reserve(case):
    """The disk is full to the last byte, and no room is reserved. A log-out is written once there is room again."""
    with full_disk(case, "24m") as (disk, broker, sessions):
        out = [broker.log_out(s) for s in sessions[:2]]
        told = [a.told for a in out]
        case.verdict(
            all(a.is_passing_fault and a.told == "503 store_unavailable" for a in out),
            "log-outs on a full disk, and the broker has no reserved room → 503 store_unavailable, and the cookies are kept", told)
        case.same(["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]], "log-outs of sessions could not be written to the full disk → the running broker refuses these sessions")
        case.same("200", broker.look(sessions[2]).told, "two log-outs could not be written on a full disk → another session is alive")
        disk.free()
        written = "SELECT count(*) FROM sessions WHERE end_reason = 'logged_out'"
        wait_for(10, lambda: broker.query(written)[0][0] == 2)
        broker.restart()
        case.same(
            ["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]],
            "log-outs written after the disk has room again, then kill -9 → the sessions stay ended")
        case.same("204", broker.log_out(sessions[2]).told, "a log-out after the disk has room again → 204")


def killed_on_a_full_disk(case):
    """The disk is full without reserved room, and kill -9 comes before there is room again. Endings answered 204 are kept."""
    with full_disk(case, "24m") as (disk, broker, sessions):
        out = [broker.log_out(s) for s in sessions[:2]]
        broker.stop()
        disk.free()
        broker.start()
        back = [s for s, a in zip(sessions, out) if a.status == 204 and broker.look(s).status == 200]
        case.same([], back, f"two log-outs on a full disk answered with {', '.join(a.told for a in out)}, then kill -9 → each session whose log-out got 204 stays ended")
        # The app repeats both log-outs.
        again = [broker.log_out(s).told for s in sessions[:2]]
        case.same((["204"] * 2, ["401"] * 2), (again, [broker.look(s).told[:3] for s in sessions[:2]]), "the app repeats its log-outs after kill -9 on a full disk → 204, and the sessions are refused")


def stopped_on_a_full_disk(case):
    """The disk is full without reserved room, and gets room after SIGTERM. The broker writes the endings before it exits."""
    with full_disk(case, "24m") as (disk, broker, sessions):
        out = [broker.log_out(s) for s in sessions[:2]]
        # The drain takes two seconds, so the disk gets room between two of the broker's attempts to write the endings.
        broker.process.send_signal(signal.SIGTERM)
        disk.free()
        broker.process.wait(40)
        broker.start()
        case.same(
            ["401 session_ended logged_out"] * 2, [broker.look(s).told for s in sessions[:2]],
            f"two log-outs on a full disk answered with {', '.join(a.told for a in out)}, then SIGTERM, and the disk gets room → both sessions have ended after the restart")


CASES = {
    "full-disk-with-a-reserve": (with_a_reserve, 90),
    "full-disk-without-a-reserve": (without_a_reserve, 60),
    "killed-on-a-full-disk": (killed_on_a_full_disk, 60),
    "stopped-on-a-full-disk": (stopped_on_a_full_disk, 60),
}

if __name__ == "__main__":
    own_mounts()
    main(CASES, __doc__)
