"""Requests whose body lacks its last byte (SEC-102, SEC-105), from one address, through a proxy, and of one user. The cases
measure the broker's memory (from /proc)."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.cases import main  # noqa: E402
from support.floods import is_open, settled  # noqa: E402
from support.measured_broker import Broker, allow_descriptors, head  # noqa: E402
from support.wire import answers, read_all  # noqa: E402


def withheld(broker, count, source, lift=None):
    """Opens `count` connections that each send a body without its last byte. With `lift`, a session token, the first connection
    reads this session instead.

    Returns four values: the connections that are open and unanswered, the number of those answered 429 and closed, the number of
    those ended without an answer, and the first connection of `lift`.
    """
    body = b'{"provider":"' + b"x" * (64 * 1024 - 13)
    ends = []
    kept = None
    if lift:
        kept = broker.connect(source)
        kept.sendall(head("GET /v1/session", lift))
        kept.recv(65536)
    for _ in range(count - (1 if lift else 0)):
        try:
            end = broker.connect(source)
            ends.append(end)
            end.sendall(head("POST /v1/logins", "Content-Type: application/json", length=len(body)) + body[:-1])
        except OSError:
            pass
        if broker.is_swollen:
            break
    settled(ends)
    waiting, refused, ended = [], 0, 0
    for end in ends:
        if is_open(end):
            waiting.append(end)
            continue
        data, how = read_all(end, 2)
        found = answers(data)
        if found and found[0][0] == 429 and how != "open":
            refused += 1
        else:
            ended += 1
        end.close()
    return waiting, refused, ended, kept


def last_byte(case):
    """Bodies of one address without their last byte, and connections of a trusted proxy."""
    name = "512 bodies of one address without their last byte"
    with Broker(case, name) as broker:
        session = broker.sign_in()
        broker.rest()
        waiting, refused, ended, kept = withheld(broker, 512, "127.0.0.50", session)
        served, *_ = broker.ask("GET", "/v1/providers", source="127.0.0.51")
        case.say(f"{name} → only the first 8 MiB should stay open: {len(waiting)} stay open, {refused} got 429, {ended} ended without an answer")
        case.verdict(
            64 <= len(waiting) <= 128, f"{name} → only the requests of the first 8 MiB stay open", f"{len(waiting)} connections")
        case.verdict(refused + len(waiting) == 511, f"{name}, each request beyond the first 8 MiB → 429, and its connection is closed", f"{refused} of {511}")
        case.verdict(served == 200, f"{name}, a request from another address meanwhile → served", served)
        broker.within(name)
        done = 0
        for end in waiting[:8]:
            end.sendall(b"}")
            found = answers(read_all(end, 3)[0])
            done += bool(found) and found[0][0] not in (0, 429)
        case.verdict(done == len(waiting[:8]), f"{name}, then the last byte of the first eight bodies arrives → these eight requests are answered", done)
        for end in waiting + [kept]:
            end.close()

    name = "200 connections of an address without a session"
    with Broker(case, name) as broker:
        broker.rest()
        ends = [broker.connect("127.0.0.50") for _ in range(200)]
        alive = settled(ends)
        case.verdict(alive == 128, f"{name} → 128 connections stay open", f"{alive} of 200")
        for end in ends:
            end.close()

    name = "a trusted proxy"
    with Broker(case, name, trusted=["127.0.0.60"]) as broker:
        waiting, refused, ended, _ = withheld(broker, 600, "127.0.0.60")
        case.verdict(
            len(waiting) == 600, f"{name} opens 600 connections, each with an unfinished body → all stay open",
            f"{len(waiting)} wait, {refused} answered 429, {ended} ended")
        for end in waiting:
            end.close()


def user_bodies(case):
    """One user's relayed bodies without their last byte, from eight addresses."""
    name = "640 bodies of one user without their last byte, from eight addresses"
    with Broker(case, name) as broker:
        session, second, other = broker.sign_in(), broker.sign_in(), broker.sign_in("bob")
        broker.ask("POST", "/v1/relay/app/taken/1", other, body=b"x" * 1000)
        broker.rest()
        body = b"x" * 65_535
        ends = []
        for index in range(640):
            end = broker.connect(f"127.0.0.{70 + index % 8}")
            ends.append(end)
            try:
                end.sendall(head("POST /v1/relay/app/taken/1", session if index % 2 else second, length=65_536) + body)
            except OSError:
                pass
        settled(ends)
        waiting = [end for end in ends if is_open(end)]
        refused = sum(answers(read_all(end, 2)[0])[:1] != [] for end in ends if end not in waiting)
        case.say(f"{name} → 128 requests should stay open, and the others be answered: {len(waiting)} stay open, {refused} were answered")
        case.verdict(len(waiting) == 128, f"{name} → only the 128 requests of the first 8 MiB stay open", f"{len(waiting)} wait")
        case.verdict(refused == 640 - len(waiting), f"{name}, each request beyond the first 8 MiB → answered at once", refused)
        broker.within(name)
        served, *_ = broker.ask("POST", "/v1/relay/app/taken/1", other, body=b"x" * 60_000, source="127.0.0.70")
        case.verdict(served == 201, f"{name}, another user's request from one of these addresses → served", served)
        for end in waiting[:4]:
            end.sendall(b"y")
        done = [answers(read_all(end, 5)[0])[:1] for end in waiting[:4]]
        case.verdict(all(found and found[0][0] == 201 for found in done), f"{name}, then the last byte of four open requests arrives → these four are answered", done)
        for end in ends:
            end.close()


