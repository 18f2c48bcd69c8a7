"""A token for each API: upstreams and backends get their own access tokens, and no answer to such a call ends a session.
Refusals before acceptances; the provider's calls are counted, and no refresh token is used twice.
"""

import json
import pathlib
import re
import signal
import subprocess
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.audiences import (  # noqa: E402
    ACCESS_TOKEN, BILLS, ENDED, EXCHANGE, ORDERS, ROWS, WIDE, exchange, never_twice, relay, requests, settings, target)
from support.broker import ADMIN, Broker, sha256  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402


def on_the_wire(case):
    """The targets in sign-in, code, refresh and exchange, and a backend's permitted targets."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings=settings(sandbox))
    begun, _ = broker.log_in(client="web")
    asked = urllib.parse.parse_qsl(urllib.parse.urlsplit(begun.json["authorization_url"]).query)
    case.same([ORDERS, BILLS], [value for name, value in asked if name == "resource"], "the authorization request → has each resource once, in the file's order")
    case.same("openid email offline_access", dict(asked)["scope"], "the authorization request → has each scope once")
    case.same([[ORDERS, BILLS]], [[v for n, v in pairs if n == "resource"] for pairs in requests(sandbox, "token")], "the request with the code → has the same resources")
    narrow = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios", "scope": "openid"})
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(narrow.json["authorization_url"]).query))
    case.same("openid email", asked["scope"], "an app asks for fewer scopes → the upstreams' scopes are added")

    session = broker.sign_in(client="web")
    sandbox.control("DELETE", "/requests")
    for fields, why in [
            ([("resource", ORDERS)], "a part of an entry"), ([("resource", ORDERS), ("resource", BILLS), ("audience", "stock")], "two entries together"),
            ([("audience", "stock")], "an audience without its scope"), ([("resource", "https://api.example.org/others")], "an unknown target"),
            ([("audience", "ledger")], "an upstream's target")]:
        case.same("400 invalid_target", f"{(a := exchange(broker, session, *fields)).status} {a.json.get('error')}", f"a backend that names {why} → invalid_target")
    case.same("400 invalid_request", f"{(a := exchange(broker, session, ('audience', 'stock'), ('audience', 'stock'))).status} {a.json.get('error')}", "an audience that comes twice → invalid_request")
    case.same(0, sandbox.calls("oidc/refresh"), "the refused exchanges → no call of the provider")
    case.same(200, exchange(broker, session).status, "a backend that names no target → gets the main token")
    case.same(0, sandbox.calls("oidc/refresh"), "a backend that names no target → causes no refresh")

    for name, wanted in [("orders", [("resource", ORDERS)]), ("mail", [("scope", "email")])]:
        sandbox.control("DELETE", "/requests")
        case.same([200, 200], [relay(broker, session, name).status for _ in range(2)], f"two calls to the upstream {name} → its own token is accepted")
        case.same([wanted], [target(pairs) for pairs in requests(sandbox, "refresh")], "two calls to one upstream → one refresh with its parameters")
    case.same(401, call(f"{sandbox.url}/api/audience/orders/echo", Authorization="Bearer x").status, "the upstream with another token → 401")
    case.same(200, relay(broker, session, "own").status, "an upstream without `token` → the session's own token is accepted")
    answer = exchange(broker, session, ("resource", BILLS), ("resource", ORDERS))
    case.same(200, answer.status, "a backend names its entry in another order → 200")
    found = {item["token"]: item for item in sandbox.control("GET", "/tokens?provider=oidc").json["items"]}
    case.same([ORDERS, BILLS], found[answer.json["access_token"]]["audience"], "a backend's entry of two resources → a token for both")
    case.same(200, exchange(broker, session, ("audience", "stock"), ("scope", "email")).status, "the backend's other entry → 200")

    sandbox.control("DELETE", "/requests")
    sandbox.fault("oidc", fault="exchange-refresh-token")
    case.same([200, 200], [relay(broker, session, "ledger").status for _ in range(2)], "two calls to an upstream with `exchange` → its token is accepted")
    calls = requests(sandbox, "exchange")
    case.same(1, len(calls), "two calls to an upstream with `exchange` → one exchange")
    form = dict(calls[0])
    case.same((EXCHANGE, ACCESS_TOKEN, ACCESS_TOKEN, "ledger"), tuple(form.get(n) for n in ("grant_type", "subject_token_type", "requested_token_type", "audience")), "a call to an upstream with `exchange` → the exchange has the parameters of RFC 8693")
    case.same(exchange(broker, session).json["access_token"], form["subject_token"], "a call to an upstream with `exchange` → its subject token is the session's access token")
    case.same(200, broker.refresh(session).status, "an exchange's answer with a refresh token → the session keeps its own")
    sandbox.control("DELETE", "/faults/oidc")
    case.same(5, broker.query(ROWS)[0][0], "five fetched tokens → five rows")
    never_twice(case, sandbox)

    # Children, step-up and end.
    login = broker.call("POST", "/v1/logins", session, {"step_up": {"max_age": 600}})
    cookie = re.search(r"coatcheck-login=[^;]+", login.fields["Set-Cookie"])[0]
    asked = urllib.parse.parse_qsl(urllib.parse.urlsplit(login.json["authorization_url"]).query)
    case.same([ORDERS, BILLS], [value for name, value in asked if name == "resource"], "a step-up → the authorization request has the resources")
    callback = call(login.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]
    done = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f"{cookie}; coatcheck={session}")
    case.same((200, 0), (done.status, broker.query(ROWS)[0][0]), "a step-up → the rows of the old grant's tokens are deleted")
    case.same(200, relay(broker, session, "orders").status, "a call to the upstream after the step-up → 200")
    case.same(1, broker.query(ROWS)[0][0], "a call to the upstream after the step-up → one row")
    case.same(204, broker.log_out(session).status, "a log-out → 204")
    case.same(0, broker.query(ROWS)[0][0], "a log-out → the session's token rows are deleted")
    sandbox.settings("oidc", refresh_token="never")
    bare = broker.sign_in()
    case.same("403 upstream_not_allowed", relay(broker, bare, "orders").told, "a session without a refresh token at an upstream with `token` → refused")
    case.same("400 invalid_target", f"{(a := exchange(broker, bare, ('audience', 'stock'), ('scope', 'email'))).status} {a.json.get('error')}", "a backend's exchange for a session without a refresh token → refused")
    case.same(200, relay(broker, bare, "own").status, "a session without a refresh token at an upstream without `token` → 200")


def refused(case):
    """The provider refuses a token for one API. The session lives, and the broker asks again only after a minute."""
    sandbox = Sandbox(case)
    clock = Clock(case)
    broker = Broker(case, sandbox, clock=clock, settings=settings(sandbox))
    session = broker.sign_in(client="web")
    for index, error in enumerate(["invalid_grant", "invalid_target", "invalid_scope", "unauthorized_client"]):
        clock.set(wall=70 * index, monotonic=70 * index)
        sandbox.control("DELETE", "/requests")
        sandbox.fault("oidc", fault="refused-target", value=error, match=urllib.parse.quote(ORDERS, safe=""))
        case.same("502 provider_error", relay(broker, session, "orders").told, f"the provider's {error} for a resource → 502")
        named = [target(pairs) for pairs in requests(sandbox, "refresh")]
        case.same([[("resource", ORDERS)]] + ([[]] if error == "invalid_grant" else []), named, "the API's refused target → one call to the provider" + (", and then one plain refresh" if error == "invalid_grant" else ""))
        case.same(["502 provider_error"] * 3, [relay(broker, session, "orders").told for _ in range(3)], "three more calls for the refused resource → 502")
        case.same(len(named), len(requests(sandbox, "refresh")), "three more calls for the refused resource → no call of the provider")
        case.same([200, 200], [relay(broker, session, name).status for name in ("own", "mail")], "a refused resource → other upstreams are served")
        case.same(200, broker.refresh(session).status, "a refused resource → the session's refresh works")
    case.verdict(re.search("refuses an access token for another API", broker.log()), "a refused resource → a line in the log")
    sandbox.control("DELETE", "/faults/oidc")
    case.same("502 provider_error", relay(broker, session, "orders").told, "the refusal's cause is gone within the minute → still 502")
    clock.set(wall=61 + 210, monotonic=61 + 210)
    case.same(200, relay(broker, session, "orders").status, "a minute after the refusal → the upstream is served")
    sandbox.fault("oidc", fault="refused-target", endpoint="exchange", value="invalid_grant")
    case.same("502 provider_error", relay(broker, session, "ledger").told, "a refused exchange → 502")
    case.same([(0,)], broker.query(ENDED), "all refusals of targets → no session ended")

    # If the grant is dead, only the answer to a plain refresh ends the session.
    sandbox.control("DELETE", "/faults/oidc")
    other = broker.sign_in(client="web", user="ben")
    sandbox.control("POST", "/revoke", {"provider": "oidc", "user": "ben"})
    relay(broker, other, "orders")
    case.same("401 session_ended grant_revoked", broker.look(other).told, "a revoked grant → the plain refresh ends the session")


def voided(case):
    """An upstream's 401, and a provider whose refreshes void earlier access tokens."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings=settings(sandbox) | {"limits": WIDE | {"forced_refresh_pause": "60s"}})
    session = broker.sign_in()
    for name in ("orders", "mail"):
        case.same(200, relay(broker, session, name).status, f"a call to {name} → 200")
    sandbox.control("DELETE", "/requests")
    sandbox.settings("oidc", voids_older_tokens=True)
    case.same(200, broker.refresh(session).status, "a refresh that voids earlier tokens → 200")
    case.same(200, relay(broker, session, "orders").status, "an upstream's 401 → its token is renewed")
    case.same([[], [("resource", ORDERS)]], [target(pairs) for pairs in requests(sandbox, "refresh")], "an upstream's 401 → one refresh, with that upstream's resource")
    told = [relay(broker, session, name).told for _ in range(4) for name in ("mail", "orders")]
    case.same({"200", "401 invalid_token"}, set(told), "two targets that void each other's tokens → 200 or the upstream's own 401")
    case.same(3, sandbox.calls("oidc/refresh"), "two targets that void each other's tokens → no loop of refreshes")
    case.same({"401 invalid_token"}, {relay(broker, session, name).told for name in ("mail", "orders")} - {"200"}, "more calls to both targets → one target still gets its 401")
    case.same(3, sandbox.calls("oidc/refresh"), "more calls to both targets → no further refresh")
    told = [broker.refresh(session).told for _ in range(20)]
    case.same({"200"}, set(told), "an app that refreshes twenty times → 200")
    case.same(3, sandbox.calls("oidc/refresh"), "an app that refreshes twenty times → the provider gets no call")
    case.same([(0,)], broker.query(ENDED), "tokens that void each other → no session has ended")
    never_twice(case, sandbox)


