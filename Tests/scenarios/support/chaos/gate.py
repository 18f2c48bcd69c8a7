"""A gate in front of the provider's token endpoint. It records each use of a code and of a refresh token, with the replica."""

import asyncio
import base64
import collections
import json
import random
import time
import urllib.parse

from ..wire import free_port
from .connections import Connections, Unreached, read_body, read_head


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
            # The gate refused the call itself, or the provider refused it with 5xx before any work.
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
        """Whether the rotated token was lost before it was stored, either with its answer or with the process that had it."""
        if use.is_lost:
            return True
        if use.access in self.seen:
            return False
        died = use.replica.deaths.get(use.life)
        if died is None:
            return False
        if use.ended is None or died <= use.ended + 2:
            return True
        # The process died while it waited for PostgreSQL.
        return any(begin < died and end > use.ended for begin, end in self.chaos.database.away)
