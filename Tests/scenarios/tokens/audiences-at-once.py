"""Tokens for many APIs and from many callers at once: the rows stay bounded, and no refresh token is used twice."""

import collections
import concurrent.futures
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.audiences import ENDED, ROWS, relay, requests, settings, target  # noqa: E402
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.gate import Gate  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402


def thousand(case):
    """A thousand sessions get invalid_grant for their API: no session ends."""
    sandbox = Sandbox(case)
    clock = Clock(case)
    broker = Broker(case, sandbox, clock=clock, settings=settings(sandbox))
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        sessions = list(pool.map(lambda n: broker.sign_in(f"user{n}"), range(1000)))
    sandbox.fault("oidc", fault="refused-target", value="invalid_grant", match="resource=")
    told = collections.Counter()
    for index, session in enumerate(sessions):
        # The broker asks for a target at most once in five seconds, so move the clock.
        clock.set(wall=0, monotonic=5.2 * index)
        told[relay(broker, session, "orders").told] += 1
    named = collections.Counter(bool(target(pairs)) for pairs in requests(sandbox, "refresh"))
    case.same({"502 provider_error": 1000}, dict(told), "a thousand refused targets → a thousand 502")
    case.same({True: 1000, False: 1000}, dict(named), "a thousand refused targets → two calls each, one with the resource and one plain")
    case.same([(0,)], broker.query(ENDED), "a thousand refused targets → no session ended")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        case.same({200}, set(pool.map(lambda s: broker.look(s).status, sessions)), "a thousand refused targets → all sessions live")
        case.same({200}, set(pool.map(lambda s: relay(broker, s, "own").status, sessions)), "a thousand refused targets → the sessions' own tokens work")


def crowd(case):
    """Ten APIs, with 64 requests each when their tokens end, at a provider that rotates strictly."""
    sandbox = Sandbox(case)
    gate = Gate(sandbox)
    names = [f"api{n}" for n in range(10)]
    more = settings(sandbox)
    more["upstreams"] = {name: {
        "base_url": f"{sandbox.url}/api/audience/{name}", "provider": "oidc", "allow": ["ANY /**"], "token": {"audience": name}} for name in names}
    for name in names:
        more["upstreams"][name]["max_concurrent"] = 4096
    sandbox.settings("oidc", refresh_mode="rotate-strict", access_token_lifetime=6)
    broker = Broker(case, sandbox, gate, gated=("refresh",), settings=more)
    session = broker.sign_in()
    gate.always = Gate.slow(0.03)
    for turn in range(3):
        before = len(gate.calls)
        # The gate delays the first call until all callers wait. A session keeps only eight of the ten tokens, so later callers
        # would fetch again.
        gate.plan.append(Gate.slow(3))
        with concurrent.futures.ThreadPoolExecutor(640) as pool:
            answers = collections.Counter(pool.map(lambda n: relay(broker, session, names[n % 10]).told, range(640)))
        calls = [c for c in gate.calls[before:] if c.refresh_token]
        by_name = collections.Counter(c.form.get("audience") for c in calls)
        case.same({"200": 640}, dict(answers), f"turn {turn}, 640 calls at ten upstreams → all are 200")
        case.verdict(max(by_name.values(), default=0) == 1 and set(by_name) <= set(names), "64 calls for one API → at most one refresh", by_name)
        case.verdict(Gate.most_at_once(calls) <= 1, "640 calls for ten APIs → refreshes one after another")
        time.sleep(6.5)
    tokens = [c.refresh_token for c in gate.refreshes()]
    case.same(len(tokens), len(set(tokens)), "three turns → each refresh token was used once")
    case.same(200, broker.refresh(session).status, "after three turns → the session's refresh works")
    case.verdict(broker.query(ROWS)[0][0] <= 8, "ten APIs → at most eight token rows", broker.query(ROWS))


CASES = {"thousand": (thousand, 400), "crowd": (crowd, 180)}

if __name__ == "__main__":
    main(CASES, __doc__)
