"""Three replicas on a PostgreSQL with a synchronous standby, phones that call them without pause, and every kind of fault
meanwhile. Guarantees 1 to 6 hold across replicas that are killed. `scripts/chaos` starts it, and docs/operate/run.md explains
its output.

The provider rotates strictly and its tokens live five seconds. A gate in front of it records each use of a code and of a
refresh token, with the replica. Meanwhile replicas are killed and started again. PostgreSQL is restarted, crashes and fails
over. The provider is away or loses its answers, and the wall clocks of single replicas and of the database are stepped.

Some phones have sessions with short lives. They use them, pause now and then, and give them up. This program judges these
sessions by its own monotonic clock, which is never stepped.

Half of the phones have sessions that belong to a key. They send passes or proofs by a clock that is up to a day wrong. Their
network sends repeatable requests twice with the same bytes. Next to each is a thief with its cookie.

These counts have to be zero:

- sessions that ended for a reason that does not count, or that are unknown after their 201
- 5xx without `Retry-After`
- refresh tokens and codes that were used again
- log-outs that were undone after their 204
- good proofs and passes that were refused, and answers to thieves
- sessions that ended before their idle time or their whole life, were doubted before it, or opened three minutes after it

A session whose rotated token was lost with the provider's answer, or with its process, ends with `refresh_lost`. These are
counted separately.
"""

import argparse
import asyncio
import base64
import collections
import json
import pathlib
import random
import re
import signal
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND, Broker, sha256  # noqa: E402
from support.calls import Answer as PlainAnswer  # noqa: E402
from support.cases import Processes  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.database import Database as PostgreSQL  # noqa: E402
from support.dpop import Phone as Device  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402
from support.wire import free_port  # noqa: E402

TOKEN_LIFETIME = 5
FAULTS = ("none", "reuse", "ended", "bare", "unsynchronous")
# The idle time by client; the shortest possible one is a pass's life.
IDLE = {"brief": 30, "short": 120, "steady": 600, "finite": 60}
# The whole life, by client.
LIFE = {"finite": 75}
# The largest step of the database's clock.
STEP = 120
# The `Retry-After` of an answer that doubts the clock.
DOUBT = "30"
# A use moves the idle time once in a second, or in a hundredth of it, and is written behind the answer.
IDLE_GRAIN = 2.5
# Lapses are judged up to two minutes late after a step of the database's clock. The cache and the sweeper need further time.
IDLE_LATE = 180
BINDINGS = {"strict": {"mode": "enforce", "evidence": "pass", "pass": "1m"}, "silent": {"mode": "enforce", "evidence": "proof"}}
EVIDENCE_CODES = ("proof_required", "use_dpop_nonce", "proof_invalid")


# ---- HTTP ------------------------------------------------------------------------------------------------------------


class Answer(PlainAnswer):
    """An answer; its fields are a dictionary with lower-case names."""

    def cookie(self, name):
        found = re.search(rf"(?:^|; ?|, ?|\n){name}=([^;]+)", self.fields.get("set-cookie", ""))
        return found[1] if found else None


async def read_head(reader):
    """The first line and the fields of a message. Several fields of one name are joined by line ends."""
    lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
    fields = {}
    for line in lines[1:]:
        name, _, value = line.partition(":")
        if value:
            name, value = name.lower(), value.strip()
            fields[name] = f"{fields[name]}\n{value}" if name in fields else value
    return lines[0], fields


async def read_body(reader, fields, is_answer):
    if fields.get("transfer-encoding", "").lower() == "chunked":
        parts = []
        while size := int((await reader.readline()).split(b";")[0], 16):
            parts.append(await reader.readexactly(size))
            await reader.readline()
        await reader.readline()
        return b"".join(parts)
    if "content-length" in fields:
        return await reader.readexactly(int(fields["content-length"]))
    return await reader.read() if is_answer else b""


class Unreached(Exception):
    """There was no answer: the other side is missing, or disconnected."""


