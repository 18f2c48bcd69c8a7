"""Requests after an answer with `Connection: close`, and half-closed clients (SEC-105)."""

import pathlib
import socket
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.cases import main  # noqa: E402
from support.floods import flood  # noqa: E402
from support.measured_broker import Broker, allow_descriptors, head  # noqa: E402
from support.wire import answers, read_all  # noqa: E402


def endings(case):
    """Further bytes on a connection that the broker closes after its answer."""
    name = "an answer with Connection: close"
    # The body is large. A smaller one would arrive together with its head and be read completely, and then a further request on
    # the connection would be valid.
    large = b"1" * 20_000
    with Broker(case, name, cache="off") as broker:
        first = {
            "a refused relay call with a body": lambda own: head("POST /v1/relay/app/none/1", own, length=20_000) + large,
            "a refused relay path with a body": lambda own: head("POST /v1/relay/app/a;b", own, length=20_000) + large,
            "a slow relayed call with Connection: close": lambda own: head("GET /v1/relay/app/later/1", own, "Connection: close"),
            "a broker call with Connection: close": lambda own: head("GET /v1/session", own, "Connection: close"),
            "a request of HTTP/1.0": lambda own: head("GET /v1/session", own, version="HTTP/1.0"),
        }
        session = broker.sign_in()
        for what, build in first.items():
            # The broker may parse the following bytes before or after it makes the answer, so the case tries several times.
            for _ in range(8 if what.startswith("a refused") else 2):
                broker.upstream.seen.clear()
                behind = head("POST /v1/relay/app/taken/2", session, length=4) + b"more"
                with broker.connect() as end:
                    end.sendall(build(session) + behind + head("DELETE /v1/session", session))
                    data, how = read_all(end, 5)
                    time.sleep(0.5)
                found = answers(data)
                alive, *_ = broker.ask("GET", "/v1/session", session)
                posts = [call for call in broker.upstream.seen if call.startswith("POST /taken")]
                closes = bool(found) and found[0][1].get("connection") == "close"
                good = alive == 200 and not posts and closes and len(found) == 1
                if not good:
                    break
            case.verdict(
                good, f"further requests on the connection after {what} → not executed, and the connection closes",
                f"answers {[answer[0] for answer in found]}, closes {closes}, upstream {posts}, session {alive}, {how}")
            if alive != 200:
                session = broker.sign_in()

    name = "a half-closed client"
    with Broker(case, name) as broker:
        session = broker.sign_in()
        cases = {
            "POST through the relay": (
                head("POST /v1/relay/app/later/1", session, length=4) + b"more", 201, b"taken"),
            "GET through the relay": (head("GET /v1/relay/app/later/1", session), 200, b"done"),
            "POST to the broker": (
                head("POST /v1/logins", "Content-Type: application/json", length=38)
                + b'{"provider":"oidc","client":"android"}', 201, None),
        }
        for what, (request, status, body) in cases.items():
            with broker.connect() as end:
                end.sendall(request)
                end.shutdown(socket.SHUT_WR)
                data, how = read_all(end, 5)
            found = answers(data)
            case.verdict(
                len(found) == 1 and found[0][0] == status and body in (None, found[0][2]),
                f"{name}, which closes its sending side after a {what} → still gets the answer", f"{[(answer[0], answer[2][:80]) for answer in found]}, {how}")
        with broker.connect() as end:
            end.sendall(head("GET /v1/session/events", session))
            end.recv(4096)
            end.shutdown(socket.SHUT_WR)
            _, how = read_all(end, 5)
            case.verdict(how != "open", f"{name}, which closes its sending side during an event stream → the broker ends the stream", how)
        # After a malformed request, a client gets its answer even if it continues to send.
        with broker.connect() as end:
            end.sendall(b"GARBAGE\r\n\r\n")
            sent, got, why = flood(broker, end, b"x" * 4096, 64 * 1024, seconds=1, reads=True)
            end.settimeout(3)
            more, how = read_all(end, 3) if why != "closed" else (b"", why)
            found = answers(got + more)
            case.verdict(
                len(found) == 1 and found[0][0] == 400 and sent >= 64 * 1024,
                f"a client goes on sending after a malformed request → it gets the complete answer 400",
                f"{[answer[0] for answer in found]}, {sent} bytes taken, {why}, {how}")


CASES = {"endings": endings}

if __name__ == "__main__":
    allow_descriptors()
    # The cases measure the broker, and would disturb each other, so they run one at a time.
    main({name: (case, 600) for name, case in CASES.items()}, __doc__, in_turn=CASES)
