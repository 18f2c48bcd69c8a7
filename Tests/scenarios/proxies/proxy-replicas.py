"""Two replicas behind each recipe of deploy/proxy. This process takes the place of both: one refuses connections, ignores them,
breaks off or hangs. Every request is answered, and a POST that a proxy has begun to send reaches a replica only once.
proxy-restarts.py has real brokers.
"""

import concurrent.futures
import contextlib
import http.server
import pathlib
import socket
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import recipes  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.many_calls import many, told  # noqa: E402
from support.recipes import CHECKS  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402
from support.wire import free_port  # noqa: E402


# So many requests that some of them choose a replica at the same moment.
MANY = 2000


class Replica:
    """Takes the place of a replica, with the port for its apps and the port for its readiness.

    `what` is its behaviour for a POST: it answers, breaks off after it has read the request, or hangs.
    """

    def __init__(self, address, port, management_port):
        self.address, self.what, self.reached = f"{address}:{port}", "answers", []
        self.is_ready = True
        replica = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self, status=200):
                self.send_response(status)
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"ok")

            def do_GET(self):
                if self.path == "/readyz":
                    return self.answer(200 if replica.is_ready else 503)
                replica.reached.append("GET")
                self.answer()

            def do_POST(self):
                # If Caddy's first attempt cannot connect, it loses the body, and its second attempt sends only the head. Do not
                # count this request.
                length = int(self.headers.get("Content-Length") or 0)
                if len(self.rfile.read(length)) < length:
                    self.close_connection = True
                    return None
                replica.reached.append("POST")
                if replica.what == "answers":
                    return self.answer()
                if replica.what == "hangs":
                    time.sleep(4)
                self.close_connection = True

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 128

            def handle_error(self, *_):
                pass

        for at in (port, management_port):
            server = Server((address, at), Handler)
            threading.Thread(target=server.serve_forever, daemon=True).start()

    def count(self, method):
        return self.reached.count(method)


class Deaf:
    """Listens but answers no connection. Its queue is full, so the kernel drops packets as a lossy network does."""

    def __init__(self, address, *ports):
        self.address, self.sockets = f"{address}:{ports[0]}", []
        for port in ports:
            listener = socket.socket()
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind((address, port))
            listener.listen(0)
            self.sockets.append(listener)
            for _ in range(8):
                client = socket.socket()
                client.settimeout(0.2)
                self.sockets.append(client)
                with contextlib.suppress(TimeoutError):
                    client.connect((address, port))
                    continue
                break
            else:
                raise GaveUp("a full queue takes connections")


def gone(says, url, replica, number=40, at_once=8, may_refuse=()):
    """The other replica does not answer connections. `replica` gets every request once, and answers it.

    Requests with methods in `may_refuse` may be answered 503 instead; then they reached no replica.
    """
    for method, path in (("GET", "/v1/providers"), ("POST", "/v1/logins")):
        before = replica.count(method)

        def send(n, method=method, path=path):
            body = b"x" * (1 + 3000 * (n % 40)) if method == "POST" else None
            return call(url + path, method, body, seconds=20)

        answers = many(send, number, at_once)
        found = told(answers)
        refused = found.pop("503 shutting_down", 0) if method in may_refuse else 0
        says.same({"200": number - refused} if refused < number else {}, found, f"clients send requests while one of two replicas is unreachable → every {method} is answered" + (f" ({refused} by 503)" if refused else ""))
        says.same(number - refused, replica.count(method) - before, f"clients send requests while one of two replicas is unreachable → each {method} reaches the good replica once")
        slowest = max(answer.seconds for answer in answers)
        says.verdict(slowest < 6, f"clients send requests while one of two replicas is unreachable → each {method} is answered within 6 s", f"{slowest:.1f} s")


def once(says, url, replicas, what):
    """A POST that a replica has read is not repeated, even if the replica does not answer it."""
    many(lambda _: call(url + "/v1/providers", seconds=20), 8)
    for replica in replicas:
        replica.what = what
    before = sum(replica.count("POST") for replica in replicas)
    answers = many(lambda n: call(url + "/v1/logins", "POST", b"x" * 1000 * (n % 2), seconds=20), 6, 3)
    for replica in replicas:
        replica.what = "answers"
    says.same(6, sum(replica.count("POST") for replica in replicas) - before, f"six POSTs, and each replica reads a POST and {what} → six requests at the replicas, so no POST is repeated")
    says.same([], [a.status for a in answers if a.status not in (0, 502, 503)], f"each replica reads a POST and {what} → the sender of each POST gets an error")


def held(says, url, replicas):
    """All replicas are unready for a second. Caddy holds a POST of this second back, and sends it once."""
    for replica in replicas:
        replica.is_ready = False
    # Caddy looks for a replica for three seconds before it answers a GET.
    wait_for(20, lambda: call(url + "/v1/providers", seconds=20).status == 503)
    before = sum(replica.count("POST") for replica in replicas)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        post = pool.submit(call, url + "/v1/logins", "POST", b"x" * 1000, seconds=20)
        early = concurrent.futures.wait([post], timeout=1).done
        for replica in replicas:
            replica.is_ready = True
        answer = post.result()
    says.verdict(not early, "all replicas are unready → the proxy holds a POST back", answer.told)
    says.same("200", answer.told, "a replica is ready again after a second → the held POST is answered")
    says.same(1, sum(replica.count("POST") for replica in replicas) - before, "a replica is ready again after a second → the held POST reaches one replica once")


