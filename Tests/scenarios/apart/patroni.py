"""Three replicas on a Patroni cluster of three nodes, whose leader is killed repeatedly under load (`make prove-patroni`).

The cluster uses `synchronous_mode`, `synchronous_mode_strict`, and one etcd. The brokers list the three nodes, and find the
primary by `target_session_attrs=read-write`. The phones, the provider and the counts are those of chaos.py. The kills alternate
between a whole node (Patroni and PostgreSQL) and PostgreSQL alone.

Before each kill, the standbys stop receiving for a moment, as on a slow network. With --asynchronous, commits do not wait for a
standby. Then commits are lost, and the counts have to show it.
"""

import argparse
import asyncio
import contextlib
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from apart import chaos  # noqa: E402
from support.calls import call  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402
from support.wire import free_port  # noqa: E402

NEEDED = {"patroni": "patroni", "etcd": "etcd-server"}
BINARIES = os.environ.get("POSTGRESQL_BINARIES") or str(sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin"))[-1])
USER = "postgres"
# For how many seconds a node that dies together with its Patroni keeps the leader's key. Patroni allows no shorter time.
TTL = 20
# How many seconds the standbys are behind when the leader dies.
LAG = 1.5


def send(number, *processes):
    for process in processes:
        with contextlib.suppress(OSError):
            os.kill(process, number)


class Node:
    """A node of the cluster: a PostgreSQL and its Patroni."""

    def __init__(self, cluster, number, is_synchronous):
        self.cluster, self.name = cluster, f"node{number}"
        self.port, self.rest = free_port(), free_port()
        self.folder = cluster.place / self.name
        self.folder.mkdir(mode=0o700)
        self.process = None
        (self.folder / "patroni.json").write_text(json.dumps(self.settings(is_synchronous), indent=1))
        shutil.chown(self.folder, USER)
        shutil.chown(self.folder / "patroni.json", USER)

    def settings(self, is_synchronous):
        return {
            "scope": "coatcheck", "name": self.name,
            "restapi": {"listen": f"127.0.0.1:{self.rest}", "connect_address": f"127.0.0.1:{self.rest}"},
            "etcd3": {"hosts": f"127.0.0.1:{self.cluster.etcd}"},
            "bootstrap": {
                "dcs": {
                    "ttl": TTL, "loop_wait": 2, "retry_timeout": 5, "primary_start_timeout": 0,
                    "synchronous_mode": is_synchronous, "synchronous_mode_strict": is_synchronous,
                    "postgresql": {"use_pg_rewind": True, "use_slots": True, "parameters": {"max_connections": 400, "wal_log_hints": "on"}}},
                "initdb": [{"encoding": "UTF8"}, {"locale": "C"}]},
            "postgresql": {
                "listen": f"127.0.0.1:{self.port}", "connect_address": f"127.0.0.1:{self.port}", "bin_dir": BINARIES,
                "data_dir": f"{self.folder}/data", "pgpass": f"{self.folder}/pgpass",
                "authentication": {"superuser": {"username": "coatcheck"}, "replication": {"username": "replicator"}},
                # Only processes are killed, not the machine, so the files are complete even without fsync.
                "parameters": {"unix_socket_directories": str(self.folder), "fsync": "off", "shared_buffers": "64MB"},
                "pg_hba": ["local all all trust", "host all all 127.0.0.1/32 trust", "host replication all 127.0.0.1/32 trust"]}}

    def start(self):
        self.process = self.cluster.start(
            ["patroni", f"{self.folder}/patroni.json"], f"{self.name}.log")

    def server(self):
        """Returns PostgreSQL's first process."""
        return int((self.folder / "data/postmaster.pid").read_text().split()[0])

    def children(self, *options):
        """Returns the child processes of the first one, filtered by options of pgrep."""
        return list(map(int, subprocess.run(["pgrep", "-P", str(self.server()), *options], capture_output=True, text=True).stdout.split()))

    def kill_server(self):
        """Kills PostgreSQL with all its processes."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            parent = self.server()
            os.kill(parent, signal.SIGSTOP)
            send(signal.SIGKILL, parent, *self.children())

    def kill(self):
        """Kills the node: Patroni first, because it would notice the end of its PostgreSQL."""
        if self.process and self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.kill_server()


class Cluster:
    """etcd and three nodes, with the interface of chaos.Database."""

    def __init__(self, is_synchronous):
        # chaos.py removes this folder at the end.
        self.folder = tempfile.TemporaryDirectory(prefix="coatcheck-patroni.")
        self.place = pathlib.Path(self.folder.name)
        shutil.chown(self.place, USER)
        self.place.chmod(0o755)
        self.processes, self.away = [], []
        self.is_synchronous = is_synchronous
        self.etcd, peer = free_port(), free_port()
        self.start([
            "etcd", "--data-dir", f"{self.place}/etcd", "--listen-client-urls", f"http://127.0.0.1:{self.etcd}", "--advertise-client-urls",
            f"http://127.0.0.1:{self.etcd}", "--listen-peer-urls", f"http://127.0.0.1:{peer}", "--initial-advertise-peer-urls",
            f"http://127.0.0.1:{peer}", "--initial-cluster", f"default=http://127.0.0.1:{peer}", "--unsafe-no-fsync"], "etcd.log")
        self.nodes = [Node(self, number, is_synchronous) for number in range(1, 4)]
        for node in self.nodes:
            node.start()
        if not wait_for(300, self.leader_in_step, 0.5):
            raise GaveUp("the cluster did not start: " + self.logs())

    def start(self, command, log):
        """Starts a process as the user of PostgreSQL. The inner setpriv comes last, because a change of the user cancels the
        death signal."""
        with open(self.place / log, "ab") as file:
            process = subprocess.Popen(
                ["setpriv", "--reuid", USER, "--regid", USER, "--clear-groups", "setpriv", "--pdeathsig", "KILL", *command],
                stdout=file, stderr=file, stdin=subprocess.DEVNULL, cwd=self.place, env=os.environ | {"HOME": str(self.place)})
        self.processes.append(process)
        return process

    def logs(self):
        return "\n".join((self.place / f"{name}.log").read_text(errors="replace")[-600:] for name in ("etcd", "node1", "node2", "node3"))

    def members(self):
        """Returns role and state of each node, from the first Patroni that answers."""
        for node in self.nodes:
            answer = call(f"http://127.0.0.1:{node.rest}/cluster", seconds=3)
            if answer.status == 200:
                return {member["name"]: (member["role"], member.get("state")) for member in answer.json["members"]}
        return {}

    def leader(self):
        return next((node for node in self.nodes if self.members().get(node.name, ("", ""))[0] == "leader"), None)

    def leader_in_step(self):
        """Returns the leader if all three nodes run and, in the synchronous mode, one of them is the synchronous standby."""
        found = self.members()
        roles = [role for role, state in found.values() if state in ("running", "streaming")]
        wanted = ["leader", "replica", "sync_standby"] if self.is_synchronous else ["leader", "replica", "replica"]
        return next((node for node in self.nodes if found[node.name][0] == "leader"), None) if sorted(roles) == wanted else None

    def lose_leader(self, is_whole, pause):
        """Kills the leader. Returns the seconds until another node leads, and waits until all three nodes are in step again."""
        old = wait_for(240, self.leader_in_step, 0.5)
        if not old:
            raise GaveUp(f"the cluster is not in step: {self.members()} {self.logs()}")
        self.away.append([time.monotonic(), float("inf")])
        # On one machine, a standby is only microseconds behind the leader. So stop its receiver for a while before the kill, and
        # then kill it, so that the data in its socket is lost.
        receivers = [process for node in self.nodes if node is not old for process in node.children("-f", "walreceiver")]
        send(signal.SIGSTOP, *receivers)
        time.sleep(LAG)
        began = time.monotonic()
        old.kill() if is_whole else old.kill_server()
        send(signal.SIGKILL, *receivers)
        new = wait_for(120, lambda: (found := self.leader()) not in (None, old) and found, 0.2)
        if not new:
            raise GaveUp(f"no other node leads: {self.members()} {self.logs()}")
        took = time.monotonic() - began
        time.sleep(pause)
        if is_whole:
            old.start()
        if not wait_for(240, self.leader_in_step, 0.5):
            raise GaveUp(f"the old leader does not follow: {self.members()} {self.logs()}")
        # The brokers need up to two seconds to connect again, so PostgreSQL counts as away for three more seconds.
        self.away[-1][1] = time.monotonic() + 3
        return old.name, new.name, took

    # -- the interface of chaos.Database

    def both(self):
        hosts = ",".join(f"127.0.0.1:{node.port}" for node in self.nodes)
        return f"postgresql://coatcheck@{hosts}/postgres?target_session_attrs=read-write"

    def is_right(self, _):
        return True

    def __exit__(self, *_):
        for node in self.nodes:
            node.kill()
        for process in self.processes:
            with contextlib.suppress(OSError):
                process.kill()
            process.wait()


class Failovers(chaos.Chaos):
    WANTED = ("leaders killed", "thefts", "use_dpop_nonce")

    def __init__(self, options):
        super().__init__(options)
        self.kills, self.is_synchronous = options.kills, not options.asynchronous

    def make_database(self):
        return Cluster(self.is_synchronous)

    async def wreak(self):
        began = time.monotonic()
        for number in range(self.kills):
            await asyncio.sleep(self.random.uniform(2, 5))
            is_whole = number % 2 == 0
            old, new, took = await asyncio.to_thread(self.database.lose_leader, is_whole, self.random.uniform(0, 3))
            self.tally.events["leaders killed"] += 1
            print(f"# {number + 1}: {old}'s {'node' if is_whole else 'PostgreSQL'} killed, {new} leads after {took:.1f} s", flush=True)
        await asyncio.sleep(5)
        self.seconds = time.monotonic() - began


async def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    options.add_argument("--work", help="a folder for its files, which is kept")
    options.add_argument("--kills", type=int, default=20)
    options.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1 << 30))
    options.add_argument("--phones", type=int, default=16)
    options.add_argument("--pause", type=float, default=0.05, help="the seconds between two calls of a phone, on average")
    options.add_argument("--asynchronous", action="store_true", help="commits wait for no standby")
    options = options.parse_args()
    options.seconds, options.fault = 0, "none"
    missing = [package for program, package in NEEDED.items() if not shutil.which(program)]
    if missing or os.geteuid() != 0:
        raise SystemExit(f"Bail out! {'apt-get install ' + ' '.join(missing) if missing else 'not root'}")
    pwd.getpwnam(USER)
    kept = pathlib.Path(options.work) if options.work else None
    with contextlib.nullcontext(kept) if kept else tempfile.TemporaryDirectory(prefix="coatcheck-failovers.") as work:
        options.work = str(work)
        failovers = Failovers(options)
        for number in (signal.SIGTERM, signal.SIGINT):
            asyncio.get_running_loop().add_signal_handler(number, asyncio.current_task().cancel)
        try:
            await failovers.run()
        finally:
            await failovers.close()
        failovers.report()


if __name__ == "__main__":
    asyncio.run(main())
