"""Connections that a client without a session keeps open (SEC-105). The cases measure memory (from /proc), descriptors,
processor time, and the concurrent calls of an upstream."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.floods import is_open  # noqa: E402
from support.measured_broker import Broker, allow_descriptors, head  # noqa: E402
from support.measures import MIB  # noqa: E402


def idle(case):
    """Thousands of idle connections. Another client is still served."""
    name = "3,000 idle connections"
    with Broker(case, name) as broker:
        broker.rest()
        ends = []
        try:
            for index in range(3000):
                ends.append(broker.connect(f"127.0.0.{2 + index % 30}"))
            time.sleep(2)
            begin = time.monotonic()
            served, *_ = broker.ask("GET", "/v1/providers", source="127.0.0.40")
            case.verdict(served == 200 and time.monotonic() - begin < 5, f"{name}, a request of another client → served within 5 s", served)
            case.verdict(all(is_open(end) for end in ends), f"{name} → the broker keeps all of them open", sum(map(is_open, ends)))
            broker.within(name)
        finally:
            for end in ends:
                end.close()


def hostile_uploads(case):
    """One user's slow uploads and downloads at an upstream with eight places. Another user is still served."""
    name = "slow uploads and downloads at a small upstream"
    with Broker(case, name, places=8) as broker:
        hostile, second, other = broker.sign_in("bob"), broker.sign_in("bob"), broker.sign_in("ana")
        broker.ask("GET", "/v1/relay/app/bytes/1000", other)
        broker.rest()
        ends, streamed = [], []
        for session in (hostile, second):
            for index in range(12):
                held = broker.connect("127.0.0.9")
                held.sendall(head("POST /v1/relay/app/taken/1", session, length=60_000))
                stream = broker.connect("127.0.0.9")
                stream.sendall(head("POST /v1/relay/app/taken/1", session, length=10 * MIB) + b"x" * 100)
                reader = broker.connect("127.0.0.9", slow=True)
                reader.sendall(head(f"GET /v1/relay/app/bytes/{8 * MIB}", session))
                ends += [held, stream, reader]
                streamed.append(stream)
        begin, seen, worst = time.monotonic(), [], 0.0
        while time.monotonic() - begin < 50:
            for end in ends:
                try:
                    end.send(b"x")
                except OSError:
                    pass
            started = time.monotonic()
            seen.append(broker.ask("GET", "/v1/relay/app/bytes/1000", other, source="127.0.0.10")[0])
            worst = max(worst, time.monotonic() - started)
            time.sleep(1)
        good = seen.count(200)
        case.say(f"{name}: {good} of {len(seen)} calls of another user answered, the slowest in {worst:.2f} s")
        case.verdict(good == len(seen), f"{name}, another user's calls to the same upstream meanwhile → all get 200", seen)
        alive = sum(map(is_open, streamed))
        case.verdict(alive == 0, f"{name} → the broker ends the uploads slower than 1 KiB/s", f"{alive} of {len(streamed)} go on")
        broker.within(name)
        for end in ends:
            end.close()


def descriptors(case):
    """More idle connections than the broker has descriptors. It stays idle and ready, and serves again after they close."""
    for name, limit in {"128 descriptors": "128:128", "128 descriptors at the start, 4,096 possible": "128:4096"}.items():
        with Broker(case, name, descriptors=limit) as broker:
            session = broker.sign_in()
            broker.rest()
            ends = []
            for index in range(300):
                try:
                    # Above the limit, connections wait in the listener's queue. When the queue is full, further ones fail.
                    ends.append(broker.connect(f"127.0.0.{2 + index % 10}", seconds=0.2))
                except OSError:
                    break
            time.sleep(0.5)
            before = broker.processor_time()
            time.sleep(3)
            spent = broker.processor_time() - before
            ready = call(broker.management + "/readyz", seconds=3).status == 200
            case.say(f"{name}: {len(ends)} idle connections opened, {spent:.2f} s of processor time in 3 s")
            case.verdict(spent < 0.15, f"a broker with {name} and up to 300 idle connections → uses almost no processor time", f"{spent:.2f} s of processor time in 3 s")
            case.verdict(ready, f"a broker with {name} and up to 300 idle connections → its /readyz is 200")
            if limit.endswith("4096"):
                served, *_ = broker.ask("GET", "/v1/relay/app/bytes/10", session, source="127.0.0.20", seconds=3)
                case.verdict(served == 200, f"a broker with {name} and up to 300 idle connections, a relayed call → 200", served)
            broker.within(name)
            for end in ends:
                end.close()
            for _ in range(60):
                served, *_ = broker.ask("GET", "/v1/relay/app/bytes/10", session, source="127.0.0.20", seconds=1)
                if served == 200:
                    break
                time.sleep(0.05)
            case.verdict(served == 200, f"a broker with {name}, a relayed call after the idle connections have closed → 200", served)


QUICK = {"idle": idle, "descriptors": descriptors}
SLOW = {"hostile-uploads": hostile_uploads}

if __name__ == "__main__":
    allow_descriptors()
    # The quick cases measure the broker and would disturb each other, so they run one at a time. The slow cases mostly wait, so
    # they run meanwhile.
    main({name: (case, 600 if name in QUICK else 240) for name, case in (SLOW | QUICK).items()}, __doc__, in_turn=QUICK)
