"""The way out: `store export` seals the sessions with their tokens for another system, and `store import` takes them into another
Coatcheck (decision 100).
"""

import base64
import contextlib
import hashlib
import json
import os
import pathlib
import re
import shutil
import signal
import stat
import subprocess
import sys

from cryptography.hazmat.primitives import hashes, keywrap, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.bound_broker import ENFORCE  # noqa: E402
from support.broker import ADMIN, Broker, merged, sha256  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.families import by, child, settings as families  # noqa: E402
from support.programs import COATCHECK, HERE  # noqa: E402
from support.replicas import psql  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

MEMBERS = [
    "v", "session", "handle", "provider", "client", "subject", "identity", "scope", "refresh_token", "access_token", "access_expires_at",
    "jkt", "sid", "created_at", "last_used_at", "idle_expires_at", "expires_at", "authenticated_at", "acr", "amr"]


# -- a stranger's implementation of RFC 7516, which has code of its own

def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def decoded(text):
    return base64.urlsafe_b64decode(text + "=" * (-len(text) % 4))


def wrapping_key(secret):
    """The key of RFC 7518 section 4.6.2 for ECDH-ES+A256KW."""
    name = b"ECDH-ES+A256KW"
    words = (1).to_bytes(4, "big"), secret, len(name).to_bytes(4, "big"), name, bytes(4), bytes(4), (256).to_bytes(4, "big")
    return hashlib.sha256(b"".join(words)).digest()


OAEP = padding.OAEP(padding.MGF1(hashes.SHA256()), hashes.SHA256(), None)
CURVES = {"P-256": ec.SECP256R1, "P-384": ec.SECP384R1, "P-521": ec.SECP521R1}


def opened(line, key):
    """The content of a line, with the line's header."""
    header, wrapped, iv, text, tag = line.split(".")
    head = json.loads(decoded(header))
    if head["alg"] == "RSA-OAEP-256":
        content = key.decrypt(decoded(wrapped), OAEP)
    else:
        numbers = (int.from_bytes(decoded(head["epk"][name]), "big") for name in "xy")
        public = ec.EllipticCurvePublicNumbers(*numbers, CURVES[head["epk"]["crv"]]()).public_key()
        content = keywrap.aes_key_unwrap(wrapping_key(key.exchange(ec.ECDH(), public)), decoded(wrapped))
    return json.loads(AESGCM(content).decrypt(decoded(iv), decoded(text) + decoded(tag), header.encode())), head


def sealed(session, key):
    """A line for a public RSA key."""
    header, content, iv = encoded(b'{"alg":"RSA-OAEP-256","enc":"A256GCM"}'), os.urandom(32), os.urandom(12)
    box = AESGCM(content).encrypt(iv, json.dumps(session).encode(), header.encode())
    return ".".join((header, encoded(key.encrypt(content, OAEP)), encoded(iv), encoded(box[:-16]), encoded(box[-16:])))


