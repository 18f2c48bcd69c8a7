"""An app moves in: it posts a refresh token that it already has, and the broker makes one refresh at the provider."""

import base64
import datetime
import hashlib
import json
import os
import pathlib
import re
import secrets
import signal
import subprocess
import sys
import threading
import urllib.parse
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import ADMIN, Broker, merged, sha256  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs/apps/moving-in.md"
ENDPOINTS = {"oidc": "/oidc", "oauth2": "/oauth2"}
CLIENTS = {"oidc": "ios-app", "oauth2": "oauth2-app"}
REDIRECTS = {"oidc": "com.example.app:/cb", "oauth2": "com.example.oauth2:/cb"}


def window(until="2099-12-31"):
    return {"providers": {name: {"clients": {"ios": {"import_tokens": {"until": until}}}} for name in ENDPOINTS}}


def app_tokens(sandbox, user="ana", provider="oidc", client=None):
    """The tokens that the old app got itself."""
    base, client = sandbox.url + ENDPOINTS[provider], client or CLIENTS[provider]
    verifier = secrets.token_urlsafe(32)
    challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    query = urllib.parse.urlencode({
        "client_id": client, "redirect_uri": REDIRECTS[provider], "response_type": "code", "state": "s", "sandbox_user": user,
        "scope": "openid email offline_access" if provider == "oidc" else "profile email", "code_challenge": challenge,
        "code_challenge_method": "S256"})
    callback = call(f"{base}/authorize?{query}").fields["Location"]
    code = urllib.parse.parse_qs(urllib.parse.urlsplit(callback).query)["code"][0]
    form = {
        "grant_type": "authorization_code", "code": code, "redirect_uri": REDIRECTS[provider], "client_id": client,
        "code_verifier": verifier}
    return call(f"{base}/token", "POST", urllib.parse.urlencode(form), Content_Type="application/x-www-form-urlencoded").json


def body(tokens, provider="oidc", **more):
    """The body of a post."""
    return {"provider": provider, "client": "ios", "tokens": tokens, "login_token": secrets.token_urlsafe(32)} | more


def of(found, *members):
    """Some of the app's tokens."""
    return {name: found[name] for name in members}


def post(broker, sent, **fields):
    return broker.call("POST", "/v1/sessions", body=sent, **fields)


def cookie(answer):
    found = re.search(r"coatcheck=([^;]+)", ", ".join(answer.fields.get_all("Set-Cookie") or []))
    return found and found[1]


def faults(answer):
    return [f"{fault['pointer']} {fault['code']}" for fault in answer.json.get("errors", [])]


def stack(case, *more, **settings):
    sandbox = Sandbox(case)
    for provider in ENDPOINTS:
        sandbox.settings(provider, refresh_token="always")
    return sandbox, Broker(case, sandbox, settings=merged(window(), settings))


def is_silent(case, broker, *found):
    """Checks that the log is free of the app's tokens."""
    log = broker.log()
    kept = [value for tokens in found for name, value in tokens.items() if name.endswith("_token") and value in log]
    case.verdict(not kept, "imports in every row of this case → the log is free of tokens", len(kept))


def refused(case):
    """Members that are refused before any call, and clients that lack `import_tokens`."""
    sandbox, broker = stack(case)
    tokens = app_tokens(sandbox)
    others = app_tokens(sandbox, client="another-app")
    before = sandbox.calls("oidc/token")
    for sent, told in (
            ({}, "/tokens/refresh_token required"),
            (of(tokens, "access_token"), "/tokens/refresh_token required"),
            (of(tokens, "refresh_token") | {"merchant_id": "M1"}, "/tokens/merchant_id not_allowed"),
            (of(tokens, "refresh_token") | {"id_token": "x.y.z"}, "/tokens/id_token malformed"),
            (of(tokens, "refresh_token") | {"id_token": "a" * 16385}, "/tokens/id_token too_long"),
            (of(tokens, "refresh_token") | of(others, "id_token"), "/tokens/id_token malformed")):
        answer = post(broker, body(sent))
        case.same((400, [told]), (answer.status, faults(answer)), f"tokens with {', '.join(sent) or 'zero members'} → 400 `{told}`")
    oauth2 = app_tokens(sandbox, provider="oauth2")
    answer = post(broker, body(of(oauth2, "refresh_token") | of(tokens, "id_token"), "oauth2"))
    case.same(["/tokens/id_token not_allowed"], faults(answer), "an id_token for a provider of kind oauth2 → 400")
    answer = post(broker, body(of(tokens, "refresh_token"), client="web"))
    case.same("403 client_not_allowed not_open", answer.told, "a client that lacks import_tokens → 403 not_open")
    case.same(before, sandbox.calls("oidc/token"), "refused members → zero calls at the provider")
    is_silent(case, broker, tokens, others)


