"""Any end of a session ends its children and its tickets, at three replicas on one PostgreSQL. This takes at most a second, or
five if notices between the replicas are lost (guarantees 6 and 10). Another case tests a family's sixteen places.
"""

import hashlib
import pathlib
import re
import secrets
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import ADMIN, Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.dpop import encoded  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402

FORM = "application/x-www-form-urlencoded"
# The idle time of the sessions that lapse, in seconds.
IDLE = 5


def settings(broker_urls, store=None):
    web = {"origins": broker_urls, "idle": "1h"}
    children = {"widget": {}, "web": web}
    brief = {"children": {"widget": {}, "web": web | {"idle": f"{IDLE}s"}}, "session": {"idle": f"{IDLE}s"}, "transport": "cookie"}
    found = {"providers": {"oidc": {"clients": {"ios": {"children": children}, "android": brief}}}}
    return found | ({"store": store} if store else {})


def told(answer):
    found = answer.json or {}
    return " ".join(filter(None, [str(answer.status), found.get("code"), found.get("reason")]))


def child(broker, parent, name="home"):
    return broker.call("POST", "/v1/session/children", parent, {"kind": "widget", "name": name})


def ticket(broker, parent, origin):
    """Makes a ticket. Returns its path and its secret."""
    secret = secrets.token_urlsafe(32)
    answer = broker.call("POST", "/v1/session/handovers", parent, {
        "origin": origin, "path": "/v1/session", "challenge": encoded(hashlib.sha256(secret.encode()).digest())})
    return answer.json["url"].removeprefix(origin), secret


def spend(broker, path, secret):
    """Posts a ticket's secret as the broker's page does. Returns the answer."""
    return broker.call(
        "POST", path, body="", Content_Type=FORM, Accept="application/problem+json", Sec_Fetch_Site="same-origin",
        Cookie=f"coatcheck-handover={secret}")


def opened(broker, parent, origin):
    """Hands the parent over to a web view. Returns the token of the new web child."""
    answer = spend(broker, *ticket(broker, parent, origin))
    return re.search(r"coatcheck-web=([\w-]{43})", ", ".join(answer.fields.get_all("Set-Cookie") or []))[1]


def end_by_log_out(first, sandbox, parent):
    return first.log_out(parent).status == 204


def end_by_operator(first, sandbox, parent):
    handle = first.look(parent).json["handle"]
    return call(f"{first.management}/admin/v1/sessions/{handle}", "DELETE", Authorization=f"Bearer {ADMIN}").status == 204


def end_by_provider(first, sandbox, parent):
    token = sandbox.control("POST", "/backchannel-logout", {
        "provider": "oidc", "client_id": "ios-app", "user": "ana", "mutate": {"sid": None}}).json["token"]
    return first.call("POST", "/v1/backchannel-logout/oidc", body=f"logout_token={token}", Content_Type=FORM).status == 200


def end_by_sign_in(first, sandbox, parent):
    begun = first.call("POST", "/v1/logins", parent, {"provider": "oidc", "client": "ios"})
    login = re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]
    callback = call(begun.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]
    answer = first.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f"{login}; coatcheck={parent}")
    return answer.status == 201




ENDINGS = [
    ("its log-out", end_by_log_out), ("an operator", end_by_operator), ("the provider's logout token", end_by_provider),
    ("a new sign-in of its device", end_by_sign_in),
]


