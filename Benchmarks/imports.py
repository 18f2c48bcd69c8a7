"""Measures imports: phones that post the refresh token of their old SDK.

- The broker's CPU for an import and for a sign-in, in rounds, with 64 of them in progress.
- The time of 1,000 session checks a second, alone and during 200 imports a second, in rounds.

The provider and the phones have the machine's lowest priority, because in production they run elsewhere.
"""

import asyncio
import base64
import hashlib
import json
import os
import secrets
import statistics
import subprocess
import sys
import tempfile
import urllib.parse

import load
import processes
from bound import bound, cpu_nanoseconds, in_folder
# The import of `bound` puts the folder of `support` into the path.
from support.broker import BACKEND, Broker
from support.sandbox import Sandbox

ROUNDS, BATCH, PLACES = 7, 400, 64
IMPORTS_A_SECOND, CHECKS_A_SECOND, SECONDS = 200, 1000, 6
# wrk's connections, each with one check in so many milliseconds.
CONNECTIONS = 20
VERIFIER = "v" * 43
CHALLENGE = base64.urlsafe_b64encode(hashlib.sha256(VERIFIER.encode()).digest()).rstrip(b"=").decode()


def measure(directory, report):
    in_folder(directory, "imports", run, report)


def run(case, report):
    sandbox = Sandbox(case, record=False)
    sandbox.settings("oidc", refresh_mode="rotate-strict", refresh_token="always", access_token_lifetime=3600)
    yields(case.processes[0].pid)
    settings = {
        "limits": {"logins_per_minute": 1000000},
        "providers": {"oidc": {"clients": {"ios": {"import_tokens": {"until": "2099-12-31"}}}}}}
    broker = Broker(case, sandbox, settings=settings)
    cost(broker, sandbox, report)
    during(broker, Broker(case, sandbox, name="neighbour", settings=settings), sandbox, report)


# -- CPU


def cost(broker, sandbox, report):
    costs = {"an import": [], "a sign-in": []}
    for number in range(ROUNDS + 1):
        for kind in sorted(costs, reverse=number % 2 == 1):
            print(f"bench: round {number} of {ROUNDS}, {kind}", file=sys.stderr)
            if kind == "an import":
                posts = old_tokens(sandbox, BATCH)
                spent = used(broker, lambda: asyncio.run(load.in_flight(
                    BATCH, PLACES, broker.url, sandbox.url, lambda index, b, _: move(b, posts[index]))))
            else:
                async def sign_in(_, b, s):
                    await load.forward(b, *await load.start_login(b, s, f"new-{secrets.token_hex(6)}"))

                spent = used(broker, lambda: asyncio.run(load.in_flight(BATCH, PLACES, broker.url, sandbox.url, sign_in)))
            # The first round warms up.
            if number:
                costs[kind].append(spent / BATCH / 1e6)
    for kind, found in costs.items():
        report.value(f"{kind}, {PLACES} in flight: CPU each", f"{statistics.median(found):.2f} ms")
    bound(report, "an import : a sign-in, CPU", [a / b for a, b in zip(*costs.values())], 1.1, "×")


def used(broker, work):
    before = cpu_nanoseconds(broker.process.pid)
    work()
    return cpu_nanoseconds(broker.process.pid) - before


# -- session checks during imports


def during(broker, neighbour, sandbox, report):
    """Measures checks alone, during imports at the broker, and during imports at another broker on the same machine."""
    session = broker.sign_in()
    alone, own, foreign = [], [], []
    for number in range(ROUNDS + 1):
        print(f"bench: round {number} of {ROUNDS}, session checks alone and during imports", file=sys.stderr)
        found = [checks(broker, session)]
        found += [during_imports(broker, importer, session, sandbox) for importer in (broker, neighbour)]
        if number:
            for runs, run in zip((alone, own, foreign), found):
                runs.append(run)
    what = f"{CHECKS_A_SECOND:,} session checks a second"
    for column, name in ((0, "p50"), (1, "p99")):
        report.value(
            f"{what}, alone, during {IMPORTS_A_SECOND} imports a second, and during those of another broker: {name}",
            ", ".join(f"{statistics.median(run[column] for run in runs):.2f}" for runs in (alone, own, foreign)) + " ms")
    bound(report, f"{what} during imports : alone, p99", [b[1] / a[1] for a, b in zip(alone, own)], 1.5, "×")
    ratios = [b[1] / a[1] for a, b in zip(alone, foreign)]
    report.value(
        f"{what} during another broker's imports : alone, p99",
        f"{statistics.median(ratios):.2f} × ({min(ratios):.2f} … {max(ratios):.2f})")


