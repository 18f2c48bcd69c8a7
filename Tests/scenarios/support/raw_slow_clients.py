"""Slow and silent clients, which are disconnected while others are served (SEC-105)."""

import concurrent.futures
import resource
import socket
import threading
import time

from raw_target import FORWARD_AUTH, GETS, LOGINS, PORT, RELAY, ROUTES, SESSION, connect, exchange, options, verdict
from wire import answers, read_all


class Normal(threading.Thread):
    """An honest client, on a new connection each time. It records the slowest answer."""

    def __init__(self):
        super().__init__(daemon=True)
        self.stop, self.served, self.slow, self.wrong = threading.Event(), 0, [], []
        self.begin = time.monotonic()

    def run(self):
        routes = well_formed()
        while not self.stop.wait(0.2):
            begin = time.monotonic()
            try:
                found, _ = exchange(routes[self.served % len(routes)])
            except OSError as error:
                found = [(str(error), {}, b"")]
            # 40,000 pipelined requests arrive at once, while other tests run, so waiting for seconds is normal on a small
            # machine. A starved client would wait as long as the slow clients stay.
            if time.monotonic() - begin >= 8:
                self.slow.append(f"{time.monotonic() - begin:.1f} s at {begin - self.begin:.1f} s")
            self.served += 1
            if [answer[0] for answer in found] != [200]:
                self.wrong.append([answer[0] for answer in found])


def well_formed():
    """One request for each route that can answer 200."""
    made = [route.request("Connection: close") for route in GETS]
    return made + [RELAY.request("Connection: close", "Content-Length: 2", body="{}")] * (RELAY in ROUTES)


def trickle(data, pause):
    """Sends `data` one byte at a time, then waits until the other side ends. Returns the answers and the seconds, or None instead
    of the seconds if the connection stays open.
    """
    end, begin = connect(), time.monotonic()
    end.settimeout(pause)
    got, index = b"", 0
    while time.monotonic() - begin < 150:
        try:
            if index < len(data):
                end.sendall(data[index : index + 1])
                index += 1
            part = end.recv(4096)
            if not part:
                break
            got += part
        except socket.timeout:
            continue
        except OSError:
            break
    else:
        return answers(got), None
    return answers(got), time.monotonic() - begin


def silent(data):
    end, begin = connect(), time.monotonic()
    if data:
        end.sendall(data)
    got, how = read_all(end, 150)
    return answers(got), time.monotonic() - begin if how != "open" else None


def server_holds(end):
    """Returns whether the broker still has the connection. This client cannot see the connection's end, because the kernel
    still has a part of the answer.
    """
    here, there = end.getsockname()[1], int(PORT)
    with open("/proc/net/tcp") as table:
        for line in table:
            words = line.split()
            if words[1].endswith(f":{there:04X}") and words[2].endswith(f":{here:04X}"):
                return words[3] == "01"
    return False


def slow_reader(data):
    """Does not read, so the broker must drop the unread answer. Returns the answers, if the broker ended the
    connection within 10 s, and the seconds until that end.
    """
    end, begin = connect(receive_buffer=4096), time.monotonic()
    end.settimeout(1)
    sent = 0
    while time.monotonic() - begin < 150:
        try:
            if sent < len(data):
                sent += end.send(data[sent : sent + (1 << 16)])
            else:
                time.sleep(0.5)
        except socket.timeout:
            pass
        except OSError:
            break
        if not server_holds(end):
            break
    else:
        return [], None
    after = time.monotonic() - begin
    return (answers(read_all(end, 2)[0]) if after < 10 else []), after