def granted(case):
    """One refresh makes the session, which lives, is repeated to its starter and can be ended."""
    sandbox, broker = stack(case)
    for provider, members in (("oidc", ("refresh_token", "id_token")), ("oauth2", ("refresh_token",))):
        tokens = app_tokens(sandbox, provider=provider)
        before = sandbox.calls(f"{provider}/refresh")
        sent = body(of(tokens, *members), provider, device="Ana's phone")
        answer = post(broker, sent)
        case.same(201, answer.status, f"{provider}: an app posts its refresh token → a session")
        case.same((True, tokens["scope"].split(), True),
                  (answer.json["tokens"]["refreshable"], answer.json["scope"], answer.json["subject"] != ""),
                  f"{provider}: the session from a refresh token → has a subject, is refreshable, and has the answer's scope")
        case.same(1, sandbox.calls(f"{provider}/refresh") - before, f"{provider}: an import → one refresh at the provider")
        again = post(broker, sent)
        case.same((answer.json["handle"], cookie(answer)), (again.json["handle"], cookie(again)),
                  f"{provider}: the same post again → the same session and cookie")
        case.same("409 code_already_used", post(broker, body(of(tokens, *members), provider)).told,
                  f"{provider}: the same token with another login_token → code_already_used")
        case.same(1, sandbox.calls(f"{provider}/refresh") - before, f"{provider}: repeated posts → still one refresh")
        case.same(200, broker.refresh(cookie(answer)).status, f"{provider}: the session is refreshed → 200")
        case.same(204, broker.log_out(cookie(answer)).status, f"{provider}: the session logs out → 204")
        is_silent(case, broker, tokens)
    sandbox.settings("oidc", id_token_on_refresh=False)
    answer = post(broker, body(of(app_tokens(sandbox), "refresh_token", "id_token")))
    case.same(201, answer.status, "the refresh lacks an id_token → userinfo names the user, and the app gets a session")


def rows(case):
    """Each row of the table of imports, with the sandbox's faults."""
    sandbox, broker = stack(case)
    sandbox.settings("oidc", refresh_mode="rotate-strict")
    dead = of(app_tokens(sandbox), "refresh_token")
    call(sandbox.url + "/oidc/token", "POST", urllib.parse.urlencode(
        {"grant_type": "refresh_token", "client_id": "ios-app"} | dead), Content_Type="application/x-www-form-urlencoded")
    for _ in range(2):
        answer = post(broker, body(dead))
        case.same("502 provider_error", answer.told, "a refused token before the first granted import → 502, as often as needed")
    case.verdict(wait_for(5, lambda: "no import of this client has been granted yet" in broker.log()),
                 "a refused token before the first granted import → the log asks whether the client id is right")
    case.same(201, post(broker, body(of(app_tokens(sandbox), "refresh_token"))).status, "another app's token → a session")
    answer = post(broker, body(dead))
    case.same("409 login_required grant_revoked", answer.told, "a refused token after a granted import → grant_revoked")
    case.same(None, answer.json["login"], "grant_revoked → a null login")
    for fault, told in (
            ({"fault": "status", "status": 503}, "503 provider_unavailable"), ({"fault": "status", "status": 429}, "503 provider_unavailable"),
            ({"fault": "status", "status": 403, "body": "<html>firewall</html>"}, "503 provider_unavailable")):
        sent = body(of(app_tokens(sandbox), "refresh_token"))
        sandbox.fault("oidc", endpoint="refresh", times=1, **fault)
        answer = post(broker, sent)
        case.same((told, None), (answer.told, answer.json.get("retry")), f"{fault} → {told}, and `retry` is missing")
        # After a 429, all imports of the provider wait.
        case.verdict(wait_for(40, lambda: post(broker, sent).status == 201), f"{fault}, and then the same post → a session")
    sent = body(of(app_tokens(sandbox), "refresh_token"))
    sandbox.fault("oidc", endpoint="refresh", fault="drop-before", times=1)
    case.same(201, post(broker, sent).status, "the answer is lost before the provider has the token → the confirming call gets the session")
    sent = body(of(app_tokens(sandbox), "refresh_token"))
    before = sandbox.calls("oidc/refresh")
    sandbox.fault("oidc", endpoint="refresh", fault="drop-after", times=1)
    for _ in range(2):
        case.same("409 login_required refresh_lost", post(broker, sent).told, "the answer is lost after the token is spent → refresh_lost")
    case.same(2, sandbox.calls("oidc/refresh") - before, "refresh_lost, twice → two calls in all")
    sandbox.settings("oidc", id_token_on_refresh=False)
    sent = body(of(app_tokens(sandbox), "refresh_token"))
    before = sandbox.calls("oidc/refresh")
    sandbox.fault("oidc", endpoint="userinfo", fault="status", status=503)
    case.same("503 provider_unavailable", post(broker, sent).told, "userinfo is away after the grant → 503")
    sandbox.control("DELETE", "/faults")
    case.same(201, post(broker, sent).status, "userinfo is back → the same post gets the session")
    case.same(1, sandbox.calls("oidc/refresh") - before, "userinfo away and back → one refresh")
    is_silent(case, broker, dead, sent["tokens"])


