"""The phones, and the sessions that they have."""

import asyncio
import random
import re
import time

from ..broker import BACKEND
from .connections import Connections, Unreached
from .settings import IDLE, LIFE


class Session:
    def __init__(self, token, subject, phone, asked_at):
        self.token, self.subject, self.phone = token, subject, phone
        # The time when its user ended the session, or None. `is_sure` is true after a 204.
        self.ended_at = None
        self.is_sure = False
        # Whether the session's end was judged.
        self.is_counted = False
        self.began_at = time.monotonic()
        # The last answered use was sent at this time.
        self.used_from = asked_at
        # The end of the last call. Even an unanswered call may count as use.
        self.used_until = self.began_at
        self.asked_at = asked_at
        self.idle, self.life = IDLE.get(phone.client), LIFE.get(phone.client)

    def has_lapsed(self, moment):
        """Returns whether the session has reached its idle end or its absolute end, by the clock of this program."""
        return bool(self.idle) and (moment - self.used_until > self.idle or bool(self.life) and moment - self.began_at > self.life)

    def was_used(self, sent):
        self.used_from = sent


class Phone:
    """A phone. It signs in, calls, and sometimes logs out. If a replica is missing, the phone uses the next one."""

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
            # This phone's sessions lapse, or are given up.
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
        """Sends one request to a replica. Returns None if there is no answer."""
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
                # The provider's token has a time that differs from the database's, so it is refused. This refusal is final, so
                # it has no Retry-After.
                self.chaos.tally.events["identities refused by a wrong clock"] += 1
            elif not has_time or "set-cookie" in answer.fields:
                clocks = f"clocks {replica.clock_is} s and {self.chaos.database.clock_is} s off"
                self.chaos.tally.count("bare", f"replica {replica.number}: {method} {path}: {answer.told}, {clocks} {answer.body[:300]!r}")
            # A real phone would wait as long as the answer asks. This phone tries the next replica.
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
                # All replicas use the database's time, so for them the provider's token comes from the future.
                self.chaos.tally.events["sign-ins refused by a wrong clock"] += 1
            elif answer.status < 500 and answer.told not in ("409 login_required", "410 login_expired"):
                self.chaos.tally.answers[f"refused sign-in: {answer.told}"] += 1
            return None
        return None

    async def use(self):
        """Makes calls for a while. Returns false if the session is over."""
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
        # Half of the sessions with a short absolute life are used until the end of that life.
        may_pause = session.idle and (not session.life or self.sessions_made % 2 == 0)
        if may_pause and dice < 0.003:
            # Leave the session alone, perhaps for too long.
            self.chaos.tally.events["sessions left alone"] += 1
            await asyncio.sleep(min(session.idle, 60) * self.random.uniform(0.5, 1.3))
        if may_pause and 0.003 <= dice < 0.006:
            # The phone continues with another session. At the end of the run, this session is checked.
            self.chaos.tally.events["sessions given up"] += 1
            return False
        sent = time.monotonic()
        still_lives = await self.called(session, cookie, dice, sent)
        session.used_until = time.monotonic()
        return still_lives

    async def called(self, session, cookie, dice, sent):
        """Makes one call, and judges its answer. Returns false if the session is over."""
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
                # OAuth has one word for every session that is over. The session's own answer has the reason.
                answer = await self.call("GET", "/v1/session", Cookie=cookie)
        else:
            answer = await self.call("POST", "/v1/session/refresh", Cookie=cookie)
        return self.chaos.still_lives(session, answer)

    def handed_in(self, session):
        """The evidence of a session that the app hands to its backend."""
        return {}

    async def log_out(self, session):
        """Logs out. Returns true if the session is over, or may be over."""
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