def own_bodies(case):
    """One user's bodies for the broker's own routes without their last byte, from eight addresses."""
    name = "640 bodies of one user to the broker itself without their last byte, from eight addresses"
    with Broker(case, name) as broker:
        session, second, other = broker.sign_in(), broker.sign_in(), broker.sign_in("bob")
        broker.rest()
        fields = ["Content-Type: application/json"]
        ends = []
        for index in range(640):
            end = broker.connect(f"127.0.0.{70 + index % 8}")
            ends.append(end)
            try:
                own = session if index % 2 else second
                end.sendall(head("POST /v1/session/children", own, *fields, length=65_536) + b"{" + b" " * 65_534)
            except OSError:
                pass
        settled(ends)
        waiting = [end for end in ends if is_open(end)]
        refused = sum(found[:1] != [] and found[0][0] == 429 for found in (answers(read_all(end, 2)[0]) for end in ends if end not in waiting))
        case.say(f"{name} → 128 requests should stay open, and the others get 429: {len(waiting)} stay open, {refused} got 429")
        case.verdict(len(waiting) == 128, f"{name} → only the 128 requests of the first 8 MiB stay open", f"{len(waiting)} wait")
        case.verdict(refused == 640 - len(waiting), f"{name}, each request beyond the first 8 MiB → 429", refused)
        broker.within(name)
        served, *_ = broker.ask("POST", "/v1/session/children", other, *fields, body=b"{}", source="127.0.0.70")
        case.verdict(served in (400, 403), f"{name}, another user's request from one of these addresses → served", served)
        for end in waiting[:4]:
            end.sendall(b"}")
        done = [answers(read_all(end, 5)[0])[:1] for end in waiting[:4]]
        case.verdict(
            all(found and found[0][0] in (400, 403) for found in done), f"{name}, then the last byte of four open requests arrives → these four are answered", done)
        for end in ends:
            end.close()


CASES = {"last-byte": last_byte, "user-bodies": user_bodies, "own-bodies": own_bodies}

if __name__ == "__main__":
    allow_descriptors()
    # The cases measure the broker, and would disturb each other, so they run one at a time.
    main({name: (case, 600) for name, case in CASES.items()}, __doc__, in_turn=CASES)