def slow_clients():
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    idle_sockets()
    normal = Normal()
    normal.start()
    long_body = b'{"provider":"' + b"x" * 900
    length = "Content-Length: 60000"
    jobs = [
        # name, function, its arguments, the allowed statuses, the earliest and the latest second of the end
        ("nothing sent at all", silent, (b"",), [[]], 50, 110),
        ("half a request line", silent, (b"GET /v1/ses",), [[], [400], [408]], 50, 110),
        ("half a head", silent, (SESSION.request()[:-2],), [[], [400], [408]], 50, 110),
        ("a head, one byte every 2 s", trickle, (SESSION.request("X-A: " + "b" * 4000), 2), [[], [400], [408]], 50, 110),
        ("logins: half a body", silent, (LOGINS.request(length, body=long_body),), [[408]], 25, 75),
        ("logins: a body, one byte every 2 s", trickle_body(LOGINS, length, long_body), (), [[408]], 25, 75),
        ("logins: chunks, one every 2 s", trickle_body(LOGINS, "Transfer-Encoding: chunked", b"1\r\nx\r\n" * 200), (), [[408]], 25, 75),
        ("session: half a body", silent, (SESSION.request(length, body=long_body),), [[200]], 0, 15),
        ("forward-auth: half a body", silent, (FORWARD_AUTH.request(length, body=long_body),), [[200]], 0, 15),
        ("relay: half a body", silent, (RELAY.request(length, body=long_body),), [[408], [400]], 25, 110),
        ("relay: a whole answer never read", slow_reader,
         (RELAY.request(line="GET /v1/relay/api/bytes/200000000"),), [[]], 20, 130),
        ("session: 20,000 answers never read", slow_reader, (SESSION.request() * 20_000,), [[]], 20, 130),
        ("forward-auth: 20,000 answers never read", slow_reader, (FORWARD_AUTH.request() * 20_000,), [[]], 20, 130),
        ("an answered connection, then silence", silent, (SESSION.request(),), [[200]], 50, 110),
        ("an answered connection, then half a head", silent, (SESSION.request() + b"GET /",), [[200], [200, 400], [200, 408]], 50, 110),
    ]
    jobs = [job for job in jobs if not options.without or not job[0].startswith(options.without)]
    with concurrent.futures.ThreadPoolExecutor(len(jobs)) as pool:
        work = [(job, pool.submit(job[1], *job[2])) for job in jobs]
        for (name, _, _, wanted, earliest, latest), done in work:
            found, after = done.result()
            statuses = [answer[0] for answer in found]
            verdict(after is not None and earliest <= after <= latest and statuses in wanted,
                    f"slow client, {name} → {'never disconnected' if after is None else f'disconnected after {after:.0f} s'}, {statuses}", f"expected one of {wanted} in {earliest} to {latest} s")
    normal.stop.set()
    normal.join(15)
    verdict(not normal.wrong and not normal.slow and normal.served > 50,
            f"{normal.served} requests of an honest client while slow clients hold connections → each is served in less than 8 s",
            f"wrong: {normal.wrong[:5]}, slow: {normal.slow[:5]}")


def trickle_body(route, field, body):
    def work():
        end, begin = connect(), time.monotonic()
        end.sendall(route.request(field))
        end.settimeout(2)
        got, index, step = b"", 0, 6 if body.startswith(b"1\r\n") else 1
        while time.monotonic() - begin < 150:
            try:
                end.sendall(body[index : index + step])
                index += step
                part = end.recv(4096)
                if not part:
                    return answers(got), time.monotonic() - begin
                got += part
            except socket.timeout:
                continue
            except OSError:
                return answers(got), time.monotonic() - begin
        return answers(got), None

    return work


def idle_sockets():
    sockets = []
    try:
        for _ in range(options.idle):
            sockets.append(connect())
        times, routes = [], well_formed()
        for index in range(60):
            begin = time.monotonic()
            found, _ = exchange(routes[index % len(routes)])
            times.append(time.monotonic() - begin if [answer[0] for answer in found] == [200] else 99)
        verdict(max(times) < 5, f"{len(sockets)} idle sockets → 60 requests are served, the slowest in {max(times) * 1000:.0f} ms")
    except OSError as error:
        verdict(False, f"{options.idle} idle sockets → 60 requests are served", f"{error} after {len(sockets)}")
    finally:
        for end in sockets:
            end.close()
