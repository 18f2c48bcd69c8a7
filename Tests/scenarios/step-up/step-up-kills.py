"""A step-up and a refresh of one session at the same time, on three replicas (guarantee 2, "a step-up and what is under way").

`kill -9` ends the replica of the step-up or of the refresh, between any two of its steps. The session lives and is served at
every replica, and a committed grant stays. A refresh token is sent twice only if its first sender was killed. The provider
rotates refresh tokens, and revokes the grant if one is sent twice. Row locks from outside the broker hold its statements.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.replicas import TAKE_OVER  # noqa: E402
from support.step_up import told  # noqa: E402
from support.step_up_stage import LAPSE, Outcome, Stage, settle  # noqa: E402
from support.waiting import wait_for  # noqa: E402


# ---- the replica that refreshes is killed, and another replica steps up
# -----------------------------------------------------------


def refresh_at_its_claim(stage, session):
    """The claim of the refresh waits in the database, and the step-up waits behind this claim."""
    login, lock = stage.login(session), stage.lock(session)
    stage.case.beside(stage.dying.refresh, session)
    stage.wait(1)
    answer = stage.case.beside(login.forward, ..., stage.second)
    stage.wait(2)
    stage.kill()
    lock.release()
    return Outcome(told(answer.result(30)) == "200", login)


def refresh_before_the_provider(stage, session):
    """The refresh is claimed, and its call is held before it reaches the provider."""
    stage.refresh(stage.dying, session, reaches=False)
    stage.kill()
    login = stage.login(session)
    return Outcome(told(login.forward(broker=stage.second)) == "200", login)


def refresh_with_its_answer_held(stage, session):
    """The provider has rotated. The step-up commits, then the replica that refreshes dies."""
    stage.refresh(stage.dying, session)
    login = stage.login(session)
    stands = told(login.forward(broker=stage.second)) == "200"
    stage.kill()
    return Outcome(stands, login)


def refresh_before_its_commit(stage, session):
    """The provider has rotated. The replica that refreshes dies, then the step-up comes."""
    stage.refresh(stage.dying, session)
    stage.kill()
    login = stage.login(session)
    return Outcome(told(login.forward(broker=stage.second)) == "200", login)


def refresh_in_its_commit(stage, session):
    """The commit of the refresh waits in the database, and the step-up's commit waits behind it."""
    release, _ = stage.refresh(stage.dying, session)
    login, lock = stage.login(session), stage.lock(session)
    release.set()
    stage.wait(1)
    answer = stage.case.beside(login.forward, ..., stage.second)
    stage.wait(2)
    stage.kill()
    lock.release()
    return Outcome(told(answer.result(30)) == "200", login)


def refresh_outgrown(stage, session):
    """The step-up's commit waits in the database, and the refresh's commit behind it."""
    release, _ = stage.refresh(stage.dying, session)
    login, lock = stage.login(session), stage.lock(session)
    answer = stage.case.beside(login.forward, ..., stage.second)
    stage.wait(1)
    release.set()
    stage.wait(2)
    stage.kill()
    lock.release()
    return Outcome(told(answer.result(30)) == "200", login)


def refresh_after_its_commit(stage, session):
    """The refresh has committed, and its replica dies with the answer."""
    release, _ = stage.refresh(stage.dying, session)
    release.set()
    wait_for(10, lambda: stage.row(session, "token_version") == ["2"], 0)
    stage.kill()
    login = stage.login(session)
    return Outcome(told(login.forward(broker=stage.second)) == "200", login)


# ---- the replica that steps up is killed, and another replica refreshes
# -----------------------------------------------------------


def step_up_at_its_claim(stage, session):
    """The claim of the code waits in the database."""
    login, lock = stage.login(session), stage.lock_exchanges()
    stage.case.beside(login.forward, ..., stage.dying)
    stage.wait(1)
    stage.kill()
    refreshed = told(stage.second.refresh(session))
    lock.release()
    stage.case.same("200", refreshed, "a replica is killed while its step-up waits to claim the code, and then another replica refreshes → the refresh gets 200")
    # PostgreSQL may still carry out the killed process's statement. The code then counts as sent.
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_before_the_provider(stage, session):
    """The code is held before it reaches the provider."""
    login = stage.login(session)
    stage.forward(stage.dying, login, reaches=False)
    stage.kill()
    stage.case.same("200", told(stage.second.refresh(session)), "a replica is killed before its step-up's code reaches the provider, and then another replica refreshes → the refresh gets 200")
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_with_a_refresh_before(stage, session):
    """The provider has answered the step-up. A refresh begins and ends, then the replica dies."""
    login = stage.login(session)
    stage.forward(stage.dying, login)
    stage.case.same("200", told(stage.second.refresh(session)), "the provider has answered a step-up, and another replica refreshes before the step-up commits → the refresh gets 200")
    stage.kill()
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_with_a_refresh_after(stage, session):
    """Both calls are answered. The replica of the step-up dies before its commit, and then the refresh commits."""
    login = stage.login(session)
    stage.forward(stage.dying, login)
    release, refreshed = stage.refresh(stage.second, session)
    stage.kill()
    release.set()
    stage.case.same("200", told(refreshed.result(30)), "a replica is killed before its step-up commits, while another replica's refresh is in progress → the refresh gets 200")
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_in_its_commit(stage, session):
    """The step-up's commit waits in the database, and a refresh's commit waits behind it."""
    login = stage.login(session)
    stepped, _ = stage.forward(stage.dying, login)
    release, refreshed = stage.refresh(stage.second, session)
    lock = stage.lock(session)
    stepped.set()
    stage.wait(1)
    release.set()
    stage.wait(2)
    stage.kill()
    lock.release()
    stage.case.same("200", told(refreshed.result(30)), "a replica is killed during its step-up's commit, while another replica's refresh waits for this commit → the refresh gets 200")
    return Outcome(True, login)


