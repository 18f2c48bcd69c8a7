"""Keeps the broker under load for half an hour, and reports whether its use of resources grew. scripts/soak runs it."""

import argparse
import asyncio
import json
import os
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request

import guests
import load
import processes
from report import Report, table

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TOKEN_LIFETIME = 5
MIB = 1024 * 1024


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=float(os.environ.get("SOAK_MINUTES") or 30))
    parser.add_argument("--guests", type=int, default=16, help="sessions that are used all the time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="put the table into docs/internals/performance.md")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="coatcheck-soak-")
    soak = Soak(directory, options)
    try:
        soak.start()
        asyncio.run(soak.run())
        report = soak.report()
    finally:
        soak.stop()
        if os.environ.get("KEEP"):
            print(f"soak: its folder is kept: {directory}", file=sys.stderr)
        else:
            shutil.rmtree(directory, ignore_errors=True)
    print(report)
    if options.write:
        Report.put(os.path.join(ROOT, "docs", "internals", "performance.md"), "soak", report)
    sys.exit(soak.failed > 0)


class Sample:
    """A sample of the process at one moment: memory in MiB, descriptors and threads."""

    def __init__(self, pid, seconds, requests):
        self.seconds, self.requests = seconds, requests
        self.anonymous, self.resident = processes.memory(pid)
        self.descriptors = sum(not is_of_store(f"/proc/{pid}/fd/{name}") for name in os.listdir(f"/proc/{pid}/fd"))
        self.threads = len(os.listdir(f"/proc/{pid}/task"))
        self.cpu = processes.cpu_seconds(pid)


def is_of_store(descriptor):
    """Returns whether a descriptor belongs to the database. Samples leave out these descriptors, because they are no leak. During
    many simultaneous reads, the broker opens another reader, which stays open."""
    try:
        return "/coatcheck.db" in os.readlink(descriptor)
    except OSError:
        return False


class Soak:
    def __init__(self, directory, options):
        self.directory, self.seconds, self.guests = directory, options.minutes * 60, options.guests
        self.dice = random.Random(options.seed)
        self.stack = os.path.join(directory, "stack")
        self.tally = guests.Tally()
        self.samples, self.verdicts, self.failed = [], [], 0

    def start(self):
        template = os.path.join(ROOT, "Benchmarks", "soak.yaml")
        subprocess.run([f"{ROOT}/scripts/stack", "start", self.stack, template], check=True)
        with open(os.path.join(self.stack, "env")) as file:
            self.env = dict(line.strip().split("=", 1) for line in file)
        with open(os.path.join(self.stack, "broker.pid")) as file:
            self.pid = int(file.read())
        # The provider reports a lifetime of five seconds, but accepts the tokens for an hour. So a token's age never causes a
        # 401 in a long call, and every 401 in this run was requested.
        self.control("PUT", "settings/oidc", {"token_answer": {"expires_in": TOKEN_LIFETIME}})

    def stop(self):
        subprocess.run([f"{ROOT}/scripts/stack", "stop", self.stack], check=False)

    def control(self, method, path, body=None):
        data = json.dumps(body).encode() if body is not None else None
        request = urllib.request.Request(f"{self.env['SANDBOX']}/_sandbox/{path}", data, method=method)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return json.loads(answer.read() or b"null")

    def metric(self, name):
        """Returns the series of a metric, each with its labels and its value."""
        with urllib.request.urlopen(f"{self.env['MANAGEMENT']}/metrics", timeout=20) as answer:
            text = answer.read().decode()
        return [(labels or "", float(value)) for labels, value in re.findall(rf"^{name}(\{{.*\}})? (\S+)$", text, re.M)]

    # -- the run

    async def run(self):
        loop = asyncio.get_running_loop()
        # Let a first guest do each act once. Some descriptors open at their first use (discovery, keys), and must not count as
        # a leak.
        first = self.guest("first")
        await first.sign_in()
        await first.visit(loop.time() + 2)
        self.idle = await self.settled(70)
        everyone = [self.guest(f"guest{number}") for number in range(self.guests)]
        for guest in everyone:
            await guest.sign_in()
        self.refreshes = self.control("GET", "counts").get("oidc/refresh", 0)
        begin = loop.time()
        until = begin + self.seconds
        work = [guest.visit(until) for guest in everyone]
        work += [guest.listen(until) for guest in everyone for _ in range(2)]
        work += [guests.strangers(self.env, self.tally, self.dice, until), self.watch(begin, until)]
        await asyncio.gather(*work)
        self.took = loop.time() - begin
        self.refreshes = self.control("GET", "counts").get("oidc/refresh", 0) - self.refreshes
        # Check that every session still lives, with its first cookie.
        for guest in everyone:
            await guest.attempt(guest.look)
            guest.connection.close()
        self.after = await self.settled(120, enough=self.idle.descriptors)

    def guest(self, name):
        return guests.Guest(self.env, self.tally, random.Random(self.dice.random()), name)

    async def watch(self, begin, until):
        """Takes a sample every few seconds, and sometimes prints a line."""
        loop = asyncio.get_running_loop()
        pause = max(1.0, self.seconds / 300)
        log = os.path.join(self.stack, "broker.log")
        while loop.time() < until:
            await asyncio.sleep(pause)
            sample = Sample(self.pid, loop.time() - begin, self.tally.total)
            self.samples.append(sample)
            if len(self.samples) % 10 == 0:
                print(
                    f"soak: {sample.seconds:5.0f} s, {sample.requests:8,} calls, {sample.anonymous:6.1f} MiB anonymous, "
                    f"{sample.resident:6.1f} MiB resident, {sample.descriptors} descriptors, {sample.threads} threads, "
                    f"{sum(self.tally.wrong.values())} unexpected", file=sys.stderr)
            # Remove the lines of a large log, which is possible because the broker opens its log for appending.
            if os.path.getsize(log) > 64 * MIB:
                os.truncate(log, 0)

    async def settled(self, seconds, enough=None):
        """Waits for `seconds`, or until at most `enough` descriptors are open. Returns the last sample. Meanwhile, the broker's
        pools close the connections that have been idle for 30 seconds."""
        end = time.monotonic() + seconds
        while True:
            sample = Sample(self.pid, 0, 0)
            if time.monotonic() >= end or (enough is not None and sample.descriptors <= enough):
                return sample
            await asyncio.sleep(1)

    # -- the verdict

    def say(self, holds, sentence):
        self.failed += not holds
        self.verdicts.append(("" if holds else "not ") + f"ok - {sentence}")

    def report(self):
        # During the first quarter (at most five minutes), caches, pools and the allocator's arenas fill, so it is left out.
        warm = [sample for sample in self.samples if sample.seconds > min(300, self.seconds / 4)]
        third = max(1, len(warm) // 3)
        first, last = warm[:third], warm[-third:]
        median = lambda samples, name: statistics.median(getattr(sample, name) for sample in samples)
        wrong = sum(self.tally.wrong.values())
        self.say(wrong == 0, f"{self.tally.total:,} calls, {wrong} with an answer that was not the expected one")
        ended = {labels: int(value) for labels, value in self.metric("coatcheck_sessions_ended_total")}
        asked = {'{reason="logged_out"}'}
        wrongful = sum(count for labels, count in ended.items() if labels not in asked)
        self.say(wrongful == 0, f"{sum(ended.values())} sessions ended, {wrongful} without having asked for it")
        due = self.guests * self.took / TOKEN_LIFETIME
        self.say(self.refreshes >= 0.8 * due, f"{self.refreshes} refreshes; one each {TOKEN_LIFETIME} s would be {due:.0f}")
        for name in ("anonymous", "resident"):
            before, after = median(first, name), median(last, name)
            limit = max(2, before * 0.05)
            self.say(
                after - before <= limit,
                f"memory, {name}: {before:.1f} MiB in the first third after warm-up, {after:.1f} MiB in the last "
                f"(at most {limit:.1f} MiB more); the fitted line rises by {slope(warm, name):+.2f} MiB an hour")
        before, after = median(first, "descriptors"), median(last, "descriptors")
        self.say(after - before <= 16, f"descriptors under load: {before:.0f} in the first third, {after:.0f} in the last")
        self.say(
            self.after.descriptors <= self.idle.descriptors,
            f"descriptors at rest: {self.idle.descriptors} before the load, {self.after.descriptors} after it")
        threads = [max(sample.threads for sample in part) for part in (first, last)]
        self.say(threads[1] <= threads[0] + 2, f"threads: {threads[0]} in the first third, {threads[1]} in the last")
        under_way = sum(
            value for name in ("coatcheck_relay_calls_under_way", "coatcheck_detached_work") for _, value in self.metric(name))
        self.say(under_way == 0, f"left under way after the load: {under_way:.0f} relayed calls and detached work")
        return "\n\n".join([self.machine(), self.table(warm[0].seconds), self.calls(), self.sentences()]) + "\n"

    def machine(self):
        return f"{Report.machine()}; {self.took / 60:.0f} minutes, {self.guests} sessions in use, " \
            f"{self.tally.total / self.took:.0f} calls/s, broker, sandbox and load on the same machine."

    def table(self, warm):
        """Returns ten moments of the run, and the moments at rest before and after it."""
        row = lambda name, at, calls: (
            name, calls, f"{at.anonymous:.1f}", f"{at.resident:.1f}", str(at.descriptors), str(at.threads), f"{at.cpu:.0f}")
        rows = [row("at rest, before", self.idle, "")]
        for at in self.samples[9 * len(self.samples) // 100::max(1, len(self.samples) // 10)]:
            name = f"{at.seconds / 60:.1f} min" + (" (warm-up)" if at.seconds < warm else "")
            rows.append(row(name, at, f"{at.requests:,}"))
        rows.append(row("at rest, after", self.after, f"{self.tally.total:,}"))
        head = "when", "calls", "anonymous MiB", "resident MiB", "descriptors", "threads", "CPU s"
        return table(head, rows)

    def calls(self):
        text = "Calls: " + ", ".join(f"{count:,} {name}" for name, count in self.tally.done.most_common()) + "."
        for name, count in self.tally.wrong.most_common():
            text += f"\n\nUnexpected, {count} times: {name} {self.tally.examples[name]!r}"
        return text

    def sentences(self):
        passed = len(self.verdicts) - self.failed
        return "\n".join(["```text", *self.verdicts, "```", "", f"{passed} passed, {self.failed} failed"])


def slope(samples, name):
    """Returns the slope per hour by least squares."""
    if len(samples) < 2:
        return 0.0
    hours = [sample.seconds / 3600 for sample in samples]
    return statistics.linear_regression(hours, [getattr(sample, name) for sample in samples]).slope


if __name__ == "__main__":
    main()
