"""Answers and tokens of real providers that deviate from the specifications (docs/reference/leniency-providers.md). The
sandbox plays each of them as a fault with a name.
"""

import pathlib
import sys
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND, Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.front import Front, of_type, with_members  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402

# Quirks of keys and metadata. The broker caches these documents, so each quirk needs a broker of its own.
OF_DOCUMENTS = ("jwks-nulls", "jwks-padded", "jwks-twice", "jwks-strangers", "discovery-unusable", "discovery-empty")
OF_TOKENS = ("null-claims", "null-header", "large-claims", "x5c-header", "half-emoji", "alg-ed25519")
OF_BODIES = ("byte-order-mark", "x-gzip", "gzip-members", "raw-deflate")
TOKENS = ("00D5g!AQ8.", "act.!", "Atza|", "v^1.1#i^1#", "2/1201:", "a,b;c\"d\\e{f}g%h$i")


def stack(case, name="broker", provider=None, **more):
    sandbox = Sandbox(case)
    upstream = {"base_url": sandbox.url + "/api", "provider": "oidc", "allow": ["GET /**"]}
    settings = {"providers": {"oidc": provider or {}}, "upstreams": {"api": upstream}} | more
    return sandbox, Broker(case, sandbox, name=name, settings=settings)


def documents(case):
    """Key sets and metadata in the form of real servers."""
    for quirk in OF_DOCUMENTS:
        sandbox = Sandbox(case)
        sandbox.fault("oidc", fault=quirk)
        broker = Broker(case, sandbox, name=quirk)
        case.same(201, broker.log_in()[1].status, f"keys or metadata with the quirk {quirk} → a sign-in succeeds")
        broker.stop()
    sandbox = Sandbox(case)
    for member in ("token_endpoint", "jwks_uri", "authorization_endpoint"):
        sandbox.settings("oidc", discovery={member: "/relative"})
        broker = Broker(case, sandbox, name=member)
        case.same(502, broker.log_in()[0].status, f"metadata whose {member} is a relative URL → the start of a login gets 502")
        broker.stop()


def tokens(case):
    """Token answers with unusual id_tokens, members or encodings."""
    sandbox, broker = stack(case)
    for quirk, words in (("duplicate-claim", "stands twice"), ("duplicate-scope", "the member /scope stands twice")):
        sandbox.fault("oidc", fault=quirk, times=1)
        case.same(502, broker.log_in()[1].status, f"a token answer with the quirk {quirk} → the sign-in gets 502")
        case.verdict(wait_for(5, lambda: words in broker.log()), f"a token answer with the quirk {quirk} → the log names the repeated member", broker.log()[-400:])
    for quirk in OF_TOKENS + OF_BODIES:
        sandbox.fault("oidc", fault=quirk, times=1)
        case.same(201, broker.log_in()[1].status, f"a token answer with the quirk {quirk} → a sign-in succeeds")
    case.verdict("token is not JSON" not in broker.log(), "sign-ins with unusual token answers → the log calls no answer `not JSON`")


def alphabets(case):
    """Access tokens with unusual ASCII characters arrive unchanged at an upstream and at a backend."""
    gateway = {"orders": {"may": ["token", "forward-auth"], "forward_access_token": True}}
    sandbox, broker = stack(case, backends=gateway)
    for mark in TOKENS:
        sandbox.settings("oidc", token_prefix=mark)
        session = broker.sign_in()
        echo = broker.call("GET", "/v1/relay/api/echo", session)
        seen = dict(map(tuple, echo.json["headers"])).get("Authorization", "") if echo.status == 200 else echo.told
        case.verdict(seen.startswith("Bearer " + mark), f"a token that begins with {mark} → arrives unchanged at the upstream", seen)
        gate = broker.call("GET", "/v1/forward-auth", X_Coatcheck_Backend=BACKEND, X_Coatcheck_Session=session)
        case.verdict((gate.fields["X-Auth-Token"] or "").startswith(mark), f"a token that begins with {mark} → arrives unchanged through forward-auth", gate.told)
        case.same("200", broker.refresh(session).told, f"a token that begins with {mark} → a refresh succeeds")


