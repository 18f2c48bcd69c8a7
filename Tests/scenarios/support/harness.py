"""The shared parts of the fault scripts: brokers and provider emulators as processes, a clock that can be moved, and concurrent
cases. A gate in front of a provider delays and counts its calls. A case is a function that takes a `Case`. It has its own
folder, processes and time limit. The output is like that of the curl scripts: `ok` and `not ok`, with the lines of one case
together. The programs are COATCHECK and COATCHECK_SANDBOX.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import dataclasses
import hashlib
import http.client
import http.server
import json
import mmap
import os
import pathlib
import re
import select
import shutil
import signal
import socket
import sqlite3
import struct
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import urllib.parse

from .verdicts import Verdicts, note_run
from .wire import ROOT, free_port

HERE = pathlib.Path(__file__).resolve().parent
BACKEND = "orders-credential-4f1d9c"
ADMIN = "admin-ender-b81c64e2f0"
MIB = 1 << 20


def programs():
    """The paths of the two programs: from the environment, else the release build's, else the debug build's."""
    builds = [ROOT / ".build" / kind for kind in ("dist", "debug")]
    build = next((folder for folder in builds if (folder / "coatcheck").exists()), builds[-1])
    return (os.environ.get(name) or str(build / program) for name, program in (
        ("COATCHECK", "coatcheck"), ("COATCHECK_SANDBOX", "coatcheck-sandbox")))


COATCHECK, SANDBOX = programs()


def sha256(text):
    return hashlib.sha256(text.encode()).hexdigest()


class GaveUp(Exception):
    """Raised when a case cannot continue."""


# ---- requests --------------------------------------------------------------------------------------------------------


@dataclasses.dataclass
class Answer:
    """An answer; status 0 if there was none, with the reason as its body."""

    status: int
    fields: http.client.HTTPMessage
    body: bytes
    seconds: float

    @property
    def json(self):
        try:
            found = json.loads(self.body)
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {"items": found}

    @property
    def told(self):
        """The answer in a few words: `401 session_ended grant_revoked`."""
        found = self.json
        words = [str(self.status), found.get("code") or found.get("error") or "", found.get("reason") or ""]
        return " ".join(word for word in words if word)

    @property
    def is_passing_fault(self):
        """503 with `Retry-After`, and the cookie stays."""
        return self.status == 503 and (self.fields["Retry-After"] or "").isdigit() and not self.fields["Set-Cookie"]


def call(url, method="GET", body=None, seconds=40, connection=None, **fields):
    """Makes one request; `fields` are header fields with `_` for `-`."""
    begin = time.monotonic()
    parts = urllib.parse.urlsplit(url)
    headers = {name.replace("_", "-"): value for name, value in fields.items()}
    if isinstance(body, (dict, list)):
        body, headers["Content-Type"] = json.dumps(body), "application/json"
    path = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
    own = connection or http.client.HTTPConnection(parts.hostname, parts.port, timeout=seconds)
    try:
        own.request(method, path, body, headers)
        answer = own.getresponse()
        return Answer(answer.status, answer.headers, answer.read(), time.monotonic() - begin)
    except (OSError, http.client.HTTPException) as error:
        own.close()
        return Answer(0, http.client.HTTPMessage(), repr(error).encode(), time.monotonic() - begin)
    finally:
        if connection is None:
            own.close()


def wait_for(seconds, condition, pause=0.02):
    """Returns the condition's value as soon as it is true, or its last value after that number of seconds."""
    end = time.monotonic() + seconds
    while not (found := condition()) and time.monotonic() < end:
        time.sleep(pause)
    return found


def quantile(values, share):
    """The value that this share of the sorted values does not exceed."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else float("inf")


# ---- the provider ----------------------------------------------------------------------------------------------------


class Sandbox:
    """A provider emulator."""

    def __init__(self, case, record=True, base_url=None):
        """`base_url` is the address of a proxy before the sandbox."""
        self.port = free_port()
        own = f"http://127.0.0.1:{self.port}"
        self.url = base_url or own
        command = [SANDBOX, "--listen", f"127.0.0.1:{self.port}", *([] if record else ["--no-record"])]
        case.start([*command, "--base-url", base_url] if base_url else command, "sandbox.log")
        if not wait_for(60, lambda: call(own + "/_sandbox/health", seconds=5).status == 200):
            raise GaveUp("the sandbox did not start")

    def control(self, method, path, body=None):
        return call(f"{self.url}/_sandbox{path}", method, body)

    def fault(self, provider, **fault):
        assert self.control("PUT", f"/faults/{provider}", fault).status == 200

    def settings(self, provider, **settings):
        self.control("PUT", f"/settings/{provider}", settings)

    def calls(self, endpoint):
        return self.control("GET", "/counts").json.get(endpoint, 0)

    def lives(self, token):
        return any(item["live"] for item in self.control("GET", "/tokens").json["items"] if item["token"] == token)


@dataclasses.dataclass
class GatedCall:
    """A call at the gate: its time, its token, its end (answered or given up), and the result."""

    path: str
    form: dict
    began: float
    ended: float | None = None
    status: int | None = None

    @property
    def refresh_token(self):
        return self.form.get("refresh_token")


class QuietHandler(http.server.BaseHTTPRequestHandler):
    """A handler that keeps its connections, logs nothing, and treats a client's disconnection as the end of a connection."""

    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def handle_one_request(self):
        with contextlib.suppress(OSError):
            super().handle_one_request()


