"""The broker's wall clock is wrong for a while. Every session survives (guarantee 3). A preloaded library changes the clock of
the broker, but not of the machine.
"""

import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.gate import Gate  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

DAY = 86_400


class Stream:
    """An event stream: its text so far, and whether it has ended."""

    def __init__(self, broker, session):
        self.text, self.ended = b"", False
        self.socket = socket.create_connection(("127.0.0.1", broker.port))
        self.socket.sendall(
            f"GET /v1/session/events HTTP/1.1\r\nHost: 127.0.0.1:{broker.port}\r\nCookie: coatcheck={session}\r\n\r\n".encode())
        threading.Thread(target=self.read, daemon=True).start()

    def read(self):
        try:
            while part := self.socket.recv(65536):
                self.text += part
        except OSError:
            pass
        self.ended = True

    @property
    def events(self):
        return [line[7:].decode() for line in self.text.splitlines() if line.startswith(b"event: ")]


def stack(case, **more):
    sandbox = Sandbox(case)
    gate = Gate(sandbox)
    clock = Clock(case)
    return sandbox, gate, clock, Broker(case, sandbox, gate, ("refresh",), clock=clock, **more)


def counted(broker):
    """Returns the number of tombstones and the number of rows in the outbox."""
    return broker.query("SELECT (SELECT count(*) FROM sessions WHERE ended_at IS NOT NULL), (SELECT count(*) FROM outbox)")[0]


def is_moved(case, broker, seconds):
    """Checks that the broker's clock is this many seconds ahead."""
    begun = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios"}).json
    year, month, day = map(int, begun["expires_at"][:10].split("-"))
    there = time.mktime((year, month, day, 12, 0, 0, 0, 0, 0)) - time.time()
    case.verdict(abs(there - seconds) < 1.5 * DAY, f"a login at a broker whose clock is moved → its expiry is {seconds / DAY:.0f} days ahead", begun["expires_at"])


def everybody_is_there(case, broker, sessions):
    case.same(20, [broker.look(s).told for s in sessions].count("200"), "20 sessions after the clock was wrong → all are alive")
    case.same((0, 0), counted(broker), "20 sessions after the clock was wrong → the store has no tombstone and an empty outbox")
    answers = [broker.refresh(s) for s in sessions[:5]]
    case.same(["200"] * 5, [a.told for a in answers], "refreshes of five of the 20 sessions, after the clock was wrong → all are 200")


def ahead(case):
    """The clock is 91 days ahead for 5 s, in which the first sweep runs."""
    sandbox, gate, clock, broker = stack(case)
    sessions = [broker.sign_in(f"user-{n}") for n in range(20)]
    broker.restart()
    streams = [Stream(broker, s) for s in sessions[15:18]]
    if not wait_for(20, lambda: all(s.events for s in streams)):
        raise GaveUp("no event stream")
    started = time.monotonic()
    time.sleep(2.5)
    clock.set(wall=91 * DAY)
    is_moved(case, broker, 91 * DAY)
    answers, others = [], []
    while time.monotonic() - started < 7.5:
        answers += [broker.look(s) for s in sessions[5:10]]
        others += [broker.refresh(sessions[10]), broker.exchange(sessions[11])]
        others.append(broker.call("GET", "/v1/forward-auth", sessions[12], X_Coatcheck_Backend="orders-credential-4f1d9c"))
        time.sleep(0.1)
    clock.set()
    case.say(f"calls while the clock is wrong: {len(answers) + len(others)} answers")
    wrong = sorted({a.told for a in answers + others if not (a.is_passing_fault and "store_unavailable" in a.body.decode() + a.told)})
    oauth = [t for t in wrong if t.startswith("503 temporarily_unavailable")]
    case.same([], [t for t in wrong if t not in oauth], "calls while the clock is wrong → 503 store_unavailable with Retry-After, and no cookie is cleared")
    time.sleep(1)
    case.same([["session"]] * 3, [s.events for s in streams], "event streams while the clock is wrong → only the first event `session` has arrived")
    case.same([False] * 3, [s.ended for s in streams], "event streams after the clock was wrong → open")
    everybody_is_there(case, broker, sessions)
    case.same("204", broker.log_out(sessions[15]).told, "a log-out after the clock was wrong → 204")
    wait_for(20, lambda: streams[0].ended)
    case.same(["session", "session_ended"], streams[0].events, "a log-out after the clock was wrong → the session's event stream gets session_ended")


