"""A step-up that returns no new refresh token, on three replicas (guarantee 2). The session keeps its grant."""

import http.client
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.step_up import told  # noqa: E402
from support.step_up_stage import Stage  # noqa: E402
from support.waiting import wait_for  # noqa: E402


def kept(case):
    """A step-up answer without a new refresh token. Refreshes continue at all replicas, and event listeners are notified."""
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

        case.same([200, 200], [listen(stage.dying), listen(stage.third)], "two event streams of a session, at two replicas → both are open with 200")
        stage.sandbox.fault("oidc", fault="no-refresh-token", times=1)
        before = stage.row(session, "token_version, grant_version, fence")
        login = stage.login(session)
        case.same("200", told(login.forward(broker=stage.second)), "a third replica forwards a step-up, and the provider returns no new refresh token → 200")
        case.same(before, stage.row(session, "token_version, grant_version, fence"), "a step-up without a new refresh token → token version, grant version and fence do not change")
        case.verdict(wait_for(5, lambda: sorted(heard) == ["dying", "third"]), "a step-up without a new refresh token → the session's event streams at both other replicas get tokens_refreshed", heard)
        case.same(["mfa"] * 3, [broker.look(session).json["acr"] for broker in stage.brokers], "a step-up without a new refresh token → every replica shows the step-up's acr at once")
        for broker in stage.brokers:
            case.same("200", told(broker.refresh(session)), f"a step-up without a new refresh token, then a refresh at {broker.name} → 200")
            for each in stage.brokers:
                # A replica's cache may return a session that is up to five seconds old, so wait until it has the current token.
                wait_for(7, lambda: stage.grant(each, session) == old)
                case.same(old, stage.grant(each, session), f"a refresh after a step-up that kept the grant → the access token that {each.name} gives a backend is live, and belongs to this grant")
        case.same("mfa", stage.third.look(session).json["acr"], "three refreshes after a step-up that kept the grant → the session keeps the step-up's acr")
        case.same({1}, set(stage.sent().values()), "all refresh tokens of a grant that a step-up kept → the broker has sent each of them once")


if __name__ == "__main__":
    main({"kept": (kept, 120)}, __doc__)