def everywhere(case, pooled, limit):
    sandbox = Sandbox(case)
    with Database(*(["--pooler"] if pooled else [])) as database:
        store = {"url": database.url(database.pooler if pooled else None)} | ({"pooler": "transaction"} if pooled else {})
        brokers = []
        for name in ("one", "two", "three"):
            broker = Broker(
                case, sandbox, name=name, like=brokers[0] if brokers else None, start=False)
            url = (brokers[0] if brokers else broker).url
            broker.configure(**settings([url], store), server={"public_url": url})
            broker.start()
            brokers.append(broker)
        first, origin = brokers[0], brokers[0].url
        slow = {}

        def state(broker, token, web, path, secret):
            return (
                told(broker.call("GET", "/v1/session", Authorization=f"Bearer {token}")),
                told(broker.call("GET", "/v1/session", Cookie=f"coatcheck-web={web}")),
                broker.call("GET", path).status, told(spend(broker, path, secret)))

        for name, end in ENDINGS:
            parent = first.sign_in(user="ana")
            token = child(brokers[1], parent).json["session_token"]
            web = opened(brokers[2], parent, origin)
            path, secret = ticket(brokers[1], parent, origin)
            for broker in brokers:
                found = (
                    told(broker.call("GET", "/v1/session", Authorization=f"Bearer {token}")),
                    told(broker.call("GET", "/v1/session", Cookie=f"coatcheck-web={web}")), broker.call("GET", path).status,
                    broker.look(parent).status)
                case.same(("200", "200", 200, 200), found, f"before the parent is ended by {name} → replica {broker.name} accepts the parent's widget, page and ticket")
            begun = time.monotonic()
            case.verdict(end(brokers[1], sandbox, parent), f"the parent session is ended by {name} → the call that ends the parent succeeds")
            dead = ("401 session_ended parent_ended",) * 2 + (410, "410 handover_expired")
            for broker in brokers:
                wait_for(limit + 5, lambda: state(broker, token, web, path, secret) == dead)
                case.same(dead, state(broker, token, web, path, secret), f"the parent was ended by {name} → replica {broker.name} refuses the parent's widget, page and ticket")
                slow[name] = time.monotonic() - begun
        # Next, a parent lapses. Its client has a short idle time and no simulated clock, because a replica ends no session
        # while its clock differs from the database's.
        begun = time.monotonic()
        parent = first.sign_in(user="ben", client="android")
        token = child(brokers[1], parent).json["session_token"]
        path, secret = ticket(brokers[1], parent, origin)
        seen = [
            (told(broker.call("GET", "/v1/session", Authorization=f"Bearer {token}")), broker.call("GET", path).status)
            for broker in brokers]
        if time.monotonic() - begun < IDLE:
            case.same([("200", 200)] * 3, seen, "before the parent session lapses → every replica accepts the parent's widget and ticket")
        dead = ("401 session_ended", 410, "410 handover_expired")

        def lapsed(broker):
            return (told(broker.call("GET", "/v1/session", Authorization=f"Bearer {token}")).rpartition(" ")[0],
                    broker.call("GET", path).status, told(spend(broker, path, secret)))

        time.sleep(max(0, begun + IDLE + 0.5 - time.monotonic()))
        begun = time.monotonic()
        for broker in brokers:
            wait_for(limit + 5, lambda: lapsed(broker) == dead)
            case.same(dead, lapsed(broker), f"the parent session has lapsed → replica {broker.name} refuses the parent's widget and ticket")
        slow["its lapse"] = time.monotonic() - begun
        worst = max(slow, key=slow.get)
        case.verdict(slow[worst] < limit, f"a parent session ends, in each of the tested ways → all replicas refuse the child sessions within {limit} s", f"{worst}: {slow[worst]:.3f} s")
        print("# " + ", ".join(f"{name} {seconds:.3f} s" for name, seconds in slow.items()), flush=True)


def hearing(case):
    """Notices arrive: any end of the parent is effective at all replicas within a second."""
    everywhere(case, False, 1)


def deaf(case):
    """A pooler loses all notices: any end of the parent is effective at all replicas within five seconds."""
    everywhere(case, True, 5)


def places(case):
    """A family has sixteen places. If all are taken, a new widget ends a page, but a new child never ends a widget."""
    sandbox = Sandbox(case)
    with Database() as database:
        for name, store in (("sqlite", None), ("postgresql", {"url": database.url()})):
            broker = Broker(case, sandbox, name=name, start=False)
            broker.configure(**settings([broker.url], store))
            broker.start()
            parent = broker.sign_in()

            def page(web):
                return told(broker.call("GET", "/v1/session", Cookie=f"coatcheck-web={web}"))

            # A parent gets at most eight tickets a minute, so fill the other places with widgets.
            pages = [opened(broker, parent, broker.url) for _ in range(7)]
            made = [child(broker, parent, f"w{n}") for n in range(9)]
            case.same([201] * 9, [answer.status for answer in made], f"{name}: a session with seven page sessions makes nine widgets → all are made, because a family has sixteen places")
            case.same(["200"] * 7, [page(web) for web in pages], f"{name}: a session with seven page sessions makes nine widgets → all page sessions stay alive")
            made += [child(broker, parent, f"w{n}") for n in range(9, 16)]
            case.same([201] * 16, [answer.status for answer in made], f"{name}: seven page sessions and nine widgets fill a family, and seven more widgets are made → 201 each time")
            case.same(["401 session_ended session_limit"] * 7, [page(web) for web in pages], f"{name}: seven more widgets are made in a full family → the seven page sessions end with the reason session_limit")
            case.same("409 too_many_sessions", told(child(broker, parent, "one-more")), f"{name}, a session that has sixteen widgets makes one more → 409 too_many_sessions")
            answer = spend(broker, *ticket(broker, parent, broker.url))
            case.same("409 too_many_sessions", told(answer), f"{name}, a page is opened for a session that has sixteen widgets → 409 too_many_sessions")
            alive = [told(broker.call("GET", "/v1/session", Authorization=f"Bearer {one.json['session_token']}")) for one in made]
            case.same(["200"] * 16, alive, f"{name}: a widget and a page were refused because a session has sixteen widgets → the sixteen widgets stay alive")


if __name__ == "__main__":
    main({"hearing": (hearing, 240), "deaf": (deaf, 300), "places": (places, 180)}, __doc__)
