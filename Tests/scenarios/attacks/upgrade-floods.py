"""Floods of requests after an upgrade or `CONNECT` (SEC-102, SEC-105). The broker's memory (from /proc) stays limited, and it
answers only the first request."""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.cases import main  # noqa: E402
from support.floods import flood  # noqa: E402
from support.measured_broker import NAME, Broker, allow_descriptors, head  # noqa: E402
from support.measures import MIB  # noqa: E402
from support.wire import answers, read_all  # noqa: E402


def upgraded(name, line, status, *fields, with_session=False, host=NAME, stays=False, body=b""):
    """Returns a case that sends a flood after a request for another protocol. The broker must not serve the flood's requests.

    `stays` marks an answer that continues, such as an event stream.
    """

    def run(case):
        with Broker(case, name) as broker:
            session = broker.sign_in()
            broker.rest()
            own = [session] if with_session else []
            request = head(line, *own, *fields, length=len(body), host=host) + body
            behind = head("DELETE /v1/session", session)
            junk = head("GET /nothing") * 4096
            with broker.connect("127.0.0.9") as end:
                end.sendall(request + behind)
                sent, got, why = flood(broker, end, junk, 256 * MIB, reads=True)
                time.sleep(0.3)
                broker.within(name, f"{sent // MIB} MiB taken, then {why}")
                more, _ = read_all(end, 0.5) if why != "closed" else (b"", "")
                found = [(0, {}, got + more)] if stays else answers(got + more)
            if stays:
                top = (got + more).partition(b"\r\n\r\n")[0].lower()
                case.verdict(
                    top.startswith(b"http/1.1 %d " % status) and b"\r\nconnection: close" in top,
                    f"{name}, and a flood of requests behind it → the stream gets {status} over HTTP/1.1 with `Connection: close`", top[:300])
                case.verdict((got + more).count(b"HTTP/1.1 ") == 1, f"{name}, and a flood of requests behind it → only the stream's request is answered")
            else:
                case.verdict(
                    [answer[0] for answer in found] == [status] and found[0][1].get("connection") == "close",
                    f"{name}, and a flood of requests behind it → one answer in all, {status} with `Connection: close`",
                    [(answer[0], answer[1].get("connection")) for answer in found][:4])
            alive, *_ = broker.ask("GET", "/v1/session", session)
            case.verdict(alive == 200, f"{name}, and a log-out behind it on the connection → the log-out is not executed", alive)

    return run


H2C = ["Connection: Upgrade, HTTP2-Settings", "Upgrade: h2c", "HTTP2-Settings: AAMAAABkAAQBAAAAAAIAAAAA"]
LOGIN = b'{"provider":"oidc","client":"android"}'
CASES = {
    "upgrade-events": upgraded(
        "upgrade on an event stream", "GET /v1/session/events", 200, *H2C, with_session=True, stays=True),
    "upgrade-404": upgraded("upgrade on an unknown path", "GET /nothing", 404, *H2C),
    "upgrade-login": upgraded(
        "upgrade of a login", "POST /v1/logins", 201, *H2C, "Content-Type: application/json", body=LOGIN),
    "upgrade-relay": upgraded("upgrade on a relay path", "GET /v1/relay/app/bytes/10", 200, *H2C, with_session=True),
    "connect": upgraded("CONNECT request", "CONNECT example.org:443", 400, host="example.org:443"),
}

if __name__ == "__main__":
    allow_descriptors()
    # The cases measure the broker, and would disturb each other, so they run one at a time.
    main({name: (case, 600) for name, case in CASES.items()}, __doc__, in_turn=CASES)
