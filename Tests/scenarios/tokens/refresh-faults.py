"""Refreshes while the provider, the store or the process fails (guarantees 2 and 3). A session ends only if its grant is dead
or its tokens are lost. Two calls with the same refresh token never overlap.
"""

import pathlib
import sqlite3
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


def stack(case, gated=("refresh",), **more):
    sandbox = Sandbox(case)
    gate = Gate(sandbox)
    return sandbox, gate, Broker(case, sandbox, gate, gated, **more)


def refreshes_again(case, broker, session, seconds, sentence):
    """Repeats a refresh until it is 200 or 401, for at most `seconds`. The check fails if the last answer is not 200."""
    last = []

    def once():
        last[:] = [broker.refresh(session)]
        return last[0].status in (200, 401)

    begin = time.monotonic()
    wait_for(seconds, once, pause=0.5)
    case.same("200", last[0].told, f"{sentence} (after {time.monotonic() - begin:.0f} s)")


def hanging_then_slow(case):
    """The provider hangs for 14 s and breaks off, and answers the next call after 13 s.
    Every second, a caller asks for a refresh.
    """
    sandbox, gate, broker = stack(case)
    sandbox.settings("oidc", refresh_mode="rotate-strict")
    session = broker.sign_in()
    # Each call ends before the broker's deadline of fifteen seconds. Both calls together take longer than a claim lasts.
    gate.plan = [Gate.hang(14), Gate.slow(13)]
    callers = []
    begin = time.monotonic()
    for second in range(28):
        time.sleep(max(0, begin + second - time.monotonic()))
        callers.append(case.beside(broker.refresh, session))
    told = [caller.result(60).told for caller in callers]
    case.say(f"{len(told)} callers ask for a refresh while one hangs: {', '.join(f'{told.count(t)} times {t}' for t in sorted(set(told)))}")
    most = max(Gate.most_at_once(gate.refreshes(token)) for token in {c.refresh_token for c in gate.refreshes()})
    case.same(1, most, "callers ask for a refresh each second, while one provider call hangs and the next is slow → one provider call at a time")
    case.same([], [t for t in told if t.startswith("401")], "callers ask for a refresh each second, while one provider call hangs and the next is slow → no caller gets 401")
    case.same("200", broker.look(session).told, "a refresh call hangs, and then the next one is slow → the session is alive")
    refreshes_again(case, broker, session, 10, "a refresh call hangs, the next one is slow, and then the app refreshes at a provider with strict rotation → 200")


def killed_holder(case):
    """The provider has rotated the refresh token, and the broker is killed before the answer arrives.
    After its restart, the provider refuses the old token, at first with 503 and then finally.
    """
    sandbox, gate, broker = stack(case)
    session = broker.sign_in()
    gate.plan = [Gate.hold(threading.Event()), Gate.answer(503, b"busy")]
    case.beside(broker.refresh, session)
    if not wait_for(10, lambda: any(getattr(c, "worked", False) for c in gate.refreshes())):
        raise GaveUp("no refresh call")
    broker.stop()
    # The claim of a killed process lapses after a time. Setting its end in the store shortens the wait.
    with sqlite3.connect(broker.data / "coatcheck.db", isolation_level=None) as database:
        database.execute("UPDATE sessions SET claim_until = 1")
    broker.start()
    if not wait_for(30, lambda: broker.refresh(session) and len(gate.calls) >= 2, pause=0.5):
        raise GaveUp("nobody took over")
    taken_over = gate.refreshes()[1].began
    told = []

    def once():
        answer = broker.refresh(session).told
        told.append((time.monotonic() - taken_over, answer))
        return answer.startswith(("200", "401"))

    wait_for(100, once, pause=1)
    when, last = told[-1]
    case.say(f"kill -9 during a refresh, then a take-over: the app gets {last} {when:.0f} s after the take-over; {len(gate.refreshes())} provider calls in all")
    early = [f"{t} after {w:.0f} s" for w, t in told if t.startswith("401") and w < 59]
    case.same([], early, "kill -9 during a refresh, then a take-over, then a refusal → the session stays for 60 s, because a late owner may write")
    case.same("401 session_ended refresh_lost", last, "kill -9 before the answer to a refresh arrives, and the provider refuses the old token → the session ends as refresh_lost")
    case.same(
        (1, 0), tuple(int(broker.metric("coatcheck_sessions_ended_total", reason=r)) for r in ("refresh_lost", "grant_revoked")),
        "kill -9 before the answer to a refresh arrives, and the provider refuses the old token → counted only as refresh_lost")


