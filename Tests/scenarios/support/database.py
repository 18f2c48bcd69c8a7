"""A new PostgreSQL for one scenario."""

import os
import subprocess

from .programs import HERE
from .waiting import GaveUp


class Database:
    """A new PostgreSQL. `Tests/scenarios/support/postgresql` gets the options and runs it until its input ends."""

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
