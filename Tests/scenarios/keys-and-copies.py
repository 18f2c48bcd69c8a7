"""A session with a presence key and tokens for other APIs: after key rotation, resealing, backups and copies into other stores
both are usable. The provider's calls show no lost token, and the user's second key still proves itself.
"""

import contextlib
import json
import signal
import sqlite3
import subprocess

from support.harness import ADMIN, COATCHECK, Database, Sandbox, call, main, sha256, wait_for
from support.presence import Upstream, User, paying
from support.replicas import psql
from support.step_up import told

APIS = ("orders", "ledger")


class Stage:
    """A broker, and a user whose session has both."""

    def __init__(self, case):
        self.case, self.sandbox, self.upstream = case, Sandbox(case), Upstream()
        self.broker = paying(case, self.sandbox, self.upstream, start=False)
        self.broker.configure(
            management={"admin_tokens": [{"name": "keeper", "sha256": sha256(ADMIN), "may": ["read", "maintain"]}]},
            upstreams={name: {
                "base_url": f"{self.sandbox.url}/api/audience/{name}", "provider": "oidc", "allow": ["ANY /**"], "token": {"audience": name}}
                for name in APIS})
        self.broker.start()
        self.secret = case.folder / "token"
        self.secret.write_text(ADMIN + "\n")
        self.secret.chmod(0o600)
        self.user = User(self.broker)
        case.same(201, self.user.phone.sign_in().status, "a session")
        case.same("200", told(self.user.register()), "with a presence key")
        case.same(["200"] * 2, self.relayed(), "and tokens for two APIs")
        self.calls = self.sandbox.calls("oidc/refresh")
        case.same(2, self.calls, "of a call each")

    def relayed(self):
        return [told(self.user.send("GET", f"/v1/relay/{name}/echo")) for name in APIS]

    def uses_both(self, where):
        """A presence key that proves, and rows that are used."""
        # A restarted broker gives another nonce, and the phone learns it before its user is prompted.
        self.user.send("GET", "/v1/session")
        asked, paid = self.user.asked, self.upstream.count
        self.case.same(("200", 1, 1), (told(self.user.pay()), self.user.asked - asked, self.upstream.count - paid), f"{where}: the user pays, asked once")
        stranger = User(self.broker)
        stranger.phone = self.user.phone
        self.case.same("401 presence_invalid key", told(stranger.pay()), f"{where}: another key does not pay")
        self.case.same((["200"] * 2, self.calls), (self.relayed(), self.sandbox.calls("oidc/refresh")), f"{where}: the APIs' tokens are used, without a call")

    def run(self, *command, managed=True):
        more = ["--management", self.broker.management, "--token-file", self.secret] if managed else []
        done = subprocess.run([COATCHECK, *command, *more], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def succeeds(self, sentence, *command, managed=True):
        status, said = self.run(*command, managed=managed)
        self.case.same(0, status, sentence)
        if status:
            self.case.verdict(False, "it says why not", said)
        return said

    def keys(self):
        return call(f"{self.broker.management}/admin/v1/keys", Authorization=f"Bearer {ADMIN}").json["items"]

    def sealed_by(self):
        """The keys that the rows of both name."""
        rows = self.broker.query("SELECT sealed_key FROM audience_tokens UNION SELECT presence_key FROM sessions WHERE presence IS NOT NULL")
        return sorted(key for key, in rows)


def keys(case):
    """A new key, resealing of all values, and the removal of the old key."""
    stage = Stage(case)
    broker, file = stage.broker, stage.broker.folder / "keys.json"
    old = next(key["id"] for key in stage.keys() if key["use"] == "seals")
    case.same([old], stage.sealed_by(), "both are sealed by the ring's key")
    stage.succeeds("a rotation", "keys", "rotate", "--file", file, "--now")
    case.verdict(wait_for(20, lambda: next(key["id"] for key in stage.keys() if key["use"] == "seals") != old), "another key seals")
    new = next(key["id"] for key in stage.keys() if key["use"] == "seals")
    stage.uses_both("before they are sealed again")
    case.same([old], stage.sealed_by(), "both are what they were")
    status, said = stage.run("keys", "remove", old, "--file", file)
    case.same(1, status, "the key that they need is not removed")
    stage.succeeds("everything is sealed again", "keys", "reseal")
    case.same([new], stage.sealed_by(), "both by the new key")
    # Answers of exchanges can be repeated for ten minutes, and need their key for that.
    with contextlib.closing(broker.database()) as database:
        database.execute("UPDATE exchanges SET created_at = created_at - 3600000")
    case.same([0], [key["values"] for key in stage.keys() if key["id"] == old], "nothing needs the old key")
    broker.stop(signal.SIGTERM)
    # A minute after the change, no process seals with the old key any more. The file's times are changed to an earlier moment.
    ring = json.loads(file.read_text())
    for key in ring["keys"]:
        key.pop("seals_from", None)
        key["created"] = "2026-01-01T00:00:00Z"
    file.write_text(json.dumps(ring))
    stage.succeeds("the old key is removed", "keys", "remove", old, "--file", file, "--config", broker.configuration, managed=False)
    case.verdict(old not in file.read_text(), "from the file")
    broker.start()
    stage.uses_both("without the old key")
    case.same("200", told(stage.user.send("POST", "/v1/session/refresh")), "the session is refreshed")


def copies(case):
    """A backup and its restore, a copy to PostgreSQL, and one back."""
    stage = Stage(case)
    broker = stage.broker
    backup = broker.folder / "backup.db"
    stage.succeeds("a backup", "backup", backup)
    with contextlib.closing(sqlite3.connect(backup)) as database:
        counts = [database.execute(sql).fetchone()[0] for sql in (
            "SELECT count(*) FROM audience_tokens", "SELECT count(*) FROM sessions WHERE presence IS NOT NULL")]
    case.same([2, 1], counts, "has both")
    broker.stop(signal.SIGTERM)
    with contextlib.closing(broker.database()) as database:
        database.execute("DELETE FROM audience_tokens")
        database.execute("UPDATE sessions SET presence_key = NULL, presence = NULL")
    case.same([], stage.sealed_by(), "the database loses both")
    stage.succeeds("a restore", "restore", backup, "--config", broker.configuration, "--without-endings", managed=False)
    broker.start()
    stage.uses_both("after the restore")
    with Database() as database:
        first = broker.settings["store"]["url"]
        for title, target in (("SQLite to PostgreSQL", database.url()), ("PostgreSQL to SQLite", f"sqlite:{broker.data}/back.db")):
            broker.stop(signal.SIGTERM)
            if first.startswith("postgresql"):
                # A killed process would keep this lease for a minute.
                subprocess.run(psql(database, "-c", "DELETE FROM leases WHERE name = 'sweeper'"), check=True, capture_output=True)
            stage.succeeds(title, "store", "copy", "--config", broker.configuration, "--to", target, managed=False)
            broker.configure(store={"url": target})
            broker.start()
            stage.uses_both(title)
            first = target
        case.same("200", told(stage.user.send("POST", "/v1/session/refresh")), "the session is refreshed")
        broker.stop(signal.SIGTERM)


CASES = {"keys": (keys, 120), "copies": (copies, 120)}

if __name__ == "__main__":
    main(CASES, __doc__)