def refused_access_token(case):
    """Userinfo refuses the new access token: the old SDK has ended the grant in between, or userinfo is at fault."""
    sandbox, broker = stack(case)
    sandbox.settings("oidc", refresh_mode="rotate-strict", id_token_on_refresh=False)

    def counts():
        return sandbox.calls("oidc/refresh"), sandbox.calls("oidc/userinfo")

    tokens = of(app_tokens(sandbox), "refresh_token")
    sent = body(tokens)
    refreshes, reads = counts()
    sandbox.fault("oidc", endpoint="userinfo", fault="slow", delay_ms=2000, times=1)
    pending = case.beside(post, broker, sent)
    case.verdict(wait_for(10, lambda: counts() == (refreshes + 1, reads + 1)), "an import → one refresh, and then the user is read")
    form = {"grant_type": "refresh_token", "client_id": "ios-app"} | tokens
    sdk = call(sandbox.url + "/oidc/token", "POST", urllib.parse.urlencode(form), Content_Type="application/x-www-form-urlencoded")
    case.same("400", sdk.told.split()[0], "the old SDK sends the spent refresh token before the user is read → refused")
    case.same("409 login_required grant_revoked", pending.result(20).told, "the provider has ended the grant, so userinfo answers 401 → grant_revoked")
    case.same(refreshes + 3, counts()[0], "the ended grant → one more refresh of the broker")
    found = counts()
    case.same(("409 login_required grant_revoked", found), (post(broker, sent).told, counts()), "the same post again → the same answer, and zero calls")
    case.same(2, broker.metric("coatcheck_moved_total", provider="oidc", client="ios", way="tokens", result="grant_revoked"),
              "the ended grant → both posts are counted as grant_revoked")

    sent = body(of(app_tokens(sandbox), "refresh_token"))
    refreshes, _ = counts()
    sandbox.fault("oidc", endpoint="userinfo", fault="status", status=401, times=2)
    answer = post(broker, sent)
    case.same((201, refreshes + 2), (answer.status, counts()[0]), "userinfo refuses a good access token → a session, after one more refresh")
    case.same(200, broker.refresh(cookie(answer)).status, "the session of the newer tokens is refreshed → 200")

    sent = body(of(app_tokens(sandbox), "refresh_token"))
    sandbox.fault("oidc", endpoint="userinfo", fault="status", status=401)
    for _ in range(3):
        case.same("503 provider_unavailable", post(broker, sent).told, "userinfo refuses every access token → 503, as often as needed")
    sandbox.control("DELETE", "/faults")
    answer = post(broker, sent)
    case.same(201, answer.status, "userinfo is mended → the same post gets the session")
    case.same(200, broker.refresh(cookie(answer)).status, "this session is refreshed → 200")
    is_silent(case, broker, tokens, sent["tokens"])


