"""The replicas and the database, with clocks that can be stepped."""

import asyncio
import pathlib
import tempfile
import time

from ..broker import Broker
from ..clock import Clock
from ..database import Database as PostgreSQL
from ..wire import free_port
from .settings import BINDINGS, IDLE, LIFE


class Replica(Broker):
    def __init__(self, chaos, number):
        # The replica's number, the number of its starts, and the times of its kills by the number of the start.
        self.number, self.life, self.deaths = number, 0, {}
        # The time until which the clock was wrong, or infinity while it is wrong.
        self.wrong_until = float("-inf")
        self.clock_is = 0
        first = chaos.replicas[0] if chaos.replicas else None
        through_gate = f"{chaos.gate.url}/{number}/oidc/token"
        super().__init__(
            chaos, chaos.sandbox, clock=Clock(chaos, f"clock-{number}"), like=first, name=f"replica-{number}", start=False,
            settings={
                "server": {"drain_delay": "0s"} | ({"public_url": first.url} if first else {}),
                "store": {"url": chaos.database.both()},
                "providers": {"oidc": {"endpoints": {"token": through_gate, "refresh": through_gate}, "clients": {
                    name: {"client_id": f"{name}-app", "auth": "none", "scope": "openid email offline_access", "binding": binding,
                           "redirect_uris": [f"com.example.{name}:/cb"]} for name, binding in BINDINGS.items()} | {
                    name: {"client_id": f"{name}-app", "auth": "none", "scope": "openid email offline_access",
                           "session": {"idle": f"{idle}s"} | ({"absolute": f"{LIFE[name]}s"} if name in LIFE else {}), "redirect_uris": [f"com.example.{name}:/cb"]}
                    for name, idle in IDLE.items()}}},
                "backends": {"orders": {"original_request": True}},
                "upstreams": {
                    "api": {"base_url": f"{chaos.sandbox.url}/api", "provider": "oidc", "allow": ["GET /private/**"]},
                    "closed": {"base_url": f"http://127.0.0.1:{free_port()}", "provider": "oidc", "allow": ["GET /**"]}}})

    def start(self):
        self.life += 1
        self.spawn()

    def kill(self):
        self.deaths[self.life] = time.monotonic()
        self.stop()

    async def is_up(self):
        return await asyncio.to_thread(self.is_ready)

    def set_clock(self, seconds):
        self.clock.set(seconds)
        self.clock_is = seconds
        self.wrong_until = float("inf") if seconds else time.monotonic() + 1

    def is_right(self, since):
        """Returns whether the clock has been right since that time."""
        return self.wrong_until < since


class Database(PostgreSQL):
    """PostgreSQL and its standby, and the times when they were away."""

    def __init__(self, fault):
        # The database's servers run as another user, who has to read the clock.
        self.folder = tempfile.TemporaryDirectory(prefix="coatcheck-chaos-clock.")
        pathlib.Path(self.folder.name).chmod(0o755)
        self.clock = Clock(None, folder=self.folder.name)
        # The time until which the clock was wrong, or infinity while it is wrong.
        self.wrong_until = float("-inf")
        self.clock_is = 0
        super().__init__(
            "--standby", *(["synchronous_standby_names="] if fault == "unsynchronous" else []), clock=self.clock)
        self.away = []
        self.lock = asyncio.Lock()

    def set_clock(self, seconds):
        self.clock.set(seconds)
        self.clock_is = seconds
        # Replicas ask for the database's time every two seconds, so the clock counts as wrong for some seconds after a
        # correction.
        self.wrong_until = float("inf") if seconds else time.monotonic() + 5

    def is_right(self, since):
        """Returns whether the clock has been right since that time."""
        return self.wrong_until < since

    def both(self):
        one, other = self.ports
        return f"postgresql://coatcheck@127.0.0.1:{one},127.0.0.1:{other}/postgres?target_session_attrs=read-write"

    async def suffer(self, command):
        async with self.lock:
            self.away.append([time.monotonic(), float("inf")])
            await asyncio.wait_for(asyncio.to_thread(self.do, command), 300)
            # The replicas connect again within two seconds, so PostgreSQL counts as away for three more.
            self.away[-1][1] = time.monotonic() + 3
