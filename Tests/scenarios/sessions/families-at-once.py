"""Child sessions that are used at the same time as their parent, also at several replicas: a family shares refreshes and its end.
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import ADMIN, Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.database import Database  # noqa: E402
from support.families import ask, by, child, settings, told  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402


def processes(case):
    """An app and its widget both need a token when it has expired, a thousand times. Each time, there is one refresh."""
    sandbox = Sandbox(case)
    sandbox.settings("oauth2", refresh_mode="rotate-strict")
    clock = Clock(case)
    broker = Broker(case, sandbox, clock=clock, settings=settings(sandbox))
    families = []
    for number in range(50):
        parent = broker.sign_in(user=f"user-{number}", provider="oauth2")
        families.append((parent, child(broker, parent)))
    lost, refreshes, differing = [], [], 0
    for round in range(1, 21):
        before = sandbox.calls("oauth2/refresh")
        # Both clocks move, as if time had passed.
        clock.set(wall=4000 * round, monotonic=4000 * round)
        asked = [[case.beside(broker.exchange, token) for token in family] for family in families]
        for family in asked:
            answers = [answer.result(60) for answer in family]
            lost += [told(answer) for answer in answers if answer.status != 200]
            differing += len({answer.json.get("access_token") for answer in answers}) > 1
        refreshes.append(sandbox.calls("oauth2/refresh") - before)
    case.same([50] * 20, refreshes, "the tokens of fifty families expire twenty times → one refresh for each family and expiry")
    case.same([], lost, "the tokens of fifty families expire twenty times → each time, parent and child are both served")
    case.same(0, differing, "the tokens of fifty families expire twenty times → each time, parent and child get the same token")
    case.same(50, sum(broker.look(parent).status == 200 for parent, _ in families), "the tokens of fifty families expire twenty times → all parents are alive")
    # If only the widget is used, the app's session stays alive, too.
    clock.set(wall=4000 * 20 + 86_000, monotonic=4000 * 20 + 86_000)
    case.same(200, broker.exchange(families[0][1]).status, "a backend exchanges only the child's token, a day later → 200")
    moved = broker.look(families[0][0]).json["last_used_at"], broker.look(families[1][0]).json["last_used_at"]
    case.verdict(wait_for(5, lambda: broker.look(families[0][0]).json["last_used_at"] > moved[1]), "a backend exchanges only the child's token, a day later → the idle end of the parent moves as well", moved)


def replicas(case):
    """Three replicas on one PostgreSQL. Each accepts a child's token, and refuses it within a second after the parent's end."""
    sandbox = Sandbox(case)
    with Database() as database:
        brokers = []
        for name in ("one", "two", "three"):
            broker = Broker(
                case, sandbox, name=name, like=brokers[0] if brokers else None, start=False,
                settings=settings(sandbox) | {"store": {"url": database.url()}})
            if brokers:
                broker.configure(server={"public_url": brokers[0].url})
            broker.start()
            brokers.append(broker)
        first = brokers[0]
        slow = 0.0
        for round in range(10):
            parent = first.sign_in()
            token = child(brokers[round % 3], parent)
            for broker in brokers:
                if by(broker, token).status != 200:
                    case.verdict(False, f"a child's request at replica {broker.name} → 200", told(by(broker, token)))
            begun = time.monotonic()
            case.same(204, brokers[(round + 1) % 3].log_out(parent).status, f"round {round}, the parent's log-out → 204")
            for broker in brokers:
                dead = wait_for(6, lambda: told(by(broker, token)) == "401 session_ended parent_ended")
                if not dead:
                    case.verdict(False, f"a parent has logged out → replica {broker.name} refuses the parent's child", told(by(broker, token)))
            slow = max(slow, time.monotonic() - begun)
        case.verdict(slow < 1, "ten parents log out, one after another → every replica refuses the parent's child within a second", f"{slow:.3f} s")
        # Three replicas make children while the parent ends. All these children have to end, too.
        left = []
        for round in range(30):
            parent = first.sign_in(user=f"racer-{round}")
            makers = [case.beside(ask, broker, parent, "widget", f"n{n}") for n, broker in enumerate(brokers * 3)]
            ender = case.beside(brokers[round % 3].log_out, parent)
            made = [answer.json["session_token"] for answer in (maker.result(30) for maker in makers) if answer.status == 201]
            ender.result(30)
            left += [token for token in made if told(by(brokers[(round + 1) % 3], token)) != "401 session_ended parent_ended"]
        case.same([], left, "replicas make child sessions while the parent logs out → all these children have ended")
        listed = call(f"{first.management}/admin/v1/sessions?provider=oidc", Authorization=f"Bearer {ADMIN}").json["items"]
        case.same([], [item["handle"] for item in listed if item["parent"] and item["subject"].startswith("racer")], "replicas make child sessions while the parent logs out → the operators' list contains none of them")


CASES = {
    "processes": (processes, 300),
    "replicas": (replicas, 240),
}

if __name__ == "__main__":
    main(CASES, __doc__)
