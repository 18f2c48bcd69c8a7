"""Floods against a measured broker, and connections that stay open."""

import select
import time


def wait(end, events, milliseconds):
    """Waits for a socket by `poll`, because `select` supports only the first 1,024 descriptors. Returns the events."""
    poll = select.poll()
    poll.register(end, events)
    found = poll.poll(milliseconds)
    return found[0][1] if found else 0


def flood(broker, end, piece, total, seconds=8, stall=2.5, reads=False):
    """Sends `piece` repeatedly, as fast as possible, up to `total` bytes, even after the other side has ended. Returns the
    number of accepted bytes, the answer (if it `reads`), and the reason for its end:
    - `all` or `time`
    - `stalled`: no byte was accepted for a while, and the broker was idle
    - `closed`
    - `swollen`: the broker has used far too much memory
    """
    end.setblocking(False)
    sent, got = 0, bytearray()
    begin = moved = time.monotonic()
    worked = broker.processor_time()
    while True:
        now = time.monotonic()
        if now - moved > stall and broker.processor_time() - worked > stall / 10:
            moved, worked = now, broker.processor_time()
        why = (
            "all" if sent >= total else "time" if now - begin > seconds else "stalled" if now - moved > stall
            else "swollen" if broker.is_swollen else None)
        if why:
            return sent, bytes(got), why
        events = wait(end, select.POLLOUT | (select.POLLIN if reads else 0), 100)
        try:
            if reads and events & (select.POLLIN | select.POLLHUP):
                part = end.recv(1 << 16)
                reads = bool(part)
                got += part
            if events & ~select.POLLIN:
                offset = sent % len(piece)
                sent += end.send(memoryview(piece)[offset : offset + (1 << 18)])
                moved, worked = now, broker.processor_time()
        except BlockingIOError:
            pass
        except OSError:
            return sent, bytes(got), "closed"


def is_open(end):
    """Returns whether the other side is still open and silent."""
    return not wait(end, select.POLLIN, 0)


def settled(ends, seconds=20):
    """Returns the number of connections that stay open, when it has not changed for a second, or after `seconds`."""
    count, since, last = -1, 0.0, time.monotonic() + seconds
    while (now := time.monotonic()) < last:
        found = sum(map(is_open, ends))
        if found != count:
            count, since = found, now
        elif now - since >= 1:
            break
        time.sleep(0.1)
    return count