def during_imports(broker, importer, session, sandbox):
    posts = old_tokens(sandbox, IMPORTS_A_SECOND * (SECONDS + 1))
    with tempfile.TemporaryFile("w+") as file:
        json.dump([importer.url, posts], file)
        file.seek(0)
        phones = subprocess.Popen([sys.executable, __file__], stdin=file, stdout=subprocess.PIPE, text=True)
        phones.stdout.readline()
        found = checks(broker, session)
        rate = float(phones.communicate()[0] or 0)
    if phones.returncode or rate < 0.95 * IMPORTS_A_SECOND:
        raise SystemExit(f"bench: {rate:.0f} imports a second")
    return found


def checks(broker, session):
    """Returns the p50 and p99 of the checks' times in milliseconds."""
    pause = 1000 * CONNECTIONS // CHECKS_A_SECOND
    with tempfile.NamedTemporaryFile("w", suffix=".lua") as script:
        # The random pause spreads the connections over the time.
        script.write(f"function delay() return math.random(0, {2 * pause}) end\n")
        script.flush()
        target = load.Target(
            "check", "session check", processes.Foreign("coatcheck", broker.process.pid, broker.port), "/v1/forward-auth",
            [f"Cookie: coatcheck={session}", f"X-Coatcheck-Backend: {BACKEND}"], script.name, CONNECTIONS)
        target.run(SECONDS)
    rate, _, median, tail = target.runs[0]
    if rate < 0.95 * CHECKS_A_SECOND:
        raise SystemExit(f"bench: {rate:.0f} checks a second")
    return median, tail


# -- phones


def old_tokens(sandbox, count):
    """Returns posts with the refresh tokens of SDKs that signed their users in themselves."""

    async def work(index, _, provider):
        user = f"old-{secrets.token_hex(6)}"
        query = urllib.parse.urlencode({
            "client_id": "ios-app", "redirect_uri": "com.example.app:/cb", "response_type": "code", "state": "s",
            "sandbox_user": user, "scope": "openid email offline_access", "code_challenge": CHALLENGE,
            "code_challenge_method": "S256"})
        _, fields, _ = await provider.request("GET", f"/oidc/authorize?{query}")
        code = urllib.parse.parse_qs(urllib.parse.urlsplit(dict(fields)["location"]).query)["code"][0]
        form = urllib.parse.urlencode({
            "grant_type": "authorization_code", "code": code, "redirect_uri": "com.example.app:/cb", "client_id": "ios-app",
            "code_verifier": VERIFIER})
        status, _, data = await provider.request("POST", "/oidc/token", body=form)
        if status != 200:
            raise SystemExit(f"bench: the sandbox gave no token: {status} {data!r}")
        return {
            "provider": "oidc", "client": "ios", "tokens": {"refresh_token": json.loads(data)["refresh_token"]},
            "login_token": secrets.token_urlsafe(32)}

    return asyncio.run(load.in_flight(count, 16, sandbox.url, sandbox.url, work))


async def move(broker, post):
    status, _, data = await broker.request("POST", "/v1/sessions", body=post)
    if status != 201:
        raise SystemExit(f"bench: an import was answered {status}: {data!r}")


async def move_steadily(url, posts):
    """Posts at a steady rate, even while earlier posts wait for their answers. Returns the posts a second."""
    loop, idle, tasks = asyncio.get_running_loop(), [], []

    async def one(post):
        connection = idle.pop() if idle else load.Connection(url)
        await move(connection, post)
        idle.append(connection)

    begin = loop.time()
    for number, post in enumerate(posts):
        await asyncio.sleep(begin + number / IMPORTS_A_SECOND - loop.time())
        tasks.append(asyncio.create_task(one(post)))
        if number == IMPORTS_A_SECOND // 4:
            print("begun", flush=True)
    await asyncio.gather(*tasks)
    return len(posts) / (loop.time() - begin)


def yields(pid):
    """Gives a process and its threads the lowest priority."""
    for task in os.listdir(f"/proc/{pid}/task"):
        os.setpriority(os.PRIO_PROCESS, int(task), 19)


if __name__ == "__main__":
    yields(os.getpid())
    print(asyncio.run(move_steadily(*json.load(sys.stdin))))
