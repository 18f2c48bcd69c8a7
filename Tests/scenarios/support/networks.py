"""Clients with their own IPv6 addresses, for Tests/scenarios/attacks/networks.sh. The script runs in a network namespace where
2001:db8::/32 is local.

    networks.py logins --networks NET[,NET…] --each N      starts N logins from each /64 of the networks, one after the other
    networks.py connections --networks NET[,NET…] --each N opens N silent connections from each /64, until stdin ends
    networks.py phones --networks NET --count N            signs in N phones, each with its own /64
    networks.py user --address ADDRESS                     signs in one user

Prints one JSON object; `connections` prints it after all attempts.
"""

import argparse
import asyncio
import collections
import ipaddress
import itertools
import json
import socket
import sys
import time
import urllib.parse

options = argparse.ArgumentParser()
options.add_argument("what", choices=["logins", "connections", "phones", "user"])
options.add_argument("--port", type=int, required=True)
options.add_argument("--host", required=True)
options.add_argument("--networks", default="")
options.add_argument("--each", type=int, default=1)
options.add_argument("--count", type=int, default=1)
options.add_argument("--address", default="")
options.add_argument("--at-once", type=int, default=48)
options = options.parse_args()

IPV6_FREEBIND = 78
BROKER = ("::1", options.port)


def addresses(count=None):
    """Returns an iterator over one address in each /64 of the networks, one network after the other."""
    nets = [ipaddress.ip_network(text) for text in options.networks.split(",")]
    return itertools.islice((str(part[1]) for net in nets for part in net.subnets(new_prefix=64)), count)


def client_socket(address):
    end = socket.socket(socket.AF_INET6)
    end.setblocking(False)
    end.setsockopt(socket.IPPROTO_IPV6, IPV6_FREEBIND, 1)
    end.bind((address, 0))
    return end


async def connect(address):
    end = client_socket(address)
    try:
        await asyncio.get_running_loop().sock_connect(end, BROKER)
    except OSError:
        end.close()
        raise
    return end


async def exchange(reader, writer, method, path, host, body=None):
    """One request on a connection: status, fields, body."""
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}"]
    data = b""
    if body is not None:
        data = json.dumps(body).encode()
        lines += ["Content-Type: application/json", f"Content-Length: {len(data)}"]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode() + data)
    head = (await reader.readuntil(b"\r\n\r\n")).decode("latin1").split("\r\n")
    fields = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
    length = int(fields.get("content-length", 0))
    return int(head[0].split()[1]), fields, await reader.readexactly(length) if length else b""


async def ask(address, path, body):
    """Makes one request from an address. Returns its status (0 if it was refused or unanswered), and its JSON."""
    try:
        async with asyncio.timeout(120):
            reader, writer = await asyncio.open_connection(sock=await connect(address))
            try:
                status, _, data = await exchange(reader, writer, "POST", path, options.host, body)
            finally:
                writer.close()
    except (OSError, EOFError, TimeoutError):
        return 0, {}
    return status, json.loads(data) if data.startswith(b"{") else {}


async def consent(url):
    """Plays the user's browser at the provider, and returns the callback's URL."""
    for hop in range(5):
        target = urllib.parse.urlsplit(url)
        query = target.query + ("&sandbox_user=ana" if hop == 0 else "")
        reader, writer = await asyncio.open_connection(target.hostname, target.port)
        _, fields, _ = await exchange(reader, writer, "GET", f"{target.path}?{query}", target.netloc)
        writer.close()
        url = fields["location"]
        if not url.startswith("http://127.0.0.1"):
            return url
    raise ValueError(url)


async def start(address):
    return await ask(address, "/v1/logins", {"provider": "oidc", "client": "android"})


async def finish(address, login):
    callback = await consent(login["authorization_url"])
    return await ask(address, "/v1/sessions", {"callback_url": callback, "login_token": login["login_token"]})


async def many(work, items):
    """Does the work for each item, a fixed number of them at the same time."""
    places = asyncio.Semaphore(options.at_once)

    async def one(item):
        async with places:
            return await work(item)

    return await asyncio.gather(*(one(item) for item in items))


async def logins():
    async def one(address):
        return [(await start(address))[0] for _ in range(options.each)]

    found = collections.Counter(status for statuses in await many(one, addresses()) for status in statuses)
    return {str(status): count for status, count in sorted(found.items())}


async def connections():
    async def one(address):
        ends = []
        for _ in range(options.each):
            try:
                async with asyncio.timeout(5):
                    ends.append(await connect(address))
            except (OSError, TimeoutError):
                pass
        return ends

    ends = [end for some in await many(one, addresses()) for end in some]
    await asyncio.sleep(2)
    standing = 0
    for end in ends:
        try:
            standing += end.recv(1) != b""
        except BlockingIOError:
            standing += 1
        except OSError:
            pass
    print(json.dumps({"tried": options.each * len(list(addresses())), "standing": standing}), flush=True)
    await asyncio.to_thread(sys.stdin.read)


async def phones():
    began = time.monotonic()
    everyone = list(addresses(options.count))
    started = await many(start, everyone)
    waited = time.monotonic() - began

    async def one(pair):
        address, (status, login) = pair
        return (await finish(address, login))[0] if status == 201 else status

    found = collections.Counter(await many(one, zip(everyone, started)))
    return {
        "phones": len(everyone), "started": sum(status == 201 for status, _ in started), "signed_in": found[201],
        "others": {str(status): count for status, count in found.items() if status != 201},
        "seconds": round(time.monotonic() - began, 1), "seconds_to_start": round(waited, 1)}


async def user():
    began = time.monotonic()
    status, login = await start(options.address)
    if status == 201:
        status, _ = await finish(options.address, login)
    return {"status": status, "seconds": round(time.monotonic() - began, 2)}


found = asyncio.run(globals()[options.what]())
if found is not None:
    print(json.dumps(found))
