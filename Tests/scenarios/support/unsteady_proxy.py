"""A TCP proxy that plays a phone's network: it refuses connections, breaks off requests and answers, is slow, or falls silent
for a while. A seed decides its behaviour. Prints its port, and ends with its input.

    python unsteady_proxy.py TARGET_PORT [SEED [whole-heads]]

With `whole-heads` it never breaks off an answer within its head, because Foundation on Linux crashes on such an answer.
"""

import asyncio
import random
import sys

target, dice = int(sys.argv[1]), random.Random(int(sys.argv[2]) if len(sys.argv) > 2 else 1)
whole_heads = "whole-heads" in sys.argv


async def pump(reader, writer, most, delay):
    """Passes bytes on, at most `most` of them. Returns whether all were passed on."""
    while chunk := await reader.read(65536):
        await asyncio.sleep(delay)
        writer.write(chunk[:most])
        await writer.drain()
        most -= len(chunk)
        if most < 0:
            return False
    return True


async def serve(reader, writer):
    kind = dice.choices(["good", "refused", "cut request", "cut answer", "slow", "silent"], [50, 10, 10, 15, 10, 5])[0]
    size, pause = dice.randrange(1, 1200), dice.random() * 0.3
    if kind == "cut answer" and whole_heads:
        size = dice.choice([0, 700 + size])
    try:
        if kind == "refused":
            writer.transport.abort()
            return
        if kind == "silent":
            await asyncio.sleep(4)
            writer.transport.abort()
            return
        upstream, down = await asyncio.open_connection("127.0.0.1", target)
        delay = pause if kind == "slow" else 0
        up = asyncio.create_task(pump(reader, down, size // 8 if kind == "cut request" else 1 << 40, delay))
        back = asyncio.create_task(pump(upstream, writer, size if kind == "cut answer" else 1 << 40, delay))
        await asyncio.wait({up, back}, return_when=asyncio.FIRST_COMPLETED)
        for task in (up, back):
            task.cancel()
        down.transport.abort()
        writer.transport.abort()
    except OSError:
        writer.transport.abort()


async def main():
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


try:
    asyncio.run(asyncio.wait_for(main(), 600))
except (asyncio.TimeoutError, KeyboardInterrupt):
    pass