class Connections:
    """One caller's connections, kept as long as the other side keeps them."""

    def __init__(self):
        self.open = {}

    def close(self):
        for _, writer in self.open.values():
            writer.close()
        self.open = {}

    async def call(self, url, method="GET", body=None, form=None, seconds=60, **headers):
        parts = urllib.parse.urlsplit(url)
        key = (parts.hostname, parts.port)
        text = b""
        if body is not None:
            text, headers["Content_Type"] = json.dumps(body).encode(), "application/json"
        if form is not None:
            text, headers["Content_Type"] = urllib.parse.urlencode(form).encode(), "application/x-www-form-urlencoded"
        target = urllib.parse.urlunsplit(("", "", parts.path or "/", parts.query, ""))
        lines = [f"{method} {target} HTTP/1.1", f"Host: {parts.netloc}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if text or method in ("POST", "PUT"):
            lines.append(f"Content-Length: {len(text)}")
        begin = time.monotonic()
        try:
            async with asyncio.timeout(seconds):
                if key not in self.open:
                    self.open[key] = await asyncio.open_connection(*key, limit=1 << 20)
                reader, writer = self.open[key]
                writer.write("\r\n".join(lines).encode("latin1") + b"\r\n\r\n" + text)
                head, fields = await read_head(reader)
                status = int(head.split(" ")[1])
                content = b"" if method == "HEAD" or status in (204, 304) else await read_body(reader, fields, True)
        except TimeoutError:
            self.drop(key)
            raise
        except (OSError, EOFError, ValueError, IndexError, asyncio.LimitOverrunError) as error:
            self.drop(key)
            raise Unreached(repr(error)) from None
        if fields.get("connection", "").lower() == "close" or "content-length" not in fields and "transfer-encoding" not in fields:
            self.drop(key)
        return Answer(status, fields, content, time.monotonic() - begin)

    def drop(self, key):
        if key in self.open:
            self.open.pop(key)[1].close()


# ---- what is counted -------------------------------------------------------------------------------------------------


class Tally:
    """The observed counts; `must_be_zero` decides."""

    MUST_BE_ZERO = {
        "wrongful log-outs": "wrongful",
        "5xx without Retry-After": "bare",
        "sessions lost after a 201": "lost",
        "refresh-token reuses seen by the provider": "reused",
        "codes used again": "codes",
        "log-outs undone after a 204": "undone",
        "requests without an answer for a minute": "hung",
        "good evidence of honest phones refused": "evidence",
        "answers with content to thieves of a cookie": "stolen",
        "sessions over before their idle time": "early",
        "sessions opened three minutes after their idle time": "late",
        "sessions over before their whole life": "cut",
        "sessions opened three minutes after their whole life": "outlived",
        "living sessions doubted": "doubted",
    }

    def __init__(self):
        self.figures = collections.Counter()
        self.answers = collections.Counter()
        self.events = collections.Counter()
        self.examples = collections.defaultdict(list)
        self.began = time.monotonic()

    def count(self, figure, example):
        self.figures[figure] += 1
        if len(self.examples[figure]) < 8:
            self.examples[figure].append(f"{time.monotonic() - self.began:.2f} s: {example}")


class Use:
    """A use of a refresh token at the provider."""

    def __init__(self, replica, began):
        self.replica, self.life, self.began = replica, replica.life, began
        self.status = self.ended = self.access = None
        self.is_lost = False


class Family:
    """The tokens that came from one code."""

    def __init__(self, subject):
        self.subject = subject
        self.is_lost = False


class Gate:
    """A gate in front of the provider's token endpoint, which passes everything on."""

    def __init__(self, chaos):
        self.chaos = chaos
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.uses = collections.defaultdict(list)
        self.codes = collections.defaultdict(list)
        self.families = {}
        self.by_subject = {}
        self.seen = set()
        self.rotations = 0
        self.repeats = 0

    async def start(self):
        self.server = await asyncio.start_server(self.take, "127.0.0.1", self.port, backlog=1024)

    async def take(self, reader, writer):
        try:
            head, fields = await read_head(reader)
            body = await read_body(reader, fields, False)
            _, number, path = head.split(" ")[1].split("/", 2)
            form = dict(urllib.parse.parse_qsl(body.decode("latin1")))
            answer = await self.pass_on(self.chaos.replicas[int(number)], "/" + path, fields, form, body, reader)
            if answer:
                writer.write(
                    f"HTTP/1.1 {answer.status} Passed\r\nContent-Type: {answer.fields.get('content-type', 'text/plain')}\r\n"
                    .encode() + self.retry_after(answer) + f"Content-Length: {len(answer.body)}\r\nConnection: close\r\n\r\n"
                    .encode() + answer.body)
                await writer.drain()
        except (OSError, EOFError, ValueError):
            pass
        finally:
            writer.close()

    @staticmethod
    def retry_after(answer):
        found = answer.fields.get("retry-after")
        return f"Retry-After: {found}\r\n".encode() if found else b""

    async def pass_on(self, replica, path, fields, form, body, reader):
        token = form.get("refresh_token")
        use = Use(replica, time.monotonic())
        (self.uses[token] if token else self.codes[form.get("code")]).append(use)
        answer = await self.ask(path, fields, body)
        use.ended = time.monotonic()
        use.status = answer.status if answer else 0
        # A caller that has disconnected gets no answer.
        use.is_lost = answer is None or reader.at_eof()
        if token:
            self.judge(token, use, answer)
            if self.chaos.fault == "reuse" and use.status == 200 and random.random() < 0.05:
                again = Use(replica, time.monotonic())
                self.uses[token].append(again)
                again_answer = await self.ask(path, fields, body)
                again.status, again.ended = again_answer.status if again_answer else 0, time.monotonic()
                self.judge(token, again, again_answer)
        else:
            earlier = [u for u in self.codes[form.get("code")] if u is not use and u.status in (200, None, 0)]
            if earlier:
                self.chaos.tally.count("codes", f"replica {replica.number}, after {earlier[0].status}")
            if use.status == 200:
                self.note_family(answer.json, use)
        return answer

    async def ask(self, path, fields, body):
        sent = {name: value for name, value in fields.items() if name in ("authorization", "accept", "content-type", "user-agent")}
        connections = Connections()
        try:
            form = dict(urllib.parse.parse_qsl(body.decode("latin1")))
            sent.pop("content-type", None)
            return await connections.call(self.chaos.sandbox.url + path, "POST", form=form, **sent)
        except (Unreached, TimeoutError):
            return None
        finally:
            connections.close()

    def note_family(self, answer, use):
        payload = answer["id_token"].split(".")[1]
        subject = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))["sub"]
        family = Family(subject)
        self.families[answer["refresh_token"]] = self.by_subject[subject] = family
        use.access = answer["access_token"]

    def judge(self, token, use, answer):
        family = self.families.get(token)
        if use.status == 200:
            self.rotations += 1
            use.access = answer.json["access_token"]
            if family:
                self.families[answer.json["refresh_token"]] = family
        if use.status != 400 or answer.json.get("error") != "invalid_grant":
            return
        for earlier in self.uses[token]:
            # Refused itself, or refused with 5xx before any work.
            if earlier is use or earlier.status not in (200, 0, None):
                continue
            if self.excuses(earlier):
                self.repeats += 1
                if family:
                    family.is_lost = True
            else:
                self.chaos.tally.count(
                    "reused", f"{family and family.subject}: replica {use.replica.number}, first by {earlier.replica.number} "
                    f"{use.began - earlier.began:.2f} s before (status {earlier.status})")
            return

    def excuses(self, use):
        """Whether the rotated token was lost with its answer, or with the process that had it, before it was stored."""
        if use.is_lost:
            return True
        if use.access in self.seen:
            return False
        died = use.replica.deaths.get(use.life)
        if died is None:
            return False
        if use.ended is None or died <= use.ended + 2:
            return True
        # The process was waiting for PostgreSQL.
        return any(begin < died and end > use.ended for begin, end in self.chaos.database.away)


