"""An app moves in from an old server: the broker asks that server for the session of a legacy token (`move_in`)."""

import pathlib
import re
import secrets
import subprocess
import sys
import threading
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from providers.imports import app_tokens, cookie, faults, of, post  # noqa: E402
from support import recipes  # noqa: E402
from support.broker import Broker, merged  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.claim_server import CREDENTIAL, ClaimServer, packed  # noqa: E402
from support.database import Database  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/operate/moving-in.md"
CANARY = "canary-old-session"


def settings(old, **more):
    return {"log": {"level": "trace"}, "providers": {"oidc": {"clients": {"ios": {"move_in": old.setting(**more)}}}}}


def stack(case, *more, **move):
    sandbox, old = Sandbox(case), ClaimServer()
    sandbox.settings("oidc", refresh_token="always")
    return sandbox, old, Broker(case, sandbox, settings=merged(settings(old, **move), *more or ({},)))


def body(token=None, **more):
    legacy = {"token": token} if token else {}
    return {"provider": "oidc", "client": "ios", "legacy": legacy, "login_token": secrets.token_urlsafe(32)} | more


def old_session(sandbox, old, token=None, **members):
    """Gives the old server a session with a refresh token of the provider. Returns the session's token."""
    token = token or f"{CANARY}-{secrets.token_hex(4)}"
    old.sessions[token] = of(app_tokens(sandbox), "refresh_token") | members
    return token


def is_silent(case, broker, old, *tokens):
    """Checks that log and metrics are free of the credential, the old tokens, and the provider's tokens."""
    found = broker.log() + call(broker.management + "/metrics").body.decode()
    secret = [CREDENTIAL, CANARY, *tokens] + [s[name] for s in old.sessions.values() for name in s if name.endswith("_token")]
    kept = [value for value in secret if value in found]
    case.verdict(not kept, "every post of this case → log and metrics are free of credential, cookie and tokens", len(kept))


def refused(case):
    """Members and cookies that are refused before any question, and clients that lack `move_in`."""
    sandbox, old, broker = stack(case, cookie="connect.sid")
    long = "x" * 16385
    for sent, told in (
            (body(), "/legacy/token required"), (body(CANARY, tokens={"refresh_token": "rt"}), "/legacy conflict"),
            (body(CANARY, scope="openid"), "/scope not_allowed"), (body(long), "/legacy/token too_long"),
            (body(legacy={"token": 1}), "/legacy/token wrong_type"), (body(legacy={"x": 1}), "/legacy/x unknown"),
            (body(legacy={"token": "ä"}), "/legacy/token malformed"), (body(legacy="x"), "/legacy wrong_type")):
        answer = post(broker, sent)
        case.same((400, True), (answer.status, told in faults(answer)), f"a faulty legacy post → 400 `{told}`")
    for sent, told in (
            (f"connect.sid={CANARY}; connect.sid={CANARY}", "/legacy duplicate"),
            (f"connect.sid.0={CANARY}; connect.sid.0=b", "/legacy duplicate"),
            ("other=1", "/legacy/token required"), ("connect.sid=", "/legacy/token required"),
            (f"connect.sid.0={CANARY}; connect.sid={'ä'.encode().decode('latin-1')}", "/legacy malformed")):
        answer = post(broker, body(), Cookie=sent)
        case.same((400, [told]), (answer.status, faults(answer)), f"the cookie {sent[:24]}… → 400 `{told}`")
    case.same(0, len(old.asked), "faulty posts → zero questions")
    answer = post(broker, body(CANARY, client="web"))
    case.same("403 client_not_allowed not_open", answer.told, "a client that lacks move_in → 403 not_open")
    answer = post(broker, body(CANARY), Origin="https://evil.example", Sec_Fetch_Site="cross-site")
    case.same("403 cross_origin", answer.told, "a legacy post from another origin → 403 cross_origin")
    case.same(0, sandbox.calls("oidc/refresh"), "refused posts → zero calls at the provider")
    is_silent(case, broker, old)