def starts_ahead(case):
    """The broker starts with a clock that is 91 days ahead for 8 s, and the first sweep runs in this time."""
    sandbox, gate, clock, broker = stack(case)
    sessions = [broker.sign_in(f"user-{n}") for n in range(20)]
    # The first sweep stores the right time, so wait until the sweeper has its lease.
    wait_for(15, lambda: broker.query("SELECT count(*) FROM leases")[0][0])
    time.sleep(0.5)
    broker.stop()
    clock.set(wall=91 * DAY)
    broker.start()
    started = time.monotonic()
    is_moved(case, broker, 91 * DAY)
    answers = []
    while time.monotonic() - started < 8:
        answers += [broker.look(s) for s in sessions[:5]]
        time.sleep(0.2)
    wrong = [a.told for a in answers if not a.is_passing_fault]
    case.same([], wrong[:3], f"{len(answers)} calls to a broker that starts 91 days ahead → 503 with Retry-After, no cookie cleared")
    clock.set()
    everybody_is_there(case, broker, sessions)


def forward_amid_refresh(case):
    """During a refresh that takes 4 s, the clock steps 30 s ahead, and in a second round 150 s. Three more callers wait."""
    sandbox, gate, clock, broker = stack(case)
    sandbox.settings("oidc", refresh_mode="rotate-strict")
    for step in (30, 150):
        session = broker.sign_in(f"user-{step}")
        gate.calls.clear()
        gate.plan = [Gate.slow(4)]
        callers = [case.beside(broker.refresh, session)]
        if not wait_for(10, lambda: gate.refreshes()):
            raise GaveUp("no refresh call")
        clock.set(wall=step)
        sandbox.control("POST", "/clock", {"advance": step if step == 30 else step - 30})
        time.sleep(0.3)
        callers += [case.beside(broker.refresh, session) for _ in range(3)]
        told = {caller.result(40).told for caller in callers}
        case.same({"200"}, told, f"the clock steps {step} s ahead during a refresh with four waiting callers → each caller gets 200")
        case.same(1, len(gate.refreshes(gate.calls[0].refresh_token)), f"the clock steps {step} s ahead during a refresh with four waiting callers → the refresh token is sent once")
        wait_for(5, lambda: broker.refresh(session).status != 503, pause=0.5)
        case.same("200", broker.refresh(session).told, f"the clock stepped {step} s ahead during a refresh, and then the app refreshes again → 200 under strict rotation")


def back_with_a_dead_claim(case):
    """A process is killed during a refresh, and the clock goes an hour back before the next start."""
    sandbox, gate, clock, broker = stack(case)
    session = broker.sign_in()
    gate.plan = [Gate.hang()]
    case.beside(broker.refresh, session)
    if not wait_for(10, lambda: gate.refreshes()):
        raise GaveUp("no refresh call")
    broker.stop()
    clock.set(wall=-3600)
    sandbox.control("POST", "/clock", {"advance": -3600})
    broker.start()
    begin = time.monotonic()
    told = []
    # The killed process's claim lapses after 25 s. If it depended on the wall clock, it would last for the hour.
    wait_for(45, lambda: told.append(broker.refresh(session).told) or told[-1] == "200", pause=0.5)
    case.same("200", told[-1], f"the broker is killed during a refresh, the clock goes an hour back, and then the app refreshes → 200, after {time.monotonic() - begin:.0f} s")


def back_while_running(case):
    """The clock goes an hour back in sixty steps, during a refresh and many logins."""
    sandbox, gate, clock, broker = stack(case)
    session = broker.sign_in()
    gate.plan = [Gate.slow(4)]
    caller = case.beside(broker.refresh, session)
    stop = threading.Event()
    written = []

    def keep_writing():
        while not stop.is_set():
            answer = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios"})
            written.append((answer.status, answer.seconds))

    writers = [case.beside(keep_writing) for _ in range(8)]
    if not wait_for(10, lambda: gate.refreshes()):
        raise GaveUp("no refresh call")
    sandbox.control("POST", "/clock", {"advance": -3600})
    for step in range(1, 61):
        time.sleep(0.04)
        clock.set(wall=-60 * step)
    time.sleep(1)
    stop.set()
    for writer in writers:
        writer.result(50)
    slowest = max(seconds for _, seconds in written)
    statuses = {status for status, _ in written}
    # If a login waited for the clock to catch up, it would take minutes.
    case.verdict(statuses == {201} and slowest < 10, f"{len(written)} logins while the clock goes an hour back → all are 201, the slowest in {slowest:.2f} s", f"{statuses}")
    case.same("200", caller.result(30).told, "the clock goes an hour back during a refresh → the refresh gets 200")
    wait_for(5, lambda: broker.refresh(session).status != 503, pause=0.5)
    case.same("200", broker.refresh(session).told, "the clock went an hour back during a refresh, and then the app refreshes again → 200")


CASES = {
    "ahead": (ahead, 60),
    "starts-ahead": (starts_ahead, 60),
    "forward-amid-refresh": (forward_amid_refresh, 60),
    "back-with-a-dead-claim": (back_with_a_dead_claim, 120),
    "back-while-running": (back_while_running, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
