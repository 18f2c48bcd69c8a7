"""The output of a scenario: one line `ok` or `not ok` for each check, and `N passed, N failed` at the end. The runner adds up
these counts."""

import os
import pathlib
import sys
import threading

# Some scripts of this folder run alone, so this file imports no other file of the folder.
ROOT = pathlib.Path(__file__).resolve().parents[3]


def note_run():
    """Notes for scripts/scenarios that this script has reached its end."""
    if path := os.environ.get("SCENARIOS_RUN"):
        with open(path, "a") as file:
            file.write(os.path.relpath(sys.argv[0], ROOT) + "\n")


class Verdicts:
    """Checks, each with a sentence. A result is printed at once, from any thread."""

    def __init__(self):
        self.passed = self.failed = 0
        self.lock = threading.Lock()

    def verdict(self, good, sentence, why=""):
        with self.lock:
            self.passed, self.failed = self.passed + bool(good), self.failed + (not good)
            self.print(f"{'ok' if good else 'not ok'} {self.passed + self.failed} - {sentence}")
            for line in () if good else why if isinstance(why, list) else [why] if why != "" else ():
                self.print(f"#   {line}"[:600])
        return good

    def same(self, expected, actual, sentence):
        return self.verdict(expected == actual, sentence, f"expected <{expected}>, got <{actual}>")

    def say(self, text):
        self.print(f"# {text}")

    def print(self, line):
        print(line, flush=True)

    def finish(self):
        """Prints the count and ends the program."""
        note_run()
        print(f"\n{self.passed} passed, {self.failed} failed", flush=True)
        sys.exit(self.failed > 0)