def answers(case):
    """Each undecided answer of the old server becomes a 503, and the next post asks again."""
    sandbox, old, broker = stack(case)
    token = old_session(sandbox, old)
    sent = body(token)
    whole = packed(200, old.sessions[token])

    def tried(answer, title):
        old.answer = answer if callable(answer) else lambda question: answer
        found = post(broker, sent)
        case.same(("503 provider_unavailable", None, True),
                  (found.told, found.json.get("retry"), (found.fields["Retry-After"] or "").isdigit()), f"{title} → 503 with Retry-After")

    tried(packed(404, "<html>not found</html>"), "a web server's own 404 page")
    tried(packed(404, {"id": "another"}), "a 404 with another id")
    tried(lambda question: packed(400, {"id": question["id"]}), "a 400 with the id")
    for status in (201, 204, 301, 307, 400, 401, 403, 409, 429, 500, 503):
        tried(packed(status, old.sessions[token], Location="/elsewhere", Retry_After="3"), f"status {status}")
    case.verdict("/elsewhere" not in old.targets, "a redirect of the old server → stays unfollowed")
    for junk in ("", "<html>", "[]", '{"refresh_token": 7}', '{"refresh_token": "a", "refresh_token": "b"}', '{"x": "' + "y" * 65536 + '"}'):
        tried(packed(200, junk), f"a 200 with {junk[:30] or 'an empty body'}")
    tried(lambda question: whole[:0], "a closed connection")
    for length in range(1, len(whole)):
        old.answer = lambda question, length=length: whole[:length]
        found = post(broker, sent)
        if found.told != "503 provider_unavailable":
            case.verdict(False, f"an answer cut after {length} bytes → 503", found.told)
            break
    else:
        case.verdict(True, f"an answer cut at each of {len(whole)} bytes → 503")
    old.answer, old.pause = None, 7
    found = post(broker, sent)
    case.verdict(found.told == "503 provider_unavailable" and found.seconds < 6.5, "an answer that begins after 7 s → 503 after 5 s", found.seconds)
    old.pause = 0
    case.same(0, sandbox.calls("oidc/refresh"), "all these answers → zero calls at the provider")
    case.same(1, len({question["id"] for question in old.asked}), "all these questions → one id")
    case.verdict(broker.metric("coatcheck_old_system_answers_total", result="unavailable") > 20, "all these answers → counted as unavailable")
    found = post(broker, sent)
    case.same(201, found.status, "the old server is mended → the same post gets the session")
    case.same(1, sandbox.calls("oidc/refresh"), "the old server is mended → one refresh")
    is_silent(case, broker, old, token)


def unknown(case):
    """The old server refuses a token: one question in ten minutes, and thirty refused tokens a minute for an address."""
    # A broker whose name is loopback serves all callers free of charge.
    server = {"public_url": "https://broker.example.org", "trusted_proxies": ["127.0.0.1"]}
    sandbox, old, broker = stack(case, {"server": server})

    def post(broker, sent):
        return broker.call("POST", "/v1/sessions", body=sent, X_Forwarded_For="203.0.113.7", X_Forwarded_Proto="https")

    for _ in range(3):
        answer = post(broker, body(f"{CANARY}-0"))
        case.same(("409 login_required unknown_session", None), (answer.told, answer.json["login"]), "a made-up token → unknown_session and a null login")
    case.same(1, len(old.asked), "a made-up token, three times → one question")
    # The address gets one of its thirty back every two seconds.
    for number in range(1, 200):
        answer = post(broker, body(f"{CANARY}-{number}"))
        if answer.status == 429:
            break
    case.same(("429 rate_limited", True), (answer.told, (answer.fields["Retry-After"] or "").isdigit()), "made-up tokens in a row → 429")
    case.same("409 login_required unknown_session", post(broker, body(f"{CANARY}-7")).told, "a repeat after the limit → unknown_session")
    case.verdict(30 <= len(old.asked) < 100, "made-up tokens until the 429 → at least thirty questions", len(old.asked))
    case.same(number, len(old.asked), "the 429 → zero questions")
    case.same(1, broker.metric("coatcheck_moved_total", way="legacy", result="limited"), "the 429 → counted as limited")
    broker.restart()
    post(broker, body(f"{CANARY}-0"))
    case.same(number, len(old.asked), "a restart → the refusal is still known")
    is_silent(case, broker, old)