class Key:
    """A key pair in two files."""

    def __init__(self, case, name, key):
        self.key = key
        self.private, self.public = case.folder / f"{name}.private.pem", case.folder / f"{name}.pem"
        self.private.write_bytes(key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
        self.public.write_bytes(key.public_key().public_bytes(
            serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo))

    @staticmethod
    def rsa(case, name="rsa", bits=2048):
        return Key(case, name, rsa.generate_private_key(65537, bits))


# -- the programs

def tool(*command, environment=None):
    done = subprocess.run(
        [COATCHECK, "store", *map(str, command)], capture_output=True, text=True, env=os.environ | (environment or {}))
    return done.returncode, done.stdout + done.stderr


def export(broker, key, out, *more, environment=None):
    return tool("export", "--config", broker.configuration, "--for", key, "--out", out, "--by", "olga", *more, environment=environment)


def take_in(broker, file, key, *more):
    return tool("import", file, "--config", broker.configuration, "--key", key, "--by", "ivan", *more)


def content(file, key):
    """The content of a file's lines. A torn last line and blanked lines are left out."""
    return [opened(line, key.key)[0] for line in file.read_text().split("\n")[:-1] if line.strip()]


def exporting(case, broker):
    """Gives the broker an admin token that may export. Returns the options of a command."""
    broker.configure(management={"admin_tokens": [
        {"name": "ender", "sha256": sha256(ADMIN), "may": ["read", "end"]},
        {"name": "mover", "sha256": sha256("mover-token-0e1d88"), "may": ["export"]}]})
    token = broker.folder / "mover"
    token.write_text("mover-token-0e1d88\n")
    token.chmod(0o600)
    return ["--token-file", token]


def audits(broker):
    return broker.query("SELECT actor, action, target FROM audit ORDER BY id")


def outbox(broker):
    return broker.query("SELECT count(*) FROM outbox")[0][0]


# -- the cases

def refusals(case):
    """Keys, files and names that the commands refuse, before they change anything."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox)
    session = broker.sign_in()
    broker.stop(signal.SIGTERM)
    good, weak = Key.rsa(case), Key.rsa(case, "weak", 1024)
    out = case.folder / "out"
    odd = case.folder / "odd.pem"
    odd.write_text("-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n")
    curve = Key(case, "curve", ec.generate_private_key(ec.SECP256K1()))
    for key, words in ((good.private, "is a private key"), (weak.public, "1024 bits"), (odd, "has to be a public key"), (curve.public, "P-256"), (case.folder / "none", "is unreadable")):
        status, said = export(broker, key, out)
        case.verdict(status == 1 and words in said and not out.exists(), f"export for {key.name} → refused with “{words}”, and the file is absent", said)
    for options, words in ((["--provider", "other"], "lacks the provider other"), (["--provider", "oidc", "--client", "tv"], "lacks the client tv")):
        status, said = export(broker, good.public, out, *options)
        case.verdict(status == 1 and words in said and not out.exists(), f"export with {' '.join(options)} → refused, and the file is absent", said)
    case.same(64, export(broker, good.public, out, "--client", "ios")[0], "export with --client alone → exit status 64")
    out.write_text("kept")
    status, said = export(broker, good.public, out)
    case.same((1, "kept", True), (status, out.read_text(), "exists already" in said), "export into an existing file → refused, and the file stays")
    out.unlink()
    (case.folder / "elsewhere").write_text("kept")
    out.symlink_to(case.folder / "elsewhere")
    case.same((1, "kept"), (export(broker, good.public, out)[0], (case.folder / "elsewhere").read_text()), "export into a link → refused, and its target stays")
    out.unlink()
    case.same(1, broker.query("SELECT count(*) FROM sessions WHERE ended_at IS NULL")[0][0], "after refused exports → the session lives")
    case.same([], audits(broker), "after refused exports → zero audit records")

    status, said = export(broker, good.public, out)
    case.verdict(status == 0 and stat.S_IMODE(out.stat().st_mode) == 0o600, "an export → the new file has mode 0600", said)
    line, = out.read_text().splitlines()
    second = Broker(case, sandbox, name="second")
    second.stop(signal.SIGTERM)
    for name, key, words in (("the public key", good.public, "has to be a private key"), ("another key", Key.rsa(case, "other").private, "fails to open line 1"), ("a key of another kind", Key(case, "ec", ec.generate_private_key(ec.SECP256R1())).private, "fails to open line 1")):
        status, said = take_in(second, out, key)
        case.verdict(status == 1 and words in said, f"import with {name} → refused", said)
    whole, _ = opened(line, good.key)
    public = good.key.public_key()

    def with_lines(*lines, end="\n"):
        file = case.folder / "changed"
        file.write_text("\n".join(lines) + end)
        return take_in(second, file, good.private)

    def rows():
        return second.query("SELECT count(*) FROM sessions")[0][0]

    for title, changed, words in (
            ("a newer version", {"v": 2}, "newer version"), ("an unknown provider", {"provider": "other"}, "lacks its provider"),
            ("an unknown client", {"client": "tv"}, "lacks its client"), ("an end in the past", {"expires_at": "2026-01-01T00:00:00Z"}, "has expired"),
            ("an idle end in the past", {"idle_expires_at": "2026-01-01T00:00:00Z"}, "has expired"),
            ("a missing handle", {"handle": None}, "lacks a usable handle"), ("a digest that is too short", {"session": "AAAA"}, "lacks a usable session"),
            ("the 30th of February", {"created_at": "2026-02-30T00:00:00Z"}, "lacks a usable created_at"),
            ("an identity with objects", {"identity": {"address": {"city": "Ulm"}}}, "lacks a usable identity")):
        status, said = with_lines(sealed(whole | changed, public))
        case.verdict(status == 1 and words in said and rows() == 0, f"import of a session with {title} → skipped with “{words}”, and the store stays empty", said)
    status, said = with_lines(line, line[: len(line) // 2], end="")
    case.verdict(status == 1 and "line 2 is incomplete" in said and rows() == 1, "import of a file with a torn last line → stores the whole lines, and names the torn one", said)
    status, said = with_lines(line, line, "", " " * 40)
    case.verdict(status == 0 and "0 sessions are stored, 2 existed" in said and rows() == 1, "import of a line twice, whose session exists → skipped and listed, with exit status 0", said)
    tampered = line[:-30] + ("A" if line[-30] != "A" else "B") + line[-29:]
    status, said = with_lines(line, tampered)
    case.verdict(status == 1 and "line 2 fails to open" in said and rows() == 1, "import of a changed line → skipped and listed", said)
    second.start()
    case.same("200", second.look(session).told, "after the import of the whole line → the session lives in the second store")
    second.log_out(session)
    second.stop(signal.SIGTERM)
    status, said = take_in(second, out, good.private)
    case.verdict(status == 0 and "1 existed" in said, "import of a session that was logged out in the second store → skipped", said)
    second.start()
    case.same("401 session_ended logged_out", second.look(session).told, "import of a session that was logged out in the second store → it stays ended")


def moving(case):
    """Sessions move from one Coatcheck to another, with their cookies, keys and tokens; the first broker is stopped."""
    sandbox = Sandbox(case)
    sandbox.settings("oidc", refresh_mode="rotate-strict")
    more = merged(families(sandbox), {"providers": {"oidc": {"clients": {"web": {"binding": ENFORCE}}}}})
    first = Broker(case, sandbox, name="first", settings=more | {"store": {"endings_file": str(case.folder / "endings")}})
    ana, ben = first.sign_in("ana"), first.sign_in("ben")
    oauth = first.sign_in("ana", provider="oauth2")
    widget = child(first, ana)
    phone = Phone(first, client="web")
    phone.sign_in()
    before = {name: first.look(token).json for name, token in (("ana", ana), ("ben", ben), ("oauth", oauth))}
    tokens = first.exchange(ana).json["access_token"]
    first.stop(signal.SIGTERM)
    shutil.copy(first.data / "coatcheck.db", case.folder / "backup.db")
    key, out = Key(case, "p384", ec.generate_private_key(ec.SECP384R1())), case.folder / "out"
    status, said = export(first, key.public, out)
    case.verdict(status == 0 and "4 sessions are in" in said, "export of a stopped broker's store → exit status 0", said)
    lines = {(session["provider"], session["client"], session["subject"]): session for session in content(out, key)}
    case.same(4, len(lines), "export → one line for each session, and the child is left out")
    line = next(item for item in lines.values() if item["handle"] == before["ana"]["handle"])
    case.same(MEMBERS, list(line), "a line → has the documented members")
    case.same(
        [1, encoded(hashlib.sha256(ana.encode()).digest()), tokens, before["ana"]["expires_at"], before["ana"]["authenticated_at"], {name: value for name, value in before["ana"]["identity"].items() if name != "unverified"}],
        [line[name] for name in ("v", "session", "access_token", "expires_at", "authenticated_at", "identity")], "a line → has the session's digest, access token, times and identity")
    bound = next(item for item in lines.values() if item["client"] == "web")
    case.same(phone.thumbprint, bound["jkt"], "the line of a bound session → has the key's thumbprint")
    case.same({"alg": "ECDH-ES+A256KW", "enc": "A256GCM"}, {name: value for name, value in opened(out.read_text().split("\n")[0], key.key)[1].items() if name != "epk"}, "a line for a key on a curve → is wrapped by ECDH-ES+A256KW")
    case.same(0, outbox(first), "export → zero revocations wait")
    case.same([("admin", 4), ("parent_ended", 1)], first.query("SELECT end_reason, count(*) FROM sessions GROUP BY end_reason ORDER BY end_reason"), "export → all sessions have ended with a reason that earlier releases know, and the child with its parent")
    names = [(actor, action) for actor, action, _ in audits(first)]
    case.same([("olga", "export_sessions"), ("olga", "end_exported")], names, "export → audit records have the name of --by")

    second = Broker(case, sandbox, name="second", settings=more)
    second.stop(signal.SIGTERM)
    status, said = take_in(second, out, key.private)
    case.verdict(status == 0 and "4 sessions are stored, 0 existed, 0 are skipped" in said, "import into a second store → exit status 0", said)
    case.same([("ivan", "import_sessions")], [(actor, action) for actor, action, _ in audits(second)], "import → an audit record has the name of --by")
    status, said = take_in(second, out, key.private)
    case.verdict(status == 0 and "0 sessions are stored, 4 existed" in said, "a second import of the same file → every session exists", said)
    second.start()
    for name, token in (("ana", ana), ("ben", ben), ("oauth", oauth)):
        now = second.look(token)
        members = ("handle", "subject", "identity", "scope", "created_at", "idle_expires_at", "expires_at", "authenticated_at")
        case.same([before[name][member] for member in members], [now.json.get(member) for member in members], f"the second Coatcheck, with the cookie of {name} → the same session")
    case.same(tokens, second.exchange(ana).json.get("access_token"), "the second Coatcheck → hands out the same access token")
    case.same("200", second.refresh(ana).told, "a refresh in the second Coatcheck, at a provider that accepts each refresh token once → 200")
    case.same("200", second.refresh(oauth).told, "a refresh of another provider's session in the second Coatcheck → 200")
    moved = Phone(second, client="web")
    moved.key, moved.session = phone.key, phone.session
    case.same(200, moved.call("GET", "/v1/session", phone.session).status, "the second Coatcheck, with the phone's key → 200")
    thief = Phone(second, client="web")
    case.same(401, thief.call("GET", "/v1/session", phone.session).status, "the second Coatcheck, with a stranger's key → 401")
    case.same("401", by(second, widget).told.split()[0], "the child's token in the second Coatcheck → 401")

    first.start()
    case.same("401 session_ended admin", first.look(ana).told, "the first Coatcheck, after the export → the session has ended with the reason admin")
    case.same("200", second.refresh(ana).told, "while the first Coatcheck runs, a further refresh in the second → 200")
    case.same(0, sandbox.calls("oidc/revoke"), "export → zero revocations are sent")
    first.stop(signal.SIGTERM)
    done = subprocess.run([COATCHECK, "restore", case.folder / "backup.db", "--config", first.configuration], capture_output=True, text=True)
    case.same(0, done.returncode, "restore of a backup from before the export → exit status 0")
    case.same(0, outbox(first), "restore of a backup from before the export → zero revocations wait")
    first.start()
    case.same("401 session_ended admin", first.look(ana).told, "restore of a backup from before the export → the exported session stays ended")
    case.verdict(not wait_for(3, lambda: sandbox.calls("oidc/revoke")), "restore of a backup from before the export → zero revocations are sent")
    case.same("200", second.refresh(ana).told, "after the restore, a further refresh in the second Coatcheck → 200")


def running(case):
    """Exports from running brokers: SQLite through the management listener, PostgreSQL past the broker."""
    sandbox = Sandbox(case)
    key = Key.rsa(case)
    broker = Broker(case, sandbox)
    out = case.folder / "out"
    session, other = broker.sign_in("ana"), broker.sign_in("ben", client="web")
    status, said = export(broker, key.public, out)
    case.verdict(status == 1 and "--token-file" in said and not out.exists(), "export beside a broker on SQLite, while the admin token is missing → refused, and the file is absent", said)
    token = broker.folder / "ender"
    token.write_text(ADMIN + "\n")
    status, said = export(broker, key.public, out, "--token-file", token)
    case.verdict(status == 1 and "backend_not_allowed" in said and not out.exists(), "export with an admin token that lacks `export` → refused, and the file is absent", said)
    options = exporting(case, broker)
    broker.restart(signal.SIGTERM)
    for body in ({"by": "x"}, {"for": key.private.read_text(), "by": "x"}, {"for": key.public.read_text()}, {"for": key.public.read_text(), "by": "x", "client": "ios"}, {"for": key.public.read_text(), "by": "x", "keep": "no"}):
        case.same(400, call(broker.management + "/admin/v1/exports", "POST", body, Authorization="Bearer mover-token-0e1d88").status, f"POST /admin/v1/exports with {sorted(body)} → 400")
    for item in ({"handle": "ses_x", "token_version": 1, "fence": 1}, {"handle": broker.look(session).json["handle"], "token_version": 1}):
        case.same(400, call(broker.management + "/admin/v1/exports/end", "POST", {"by": "x", "sessions": [item]}, Authorization="Bearer mover-token-0e1d88").status, f"POST /admin/v1/exports/end with a session's {sorted(item)}, and a wrong or missing member → 400")
    case.same("200", broker.look(session).told, "before the export → the session is in the broker's cache")
    kept = case.folder / "kept"
    status, said = export(broker, key.public, kept, "--keep", *options)
    case.same(0, status, "export --keep beside a running broker → exit status 0")
    case.same([(None, None)] * 2, [(item["refresh_token"], item["access_token"]) for item in content(kept, key)], "export --keep → lines that lack the tokens")
    case.same(["200", "200"], [broker.look(item).told for item in (session, other)], "export --keep → the sessions live")
    status, said = export(broker, key.public, out, "--provider", "oidc", "--client", "ios", *options)
    case.verdict(status == 0 and "1 sessions are in" in said, "export of one client beside a running broker → exit status 0", said)
    case.same(["401 session_ended admin", "200"], [broker.look(item).told for item in (session, other)], "export of one client → only its session has ended, at once")
    case.same(1, broker.metric("coatcheck_sessions_ended_total", reason="admin"), "export → the metric counts an ending by admin")
    case.verdict(all(actor == "mover" and target.endswith(" by olga") for actor, action, target in audits(broker) if action != "end_session"), "export beside a running broker → the audit records have the token's name and that of --by", audits(broker))
    line, = content(out, key)
    case.verdict(sandbox.lives(line["refresh_token"]), "export → the refresh token lives at the provider")
    with contextlib.suppress(FileNotFoundError):
        case.verdict(not re.search("mover-token|" + line["refresh_token"], broker.log()), "export → tokens are absent from the broker's log")

    safe = case.folder / "safe"
    safe.mkdir(mode=0o700)
    careful = Broker(case, sandbox, name="careful", settings={"store": {"endings_file": str(safe / "endings")}})
    session = careful.sign_in("ana")
    options = exporting(case, careful)
    careful.restart(signal.SIGTERM)
    away, out = safe.rename(case.folder / "away"), case.folder / "careful-out"
    status, said = export(careful, key.public, out, *options)
    case.verdict(status == 1 and "the export is incomplete" in said, "export while the endings file is away → exit status 1", said)
    case.same(1, len(content(out, key)), "export while the endings file is away → the session that has ended has its line")
    away.rename(safe)
    case.same("401 session_ended admin", careful.look(session).told, "export while the endings file is away → the session has ended")

    with Database() as database:
        brokers = []
        for name in ("one", "two"):
            replica = Broker(case, sandbox, name=name, like=brokers[0] if brokers else None, start=False)
            replica.configure(store={"url": database.url()})
            if brokers:
                replica.configure(server={"public_url": brokers[0].url})
            replica.start()
            brokers.append(replica)
        sessions = [brokers[0].sign_in(f"user-{number}") for number in range(3)]
        for replica in brokers:
            case.same(["200"] * 3, [replica.look(item).told for item in sessions], f"replica {replica.name} → has all sessions in its cache")
        out = case.folder / "postgresql"
        status, said = export(brokers[0], key.public, out)
        case.verdict(status == 0 and "3 sessions are in" in said, "export from PostgreSQL while two replicas run → exit status 0", said)
        for replica in brokers:
            case.verdict(wait_for(2, lambda r=replica: [r.look(item).told for item in sessions] == ["401 session_ended admin"] * 3), f"export from PostgreSQL → replica {replica.name} refuses the sessions within two seconds, sooner than its cache forgets them")
        found = subprocess.run(psql(database, "-c", "SELECT count(*) FROM outbox"), capture_output=True, text=True, check=True)
        case.same("0", found.stdout.strip(), "export from PostgreSQL → zero revocations wait")
        found = subprocess.run(psql(database, "-c", "SELECT DISTINCT end_reason FROM sessions"), capture_output=True, text=True, check=True)
        case.same("admin", found.stdout.strip(), "export from PostgreSQL → the stored reason is one that earlier releases know")
        status, said = take_in(brokers[1], out, key.private)
        case.verdict(status == 0 and "3 existed" in said, "import into the store that the sessions come from → every session exists", said)
        target = Broker(case, sandbox, name="target", start=False)
        with Database() as fresh:
            target.configure(store={"url": fresh.url()})
            target.start()
            status, said = take_in(target, out, key.private)
            case.verdict(status == 0 and "3 sessions are stored" in said, "import into PostgreSQL while a broker runs → exit status 0", said)
            case.same(["200"] * 3, [target.look(item).told for item in sessions], "import into PostgreSQL → the running broker knows the sessions")
            case.same("200", target.refresh(sessions[0]).told, "import into PostgreSQL → a refresh is 200")
            target.stop(signal.SIGTERM)
        for replica in brokers:
            replica.stop(signal.SIGTERM)


def kills(case):
    """`kill -9` at each point between two lines: a second export writes a session's line at most twice, and each session is in a file."""
    sandbox = Sandbox(case)
    sandbox.settings("oidc", refresh_mode="rotate-strict")
    key = Key.rsa(case)
    library = case.folder / "killing.so"
    subprocess.run([shutil.which("cc") or "clang", "-shared", "-fPIC", "-O2", "-o", library, HERE / "killing_file.c", "-ldl"], check=True)
    second = Broker(case, sandbox, name="second")
    for number, (point, title) in enumerate((
            ("write 1", "after the claims, before the write"), ("torn 1", "within the write"), ("written 1", "after the write, before the sync"),
            ("sync 1", "before the sync"), ("synced 1", "after the sync, before the ends"), ("write 2", "after the commit of the first page's ends"))):
        broker = Broker(case, sandbox, name=f"first-{number}")
        options = exporting(case, broker)
        count = 3 if point != "write 2" else 103
        sessions = [broker.sign_in(f"user-{number}-{n}") for n in range(min(count, 3))]
        # A stopped broker for even numbers, a running one for odd numbers.
        is_running = number % 2 == 1 and point != "write 2"
        if point == "write 2":
            sessions += [broker.sign_in(f"user-{number}-{n}") for n in range(3, count)]
        if is_running:
            broker.restart(signal.SIGTERM)
        else:
            broker.stop(signal.SIGTERM)
        files = [case.folder / f"out-{number}-{n}" for n in range(2)]
        status, said = export(broker, key.public, files[0], *options, environment={
            "LD_PRELOAD": str(library), "KILLING_FILE": files[0].name, "KILLING_AT": point})
        case.same(-signal.SIGKILL, status, f"export that is killed {title} → the process is gone")
        status, said = export(broker, key.public, files[1], *options)
        case.verdict(status == 0, f"a second export, after the first was killed {title} → exit status 0", said)
        parts = [content(file, key) for file in files]
        digests = [[item["session"] for item in part] for part in parts]
        wanted = sorted(encoded(hashlib.sha256(item.encode()).digest()) for item in sessions)
        case.same(wanted, sorted({*digests[0], *digests[1]}), f"killed {title} → both files together have every session")
        case.same([len(part) for part in digests], [len(set(part)) for part in digests], f"killed {title} → each file has a line at most once")
        if not is_running:
            broker.start()
        case.same({"401 session_ended admin"}, {broker.look(item).told for item in sessions}, f"killed {title} → every session has ended in the first store")
        case.same(0, outbox(broker), f"killed {title} → zero revocations wait")
        broker.stop(signal.SIGTERM)
        second.stop(signal.SIGTERM)
        for file in reversed(files):
            if file.read_text().strip():
                status, said = take_in(second, file, key.private)
                case.verdict(status == 0 or "is incomplete" in said or "fails to open line 1" in said, f"killed {title} → {file.name} can be imported", said)
        second.start()
        case.same({"200"}, {second.look(item).told for item in sessions}, f"killed {title} → every session lives in the second store")
        case.same({"200"}, {second.refresh(item).told for item in sessions[:3]}, f"killed {title} → refreshes in the second store are 200")
    case.same(0, sandbox.calls("oidc/revoke"), "after all exports → zero revocations were sent")


if __name__ == "__main__":
    if not shutil.which("cc") and not shutil.which("clang"):
        raise GaveUp("no C compiler")
    main({"refusals": (refusals, 240), "moving": (moving, 240), "running": (running, 300), "kills": (kills, 600)}, __doc__)