# ---- the cluster -----------------------------------------------------------------------------------------------------


class Replica(Broker):
    def __init__(self, chaos, number):
        # How often it was started, and when each of its processes was killed.
        self.number, self.life, self.deaths = number, 0, {}
        # Until when its clock was wrong; infinite while it is.
        self.wrong_until = float("-inf")
        self.clock_is = 0
        first = chaos.replicas[0] if chaos.replicas else None
        through_gate = f"{chaos.gate.url}/{number}/oidc/token"
        super().__init__(
            chaos, chaos.sandbox, clock=Clock(chaos, f"clock-{number}"), like=first, name=f"replica-{number}", start=False,
            settings={
                "server": {"drain_delay": "0s"} | ({"public_url": first.url} if first else {}),
                "store": {"url": chaos.database.both()},
                "providers": {"oidc": {"endpoints": {"token": through_gate, "refresh": through_gate}, "clients": {
                    name: {"client_id": f"{name}-app", "auth": "none", "scope": "openid email offline_access", "binding": binding,
                           "redirect_uris": [f"com.example.{name}:/cb"]} for name, binding in BINDINGS.items()} | {
                    name: {"client_id": f"{name}-app", "auth": "none", "scope": "openid email offline_access",
                           "session": {"idle": f"{idle}s"} | ({"absolute": f"{LIFE[name]}s"} if name in LIFE else {}), "redirect_uris": [f"com.example.{name}:/cb"]}
                    for name, idle in IDLE.items()}}},
                "backends": {"orders": {"original_request": True}},
                "upstreams": {
                    "api": {"base_url": f"{chaos.sandbox.url}/api", "provider": "oidc", "allow": ["GET /private/**"]},
                    "closed": {"base_url": f"http://127.0.0.1:{free_port()}", "provider": "oidc", "allow": ["GET /**"]}}})

    def start(self):
        self.life += 1
        self.spawn()

    def kill(self):
        self.deaths[self.life] = time.monotonic()
        self.stop()

    async def is_up(self):
        return await asyncio.to_thread(self.is_ready)

    def set_clock(self, seconds):
        self.clock.set(seconds)
        self.clock_is = seconds
        self.wrong_until = float("inf") if seconds else time.monotonic() + 1

    def is_right(self, since):
        """Whether its clock has been right since then."""
        return self.wrong_until < since


class Database(PostgreSQL):
    """PostgreSQL and its standby, and when they were away."""

    def __init__(self, fault):
        # The database's servers run as another user. That user has to read the clock.
        self.folder = tempfile.TemporaryDirectory(prefix="coatcheck-chaos-clock.")
        pathlib.Path(self.folder.name).chmod(0o755)
        self.clock = Clock(None, folder=self.folder.name)
        # Until when its clock was wrong; infinite while it is.
        self.wrong_until = float("-inf")
        self.clock_is = 0
        super().__init__(
            "--standby", *(["synchronous_standby_names="] if fault == "unsynchronous" else []), clock=self.clock)
        self.away = []
        self.lock = asyncio.Lock()

    def set_clock(self, seconds):
        self.clock.set(seconds)
        self.clock_is = seconds
        # Replicas ask for its time every two seconds.
        self.wrong_until = float("inf") if seconds else time.monotonic() + 5

    def is_right(self, since):
        """Whether its clock has been right since then."""
        return self.wrong_until < since

    def both(self):
        one, other = self.ports
        return f"postgresql://coatcheck@127.0.0.1:{one},127.0.0.1:{other}/postgres?target_session_attrs=read-write"

    async def suffer(self, command):
        async with self.lock:
            self.away.append([time.monotonic(), float("inf")])
            await asyncio.wait_for(asyncio.to_thread(self.do, command), 300)
            # Connections come back within two seconds.
            self.away[-1][1] = time.monotonic() + 3


class Session:
    def __init__(self, token, subject, phone, asked_at):
        self.token, self.subject, self.phone = token, subject, phone
        # The time when its user ended it, None before; `is_sure` after a 204.
        self.ended_at = None
        self.is_sure = False
        # Whether its end was judged.
        self.is_counted = False
        self.began_at = time.monotonic()
        # The last answered use was sent at this time.
        self.used_from = asked_at
        # The end of the last call, because an unanswered call may count as use, too.
        self.used_until = self.began_at
        self.asked_at = asked_at
        self.idle, self.life = IDLE.get(phone.client), LIFE.get(phone.client)

    def has_lapsed(self, moment):
        """Whether the session has reached its idle time or its whole life, by the clock of this program."""
        return bool(self.idle) and (moment - self.used_until > self.idle or bool(self.life) and moment - self.began_at > self.life)

    def was_used(self, sent):
        self.used_from = sent


