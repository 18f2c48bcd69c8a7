"""Collects the measured values, and writes them as tables."""

import os
import platform
import re
import time


class Report:
    def __init__(self):
        self.ratios, self.values, self.rates = [], [], []
        self.missed = 0

    def ratio(self, work, mine, peer, reach, note=""):
        ratio = mine.ratio(peer)
        spread = [a[0] / b[0] for a, b in zip(mine.runs, peer.runs)]
        if reach is None:
            goal = note
        else:
            goal = f"≥ {reach:.2f} × " + ("yes" if ratio >= reach else "**no**")
            self.missed += ratio < reach
        self.ratios.append((work, peer.title, f"{ratio:.2f} ×", f"{min(spread):.2f} … {max(spread):.2f}", goal))

    def speeds(self, targets):
        for target in targets:
            rate, cpu, median, tail = (target.median(column) for column in range(4))
            self.rates.append((target.title, f"{rate:,.0f}", f"{cpu:.1f}", f"{median:.2f}", f"{tail:.2f}"))

    def bound(self, what, value, holds, reach):
        self.missed += not holds
        self.values.append((what, value, f"{reach} " + ("yes" if holds else "**no**")))

    def value(self, what, value):
        self.values.append((what, value, ""))

    def text(self):
        parts = [
            f"{self.machine()}; load, upstream and sandbox on the same machine; wrk with 1 thread and 32 connections."
        ]
        if self.ratios:
            parts.append(table(("work", "peer, same run", "ratio", "of the rounds", "to reach"), self.ratios))
            parts.append(
                table(("server", "requests/s", "CPU µs each", "p50 ms", "p99 ms"), self.rates))
        if self.values:
            parts.append(table(("what", "measured", "to reach"), self.values))
        return "\n\n".join(parts) + "\n"

    @staticmethod
    def machine():
        cpu = "unknown processor"
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith("model name"):
                    cpu = line.split(":", 1)[1].strip()
                    break
        with open("/proc/meminfo") as file:
            memory = int(file.readline().split()[1]) / 1048576
        return f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores of {cpu}, {memory:.0f} GiB, Linux {platform.release()}"

    def write(self, path):
        self.put(path, "bench", self.text())

    @staticmethod
    def put(path, name, tables):
        """Replaces the tables between the two marks `name` in the document at `path`."""
        with open(path) as file:
            text = file.read()
        begin, end = f"<!-- {name}: begin -->", f"<!-- {name}: end -->"
        new = f"{begin}\n{tables}{end}"
        text, count = re.subn(f"{re.escape(begin)}.*?{re.escape(end)}", lambda _: new, text, flags=re.S)
        if count != 1:
            raise SystemExit(f"{name}: {path} has no place for the tables")
        with open(path, "w") as file:
            file.write(text)


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])
