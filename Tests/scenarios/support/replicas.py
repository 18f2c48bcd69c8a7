"""Three replicas on one PostgreSQL, for scenarios that hold a provider call or a statement. A scenario may kill the first
replica. Each replica has a gate in front of its provider.
"""

import collections
import pathlib
import signal
import subprocess
import threading

from .broker import Broker
from .gate import Gate
from .sandbox import Sandbox
from .waiting import GaveUp, wait_for

PSQL = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/psql"))
# Seconds until a refresh succeeds after its replica was killed. The claim lapses in 25 s, another process takes it over a minute
# later, and 15 s are for the next caller.
TAKE_OVER = 25 + 60 + 15


def psql(database, *more):
    return [PSQL[-1], "-XAtq", "-h", "127.0.0.1", "-p", str(database.port), "-U", "coatcheck", "-d", "postgres", *more]


class Lock:
    """A transaction outside the broker, which holds its locks until `release`."""

    def __init__(self, database, sql):
        self.process = subprocess.Popen(
            psql(database), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.process.stdin.write(f"BEGIN; {sql}; SELECT 'held';\n")
        self.process.stdin.flush()
        while (line := self.process.stdout.readline()).strip() != "held":
            if not line or "ERROR" in line:
                raise GaveUp(f"no lock: {line}")

    def release(self):
        self.process.stdin.close()
        self.process.wait(20)


class Replicas:
    """Three replicas, each with a gate in front of its provider, and their database. `settings` is a function of the gate and of
    the sandbox.
    """

    def __init__(self, case, database, settings):
        self.case, self.database = case, database
        self.sandbox = Sandbox(case)
        self.sandbox.settings("oidc", refresh_mode="rotate-strict")
        self.brokers = []
        # Each replica has its own gate. So a delayed call of one round does not meet the calls that another round holds.
        self.gates = {name: Gate(self.sandbox) for name in ("dying", "second", "third")}
        for name, gate in self.gates.items():
            broker = Broker(
                case, self.sandbox, gate, ("refresh", "token"), name=name, like=self.brokers[0] if self.brokers else None, start=False,
                settings=settings(gate, self.sandbox))
            broker.configure(store={"url": database.url()})
            if self.brokers:
                broker.configure(server={"public_url": self.brokers[0].url})
            broker.start()
            self.brokers.append(broker)
        self.dying, self.second, self.third = self.brokers

    # -- the database, from outside

    def query(self, sql):
        found = subprocess.run(psql(self.database, "-c", sql), capture_output=True, text=True, check=True)
        return [line.split("|") for line in found.stdout.splitlines()]

    # -- calls in progress

    def hold(self, broker, ask, reaches=True):
        """Begins a call of a replica, and holds the replica's provider call: after the provider has carried it out, or before it
        if `reaches` is false. Returns the event that releases the provider call, and the future answer.
        """
        release, gate = threading.Event(), self.gates[broker.name]
        gate.plan.append(Gate.hold(release) if reaches else Gate.hang())
        before = len(gate.calls)
        future = self.case.beside(ask, broker)
        if not wait_for(20, lambda: len(gate.calls) > before and (not reaches or getattr(gate.calls[before], "worked", False))):
            raise GaveUp("no call came to the provider")
        return release, future

    def sent(self):
        """Returns how often each refresh token was sent to the provider."""
        return collections.Counter(call.refresh_token for gate in self.gates.values() for call in gate.refreshes())

    def kill(self):
        self.dying.stop(signal.SIGKILL)

    # -- the provider's state

    def tokens(self, provider="oidc"):
        return {item["token"]: item for item in self.sandbox.control("GET", f"/tokens?provider={provider}").json["items"]}
