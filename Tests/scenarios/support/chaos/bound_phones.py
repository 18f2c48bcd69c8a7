"""Phones whose sessions belong to a key, each with a thief of its cookie."""

import re
import time

from ..broker import BACKEND
from ..dpop import Phone as Device
from .phones import Phone
from .settings import BINDINGS, EVIDENCE_CODES


class Evidence:
    """A nonce or a pass, with its replica and the time of its arrival."""

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
        # Whether the last request was sent twice.
        self.repeated = False

    async def call(self, method, path, needs_proof=False, **more):
        """Sends a request with the evidence that it needs. After a refusal, sends it again with the demanded evidence, at most
        six times in all.
        """
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
        """Sends a request. A repeatable one is sometimes sent twice with the same bytes, as HTTP libraries do."""
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
        """Gets a new pass. Returns true if the phone has one."""
        before = self.held_pass
        await self.call("POST", "/v1/session/pass", needs_proof=True, Cookie=f"coatcheck={token}")
        return self.held_pass is not before

    def refused(self, answer, used, request):
        """Counts a refusal of fresh evidence, if the clock that made the evidence and the clock that judged it were right."""
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