def granted(case):
    """A session with a refresh token becomes a session, which lives and is repeated to its starter."""
    sandbox, old, broker = stack(case, cookie="connect.sid")
    token = old_session(sandbox, old, created_at="2026-01-02T03:04:05Z", device="Ana's phone", expires_at=4102444800)
    sent = body(token)
    answer = post(broker, sent)
    listed = broker.call("GET", "/v1/sessions", cookie(answer)).json["items"][0]
    case.same((201, "2026-01-02T03:04:05Z", "Ana's phone"), (answer.status, answer.json.get("created_at"), listed.get("device")),
              "an old session with a refresh token → a session with its beginning and its device")
    again = post(broker, sent)
    case.same((answer.json["handle"], cookie(answer)), (again.json["handle"], cookie(again)), "the same post again → the same session and cookie")
    case.same("409 code_already_used", post(broker, body(token)).told, "the same token with another login_token → code_already_used")
    case.same((1, 1), (len(old.asked), sandbox.calls("oidc/refresh")), "a move and its repeats → one question and one refresh")
    case.same({"id", "provider", "client", "token"}, set(old.asked[0]), "a question → has id, provider, client and token")
    case.same(200, broker.refresh(cookie(answer)).status, "the session is refreshed → 200")
    # By both ways: first as tokens, then by the old server.
    broker.configure(providers={"oidc": {"clients": {"ios": {"import_tokens": {"until": "2099-12-31"}}}}})
    broker.restart()
    second = old_session(sandbox, old)
    tokens = {"provider": "oidc", "client": "ios", "tokens": dict(old.sessions[second]), "login_token": secrets.token_urlsafe(32)}
    case.same(201, post(broker, tokens).status, "the refresh token as `tokens` → a session")
    before = sandbox.calls("oidc/refresh")
    case.same("409 code_already_used", post(broker, body(second)).told, "the old session of the same refresh token → code_already_used")
    case.same(before, sandbox.calls("oidc/refresh"), "a refresh token by both ways → one refresh")
    # By the cookie, byte for byte, whole or in pieces.
    for sent_cookie, token in (("connect.sid={}", f"s%3A{CANARY}-a.b+c=="), ("x=1; connect.sid.1={1}; connect.sid.0={0}", f"{CANARY}-pieces")):
        old_session(sandbox, old, token)
        answer = post(broker, body(), Cookie=sent_cookie.format(token) if "{}" in sent_cookie else sent_cookie.format(token[:9], token[9:]))
        case.same((201, token), (answer.status, old.asked[-1]["token"]), "the old cookie of the request → a session, and the token as it was sent")
        case.verdict("connect.sid" not in str(answer.fields), "the 201 of a moved cookie → leaves the old cookie")
    case.same(2, broker.metric("coatcheck_moved_total", way="cookie", result="moved"), "two moves by cookie → counted by their way")
    is_silent(case, broker, old)


