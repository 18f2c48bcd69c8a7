"""Measures large bodies in both directions, through the relay and through nginx, and small relayed calls during a download."""

import os
import socket
import statistics
import subprocess
import time
import urllib.parse

import processes

SIZE = 100 << 20
# The number of small calls. More calls give a more exact 99th percentile.
CALLS = 2000


def measure(bench, rounds):
    """Reports the CPU for 100 MiB in each direction, compared with nginx, and the 99th percentile of small calls, alone and
    during a download."""
    directory = bench.directory
    files = os.path.join(directory, "bulk")
    os.makedirs(files)
    path = os.path.join(files, "large.bin")
    with open(path, "wb") as file:
        file.write(os.urandom(1 << 20) * (SIZE >> 20))
    with open(os.path.join(files, "small.json"), "w") as file:
        file.write('{"id":1,"name":"small"}')
    upstream = bench.bulk_port
    bench.add(processes.nginx("bulk", directory, upstream, f"""
  server {{
    listen 127.0.0.1:{upstream}; root {files}; client_max_body_size 0;
    location /up/ {{ dav_methods PUT; create_full_put_path on; }}
  }}"""))
    port = processes.free_port()
    nginx = bench.add(processes.nginx("bulk-proxy", directory, port, f"""
  upstream bulk {{ server 127.0.0.1:{upstream}; keepalive 128; keepalive_requests 100000000; }}
  server {{
    listen 127.0.0.1:{port}; client_max_body_size 0;
    location / {{
      proxy_pass http://bulk; proxy_http_version 1.1; proxy_set_header Connection "";
      proxy_request_buffering off;
    }}
  }}"""))
    ours = bench.env["BROKER"] + "/v1/relay/bulk"
    cookie = ["-H", f"Cookie: {bench.cookie()}"]
    places = {"broker": (bench.broker, ours, cookie), "nginx": (nginx, f"http://127.0.0.1:{port}", [])}
    transfers = {
        "100 MiB down": lambda base, more: ["-o", os.devnull, *more, f"{base}/large.bin"],
        "100 MiB up": lambda base, more: ["-o", os.devnull, *more, "-H", "Expect:", "-T", path, f"{base}/up/{os.getpid()}"],
    }
    for title, arguments in transfers.items():
        spent = {name: [] for name in places}
        for _ in range(rounds):
            for name, (server, base, more) in places.items():
                before = server.cpu()
                code = curl(arguments(base, more))
                if code not in ("200", "201", "204"):
                    raise SystemExit(f"bench: {title} through {name}: {code}")
                spent[name].append(server.cpu() - before)
        mine, theirs = statistics.median(spent["broker"]), statistics.median(spent["nginx"])
        bench.report.bound(
            f"{title}: CPU, broker : nginx", f"{mine * 1000:.0f} and {theirs * 1000:.0f} ms, {mine / theirs:.1f} ×",
            mine <= 3 * theirs, "≤ 3 ×")
    target = urllib.parse.urlsplit(ours)
    head = f"GET {target.path}/small.json HTTP/1.1\r\nHost: {target.netloc}\r\n{cookie[1]}\r\n\r\n".encode()
    alone, beside = [], []
    for _ in range(rounds):
        alone.append(tail(target, head))
        download = subprocess.Popen(
            ["sh", "-c", 'while :; do curl -sS -o /dev/null --limit-rate 200M -H "$1" "$2" || exit; done', "sh", cookie[1],
             f"{ours}/large.bin"])
        try:
            beside.append(tail(target, head))
        finally:
            download.kill()
            download.wait()
    one, other = statistics.median(alone), statistics.median(beside)
    bench.report.bound(
        "p99 of a small GET through the relay, alone and beside a download", f"{one:.2f} and {other:.2f} ms",
        other <= 2 * one, "≤ 2 ×")


def curl(arguments):
    done = subprocess.run(["curl", "-sS", "-w", "%{http_code}", *arguments], capture_output=True, text=True)
    return done.stdout.strip() or done.stderr.strip()


def tail(target, head):
    """Makes the calls one after the other, and returns the 99th percentile of their times, in milliseconds."""
    times = []
    with socket.create_connection((target.hostname, target.port)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(CALLS):
            begun = time.perf_counter()
            connection.sendall(head)
            answer = b""
            while not answer.endswith(b"}"):
                piece = connection.recv(65_536)
                if not piece:
                    raise SystemExit("bench: the relay hung up")
                answer += piece
            times.append(time.perf_counter() - begun)
    return sorted(times)[int(len(times) * 0.99)] * 1000
