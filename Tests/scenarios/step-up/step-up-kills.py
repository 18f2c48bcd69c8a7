"""Step-ups and refreshes that cross on three replicas (guarantee 2, "a step-up and what is under way"). `kill -9` ends the
replica of either, between any two of its steps. The session lives and is served everywhere, and a committed grant stays. A
refresh token is sent twice only if its first sender has died. The provider rotates and revokes a grant whose refresh token
comes twice. Rows are locked from outside to hold a statement.
"""

import dataclasses
import http.client
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import sha256  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.replicas import TAKE_OVER, Lock, Replicas  # noqa: E402
from support.step_up import MFA, Login, told  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

LAPSE = 25 + 15


@dataclasses.dataclass
class Outcome:
    """The required end of a round."""

    steps_up: bool
    # The unanswered forward, and the possible final answers to its repeat.
    login: Login | None = None
    repeats: tuple = ("200",)
    # Whether the next refresh has to wait until a dead owner's claim is taken over.
    waits: bool = False
    keeps_grant: bool = False


def settings(*_):
    return {"providers": {"oidc": {"revocation": {"reaches": "token"}}}}


class Stage(Replicas):
    """Sessions of users without another session, and their work in progress."""

    def __init__(self, case, database):
        super().__init__(case, database, settings)
        self.users = {}

    def row(self, session, columns):
        return self.query(f"SELECT {columns} FROM session_states WHERE token = '\\x{sha256(session)}'")[0]

    def lock(self, session):
        return Lock(self.database, f"SELECT FROM session_states WHERE token = '\\x{sha256(session)}' FOR UPDATE")

    def lock_exchanges(self):
        return Lock(self.database, "LOCK TABLE exchanges IN EXCLUSIVE MODE")

    def wait(self, count):
        """Waits until this number of statements waits for a lock."""
        sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND datname = 'postgres'"
        if not wait_for(3, lambda: int(self.query(sql)[0][0]) >= count):
            raise GaveUp(f"no {count} statements wait: {self.query('SELECT state, wait_event_type, left(query, 80) FROM pg_stat_activity')}")

    def refresh(self, broker, session, reaches=True):
        return self.hold(broker, lambda broker: broker.refresh(session), reaches)

    def forward(self, broker, login, reaches=True):
        return self.hold(broker, lambda broker: login.forward(broker=broker), reaches)

    def login(self, session):
        """A step-up up to its forward; its user has signed in."""
        return Login(self.second, session, MFA).sign_in(self.users[session])

    def begin(self):
        """Makes a session of a user without another session."""
        user = f"user-{len(self.users)}"
        session = self.third.sign_in(user=user)
        self.users[session] = user
        return session

    def grant(self, broker, session):
        """The grant of the access token that a backend gets, if it lives."""
        token = broker.exchange(session).json.get("access_token")
        found = self.tokens().get(token)
        return found["grant"] if found and found["live"] else None


# ---- the replica that refreshes dies, and another steps up ----------------------------------------------------------


def refresh_at_its_claim(stage, session):
    """The claim of the refresh waits in the database, the step-up behind it."""
    login, lock = stage.login(session), stage.lock(session)
    stage.case.beside(stage.dying.refresh, session)
    stage.wait(1)
    answer = stage.case.beside(login.forward, ..., stage.second)
    stage.wait(2)
    stage.kill()
    lock.release()
    return Outcome(told(answer.result(30)) == "200", login)


def refresh_before_the_provider(stage, session):
    """The refresh is claimed, and its call is on its way."""
    stage.refresh(stage.dying, session, reaches=False)
    stage.kill()
    login = stage.login(session)
    return Outcome(told(login.forward(broker=stage.second)) == "200", login)


def refresh_with_its_answer_held(stage, session):
    """The provider has rotated; the step-up commits, then the replica dies."""
    stage.refresh(stage.dying, session)
    login = stage.login(session)
    stands = told(login.forward(broker=stage.second)) == "200"
    stage.kill()
    return Outcome(stands, login)


def refresh_before_its_commit(stage, session):
    """The provider has rotated, the replica dies, then the step-up comes."""
    stage.refresh(stage.dying, session)
    stage.kill()
    login = stage.login(session)
    return Outcome(told(login.forward(broker=stage.second)) == "200", login)


def refresh_in_its_commit(stage, session):
    """The commit of the refresh waits in the database, the step-up's behind it."""
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
    """The refresh has committed, and its answer is lost."""
    release, _ = stage.refresh(stage.dying, session)
    release.set()
    wait_for(10, lambda: stage.row(session, "token_version") == ["2"], 0)
    stage.kill()
    login = stage.login(session)
    return Outcome(told(login.forward(broker=stage.second)) == "200", login)