def malformed(says, url):
    """A proxy keeps its replicas in use after a client's malformed uploads."""
    host, port = url.removeprefix("http://").split(":")
    for _ in range(6):
        with socket.create_connection((host, int(port))) as connection:
            connection.sendall(f"POST /v1/logins HTTP/1.1\r\nHost: {host}:{port}\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\nx\r\n".encode())
            connection.settimeout(1)
            with contextlib.suppress(OSError):
                connection.recv(100)
    answers = many(lambda _: call(url + "/v1/providers", seconds=20), 8)
    says.same({"200": 8}, told(answers), "eight GETs after malformed uploads by one client → all are answered, so no replica is out of use")


class Titled:
    """The verdicts of a case, each with a title before it."""

    def __init__(self, case, title):
        self.case, self.title = case, title

    def verdict(self, good, sentence, why=""):
        return self.case.verdict(good, f"{self.title}: {sentence}", why)

    def same(self, expected, actual, sentence):
        return self.case.same(expected, actual, f"{self.title}: {sentence}")


class Quiet(Verdicts):
    """Verdicts about a broken copy of a recipe, which are kept and not printed."""

    def __init__(self):
        super().__init__()
        self.lines = []

    def print(self, line):
        self.lines.append(line)


# Broken copies of each recipe: the edit, the fault of the replica, and a part of the name of the check that must fail.
COPIES = {
    "nginx": [
        (("nginx.conf", "error timeout;", "error;"), "drops", "every GET"),
        (("nginx.conf", "error timeout;", "error timeout non_idempotent;"), "breaks off", "six POSTs")],
    "caddy": [
        (("Caddyfile", "lb_try_duration 3s", ""), "drops", "every GET"),
        (("Caddyfile", "lb_policy", "fail_duration 10s\n\t\tlb_policy"), "malformed", "after malformed"),
        (("Caddyfile", "not vars_regexp .*", "method GET"), "is unready", "holds a POST back"),
        (("Caddyfile", "lb_policy", "lb_retry_match {\n\t\t\tmethod POST\n\t\t}\n\t\tlb_policy"), "breaks off", "six POSTs")],
    "haproxy": [
        (("haproxy.cfg", "option redispatch 1", "no option redispatch"), "drops", "every GET"),
        (("haproxy.cfg", "retry-on conn-failure", "retry-on all-retryable-errors"), "breaks off", "six POSTs")],
    "apache": [(("apache.conf", "retry=1", "retry=1 status=+I"), "drops", "every GET")],
}
SHORT = {
    "nginx": ("nginx.conf", "_timeout 75s", "_timeout 1s"), "caddy": ("Caddyfile", "75s", "1s"),
    "haproxy": ("haproxy.cfg", "server 75s", "server 1s"), "apache": ("apache.conf", "timeout=75", "timeout=1")}
# Caddy sends a body only once, even if its first attempt did not reach a replica. Only its health checks help against this.
MAY_REFUSE = {"caddy": ("POST",)}


def behind(server):
    """Returns the case of one proxy."""

    def stand_ins(case):
        port, management = free_port(), free_port()
        first, second = Replica("127.0.0.1", port, management), Replica("127.0.0.2", port, management)
        both, deaf = [first, second], Deaf("127.0.0.4", port, management)

        def front(*replicas, edits=()):
            return recipes.proxy(case, server, [getattr(r, "address", r) for r in replicas], edits, MANAGEMENT_PORT=management).url

        says, may_refuse = Titled(case, server), MAY_REFUSE.get(server, ())
        gone(Titled(case, f"{server}, one replica refuses connections"), front(f"127.0.0.3:{port}", first), first, may_refuse=may_refuse)
        # The requests come one after another, because a proxy without health checks tries the lost replica repeatedly.
        gone(Titled(case, f"{server}, one replica drops packets"), front(deaf, first), first, 4, 1, may_refuse)
        if server in CHECKS:
            url = front(deaf, first, edits=CHECKS[server])
            wait_for(10, lambda: max(many(lambda _: call(url + "/", seconds=20).seconds, 6)) < 0.5)
            gone(Titled(case, f"{server} with health checks, one replica drops packets"), url, first, MANY)
        if server == "caddy":
            held(says, front(first, second, edits=CHECKS[server]), both)
        url = front(first, second)
        once(says, url, both, "breaks off")
        malformed(says, url)
        once(says, front(first, second, edits=[SHORT[server]]), both, "hangs")
        for edit, what, sentence in COPIES[server]:
            quiet = Quiet()
            if what == "drops":
                gone(quiet, front(deaf, first, edits=[edit]), first, 4, 1)
            elif what == "is unready":
                held(quiet, front(first, second, edits=[*CHECKS[server], edit]), both)
            elif what == "malformed":
                malformed(quiet, front(first, second, edits=[edit]))
            else:
                once(quiet, front(first, second, edits=[edit]), both, what)
            says.verdict(
                any(line.startswith("not ok") and sentence in line for line in quiet.lines),
                "the checks run on a proxy recipe with a planted fault → a check fails: " + " ".join((edit[2] or f"no {edit[1]}").split()), quiet.lines[:4])

    stand_ins.__doc__ = f"{server}: one replica refuses connections, or drops them; one reads a request and breaks off, or hangs."
    return stand_ins


if __name__ == "__main__":
    if gap := recipes.missing():
        raise SystemExit(f"Bail out! {' '.join(gap)} missing: scripts/setup test")
    main({server: (recipes.serving(behind(server)), 120) for server in recipes.SERVERS}, __doc__)
