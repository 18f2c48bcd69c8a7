"""Counts the instructions that a request takes in user space, under callgrind.

    scripts/bench --only instructions [--write]   every row; --write puts them into docs/internals/performance.md and instructions.json
    Benchmarks/instructions.py                    the rows of instructions.json, with its numbers: a step of `make test`

A count is the slope between few requests and many, minus the instructions of the idle program in the same time. The sandbox,
the upstream, PostgreSQL, the load and the kernel are not counted. COATCHECK_UNSTRIPPED names the linked broker with its
symbols.
"""

import asyncio
import json
import os
import platform
import re
import shutil
import statistics
import subprocess
import sys
import tempfile

import callgrind
import load
import processes
import scale
from report import Report, table

ROOT = callgrind.ROOT
EXPECTED = os.path.join(ROOT, "Benchmarks", "instructions.json")
TOLERANCE = 0.03
IN_FLIGHT = 32
EXACT = ["session check", "session read", "relayed GET", "introspection"]
MANY, FEWER = (500, 2500), (100, 500)
IDLE_WINDOWS = 5
# The numbers of requests for login starts, code forwards and refreshes, which take many more instructions than a check.
LONG = 50, 250
PEERS = [("session check", "bare Hummingbird, hello"), ("session read", "bare Hummingbird, hello"),
         ("relayed GET", "bare relay")]
MODULES = ["ours", "Swift", "NIO", "other packages", "libc", "BoringSSL", "libcrypto", "libsqlite3", "libpq"]


class Count:
    """The instructions of one request, in total and by module."""

    def __init__(self, few, many, idle, requests):
        self.windows, self.requests = (few, many, idle), requests
        self.total = self.slope([window.instructions for window in self.windows])

    def slope(self, costs):
        few, many, idle = self.windows
        return (costs[1] - costs[0] - costs[2] * (many.seconds - few.seconds) / idle.seconds) / self.requests

    def modules(self):
        found = [by_module(window) for window in self.windows]
        return {name: self.slope([costs.get(name, 0) for costs in found]) for name in MODULES}


class Meter:
    """Counts the instructions of requests to one program."""

    def __init__(self, program, idle_seconds):
        self.program, self.idle_seconds, self.idle = program, idle_seconds, None

    def count(self, work, places, few, many):
        """Counts a request, with `places` requests in flight. `work` prepares requests and returns a function that sends them."""
        # Take the idle windows after the first use of the program, because one-time work must not count. Use the window with
        # the lowest rate. In the others, a ticker may have run, and its instructions would be subtracted from every request.
        self.idle = self.idle or min((self.program.idle(self.idle_seconds) for _ in range(IDLE_WINDOWS)),
                                     key=lambda window: window.instructions / window.seconds)
        windows = []
        for number in (few, many):
            send = work(number)
            self.program.window()
            send(places)
            windows.append(self.program.window())
        return Count(*windows, self.idle, many - few)


class Broker:
    """A broker under callgrind on one store, with its cache on."""

    def __init__(self, directory, name, store, upstream, by_address=False, template="coatcheck.yaml"):
        self.binary = os.environ["COATCHECK_UNSTRIPPED"]
        self.outside = scale.Brokers(directory, name, store, upstream.url, more="", template=template)
        self.urls = self.outside.env["BROKER"], self.outside.env["SANDBOX"]
        port = self.outside.first.port
        self.outside.stop_first()
        arguments = ["serve", "--config", os.path.join(self.outside.stack, "coatcheck.yaml")]
        self.program = callgrind.Program("broker", self.binary, arguments, port, self.outside.directory, by_address)
        self.cookies = []

    def stop(self):
        self.program.stop()
        self.outside.stop()

    def reads(self):
        """Returns the kinds of requests that are answered from the cache."""
        cookie = load.sign_in(*self.urls)
        backend = {"X-Coatcheck-Backend": self.outside.env["BACKEND_TOKEN"]}
        token = cookie.partition("=")[2]
        return {
            "session check": requests(self.urls[0], "GET", "/v1/forward-auth", {"Cookie": cookie, **backend}),
            "session read": requests(self.urls[0], "GET", "/v1/session", {"Cookie": cookie}),
            "relayed GET": requests(self.urls[0], "GET", "/v1/relay/bench/small", {"Cookie": cookie}),
            "introspection": requests(self.urls[0], "POST", "/v1/introspect", backend, f"token={token}"),
        }

    def start(self):
        return requests(self.urls[0], "POST", "/v1/logins", body={"provider": "oidc", "client": "ios"}, expected=201)

    def forward(self, count):
        batch = load.Forwards(count, *self.urls, f"u{len(self.cookies)}-")

        def send(places):
            self.cookies += batch.run_for_cookies(places)

        return send

    def refresh(self, count):
        """Prepares a refresh for each of this many sessions. Each session is refreshed once."""
        if len(self.cookies) < count:
            self.forward(count - len(self.cookies))(1)
        cookies, self.cookies = self.cookies[:count], self.cookies[count:]

        async def work(index, broker, _):
            await expect(200, broker, "POST", "/v1/session/refresh", {"Cookie": cookies[index]})

        return lambda places: asyncio.run(load.in_flight(len(cookies), places, *self.urls, work))


