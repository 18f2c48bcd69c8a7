"""Upgrades from one release to the next and back, under traffic, on SQLite and on two replicas with PostgreSQL.
`scripts/prove-upgrade` starts it. OLD_COATCHECK is the older release's program, COATCHECK the newer one's. The newer release
also restores a backup of the older one.

Phones sign in, read their sessions, refresh and log out all the time. Like apps, they retry after 503 and after a missing
answer. The provider revokes a grant if a refresh token is sent twice. Other users, the sleepers, sign in once. Their sessions
are checked after each change, so each release has to read the rows of the other.
"""

import collections
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import ADMIN, Broker, sha256  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

OLD = os.environ.get("OLD_COATCHECK", "")
# An older release refuses settings that it does not know, so leave `limits` out.
PLAIN = {"limits": None}
PHONES, SLEEPERS, SECONDS = 12, 10, float(os.environ.get("UPGRADE_SECONDS", "6"))
PATIENCE = 60


class Traffic:
    """Phones that make calls until they are stopped, and the results of these calls."""

    def __init__(self, case, brokers, sandbox):
        self.case, self.brokers, self.sandbox = case, brokers, sandbox
        self.figures = collections.Counter()
        self.wrong = []
        self.over = threading.Event()
        self.work = [case.beside(self.phone, number) for number in range(PHONES)]

    def ask(self, number, method, path, session=None, body=None, **more):
        """Makes one call, and repeats it until a replica answers with another status than 503, or the patience is over."""
        if session:
            more["Cookie"] = f"coatcheck={session}"
        end = time.monotonic() + PATIENCE
        tries = 0
        while True:
            broker = self.brokers[(number + tries) % len(self.brokers)]
            answer = call(broker.url + path, method, body, seconds=20, **more)
            if answer.status not in (0, 503) or time.monotonic() > end:
                return answer
            tries += 1
            self.figures["asked again"] += 1
            if answer.status == 503 and not answer.is_passing_fault:
                self.wrong.append(f"{method} {path}: 503 without Retry-After, or with a cookie")
            time.sleep(0.1)

    def sign_in(self, number):
        begun = self.ask(number, "POST", "/v1/logins", body={"provider": "oidc", "client": "ios"})
        if begun.status != 201:
            return self.wrong.append(f"login: {begun.told}")
        cookie = re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]
        callback = call(begun.json["authorization_url"] + f"&sandbox_user=phone-{number}").fields["Location"]
        answer = self.ask(number + 1, "POST", "/v1/sessions", body={"callback_url": callback}, Cookie=cookie)
        if answer.status != 201:
            return self.wrong.append(f"sign-in: {answer.told}")
        self.figures["sign-ins"] += 1
        return re.search(r"coatcheck=([^;]+)", ", ".join(answer.fields.get_all("Set-Cookie")))[1]

    def expect(self, what, answer):
        self.figures[what] += 1
        if answer.status != 200:
            self.wrong.append(f"{what}: {answer.told or answer.body}")

    def phone(self, number):
        turn = number
        while not self.over.is_set():
            session = self.sign_in(turn)
            if not session:
                return
            for _ in range(8):
                turn += 1
                self.expect("looks", self.ask(turn, "GET", "/v1/session", session))
                if turn % 3 == 0:
                    self.expect("refreshes", self.ask(turn, "POST", "/v1/session/refresh", session))
                time.sleep(0.05)
            if turn % 2:
                # In an odd turn, the phone keeps its session, and signs in again.
                continue
            answer = self.ask(turn, "DELETE", "/v1/session", session)
            # The first answer may have been lost, so a repeat may find the session logged out.
            if answer.status != 204 and answer.json.get("reason") != "logged_out":
                self.wrong.append(f"log-out: {answer.told}")
            self.figures["log-outs"] += 1
            # A replica that gets no notice reads the row within five seconds.
            end = time.monotonic() + 6
            for other in range(len(self.brokers)):
                while (answer := self.ask(turn + other, "GET", "/v1/session", session)).status == 200 and time.monotonic() < end:
                    time.sleep(0.1)
                if answer.status != 401:
                    self.wrong.append(f"after the log-out: {answer.told}")

    def stop(self):
        self.over.set()
        for work in self.work:
            work.result(PATIENCE * 2)
        told = ", ".join(f"{self.figures[key]} {key}" for key in ("sign-ins", "looks", "refreshes", "log-outs", "asked again"))
        self.case.say(f"calls while processes are changed to another release: {told}; {len(self.wrong)} wrong answers")
        self.case.verdict(
            all(self.figures[key] for key in ("sign-ins", "looks", "refreshes", "log-outs")), "processes are changed to another release during traffic → the traffic has sign-ins, reads, refreshes and log-outs", told)
        self.case.same([], self.wrong[:5], "processes are changed to another release during traffic → every call gets its documented answer")


