"""Tokens for an audience on three replicas with one PostgreSQL (guarantee 2, "tokens for an audience, and what is under way").
The cases:

- a session calls eight APIs through all replicas at the same time
- an API answers 401 while another replica fetches the session's token for another API
- a step-up, a log-out or `kill -9` while a replica's call for an API's token is in progress

The provider rotates refresh tokens, and revokes the grant if one is sent twice.
"""

import collections
import concurrent.futures
import json
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import sha256  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.gate import Gate  # noqa: E402
from support.replicas import TAKE_OVER, Replicas  # noqa: E402
from support.step_up import MFA, Login, told  # noqa: E402
from support.waiting import wait_for  # noqa: E402

NAMES = [f"api{n}" for n in range(8)]
WIDE = {"logins_per_minute": 100000, "pending_logins": 100000, "sessions_per_subject_and_client": 5000}


def settings(gate, sandbox):
    def upstream(path, token=None, provider="oidc"):
        made = {"base_url": f"{sandbox.url}/api{path}", "provider": provider, "allow": ["ANY /**"], "max_concurrent": 4096}
        return made | ({"token": token} if token else {})

    return {
        "limits": WIDE,
        # The second provider accepts a refresh token that is sent twice.
        "providers": {"oidc": {"revocation": {"reaches": "token"}}, "oauth2": {"endpoints": {"token": f"{gate.url}/oauth2/token"}}},
        "upstreams": {name: upstream(f"/audience/{name}", {"audience": name}) for name in NAMES} | {
            "own": upstream("/private"), "forgiven": upstream("/audience/forgiven", {"audience": "forgiven"}, "oauth2"),
            "own-forgiven": upstream("/private", provider="oauth2")},
    }


class Stage(Replicas):
    """Three replicas, with sessions of users that have only this one session, and the provider calls for these sessions."""

    def __init__(self, case, database):
        super().__init__(case, database, settings)
        self.users = {}

    def begin(self, provider="oidc"):
        user = f"user-{len(self.users)}"
        session = self.third.sign_in(user=user, provider=provider)
        self.users[session] = user
        return session

    def relay(self, broker, session, name):
        return broker.call("GET", f"/v1/relay/{name}/echo", session)

    def rows(self, session):
        return int(self.query(f"SELECT count(*) FROM audience_tokens WHERE session = '\\x{sha256(session)}'")[0][0])

    def token(self, answer, provider="oidc"):
        """The provider's record of the access token that reached an API."""
        fields = dict((name.lower(), value) for name, value in json.loads(answer.body)["headers"])
        return self.tokens(provider)[fields["authorization"].removeprefix("Bearer ")]

    def calls(self):
        return sorted((call for gate in self.gates.values() for call in gate.refreshes()), key=lambda call: call.began)