def requests(base, method, path, headers=None, body=None, expected=200):
    """Returns work that sends the same request each time."""

    async def work(_, server, __):
        await expect(expected, server, method, path, headers, body)

    return lambda count: lambda places: asyncio.run(load.in_flight(count, places, base, base, work))


async def expect(expected, server, method, path, headers=None, body=None):
    status, _, data = await server.request(method, path, headers, body)
    if status != expected:
        raise SystemExit(f"instructions: {method} {path} was answered {status}: {data!r}")


# -- every row


def measure(directory, write):
    """Counts every row, and prints the tables."""
    found = {}
    upstream = processes.upstream(directory)
    try:
        count_peer(found, "bare Hummingbird, hello", "/", ["hello"], directory)
        count_peer(found, "bare relay", "/small", ["relay", upstream.url], directory)
        count_broker(found, Broker(directory, "sqlite", "sqlite:@DIR@/coatcheck.db", upstream), "SQLite", reads=True)
        postgresql = scale.PostgreSQL()
        try:
            count_broker(found, Broker(directory, "postgresql", postgresql.url("postgres"), upstream), "PostgreSQL")
        finally:
            postgresql.stop()
    finally:
        upstream.stop()
    text = tables(found)
    print(text)
    if write:
        Report.put(os.path.join(ROOT, "docs", "internals", "performance.md"), "instructions", text)
        exact = {name: round(found[name][0].total) for name in EXACT}
        with open(EXPECTED, "w") as file:
            json.dump({"toolchain": toolchain(), "instructions": exact}, file, indent=2)
            file.write("\n")


def count_broker(found, broker, engine, reads=False):
    meter = Meter(broker.program, 5)
    try:
        if reads:
            for name, work in broker.reads().items():
                count_row(found, name, meter, work, *MANY)
        count_row(found, f"login start, {engine}", meter, broker.start(), *LONG)
        count_row(found, f"code forward, {engine}", meter, broker.forward, *LONG)
        count_row(found, f"refresh, {engine}", meter, broker.refresh, *LONG)
    finally:
        broker.stop()


def count_peer(found, title, path, arguments, directory):
    mode, *rest = arguments
    port = processes.free_port()
    program = callgrind.Program(mode, os.environ["BENCH_PEERS"], [mode, str(port), *rest], port, directory)
    try:
        count_row(found, title, Meter(program, 2), requests(program.url, "GET", path), *MANY)
    finally:
        program.stop()


def count_row(found, name, meter, work, few, many):
    """Counts a row with one request at a time, and with many in flight."""
    work(few)(1)
    found[name] = [meter.count(work, 1, few, many)]
    try:
        found[name].append(meter.count(work, IN_FLIGHT, few, many))
    except SystemExit as refusal:
        # On a busy machine, a provider's answer may take longer than the limit of fifteen seconds. Then leave the row out.
        print(f"instructions: {name}, {IN_FLIGHT} in flight, is not counted: {refusal}", file=sys.stderr)
    print(f"instructions: {name}: {' and '.join(f'{count.total:,.0f}' for count in found[name])}", file=sys.stderr, flush=True)


def tables(found):
    places = "one at a time", f"{IN_FLIGHT} in flight"
    parts = [f"{toolchain()}; one event loop.", table(("request", *places), [
        [name, *cells(f"{count.total:,.0f}" for count in counts)] for name, counts in found.items()])]
    parts.append(table(("beside its peer", *places), [
        [f"{mine} : {peer}", *cells(f"{a.total / b.total:.2f} ×" for a, b in zip(found[mine], found[peer]))]
        for mine, peer in PEERS]))
    for place, title in enumerate(places):
        parts.append(table((f"thousands, {title}", *MODULES), [
            [name, *(f"{cost / 1000:,.1f}" for cost in counts[place].modules().values())]
            for name, counts in found.items() if place < len(counts)]))
    return "\n\n".join(parts) + "\n"