def another_user(case):
    """The app's id_token is of another user, or its refresh token of another client."""
    sandbox, broker = stack(case)
    ana, ben = app_tokens(sandbox), app_tokens(sandbox, user="ben")
    sent = body(of(ana, "refresh_token") | of(ben, "id_token"))
    for _ in range(2):
        case.same("502 identity_rejected", post(broker, sent).told, "Ana's refresh token with Ben's id_token → identity_rejected")
    case.verdict(wait_for(20, lambda: broker.metric("coatcheck_revocations_total", provider="oidc", result="done") == 1),
                 "Ana's refresh token with Ben's id_token → the granted tokens are revoked")
    other = app_tokens(sandbox, client="another-app")
    answer = post(broker, body(of(other, "refresh_token")))
    case.verdict(answer.status in (409, 502), "a refresh token of another client → refused", answer.told)
    case.same(0, broker.metric("coatcheck_moved_total", result="moved"), "refused imports → zero count as moved")
    is_silent(case, broker, ana, ben, other)


def closed(case):
    """After `until`, and after the key has left the file, only imports that have begun go on."""
    sandbox, broker = stack(case)
    first = body(of(app_tokens(sandbox), "refresh_token"))
    handle = post(broker, first).json["handle"]
    for until, reason in (({"until": "2026-01-01"}, "closed"), (None, "not_open")):
        broker.configure(providers={"oidc": {"clients": {"ios": {"import_tokens": until}}}})
        broker.restart()
        answer = post(broker, body(of(app_tokens(sandbox), "refresh_token")))
        case.same(f"403 client_not_allowed {reason}", answer.told, f"import_tokens: {until} → a new post gets 403 {reason}")
        case.same(handle, post(broker, first).json.get("handle"), f"import_tokens: {until} → a session is repeated to its starter")
    # A check of the file refuses a far end; the running broker only warns.
    broker.configure(providers={"oidc": {"clients": {"ios": {"import_tokens": {"until": "2099-12-31"}}}}})
    broker.restart()
    case.verdict("import_tokens.until: is more than a year away" in broker.log(), "an end in many years → the broker warns")
    checked = subprocess.run([broker.program, "check", "--config", broker.configuration], capture_output=True, text=True)
    case.same((1, True), (checked.returncode, "is more than a year away" in checked.stderr), "an end in many years → `check` refuses the file")


def fifty(case):
    """Fifty identical posts to two replicas at the same time make one refresh and one session."""
    with Database() as database:
        sandbox = Sandbox(case)
        sandbox.settings("oidc", refresh_token="always", refresh_mode="rotate-strict")
        one = Broker(case, sandbox, name="one", start=False, settings=merged(window(), {"store": {"url": database.url()}}))
        one.start()
        two = Broker(case, sandbox, name="two", like=one, start=False, settings=merged(window(), {
            "store": {"url": database.url()}, "server": {"public_url": one.url}}))
        two.start()
        sent = body(of(app_tokens(sandbox), "refresh_token", "id_token"))
        begin, answers = threading.Barrier(50), []

        def send(broker):
            begin.wait()
            answers.append(post(broker, sent))

        for future in [case.beside(send, (one, two)[number % 2]) for number in range(50)]:
            future.result(60)
        case.same({201}, {answer.status for answer in answers}, "fifty identical posts to two replicas → each gets 201")
        case.same((1, 1), (len({answer.json["handle"] for answer in answers}), len({cookie(answer) for answer in answers})),
                  "fifty identical posts to two replicas → one session and one cookie")
        case.same(1, sandbox.calls("oidc/refresh"), "fifty identical posts to two replicas → one refresh")


def block(words):
    """The block of the page for the shell that has these words."""
    found, = [text for text in re.findall(r"```sh\n(.*?)^```", PAGE.read_text(), re.M | re.S) if words in text]
    return found


