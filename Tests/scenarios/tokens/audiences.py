"""A token for each API: upstreams and backends get access tokens of their own. If the provider refuses such a token, the
session does not end. The provider's calls are counted, and each refresh token is sent once.
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
    """The targets (resources, audiences, scopes) in sign-ins, token calls, refreshes and exchanges.
    A backend gets tokens only for its permitted targets.
    """
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings=settings(sandbox))
    begun, _ = broker.log_in(client="web")
    asked = urllib.parse.parse_qsl(urllib.parse.urlsplit(begun.json["authorization_url"]).query)
    case.same([ORDERS, BILLS], [value for name, value in asked if name == "resource"], "client has upstreams for two resources → the authorization request names each resource once, in the configuration's order")
    case.same("openid email offline_access", dict(asked)["scope"], "client has upstreams for two resources → the authorization request names each scope once")
    case.same([[ORDERS, BILLS]], [[v for n, v in pairs if n == "resource"] for pairs in requests(sandbox, "token")], "client has upstreams for two resources → the token request names both resources in the configuration's order")
    narrow = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": "ios", "scope": "openid"})
    asked = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(narrow.json["authorization_url"]).query))
    case.same("openid email", asked["scope"], "app starts a login with fewer scopes → the authorization request also has the upstreams' scopes")

    session = broker.sign_in(client="web")
    sandbox.control("DELETE", "/requests")
    for fields, why in [
            ([("resource", ORDERS)], "a part of an entry"), ([("resource", ORDERS), ("resource", BILLS), ("audience", "stock")], "two entries together"),
            ([("audience", "stock")], "an audience without its scope"), ([("resource", "https://api.example.org/others")], "an unknown target"),
            ([("audience", "ledger")], "an upstream's target")]:
        case.same("400 invalid_target", f"{(a := exchange(broker, session, *fields)).status} {a.json.get('error')}", f"backend's token exchange names {why} → invalid_target")
    case.same("400 invalid_request", f"{(a := exchange(broker, session, ('audience', 'stock'), ('audience', 'stock'))).status} {a.json.get('error')}", "backend's token exchange with the same audience twice → invalid_request")
    case.same(0, sandbox.calls("oidc/refresh"), "backend's token exchanges that the broker refuses → no provider call")
    case.same(200, exchange(broker, session).status, "backend's token exchange without a target → 200")
    case.same(0, sandbox.calls("oidc/refresh"), "backend's token exchange without a target → no refresh call at the provider")

    for name, wanted in [("orders", [("resource", ORDERS)]), ("mail", [("scope", "email")])]:
        sandbox.control("DELETE", "/requests")
        case.same([200, 200], [relay(broker, session, name).status for _ in range(2)], f"two relayed calls to the upstream {name} → 200 with a token for {name}")
        case.same([wanted], [target(pairs) for pairs in requests(sandbox, "refresh")], f"two relayed calls to the upstream {name} → one provider call, with the upstream's resource or scope")
    case.same(401, call(f"{sandbox.url}/api/audience/orders/echo", Authorization="Bearer x").status, "direct call to the upstream orders with an invented token → 401")
    case.same(200, relay(broker, session, "own").status, "relayed call to an upstream without `token` → 200 with the session's own token")
    answer = exchange(broker, session, ("resource", BILLS), ("resource", ORDERS))
    case.same(200, answer.status, "backend's token exchange names the two configured resources in another order → 200")
    found = {item["token"]: item for item in sandbox.control("GET", "/tokens?provider=oidc").json["items"]}
    case.same([ORDERS, BILLS], found[answer.json["access_token"]]["audience"], "backend's token exchange for two resources → a token for both")
    case.same(200, exchange(broker, session, ("audience", "stock"), ("scope", "email")).status, "backend's token exchange for the backend's second configured target → 200")

    sandbox.control("DELETE", "/requests")
    sandbox.fault("oidc", fault="exchange-refresh-token")
    case.same([200, 200], [relay(broker, session, "ledger").status for _ in range(2)], "two relayed calls to an upstream with `exchange` → 200")
    calls = requests(sandbox, "exchange")
    case.same(1, len(calls), "two relayed calls to an upstream with `exchange` → one token exchange at the provider")
    form = dict(calls[0])
    case.same((EXCHANGE, ACCESS_TOKEN, ACCESS_TOKEN, "ledger"), tuple(form.get(n) for n in ("grant_type", "subject_token_type", "requested_token_type", "audience")), "relayed call to an upstream with `exchange` → the provider's token exchange has the parameters of RFC 8693")
    case.same(exchange(broker, session).json["access_token"], form["subject_token"], "relayed call to an upstream with `exchange` → the subject token is the session's access token")
    case.same(200, broker.refresh(session).status, "provider's token exchange returned a refresh token, and then the session refreshes with its earlier refresh token → 200")
    sandbox.control("DELETE", "/faults/oidc")
    case.same(5, broker.query(ROWS)[0][0], "session that got five tokens for APIs → five stored rows")
    never_twice(case, sandbox)

    # The stored tokens after a step-up and after a log-out.
    login = broker.call("POST", "/v1/logins", session, {"step_up": {"max_age": 600}})
    cookie = re.search(r"coatcheck-login=[^;]+", login.fields["Set-Cookie"])[0]
    asked = urllib.parse.parse_qsl(urllib.parse.urlsplit(login.json["authorization_url"]).query)
    case.same([ORDERS, BILLS], [value for name, value in asked if name == "resource"], "step-up of a session with tokens for APIs → the authorization request names both resources")
    callback = call(login.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]
    done = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f"{cookie}; coatcheck={session}")
    case.same((200, 0), (done.status, broker.query(ROWS)[0][0]), "step-up of a session with tokens for APIs → 200, and the stored tokens of the old grant are deleted")
    case.same(200, relay(broker, session, "orders").status, "relayed call to an upstream with `token` after the step-up → 200")
    case.same(1, broker.query(ROWS)[0][0], "relayed call to an upstream with `token` after the step-up → one stored row")
    case.same(204, broker.log_out(session).status, "log-out of a session with a token for an API → 204")
    case.same(0, broker.query(ROWS)[0][0], "log-out of a session with a token for an API → the store has no token for an API any more")
    sandbox.settings("oidc", refresh_token="never")
    bare = broker.sign_in()
    case.same("403 upstream_not_allowed", relay(broker, bare, "orders").told, "session without a refresh token calls an upstream with `token` → 403 upstream_not_allowed")
    case.same("400 invalid_target", f"{(a := exchange(broker, bare, ('audience', 'stock'), ('scope', 'email'))).status} {a.json.get('error')}", "backend's token exchange with a target, for a session without a refresh token → 400 invalid_target")
    case.same(200, relay(broker, bare, "own").status, "session without a refresh token calls an upstream without `token` → 200")


def refused(case):
    """The provider refuses a token for one API. The session lives, and the broker requests this token again only after a minute.
    """
    sandbox = Sandbox(case)
    clock = Clock(case)
    broker = Broker(case, sandbox, clock=clock, settings=settings(sandbox))
    session = broker.sign_in(client="web")
    for index, error in enumerate(["invalid_grant", "invalid_target", "invalid_scope", "unauthorized_client"]):
        clock.set(wall=70 * index, monotonic=70 * index)
        sandbox.control("DELETE", "/requests")
        sandbox.fault("oidc", fault="refused-target", value=error, match=urllib.parse.quote(ORDERS, safe=""))
        case.same("502 provider_error", relay(broker, session, "orders").told, f"provider answers {error} for an API's token → the relayed call is 502")
        named = [target(pairs) for pairs in requests(sandbox, "refresh")]
        case.same([[("resource", ORDERS)]] + ([[]] if error == "invalid_grant" else []), named, f"provider answers {error} for an API's token → one call with the API's resource" + (", then one refresh without a resource" if error == "invalid_grant" else ""))
        case.same(["502 provider_error"] * 3, [relay(broker, session, "orders").told for _ in range(3)], "provider has refused an API's token, and three more calls to this API follow within a minute → 502")
        case.same(len(named), len(requests(sandbox, "refresh")), "provider has refused an API's token, and three more calls to this API follow within a minute → no provider call")
        case.same([200, 200], [relay(broker, session, name).status for name in ("own", "mail")], "provider refuses one API's token → relayed calls to other upstreams are 200")
        case.same(200, broker.refresh(session).status, "provider refuses one API's token → a refresh of the session is 200")
    case.verdict(re.search("refuses an access token for another API", broker.log()), "provider refuses one API's token → a line in the log")
    sandbox.control("DELETE", "/faults/oidc")
    case.same("502 provider_error", relay(broker, session, "orders").told, "provider refused an API's token less than a minute ago and would grant it now → the relayed call is still 502")
    clock.set(wall=61 + 210, monotonic=61 + 210)
    case.same(200, relay(broker, session, "orders").status, "relayed call a minute after the provider refused the API's token → 200")
    sandbox.fault("oidc", fault="refused-target", endpoint="exchange", value="invalid_grant")
    case.same("502 provider_error", relay(broker, session, "ledger").told, "provider answers invalid_grant to a token exchange → the relayed call is 502")
    case.same([(0,)], broker.query(ENDED), "provider has refused several tokens for APIs → no session has ended")

    # If the grant is dead, only the answer to a refresh without a resource ends the session.
    sandbox.control("DELETE", "/faults/oidc")
    other = broker.sign_in(client="web", user="ben")
    sandbox.control("POST", "/revoke", {"provider": "oidc", "user": "ben"})
    relay(broker, other, "orders")
    case.same("401 session_ended grant_revoked", broker.look(other).told, "relayed call to an API with `token` after the grant was revoked → the session ends as grant_revoked")


def voided(case):
    """Each refresh at the provider voids earlier access tokens, so upstreams answer 401. The broker does not loop."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings=settings(sandbox) | {"limits": WIDE | {"forced_refresh_pause": "60s"}})
    session = broker.sign_in()
    for name in ("orders", "mail"):
        case.same(200, relay(broker, session, name).status, f"relayed call to {name} before any token is void → 200")
    sandbox.control("DELETE", "/requests")
    sandbox.settings("oidc", voids_older_tokens=True)
    case.same(200, broker.refresh(session).status, "refresh that voids the session's earlier tokens → 200")
    case.same(200, relay(broker, session, "orders").status, "upstream answers 401 to a void token → the broker fetches a new token, and the relayed call is 200")
    case.same([[], [("resource", ORDERS)]], [target(pairs) for pairs in requests(sandbox, "refresh")], "upstream answers 401 to a void token → one more provider call, with this upstream's resource")
    told = [relay(broker, session, name).told for _ in range(4) for name in ("mail", "orders")]
    case.same({"200", "401 invalid_token"}, set(told), "eight relayed calls to two APIs, and each new token voids the other API's token → each is 200 or the upstream's 401")
    case.same(3, sandbox.calls("oidc/refresh"), "eight relayed calls to two APIs, and each new token voids the other API's token → one more provider call, so no loop")
    case.same({"401 invalid_token"}, {relay(broker, session, name).told for name in ("mail", "orders")} - {"200"}, "two more relayed calls to two APIs, and each new token voids the other API's token → one API still answers 401")
    case.same(3, sandbox.calls("oidc/refresh"), "two more relayed calls to two APIs, and each new token voids the other API's token → no further provider call")
    told = [broker.refresh(session).told for _ in range(20)]
    case.same({"200"}, set(told), "app asks for twenty refreshes right after an earlier refresh → 200")
    case.same(3, sandbox.calls("oidc/refresh"), "app asks for twenty refreshes right after an earlier refresh → no provider call")
    case.same([(0,)], broker.query(ENDED), "relayed calls to two APIs, and each new token voids the other API's token → no session has ended")
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
    case.same(1, said.returncode, "`config diff` with a configuration that adds targets → exit 1, because the configurations differ")
    case.verdict("upstreams.orders.token.resource" in said.stdout and "invalid_target" in said.stdout and "step-up" in said.stdout, "`config diff` with a configuration that adds targets → names the effect on existing sessions", said.stdout + said.stderr)
    broker.configure()
    broker.process.send_signal(signal.SIGHUP)
    case.verdict(wait_for(20, lambda: "configuration reloaded" in broker.log()), "SIGHUP after new targets were configured → the configuration is reloaded")
    case.verdict(wait_for(10, lambda: relay(broker, session, "orders").told == "502 provider_error"), "session from before the reload calls an upstream with a new target → 502")
    case.same(200, relay(broker, session, "own").status, "session from before the reload calls an upstream without `token` → 200")
    login = broker.call("POST", "/v1/logins", session, {"step_up": {"max_age": 600}})
    cookie = re.search(r"coatcheck-login=[^;]+", login.fields["Set-Cookie"])[0]
    callback = call(login.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]
    done = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f"{cookie}; coatcheck={session}")
    case.same(200, done.status, "step-up of a session from before the reload → 200")
    case.verdict(wait_for(70, lambda: relay(broker, session, "orders").status == 200, pause=1), "session from before the reload steps up and then calls an upstream with a new target → 200")


CASES = {
    "on_the_wire": (on_the_wire, 120), "refused": (refused, 120), "voided": (voided, 60), "reloaded": (reloaded, 150),
}

if __name__ == "__main__":
    main(CASES, __doc__)
