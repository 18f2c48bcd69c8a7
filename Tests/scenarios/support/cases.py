"""Concurrent cases. A case is a function that takes a `Case`. It has its own folder, processes and time limit. The output is like
that of the curl scripts: `ok` and `not ok`, with the lines of one case together.
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import traceback

from .verdicts import Verdicts, note_run
from .waiting import GaveUp

# The words of Swift's runtime, of its assertions and of its backtraces. A segmentation fault has only the backtrace.
CRASH = "fatal error|precondition|assertion failed|Swift runtime failure|stack dump|program crashed"


class Processes:
    """Processes with a folder for their files; they end with this process."""

    def __init__(self, folder):
        self.folder = pathlib.Path(folder)
        self.processes = []

    def start(self, command, log, environment=None):
        with open(self.folder / log, "ab") as file:
            process = subprocess.Popen(
                ["setpriv", "--pdeathsig", "KILL", *command], stdout=file, stderr=file, stdin=subprocess.DEVNULL,
                env=os.environ | (environment or {}))
        self.processes.append(process)
        return process

    def end(self):
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()

    def traps(self):
        """The lines that a crash leaves in the logs of the processes."""
        return [
            line for log in self.folder.glob("*.log") for line in log.read_text(errors="replace").splitlines()
            if re.search(CRASH, line, re.IGNORECASE)]


class Case(Processes, Verdicts):
    """One case: its folder, its processes, and its verdicts, which are printed together."""

    def __init__(self, name, title, folder):
        Processes.__init__(self, pathlib.Path(folder, name))
        Verdicts.__init__(self)
        self.folder.mkdir(mode=0o700)
        self.title = title
        self.lines = []

    def print(self, line):
        self.lines.append(line)

    def beside(self, function, *arguments):
        """Starts a function in the background, and returns its future. The future's `result()` waits for the function."""
        future = concurrent.futures.Future()

        def run():
            try:
                future.set_result(function(*arguments))
            except BaseException as error:  # noqa: BLE001
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return future


def main(cases, description, in_turn=()):
    """Runs the cases `{name: (function, seconds)}` concurrently, and prints their results. Of those `in_turn`, only one runs at a
    time.
    """
    options = argparse.ArgumentParser(description=description)
    options.add_argument("--work", help="a folder for their files, which is kept")
    options.add_argument("--only", default="", help="cases whose name has this in it")
    options.add_argument("--jobs", type=int, default=len(cases), help="how many run at one time")
    options = options.parse_args()
    work = options.work or tempfile.mkdtemp(prefix="coatcheck-scenario.")
    ended = threading.Lock()

    def end(status):
        # Threads of a case that did not end in time would prevent the process from ending.
        with ended:
            sys.stdout.flush()
            if not options.work:
                shutil.rmtree(work, ignore_errors=True)
            os._exit(status)

    signal.signal(signal.SIGTERM, lambda *_: end(1))
    chosen = {name: case for name, case in cases.items() if options.only in name}
    places, turn = threading.Semaphore(options.jobs), threading.Lock()
    printing = threading.Lock()
    counts = collections.Counter()

    def run(name, function, limit):
        with places, turn if name in in_turn else contextlib.nullcontext():
            case = Case(name, (function.__doc__ or name).strip().splitlines()[0], work)
            begin = time.monotonic()
            try:
                case.beside(function, case).result(limit)
            except concurrent.futures.TimeoutError:
                case.verdict(False, f"the case {name} → ends within {limit} seconds", "it goes on")
            except Exception as error:  # noqa: BLE001
                if not isinstance(error, GaveUp):
                    case.lines += [f"#   {line}" for line in traceback.format_exc().splitlines()[-6:]]
                case.verdict(False, f"the case {name} → runs to its end", repr(error))
            traps = case.traps()
            case.end()
            case.verdict(not traps, "the logs of the case's processes → show no crash", traps[:1])
            with printing:
                print(f"\n# {name}: {case.title} ({time.monotonic() - begin:.0f} s)")
                print("\n".join(case.lines), flush=True)
                counts.update(passed=case.passed, failed=case.failed)

    # A process dies with the thread that started it, so each case has a thread that lives as long as the case.
    with concurrent.futures.ThreadPoolExecutor(max_workers=max(1, len(chosen))) as pool:
        list(pool.map(lambda item: run(item[0], *item[1]), chosen.items()))
    print(f"\n{counts['passed']} passed, {counts['failed']} failed")
    note_run()
    end(int(counts["failed"] > 0 or not counts["passed"]))
