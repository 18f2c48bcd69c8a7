"""Measures scale: PostgreSQL compared with pgbench, replicas on PostgreSQL, and a million stored sessions on both engines."""

import glob
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import urllib.parse

import load
import processes

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
CONNECTIONS = 8


class PostgreSQL:
    """A PostgreSQL of this run, which flushes its commits."""

    def __init__(self, *settings):
        self.process = subprocess.Popen(
            [f"{ROOT}/Tests/scenarios/support/postgresql", "--durable", "shared_buffers=1GB", "max_wal_size=8GB", *settings],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        words = self.process.stdout.readline().split()
        if len(words) < 4 or words[0] != "ready":
            raise SystemExit("bench: PostgreSQL did not start")
        self.port, self.pid = int(words[1]), int(words[2])
        self.programs = sorted(glob.glob("/usr/lib/postgresql/*/bin"))[-1]

    def url(self, database):
        return f"postgresql://coatcheck@127.0.0.1:{self.port}/{database}"

    def program(self, name, *arguments):
        return subprocess.run(
            [f"{self.programs}/{name}", "-h", "127.0.0.1", "-p", str(self.port), "-U", "coatcheck", *arguments],
            capture_output=True, text=True, check=True).stdout

    def sql(self, text, database="postgres"):
        return self.program("psql", "-d", database, "-v", "ON_ERROR_STOP=1", "-Atqc", text).strip()

    def pgbench(self, seconds):
        """Returns pgbench's reads per second, by primary key over a million rows, with prepared statements."""
        output = self.program("pgbench", "-n", "-S", "-M", "prepared", "-c", str(CONNECTIONS), "-j", "1",
                              "-T", str(seconds), "pgbench")
        for line in output.splitlines():
            if line.startswith("tps"):
                return float(line.split()[2])
        raise SystemExit(f"bench: pgbench did nothing:\n{output}")

    def cpu(self):
        return sum(processes.cpu_seconds(pid) for pid in processes.family(self.pid))

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class LockSamples:
    """Samples PostgreSQL's working connections twenty times a second, and counts those that wait for a lock or a buffer."""

    def __init__(self, postgresql):
        self.working = self.waiting = 0
        self.kinds = {}
        self.process = subprocess.Popen(
            [f"{postgresql.programs}/psql", "-h", "127.0.0.1", "-p", str(postgresql.port), "-U", "coatcheck", "-d",
             "postgres", "-Atq"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.ended.wait(0.05):
            self.process.stdin.write(
                "SELECT coalesce(wait_event_type || '/' || wait_event, '-'), count(*) FROM pg_stat_activity WHERE state = 'active' "
                "AND pid <> pg_backend_pid() AND backend_type = 'client backend' GROUP BY 1; SELECT 'end', 0;\n")
            self.process.stdin.flush()
            while True:
                kind, _, count = self.process.stdout.readline().strip().partition("|")
                if kind == "end" or not kind:
                    break
                self.working += int(count)
                if kind.startswith(("Lock/", "LWLock/", "BufferPin/")):
                    self.waiting += int(count)
                    self.kinds[kind] = self.kinds.get(kind, 0) + int(count)

    def stop(self):
        self.ended.set()
        self.thread.join()
        self.process.stdin.close()
        self.process.wait()
        return self.waiting / max(self.working, 1)


class Brokers:
    """A sandbox with a broker, and further brokers with the same keys, each on the same store or on another one."""

    def __init__(self, directory, name, store, upstream="http://127.0.0.1:9", more="session: {cache: off}\n",
                 template="coatcheck.yaml"):
        self.directory, self.stack = os.path.join(directory, name), os.path.join(directory, name, "stack")
        os.makedirs(self.directory)
        self.more = []
        filled = os.path.join(self.directory, "template.yaml")
        with open(os.path.join(ROOT, "Benchmarks", template)) as source, open(filled, "w") as file:
            text = source.read().replace("@UPSTREAM@", upstream).replace("@BULK@", "http://127.0.0.1:9")
            file.write(text.replace('"sqlite:@DIR@/coatcheck.db"', f'"{store}"') + more)
        self.store = store
        subprocess.run([f"{ROOT}/scripts/stack", "start", self.stack, filled], check=True)
        with open(os.path.join(self.stack, "env")) as file:
            self.env = dict(line.strip().split("=", 1) for line in file)
        self.keys = os.path.join(self.stack, "keys.json")

    @property
    def first(self):
        with open(os.path.join(self.stack, "broker.pid")) as file:
            return processes.Foreign("coatcheck", int(file.read()), urllib.parse.urlsplit(self.env["BROKER"]).port)

    def another(self, name, store):
        """Starts one more broker, on `store`, which may be the first broker's store or another one."""
        port, management = processes.free_port(), processes.free_port()
        with open(os.path.join(self.stack, "coatcheck.yaml")) as file:
            text = file.read().replace(f'"{self.store.replace("@DIR@", self.stack)}"', f'"{store}"')
        for url, new in ((self.env["BROKER"], port), (self.env["MANAGEMENT"], management)):
            text = text.replace(f":{urllib.parse.urlsplit(url).port}", f":{new}")
        path = os.path.join(self.directory, f"{name}.yaml")
        with open(path, "w") as file:
            file.write(text)
        server = processes.Server(name, [os.environ["COATCHECK"], "serve", "--config", path], port, self.directory)
        self.more.append(server)
        return server

    def sessions(self, count):
        return load.Forwards(count, self.env["BROKER"], self.env["SANDBOX"], f"s{time.monotonic_ns()}-").run_for_cookies()

    def check(self, name, title, server, cookies, connections=32):
        """Returns a target whose requests check all these sessions, one after the other."""
        script = os.path.join(self.directory, "cookies.lua")
        with open(script, "w") as file:
            file.write("local cookies = {" + ",".join(f"'{cookie}'" for cookie in cookies) + "}\n")
            file.write(
                # The requests are written once, because the load uses the same cores as the broker.
                "local n, requests = 0, {}\ninit = function()\n for place, cookie in ipairs(cookies) do\n"
                "  requests[place] = wrk.format('GET', '/v1/forward-auth', {['Cookie'] = cookie, "
                f"['X-Coatcheck-Backend'] = '{self.env['BACKEND_TOKEN']}'}})\n end\nend\n"
                "request = function()\n n = n % #requests + 1\n return requests[n]\nend\n")
        return load.Target(name, title, server, "/v1/forward-auth", script=script, connections=connections)

    def stop_first(self):
        subprocess.run([f"{ROOT}/scripts/stack", "stop-broker", self.stack], check=True)

    def start_first(self):
        subprocess.run([f"{ROOT}/scripts/stack", "restart", self.stack], check=True)

    def stop(self):
        for server in self.more:
            server.stop()
        subprocess.run([f"{ROOT}/scripts/stack", "stop", self.stack], check=False)


def fill(url, count, keys):
    """Puts `count` sessions into the store at `url` through the store port. Returns the seconds that it took."""
    print(f"bench: {count:,} sessions into {urllib.parse.urlsplit(url).scheme}", file=sys.stderr)
    begin = time.monotonic()
    subprocess.run([os.environ["STORE_LOAD"], "fill", url, str(count), keys], check=True, stdout=subprocess.DEVNULL)
    return time.monotonic() - begin


def through_port(what, url, seconds, at_once=64, sessions=1000):
    """Measures one kind of operation through the store port."""
    output = subprocess.run(
        [os.environ["STORE_LOAD"], what, url, str(seconds), str(CONNECTIONS), str(at_once), str(sessions)], check=True,
        capture_output=True, text=True).stdout
    return json.loads(output)


def in_rounds(rounds, works):
    """Runs each named function once a round, in another order each round. Returns the lists of results by name."""
    results = {name: [] for name, _ in works}
    for number in range(rounds):
        first = number % len(works)
        for name, work in works[first:] + works[:first]:
            print(f"bench: round {number + 1} of {rounds}, {name}", file=sys.stderr)
            results[name].append(work())
    return results


def ratios(mine, theirs):
    return [a / b for a, b in zip(mine, theirs)]


def spread(values):
    return f"{statistics.median(values):.2f} × ({min(values):.2f} … {max(values):.2f})"


def of_target(target, seconds):
    """Returns a function that runs a target, and returns the target's rate."""

    def work():
        target.run(seconds)
        return target.runs[-1][0]

    return work


def postgresql(directory, report, rounds, seconds, count, hello, live=1000):
    """Compares, on PostgreSQL: the store port with pgbench, the broker with bare Hummingbird, few stored sessions with many, and
    one replica with two."""
    server = PostgreSQL()
    brokers = None
    try:
        for name in ("pgbench", "few"):
            server.sql(f"CREATE DATABASE {name}")
        server.program("pgbench", "-i", "-q", "-s", "10", "pgbench")
        brokers = Brokers(directory, "postgresql", server.url("few"))
        cookies = brokers.sessions(live)
        forwards_on(brokers, report, "PostgreSQL")
        brokers.stop_first()
        server.sql("CREATE DATABASE many TEMPLATE few")
        took = fill(server.url("many"), count, brokers.keys)
        server.sql("VACUUM ANALYZE", "many")
        server.sql("VACUUM ANALYZE", "few")
        server.sql("CHECKPOINT")
        report.value(f"PostgreSQL: {count:,} sessions put in through the port", f"{took:.0f} s")
        report.value("PostgreSQL: bytes for each session stored, indexes included",
                     f"{int(server.sql('SELECT pg_database_size(current_database())', 'many')) / count:,.0f}")
        brokers.start_first()
        many = brokers.another("many", server.url("many"))
        second = brokers.another("second", server.url("few"))
        few = brokers.check("few", "session check on PostgreSQL, cache off", brokers.first, cookies)
        stored = brokers.check("many", f"session check on PostgreSQL, {count:,} stored", many, cookies)
        twin = brokers.check("twin", "the second replica", second, cookies)
        bare = load.Target("hello", "bare Hummingbird, hello", hello, "/")
        for target in (few, stored, twin, bare):
            target.run(1, keep=False)
        results = in_rounds(rounds, [
            ("pgbench", lambda: server.pgbench(seconds)),
            ("port", lambda: through_port("check", server.url("few"), seconds)["rate"]),
            ("port, many", lambda: through_port("check", server.url("many"), seconds)["rate"]),
            ("check", of_target(few, seconds)),
            ("check, many", of_target(stored, seconds)),
            ("hello", of_target(bare, seconds)),
        ])
        report.speeds([few, stored])
        compare(report, "session check through the store port : pgbench -S -M prepared, 8 connections each",
                ratios(results["port"], results["pgbench"]), 0.5, results["port"])
        compare(report, "session check on PostgreSQL, cache off : bare Hummingbird",
                ratios(results["check"], results["hello"]), 0.5, results["check"])
        compare(report, f"through the port, {count:,} stored : {live:,} stored",
                ratios(results["port, many"], results["port"]), 0.9, results["port, many"])
        compare(report, f"session check on PostgreSQL, cache off, {count:,} stored : {live:,} stored",
                ratios(results["check, many"], results["check"]), 0.9, results["check, many"])
        replicas(report, server, rounds, seconds, few, twin)
    finally:
        if brokers:
            brokers.stop()
        server.stop()


def compare(report, what, found, reach, rates):
    report.bound(what, f"{spread(found)}, {statistics.median(rates):,.0f}/s", statistics.median(found) >= reach,
                 f"≥ {reach} ×")


def replicas(report, server, rounds, seconds, one, other):
    """Compares one replica with two: rate, CPU of a check, and connections that wait for a lock."""
    found, costs, waits = [], {1: [], 2: []}, {1: [], 2: []}
    for _ in range(rounds):
        rates = {}
        for number, targets in ((1, [one]), (2, [one, other])):
            print(f"bench: {number} of the replicas", file=sys.stderr)
            before, samples = server.cpu(), LockSamples(server)
            threads = [threading.Thread(target=target.run, args=(seconds,)) for target in targets]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            rates[number] = sum(target.runs[-1][0] for target in targets)
            broker = sum(target.runs[-1][0] * target.runs[-1][1] for target in targets) / rates[number]
            database = (server.cpu() - before) / (rates[number] * seconds) * 1e6
            costs[number].append(broker + database)
            waits[number].append(samples.stop())
        found.append(rates[2] / rates[1])
    cores = os.cpu_count()
    # Load, brokers and PostgreSQL share the cores. If there are fewer than six cores, one replica and its load already use all
    # of them.
    reach, holds = ("≥ 1.8 ×", statistics.median(found) >= 1.8) if cores >= 6 else (f"{cores} cores: full with one", True)
    report.bound("two replicas on one PostgreSQL : one", spread(found), holds, reach)
    cost = [statistics.median(costs[number]) for number in (1, 2)]
    report.bound("CPU of a check, broker and PostgreSQL, two replicas : one",
                 f"{spread(ratios(costs[2], costs[1]))}, {cost[1]:.0f} and {cost[0]:.0f} µs", cost[1] <= cost[0] * 1.11,
                 "≤ 1.11 ×, which is 1.8 × where cores allow")
    waiting = statistics.median(waits[2])
    report.bound("connections at work that wait for a lock, two replicas", f"{waiting:.1%}", waiting <= 0.05, "≤ 5 %")


def forwards_on(brokers, report, engine, count=2000):
    """Measures the broker's CPU for a forwarded code, with 64 forwards in flight."""
    urls = brokers.env["BROKER"], brokers.env["SANDBOX"]
    load.Forwards(300, *urls, "warm").run()
    batch = load.Forwards(count, *urls, "cpu")
    before = brokers.first.cpu()
    took = batch.run()
    each = (brokers.first.cpu() - before) / count * 1000
    report.bound(f"code forwards on {engine}, 64 in flight: CPU each", f"{each:.2f} ms ({count / took:,.0f}/s)", each <= 1.2,
                 "≤ 1.2 ms")


def sqlite(directory, report, rounds, seconds, count, live=1000):
    """Compares few stored sessions with many, on SQLite, in rounds."""
    brokers = Brokers(directory, "sqlite", "sqlite:@DIR@/coatcheck.db")
    try:
        cookies = brokers.sessions(live)
        # A clean stop merges the log, so that the database is a single file.
        brokers.stop_first()
        folder = os.path.join(directory, "sqlite", "many")
        os.makedirs(folder, 0o700)
        path = os.path.join(folder, "coatcheck.db")
        shutil.copy(os.path.join(brokers.stack, "coatcheck.db"), path)
        os.chmod(path, 0o600)
        took = fill(f"sqlite:{path}", count, brokers.keys)
        report.value(f"SQLite: {count:,} sessions put in through the port", f"{took:.0f} s")
        report.value("SQLite: bytes for each session stored, indexes included", f"{os.path.getsize(path) / count:,.0f}")
        brokers.start_first()
        many = brokers.another("many", f"sqlite:{path}")
        few = brokers.check("few", "session check, cache off", brokers.first, cookies)
        stored = brokers.check("many", f"session check, cache off, {count:,} stored", many, cookies)
        for target in (few, stored):
            target.run(2, keep=False)
        results = in_rounds(rounds, [("few", of_target(few, seconds)), ("many", of_target(stored, seconds))])
        compare(report, f"session check, cache off, {count:,} stored : {live:,} stored",
                ratios(results["many"], results["few"]), 0.95, results["many"])
        _, resident = processes.memory(many.pid)
        report.bound(f"memory resident with {count:,} stored", f"{resident:.1f} MiB", resident <= 100, "≤ 100 MiB")
    finally:
        brokers.stop()


def writes(directory, report, seconds, count):
    """Measures the bytes in the write-ahead log for each kind of write, for docs/operate/scale.md."""
    server = PostgreSQL("full_page_writes=on")
    keys = os.path.join(directory, "writes-keys.json")
    try:
        server.sql("CREATE DATABASE load")
        subprocess.run([os.environ["COATCHECK"], "keys", "generate", "--file", keys], check=True, capture_output=True)
        url = server.url("load")
        fill(url, count, keys)
        for what in ("slide", "refresh", "sign-in"):
            server.sql("CHECKPOINT")
            before = server.sql("SELECT pg_current_wal_lsn()")
            done = through_port(what, url, seconds, sessions=20_000)
            # The size of the log is read half a second after the measured time has ended, so only this share of the bytes
            # belongs to the measured time.
            share = seconds / (seconds + 0.5)
            size = int(server.sql(f"SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '{before}')::bigint"))
            report.value(f"PostgreSQL: {what}", f"{done['rate']:,}/s, {size * share / done['operations']:,.0f} bytes of log each, "
                                                f"{done['cpu_us']:.0f} µs of this side")
    finally:
        server.stop()