def addresses(case):
    """Forward-auth gives a service an e-mail address only if email_verified is true (as JSON or as text)."""
    for source, provider in (("id_token", {}), ("userinfo", {"identity": {"source": "userinfo"}}),
                             ("claims", {"identity": {"source": "userinfo", "email": "/email"}})):
        sandbox, broker = stack(case, name=source, provider=provider)
        for value, shown in (("false", ""), ("no", ""), (0, ""), (1, ""), ("true", "ana@example.org"), (True, "ana@example.org")):
            fault = {"fault": "verified-text"} if source == "id_token" else {"fault": "userinfo-verified-text", "endpoint": "userinfo"}
            sandbox.fault("oidc", value=value, times=1, **fault)
            session = broker.sign_in()
            gate = broker.call("GET", "/v1/forward-auth", X_Coatcheck_Backend=BACKEND, X_Coatcheck_Session=session)
            case.same(shown, gate.fields["X-Auth-Email"], f"the e-mail address comes from {source} with email_verified {value!r} → forward-auth shows {'the' if shown else 'no'} e-mail address")
        broker.stop()


def identities(case):
    """A userinfo endpoint that refuses a new token at first, and one whose answer has an error next to a profile."""
    sandbox, broker = stack(case, provider={"identity": {"source": "userinfo"}})
    sandbox.fault("oidc", fault="userinfo-not-yet", times=2)
    case.same(502, broker.log_in()[1].status, "userinfo refuses the token twice → the sign-in gets 502")
    case.same(2, sandbox.calls("oidc/userinfo"), "userinfo refuses the token twice → the broker has called it twice")
    sandbox.fault("oidc", fault="userinfo-error-ok", value="invalid_token", times=1)
    case.same(502, broker.log_in()[1].status, "userinfo answers a whole profile with the error invalid_token → the sign-in gets 502")
    for status in (401, 403, 404):
        sandbox.fault("oidc", fault="userinfo-not-yet", status=status, times=1)
        case.same(201, broker.log_in()[1].status, f"userinfo answers {status} once, then the profile → a sign-in succeeds")
    sandbox.fault("oidc", fault="userinfo-error-ok", times=1)
    case.same(201, broker.log_in()[1].status, "userinfo answers a profile with an error whose code is ok → a sign-in succeeds")


def dead_grants(case):
    """A provider reports a dead refresh token in a member of its own, which the settings may name (`dead_grants`)."""
    named = {"token_response": {"dead_grants": [{"at": "/errors/*/errorType", "values": ["invalid_grant"]}]}}
    sandbox, broker = stack(case, name="unnamed")
    session = broker.sign_in()
    sandbox.fault("oidc", fault="dead-grant")
    case.verdict(broker.refresh(session).is_passing_fault, "a refresh, and the provider reports a dead grant in a member that the settings do not name → 503")
    case.same("200", broker.look(session).told, "a refresh, and the provider reports a dead grant in a member that the settings do not name → the session is alive")
    broker.stop()
    sandbox, broker = stack(case, name="named", provider=named)
    session = broker.sign_in()
    two = {"success": False, "errors": [{"errorType": "invalid_grant"}, {"errorType": "system"}]}
    sandbox.fault("oidc", fault="dead-grant", value=two)
    case.verdict(broker.refresh(session).is_passing_fault, "a refresh, and the provider reports a dead grant together with an unknown error → 503")
    case.same("200", broker.look(session).told, "a refresh, and the provider reports a dead grant together with an unknown error → the session is alive")
    sandbox.control("DELETE", "/faults")
    sandbox.fault("oidc", fault="dead-grant")
    ended = wait_for(40, lambda: (found := broker.refresh(session)).status == 401 and found.told, 0.5)
    case.same("401 session_ended grant_revoked", ended, "a refresh, and the provider reports a dead grant in the member that the settings name → the session ends as grant_revoked")