def large_cookie(case):
    """An old cookie of 16 KiB, in one piece and in several, also through each proxy with the limits of the page."""
    sandbox, old, plain = stack(case)
    broker = Broker(case, sandbox, name="cookies", settings=settings(old, cookie="connect.sid"))
    address = broker.url.removeprefix("http://")

    def posted(pieces, url=broker.url):
        """Posts with the pieces of a new old session's cookie, and with another cookie of 2 KiB."""
        length = 16384 // len(pieces)
        value = (CANARY + "-" + secrets.token_hex(4)).ljust(length * len(pieces), "v")
        old_session(sandbox, old, value)
        pairs = [f"{name}={value[index * length:(index + 1) * length]}" for index, name in enumerate(pieces)]
        return call(url + "/v1/sessions", "POST", body(), Host=address, Cookie="; ".join(["other=" + "o" * 2048, *pairs]))

    for title, pieces in (("one piece", ["connect.sid"]), ("four pieces", [f"connect.sid.{n}" for n in range(4)])):
        case.same(201, posted(pieces).status, f"an old cookie of 16 KiB in {title} → a session")
    answer = post(broker, body(), Cookie="connect.sid=" + "x" * 16385)
    case.same((400, ["/legacy too_long"]), (answer.status, faults(answer)), "an old cookie of 16 KiB and a byte → 400 `/legacy too_long`")
    for name, other, length in (("has `cookie`", broker, 24 * 1024), ("lacks `cookie`", plain, 8 * 1024)):
        answers = [other.call("GET", "/v1/providers", Cookie="a=" + "x" * size) for size in (length - 64, length + 64)]
        case.same(["200", "431 headers_too_large"], [answer.told for answer in answers],
                  f"a client {name} → a header field of {length >> 10} KiB is read, and a larger one gets 431")

    limits = re.findall(r"^\| (nginx|HAProxy|Apache) \| `(.*?)` in ", PAGE.read_text(), re.MULTILINE)
    case.same(["nginx", "HAProxy", "Apache"], [server for server, _ in limits], "docs/operate/moving-in.md has the limit of each proxy")
    limits = {server.lower(): line for server, line in limits} | {"caddy": ""}
    places = {"nginx": ("nginx.conf", r"^    server_name .*$"), "haproxy": ("haproxy.cfg", "^global$"), "apache": ("apache.conf", r"^    ServerName .*$")}
    for server, line in limits.items():
        file, place = places.get(server, (None, None))
        edits = [(file, place, rf"\g<0>\n    {line}")] if line else []
        if line:
            answer = posted(["connect.sid"], recipes.proxy(case, server, [address], MANAGEMENT_PORT=0).url)
            case.verdict(answer.status != 201, f"{server} with its default limit → an old cookie of 16 KiB is refused", answer.told)
        answer = posted(["connect.sid"], recipes.proxy(case, server, [address], edits, MANAGEMENT_PORT=0).url)
        case.same("201", answer.told.split()[0], f"{server} with the limit of the page → an old cookie of 16 KiB makes a session")


def contradictions(case):
    """The old server and the provider disagree, or a session lacks the refresh token."""
    sandbox, old, broker = stack(case)
    token = old_session(sandbox, old, subject="somebody-else")
    for _ in range(2):
        case.same("502 identity_rejected", post(broker, body(token)).told, "the old server names another user → identity_rejected")
    case.verdict(wait_for(20, lambda: broker.metric("coatcheck_revocations_total", provider="oidc", result="done") == 1),
                 "the old server names another user → the granted tokens are revoked")
    old.sessions[f"{CANARY}-bare"] = {"subject": "ana", "expires_at": 4102444800}
    case.same("409 login_required unknown_session", post(broker, body(f"{CANARY}-bare")).told, "a session that lacks a refresh token → unknown_session")
    case.verdict(wait_for(5, lambda: "lacks a refresh token" in broker.log()), "a session that lacks a refresh token → the log has the reason")
    case.same("409 login_required expired", post(broker, body(old_session(sandbox, old, expires_at=1700000000))).told, "an old session that is over → expired")
    # The second answer differs, after the provider was away.
    token = old_session(sandbox, old)
    sent = body(token)
    sandbox.fault("oidc", endpoint="refresh", fault="status", status=503, times=1)
    case.same("503 provider_unavailable", post(broker, sent).told, "the provider is away → 503")
    old_session(sandbox, old, token)
    moved = post(broker, sent)
    case.same((201, moved.json.get("handle")), (moved.status, post(broker, sent).json.get("handle")), "the second answer has another refresh token → one session")
    broker.configure(providers={"oidc": {"clients": {"ios": {"move_in": old.setting(subject="believed")}}}})
    broker.restart()
    answer = post(broker, body(f"{CANARY}-bare2"))
    old.sessions[f"{CANARY}-bare3"] = {"subject": "ana", "expires_at": 4102444800}
    answer = post(broker, body(f"{CANARY}-bare3"))
    case.same((201, "ana", {"expires_at": None, "refreshable": False}), (answer.status, answer.json.get("subject"), answer.json.get("tokens")),
              "`subject: believed`, and a session that lacks a refresh token → a session that lacks provider tokens")
    case.same("409 not_refreshable", broker.refresh(cookie(answer)).told, "a believed session is refreshed → not_refreshable")
    is_silent(case, broker, old)