def cells(texts):
    """Returns two cells. A cell without a count is a dash."""
    return [*texts, "–"][:2]


# -- the rows that have to keep their numbers


def judged(measure, wanted):
    """Returns the median of three counts, because a ticker may run in some windows. If this median is outside the tolerance,
    returns the median of seven counts."""
    counts = [measure() for _ in range(3)]
    if abs(statistics.median(counts) / wanted - 1) > TOLERANCE:
        counts += [measure() for _ in range(4)]
    return statistics.median(counts)


def check(directory):
    """Counts the rows of instructions.json. If its numbers are for this toolchain, prints `ok` or `not ok` for each row."""
    with open(EXPECTED) as file:
        expected = json.load(file)
    same = expected["toolchain"] == toolchain()
    upstream = processes.upstream(directory)
    broker = Broker(directory, "sqlite", "sqlite:@DIR@/coatcheck.db", upstream)
    meter = Meter(broker.program, 2)
    passed = failed = 0
    try:
        for name, work in broker.reads().items():
            work(FEWER[1])(1)
            wanted = expected["instructions"][name]
            count = judged(lambda: meter.count(work, 1, *FEWER).total, wanted)
            text = f"{name}: {count:,.0f} instructions, {wanted:,} expected ({count / wanted - 1:+.1%})"
            if not same:
                print(text)
            elif abs(count / wanted - 1) <= TOLERANCE:
                passed += 1
                print(f"ok - {text}")
            else:
                failed += 1
                print(f"not ok - {text}; where that is meant: scripts/bench --only instructions --write")
    finally:
        broker.stop()
        upstream.stop()
    if not same:
        print(f"Nothing is held to anything: this is {toolchain()}, the numbers are of {expected['toolchain']}")
    print(f"{passed} passed, {failed} failed")
    return failed


def toolchain():
    """Returns the versions that a count depends on, in addition to the project's sources and the pinned packages."""
    swift = re.search(r"Swift version \S+", said_by("swift", "--version"))[0]
    openssl = re.match(r"OpenSSL \d+\.\d+", said_by("openssl", "version"))[0]
    valgrind = said_by("valgrind", "--version")
    return ", ".join([swift, platform.machine(), openssl, " ".join(platform.libc_ver()), valgrind])


def said_by(*command):
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


# -- by module


def by_module(window):
    """Returns a window's instructions by module."""
    costs, known = {}, {}
    for binary, function, _, cost in window.costs():
        name = known.get((binary, function))
        if name is None:
            name = known[binary, function] = module(os.path.basename(binary), function)
        costs[name] = costs.get(name, 0) + cost
    return costs


def module(binary, function):
    """Returns a function's module. An inlined function belongs to its caller's module."""
    for beginning, name in LIBRARIES:
        if binary.startswith(beginning):
            return name
    if EXTENSION_OF_OURS.search(function):
        return "ours"
    if mangled := re.match(r"\$s(\d+)", function):
        package = function[mangled.end():][:int(mangled[1])]
        return next((name for pattern, name in PACKAGES if re.match(pattern, package)), "other packages")
    return next((name for pattern, name in SYMBOLS if re.search(pattern, function)), "other packages")


LIBRARIES = [("libcrypto", "libcrypto"), ("libsqlite3", "libsqlite3"), ("libpq", "libpq"), ("libc.", "libc"), ("ld-", "libc"),
             ("libm.", "libc"), ("libstdc++", "libc"), ("libgcc", "libc"), ("lib", "other packages")]
PACKAGES = [("Broker|coatcheck", "ours"), ("_?C?NIO", "NIO"),
            ("_?Foundation|_Concurrency$|_StringProcessing$|_RegexParser$|Dispatch$|Synchronization$", "Swift")]
SYMBOLS = [("BoringSSL|bssl|ecp_nistz256|ec_group_st", "BoringSSL"),
           (r"5swift|__swift|swift_|dispatch_|^\$s[sS]|^_ZNK?6icu_", "Swift"),
           ("^(c_nio|CNIO|catmc)_", "NIO")]
EXTENSION_OF_OURS = re.compile(r"\d(Broker(HTTP|Providers|Relay|Store|Vault|Wire)?|coatcheck)E")


if __name__ == "__main__":
    folder = tempfile.mkdtemp(prefix="coatcheck-instructions-")
    os.chmod(folder, 0o755)
    try:
        sys.exit(check(folder) > 0)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
