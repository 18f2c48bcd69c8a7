"""Measures the broker side by side with its peers, and prints the ratios. scripts/bench runs it."""

import argparse
import asyncio
import os
import platform
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.parse

import bound
import bulk
import dpop
import imports
import instructions
import load
import processes
import scale
from report import Report

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=4)
    parser.add_argument("--forwards", type=int, default=4000)
    parser.add_argument("--only", default="idle,speed,bulk,forwards,bound,dpop,imports,memory,stored,postgresql")
    parser.add_argument("--sessions", type=int, default=1_000_000)
    parser.add_argument("--write", action="store_true")
    options = parser.parse_args()
    parts = set(options.only.split(","))
    directory = tempfile.mkdtemp(prefix="coatcheck-bench-")
    os.chmod(directory, 0o755)
    report = Report()
    if parts == {"instructions"}:
        return alone(directory, options.write)
    bench = Bench(directory, report)
    try:
        bench.start()
        if "idle" in parts:
            bench.idle()
        if "speed" in parts:
            bench.speed(options.rounds, options.seconds)
        if "bulk" in parts:
            bulk.measure(bench, options.rounds)
        if "forwards" in parts:
            bench.forwards(options.forwards)
        if "bound" in parts:
            bound.measure(directory, report)
        if "dpop" in parts:
            dpop.measure(directory, report)
        if "imports" in parts:
            imports.measure(directory, report)
        if "memory" in parts:
            bench.memory()
        if "stored" in parts:
            scale.sqlite(directory, report, options.rounds, options.seconds, options.sessions)
        if "postgresql" in parts:
            scale.postgresql(directory, report, options.rounds, options.seconds, options.sessions, bench.hello())
        if "writes" in parts:
            scale.writes(directory, report, options.seconds, min(options.sessions, 100_000))
    finally:
        bench.stop()
        shutil.rmtree(directory, ignore_errors=True)
    print(report.text())
    if options.write:
        report.write(os.path.join(ROOT, "docs", "internals", "performance.md"))


def alone(directory, write):
    """Counts instructions. Other programs do not change this count, but valgrind would slow down the other measurements."""
    try:
        instructions.measure(directory, write)
    finally:
        shutil.rmtree(directory, ignore_errors=True)