def page(case):
    """The block of the page for the phone, with a token that moves and one that is dead."""
    sandbox, broker = stack(case)
    found = block("mark.json")
    phone = case.folder / "phone"
    phone.mkdir()

    def run():
        subprocess.run(["bash", "-euc", found], cwd=phone, env=os.environ | {"BROKER": broker.url}, check=True)
        return json.loads((phone / "answer.json").read_text()), sorted(path.name for path in phone.iterdir())

    tokens = app_tokens(sandbox)
    (phone / "tokens.json").write_text(json.dumps(of(tokens, "refresh_token", "id_token")))
    sandbox.fault("oidc", endpoint="refresh", fault="status", status=503, times=1)
    answer, files = run()
    case.same(("provider_unavailable", True), (answer.get("code"), {"tokens.json", "mark.json"} <= set(files)),
              "the page's block during a fault → keeps the tokens and the mark")
    answer, files = run()
    case.same((True, ["answer.json", "session.txt"]), ("handle" in answer, files), "the page's block, run again → the session, and tokens and mark are gone")
    sandbox.control("DELETE", "/faults")
    (phone / "tokens.json").write_text(json.dumps({"refresh_token": "rt-dead"}))
    answer, files = run()
    case.same(("grant_revoked", False), (answer.get("reason"), "tokens.json" in files), "the page's block with a dead token → grant_revoked, and the tokens are gone")


class Checks:
    """Runs of `coatcheck check --online --import`, and all that they printed."""

    def __init__(self, case, broker):
        self.case, self.broker, self.printed, self.tokens = case, broker, "", []
        self.file = case.folder / f"{broker.name}-tokens.json"

    def run(self, sent, *options, mode=0o600):
        """Runs the command with this content of its file. Returns the exit status and the output."""
        self.file.write_text(sent if isinstance(sent, str) else json.dumps(sent))
        self.file.chmod(mode)
        if isinstance(sent, dict):
            self.tokens += [value for value in (sent.get("tokens") or {}).values() if isinstance(value, str) and len(value) > 8]
        done = subprocess.run(
            [self.broker.program, "check", "--config", self.broker.configuration, "--online", "--import", self.file, *options],
            capture_output=True, text=True)
        self.printed += done.stdout + done.stderr
        return done.returncode, done.stdout + done.stderr

    def refused(self, sent, words, sentence, *options):
        status, said = self.run(sent, *options)
        self.case.verdict(status == 1 and words in said, f"check --import, {sentence} → exit status 1, and the output has `{words}`", said)

    def granted(self, sent, sentence, *options, subject, **more):
        status, said = self.run(sent, *options, **more)
        last = said.splitlines()[-1] if said else ""
        self.case.verdict(
            status == 0 and re.match(r"ok +providers\.oidc clients\.ios import: granted", last) and last.endswith(f"; subject {subject}"),
            f"check --import, {sentence} → exit status 0, and the last line has the subject", said)
        return said

    def is_silent(self):
        text = self.printed + (self.broker.log() if self.broker.process else "")
        kept = [token for token in self.tokens if token in text]
        self.case.verdict(self.tokens and not kept, "check --import in every row of this case → tokens are absent from its output and the broker's log", len(kept))


def subject(tokens):
    """The user of the app's own id_token."""
    return json.loads(base64.urlsafe_b64decode(tokens["id_token"].split(".")[1] + "=="))["sub"]


def are_revoked(sandbox, sent):
    """Whether the posted refresh token's grant has at least two refresh tokens, and zero of its tokens live."""
    found = sandbox.control("GET", "/tokens").json["items"]
    grant, = {item["grant"] for item in found if item["token"] == sent["tokens"]["refresh_token"]}
    mine = [item["live"] for item in found if item["grant"] == grant]
    return len(mine) >= 3 and not any(mine)


def soon():
    """The end of the window, which `check` accepts."""
    return str(datetime.date.today() + datetime.timedelta(days=90))


