"""The faults that happen during a run of chaos."""

import asyncio
import pathlib
import time

from ..broker import sha256
from .settings import STEP


class Faults:
    """The faults of a run, each kind in turn."""

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
                # PostgreSQL was away when this replica started, so the supervisor starts the replica again.
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
        """The planted fault `ended`: an operator changes the table by hand."""
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

    async def wreak(self):
        """Causes faults, each kind in turn, until the time is over. Then waits until all faults have ended."""
        end = time.monotonic() + self.seconds
        kinds = [self.kill, self.outage, self.step, self.restart, self.kill, self.outage, self.step, self.failover, self.kill,
                 self.outage, self.step, self.crash, self.step_database]
        if self.fault == "ended":
            kinds += [self.end_one]
        # The first round has one fault of each kind, even if the time is short.
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
        # All faults are over. Start the replicas that have ended, and wait for delayed work.
        for replica in self.replicas:
            if replica.process.poll() is not None:
                await self.bring_back(replica)
        await asyncio.sleep(2)
