"""HAProxy, lighttpd, Varnish and Squid in front of the broker, with the defaults of their packages and as few settings as
possible."""

import http.client
import os
import shutil

from .broker import BACKEND
from .calls import call
from .waiting import GaveUp, wait_for
from .wire import free_port

# The checks of `option httpchk` are requests of HTTP/1.0 without a Host, and the broker has to accept them.
HAPROXY = """defaults
    mode http
    timeout connect 5s
    timeout client 30s
    timeout server 30s
frontend in
    bind 127.0.0.1:{port}
    use_backend alive if {{ path_beg /v1/session }}
    default_backend ready
backend alive
    option httpchk GET /livez
    server one 127.0.0.1:{broker} check port {management} inter 100ms fall 2 rise 1
backend ready
    option httpchk GET /readyz
    server one 127.0.0.1:{broker} check port {management} inter 100ms fall 2 rise 1
"""

# Without `server.stream-response-body`, lighttpd holds an answer back until its end.
LIGHTTPD = """server.modules = ("mod_proxy")
server.document-root = "{folder}"
server.bind = "127.0.0.1"
server.port = {port}
server.stream-response-body = 1
proxy.server = ("" => (("host" => "127.0.0.1", "port" => {broker})))
"""

VARNISH = """vcl 4.1;
backend default {{ .host = "127.0.0.1"; .port = "{broker}"; }}
"""

SQUID = """http_port 127.0.0.1:{port} accel defaultsite=127.0.0.1:{broker}
cache_peer 127.0.0.1 parent {broker} 0 no-query originserver name=broker
http_access allow all
cache_mem 8 MB
pid_filename {folder}/squid.pid
access_log none
cache_log {folder}/cache.log
coredump_dir {folder}
pinger_enable off
shutdown_lifetime 0 seconds
visible_hostname localhost
"""


PATH = os.environ["PATH"] + ":/usr/sbin"


def commands(name, folder, port):
    """The program and its arguments."""
    file = folder / name
    if name == "varnish":
        return ["varnishd", "-F", "-j", "none", "-f", file, "-a", f"127.0.0.1:{port}", "-n", folder / "state", "-s", "malloc,16m", "-p", "thread_pool_min=5"]
    return {"haproxy": ["haproxy", "-db", "-f", file], "lighttpd": ["lighttpd", "-D", "-f", file], "squid": ["squid", "-N", "-f", file]}[name]


BALANCERS = {"haproxy": HAPROXY, "lighttpd": LIGHTTPD, "varnish": VARNISH, "squid": SQUID}


def missing():
    """Names of missing server programs."""
    return [name for name in BALANCERS if not shutil.which("varnishd" if name == "varnish" else name, path=PATH)]


def start(case, name, broker):
    """Begins to start a balancer in front of a broker, and returns its address. The thread that calls this has to live as long
    as the balancer.
    """
    folder, port = case.folder / name, free_port()
    folder.mkdir()
    # Squid gives up root, but has to read its file and write its log, so its user gets access to the folders.
    for each in (case.folder, case.folder.parent):
        each.chmod(0o755)
    folder.chmod(0o777)
    (folder / name).write_text(BALANCERS[name].format(folder=folder, port=port, broker=broker.port, management=broker.management_port))
    case.start([str(part) for part in commands(name, folder, port)], f"{name}.log", {"PATH": PATH})
    return f"http://127.0.0.1:{port}"


def wait(case, broker, name, url):
    """Waits until the balancer serves."""
    if not wait_for(20, lambda: call(url + "/v1/providers", seconds=5, Host=f"127.0.0.1:{broker.port}").status == 200, 0.1):
        raise GaveUp(f"{name} fails: " + (case.folder / f"{name}.log").read_text(errors="replace")[-600:])


def first_bytes(port, path, session, seconds=10, host=None):
    """The answer's fields, and the part of its body that arrived within the time, at most two lines."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=seconds)
    connection.request("GET", path, headers={"Cookie": f"coatcheck={session}"} | ({"Host": host} if host else {}))
    try:
        answer = connection.getresponse()
        return answer, answer.readline() + answer.readline()
    except OSError as error:
        return None, repr(error).encode()


def calls(case, broker, name, url):
    """Requests through one balancer. A cache must never give one caller's answer to another caller."""
    host = {"Host": f"127.0.0.1:{broker.port}"}
    ana, ben = broker.sign_in(), broker.sign_in("ben")

    def ask(path, method="GET", session=None, body=None, **fields):
        cookie = {"Cookie": f"coatcheck={session}"} if session else {}
        return call(url + path, method, body, 15, **host, **cookie, **fields)

    proof = {"X_Coatcheck_Backend": BACKEND, "X_Coatcheck_Session": ana}
    for turn in range(2):
        case.same([401, 401, 401], [ask("/v1/session").status, ask("/v1/session", session="guess").status, ask("/v1/forward-auth").status],
                  f"{name}, calls without a session or with a guessed one, {('before', 'after')[turn]} good calls → 401")
        seen = [ask("/v1/session", session=session).json.get("handle") for session in (ana, ben, ana)]
        case.verdict(None not in seen and seen[0] == seen[2] != seen[1], f"{name}, two users read their sessions in turn → each gets the right session", seen)
        case.same([200, 401, 200], [ask("/v1/forward-auth", **one).status for one in (proof, proof | {"X_Coatcheck_Session": "guess"}, proof)], f"{name}, three calls of forward-auth, with a session, a guessed session and the first session again → 200, 401, 200")
    for body in (b"x" * 3000, b"x" * 300_000, iter([b"x" * 2000, b"x" * 1000])):
        posted = ask("/v1/relay/api/echo", "POST", ana, body)
        case.same((200, True), (posted.status, posted.json.get("body_length") in (3000, 300_000)), f"{name}, a relayed POST of {len(body) if isinstance(body, bytes) else 'chunked'} bytes → arrives completely")
    case.same(200, ask("/v1/session", "HEAD", ana).status, f"{name}, a HEAD of the session → 200")
    answer, begin = first_bytes(int(url.rsplit(":", 1)[1]), "/v1/session/events", ana, host=host["Host"])
    case.same(b"event: session\n", begin.splitlines(keepends=True)[0] if begin else b"", f"{name}, the session's event stream → begins with the event `session`")
    broker.refresh(ana)
    case.same([b"\n", b"event: tokens_refreshed\n"], [answer.readline(), answer.readline()] if answer else [], f"{name}, the session's event stream after a refresh → the next event arrives")
    _, begin = first_bytes(int(url.rsplit(":", 1)[1]), "/v1/relay/api/events/100", ana, 5, host["Host"])
    case.same(b"data: 0\n\n", begin, f"{name}, a relayed event stream → its first event arrives")
    case.same(204, ask("/v1/session", "DELETE", ana).status, f"{name}, a log-out → 204")
    case.same([401, 200, 401], [ask("/v1/session", session=ana).status, ask("/v1/session", session=ben).status, ask("/v1/forward-auth", **proof).status], f"{name}, a user's log-out → ends only this user's session")