def closed(case):
    """After `until`, only moves that have begun go on; `check` judges the file and the old server."""
    sandbox, old, broker = stack(case)
    first = body(old_session(sandbox, old))
    handle = post(broker, first).json["handle"]
    for until, reason in (("2026-01-01", "closed"), (None, "not_open")):
        broker.configure(providers={"oidc": {"clients": {"ios": {"move_in": until and old.setting(until=until)}}}})
        broker.restart()
        case.same(f"403 client_not_allowed {reason}", post(broker, body(CANARY)).told, f"until {until} → a new post gets 403 {reason}")
        case.same(handle, post(broker, first).json.get("handle"), f"until {until} → a session is repeated to its starter")
    case.same(1, len(old.asked), "posts after the end → zero questions")

    def check(*options, **more):
        broker.configure(providers={"oidc": {"clients": {"ios": {"move_in": old.setting(**more)}}}})
        found = subprocess.run([broker.program, "check", *options, "--config", broker.configuration], capture_output=True, text=True)
        return found.stdout + found.stderr

    case.verdict("is more than a year away" in check(), "an end in many years → `check` refuses the file")
    near = {"until": "2027-03-31"}
    case.verdict("can name any user" in check(subject="believed", **near), "`subject: believed` → `check` warns")
    found = check("--online", **near)
    case.verdict("refuses a made-up token, and repeats its `id`" in found and "refuses a wrong credential" in found, "an old server that keeps its promises → `check --online` is content")
    case.verdict(CREDENTIAL not in found, "`check --online` → its text is free of the credential")
    old.answer = lambda question: packed(404, {"id": question["id"]})
    case.verdict("answers 404 to a wrong credential" in check("--online", **near), "an old server that ignores the credential → a fault of `check --online`")
    old.answer = lambda question: packed(404, "<html>")
    case.verdict("has to refuse a made-up token with 404" in check("--online", **near), "a web server's own 404 page → a fault of `check --online`")
    gone = {"from": {"url": "http://127.0.0.1:1/claim", "credential": CREDENTIAL}}
    case.verdict("the old system is unreachable" in check("--online", **near, **gone), "an old server that is down → `check --online` reports that it is unreachable")


def fifty(case):
    """Fifty identical posts to two replicas at the same time make one refresh and one session."""
    with Database() as database:
        sandbox, old = Sandbox(case), ClaimServer()
        sandbox.settings("oidc", refresh_token="always", refresh_mode="rotate-strict")
        store = {"store": {"url": database.url()}}
        one = Broker(case, sandbox, name="one", settings=merged(settings(old), store))
        two = Broker(case, sandbox, name="two", like=one, settings=merged(settings(old), merged(store, {"server": {"public_url": one.url}})))
        sent = body(old_session(sandbox, old))
        begin, found = threading.Barrier(50), []

        def send(broker):
            begin.wait()
            found.append(post(broker, sent))

        for future in [case.beside(send, (one, two)[number % 2]) for number in range(50)]:
            future.result(60)
        case.same({201}, {answer.status for answer in found}, "fifty identical posts to two replicas → each gets 201")
        case.same((1, 1), (len({answer.json["handle"] for answer in found}), len({cookie(answer) for answer in found})),
                  "fifty identical posts to two replicas → one session and one cookie")
        case.same((1, 1), (len(old.asked), sandbox.calls("oidc/refresh")), "fifty identical posts to two replicas → one question and one refresh")


CASES = {
    "refused": (refused, 120), "answers": (answers, 240), "unknown": (unknown, 120), "granted": (granted, 180),
    "large_cookie": (recipes.serving(large_cookie), 120), "contradictions": (contradictions, 180), "closed": (closed, 180), "fifty": (fifty, 240),
}

if __name__ == "__main__":
    main(CASES, __doc__)
