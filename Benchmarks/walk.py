"""Counts this project's functions and source files that one request enters. scripts/walk runs it.

A walk is a set of functions under Sources/, and the set of their files. A function belongs to it if the request executes one of
the function's lines, and an idle minute does not execute this line. The broker runs under callgrind, as a debug build, and the
walk is the union of three runs. The sandbox and generated files are left out.

A function is what a reader finds under one name in the source, so `function` merges the symbols that the compiler makes of it.
"""

import argparse
import asyncio
import linecache
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.parse

import callgrind
import instructions
import load
import processes
import scale
from report import table

sys.path.insert(0, str(pathlib.Path(callgrind.ROOT, "Tests", "scenarios")))
from support.calls import call  # noqa: E402
from support.dpop import Phone  # noqa: E402

ROOT = callgrind.ROOT
RUNS, ATTEMPTS = 3, 20
# The time in seconds in which a session is certainly still cached (`session.cache` is five).
CACHED = 4
# The time in seconds after which the broker has certainly closed the connections of the walks.
SETTLED = 10
EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "subject_token_type": "urn:ietf:params:oauth:token-type:access_token",
    "resource": "https://api.example.org/orders",
}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", action="store_true", help="name the files, too")
    parser.add_argument("--functions", action="store_true", help="name the functions of each file, too")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="coatcheck-walk-")
    os.chmod(directory, 0o755)
    upstream = processes.upstream(directory)
    postgresql = scale.PostgreSQL()
    try:
        sqlite = "sqlite:@DIR@/coatcheck.db"
        walks = walks_on("sqlite", sqlite, "coatcheck.yaml", directory, upstream, {
            "code forward, flow A, SQLite": forward, "session read, cached": read, "relayed GET, cached": relay})
        walks |= walks_on("more", sqlite, "walk.yaml", directory, upstream, {
            "session check with a pass, cached": check, "token for another API, SQLite": token})
        walks |= walks_on("postgresql", postgresql.url("postgres"), "coatcheck.yaml", directory, upstream, {
            "refresh, PostgreSQL": refresh})
    finally:
        postgresql.stop()
        upstream.stop()
        shutil.rmtree(directory, ignore_errors=True)
    if options.files or options.functions:
        for name, walk in walks.items():
            print("\n".join([f"# {name}", *walk.names(options.functions), ""]))
    print(table(("walk", "functions", "files"),
                [[name, str(len(walk.functions)), str(len(walk.files))] for name, walk in walks.items()]))


# Each of the next functions prepares a request on the connection that later sends it, and returns a function that sends it.
# `backend` has the fields with the backend's credential.


async def forward(broker, sandbox, backend):
    login = await load.start_login(broker, sandbox, user())
    return lambda: load.forward(broker, *login)


def again(method, path):
    """Returns a preparation for `method` and `path`. The preparation already sends the request once, so the session is cached."""

    async def prepare(broker, sandbox, backend):
        return await sent(broker, method, path, {"Cookie": await cookie(broker, sandbox)})

    return prepare


relay, read = again("GET", "/v1/relay/bench/small"), again("GET", "/v1/session")


async def refresh(broker, sandbox, backend):
    """Prepares a session's first refresh, because the broker calls the provider for a forced refresh only once a minute."""
    fields = {"Cookie": await cookie(broker, sandbox)}
    return lambda: instructions.expect(200, broker, "POST", "/v1/session/refresh", fields)


async def check(broker, sandbox, backend):
    """Prepares a session check with the pass of a session that belongs to a key. The session and its pass are cached."""
    phone = Phone(Reached(broker.host.geturl()), "bound")
    answer = phone.sign_in(user())
    if answer.status != 201:
        raise SystemExit(f"walk: no session that belongs to a key: {answer.told}")
    fields = {"Cookie": f"coatcheck={phone.session}", "Coatcheck-Pass": phone.held_pass}
    return await sent(broker, "GET", "/v1/forward-auth", backend | fields)


async def token(broker, sandbox, backend):
    """Prepares a session's first token for another API, which the broker fetches from the provider."""
    session = (await cookie(broker, sandbox)).partition("=")[2]
    form = urllib.parse.urlencode(EXCHANGE | {"subject_token": session})
    return lambda: instructions.expect(200, broker, "POST", "/v1/token", backend, form)


class Reached:
    """A broker as the scenarios' phone sends requests to it."""

    def __init__(self, url):
        self.url, self.settings = url, {"server": {"public_url": url}}

    def call(self, method, path, body=None, **fields):
        return call(self.url + path, method, body, **fields)


def user():
    return f"u{time.monotonic_ns()}"


async def cookie(broker, sandbox):
    login = await load.start_login(broker, sandbox, user())
    return load.session_cookie(await load.forward(broker, *login))


async def sent(broker, method, path, fields):
    """Sends a request once, and returns a function that sends it again."""
    send = lambda: instructions.expect(200, broker, method, path, fields)
    await send()
    return send


class Walk:
    """The functions that a request entered, by file. `lines` has the `file:line`s that were executed of each symbol."""

    def __init__(self, lines, demangled):
        self.files = {}
        for symbol, places in lines.items():
            name = function(demangled[symbol])
            counts = name and not is_implicit(name, places)
            for file in {place.partition(":")[0] for place in places}:
                if not file.startswith("Sources/Sandbox/"):
                    self.files.setdefault(file, set()).update([name] if counts else [])

    @property
    def functions(self):
        return set().union(*self.files.values())

    def names(self, functions):
        for file in sorted(self.files):
            yield file
            if functions:
                yield from (f"    {name}" for name in sorted(self.files[file]))


