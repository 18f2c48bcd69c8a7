"""Three replicas for step-ups and refreshes of a session at the same time. The test locks rows to hold a replica's statement."""

import dataclasses
import time

from .broker import sha256
from .replicas import TAKE_OVER, Lock, Replicas
from .step_up import MFA, Login, told
from .waiting import GaveUp, wait_for

LAPSE = 25 + 15


@dataclasses.dataclass
class Outcome:
    """The result that a round has to have."""

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
    """Three replicas, with sessions of users that have only this one session, and their provider calls in progress."""

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
        """Starts a step-up at the second replica, signs the user in, and returns the login. The caller forwards the callback."""
        return Login(self.second, session, MFA).sign_in(self.users[session])

    def begin(self):
        """Signs in a new user, and returns the user's only session."""
        user = f"user-{len(self.users)}"
        session = self.third.sign_in(user=user)
        self.users[session] = user
        return session

    def grant(self, broker, session):
        """Returns the grant of the access token that a backend gets from this replica, or None if the token is not live."""
        token = broker.exchange(session).json.get("access_token")
        found = self.tokens().get(token)
        return found["grant"] if found and found["live"] else None


def settle(stage, session, outcome, ended):
    """Waits until a refresh succeeds in time and the repeated forward has its final answer. Returns the verdicts on both."""
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
        f"the repeated forward of the step-up → {' or '.join(outcome.repeats)}{'' if is_good else ', with the advice new_login'} ({detail})", answer.json))
    if not is_good:
        again = stage.login(session).forward(broker=broker)
        lines.append((told(again) == "200", "another step-up after the failed one → 200", told(again)))
        lines.append((told(broker.refresh(session)) == "200", "a refresh after the second step-up → 200", ""))
    return lines