class Bench:
    def __init__(self, directory, report):
        self.directory, self.report = directory, report
        self.servers = []
        self.stack = os.path.join(directory, "stack")

    def start(self):
        """Starts the upstream, then uses scripts/stack to start sandbox and broker."""
        os.makedirs(os.path.join(self.directory, "static"))
        with open(os.path.join(self.directory, "static", "small.json"), "w") as file:
            file.write(processes.SMALL)
        self.upstream = self.add(processes.upstream(self.directory)).url
        template = os.path.join(self.directory, "coatcheck.yaml")
        with open(os.path.join(ROOT, "Benchmarks", "coatcheck.yaml")) as source, open(template, "w") as file:
            self.bulk_port = processes.free_port()
            text = source.read().replace("@UPSTREAM@", self.upstream)
            file.write(text.replace("@BULK@", f"http://127.0.0.1:{self.bulk_port}"))
        subprocess.run([f"{ROOT}/scripts/stack", "start", self.stack, template], check=True)
        with open(os.path.join(self.stack, "env")) as file:
            self.env = dict(line.strip().split("=", 1) for line in file)
        self.broker = self.find_broker()

    def find_broker(self):
        with open(os.path.join(self.stack, "broker.pid")) as file:
            pid = int(file.read())
        return processes.Foreign("coatcheck", pid, urllib.parse.urlsplit(self.env["BROKER"]).port)

    def add(self, server):
        self.servers.append(server)
        return server

    def stop(self):
        for server in self.servers:
            server.stop()
        subprocess.run([f"{ROOT}/scripts/stack", "stop", self.stack], check=False)

    def cookie(self):
        """Signs a user in, and returns the session's cookie."""
        return load.sign_in(self.env["BROKER"], self.env["SANDBOX"])

    # -- speed

    def speed(self, rounds, seconds):
        sandbox, peers = self.env["SANDBOX"], os.environ["BENCH_PEERS"]
        ports = [processes.free_port() for _ in range(3)]
        hello = self.hello()
        bare = self.add(
            processes.Server("bare-relay", [peers, "relay", str(ports[0]), self.upstream], ports[0], self.directory))
        with open(os.path.join(self.stack, "web-secret")) as file:
            secret = file.read().strip()
        apache = self.add(processes.apache(self.directory, ports[1], self.upstream, sandbox, secret))
        nginx = self.add(self.nginx(ports[2]))
        cookie = load.sign_in(self.env["BROKER"], sandbox)
        backend = f"X-Coatcheck-Backend: {self.env['BACKEND_TOKEN']}"
        apache_cookie = asyncio.run(apache_session(ports[1], sandbox))
        targets = {
            target.name: target
            for target in (
                load.Target("check", "coatcheck, session check", self.broker, "/v1/forward-auth",
                            [f"Cookie: {cookie}", backend]),
                load.Target("hello", "bare Hummingbird, hello", hello, "/"),
                load.Target("apache-check", "mod_auth_openidc, static file", apache, "/small.json",
                            [f"Cookie: {apache_cookie}"]),
                load.Target("nginx-check", "nginx auth_request asking coatcheck", nginx, "/checked/small.json",
                            [f"Cookie: {cookie}"]),
                load.Target("relay", "coatcheck, relay of a small GET", self.broker, "/v1/relay/bench/small",
                            [f"Cookie: {cookie}"]),
                load.Target("bare-relay", "bare Hummingbird + AsyncHTTPClient relay", bare, "/small"),
                load.Target("apache-relay", "mod_auth_openidc, reverse proxy", apache, "/proxied/small",
                            [f"Cookie: {apache_cookie}"]),
                load.Target("nginx-relay", "nginx proxy_pass", nginx, "/small"),
            )
        }
        order = list(targets.values())
        for target in order:
            target.run(1, keep=False)
        for number in range(rounds):
            # Begin each round with another program, so that a position in the order favours none of them.
            for target in order[number % len(order):] + order[: number % len(order)]:
                print(f"bench: round {number + 1} of {rounds}, {target.title}", file=sys.stderr)
                target.run(seconds)
        self.report.speeds(order)
        row = self.report.ratio
        check, relay = targets["check"], targets["relay"]
        row("session check", check, targets["apache-check"], 3.3)
        row("session check", check, targets["hello"], 1.0)
        row("relay of a small GET", relay, targets["bare-relay"], 1.5)
        row("relay of a small GET", relay, targets["apache-relay"], 1.5)
        row("relay of a small GET", relay, targets["nginx-relay"], 0.33)
        row("nginx auth_request asking coatcheck", targets["nginx-check"], targets["apache-check"], None, "through nginx auth_request")
        anonymous, resident = processes.memory(self.broker.pid)
        self.report.value("memory after this load, anonymous", f"{anonymous:.1f} MiB")
        self.report.value("memory after this load, resident", f"{resident:.1f} MiB")

    def hello(self):
        """Starts the bare server."""
        port = processes.free_port()
        return self.add(
            processes.Server("hello", [os.environ["BENCH_PEERS"], "hello", str(port)], port, self.directory))

    def nginx(self, port):
        upstream = urllib.parse.urlsplit(self.upstream).netloc
        broker = urllib.parse.urlsplit(self.env["BROKER"]).netloc
        return processes.nginx("nginx", self.directory, port, f"""
  upstream small {{ server {upstream}; keepalive 128; keepalive_requests 100000000; }}
  upstream broker {{ server {broker}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port};
    location / {{ proxy_pass http://small; proxy_http_version 1.1; proxy_set_header Connection ""; }}
    location /checked/ {{ auth_request /ask; alias {self.directory}/static/; }}
    location = /ask {{
      internal;
      proxy_pass http://broker/v1/forward-auth;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_set_header Host {broker};
      proxy_pass_request_body off;
      proxy_set_header Content-Length "";
      proxy_set_header X-Coatcheck-Backend {self.env['BACKEND_TOKEN']};
    }}
  }}""")

    # -- code forwards

    def forwards(self, count):
        urls = self.env["BROKER"], self.env["SANDBOX"]
        load.Forwards(300, *urls, "warm").run()
        batch = load.Forwards(count, *urls, "cpu")
        before = self.broker.cpu()
        seconds = batch.run()
        each = (self.broker.cpu() - before) / count * 1000
        self.report.bound("code forwards, 64 in flight: CPU each", f"{each:.2f} ms", each <= 0.7, "≤ 0.7 ms")
        self.report.value("code forwards, 64 in flight: rate", f"{count / seconds:.0f}/s, sandbox and load on the same cores")
        batch = load.Forwards(count // 2, *urls, "sync")
        summary = os.path.join(self.directory, "strace.txt")
        strace = subprocess.Popen(
            ["strace", "-f", "-c", "-e", "trace=fdatasync,fsync", "-o", summary, "-p", str(self.broker.pid)],
            stderr=subprocess.DEVNULL)
        time.sleep(1)
        if strace.poll() is not None:
            self.report.value("fdatasync per 201", "not counted: strace could not attach")
            return
        batch.run()
        strace.send_signal(signal.SIGINT)
        strace.wait()
        with open(summary) as file:
            calls = sum(int(line.split()[3]) for line in file if re.search(r"\bf(data)?sync$", line))
        each = calls / (count // 2)
        self.report.bound("fdatasync per 201", f"{each:.3f}", each <= 0.2, "≤ 0.2")

    # -- memory for each kind of object

    def memory(self, sessions=10_000, listeners=2_000):
        """Measures the memory of a cached session and of an event listener."""
        urls = self.env["BROKER"], self.env["SANDBOX"]
        cookies = self.sessions(sessions)
        self.restart()
        load.sign_in(*urls)
        time.sleep(2)
        before, _ = processes.memory(self.broker.pid)
        load.touch(cookies, self.env["BROKER"], self.env["BACKEND_TOKEN"])
        cached, _ = processes.memory(self.broker.pid)
        # After this pause, the cached sessions have expired. SQLite's page caches, which the first reads have filled, remain.
        # They are in `left`, so the difference leaves them out.
        time.sleep(15)
        left, _ = processes.memory(self.broker.pid)
        load.touch(cookies, self.env["BROKER"], self.env["BACKEND_TOKEN"])
        after, _ = processes.memory(self.broker.pid)
        each = (after - left) * 1024 / sessions
        self.report.bound("memory per cached session", f"{each:.2f} KiB", each <= 3, "≤ 3 KiB")
        self.report.value(
            f"{sessions:,} sessions read for the first time, SQLite's page caches included, and 15 s later",
            f"{cached - before:.0f} and {left - before:.0f} MiB more than before")
        self.restart()
        load.sign_in(*urls)
        time.sleep(2)
        before, _ = processes.memory(self.broker.pid)
        with load.Listeners(cookies[:listeners], self.env["BROKER"]) as held:
            time.sleep(1)
            after, _ = processes.memory(self.broker.pid)
            each = (after - before) * 1024 / held.count
            self.report.bound("memory per event listener", f"{each:.1f} KiB", each <= 20, "≤ 20 KiB")

    def sessions(self, count):
        """Makes sessions, and returns their cookies."""
        return load.Forwards(count, self.env["BROKER"], self.env["SANDBOX"], f"s{time.monotonic_ns()}-").run_for_cookies()

    def restart(self):
        subprocess.run([f"{ROOT}/scripts/stack", "restart", self.stack], check=True)
        self.broker = self.find_broker()

    def end_broker(self):
        os.kill(self.broker.pid, signal.SIGTERM)
        while processes.is_alive(self.broker.pid):
            time.sleep(0.05)

    # -- idle

    def idle(self):
        """Measures the time from a start to the first answer, and the memory of a broker at rest after one login."""
        times = []
        for _ in range(5):
            times.append(self.first_answer())
        first = statistics.median(times)
        self.report.bound("start to first answer", f"{first * 1000:.0f} ms", first <= 0.1, "≤ 100 ms")
        self.restart()
        load.sign_in(self.env["BROKER"], self.env["SANDBOX"])
        time.sleep(3)
        anonymous, resident = processes.memory(self.broker.pid)
        self.report.bound("memory idle, anonymous", f"{anonymous:.1f} MiB", anonymous <= 16, "≤ 16 MiB")
        self.report.bound("memory idle, resident", f"{resident:.1f} MiB", resident <= 56, "≤ 56 MiB")

    def first_answer(self):
        """Starts a separate broker with a copy of the configuration, on a new store. Returns the seconds until its first 200."""
        folder = tempfile.mkdtemp(dir=self.directory)
        os.chmod(folder, 0o700)
        port, management = processes.free_port(), processes.free_port()
        with open(os.path.join(self.stack, "coatcheck.yaml")) as file:
            text = file.read().replace(self.stack, folder)
        text = text.replace(f":{self.broker.port}", f":{port}")
        text = text.replace(f":{urllib.parse.urlsplit(self.env['MANAGEMENT']).port}", f":{management}")
        with open(os.path.join(folder, "coatcheck.yaml"), "w") as file:
            file.write(text)
        shutil.copy(os.path.join(self.stack, "keys.json"), folder)
        environment = dict(os.environ, EXAMPLE_CLIENT_SECRET="unused-here-unused-here-unused-here")
        begin = time.monotonic()
        with open(os.path.join(self.directory, "first-answer.log"), "ab") as log:
            process = subprocess.Popen(
                [os.environ["COATCHECK"], "serve", "--config", os.path.join(folder, "coatcheck.yaml")],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment)
        try:
            while time.monotonic() - begin < 10:
                try:
                    with socket.create_connection(("127.0.0.1", port), 1) as connection:
                        connection.sendall(f"GET /v1/providers HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
                        if connection.recv(64).startswith(b"HTTP/1.1 200"):
                            return time.monotonic() - begin
                except OSError:
                    pass
                time.sleep(0.002)
            raise SystemExit("bench: a fresh broker did not answer within 10 s")
        finally:
            process.terminate()
            process.wait()


async def apache_session(port, sandbox_url):
    """Signs in at mod_auth_openidc through the sandbox; returns the session's cookie."""
    apache, sandbox = load.Connection(f"http://127.0.0.1:{port}"), load.Connection(sandbox_url)
    status, fields, _ = await apache.request("GET", "/small.json", {"Accept": "text/html"})
    location = urllib.parse.urlsplit(dict(fields)["location"])
    state = load.cookies(fields)
    _, fields, _ = await sandbox.request("GET", f"{location.path}?{location.query}&sandbox_user=ana")
    callback = urllib.parse.urlsplit(dict(fields)["location"])
    status, fields, data = await apache.request("GET", f"{callback.path}?{callback.query}", {"Cookie": state})
    session = [part for part in load.cookies(fields).split("; ") if part.startswith("mod_auth_openidc_session=")]
    if status != 302 or not session:
        raise SystemExit(f"bench: mod_auth_openidc made no session: {status} {data!r}")
    return session[0]


if __name__ == "__main__":
    main()