def crowd(case):
    """A session calls eight APIs, 64 times each, through three replicas when the tokens have expired."""
    with Database() as database:
        stage = Stage(case, database)
        stage.sandbox.settings("oidc", access_token_lifetime=12)
        session = stage.begin()
        for index, name in enumerate(NAMES):
            case.same(200, stage.relay(stage.brokers[index % 3], session, name).status, f"a session's first relayed call to the API {name} → 200")
        stage.sandbox.settings("oidc", access_token_lifetime=3600)
        fetched, before = time.monotonic(), len(stage.calls())
        others = {stage.relay(broker, session, name).status for name in NAMES for broker in stage.brokers}
        case.same(({200}, before), (others, len(stage.calls())), "relayed calls to all eight APIs at all three replicas → 200 with the stored tokens")
        case.same((8, 8), (before, stage.rows(session)), "relayed calls to eight APIs → eight provider calls and eight stored rows")
        time.sleep(max(0, fetched + 12.5 - time.monotonic()))
        for gate in stage.gates.values():
            gate.always = Gate.slow(0.03)
            # The provider call takes two seconds, so that all requests wait for it.
            gate.plan.append(Gate.slow(2))
        with concurrent.futures.ThreadPoolExecutor(512) as pool:
            answers = collections.Counter(
                pool.map(lambda n: told(stage.relay(stage.brokers[n % 3], session, NAMES[n // 3 % 8])), range(512)))
        calls = stage.calls()[before:]
        case.same({"200": 512}, dict(answers), "512 relayed calls to eight APIs whose tokens have expired → all are answered 200")
        case.same(dict.fromkeys(NAMES, 1), dict(collections.Counter(call.form.get("audience") for call in calls)), "512 relayed calls to eight APIs whose tokens have expired → one provider call for each API, over all replicas")
        case.same(1, Gate.most_at_once(calls), "512 relayed calls to eight APIs whose tokens have expired → the eight provider calls do not overlap")
        case.same(8, stage.rows(session), "512 relayed calls to eight APIs whose tokens have expired → eight stored rows")
        case.same("200", told(stage.third.refresh(session)), "512 relayed calls to eight APIs whose tokens have expired, and then a refresh of the session → 200")
        case.same({1}, set(stage.sent().values()), "all provider calls for the 512 relayed calls → each refresh token is sent once")


def crossed(case):
    """A replica's call for an API's token is in progress while another replica fetches a token, steps up, or ends the session."""
    with Database() as database:
        stage = Stage(case, database)

        # An API answers 401 because the provider has voided its token.
        session = stage.begin()
        first = stage.token(stage.relay(stage.dying, session, "api0"))
        case.same(["api0"], first["audience"], "a session's first relayed call to an API → sent with a token for that API")
        case.same(200, stage.relay(stage.second, session, "own").status, "a relayed call with the session's own token → 200")
        stage.sandbox.settings("oidc", voids_older_tokens=True)
        before = len(stage.calls())
        release, other = stage.hold(stage.second, lambda broker: stage.relay(broker, session, "api1"))
        stage.sandbox.settings("oidc", voids_older_tokens=False)
        case.same(False, stage.tokens()[first["token"]]["live"], "the provider voids older tokens when it issues a second API's token → the first API's token is void")
        renewed = case.beside(stage.relay, stage.dying, session, "api0")
        case.verdict(wait_for(20, lambda: [item for item in api_calls(stage, "api0") if item["status"] == 401]), "the provider has voided an API's token, and a call is relayed with it → the API answers 401")
        case.same(before + 1, len(stage.calls()), "while one replica's provider call for a session is in progress → another replica makes no provider call for this session")
        release.set()
        case.same(["200", "200"], [told(future.result(30)) for future in (other, renewed)], "two replicas wait for one provider call, and then the call returns → the relayed calls at both replicas are 200")
        calls = stage.calls()[before:]
        case.same(["api1", "api0"], [call.form.get("audience") for call in calls], "two replicas fetch one session's tokens for two APIs → one provider call for each API, in the order of the relayed calls")
        case.same(1, Gate.most_at_once(calls), "two replicas fetch one session's tokens for two APIs → the two provider calls do not overlap")
        token = stage.token(renewed.result())
        case.verdict(token["live"] and token["token"] != first["token"], "a relayed call after the provider has voided the API's token → sent with a new live token")
        case.same(2, stage.rows(session), "two replicas fetch one session's tokens for two APIs → two stored rows")

        # A step-up during a call for an API's token.
        session = stage.begin()
        old = stage.token(stage.relay(stage.second, session, "api0"))["grant"]
        case.same((200, 2), (stage.relay(stage.third, session, "api1").status, stage.rows(session)), "before the step-up: relayed calls to two APIs → two stored rows of the old grant")
        login = Login(stage.second, session, MFA).sign_in(stage.users[session])
        release, fetched = stage.hold(stage.dying, lambda broker: stage.relay(broker, session, "api2"))
        case.same("200", told(login.forward(broker=stage.second)), "a step-up while another replica fetches an API's token → 200")
        case.same(0, stage.rows(session), "a step-up while another replica fetches an API's token → all rows of the old grant are deleted")
        release.set()
        answer = fetched.result(30)
        case.same("200", told(answer), "a replica fetches an API's token while another one completes a step-up → the relayed call is 200")
        grants = [stage.token(stage.relay(broker, session, name))["grant"] for broker in stage.brokers for name in ("api0", "api1", "api2", "own")]
        new = stage.token(answer)["grant"]
        case.verdict(new != old and set(grants) == {new}, "relayed calls at every replica after a step-up → sent with tokens of the new grant", (old, new, grants))
        case.same(3, stage.rows(session), "relayed calls to three APIs after a step-up → three stored rows")
        case.same("200", told(stage.third.refresh(session)), "a refresh after a step-up during which another replica fetched an API's token → 200")
        settled(stage, [old], "the old grant's tokens and those fetched during the step-up, after the step-up")

        # A log-out during a call for an API's token.
        session = stage.begin()
        grant = stage.token(stage.relay(stage.second, session, "api0"))["grant"]
        release, fetched = stage.hold(stage.dying, lambda broker: stage.relay(broker, session, "api1"))
        case.same((1, 204), (stage.rows(session), stage.second.log_out(session).status), "a log-out while another replica fetches an API's token → 204")
        case.same(0, stage.rows(session), "a log-out while another replica fetches an API's token → the session's token rows are deleted")
        release.set()
        case.same("401 session_ended logged_out", told(fetched.result(30)), "a relayed call whose token is fetched during the log-out → 401 session_ended logged_out")
        case.same(0, stage.rows(session), "an API's token arrives after the session's log-out → the token is not stored")
        settled(stage, [grant], "the session's tokens and those fetched during the log-out, after the log-out")
        case.same({1}, set(stage.sent().values()), "all provider calls before and during the log-out → each refresh token is sent once")


def api_calls(stage, name):
    return [item for item in stage.sandbox.control("GET", "/requests?provider=api").json["items"] if f"/{name}/" in item["path"]]


def settled(stage, grants, whose):
    done = wait_for(40, lambda: stage.query("SELECT count(*) FROM outbox") == [["0"]], 0.2)
    left = [item for item in stage.tokens().values() if item["live"] and item["grant"] in grants]
    stage.case.verdict(done and not left, f"{whose} → revoked", left)


def kills(case):
    """`kill -9` of a replica while its call for an API's token is in progress, before and after the provider carries it out."""
    with Database() as database:
        stage = Stage(case, database)
        stage.sandbox.settings("oauth2", refresh_mode="overlap", refresh_token="always")
        rounds = []
        for title, provider, name, own, reaches in (
                ("kill -9 before the provider served a call for an API's token", "oidc", "api1", "own", False),
                ("kill -9 after a provider that accepts repeats served a call for an API's token", "oauth2", "forgiven", "own-forgiven", True),
                ("kill -9 after a provider that refuses repeats served a call for an API's token", "oidc", "api2", "own", True)):
            session = stage.begin(provider)
            if provider == "oidc":
                case.same(200, stage.relay(stage.second, session, "api0").status, f"{title}, a relayed call to another API before the kill → 200")
            stage.hold(stage.dying, lambda broker, session=session, name=name: stage.relay(broker, session, name), reaches)
            rounds.append((title, provider, name, own, session, stage.gates["dying"].calls[-1]))
        stage.kill()
        killed = time.monotonic()
        stage.dying.start()

        def again(name, session):
            """Returns the first answer other than a temporary fault, and the seconds since the kill. A session may end a minute
            after the take-over.
            """
            found = wait_for(
                TAKE_OVER + 60, lambda: (answer := stage.relay(stage.second, session, name)).status in (200, 401) and answer, 1)
            return found and told(found), time.monotonic() - killed

        waiting = [case.beside(again, name, session) for _, _, name, _, session, _ in rounds]
        for title, provider, name, own, session, _ in rounds:
            for broker in stage.brokers:
                case.same(
                    ("200", 200), (told(broker.look(session)), stage.relay(broker, session, own).status), f"{title} → replica {broker.name} serves the session, and relayed calls with the session's own token")
            if provider == "oidc":
                case.same(200, stage.relay(stage.third, session, "api0").status, f"{title}, a relayed call to an API whose token is stored → 200")
        for (title, provider, name, own, session, lost), future in zip(rounds, waiting):
            answer, seconds = future.result(TAKE_OVER + 90)
            sent = [call.form.get("audience") for call in stage.calls() if call.refresh_token == lost.refresh_token]
            if title == "kill -9 after a provider that refuses repeats served a call for an API's token":
                # The refresh token is spent, and a repeat makes the provider revoke the grant, so the broker cannot save the
                # session.
                case.same("401 session_ended refresh_lost", answer, f"{title} → the session ends as refresh_lost, {seconds:.0f} s after the kill")
                twice = [name, None] * 2
                case.same([name, *twice], sent, f"{title} → two repeats, each followed by a refresh without a resource")
                case.same(0, stage.rows(session), f"{title} → the session ends, and its token rows are deleted")
                continue
            case.same("200", answer, f"{title}, the relayed call → answered 200, {seconds:.0f} s after the kill")
            case.same([name] * 2, sent, f"{title} → another replica repeats the call once")
            case.same([200] * 3, [stage.relay(broker, session, name).status for broker in stage.brokers], f"{title}, and another replica repeats the call → relayed calls of every replica are 200")
            case.same("200", told(stage.third.refresh(session)), f"{title}, the session's refresh → 200")
            case.same(2, len([call for call in stage.calls() if call.form.get("audience") == name]), f"{title}, all relayed calls to this API → exactly two provider calls")
        case.same([5, 2, 2, 1], sorted(stage.sent().values(), reverse=True)[:4], "kill -9 during three calls → their refresh tokens are sent 5, 2 and 2 times, and all others once")


CASES = {"crowd": (crowd, 170), "crossed": (crossed, 170), "kills": (kills, 220)}

if __name__ == "__main__":
    main(CASES, __doc__)