# ---- the replica that steps up dies, and another refreshes ----------------------------------------------------------


def step_up_at_its_claim(stage, session):
    """The claim of the code waits in the database."""
    login, lock = stage.login(session), stage.lock_exchanges()
    stage.case.beside(login.forward, ..., stage.dying)
    stage.wait(1)
    stage.kill()
    refreshed = told(stage.second.refresh(session))
    lock.release()
    stage.case.same("200", refreshed, "a step-up killed while the claim of its code waits, another replica's refresh → 200")
    # If the dead process's statement was still carried out, the code counts as sent.
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_before_the_provider(stage, session):
    """The code is on its way."""
    login = stage.login(session)
    stage.forward(stage.dying, login, reaches=False)
    stage.kill()
    stage.case.same("200", told(stage.second.refresh(session)), "a step-up killed before the provider's work, another replica's refresh → 200")
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_with_a_refresh_before(stage, session):
    """The provider has answered the step-up. A refresh begins and ends, then the replica dies."""
    login = stage.login(session)
    stage.forward(stage.dying, login)
    stage.case.same("200", told(stage.second.refresh(session)), "a step-up answered by the provider, another replica's refresh before the kill → 200")
    stage.kill()
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_with_a_refresh_after(stage, session):
    """Both calls are answered; the step-up's process dies before its commit, and the refresh commits after that."""
    login = stage.login(session)
    stage.forward(stage.dying, login)
    release, refreshed = stage.refresh(stage.second, session)
    stage.kill()
    release.set()
    stage.case.same("200", told(refreshed.result(30)), "a step-up killed before its commit, another replica's refresh → 200")
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_in_its_commit(stage, session):
    """The step-up's commit waits in the database, and a refresh's commit behind it."""
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
    stage.case.same("200", told(refreshed.result(30)), "a step-up killed during its commit, another replica's refresh behind it → 200")
    return Outcome(True, login)


def step_up_behind_a_refresh(stage, session):
    """A refresh's commit waits in the database, and the step-up's behind it, which would have to be made again."""
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
    stage.case.same("200", told(refreshed.result(30)), "a step-up killed behind a refresh's commit, the refresh → 200")
    return Outcome(False, login, ("503 provider_unavailable",))


def step_up_after_its_commit(stage, session):
    """The step-up has committed, and its answer is lost."""
    login = stage.login(session)
    stage.case.beside(login.forward, ..., stage.dying)
    wait_for(10, lambda: stage.row(session, "token_version") == ["2"], 0)
    stage.kill()
    return Outcome(True, login)


# ---- whose claim has to be waited for -------------------------------------------------------------------------------


def refresh_of_the_new_grant(stage, session):
    """A step-up, and the refresh of its grant dies before the provider has it."""
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
    """A kill at each seam of a refresh and of a step-up, in both orders."""
    with Database() as database:
        stage = Stage(case, database)
        waiting = []
        for round in ROUNDS:
            name = f"{round.__name__.replace('_', ' ')}"
            session = stage.begin()
            old = stage.grant(stage.third, session)
            outcome = round(stage, session)
            ended = time.monotonic()
            case.same(outcome.steps_up or outcome.repeats[0] != "200", True, f"{name}, a forward whose repeat has to be 200 → the step-up took effect")
            stage.dying.start()
            acr = "mfa" if outcome.steps_up else "pwd"
            for broker in stage.brokers:
                found = wait_for(8, lambda: (answer := broker.look(session)).json.get("acr") == acr and answer) or broker.look(session)
                case.same(("200", acr), (told(found), found.json.get("acr")), f"{name}, the session at {broker.name} → 200, with the class of its last sign-in")
            grants = [stage.grant(broker, session) for broker in stage.brokers]
            # With a kept refresh token, too, the access token is the new sign-in's until the next refresh.
            case.verdict(
                len(set(grants)) == 1 and grants[0] and (grants[0] != old) == outcome.steps_up,
                f"{name}, its access token → works, and is of the {'new' if outcome.steps_up else 'old'} sign-in at every replica", (old, grants))
            waiting.append((name, session, outcome, old, case.beside(settle, stage, session, outcome, ended)))
        for name, session, outcome, old, settled in waiting:
            for verdict, sentence, detail in settled.result(TAKE_OVER + LAPSE):
                case.verdict(verdict, f"{name}, {sentence}", detail)
            # The last step-up may be of this moment, and the others show it within a second (guarantee 6).
            grants = []

            def agree():
                grants[:] = [stage.grant(broker, session) for broker in stage.brokers]
                return len(set(grants)) == 1 and grants[0]

            wait_for(1, agree)
            case.verdict(len(set(grants)) == 1 and grants[0], f"{name}, the access token at the end → works, and is of one grant at every replica", grants)
        # No work is left, and an old grant has ended if there is a new one.
        case.verdict(wait_for(40, lambda: stage.query("SELECT count(*) FROM outbox") == [["0"]], 0.2), "all rounds of kills, the outbox at the end → empty")
        living = {item["grant"] for item in stage.tokens().values() if item["live"]}
        for name, session, outcome, old, _ in waiting:
            # If the step-up died, another one has come since.
            case.same(outcome.keeps_grant, old in living, f"{name}, the first grant → {'lives' if outcome.keeps_grant else 'was revoked'}")
        case.same([2, 2, 1], sorted(stage.sent().values(), reverse=True)[:3], "all refresh tokens of the rounds → sent once, except two whose claims were taken over")