def late_winner(case):
    """A process has the new token pair but cannot write it.
    Another process takes over the refresh, and gets 503 and then invalid_grant from the provider.
    """
    sandbox, gate, holder = stack(case)
    session = holder.sign_in()
    answered = threading.Event()
    gate.plan = [Gate.hold(answered)]
    first = case.beside(holder.refresh, session)
    if not wait_for(10, lambda: any(getattr(c, "worked", False) for c in gate.refreshes())):
        raise GaveUp("no refresh call")
    # A second process plays another replica. It runs on a copy of the store, which was made during the first process's claim.
    other = Broker(case, sandbox, gate, ("refresh",), like=holder, name="other", start=False)
    with holder.database() as source, sqlite3.connect(other.data / "coatcheck.db", isolation_level=None) as copy:
        source.backup(copy)
        copy.execute("UPDATE sessions SET claim_until = 1")
    # The provider call ends before the second process may take over, so only the locked store keeps the new pair from being
    # written.
    lock = holder.database()
    lock.execute("BEGIN IMMEDIATE")
    answered.set()
    gate.plan = [Gate.answer(503, b"busy")]
    other.start()
    told = []
    begin = time.monotonic()
    while len(gate.refreshes()) < 3 and time.monotonic() - begin < 30:
        told.append(other.refresh(session).told)
        time.sleep(0.3)
    case.same(3, len(gate.refreshes()), "a second process takes over a refresh → the provider gets one call from the first process and two from the second")
    told.append(other.refresh(session).told)
    case.same([], [t for t in told if not t.startswith("503")], "apps ask for a refresh while a second process takes over → all get 503, and never 401")
    lock.execute("ROLLBACK")
    case.same("503 store_unavailable", first.result(30).told, "a process cannot write refreshed tokens, because the store is locked → the app that waits for them gets 503 store_unavailable")
    case.verdict(wait_for(10, lambda: holder.row(session, "token_version")[0] == 2), "the store was locked after a refresh and is unlocked → the process writes the refreshed tokens")
    # Commit the late owner's tokens in the second store. The first pair for a token version wins, even without the claim.
    tokens = holder.row(session, "tokens_key, tokens, token_expires_at, refreshable, expires_at, token_version")
    changed = other.database().execute(
        """UPDATE sessions SET tokens_key = ?, tokens = ?, token_expires_at = ?, refreshable = ?, expires_at = ?,
           token_version = ?, claim_until = NULL WHERE token_version = ? AND ended_at IS NULL""",
        (*tokens, tokens[5] - 1)).rowcount
    case.same(1, changed, "the first process's tokens come to the store after a take-over → they can be committed, because the session was not condemned")
    case.same("200", other.look(session).told, "refreshed tokens were committed late, after a take-over → the session is alive")
    refreshes_again(case, other, session, 90, "a refresh with tokens that were committed late → 200")
    case.same(0, sandbox.calls("oidc/revoke"), "a take-over and a late commit of refreshed tokens → zero revocations")