class Phone:
    """A phone: signs in, calls, and sometimes logs out; if a replica is missing, it uses the next."""

    client = "ios"

    def __init__(self, chaos, number):
        self.chaos, self.number = chaos, number
        self.random = random.Random(f"{chaos.seed}-{number}")
        self.connections = Connections()
        self.replica = number % len(chaos.replicas)
        self.sign_ins = self.sessions_made = 0
        # Some phones never log out.
        self.stays = number % 2 == 0
        self.session = None
        if type(self) is Phone and number % 4 == 1:
            self.client = list(IDLE)[number // 4 % len(IDLE)]
            # Its sessions lapse, or are given up.
            self.stays = True

    async def run(self):
        # The phones start one after the other.
        await asyncio.sleep(self.number / 50)
        try:
            while not self.chaos.is_over:
                self.session = self.session or await self.sign_in()
                if self.session and not await self.use():
                    self.session = None
        finally:
            self.connections.close()

    def next_replica(self):
        self.replica = (self.replica + 1) % len(self.chaos.replicas)

    async def call(self, method, path, **more):
        """Sends one request to a replica; returns None if it gets no answer."""
        replica = self.asked = self.chaos.replicas[self.replica]
        sent = time.monotonic()
        try:
            answer = await self.connections.call(replica.url + path, method, **more)
        except Unreached:
            self.chaos.tally.answers["none"] += 1
            self.next_replica()
            await asyncio.sleep(0.02)
            return None
        except TimeoutError:
            self.chaos.tally.count("hung", f"replica {replica.number}: {method} {path}")
            self.next_replica()
            return None
        self.chaos.tally.answers[answer.told] += 1
        if answer.status >= 500:
            has_time = re.fullmatch(r"\d+", answer.fields.get("retry-after", ""))
            if answer.told == "502 identity_rejected" and not self.chaos.database.is_right(sent):
                # The provider's token is from another time than the database's. That refusal is final, so it has no Retry-After.
                self.chaos.tally.events["identities refused by a wrong clock"] += 1
            elif not has_time or "set-cookie" in answer.fields:
                clocks = f"clocks {replica.clock_is} s and {self.chaos.database.clock_is} s off"
                self.chaos.tally.count("bare", f"replica {replica.number}: {method} {path}: {answer.told}, {clocks} {answer.body[:300]!r}")
            # A real phone would wait as long as the answer asks; this one tries the next replica.
            await asyncio.sleep(0.05)
            self.next_replica()
        elif self.random.random() < 0.2:
            self.next_replica()
        return answer

    async def sign_in(self):
        self.sign_ins += 1
        user, began = f"p{self.number}n{self.sign_ins}", time.monotonic()
        begun = await self.call("POST", "/v1/logins", body={"provider": "oidc", "client": self.client})
        if not begun or begun.status != 201:
            return None
        login = begun.cookie("coatcheck-login")
        try:
            url = begun.json["authorization_url"] + "&sandbox_user=" + user
            callback = (await self.connections.call(url)).fields["location"]
        except (Unreached, TimeoutError, KeyError):
            return None
        end = time.monotonic() + 40
        while time.monotonic() < end and not self.chaos.is_cut:
            answer = await self.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f"coatcheck-login={login}")
            if answer is None:
                continue
            if answer.status == 201:
                session = Session(answer.cookie("coatcheck"), answer.json["subject"], self, began)
                self.chaos.sessions.append(session)
                self.sessions_made += 1
                return session
            if answer.status == 503 and "retry" not in answer.json:
                continue
            if not self.chaos.database.is_right(began):
                # All replicas use the database's time, so the provider's token comes from the future.
                self.chaos.tally.events["sign-ins refused by a wrong clock"] += 1
            elif answer.status < 500 and answer.told not in ("409 login_required", "410 login_expired"):
                self.chaos.tally.answers[f"refused sign-in: {answer.told}"] += 1
            return None
        return None

    async def use(self):
        """Calls for a while; false when the session is over."""
        session = self.session
        for _ in range(self.random.randrange(20, 80)):
            if self.chaos.is_over:
                return True
            if not await self.one_call(session):
                return False
            await asyncio.sleep(self.chaos.pause * 2 * self.random.random())
        if self.stays:
            return True
        return not await self.log_out(session)

    async def one_call(self, session):
        cookie, dice = f"coatcheck={session.token}", self.random.random()
        # Every other session with a short whole life is used until the end of that life.
        may_pause = session.idle and (not session.life or self.sessions_made % 2 == 0)
        if may_pause and dice < 0.003:
            # Left alone, perhaps for too long.
            self.chaos.tally.events["sessions left alone"] += 1
            await asyncio.sleep(min(session.idle, 60) * self.random.uniform(0.5, 1.3))
        if may_pause and 0.003 <= dice < 0.006:
            # The phone continues with another session, and the end of the run checks this one.
            self.chaos.tally.events["sessions given up"] += 1
            return False
        sent = time.monotonic()
        still_lives = await self.called(session, cookie, dice, sent)
        session.used_until = time.monotonic()
        return still_lives

    async def called(self, session, cookie, dice, sent):
        """Makes one call, and judges its answer."""
        if dice < 0.4:
            answer = await self.call("GET", "/v1/session", Cookie=cookie)
        elif dice < 0.8:
            path = "/v1/relay/closed/x" if self.chaos.fault == "bare" and dice < 0.42 else "/v1/relay/api/private/echo"
            answer = await self.call("GET", path, Cookie=cookie)
            if answer and answer.status == 200 and answer.fields.get("coatcheck-source") == "upstream":
                session.was_used(sent)
                held = dict((name.lower(), value) for name, value in answer.json.get("headers", []))
                self.chaos.gate.seen.add(held.get("authorization", "").removeprefix("Bearer "))
        elif dice < 0.97:
            answer = await self.call(
                "POST", "/v1/token", X_Coatcheck_Backend=BACKEND, form={
                    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": session.token,
                    "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"} | self.handed_in(session))
            if answer and answer.status == 200:
                session.was_used(sent)
                self.chaos.gate.seen.add(answer.json["access_token"])
            if answer and answer.status == 400:
                # OAuth has one word for a session that is over; the session's own answer has the reason.
                answer = await self.call("GET", "/v1/session", Cookie=cookie)
        else:
            answer = await self.call("POST", "/v1/session/refresh", Cookie=cookie)
        return self.chaos.still_lives(session, answer)

    def handed_in(self, session):
        """The evidence that its backend has of it."""
        return {}

    async def log_out(self, session):
        """Logs out; true when the session is over, or may be."""
        session.ended_at = time.monotonic()
        for _ in range(100):
            answer = await self.call("DELETE", "/v1/session", Cookie=f"coatcheck={session.token}")
            if answer is None or answer.status >= 500:
                continue
            if answer.status == 204:
                session.ended_at, session.is_sure = time.monotonic(), True
                self.chaos.tally.events["log-outs"] += 1
            return True
        return True