EVENT = "http://schemas.openid.net/event/backchannel-logout"
# Edits of the token endpoint's answers. A sign-in and a refresh try each of them.
ANSWERS = {
    "status 201": lambda status, fields, body, _: (201 if status == 200 else status, fields, body),
    "expires_in as text": with_members(expires_in="3599"), "a number with a point as text": with_members(expires_in="3599.0"),
    "an empty error": with_members(error="", error_description=""), "an error of null": with_members(error=None),
    "token_type left out": with_members(token_type=...), "an unknown member": with_members(not_before_policy=0, ext_expires_in="x", scope=None),
    "text/plain": of_type("text/plain; charset=utf-8"), "text/javascript": of_type("text/javascript"), "text/html": of_type("text/html"),
    "the media type left out": of_type(None), "UTF-16 by name": of_type("application/json; charset=utf-16"),
}
KEPT = {
    "an empty refresh token": with_members(refresh_only=True, refresh_token=""),
    "null tokens": with_members(refresh_only=True, refresh_token=None, id_token=None), "an empty id_token": with_members(refresh_only=True, id_token=""),
}
# A provider's answers to a refresh with a dead token: body, media type, status.
DEAD = {
    "JSON as text/plain": (b'{"error":"invalid_grant"}', "text/plain; charset=utf-8", 400), "status 401": (b'{"error":"invalid_grant"}', "application/json", 401),
    "status 200": (b'{"error":"invalid_grant"}', "application/json", 200), "a form": (b"error=invalid_grant", "application/x-www-form-urlencoded", 400),
    "an error with a second word next to it": (b'{"error":"invalid_grant","status":"BAD_REFRESH_TOKEN","message":"x"}', "application/json", 400),
}


def answers(case):
    """Answers of the token endpoint that users of other OAuth clients have reported."""
    front = Front(case)
    broker = Broker(case, front.sandbox)
    front.edits["/oidc/token"] = with_members(token_type="jwt-bearer")
    case.same(502, broker.log_in()[1].status, "a token answer whose token_type the settings do not allow → the sign-in gets 502")
    front.edits.clear()
    session = broker.sign_in()
    front.edits["/oidc/token"] = lambda *_: (400, {"Content-Type": "application/json"}, b'{"status":"BAD_REFRESH_TOKEN","message":"x"}')
    case.verdict(broker.refresh(session).is_passing_fault, "a refresh, and the provider reports a dead grant in another member than `error` → 503 with Retry-After")
    for name, (body, media, status) in DEAD.items():
        front.edits.clear()
        session = broker.sign_in()
        front.edits["/oidc/token"] = lambda *_, found=(status, {"Content-Type": media}, body): found
        case.same("401 session_ended grant_revoked", broker.refresh(session).told, f"a refresh, and the provider reports a dead grant as {name} → the session ends as grant_revoked")
    for edits, mode in ((ANSWERS, "rotate"), (KEPT, "keep")):
        front.sandbox.settings("oidc", refresh_mode=mode)
        for name, edit in edits.items():
            front.edits["/oidc/token"] = edit
            session = broker.sign_in()
            case.same(["200", "200"], [broker.refresh(session).told for _ in range(2)], f"token answers with {name} → a sign-in and two refreshes succeed")


def log_outs(case):
    """Logout tokens in the forms that real servers send."""
    sandbox, broker = stack(case)
    number = iter(range(100))

    def log_out(name, status, mutate=None, header=None):
        sid = f"sid-{next(number)}"
        session = broker.sign_in(sandbox_sid=sid)
        order = {"provider": "oidc", "client_id": "ios-app", "user": "ana", "sid": sid, "mutate": mutate or {}, "header": header or {}}
        token = sandbox.control("POST", "/backchannel-logout", order).json["token"]
        found = broker.call("POST", "/v1/backchannel-logout/oidc", body=f"logout_token={token}", Content_Type="application/x-www-form-urlencoded")
        case.same((status, status != 200), (found.status, broker.look(session).status == 200), f"a logout token with {name} → {status}, and the session {'ends' if status == 200 else 'lives'}")

    log_out("jti left out", 400, {"jti": None})
    log_out("a nonce", 400, {"nonce": "n"})
    log_out("lists for events", 400, {"events": [[[]]]})
    log_out("event for events", 400, {"events": None, "event": {EVENT: {}}})
    log_out("another event", 400, {"events": {EVENT.replace("openid.net", "openidnet"): {}}})
    log_out("exp left out", 200, {"exp": None})
    log_out("several audiences", 200, {"aud": ["other", "ios-app"]})
    log_out("further claims", 200, {"typ": "Logout", "auth_time": 7, "sub": None})
    for header in ("JWT", None, "logout+jwt", "LOGOUT+JWT", "application/logout+jwt"):
        log_out(f"the type {header}", 200, header={"typ": header})


CASES = {
    "documents": (documents, 60), "tokens": (tokens, 60), "alphabets": (alphabets, 60), "addresses": (addresses, 60),
    "identities": (identities, 60), "dead-grants": (dead_grants, 60),
    "answers": (answers, 60), "log-outs": (log_outs, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