def first_import(case):
    """The operator makes the first import with `coatcheck check`, while the broker is stopped."""
    sandbox = Sandbox(case)
    sandbox.settings("oidc", refresh_token="always", refresh_mode="rotate-strict")
    broker = Broker(case, sandbox, settings=window(soon()), start=False)
    checks = Checks(case, broker)
    tokens = app_tokens(sandbox)
    good = body(of(tokens, "refresh_token", "id_token"), device="Olga's phone")
    done = subprocess.run([broker.program, "check", "--config", broker.configuration, "--import", "x"], capture_output=True, text=True)
    case.same(64, done.returncode, "check --import, while --online is missing → exit status 64")
    for sent, words in (
            ("refresh", "it has to be a JSON object"), ({}, "/provider is missing, /tokens is missing"),
            (good | {"tokens": {"refresh_token": 5}}, "/tokens/refresh_token has the wrong type"),
            (good | {"tokens": {"refreshToken": "x"}}, "/tokens/refreshToken is unknown"), (good | {"code": "x"}, "/code is unknown"),
            (body({"access_token": "at"}), "/tokens/refresh_token is missing"), (good | {"client": "tv"}, "/client is unknown"),
            (good | {"provider": "tv"}, "lacks the provider"), (good | {"client": "web"}, "lacks `import_tokens`")):
        if words.startswith(("/client is", "lacks", "/tokens/refresh_token is m")) and not (broker.data / "coatcheck.db").exists():
            checks.refused(sent, "run `coatcheck migrate` first", "and the store is missing")
            subprocess.run([broker.program, "migrate", "--config", broker.configuration], check=True, capture_output=True)
        checks.refused(sent, words, f"of a file with {words}")
    done = subprocess.run([broker.program, "check", "--config", broker.configuration, "--online", "--import", case.folder / "nowhere"],
                          capture_output=True, text=True)
    case.verdict(done.returncode == 1 and "nowhere is unreadable" in done.stderr, "check --import of a missing file → exit status 1", done.stderr)
    broker.configure(providers={"oidc": {"clients": {"ios": {"import_tokens": {"until": "2026-01-01"}}}}})
    checks.refused(good, "`until` is over", "after `until`")
    broker.configure(providers={"oidc": {"clients": {"ios": {"import_tokens": {"until": soon()}}}}})
    case.same(0, sandbox.calls("oidc/refresh"), "check --import, refused before the call → zero refreshes")
    other = body(of(app_tokens(sandbox, client="another-app"), "refresh_token"))
    checks.refused(other, "is `client_id` the client that the token belongs to?", "with another client's token")
    sandbox.fault("oidc", endpoint="discovery", fault="status", status=503)
    checks.refused(good, "left out, because of the faults above", "while the provider's metadata is away")
    sandbox.control("DELETE", "/faults")
    sandbox.fault("oidc", endpoint="refresh", fault="status", status=503, times=1)
    checks.refused(good, "try again with the same file", "while the provider answers 503")
    sandbox.control("DELETE", "/faults")
    said = checks.granted(good, "with the operator's own tokens in a file with mode 0644", subject=subject(tokens), mode=0o644)
    case.verdict("is a file that others may read; its mode should be 0600" in said, "check --import of a file with mode 0644 → a warning", said)
    case.same((0, 0), tuple(broker.query(f"SELECT count(*) FROM {table}")[0][0] for table in ("sessions", "outbox")),
              "check --import beside a stopped broker → zero sessions, and zero revocations wait")
    case.verdict(are_revoked(sandbox, good), "check --import beside a stopped broker → the new tokens are revoked at once")
    checks.refused(good, "these tokens were refused or tested before", "with the same file again")
    case.same([("check", "first_import", "oidc/ios")], broker.query("SELECT DISTINCT actor, action, target FROM audit WHERE target = 'oidc/ios'"),
              "check --import → an audit record")
    tokens = app_tokens(sandbox)
    (broker.folder / "mine.json").write_text(json.dumps({"provider": "oidc", "client": "ios", "tokens": of(tokens, "refresh_token")}))
    path = f"{pathlib.Path(broker.program).parent}:{os.environ['PATH']}"
    done = subprocess.run(["bash", "-euc", block("--import")], cwd=broker.folder, env=os.environ | {"PATH": path}, capture_output=True, text=True)
    shown, = re.findall(r"^(ok .* import: .*) \d+$", PAGE.read_text(), re.M)
    case.same([f"{shown} {subject(tokens)}"], done.stdout.splitlines()[-1:], "the page's block for the first import → the page's line, with the user")
    broker.start()
    case.same("409 login_required grant_revoked", post(broker, good).told, "the operator's own phone posts the tested token → it signs in again")
    case.same("409 login_required grant_revoked", post(broker, body({"refresh_token": "rt-dead"})).told,
              "after the first import by check --import, a refused token → grant_revoked")
    checks.is_silent()