def locked_store(case):
    """Another process locks the database for 31 s, from just before the provider's answer to a refresh."""
    sandbox, gate, broker = stack(case, gated=("refresh", "revocation"))
    session, other = broker.sign_in(), broker.sign_in("ben")
    answered = threading.Event()
    gate.plan = [Gate.hold(answered)]
    caller = case.beside(broker.refresh, session)
    if not wait_for(10, lambda: any(getattr(c, "worked", False) for c in gate.refreshes())):
        raise GaveUp("no refresh call")
    database = broker.database()
    database.execute("BEGIN IMMEDIATE")
    answered.set()
    begin = time.monotonic()
    looks = []
    while time.monotonic() - begin < 31:
        looks.append(broker.look(session))
        time.sleep(1)
    database.execute("ROLLBACK")
    told = caller.result(40).told
    case.verdict(told == "200" or told.startswith("503 store_unavailable"), f"a refresh while the database is locked → 200 or 503 store_unavailable: {told}", told)
    case.same({"200"}, {a.told for a in looks}, "reads of the session while the database is locked → 200")
    refreshes_again(case, broker, session, 15, "a refresh after the database was locked during an earlier refresh → 200 with the stored tokens")
    token = gate.refreshes()[0].refresh_token
    case.same(1, len(gate.refreshes(token)), "a refresh while the database is locked → the refresh token is sent once")
    case.same(0, len([c for c in gate.calls if "revoke" in c.path]), "a refresh while the database is locked → zero revocations")
    refreshes_again(case, broker, other, 15, "another session's refresh after the database was locked → 200")


def empty_refusals(case):
    """For ten minutes of a simulated clock, the provider answers each refresh with an empty 401."""
    clock = Clock(case)
    sandbox, gate, broker = stack(case, clock=clock)
    sessions = [broker.sign_in(f"user-{n}") for n in range(8)]
    gate.always = Gate.answer(401)
    told, passed = [], 0
    while passed <= 630:
        told += [broker.refresh(session) for session in sessions]
        passed += 45
        clock.set(passed, passed)
    case.say(f"provider answers all refreshes with an empty 401: {len(gate.refreshes())} provider calls in {passed} s")
    case.verdict(len(gate.refreshes()) >= 8 * 10, "provider answers all refreshes with an empty 401 for ten minutes → at least ten refused refreshes for each session", len(gate.refreshes()))
    case.same([], [a.told for a in told if not a.is_passing_fault], "provider answers all refreshes with an empty 401 for ten minutes → callers get 503 with Retry-After")
    case.same(["200"] * 8, [broker.look(s).told for s in sessions], "provider answers all refreshes with an empty 401 for ten minutes → all sessions are alive")
    gate.always = Gate.pass_on
    clock.set(passed + 60, passed + 60)
    case.same(["200"] * 8, [broker.refresh(s).told for s in sessions], "provider accepts refreshes after ten minutes of empty 401 answers → all sessions refresh")


def empty_refusal_of_one(case):
    """The provider answers one session's refresh token with an empty 401, and accepts those of other sessions."""
    clock = Clock(case)
    sandbox, gate, broker = stack(case, clock=clock)
    dead, well = broker.sign_in("dead"), broker.sign_in("well")
    condemned = []
    ordinary = Gate.pass_on
    gate.plan = [lambda taken, _: condemned.append(taken.refresh_token) or (401, {}, b"")]
    broker.refresh(dead)
    gate.always = lambda taken, forward: (401, {}, b"") if taken.refresh_token in condemned else ordinary(taken, forward)
    told = []
    for minute in range(1, 8):
        clock.set(minute * 60, minute * 60)
        broker.refresh(well)
        told.append(broker.refresh(dead).told)
    case.say(f"provider answers one session's refreshes with an empty 401, the app's answer in each minute: {', '.join(told)}")
    case.same([], [t for t in told[:4] if not t.startswith("503")], "provider answers only one session's refreshes with an empty 401 for four minutes → each refresh gets 503")
    case.same("401 session_ended grant_revoked", told[-1], "provider answers only one session's refreshes with an empty 401 for seven minutes → 401 grant_revoked")
    case.same("200", broker.refresh(well).told if broker.look(well).status == 200 else "gone", "provider answers only one session's refreshes with an empty 401 → a refresh of another session is 200")