def settle(stage, session, outcome, ended):
    """Waits for a round's end: a refresh in time, and an answer to the forward's repeat. Returns its verdicts."""
    lines, broker = [], stage.third
    limit = TAKE_OVER if outcome.waits else 12

    def within(seconds, ask, is_so):
        last = []

        def once():
            last[:] = [ask()]
            return is_so(last[0])

        wait_for(max(ended + seconds - time.monotonic(), 5), once, 1)
        return last[0], f"{told(last[0])} after {time.monotonic() - ended:.0f} s"

    answer, detail = within(limit, lambda: broker.refresh(session), lambda answer: answer.status in (200, 401))
    lines.append((told(answer) == "200", f"a refresh → 200 within {limit} s ({detail})", detail))
    is_good = outcome.repeats == ("200",)
    answer, detail = within(
        LAPSE, lambda: outcome.login.forward(broker=broker),
        lambda answer: told(answer) == "200" if is_good else answer.json.get("retry") == "new_login")
    lines.append((
        told(answer) in outcome.repeats and is_good == (answer.json.get("retry") is None),
        f"the repeated forward → {' or '.join(outcome.repeats)}{'' if is_good else ', with new_login'} ({detail})", answer.json))
    if not is_good:
        again = stage.login(session).forward(broker=broker)
        lines.append((told(again) == "200", "another step-up → 200", told(again)))
        lines.append((told(broker.refresh(session)) == "200", "a refresh after another step-up → 200", ""))
    return lines


def kept(case):
    """A step-up without a new refresh token: refreshes go on over all replicas, and each replica's listeners are notified."""
    with Database() as database:
        stage = Stage(case, database)
        session = stage.begin()
        old = stage.grant(stage.second, session)
        heard = []

        def listen(broker):
            connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=60)
            connection.request("GET", "/v1/session/events", headers={
                "Cookie": f"coatcheck={session}", "Host": broker.settings["server"]["public_url"].removeprefix("http://")})
            answer = connection.getresponse()

            def read():
                for line in iter(answer.readline, b""):
                    if line.startswith(b"event: tokens_refreshed"):
                        heard.append(broker.name)

            case.beside(read)
            return answer.status

        case.same([200, 200], [listen(stage.dying), listen(stage.third)], "event listeners at two replicas → 200")
        stage.sandbox.fault("oidc", fault="no-refresh-token", times=1)
        before = stage.row(session, "token_version, grant_version, fence")
        login = stage.login(session)
        case.same("200", told(login.forward(broker=stage.second)), "a step-up at a third replica, without a new refresh token → 200")
        case.same(before, stage.row(session, "token_version, grant_version, fence"), "a step-up without a new refresh token → the versions of tokens and grant and the fence stay")
        case.verdict(wait_for(5, lambda: sorted(heard) == ["dying", "third"]), "a step-up without a new refresh token → listeners at both other replicas are notified", heard)
        case.same(["mfa"] * 3, [broker.look(session).json["acr"] for broker in stage.brokers], "a step-up without a new refresh token → every replica shows the class at once")
        for broker in stage.brokers:
            case.same("200", told(broker.refresh(session)), f"a step-up without a new refresh token, then a refresh at {broker.name} → 200")
            for each in stage.brokers:
                # A cache is up to five seconds old, and so is a token that works as well.
                wait_for(7, lambda: stage.grant(each, session) == old)
                case.same(old, stage.grant(each, session), f"a kept grant after a refresh, the access token at {each.name} → works, and is of the kept grant")
        case.same("mfa", stage.third.look(session).json["acr"], "a session with a kept grant after three refreshes → keeps the class of its step-up")
        case.same({1}, set(stage.sent().values()), "all refresh tokens of a kept grant → each is sent once")


CASES = {"kills": (kills, 280), "kept": (kept, 120)}

if __name__ == "__main__":
    main(CASES, __doc__)
