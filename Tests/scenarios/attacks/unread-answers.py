"""Answers that a client reads slowly or not at all (SEC-105): the broker's memory (from /proc), and the bytes that arrive."""

import concurrent.futures
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.cases import main  # noqa: E402
from support.floods import flood  # noqa: E402
from support.measured_broker import Broker, allow_descriptors, head  # noqa: E402
from support.measures import MIB  # noqa: E402
from support.relayed_app import pattern  # noqa: E402
from support.wire import answers, read_all  # noqa: E402


def pipelined(name, path, status, with_session=False):
    def run(case):
        with Broker(case, name) as broker:
            fields = [broker.sign_in()] if with_session else []
            broker.rest()
            request = head(f"GET {path}", *fields)
            with broker.connect("127.0.0.9", slow=True) as end:
                sent, _, why = flood(broker, end, request * 1000, len(request) * 100_000, seconds=25)
                time.sleep(0.5)
                served, *_ = broker.ask("GET", "/v1/providers", source="127.0.0.10")
                case.verdict(served == 200, f"{name} requests, and the client reads none of the answers → another client's request is served", served)
                broker.within(name, f"{sent // len(request)} requests taken, then {why}")
                end.settimeout(10)
                start = end.recv(64)
                case.verdict(start.startswith(b"HTTP/1.1 %d " % status), f"{name} requests, and the client reads an answer only at the end → the first answer has the status {status}", start)

    return run


def read_slowly(end, rate=16 * 1024, seconds=90):
    """Reads an answer at `rate` bytes a second. Returns the bytes, and how the connection ended."""
    data, begin = bytearray(), time.monotonic()
    end.settimeout(seconds)
    while time.monotonic() - begin < seconds:
        try:
            part = end.recv(rate // 16)
        except OSError as error:
            return bytes(data), "open" if isinstance(error, TimeoutError) else "reset"
        if not part:
            return bytes(data), "fin"
        data += part
        time.sleep(max(0, begin + len(data) / rate - time.monotonic()))
    return bytes(data), "open"


def slow_readers(case):
    """Clients that read slowly still get each answer complete."""
    name = "slow readers"
    size = 800_000
    with Broker(case, name) as broker:
        session = broker.sign_in()
        broker.ask("GET", f"/v1/relay/app/bytes/{size}", session)
        contract = broker.ask("GET", "/openapi.yaml")[2]
        broker.rest()

        def reader(what, request, status, expected, upload=0, rate=16 * 1024):
            with broker.connect("127.0.0.9", slow=True) as end:
                end.sendall(request)
                if upload:
                    # Write for a while before the answer is read.
                    flood(broker, end, b"x" * 4096, upload, seconds=2, stall=1)
                    end.setblocking(True)
                data, how = read_slowly(end, rate)
            found = answers(data)
            body = found[0][2] if found else b""
            if expected is None:
                expected = body if found and len(body) == int(found[0][1].get("content-length", -1)) else b"whole"
            case.verdict(
                len(found) == 1 and found[0][0] == status and body == expected,
                f"{name} get {what} → the answer arrives complete, byte for byte",
                f"{[answer[0] for answer in found]}, {len(body)} of {len(expected)} bytes, ended by {how}")

        relayed = "GET /v1/relay/app"
        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            jobs = [
                pool.submit(
                    reader, "the contract with Connection: close", head("GET /openapi.yaml", "Connection: close"), 200, contract),
                pool.submit(
                    reader, "a relayed answer of known length with Connection: close",
                    head(f"{relayed}/bytes/{size}", session, "Connection: close"), 200, pattern(size)),
                pool.submit(
                    reader, "a relayed answer of unknown length with Connection: close",
                    head(f"{relayed}/unknown/{size}", session, "Connection: close"), 200, pattern(size)),
                pool.submit(
                    reader, "a relayed answer of unknown length to HTTP/1.0",
                    head(f"{relayed}/unknown/{size}", session, version="HTTP/1.0"), 200, pattern(size)),
                pool.submit(
                    reader, "a relayed answer of known length to HTTP/1.0",
                    head(f"{relayed}/bytes/{size}", session, version="HTTP/1.0"), 200, pattern(size)),
                pool.submit(
                    reader, "the answer to an upload that is too large",
                    head("POST /v1/logins", "Content-Type: application/json", length=64 * MIB), 413, None, 4 * MIB, 64),
                pool.submit(
                    reader, "the upstream's answer to an upload that it did not read",
                    head(f"POST /v1/relay/app/refuse/{size}", session, length=64 * MIB), 413, pattern(size), 4 * MIB),
            ]
            for job in jobs:
                job.result()
        broker.within(name)


def cut_answers(case):
    """The broker breaks unread answers off after the write deadline, so that each of them looks incomplete."""
    name = "unread answers"
    size = 8 * MIB
    with Broker(case, name) as broker:
        session = broker.sign_in()
        broker.ask("GET", f"/v1/relay/app/bytes/{size}", session)
        broker.rest()
        requests = {
            "HTTP/1.0, unknown length": head(f"GET /v1/relay/app/unknown/{size}", session, version="HTTP/1.0"),
            "HTTP/1.0, known length": head(f"GET /v1/relay/app/bytes/{size}", session, version="HTTP/1.0"),
            "HTTP/1.1, chunked, closing": head(f"GET /v1/relay/app/unknown/{size}", session, "Connection: close"),
            "HTTP/1.1, known length, closing": head(f"GET /v1/relay/app/bytes/{size}", session, "Connection: close"),
            "HTTP/1.1, known length": head(f"GET /v1/relay/app/bytes/{size}", session),
        }
        ends = {}
        for what, request in requests.items():
            ends[what] = broker.connect("127.0.0.9", slow=True)
            ends[what].sendall(request)
        time.sleep(72)
        broker.within(name)
        for what, end in ends.items():
            with end:
                data, how = read_all(end, 15)
            found = answers(data)
            body = found[0][2] if found else b""
            tells = how == "reset" or (
                how == "fin" and bool(found) and (
                    "cut" in found[0][1] or len(body) < int(found[0][1].get("content-length", 0))))
            case.verdict(
                tells and len(body) < size, f"{name} ({what}) → the client sees that the broker broke the answer off",
                f"{len(body)} of {size} bytes, ended by {how}")


QUICK = {
    "pipelined-contract": pipelined("pipelined contract", "/openapi.yaml", 200),
    "pipelined-404": pipelined("pipelined 404", "/nothing", 404),
    "pipelined-providers": pipelined("pipelined providers", "/v1/providers", 200),
    "pipelined-session": pipelined("pipelined session check", "/v1/session", 200, with_session=True),
}
SLOW = {"slow-readers": slow_readers, "cut-answers": cut_answers}

if __name__ == "__main__":
    allow_descriptors()
    # The quick cases measure the broker and would disturb each other, so they run one at a time, next to the slow ones.
    main({name: (case, 600 if name in QUICK else 240) for name, case in (SLOW | QUICK).items()}, __doc__, in_turn=QUICK)
