"""A session with a presence key and with stored tokens for other APIs, through key rotation, resealing, a backup, and copies into
other stores. Afterwards the presence key can still make proofs, and the stored tokens are used without a provider call.
"""

import contextlib
import json
import pathlib
import signal
import sqlite3
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import ADMIN, sha256  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.presence import Upstream, User, paying  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.replicas import psql  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.step_up import told  # noqa: E402
from support.waiting import wait_for  # noqa: E402

APIS = ("orders", "ledger")


class Stage:
    """A broker, and a user whose session has a presence key and tokens for other APIs."""

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
        case.same(201, self.user.phone.sign_in().status, "a sign-in with the device's key → 201")
        case.same("200", told(self.user.register()), "the registration of a presence key → 200")
        case.same(["200"] * 2, self.relayed(), "relayed calls to two APIs → 200")
        self.calls = self.sandbox.calls("oidc/refresh")
        case.same(2, self.calls, "relayed calls to two APIs → one provider call for each API")

    def relayed(self):
        return [told(self.user.send("GET", f"/v1/relay/{name}/echo")) for name in APIS]

    def uses_both(self, where):
        """Checks that the presence key can make proofs, and that the stored tokens are used."""
        # A restarted broker has another nonce. Fetch it first, so that the user is prompted only once.
        self.user.send("GET", "/v1/session")
        asked, paid = self.user.asked, self.upstream.count
        self.case.same(("200", 1, 1), (told(self.user.pay()), self.user.asked - asked, self.upstream.count - paid), f"{where}, a payment with the presence key → made once, after one prompt")
        stranger = User(self.broker)
        stranger.phone = self.user.phone
        self.case.same("401 presence_invalid key", told(stranger.pay()), f"{where}, a payment with another presence key → 401 presence_invalid key")
        self.case.same((["200"] * 2, self.calls), (self.relayed(), self.sandbox.calls("oidc/refresh")), f"{where}: relayed calls to both APIs → use the stored tokens, without a provider call")

    def run(self, *command, managed=True):
        more = ["--management", self.broker.management, "--token-file", self.secret] if managed else []
        done = subprocess.run([COATCHECK, *command, *more], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    def succeeds(self, sentence, *command, managed=True):
        status, said = self.run(*command, managed=managed)
        self.case.same(0, status, sentence)
        if status:
            self.case.verdict(False, "a command failed (see the check before) → the detail has the command's output", said)
        return said

    def keys(self):
        return call(f"{self.broker.management}/admin/v1/keys", Authorization=f"Bearer {ADMIN}").json["items"]

    def sealed_by(self):
        """Returns the ids of the keys that seal the APIs' tokens and the presence key."""
        rows = self.broker.query("SELECT sealed_key FROM audience_tokens UNION SELECT presence_key FROM sessions WHERE presence IS NOT NULL")
        return sorted(key for key, in rows)


def keys(case):
    """A new key, resealing of all values, and the removal of the old key."""
    stage = Stage(case)
    broker, file = stage.broker, stage.broker.folder / "keys.json"
    old = next(key["id"] for key in stage.keys() if key["use"] == "seals")
    case.same([old], stage.sealed_by(), "the stored API tokens and the presence key, before a rotation → are sealed by the key that now seals")
    stage.succeeds("`keys rotate --now` → exit status 0", "keys", "rotate", "--file", file, "--now")
    case.verdict(wait_for(20, lambda: next(key["id"] for key in stage.keys() if key["use"] == "seals") != old), "`keys rotate --now` → the running broker seals with the new key")
    new = next(key["id"] for key in stage.keys() if key["use"] == "seals")
    stage.uses_both("before resealing")
    case.same([old], stage.sealed_by(), "`keys rotate --now`, before `keys reseal` → stored values stay sealed by the old key")
    status, said = stage.run("keys", "remove", old, "--file", file)
    case.same(1, status, "`keys remove` of a key that seals stored values → exit status 1")
    stage.succeeds("`keys reseal` → exit status 0", "keys", "reseal")
    case.same([new], stage.sealed_by(), "`keys reseal` → the APIs' tokens and the presence key are sealed by the new key")
    # The broker can repeat the answer of a code exchange for ten minutes, and needs the old key for this. So date it back.
    with contextlib.closing(broker.database()) as database:
        database.execute("UPDATE exchanges SET created_at = created_at - 3600000")
    case.same([0], [key["values"] for key in stage.keys() if key["id"] == old], "`keys reseal` has run, and the last code exchange is an hour ago → zero values need the old key")
    broker.stop(signal.SIGTERM)
    # The present key must have sealed for a minute before another key may be removed, so set the times in the file back.
    ring = json.loads(file.read_text())
    for key in ring["keys"]:
        key.pop("seals_from", None)
        key["created"] = "2026-01-01T00:00:00Z"
    file.write_text(json.dumps(ring))
    stage.succeeds("`keys remove` of an unused key → exit status 0", "keys", "remove", old, "--file", file, "--config", broker.configuration, managed=False)
    case.verdict(old not in file.read_text(), "`keys remove` of an unused key → the key is gone from the file")
    broker.start()
    stage.uses_both("without the old key")
    case.same("200", told(stage.user.send("POST", "/v1/session/refresh")), "a refresh after the old key was removed → 200")


def copies(case):
    """A backup and its restore, a copy to PostgreSQL, and a copy back."""
    stage = Stage(case)
    broker = stage.broker
    backup = broker.folder / "backup.db"
    stage.succeeds("`backup` → exit status 0", "backup", backup)
    with contextlib.closing(sqlite3.connect(backup)) as database:
        counts = [database.execute(sql).fetchone()[0] for sql in (
            "SELECT count(*) FROM audience_tokens", "SELECT count(*) FROM sessions WHERE presence IS NOT NULL")]
    case.same([2, 1], counts, "`backup` → the copy has two APIs' tokens and one presence key")
    broker.stop(signal.SIGTERM)
    with contextlib.closing(broker.database()) as database:
        database.execute("DELETE FROM audience_tokens")
        database.execute("UPDATE sessions SET presence_key = NULL, presence = NULL")
    case.same([], stage.sealed_by(), "before the restore, the API tokens and the presence key are deleted from the database → zero sealed values")
    stage.succeeds("`restore --without-endings` → exit status 0", "restore", backup, "--config", broker.configuration, "--without-endings", managed=False)
    broker.start()
    stage.uses_both("after the restore")
    with Database() as database:
        first = broker.settings["store"]["url"]
        for title, target in (("`store copy` from SQLite to PostgreSQL", database.url()), ("`store copy` from PostgreSQL to SQLite", f"sqlite:{broker.data}/back.db")):
            broker.stop(signal.SIGTERM)
            if first.startswith("postgresql"):
                # The lease of a killed process would last for a minute, and delay the copy.
                subprocess.run(psql(database, "-c", "DELETE FROM leases WHERE name = 'sweeper'"), check=True, capture_output=True)
            stage.succeeds(f"{title} → exit status 0", "store", "copy", "--config", broker.configuration, "--to", target, managed=False)
            broker.configure(store={"url": target})
            broker.start()
            stage.uses_both(title)
            first = target
        case.same("200", told(stage.user.send("POST", "/v1/session/refresh")), "a refresh after `store copy` to PostgreSQL and back → 200")
        broker.stop(signal.SIGTERM)


CASES = {"keys": (keys, 120), "copies": (copies, 120)}

if __name__ == "__main__":
    main(CASES, __doc__)