def reloaded(case):
    """A reload adds a resource. A session from before the reload gets a token for it only after a step-up."""
    sandbox = Sandbox(case)
    full = settings(sandbox)
    first = dict(full, upstreams={name: {k: v for k, v in one.items() if k != "token"} for name, one in full["upstreams"].items()}, backends={})
    first["management"] = {"admin_tokens": [{"name": "shaper", "sha256": sha256(ADMIN), "may": ["read", "end", "configure"]}]}
    broker = Broker(case, sandbox, settings=first)
    session = broker.sign_in()
    wanted = broker.folder / "next.yaml"
    secret = broker.folder / "token"
    secret.write_text(ADMIN + "\n")
    broker.settings["upstreams"] = full["upstreams"]
    wanted.write_text(json.dumps(broker.settings))
    wanted.chmod(0o600)
    said = subprocess.run(
        [COATCHECK, "config", "diff", "--config", wanted, "--management", broker.management, "--token-file", secret], capture_output=True, text=True)
    case.same(1, said.returncode, "config diff with new targets → the exit status for differences")
    case.verdict("upstreams.orders.token.resource" in said.stdout and "invalid_target" in said.stdout and "step-up" in said.stdout, "config diff with new targets → names the effect on existing sessions", said.stdout + said.stderr)
    broker.configure()
    broker.process.send_signal(signal.SIGHUP)
    case.verdict(wait_for(20, lambda: "configuration reloaded" in broker.log()), "SIGHUP → the configuration is reloaded")
    case.verdict(wait_for(10, lambda: relay(broker, session, "orders").told == "502 provider_error"), "a session from before the reload, at the new target → 502")
    case.same(200, relay(broker, session, "own").status, "a call with the session's own token after a refused target → 200")
    login = broker.call("POST", "/v1/logins", session, {"step_up": {"max_age": 600}})
    cookie = re.search(r"coatcheck-login=[^;]+", login.fields["Set-Cookie"])[0]
    callback = call(login.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]
    done = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f"{cookie}; coatcheck={session}")
    case.same(200, done.status, "the step-up of a session from before the reload → 200")
    case.verdict(wait_for(70, lambda: relay(broker, session, "orders").status == 200, pause=1), "a session from before the reload, after its step-up → served at the new target")


CASES = {
    "on_the_wire": (on_the_wire, 120), "refused": (refused, 120), "voided": (voided, 60), "reloaded": (reloaded, 150),
}

if __name__ == "__main__":
    main(CASES, __doc__)