def walks_on(name, store, template, directory, upstream, preparations):
    """Counts the walks of the requests on one store, with one configuration."""
    broker = instructions.Broker(directory, name, store, upstream, by_address=True, template=template)
    try:
        requests = {name: asyncio.run(windows(broker, prepare)) for name, prepare in preparations.items()}
        # The broker first finishes with the closed connections, because the idle minute must be free of this work.
        time.sleep(SETTLED)
        idle = {line for line, _ in lines(broker, broker.program.idle(60))}
        found = {name: by_symbol(pair for window in some for pair in lines(broker, window) if pair[0] not in idle)
                 for name, some in requests.items()}
    finally:
        broker.stop()
    demangled = demangle(set().union(*found.values()))
    return {name: Walk(lines, demangled) for name, lines in found.items()}


def by_symbol(pairs):
    found = {}
    for line, symbol in pairs:
        found.setdefault(symbol, set()).add(line)
    return found


async def windows(broker, prepare):
    """Returns one window for each run, with one request in it. An earlier request has loaded discovery, keys and plans."""
    found = []
    backend = {"X-Coatcheck-Backend": broker.outside.env["BACKEND_TOKEN"]}
    for _ in range(ATTEMPTS):
        connections = [load.Connection(url) for url in broker.urls]
        send = await prepare(*connections, backend)
        prepared = time.monotonic()
        broker.program.window()
        begin = time.monotonic()
        await send()
        answered = time.monotonic()
        await asyncio.sleep(max(0, begin + 1 - answered))
        window = broker.program.window()
        if answered - prepared < CACHED:
            found.append(window)
        for connection in connections:
            connection.close()
        if len(found) > RUNS:
            return found[1:]
    raise SystemExit("walk: the machine is too slow: what was cached is not any more when it is asked for")


def lines(broker, window):
    """Returns the lines of this project that were executed in a window, as pairs of `file:line` and a mangled name."""
    binary = os.path.basename(broker.program.binary)
    # A function that calls itself has a second name, with a quote and the depth.
    places = list({(address, symbol.partition("'")[0]) for name, symbol, address, _ in window.costs()
                   if os.path.basename(name) == binary})
    text = subprocess.run(["addr2line", "-e", broker.binary], input="\n".join(hex(address) for address, _ in places),
                          capture_output=True, text=True, check=True).stdout
    source = re.compile(rf"{re.escape(ROOT)}/(Sources/\S+:[1-9]\d*)\b")
    found = zip(map(source.match, text.splitlines()), places, strict=True)
    return {(match[1], symbol) for match, (_, symbol) in found if match}


# -- the names of functions


def demangle(symbols):
    """Returns the demangled name of each symbol."""
    symbols = list(symbols)
    text = subprocess.run(["swift", "demangle", "--compact"], input="\n".join(symbols), capture_output=True, text=True,
                          check=True).stdout
    return dict(zip(symbols, text.splitlines(), strict=True))


def function(name):
    """Returns the function in the source that a symbol belongs to, by the symbol's demangled name, or None.

    - Closures, local functions, `defer` blocks, and the parts of an async function between its `await`s belong to the function
      that contains them. A closure in a default argument belongs to the function with this argument, and a closure that is a
      constant's value belongs to the constant.
    - The accessors of a property or subscript (getter, setter, modify) are one function. So are an `init` and the allocation of
      its object.
    - Constants, default arguments and the release of an object's memory count as None.
    - Thunks, witnesses and outlined copies lack a line in the source, so `lines` leaves them out. Only optimized builds have
      specialized and merged functions.
    """
    if re.search(NO_FUNCTION, name):
        return None
    depth = begin = 0
    for place, letter in enumerate(name):
        depth += (letter == "(") - (letter == ")")
        if depth == 0 and name.startswith(" in ", place):
            begin = place + len(" in ")
    return re.sub(ACCESSOR, " : ", re.sub(PREFIX, "", name[begin:])).replace(".__allocating_init(", ".init(")


def is_implicit(name, places):
    """Returns whether the compiler wrote a function: the lines of such an initializer, deinitializer, `rawValue`, `==` or `hash`
    only declare a type and its stored properties."""
    return bool(re.search(IMPLICIT, name)) and all(re.match(DECLARATION, source(place)) for place in places)


def source(place):
    file, _, line = place.partition(":")
    return linecache.getline(os.path.join(ROOT, file), int(line))


NO_FUNCTION = r"^default argument \d+ of |\.unsafe(?:Mutable)?Addressor : |\.__(?:isolated_)?deallocating_deinit$"
PREFIX = (r"^(?:\(\d+\) (?:await|suspend) resume partial function for |variable initialization expression of "
          r"|default argument \d+ of )+")
ACCESSOR = r"\.(?:getter|setter|modify2?|read2?|didset|willset|init) : "
IMPLICIT = r"\.(?:init\(|deinit$|rawValue : |hash\(into:|== |__derived)"
DECLARATION = r"\s*(?:@\w+(?:\(.*?\))? |(?:\w+(?:\(set\))?) )*?(?:class|struct|enum|actor|let|var|case) "


if __name__ == "__main__":
    main()
