"""Counts this project's source files that one request enters. scripts/walk runs it.

A walk is a set of files under Sources/. A file belongs to it if the request executes one of its lines, and an idle minute does
not execute this line. The broker runs under callgrind, as a debug build, and the walk is the union of three runs. The sandbox
and generated files are left out.
"""

import argparse
import asyncio
import os
import re
import shutil
import subprocess
import tempfile
import time

import callgrind
import instructions
import load
import processes
import scale
from report import table

ROOT = callgrind.ROOT
RUNS, ATTEMPTS = 3, 20
# The time in seconds in which a session is certainly still cached (`session.cache` is five).
CACHED = 4


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--files", action="store_true", help="name the files, too")
    options = parser.parse_args()
    directory = tempfile.mkdtemp(prefix="coatcheck-walk-")
    os.chmod(directory, 0o755)
    upstream = processes.upstream(directory)
    postgresql = scale.PostgreSQL()
    try:
        walks = walks_on("sqlite:@DIR@/coatcheck.db", directory, upstream, {
            "code forward, flow A, SQLite": forward, "session read, cached": read, "relayed GET, cached": relay})
        walks |= walks_on(postgresql.url("postgres"), directory, upstream, {"refresh, PostgreSQL": refresh})
    finally:
        postgresql.stop()
        upstream.stop()
        shutil.rmtree(directory, ignore_errors=True)
    if options.files:
        for name, files in walks.items():
            print("\n".join([f"# {name}", *sorted(files), ""]))
    print(table(("walk", "files"), [[name, str(len(files))] for name, files in walks.items()]))


# Each of the next functions prepares a request on the connection that later sends it, and returns a function that sends it.


async def forward(broker, sandbox):
    login = await load.start_login(broker, sandbox, f"u{time.monotonic_ns()}")
    return lambda: load.forward(broker, *login)


def again(method, path):
    """Returns a preparation for `method` and `path`. The preparation already sends the request once, so the session is cached."""

    async def prepare(broker, sandbox):
        cookie = load.session_cookie(await (await forward(broker, sandbox))())
        send = lambda: instructions.expect(200, broker, method, path, {"Cookie": cookie})
        await send()
        return send

    return prepare


relay, read, refresh = again("GET", "/v1/relay/bench/small"), again("GET", "/v1/session"), again("POST", "/v1/session/refresh")


def walks_on(store, directory, upstream, preparations):
    """Counts the walks of the requests on one store."""
    broker = instructions.Broker(directory, store.partition(":")[0], store, upstream, by_address=True)
    try:
        requests = {name: asyncio.run(windows(broker, prepare)) for name, prepare in preparations.items()}
        idle = lines(broker, broker.program.idle(60))
        return {name: set().union(*(files(lines(broker, window) - idle) for window in found))
                for name, found in requests.items()}
    finally:
        broker.stop()


async def windows(broker, prepare):
    """Returns one window for each run, with one request in it. An earlier request has loaded discovery, keys and plans."""
    found = []
    for _ in range(ATTEMPTS):
        connections = [load.Connection(url) for url in broker.urls]
        send = await prepare(*connections)
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
    """Returns the lines of this project that were executed in a window, as `file:line`."""
    binary = os.path.basename(broker.program.binary)
    addresses = {address for name, _, address, _ in window.costs() if os.path.basename(name) == binary}
    text = subprocess.run(["addr2line", "-e", broker.binary], input="\n".join(map(hex, addresses)), capture_output=True,
                          text=True, check=True).stdout
    return set(re.findall(rf"(?m)^{re.escape(ROOT)}/(Sources/\S+:[1-9]\d*)\b", text))


def files(found):
    names = {line.partition(":")[0] for line in found}
    return {name for name in names if not name.startswith("Sources/Sandbox/")}


if __name__ == "__main__":
    main()