def step_up_behind_a_refresh(stage, session):
    """A refresh's commit waits in the database, and the step-up's commit, which would have to be made again, waits behind it.
    """
    login = stage.login(session)
    stepped, _ = stage.forward(stage.dying, login)
    release, refreshed = stage.refresh(stage.second, session)
    lock = stage.lock(session)
    release.set()
    stage.wait(1)
    stepped.set()
    stage.wait(2)
    stage.kill()
    lock.release()
    stage.case.same("200", told(refreshed.result(30)), "a replica is killed while its step-up waits for another replica's refresh to commit → the refresh gets 200")
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_after_its_commit(stage, session):
    """The step-up has committed, and its replica dies with the answer."""
    login = stage.login(session)
    stage.case.beside(login.forward, ..., stage.dying)
    wait_for(10, lambda: stage.row(session, "token_version") == ["2"], 0)
    stage.kill()
    return Outcome(True, login)


# ---- the next refresh has to wait for the killed replica's claim
# ------------------------------------------------------------------------------------


def refresh_of_the_new_grant(stage, session):
    """A step-up, and a refresh of its grant, whose replica dies before the provider has the call."""
    login = stage.login(session)
    stands = told(login.forward(broker=stage.second)) == "200"
    stage.refresh(stage.dying, session, reaches=False)
    stage.kill()
    return Outcome(stands, login, waits=True)


def refresh_of_a_kept_grant(stage, session):
    """A refresh's process dies before the provider has the call. The step-up brings no refresh token, so the claim stays."""
    stage.refresh(stage.dying, session, reaches=False)
    stage.kill()
    login = stage.login(session)
    stage.sandbox.fault("oidc", fault="no-refresh-token", times=1)
    return Outcome(told(login.forward(broker=stage.second)) == "200", login, waits=True, keeps_grant=True)


ROUNDS = [
    # First the round that locks a whole table, then those with long waits, which run while the others do.
    step_up_at_its_claim, refresh_of_the_new_grant, refresh_of_a_kept_grant, step_up_before_the_provider, step_up_with_a_refresh_before,
    step_up_with_a_refresh_after, step_up_behind_a_refresh, step_up_in_its_commit, step_up_after_its_commit, refresh_at_its_claim,
    refresh_before_the_provider, refresh_with_its_answer_held, refresh_before_its_commit, refresh_in_its_commit, refresh_outgrown,
    refresh_after_its_commit]


def kills(case):
    """A kill between any two steps of a refresh and of a step-up, in both orders."""
    with Database() as database:
        stage = Stage(case, database)
        waiting = []
        for round in ROUNDS:
            name = f"{round.__name__.replace('_', ' ')}"
            session = stage.begin()
            old = stage.grant(stage.third, session)
            outcome = round(stage, session)
            ended = time.monotonic()
            case.same(outcome.steps_up or outcome.repeats[0] != "200", True, f"a replica is killed at “{name}”, the step-up's first forward → takes effect, unless the repeated forward has to fail in this round")
            stage.dying.start()
            acr = "mfa" if outcome.steps_up else "pwd"
            for broker in stage.brokers:
                found = wait_for(8, lambda: (answer := broker.look(session)).json.get("acr") == acr and answer) or broker.look(session)
                case.same(("200", acr), (told(found), found.json.get("acr")), f"a replica is killed at “{name}”, the session at replica {broker.name} → 200, with the acr of its last sign-in")
            grants = [stage.grant(broker, session) for broker in stage.brokers]
            # Even if the step-up keeps the refresh token, its access token belongs to the new sign-in until the next refresh.
            case.verdict(
                len(set(grants)) == 1 and grants[0] and (grants[0] != old) == outcome.steps_up,
                f"a replica is killed at “{name}”, the session's access token → is live, and belongs to the {'new' if outcome.steps_up else 'old'} sign-in at every replica", (old, grants))
            waiting.append((name, session, outcome, old, case.beside(settle, stage, session, outcome, ended)))
        for name, session, outcome, old, settled in waiting:
            for verdict, sentence, detail in settled.result(TAKE_OVER + LAPSE):
                case.verdict(verdict, f"a replica is killed at “{name}”, {sentence}", detail)
            # The last step-up may have been a moment ago. Other replicas show it within a second (guarantee 6).
            grants = []

            def agree():
                grants[:] = [stage.grant(broker, session) for broker in stage.brokers]
                return len(set(grants)) == 1 and grants[0]

            wait_for(1, agree)
            case.verdict(len(set(grants)) == 1 and grants[0], f"a replica is killed at “{name}”, the access tokens at the end → are live, and belong to the same grant at every replica", grants)
        # The outbox is empty at the end, and the first grant has ended if the session has a new one.
        case.verdict(wait_for(40, lambda: stage.query("SELECT count(*) FROM outbox") == [["0"]], 0.2), "all rounds with a killed replica, the outbox at the end → empty")
        living = {item["grant"] for item in stage.tokens().values() if item["live"]}
        for name, session, outcome, old, _ in waiting:
            # If the step-up died with its replica, another step-up has followed.
            case.same(outcome.keeps_grant, old in living, f"a replica is killed at “{name}”, the session's first grant → {'lives' if outcome.keeps_grant else 'was revoked'}")
        case.same([2, 2, 1], sorted(stage.sent().values(), reverse=True)[:3], "the refresh tokens of all rounds → each was sent once, except two whose claims were taken over")


if __name__ == "__main__":
    main({"kills": (kills, 280)}, __doc__)
