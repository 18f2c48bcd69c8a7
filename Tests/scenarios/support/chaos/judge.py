"""The judge of the phones' answers."""

import asyncio
import time

from .bound_phones import BoundPhone
from .connections import Connections, Unreached
from .settings import DOUBT, EVIDENCE_CODES, IDLE_GRAIN, IDLE_LATE, STEP


class Judge:
    """Judges the answers to the phones. At the end, asks every replica about every session."""

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
        """Judges whether a session with a short life was served too long, or refused too early."""
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
        # The session lives even if the database's clock has made its largest step.
        lives = time.monotonic() - session.used_from + STEP < session.idle and (
            not session.life or time.monotonic() - session.asked_at + STEP < session.life)
        if lives and answer.told == "503 store_unavailable" and answer.fields.get("retry-after") == DOUBT:
            self.tally.count("doubted", f"{session.subject}, {unused:.1f} s after its last use")

    def family_is_lost(self, session):
        family = self.gate.by_subject.get(session.subject)
        return family is not None and family.is_lost

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
                            # The session has lapsed, but for ten minutes after a clock's jump the broker does not believe
                            # lapses.
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
        """Asks a replica about a session, with a proof if it belongs to a key, and returns the answer."""
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
