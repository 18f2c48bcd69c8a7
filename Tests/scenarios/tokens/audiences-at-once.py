"""Many callers get tokens for many APIs at once: a session keeps at most eight of these tokens, and each refresh token is sent
once."""

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
    """The provider answers invalid_grant to a thousand sessions' calls for an API's token; no session ends."""
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
    case.same({"502 provider_error": 1000}, dict(told), "provider refuses an API's token to a thousand sessions → each relayed call is 502")
    case.same({True: 1000, False: 1000}, dict(named), "provider refuses an API's token to a thousand sessions → two calls for each session, with and without the resource")
    case.same([(0,)], broker.query(ENDED), "provider refuses an API's token to a thousand sessions → no session has ended")
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        case.same({200}, set(pool.map(lambda s: broker.look(s).status, sessions)), "provider refuses an API's token to a thousand sessions → all sessions are alive")
        case.same({200}, set(pool.map(lambda s: relay(broker, s, "own").status, sessions)), "provider refuses an API's token to a thousand sessions → relayed calls with the sessions' own tokens are 200")


def crowd(case):
    """One session calls ten APIs, 64 times each, when their tokens have expired. The provider refuses a reused refresh token."""
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
        case.same({"200": 640}, dict(answers), f"turn {turn}, 640 relayed calls to ten APIs with expired tokens → all are 200")
        case.verdict(max(by_name.values(), default=0) == 1 and set(by_name) <= set(names), f"turn {turn}, 64 relayed calls to one API with an expired token → at most one provider call", by_name)
        case.verdict(Gate.most_at_once(calls) <= 1, f"turn {turn}, 640 relayed calls to ten APIs with expired tokens → the provider calls for new tokens do not overlap")
        time.sleep(6.5)
    tokens = [c.refresh_token for c in gate.refreshes()]
    case.same(len(tokens), len(set(tokens)), "three turns of 640 relayed calls → each refresh token was sent once")
    case.same(200, broker.refresh(session).status, "three turns of 640 relayed calls → a refresh of the session is 200")
    case.verdict(broker.query(ROWS)[0][0] <= 8, "a session that called ten APIs → the store has at most eight tokens for APIs", broker.query(ROWS))


CASES = {"thousand": (thousand, 400), "crowd": (crowd, 180)}

if __name__ == "__main__":
    main(CASES, __doc__)
