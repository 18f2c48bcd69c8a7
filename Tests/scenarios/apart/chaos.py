"""Three replicas on a PostgreSQL with a synchronous standby, phones that call them all the time, and faults of every kind.
Guarantees 1 to 6 have to hold even if replicas are killed. `scripts/chaos` starts this program, and docs/operate/run.md explains
its output.

The provider accepts each refresh token once, and its access tokens live five seconds. A gate in front of it records which replica
sent each code and each refresh token. The faults: replicas are killed and started again. PostgreSQL is restarted, crashes and
fails over. The provider is unreachable or its answers are lost. The wall clocks of single replicas and of the database are
stepped.

Some phones have sessions with short time limits. These phones use the sessions, pause at times, and abandon them. This program
judges their ends by its own monotonic clock, which is never stepped.

Half of the phones have bound sessions. They send passes or proofs, and their clocks are wrong by up to a day. Their network sends
repeatable requests twice with the same bytes. For each of these phones, there is a thief with its cookie.

These counts have to be zero:

- sessions that ended for a reason that no user, operator or fault of the run explains, or that are unknown after their 201
- 5xx without `Retry-After`
- refresh tokens and codes that were used again
- log-outs that were undone after their 204
- good proofs and passes that were refused, and answers to thieves
- sessions that ended before their idle or absolute end, were doubted before it, or could be used three minutes after it

A session whose rotated token was lost with the provider's answer, or with its process, ends with `refresh_lost`. These are
counted separately.
"""

import argparse
import asyncio
import pathlib
import random
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.cases import Processes  # noqa: E402
from support.chaos.bound_phones import BoundPhone  # noqa: E402
from support.chaos.cluster import Database, Replica  # noqa: E402
from support.chaos.faults import Faults  # noqa: E402
from support.chaos.gate import Gate  # noqa: E402
from support.chaos.judge import Judge  # noqa: E402
from support.chaos.phones import Phone  # noqa: E402
from support.chaos.settings import FAULTS, IDLE_LATE, TOKEN_LIFETIME  # noqa: E402
from support.chaos.tally import Tally  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402


class Chaos(Faults, Judge, Processes):
    """One run: the cluster, the phones, the faults and the verdict."""

    # The events that have to occur in every run.
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

    async def control(self, method, path, body=None):
        return await asyncio.to_thread(self.sandbox.control, method, path, body)

    async def run(self):
        self.sandbox = Sandbox(self, record=False)
        self.database = await asyncio.to_thread(self.make_database)
        await self.gate.start()
        # The refresh tokens live 20 days. Some clocks are stepped by more than that.
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

    async def close(self):
        self.is_over = self.is_cut = True
        self.end()
        if self.database:
            await asyncio.to_thread(self.database.__exit__)
            self.database.folder.cleanup()

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
        # A usual machine gives ten times as many good answers as this limit, and even a busy one has to exceed it.
        said.verdict(good > 3 * self.seconds, f"the whole run of chaos → more than three good answers for each second: {good} in all")
        said.verdict(self.gate.rotations > self.seconds / 5, f"the whole run of chaos → more than one rotated refresh token in five seconds: {self.gate.rotations} in all")
        wanted = list(self.WANTED)
        if self.seconds >= 2 * IDLE_LATE - 60:
            wanted += ["idle times over", "lives over", "sessions given up", "sessions looked at late"]
        missing = [name for name in wanted if not self.tally.events[name]]
        said.verdict(not missing, "the whole run of chaos → every expected kind of fault and attack happened", missing)
        refused = {told: count for told, count in self.tally.answers.items() if told.startswith("refused sign-in")}
        said.verdict(not refused, "the whole run of chaos → no sign-in is refused permanently", refused)
        traps = self.traps()
        said.verdict(not traps, "the whole run of chaos → the logs show no crash", traps[:2])
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