class Evidence:
    """A nonce or a pass, the replica that it is of, and when it came."""

    def __init__(self, value, replica, seconds=0):
        self.value, self.replica, self.began = value, replica, time.monotonic()
        self.seconds = seconds

    @property
    def is_due(self):
        return time.monotonic() > self.began + 0.8 * self.seconds


class BoundPhone(Phone):
    """A phone whose session belongs to a key, and the thief of its cookie."""

    def __init__(self, chaos, number):
        super().__init__(chaos, number)
        self.client = list(BINDINGS)[number // 4 % 2]
        self.key, self.thief = (
            Device(chaos.replicas[0], self.client, clock=self.random.randrange(-86400, 86400)) for _ in range(2))
        self.nonce = self.held_pass = None
        # Whether its last request was sent twice.
        self.repeated = False

    async def call(self, method, path, needs_proof=False, **more):
        """Sends a request with the evidence that it needs, and once more with the evidence that a refusal asks for."""
        token = re.search(r"(?<![-\w])coatcheck=([^;]+)", more.get("Cookie", ""))
        if token and self.held_pass and self.held_pass.is_due and not needs_proof:
            await self.renew(token[1])
        asked_for = None
        for _ in range(6):
            by_pass = token and self.held_pass and not needs_proof and asked_for != "use_dpop_nonce"
            fields = {"Coatcheck_Pass": self.held_pass.value} if by_pass else {"DPoP": self.proof(method, path, token)}
            used = self.held_pass if by_pass else self.nonce
            answer = await self.send_perhaps_twice(method, path, more | fields)
            if answer is None:
                return None
            self.take(answer, self.asked)
            code = answer.json.get("code") if answer.status == 401 else None
            if code not in EVIDENCE_CODES:
                return answer
            self.chaos.tally.events[code] += 1
            is_repeat = answer.json.get("reason") == "replayed" and self.repeated
            if not is_repeat and (code == asked_for or code == "proof_invalid"):
                self.refused(answer, used, f"{method} {path}")
            asked_for = code
            if code == "proof_required" and not (by_pass and await self.renew(token[1])):
                return answer
        return None

    def proof(self, method, path, token=None, device=None):
        nonce = self.nonce and self.nonce.value
        return (device or self.key).proof(method, path.partition("?")[0], token and token[1], nonce=nonce)

    async def send_perhaps_twice(self, method, path, more):
        """Sends a request; a repeatable one is sometimes sent twice with the same bytes, as HTTP libraries do."""
        answer = await super().call(method, path, **more)
        self.repeated = method == "GET" and (answer is None or self.random.random() < 0.02)
        if self.repeated:
            self.chaos.tally.events["same bytes again"] += 1
            answer = await super().call(method, path, **more)
        return answer

    def take(self, answer, replica):
        """Keeps the nonce and the pass of an answer."""
        if value := answer.fields.get("dpop-nonce"):
            self.nonce = Evidence(value, replica)
        found = answer.json.get("pass") if answer.status in (200, 201) and answer.cookie("coatcheck-pass") else None
        found = found or (answer.json if answer.status == 200 and answer.cookie("coatcheck-pass") else None)
        if found:
            self.held_pass = Evidence(answer.cookie("coatcheck-pass"), replica, found["expires_in"])

    async def renew(self, token):
        """Gets a new pass; true when it has one."""
        before = self.held_pass
        await self.call("POST", "/v1/session/pass", needs_proof=True, Cookie=f"coatcheck={token}")
        return self.held_pass is not before

    def refused(self, answer, used, request):
        """Counts a refusal of fresh evidence if the clocks that made and judged it were right."""
        clocks = (self.asked, used.replica, self.chaos.database) if used else ()
        if not all(clock.is_right(used.began) for clock in clocks):
            self.chaos.tally.events["refused by a wrong clock"] += 1
        else:
            self.chaos.tally.count("evidence", f"replica {self.asked.number}: {request}: {answer.told} {answer.json.get('reason')}")

    async def sign_in(self):
        self.held_pass = None
        return await super().sign_in()

    def handed_in(self, session):
        return {"pass": self.held_pass.value} if self.held_pass else {
            "dpop": self.proof("GET", "/orders", ("", session.token)), "htm": "GET", "htu": self.chaos.replicas[0].url + "/orders"}

    async def one_call(self, session):
        if self.random.random() < 0.05 and not await self.steal(session):
            return False
        return await super().one_call(session)

    async def steal(self, session):
        """Makes a call of the thief; returns false if the session is over."""
        method, path = self.random.choice([
            ("GET", "/v1/session"), ("GET", "/v1/relay/api/private/echo"), ("GET", "/v1/sessions"), ("GET", "/v1/forward-auth"),
            ("POST", "/v1/session/refresh"), ("POST", "/v1/session/pass"), ("POST", "/v1/session/token")])
        own_key = {"DPoP": self.proof(method, path, ("", session.token), self.thief)}
        fields = self.random.choice([{}, own_key, {"Coatcheck_Pass": "A" * 32}])
        backend = {"X_Coatcheck_Backend": BACKEND} if path == "/v1/forward-auth" else {}
        answer = await Phone.call(self, method, path, Cookie=f"coatcheck={session.token}", **fields, **backend)
        self.chaos.tally.events["thefts"] += 1
        if answer and (answer.status < 300 or answer.fields.get("coatcheck-source") == "upstream"):
            self.chaos.tally.count("stolen", f"{method} {path} with {list(fields)}: {answer.told}")
        return self.chaos.still_lives(session, answer)


# ---- what happens meanwhile ------------------------------------------------------------------------------------------


class Chaos(Processes):
    # The events that every run has.
    WANTED = (
        "kills", "provider outages", "clock steps", "database clock steps", "failovers", "PostgreSQL restarts", "thefts", "use_dpop_nonce")

    def __init__(self, options):
        super().__init__(options.work)
        self.seconds, self.seed, self.fault = options.seconds, options.seed, options.fault
        self.random = random.Random(self.seed)
        self.tally = Tally()
        self.sessions = []
        self.is_over = self.is_cut = False
        self.phones_count, self.pause = options.phones, options.pause
        self.database = None
        self.gate = Gate(self)
        self.replicas = []
        self.busy = set()

    def make_database(self):
        return Database(self.fault)

    def still_lives(self, session, answer):
        """Judges a session's answer; returns false if the session is over."""
        self.judge_life(session, answer)
        if answer is None or answer.status != 401:
            if answer and answer.status == 200 and session.is_sure and time.monotonic() > session.ended_at + 6:
                self.tally.count("undone", f"{session.subject}, {time.monotonic() - session.ended_at:.1f} s after")
            return True
        if answer.fields.get("coatcheck-source") == "upstream":
            return True
        if answer.json.get("code") in EVIDENCE_CODES:
            return True
        session.is_counted = True
        if answer.json.get("code") == "session_required":
            self.tally.count("lost", f"{session.subject}, {time.monotonic() - session.began_at:.1f} s after its 201")
        elif session.ended_at is not None and answer.json.get("reason") == "logged_out":
            pass
        elif answer.json.get("reason") == "refresh_lost" and self.family_is_lost(session):
            self.tally.events["refresh_lost"] += 1
        elif session.idle and answer.json.get("reason") == "idle_expired":
            unused = time.monotonic() - session.used_from
            self.tally.events["idle times over"] += 1
            if unused < session.idle - max(IDLE_GRAIN, session.idle / 100):
                self.tally.count("early", f"{session.subject}: {unused:.1f} s after its last use of {session.idle} s")
        elif session.life and answer.json.get("reason") == "expired":
            age = time.monotonic() - session.asked_at
            self.tally.events["lives over"] += 1
            if age < session.life - IDLE_GRAIN:
                self.tally.count("cut", f"{session.subject}: {age:.1f} s after its sign-in of {session.life} s")
        else:
            self.tally.count("wrongful", f"{session.subject}: {answer.told}")
        return False

    def judge_life(self, session, answer):
        """Judges whether a session with a short life is answered too late, or doubted too early."""
        if answer is None or not session.idle:
            return
        sent = time.monotonic() - answer.seconds
        unused, age = sent - session.used_until, sent - session.began_at
        is_late, is_outlived = unused > session.idle + IDLE_LATE, session.life and age > session.life + IDLE_LATE
        if is_late or is_outlived:
            self.tally.events["sessions looked at late"] += 1
        if answer.status == 200 and is_late:
            self.tally.count("late", f"{session.subject}, {unused:.1f} s after its last use")
        if answer.status == 200 and is_outlived:
            self.tally.count("outlived", f"{session.subject}, {age:.1f} s after its sign-in")
        # The session lives even by the database's clock with its largest step.
        lives = time.monotonic() - session.used_from + STEP < session.idle and (
            not session.life or time.monotonic() - session.asked_at + STEP < session.life)
        if lives and answer.told == "503 store_unavailable" and answer.fields.get("retry-after") == DOUBT:
            self.tally.count("doubted", f"{session.subject}, {unused:.1f} s after its last use")

    def family_is_lost(self, session):
        family = self.gate.by_subject.get(session.subject)
        return family is not None and family.is_lost

    async def control(self, method, path, body=None):
        return await asyncio.to_thread(self.sandbox.control, method, path, body)

    # -- the faults

    async def kill(self):
        alive = [replica for replica in self.replicas if replica.number not in self.busy]
        if len(alive) < 2:
            return
        replica = self.random.choice(alive)
        self.busy.add(replica.number)
        replica.kill()
        self.tally.events["kills"] += 1
        await asyncio.sleep(self.random.uniform(0.2, 2.5))
        await self.bring_back(replica)

    async def bring_back(self, replica):
        replica.start()
        for _ in range(600):
            if await replica.is_up():
                break
            if replica.process.poll() is not None:
                # PostgreSQL was away at its start, so the supervisor starts it again.
                replica.deaths[replica.life] = time.monotonic()
                self.tally.events["starts without a store"] += 1
                await asyncio.sleep(0.2)
                replica.start()
            await asyncio.sleep(0.1)
        self.busy.discard(replica.number)

    async def restart(self):
        await self.database.suffer("restart")
        self.tally.events["PostgreSQL restarts"] += 1

    async def crash(self):
        await self.database.suffer("crash")
        self.tally.events["PostgreSQL crashes"] += 1

    async def failover(self):
        await self.database.suffer("lag-failover" if self.fault == "unsynchronous" else "failover")
        self.tally.events["failovers"] += 1

    async def outage(self):
        kind = self.random.choice(["status", "drop-before", "drop-after", "slow", "slow-after", "rate-limited", "gone"])
        endpoint = self.random.choice(["token", "refresh", "refresh"])
        fault = {"fault": kind, "endpoint": endpoint}
        if kind == "status":
            fault |= {"status": 503, "body": "busy"}
        if kind == "rate-limited":
            fault["headers"] = {"Retry-After": "1"}
        if kind.startswith("slow"):
            fault["delay_ms"] = 1500
        if kind.startswith("drop"):
            fault["times"] = self.random.randrange(1, 4)
        if kind == "gone":
            fault = {"fault": "drop-before", "endpoint": "*"}
        await self.control("PUT", "/faults/oidc", fault)
        self.tally.events["provider outages"] += 1
        await asyncio.sleep(self.random.uniform(0.5, 2.5))
        await self.control("DELETE", "/faults/oidc")

    async def step(self):
        replica = self.random.choice(self.replicas)
        seconds = self.random.choice([45, -45, self.random.randint(-120, 120), 600, -600, 7200, -7200, 91 * 86400, -30 * 86400])
        replica.set_clock(seconds)
        self.tally.events["clock steps"] += 1
        # A process that starts with a wrong clock sees no step.
        if self.random.random() < 0.3 and replica.number not in self.busy and len(self.busy) < 2:
            self.busy.add(replica.number)
            replica.kill()
            self.tally.events["starts with a wrong clock"] += 1
            await self.bring_back(replica)
        await asyncio.sleep(self.random.uniform(1, 5))
        replica.set_clock(0)

    async def step_database(self):
        if not self.database.is_right(time.monotonic()):
            return
        self.database.set_clock(self.random.randint(-STEP, STEP))
        self.tally.events["database clock steps"] += 1
        await asyncio.sleep(self.random.uniform(2, 30))
        self.database.set_clock(0)

    async def end_one(self):
        """The built-in fault `ended`: an operator changes the table by hand."""
        live = [s for s in self.sessions if s.ended_at is None]
        if live:
            victim = self.gate.by_subject and self.random.choice(live)
            digest = sha256(victim.token)
            binaries = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1]
            process = await asyncio.create_subprocess_exec(
                binaries / "psql", "-X", "-q", "-h", "127.0.0.1", "-p", str(self.database.port), "-U", "coatcheck", "-d", "postgres",
                "-c", f"DELETE FROM session_states WHERE token = '\\x{digest}'", "-c",
                f"DELETE FROM sessions WHERE token = '\\x{digest}'")
            await process.wait()

    # -- the run

    async def run(self):
        self.sandbox = Sandbox(self, record=False)
        self.database = await asyncio.to_thread(self.make_database)
        await self.gate.start()
        # A refresh token's life is shorter than some clocks are stepped.
        await self.control("PUT", "/settings/oidc", {
            "refresh_mode": "rotate-strict", "access_token_lifetime": max(TOKEN_LIFETIME, self.phones_count // 10),
            "refresh_token_lifetime": 20 * 86400})
        for number in range(3):
            self.replicas.append(Replica(self, number))
        for replica in self.replicas:
            replica.start()
        for replica in self.replicas:
            for _ in range(400):
                if await replica.is_up():
                    break
                await asyncio.sleep(0.05)
            else:
                raise SystemExit(f"chaos: replica {replica.number} did not start")
        phones = [(BoundPhone if number // 2 % 2 else Phone)(self, number) for number in range(self.phones_count)]
        tasks = [asyncio.create_task(phone.run()) for phone in phones]
        await self.wreak()
        self.is_over = True
        _, late = await asyncio.wait(tasks, timeout=45)
        self.is_cut = True
        if late:
            await asyncio.wait(late, timeout=30)
        for task in tasks:
            if task.done() and task.exception():
                raise task.exception()
        await self.look_at_all()

    async def wreak(self):
        """Causes faults, each kind in turn, until the time is over; then waits until all faults have ended."""
        end = time.monotonic() + self.seconds
        kinds = [self.kill, self.outage, self.step, self.restart, self.kill, self.outage, self.step, self.failover, self.kill,
                 self.outage, self.step, self.crash, self.step_database]
        if self.fault == "ended":
            kinds += [self.end_one]
        # The first round has one of each, however short the time is.
        deck = [self.kill, self.outage, self.step, self.step_database, self.failover, self.restart, self.kill, self.outage]
        tasks = set()
        await asyncio.sleep(min(2, self.seconds / 10))
        while time.monotonic() < end:
            deck = deck or self.random.sample(kinds, len(kinds))
            tasks.add(asyncio.create_task(deck.pop(0)()))
            if self.fault == "ended":
                tasks.add(asyncio.create_task(self.end_one()))
            await asyncio.sleep(min(self.random.uniform(0.8, 2.4), max(0, end - time.monotonic())))
        for task in tasks:
            await task
        # All faults are over; delayed work goes on for a moment.
        for replica in self.replicas:
            if replica.process.poll() is not None:
                await self.bring_back(replica)
        await asyncio.sleep(2)

    async def look_at_all(self):
        """Asks every replica about every session of the phones."""
        connections = Connections()
        try:
            for session in self.sessions:
                for replica in self.replicas if session in self.sessions[-200:] else [self.random.choice(self.replicas)]:
                    answer = None
                    end = time.monotonic() + 40
                    while time.monotonic() < end:
                        try:
                            answer = await self.look_at(session, replica, connections)
                        except Unreached:
                            continue
                        if answer.status < 500 and answer.json.get("code") not in EVIDENCE_CODES:
                            break
                        if answer.status == 503 and session.has_lapsed(time.monotonic()):
                            # The session has lapsed, but lapses are not believed for ten minutes after a clock has jumped.
                            break
                        await asyncio.sleep(0.2)
                    if answer and answer.status == 503 and session.has_lapsed(time.monotonic()):
                        self.tally.events["lapses doubted at the end"] += 1
                        self.judge_life(session, answer)
                        continue
                    if answer is None or answer.status >= 500 or answer.json.get("code") in EVIDENCE_CODES:
                        self.tally.count("hung", f"replica {replica.number} does not come back: {answer and answer.told}")
                        return
                    self.final(session, answer)
        finally:
            connections.close()

    async def look_at(self, session, replica, connections):
        """Asks a replica about a session, with a proof if it belongs to a key."""
        fields, phone = {"Cookie": f"coatcheck={session.token}"}, session.phone
        if isinstance(phone, BoundPhone):
            fields["DPoP"] = phone.proof("GET", "/v1/session", ("", session.token))
        answer = await connections.call(replica.url + "/v1/session", **fields)
        if isinstance(phone, BoundPhone):
            phone.take(answer, replica)
        return answer

    def final(self, session, answer):
        if session.is_counted:
            return
        if answer.status == 200 and session.is_sure:
            self.tally.count("undone", f"{session.subject}, at the end")
        elif session.ended_at is None:
            if answer.status == 401 and answer.json.get("reason") == "refresh_lost" and self.family_is_lost(session):
                return
            self.still_lives(session, answer)
        elif answer.json.get("code") == "session_required":
            session.is_counted = True
            self.tally.count("lost", f"{session.subject}, at the end: ended, and not even known")

    async def close(self):
        self.is_over = self.is_cut = True
        self.end()
        if self.database:
            await asyncio.to_thread(self.database.__exit__)
            self.database.folder.cleanup()

    # -- the verdict

    def report(self):
        said = Verdicts()
        good = sum(count for told, count in self.tally.answers.items() if told in ("200", "201", "204"))
        print(f"# {self.seconds:.0f} s, seed {self.seed}, {self.phones_count} phones, 3 replicas; fault wired in: {self.fault}")
        print("# answers: " + ", ".join(f"{count} × {told}" for told, count in self.tally.answers.most_common()))
        print("# events: " + ", ".join(f"{name} {count}" for name, count in sorted(self.tally.events.items())))
        print(f"# sessions {len(self.sessions)}, rotations {self.gate.rotations}")
        for sentence, figure in Tally.MUST_BE_ZERO.items():
            count = self.tally.figures[figure]
            said.verdict(count == 0, f"{sentence}: {count}", self.tally.examples[figure])
        print(
            f"# counted apart: refresh_lost {self.tally.events['refresh_lost']} (tokens used again because an answer was lost, or "
            f"its owner killed before it could be stored: {self.gate.repeats})")
        # A usual machine does ten times as much; a busy one has to reach this, too.
        said.verdict(good > 3 * self.seconds, f"the whole run → good answers: {good}")
        said.verdict(self.gate.rotations > self.seconds / 5, f"the whole run → rotated tokens: {self.gate.rotations}")
        wanted = list(self.WANTED)
        if self.seconds >= 2 * IDLE_LATE - 60:
            wanted += ["idle times over", "lives over", "sessions given up", "sessions looked at late"]
        missing = [name for name in wanted if not self.tally.events[name]]
        said.verdict(not missing, "the whole run → every kind of trouble happened", missing)
        refused = {told: count for told, count in self.tally.answers.items() if told.startswith("refused sign-in")}
        said.verdict(not refused, "the whole run → no sign-in is refused for good", refused)
        traps = self.traps()
        said.verdict(not traps, "the logs of the whole run → without a trap", traps[:2])
        said.finish()


async def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--work", required=True, help="a folder for its files")
    options.add_argument("--seconds", type=float, default=120)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options.add_argument("--phones", type=int, default=16)
    options.add_argument("--pause", type=float, default=0, help="the seconds between two calls of a phone, on average")
    options.add_argument("--fault", choices=FAULTS, default="none", help="a fault wired in, which has to be found")
    chaos = Chaos(options.parse_args())
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, asyncio.current_task().cancel)
    try:
        await chaos.run()
    finally:
        await chaos.close()
    chaos.report()


if __name__ == "__main__":
    asyncio.run(main())