def first_beside(case):
    """The operator makes the first import beside a running broker: SQLite through the management listener, PostgreSQL directly."""
    sandbox = Sandbox(case)
    sandbox.settings("oidc", refresh_token="always", refresh_mode="rotate-strict")

    def file_of(broker, name, secret):
        path = broker.folder / name
        path.write_text(secret + "\n")
        path.chmod(0o600)
        return ["--token-file", path]

    broker = Broker(case, sandbox, start=False, settings=merged(window(soon()), {"management": {"admin_tokens": [
        {"name": "ender", "sha256": sha256(ADMIN), "may": ["read", "end"]}, {"name": "olga", "sha256": sha256("keeper-0e1d88"), "may": ["maintain"]}]}}))
    broker.start()
    checks = Checks(case, broker)
    keeper = file_of(broker, "keeper", "keeper-0e1d88")
    tokens = app_tokens(sandbox)
    sent = body(of(tokens, "refresh_token", "id_token"))
    checks.refused(sent, "use --token-file with an admin token that has `maintain`", "beside a broker on SQLite, while the admin token is missing")
    checks.refused(sent, "backend_not_allowed", "with an admin token that lacks `maintain`", *file_of(broker, "ender", ADMIN))
    for faulty in ({}, sent | {"by": "x"}, sent | {"tokens": {"refresh_token": 5}}):
        answer = call(broker.management + "/admin/v1/first-imports", "POST", faulty, Authorization="Bearer keeper-0e1d88")
        case.same("400 invalid_request", answer.told, f"POST /admin/v1/first-imports with {sorted(faulty)}, and a wrong or missing member → 400")
    dead = body({"refresh_token": "rt-dead"})
    case.same("502 provider_error", post(broker, dead).told, "before the first import, a refused token → 502")
    sandbox.settings("oidc", id_token_on_refresh=False)
    sandbox.fault("oidc", endpoint="userinfo", fault="status", status=503)
    checks.refused(sent, "the broker keeps the new tokens for an hour", "while userinfo is away", *keeper)
    sandbox.control("DELETE", "/faults")
    checks.granted(sent, "with the same file, beside a broker on SQLite", *keeper, subject=subject(tokens))
    case.same(1, sandbox.calls("oidc/refresh") - 1, "check --import while userinfo is away, and again → one refresh, and one of the dead token")
    case.verdict(wait_for(20, lambda: are_revoked(sandbox, sent)), "check --import beside a broker on SQLite → the new tokens are revoked")
    case.same(0, broker.query("SELECT count(*) FROM sessions")[0][0], "check --import beside a broker on SQLite → zero sessions")
    case.same("409 login_required grant_revoked", post(broker, dead).told, "after the first import, a refused token → grant_revoked")
    case.same(0, broker.metric("coatcheck_moved_total", result="moved"), "check --import → the metric of moved users stays 0")
    case.same([("olga", "first_import", "oidc/ios")], broker.query("SELECT DISTINCT actor, action, target FROM audit"),
              "check --import beside a broker on SQLite → the audit record has the token's name")
    checks.is_silent()
    broker.stop(signal.SIGTERM)
    with Database() as database:
        shared = Broker(case, sandbox, name="shared", start=False, settings=merged(window(soon()), {"store": {"url": database.url()}}))
        shared.start()
        case.same("502 provider_error", post(shared, dead).told, "on PostgreSQL, before the first import, a refused token → 502")
        checks = Checks(case, shared)
        tokens = app_tokens(sandbox)
        sent = body(of(tokens, "refresh_token"))
        checks.granted(sent, "beside a broker on PostgreSQL", subject=subject(tokens))
        case.verdict(wait_for(20, lambda: are_revoked(sandbox, sent)), "check --import beside a broker on PostgreSQL → the new tokens are revoked")
        case.same("409 login_required grant_revoked", post(shared, dead).told, "on PostgreSQL, after the first import, a refused token → grant_revoked")
        checks.is_silent()
        shared.stop(signal.SIGTERM)


CASES = {
    "refused": (refused, 120), "granted": (granted, 180), "rows": (rows, 240), "another_user": (another_user, 120),
    "refused_access_token": (refused_access_token, 120), "closed": (closed, 180), "fifty": (fifty, 240), "page": (page, 120),
    "first_import": (first_import, 240), "first_beside": (first_beside, 240),
}

if __name__ == "__main__":
    main(CASES, __doc__)