def version(program):
    return subprocess.run([program, "--version"], check=True, capture_output=True, text=True).stdout.strip()


def walk(case, brokers, sandbox, steps):
    """Starts the programs of the first step. For each later step, it replaces the programs, one process after another, and checks
    the sleepers' sessions."""
    for broker, program in zip(brokers, steps[0], strict=True):
        broker.program = program
        broker.start()
    sleepers = [brokers[0].sign_in(f"sleeper-{number}") for number in range(SLEEPERS)]
    traffic = Traffic(case, brokers, sandbox)
    for step in steps[1:]:
        time.sleep(SECONDS)
        for broker, program in zip(brokers, step, strict=True):
            if broker.program != program:
                broker.stop(signal.SIGTERM)
                broker.program = program
                broker.start()
        name = " and ".join(version(program) for program in step)
        seen = collections.Counter(traffic.ask(n, "GET", "/v1/session", session).told for n, session in enumerate(sleepers))
        case.same({"200": SLEEPERS}, dict(seen), f"processes are changed to {name} → sessions from before the change are alive")
        if step == steps[len(steps) // 2]:
            half = sleepers[: SLEEPERS // 2]
            seen = collections.Counter(traffic.ask(n, "POST", "/v1/session/refresh", session).told for n, session in enumerate(half))
            case.same({"200": len(half)}, dict(seen), f"processes are changed to {name}, and half of the earlier sessions are refreshed → 200")
    time.sleep(SECONDS)
    traffic.stop()
    seen = collections.Counter(traffic.ask(n, "POST", "/v1/session/refresh", session).told for n, session in enumerate(sleepers))
    case.same({"200": SLEEPERS}, dict(seen), "all sessions are refreshed after the last change of the release → 200")
    logs = "".join(broker.log() for broker in brokers)
    case.same(0, logs.count('"refresh_lost"'), "processes are changed between two releases several times → no session ends as refresh_lost")


def start_sandbox(case):
    sandbox = Sandbox(case, record=False)
    sandbox.settings("oidc", refresh_mode="rotate-strict", access_token_lifetime=2)
    return sandbox


def sqlite(case):
    """One process on SQLite: upgraded, downgraded, and upgraded again."""
    sandbox = start_sandbox(case)
    broker = Broker(case, sandbox, settings=PLAIN, start=False)
    checked = subprocess.run([COATCHECK, "check", "--config", broker.configuration], capture_output=True, text=True)
    case.same(0, checked.returncode, "the newer program's `check` of the configuration → succeeds")
    walk(case, [broker], sandbox, [[OLD], [COATCHECK], [OLD], [COATCHECK]])


def postgresql(case):
    """Two replicas on PostgreSQL, one after the other: upgraded, downgraded, and upgraded again."""
    sandbox = start_sandbox(case)
    with Database() as database:
        store = {"store": {"url": database.url()}}
        one = Broker(case, sandbox, name="one", settings=PLAIN | store, start=False)
        two = Broker(case, sandbox, name="two", settings=PLAIN | store, like=one, start=False)
        walk(case, [one, two], sandbox, [
            [OLD, OLD], [COATCHECK, OLD], [COATCHECK, COATCHECK], [OLD, COATCHECK], [OLD, OLD], [COATCHECK, COATCHECK]])


def restored(case):
    """The newer release restores a backup of the older one."""
    sandbox = start_sandbox(case)
    (case.folder / "endings").mkdir(mode=0o700)
    broker = Broker(case, sandbox, start=False, settings={
        "management": {"admin_tokens": [{"name": "keeper", "sha256": sha256(ADMIN), "may": ["read", "maintain"]}]},
        # The older release does not know this key.
        "limits": {"forced_refresh_pause": None},
        "store": {"endings_file": str(case.folder / "endings" / "endings")}})
    broker.program = OLD
    broker.start()
    token = case.folder / "keeper"
    token.write_text(ADMIN)
    token.chmod(0o600)
    backup = case.folder / "backup.db"

    def run(program, *arguments):
        done = subprocess.run([program, *arguments], capture_output=True, text=True)
        return done.returncode, done.stdout + done.stderr

    sleepers = [broker.sign_in(f"sleeper-{number}") for number in range(SLEEPERS)]
    status, told = run(OLD, "backup", str(backup), "--management", broker.management, "--token-file", str(token))
    case.verdict(status == 0, f"the older release {version(OLD)}, `backup` → succeeds", told)
    gone, kept = sleepers[: SLEEPERS // 2], sleepers[SLEEPERS // 2 :]
    case.same({204}, {broker.log_out(session).status for session in gone}, "log-outs of half of the sessions after the backup → 204")
    broker.stop(signal.SIGTERM)
    status, told = run(COATCHECK, "restore", str(backup), "--config", str(broker.configuration))
    case.verdict(status == 0, f"{version(COATCHECK)}, `restore` of a backup by {version(OLD)} → succeeds", told)
    case.verdict(f"{len(gone)} of them had ended since" in told, "`restore` with the endings file → reports the sessions that ended since the backup", told)
    broker.program = COATCHECK
    broker.configure(limits={"forced_refresh_pause": "0s"})
    broker.start()
    case.same({"200"}, {broker.refresh(session).told for session in kept}, "a backup is restored, and the sessions that did not log out are refreshed → 200")
    case.same({"401 session_ended logged_out"}, {broker.look(session).told for session in gone}, "a backup is restored → the sessions that logged out after the backup have ended")
    # Without the endings file, the schema is the older one until the start.
    broker.stop(signal.SIGTERM)
    broker.configure(store={"endings_file": None})
    status, told = run(COATCHECK, "restore", str(backup), "--config", str(broker.configuration), "--without-endings")
    case.verdict(status == 0, "`restore --without-endings` → succeeds", told)
    broker.start()
    case.same({"200"}, {broker.look(session).told for session in sleepers}, "`restore --without-endings` → all sessions of the backup are alive")
    broker.stop()


def binding(mode):
    return {"oidc": {"clients": {"ios": {"binding": {"mode": mode}}}}}


def bound(case):
    """The older release answers 503 for bound sessions and tokens. It does not serve them, and they stay alive."""
    sandbox = start_sandbox(case)
    with Database() as database:
        for name, store in {"sqlite": None, "postgresql": {"url": database.url()}}.items():
            broker = Broker(case, sandbox, name=name, settings=PLAIN | ({"store": store} if store else {}), start=False)
            plain = broker.configuration.read_text()
            broker.start()
            unbound = broker.sign_in("sleeper")
            broker.configure(providers=binding("enforce"))
            broker.restart(signal.SIGTERM)
            phone = Phone(broker)
            case.same(201, phone.sign_in("phone").status, f"{name}, a sign-in with a key → 201")
            begun, fields = phone.begin()
            callback = phone.callback(begun, "other")
            broker.stop(signal.SIGTERM)
            broker.program = OLD
            kept = broker.configuration.read_text()
            broker.configuration.write_text(plain)
            broker.start()
            case.same(200, broker.look(unbound).status, f"{name}, the older release {version(OLD)} gets a request of an unbound session → served")
            tries = {
                "a bound session's cookie": lambda: broker.look(phone.session),
                "a bound session's cookie and pass": lambda: phone.passing("GET", "/v1/session"),
                "a bound session's cookie and proof": lambda: phone.call("GET", "/v1/session", phone.session),
                "a bound session's refresh": lambda: broker.refresh(phone.session),
                "the bound login's forward": lambda: broker.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields),
            }
            for what, ask in tries.items():
                answer = ask()
                case.verdict(answer.is_passing_fault, f"{name}, the older release {version(OLD)} gets {what} → a temporary fault", f"{answer.told} {answer.fields}")
            broker.stop(signal.SIGTERM)
            broker.program = COATCHECK
            broker.configuration.write_text(kept)
            broker.start()
            case.same(200, phone.call("GET", "/v1/session", phone.session).status, f"{name}, a bound session after the upgrade → served with a proof")
            case.same(200, phone.passing("GET", "/v1/session").status, f"{name}, a bound session after the upgrade → served with its earlier pass")
            case.same(401, broker.look(phone.session).status, f"{name}, a request with only a bound session's cookie after the upgrade → 401")
            case.same(201, phone.forward(callback, fields).status, f"{name}, a bound login began before the upgrade, and the login's key forwards the callback → a session")
            broker.stop()


if __name__ == "__main__":
    if not OLD or version(OLD) == version(COATCHECK):
        raise SystemExit("upgrade: OLD_COATCHECK and COATCHECK have to be two releases")
    main({"sqlite": (sqlite, 400), "postgresql": (postgresql, 500), "restored": (restored, 120), "bound": (bound, 200)}, "Upgrades between two releases")
