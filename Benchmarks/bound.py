"""Measures the broker's CPU for bound sessions.

Each round measures all kinds of requests, one after the other. The kinds are session checks without evidence, with a pass and
with a proof, and refused requests: a wrong cookie, a malformed proof, and another key's proof. If OLD_COATCHECK names an earlier
release, each round also measures its session check.
"""

import asyncio
import os
import pathlib
import statistics
import sys

import load
import processes

sys.path.insert(0, str(pathlib.Path(processes.__file__).resolve().parents[1] / "Tests" / "scenarios"))
from support.broker import BACKEND, Broker  # noqa: E402
from support.cases import Processes  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

ROUNDS, REQUESTS, PLACES = 9, 4000, 16
# The number of requests with proofs of one key. The broker remembers more proofs of a key than this, so it refuses none.
OF_ONE_PHONE = 2000
CHECK = "/v1/forward-auth"


class Kind:
    """One kind of request: the fields of its requests, in order, and the CPU time of a request in each round, in
    microseconds."""

    def __init__(self, title, broker, status, prepare, path=CHECK):
        self.title, self.broker, self.status, self.prepare, self.path = title, broker, status, prepare, path
        self.costs = []

    def run(self, keep=True):
        fields = self.prepare()
        backend = {"X-Coatcheck-Backend": BACKEND} if self.path == CHECK else {}

        async def work(index, connection, _):
            status, _, data = await connection.request("GET", self.path, fields[index % len(fields)] | backend)
            if status != self.status:
                raise SystemExit(f"bench: {self.title} was answered {status}: {data!r}")

        before = cpu_nanoseconds(self.broker.process.pid)
        asyncio.run(load.in_flight(REQUESTS, PLACES, self.broker.url, self.broker.url, work))
        used = cpu_nanoseconds(self.broker.process.pid) - before
        if keep:
            self.costs.append(used / REQUESTS / 1000)

    def beside(self, other):
        """Returns each round's difference and ratio to another kind of request."""
        pairs = list(zip(self.costs, other.costs))
        return [a - b for a, b in pairs], [a / b for a, b in pairs]


def cpu_nanoseconds(pid):
    """Returns the CPU time of a process's threads from the scheduler, because ticks are too coarse for such short rounds."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in pathlib.Path(f"/proc/{pid}/task").iterdir())


def measure(directory, report):
    in_folder(directory, "bound", run, report)


def in_folder(directory, name, work, report):
    """Calls `work` with processes that have a folder of their own, and ends the processes."""
    folder = os.path.join(directory, name)
    os.mkdir(folder, 0o700)
    case = Processes(folder)
    try:
        work(case, report)
    finally:
        case.end()


def run(case, report):
    sandbox = Sandbox(case, record=False)
    enforce = {"binding": {"mode": "enforce", "evidence": "pass", "pass": "15m"}}
    broker = Broker(case, sandbox, settings={
        "providers": {"oidc": {"clients": {"web": enforce}}}, "backends": {"orders": {"original_request": True}}})
    session = broker.sign_in()
    phone = signed_in(broker)
    original = {"X-Original-Method": "GET", "X-Original-URL": broker.url + "/orders"}

    def cookie(token):
        return {"Cookie": f"coatcheck={token}"}

    def proofs(by=None):
        fields = []
        while len(fields) < REQUESTS:
            owner = signed_in(broker)
            signer = by or owner
            signer.nonce = owner.nonce
            fields += [
                cookie(owner.session) | original | {"DPoP": signer.proof("GET", "/orders", owner.session)}
                for _ in range(OF_ONE_PHONE)]
        return fields

    unbound = Kind("session check, unbound", broker, 200, lambda: [cookie(session)])
    by_pass = Kind("session check, with a pass", broker, 200, lambda: [cookie(phone.session) | {"Coatcheck-Pass": phone.held_pass}])
    by_proof = Kind("session check, with a proof", broker, 200, proofs)
    wrong = Kind("a wrong cookie", broker, 401, lambda: [cookie(f"{index:043}") for index in range(REQUESTS)])
    malformed = Kind("a malformed proof", broker, 401, lambda: [cookie(phone.session) | original | {"DPoP": "x" * 700}])
    foreign = Kind("a proof by another key", broker, 401, lambda: proofs(Phone(broker, "web")))
    kinds = [unbound, by_pass, by_proof, wrong, malformed, foreign]
    if program := os.environ.get("OLD_COATCHECK"):
        old = Broker(case, sandbox, name="before", start=False)
        old.program = program
        old.start()
        before = old.sign_in()
        kinds.insert(1, Kind("session check, the release before", old, 200, lambda: [cookie(before)]))
    alternate(kinds, report)
    bound(report, "a check with a pass : an unbound one, CPU", by_pass.beside(unbound)[1], 1.05, "×")
    bound(report, "a check with a proof, more than an unbound one", by_proof.beside(unbound)[0], 110, "µs")
    for kind in malformed, foreign:
        bound(report, f"{kind.title} : a wrong cookie, CPU", kind.beside(wrong)[1], 1, "×")
    if os.environ.get("OLD_COATCHECK"):
        bound(report, "an unbound check : one of the release before, CPU", unbound.beside(kinds[1])[1], 1.05, "×")


def alternate(kinds, report):
    """Runs the kinds of requests in rounds, in another order each time, and reports the median of each kind."""
    for kind in kinds:
        kind.run(keep=False)
    for number in range(ROUNDS):
        for kind in kinds[number % len(kinds):] + kinds[: number % len(kinds)]:
            print(f"bench: round {number + 1} of {ROUNDS}, {kind.title}", file=sys.stderr)
            kind.run()
    for kind in kinds:
        report.value(f"{kind.title}, CPU", f"{statistics.median(kind.costs):.1f} µs")


def bound(report, what, found, limit, unit):
    median = statistics.median(found)
    report.bound(what, f"{median:.2f} {unit} ({min(found):.2f} … {max(found):.2f})", median <= limit, f"≤ {limit} {unit}")


def signed_in(broker):
    phone = Phone(broker, "web")
    answer = phone.sign_in()
    if answer.status != 201:
        raise SystemExit(f"bench: no session: {answer.status} {answer.body!r}")
    return phone