class Gate:
    """A gate in front of a provider: passes calls on, and applies the planned effects to the next ones.

    `plan` has the effects for the next calls in order, `always` the effect for all others. An effect is a function of the call
    and of a function that passes it on. It returns (status, fields, body), or None to break off.
    """

    def __init__(self, sandbox):
        gate = self
        self.sandbox = sandbox
        self.calls = []
        self.plan = []
        self.always = Gate.pass_on
        self.lock = threading.Lock()

        class Handler(QuietHandler):
            def do_POST(self):
                gate.take(self)

            do_GET = do_POST

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True
            request_queue_size = 1024

            def handle_error(self, *_):
                pass

        self.server = Server(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def take(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        form = dict(urllib.parse.parse_qsl(body.decode("latin1")))
        taken = GatedCall(handler.path, form, time.monotonic())
        taken.is_open = lambda: not Gate.hung_up(handler.connection)
        with self.lock:
            self.calls.append(taken)
            what = self.plan.pop(0) if self.plan else self.always

        def forward():
            fields = {n.replace("-", "_"): v for n, v in handler.headers.items() if n.lower() not in ("host", "content-length", "connection")}
            answer = call(self.sandbox.url + handler.path, handler.command, body, **fields)
            return answer.status, {"Content-Type": answer.fields["Content-Type"] or "text/plain"}, answer.body

        answer = what(taken, forward)
        taken.ended = time.monotonic()
        if answer is None or Gate.hung_up(handler.connection):
            handler.close_connection = True
            handler.connection.shutdown(socket.SHUT_RDWR)
            return
        taken.status, fields, content = answer
        handler.send_response(taken.status)
        for name, value in fields.items():
            handler.send_header(name, value)
        handler.send_header("Content-Length", str(len(content)))
        handler.end_headers()
        handler.wfile.write(content)

    @staticmethod
    def hung_up(connection):
        if not select.select([connection], [], [], 0)[0]:
            return False
        try:
            return connection.recv(1, socket.MSG_PEEK) == b""
        except OSError:
            return True

    @staticmethod
    def wait(taken, seconds=None, event=None):
        """Waits this long, or for an event, as long as the caller is connected."""
        end = time.monotonic() + (60 if seconds is None else seconds)
        while time.monotonic() < end and taken.is_open():
            if event and event.wait(0.02):
                return
            if not event:
                time.sleep(0.02)

    # The effects on a call.

    @staticmethod
    def pass_on(_, forward):
        return forward()

    @staticmethod
    def slow(seconds):
        """The provider does its work after this time, if its caller is still connected."""

        def act(taken, forward):
            Gate.wait(taken, seconds)
            return forward() if taken.is_open() else None

        return act

    @staticmethod
    def hang(seconds=60):
        """Waits, and then breaks off."""

        def act(taken, _):
            Gate.wait(taken, seconds)

        return act

    @staticmethod
    def hold(event):
        """The provider does its work at once; its answer waits for an event."""

        def act(taken, forward):
            answer = forward()
            taken.worked = True
            Gate.wait(taken, event=event)
            return answer

        return act

    @staticmethod
    def answer(status, body=b"", **fields):
        return lambda *_: (status, {name.replace("_", "-"): value for name, value in fields.items()}, body)

    # The received calls.

    def refreshes(self, token=None):
        return [c for c in list(self.calls) if c.refresh_token and token in (None, c.refresh_token)]

    @staticmethod
    def most_at_once(calls):
        """The greatest number of calls in progress at the same time."""
        now = time.monotonic()
        moments = sorted([(c.began, 1) for c in calls] + [(c.ended or now, -1) for c in calls])
        most = running = 0
        for _, step in moments:
            running += step
            most = max(most, running)
        return most


# ---- the broker ------------------------------------------------------------------------------------------------------


class Clock:
    """The clocks of the processes that preload the library; they can be moved."""

    def __init__(self, case, name="clock", folder=None):
        folder = pathlib.Path(folder or case.folder)
        self.library = folder / "preloaded_clock.so"
        self.file = folder / name
        if not self.library.exists():
            subprocess.run(
                [shutil.which("cc") or "clang", "-shared", "-fPIC", "-O2", "-o", self.library, HERE / "preloaded_clock.c", "-ldl"], check=True)
        self.file.write_bytes(bytes(16))
        with open(self.file, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 16)

    @property
    def environment(self):
        return {"LD_PRELOAD": str(self.library), "PRELOADED_CLOCK": str(self.file)}

    def set(self, wall=0.0, monotonic=0.0):
        """Moves the clocks away from the machine's by this number of seconds."""
        struct.pack_into("qq", self.memory, 0, int(wall * 1000), int(monotonic * 1000))


def merged(settings, more):
    """The settings, overridden by others; None removes a setting."""
    found = dict(settings)
    for key, value in more.items():
        found[key] = merged(found.get(key) or {}, value) if isinstance(value, dict) else value
    return {key: value for key, value in found.items() if value is not None}


class Broker:
    """A broker with its folder, which can be killed and started again; `settings` override the usual ones."""

    def __init__(
            self, case, sandbox, gate=None, gated=(), clock=None, data=None, like=None, name="broker", settings=None, prefix=(), start=True):
        self.case, self.sandbox, self.clock, self.name, self.prefix = case, sandbox, clock, name, prefix
        self.folder = case.folder / name
        self.folder.mkdir(mode=0o700)
        self.data = pathlib.Path(data) if data else self.folder / "data"
        self.data.mkdir(mode=0o700, exist_ok=True)
        self.port, self.management_port = free_port(), free_port()
        self.url, self.management = f"http://127.0.0.1:{self.port}", f"http://127.0.0.1:{self.management_port}"
        self.settings = merged(self.every_brokers(gate, gated), settings or {})
        self.configuration = self.folder / "coatcheck.yaml"
        self.configure()
        if like:
            shutil.copy(like.folder / "keys.json", self.folder)
        else:
            subprocess.run(
                [COATCHECK, "keys", "generate", "--file", self.folder / "keys.json"], check=True, capture_output=True)
        self.process = None
        self.program = COATCHECK
        self.health = "/readyz"
        if start:
            self.start()

    def configure(self, **settings):
        """Writes the configuration (JSON is YAML), with more settings over those it has."""
        self.settings = merged(self.settings, settings)
        self.configuration.write_text(json.dumps(self.settings, indent=1))
        self.configuration.chmod(0o600)

    def every_brokers(self, gate, gated):
        provider = self.sandbox.url
        paths = {"refresh": "/oidc/token", "token": "/oidc/token", "revocation": "/oidc/revoke", "jwks": "/oidc/jwks"}
        endpoints = {key: gate.url + paths[key] for key in gated}
        if "jwks" in gated:
            endpoints["jwks"] = gate.url + urllib.parse.urlsplit(
                call(provider + "/oidc/.well-known/openid-configuration").json["jwks_uri"]).path
        public = {"auth": "none", "scope": "openid email offline_access", "login": "both"}
        return {
            "server": {"listen": f"127.0.0.1:{self.port}", "public_url": self.url},
            "management": {
                "listen": f"127.0.0.1:{self.management_port}",
                "admin_tokens": [{"name": "ender", "sha256": sha256(ADMIN), "may": ["read", "end"]}]},
            "store": {"url": f"sqlite:{self.data}/coatcheck.db"},
            "keys": {"file": f"{self.folder}/keys.json"},
            "log": {"level": "info", "requests": False},
            # Sessions of tests refresh several times in a minute.
            "limits": {"forced_refresh_pause": "0s"},
            "providers": {
                "oidc": {
                    "kind": "oidc", "issuer": f"{provider}/oidc", "endpoints": endpoints,
                    "clients": {
                        "ios": public | {"client_id": "ios-app", "redirect_uris": ["com.example.app:/cb"]},
                        "web": public | {"client_id": "web-app", "redirect_uris": ["com.example.web:/cb"]},
                        "android": public | {
                            "client_id": "android-app", "redirect_uris": ["com.example.android:/cb"], "transport": "bearer"},
                    }},
                "oauth2": {
                    "kind": "oauth2",
                    "endpoints": {
                        "authorization": f"{provider}/oauth2/authorize", "token": f"{provider}/oauth2/token",
                        "revocation": f"{provider}/oauth2/revoke"},
                    "identity": {
                        "source": "api", "url": f"{provider}/oauth2/api/me", "subject": "/id", "name": "/profile/name",
                        "email": "/profile/email"},
                    "clients": {"ios": {
                        "client_id": "oauth2-app", "auth": "none", "redirect_uris": ["com.example.oauth2:/cb"],
                        "scope": "profile email"}},
                }},
            "backends": {"orders": {"sha256": sha256(BACKEND), "may": ["introspect", "token", "forward-auth"]}},
        }

    def spawn(self):
        environment = self.clock.environment if self.clock else None
        self.process = self.case.start(
            [*self.prefix, self.program, "serve", "--config", str(self.configuration)], f"{self.name}.log", environment)

    def start(self):
        self.spawn()
        if not wait_for(60, self.is_ready):
            raise GaveUp("the broker did not start: " + self.log()[-400:])

    def is_ready(self):
        return call(self.management + self.health, seconds=5).status == 200

    def stop(self, how=signal.SIGKILL):
        self.process.send_signal(how)
        self.process.wait(40)

    def restart(self, how=signal.SIGKILL):
        self.stop(how)
        self.start()

    def log(self):
        return (self.case.folder / f"{self.name}.log").read_text(errors="replace")

    # -- the broker's own reports

    def metric(self, name, **labels):
        """The sum of a metric's series that have these labels."""
        text = call(self.management + "/metrics").body.decode()
        total = 0.0
        for found in re.finditer(rf"^{name}(?:\{{(.*)\}})? (\S+)$", text, re.MULTILINE):
            if all(f'{key}="{value}"' in (found[1] or "") for key, value in labels.items()):
                total += float(found[2])
        return total

    def resident(self):
        found = re.search(r"^VmRSS:\s+(\d+)", pathlib.Path(f"/proc/{self.process.pid}/status").read_text(), re.MULTILINE)
        return int(found[1]) * 1024

    # -- its database, from outside

    def database(self, **options):
        return sqlite3.connect(self.data / "coatcheck.db", isolation_level=None, timeout=10, **options)

    def query(self, sql, *values):
        with contextlib.closing(self.database()) as database:
            return database.execute(sql, values).fetchall()

    # -- requests

    def call(self, method, path, session=None, body=None, **more):
        if session:
            more["Cookie"] = f"coatcheck={session}"
        # The Host is the broker's public name, even through a proxy.
        more.setdefault("Host", urllib.parse.urlsplit(self.settings["server"]["public_url"]).netloc)
        return call(self.url + path, method, body, **more)

    def look(self, session):
        return self.call("GET", "/v1/session", session)

    def refresh(self, session):
        return self.call("POST", "/v1/session/refresh", session)

    def log_out(self, session):
        return self.call("DELETE", "/v1/session", session)

    def exchange(self, session):
        """The access token that a backend gets."""
        form = {
            "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": session,
            "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
        }
        return self.call(
            "POST", "/v1/token", body=urllib.parse.urlencode(form), X_Coatcheck_Backend=BACKEND,
            Content_Type="application/x-www-form-urlencoded")

    def log_in(self, user="ana", provider="oidc", client="ios", **authorize):
        """A login up to the forward: the answers to its two calls."""
        begun = self.call("POST", "/v1/logins", body={"provider": provider, "client": client})
        if begun.status != 201:
            return begun, begun
        token = begun.json.get("login_token")
        proof = {"login_token": token} if token else {}
        fields = {} if token else {"Cookie": re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]}
        query = urllib.parse.urlencode({"sandbox_user": user} | authorize)
        url = begun.json["authorization_url"] + "&" + query
        callback = call(url).fields["Location"]
        return begun, self.call("POST", "/v1/sessions", body={"callback_url": callback} | proof, **fields)

    def sign_in(self, *arguments, **more):
        """A whole login; the session's token."""
        _, answer = self.log_in(*arguments, **more)
        if answer.status != 201:
            raise GaveUp(f"no session: {answer.told} {answer.body[:200]}")
        held = re.search(r"coatcheck=([^;]+)", ", ".join(answer.fields.get_all("Set-Cookie") or []))
        return answer.json.get("session_token") or held[1]

    def row(self, session, columns):
        """Columns of a session's row."""
        digest = hashlib.sha256(session.encode()).digest()
        rows = self.query(f"SELECT {columns} FROM sessions WHERE token = ?", digest)
        return rows[0] if rows else None


# ---- the database ----------------------------------------------------------------------------------------------------


class Database:
    """A new PostgreSQL: `Tests/scenarios/support/postgresql`, which takes the options and ends with its input."""

    def __init__(self, *options, clock=None):
        self.process = subprocess.Popen(
            [HERE / "postgresql", *options], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
            env=os.environ | (clock.environment if clock else {}))
        words = self.process.stdout.readline().split()
        if words[:1] != ["ready"]:
            raise GaveUp("no PostgreSQL: scripts/setup test installs what is missing")
        self.port = int(words[1])
        self.pooler = int(words[4]) if words[4:5] not in ([], ["-"]) else None
        self.ports = [int(word) for word in (words[1], *words[5:])]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.stdin.close()
        self.process.wait(30)

    def url(self, port=None):
        return f"postgresql://coatcheck@127.0.0.1:{port or self.port}/postgres"

    def do(self, command):
        self.process.stdin.write(command + "\n")
        self.process.stdin.flush()
        words = self.process.stdout.readline().split()
        if words[:1] != ["done"]:
            raise GaveUp(f"PostgreSQL's {command}")
        self.port = int(words[2])


# ---- cases -----------------------------------------------------------------------------------------------------------


class Processes:
    """Processes with a folder for their files; they end with this process."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []

    def start(self, command, log, environment=None):
        with open(self.folder / log, "ab") as file:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], stdout=file, stderr=file, stdin=subprocess.DEVNULL,
                env=os.environ | (environment or {}))
        self.processes.append(process)
        return process

    def end(self):
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()

    def traps(self):
        """The lines of their logs that a trap leaves."""
        return [
            line for log in self.folder.glob("*.log") for line in log.read_text(errors="replace").splitlines()
            if re.search("fatal error|precondition|Swift runtime failure|stack dump", line, re.IGNORECASE)]


class Case(Processes, Verdicts):
    """One case: its folder, its processes, and its verdicts, which are printed together."""

    def __init__(self, name, title, folder):
        Processes.__init__(self, pathlib.Path(folder, name))
        Verdicts.__init__(self)
        self.folder.mkdir(mode=0o700)
        self.title = title
        self.lines = []

    def print(self, line):
        self.lines.append(line)

    def beside(self, function, *arguments):
        """Starts a function in the background; `.result()` waits for it."""
        future = concurrent.futures.Future()

        def run():
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # noqa: BLE001
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


def main(cases, description, in_turn=()):
    """Runs the cases `{name: (function, seconds)}` concurrently, except those `in_turn`, and prints their results."""
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--work", help="a folder for their files, which is kept")
    options.add_argument("--only", default="", help="cases whose name has this in it")
    options.add_argument("--jobs", type=int, default=len(cases), help="how many run at one time")
    options = options.parse_args()
    work = options.work or tempfile.mkdtemp(prefix="coatcheck-scenario.")
    ended = threading.Lock()

    def end(status):
        # Threads of a case that did not end in time would prevent the process from ending.
        with ended:
            sys.stdout.flush()
            if not options.work:
                shutil.rmtree(work, ignore_errors=True)
            os._exit(status)

    signal.signal(signal.SIGTERM, lambda *_: end(1))
    chosen = {name: case for name, case in cases.items() if options.only in name}
    places, turn = threading.Semaphore(options.jobs), threading.Lock()
    printing = threading.Lock()
    counts = collections.Counter()

    def run(name, function, limit):
        with places, turn if name in in_turn else contextlib.nullcontext():
            case = Case(name, (function.__doc__ or name).strip().splitlines()[0], work)
            begin = time.monotonic()
            try:
                case.beside(function, case).result(limit)
            except concurrent.futures.TimeoutError:
                case.verdict(False, f"{name} ends within {limit} seconds", "it does not")
            except Exception as error:  # noqa: BLE001
                if not isinstance(error, GaveUp):
                    case.lines += [f"#   {line}" for line in traceback.format_exc().splitlines()[-6:]]
                case.verdict(False, f"{name} runs to its end", repr(error))
            traps = case.traps()
            case.end()
            case.verdict(not traps, "no trap in the logs", traps[:1])
            with printing:
                print(f"\n# {name}: {case.title} ({time.monotonic() - begin:.0f} s)")
                print("\n".join(case.lines), flush=True)
                counts.update(passed=case.passed, failed=case.failed)

    # A process dies with the thread that started it, so each case has a thread that lives as long as the case.
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(chosen))) as pool:
        list(pool.map(lambda item: run(item[0], *item[1]), chosen.items()))
    print(f"\n{counts['passed']} passed, {counts['failed']} failed")
    note_run()
    end(int(counts["failed"] > 0 or not counts["passed"]))