def unchecked_subject(case):
    """A refresh returns another user's id_token, the provider's keys arrive late, and the broker is killed before it can verify.
    """
    sandbox, gate, broker = stack(case, gated=("refresh", "jwks"))
    session = broker.sign_in()
    version = broker.row(session, "token_version")[0]
    sandbox.control("POST", "/rotate-keys/oidc")
    sandbox.fault("oidc", fault="refresh-invalid-sub", times=1)
    gate.plan = [Gate.pass_on, Gate.hang()]
    case.beside(broker.refresh, session)
    if not wait_for(15, lambda: broker.row(session, "token_version")[0] > version):
        raise GaveUp("no pair was stored")
    if not wait_for(5, lambda: any("jwks" in c.path and c.ended is None for c in gate.calls)):
        raise GaveUp("no keys were asked for")
    broker.restart()
    told = broker.exchange(session)
    case.same((400, "invalid_grant"), (told.status, told.json.get("error")), "refresh returns another user's id_token, and kill -9 comes before the broker checks it → a backend's token exchange is refused")
    case.same("401 session_ended subject_changed", broker.look(session).told, "refresh returns another user's id_token, and kill -9 comes before the broker checks it → the session ends as subject_changed")


def three_hundred_callers(case):
    """300 callers come when the token expires, and the provider needs 4 s for the refresh."""
    sandbox, gate, broker = stack(case)
    sandbox.settings("oidc", access_token_lifetime=1)
    session = broker.sign_in()
    sandbox.settings("oidc", access_token_lifetime=3600)
    time.sleep(2)
    gate.plan = [Gate.slow(4)]
    before = broker.metric("coatcheck_store_transactions_total")
    callers = [case.beside(broker.exchange, session) for _ in range(300)]
    answers = [caller.result(40) for caller in callers]
    written = broker.metric("coatcheck_store_transactions_total") - before
    case.say(f"300 callers come when the access token has expired: {written:.0f} write transactions")
    case.same(300, [a.status for a in answers].count(200), "300 callers come when the access token has expired → all are served")
    case.same(1, len({a.json.get("access_token") for a in answers}), "300 callers come when the access token has expired → all get the same new token")
    case.same(1, len(gate.refreshes()), "300 callers come when the access token has expired → one provider call")
    case.verdict(before > 0 and written <= 60, "300 callers come when the access token has expired → at most 60 write transactions in the store", written)


def hanging_revocations(case):
    """One provider's revocation endpoint hangs after forty log-outs; then a user logs out of a session at another provider."""
    sandbox, gate, broker = stack(case, gated=("revocation",))
    gate.always = Gate.hang(14)
    sessions = [broker.sign_in() for _ in range(40)]
    other = broker.sign_in("ben", "oauth2")
    for session in sessions:
        broker.log_out(session)
    if not wait_for(10, lambda: gate.calls):
        raise GaveUp("nothing is revoked")
    # Wait until the outbox worker has most likely taken its batch of revocations.
    wait_for(3, lambda: len(gate.calls) >= 32)
    broker.log_out(other)
    begin = time.monotonic()
    wait_for(25, lambda: sandbox.calls("oauth2/revoke"))
    late = time.monotonic() - begin
    # The hanging calls end after fourteen seconds, and a row that waits for such a call would be at least that late.
    case.verdict(late < 10, f"one provider's revocations hang → a revocation at another provider is sent within 10 s: {late:.1f} s", f"{late:.1f} s late")
    most = Gate.most_at_once(gate.calls)
    case.verdict(most <= 2, f"one provider's revocations hang → the broker makes at most two of these calls at the same time: {most}", most)


CASES = {
    "hanging-then-slow": (hanging_then_slow, 80),
    "killed-holder": (killed_holder, 180),
    "late-winner": (late_winner, 180),
    "locked-store": (locked_store, 80),
    "empty-refusals": (empty_refusals, 80),
    "empty-refusal-of-one": (empty_refusal_of_one, 60),
    "unchecked-subject": (unchecked_subject, 60),
    "three-hundred-callers": (three_hundred_callers, 60),
    "hanging-revocations": (hanging_revocations, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
