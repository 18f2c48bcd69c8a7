"""Step-up at OpenID providers from outside this project. LemonLDAP::NG and Canaille sign their users in again for `max_age`.
Glewlwyd does so, too, but cannot report the time. In every case the session lives, and the user is not asked without end.
"""

import re
import time

from support import glewlwyd, lemonldap
from support.canaille_provider import Canaille
from support.glewlwyd import Glewlwyd
from support.harness import Broker, GaveUp, Sandbox, main, wait_for
from support.lemonldap import OTHER, PASSWORD, STRONG, Lemonldap

APP = "com.example.real:/cb"
# The difference between clocks in seconds, so that a sign-in of a few seconds ago counts as old.
LEEWAY = 4


class User:
    """A user with an app and a browser."""

    def __init__(self, broker, browser):
        self.broker, self.browser, self.session = broker, browser, None

    def insisting(self, ask):
        """Retries as an app does, because Canaille gives a user one token a second, and otherwise answers 500."""
        return wait_for(10, lambda: (answer := ask()).status != 503 and answer, 1.1) or ask()

    def forward(self, begun, callback):
        cookies = [begun.fields["Set-Cookie"].split(";")[0]] + ([f"coatcheck={self.session}"] if self.session else [])
        return self.insisting(
            lambda: self.broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie="; ".join(cookies)))

    def sign_in(self, step_up=None, **open):
        """A whole login, which makes a session."""
        begun = self.broker.call(
            "POST", "/v1/logins", body={"provider": "real", "client": "ios"} | ({"step_up": step_up} if step_up else {}))
        if begun.status != 201:
            raise GaveUp(f"no login: {begun.told} {self.broker.log()[-600:]}")
        answer = self.forward(begun, self.browser.open(begun.json["authorization_url"], **open))
        if answer.status == 201:
            held = next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck="))
            self.session = held.split(";")[0].split("=")[1]
        return answer

    def step_up(self, demand, browser=None, **open):
        begun = self.broker.call("POST", "/v1/logins", self.session, {"step_up": demand})
        if begun.status != 201:
            return begun
        return self.forward(begun, (browser or self.browser).open(begun.json["authorization_url"], **open))

    def relay(self, path):
        return self.broker.call("GET", f"/v1/relay/api{path}", self.session)


def broker_of(case, issuer, api=None, scope="openid", **settings):
    """A broker whose provider is the real one; its API, if any, is the provider's userinfo."""
    upstreams = {"api": {"base_url": api, "provider": "real", "allow": ["GET /**"]} | settings.pop("upstream", {})} if api else None
    return Broker(case, Sandbox(case), settings={"upstreams": upstreams, "providers": {"oidc": None, "oauth2": None, "real": {
        "kind": "oidc", "issuer": issuer, "id_token": {"leeway": f"{LEEWAY}s"},
        "clients": {"ios": {"client_id": "app", "auth": "none", "scope": scope, "redirect_uris": [APP]}}} | settings}})


def grows_old(case, user):
    """Waits until the session's sign-in is older than clocks may differ."""
    signed_in = seconds(user.broker.look(user.session).json["authenticated_at"])
    wait_for(30, lambda: time.time() > signed_in + LEEWAY + 2, 0.1)


def seconds(moment):
    """An answer's time in seconds since 1970, or None."""
    return moment and int(time.mktime(time.strptime(re.sub(r"\.\d+", "", moment), "%Y-%m-%dT%H:%M:%SZ")) - time.timezone)


def lives(case, user, what):
    """The session is there, with the sign-in that it had, and its tokens are refreshed."""
    before = user.broker.look(user.session).json
    refreshed = user.insisting(lambda: user.broker.refresh(user.session))
    case.same("200", refreshed.told, f"{what}: the session is refreshed")
    after = user.broker.look(user.session).json
    names = ("handle", "subject", "acr", "amr", "authenticated_at")
    case.same([before.get(n) for n in names], [after.get(n) for n in names], f"{what}: and knows of its sign-in what it knew")
    return after


def by_levels(case):
    """LemonLDAP::NG: `max_age` makes it ask, `acr_values` do not; its `acr` is the level of the last method that it asked for.
    """
    provider = Lemonldap(case, APP)
    broker = broker_of(
        case, provider.issuer, provider.url, scope="openid profile email", identity={"source": "userinfo"}, upstream={"require": [
            {"allow": "GET /oauth2/userinfo", "acr": ["loa-4", "loa-5"], "max_age": "5m"}]})
    user = User(broker, lemonldap.Browser(provider))
    answer = user.sign_in()
    case.same(("201", "loa-1", [], "Doctor Who"), (
        answer.told, *(answer.json.get(n) for n in ("acr", "amr")), answer.json["identity"]["name"]), "a session says the level of its sign-in")
    first = answer.json["authenticated_at"]
    case.verdict(abs(seconds(first) - time.time()) < 30, "and its time", first)
    lives(case, user, "a refresh with the user's session there")

    # Refusals.
    grows_old(case, user)
    asked = user.browser.asked
    answer = user.step_up({"acr_values": "loa-5"})
    case.same(
        ("403 step_up_failed", {"acr_values": "loa-5"}, "loa-1"), (answer.told, answer.json.get("required"), (answer.json.get("got") or {}).get("acr")),
        "a level that nobody is asked for: refused, with what was required and what came")
    case.same(asked, user.browser.asked, "without the age it asks for no password: its user is signed in")
    lives(case, user, "after it")
    answer = user.step_up({"acr_values": "loa-5", "max_age": 0}, how=STRONG)
    case.same(
        ("403 step_up_failed", "loa-4"), (answer.told, (answer.json.get("got") or {}).get("acr")), "a level that it cannot reach: refused, however well the user signs in")
    case.same(asked + 1, user.browser.asked, "who was asked, for the age")
    case.same("loa-1", lives(case, user, "after it")["acr"], "the session has not risen with the browser")
    answer = user.step_up({"max_age": 60}, lemonldap.Browser(provider, OTHER))
    case.same("409 subject_mismatch", answer.told, "somebody else signs in")
    case.same(first, lives(case, user, "after it")["authenticated_at"], "and the time is the first sign-in's")

    # Single sign-on: the sign-in is recent enough, so the provider asks for no password.
    asked = user.browser.asked
    answer = user.step_up({"max_age": 3600})
    case.same(("200", asked), (answer.told, user.browser.asked), "an age that is not exceeded: no password, and the step-up is done")
    case.same("loa-4", answer.json["acr"], "with the level that the browser has reached meanwhile")
    grows_old(case, user)
    answer = user.step_up({"max_age": 1})
    case.same(("200", asked + 1, "loa-1"), (answer.told, user.browser.asked, answer.json["acr"]), "an age that is: a password, and its level alone")
    case.verdict(seconds(answer.json["authenticated_at"]) > seconds(first), "and its time", answer.json["authenticated_at"])
    grows_old(case, user)
    answer = user.step_up({"max_age": 0})
    case.same(("200", asked + 2), (answer.told, user.browser.asked), "no age at all: a password")
    lives(case, user, "after it")

    # A call that needs more.
    refused = user.relay("/oauth2/userinfo")
    case.same(
        ("401 step_up_required", {"acr_values": "loa-4 loa-5", "max_age": 300}), (refused.told, refused.json.get("step_up")), "a call that needs a level")
    answer = user.step_up(refused.json["step_up"])
    case.same("403 step_up_failed", answer.told, "signed in lately, nobody is asked, and the level is what it was")
    lives(case, user, "after it")
    grows_old(case, user)
    answer = user.step_up(refused.json["step_up"] | {"max_age": 0}, how=STRONG)
    case.same(("200", "loa-4"), (answer.told, answer.json.get("acr")), "an app that asks for a fresh sign-in gets the level")
    passed = user.relay("/oauth2/userinfo")
    case.same((200, "dwho"), (passed.status, passed.json.get("sub")), "and the call goes")
    handle = lives(case, user, "after it")["handle"]

    # The browser signs in again for another app. A refresh reports that, and the session keeps its own sign-in.
    signed_in = broker.look(user.session).json["authenticated_at"]
    grows_old(case, user)
    other = User(broker, user.browser)
    answer = other.sign_in({"max_age": 1})
    case.same(("201", "loa-1"), (answer.told, answer.json["acr"]), "another app's session, with a demand of its first sign-in")
    after = lives(case, user, "after it")
    case.same((handle, "loa-4", signed_in), tuple(after[n] for n in ("handle", "acr", "authenticated_at")), "the first one's sign-in stays its own")
    case.same(200, user.relay("/oauth2/userinfo").status, "and its calls go")
    answer = User(broker, lemonldap.Browser(provider)).sign_in({"acr_values": "loa-4"}, how=PASSWORD)
    case.same("403 step_up_failed", answer.told, "a first sign-in that is too weak makes no session")
    answer = User(broker, lemonldap.Browser(provider)).sign_in({"acr_values": "loa-4"}, how=STRONG)
    case.same(("201", "loa-4"), (answer.told, answer.json.get("acr")), "and one that is not does")


def by_age(case):
    """Canaille asks for the password again because of `max_age`, and reports the time; it has no `acr`."""
    provider = Canaille(case, APP)
    broker = broker_of(case, provider.issuer, provider.issuer, scope="openid profile email offline_access", upstream={"require": [
        {"allow": "GET /oauth/userinfo", "max_age": "1m"}]})
    broker.configure(providers={"real": {"clients": {"ios": {"client_id": "mobile-app"}}}})
    broker.restart()
    user = User(broker, provider.browser())
    answer = user.sign_in()
    case.same(("201", None), (answer.told, answer.json.get("acr")), "a session says no class")
    first = answer.json["authenticated_at"]
    lives(case, user, "a refresh")
    grows_old(case, user)
    answer = user.step_up({"acr_values": "mfa"})
    case.same(("403 step_up_failed", None), (answer.told, (answer.json.get("got") or {"acr": ""}).get("acr")), "a class, at a provider that has none")
    lives(case, user, "after it")
    asked = user.browser.asked
    answer = user.step_up({"max_age": 3600})
    case.same(("200", asked, first), (answer.told, user.browser.asked, answer.json.get("authenticated_at")), "an age that is not exceeded")
    # After the password it checks the age again, so a slow machine may be asked twice if not even a second is allowed.
    for age in (5, 0):
        grows_old(case, user)
        before, asked = broker.look(user.session).json["authenticated_at"], user.browser.asked
        answer = user.step_up({"max_age": age})
        case.same(("200", True), (answer.told, user.browser.asked > asked), f"an age of {age}: a password")
        case.verdict(seconds(answer.json.get("authenticated_at") or before) > seconds(before), "and its time", answer.json)
        lives(case, user, "after it")
    case.same(200, user.relay("/oauth/userinfo").status, "a call that needs a fresh sign-in goes")


def without_a_time(case):
    """Glewlwyd asks for the password again because of `max_age`, but its `auth_time` is 0. So the file marks it as unable."""
    provider = Glewlwyd(case)
    issuer = provider.issuer("plain", **{"oauth-dpop-allowed": False})
    provider.client("app", APP, dpop_bound="0")
    broker = broker_of(case, issuer, provider.url, identity={"source": "userinfo"}, upstream={"require": [
        {"allow": "GET /api/plain/userinfo", "max_age": "5m"}]})
    user = User(broker, glewlwyd.Browser(provider))
    answer = user.sign_in()
    case.same(("201", None, None), (answer.told, *(answer.json.get(n) for n in ("acr", "authenticated_at"))), "a session says neither class nor time")
    lives(case, user, "a refresh")
    for demand in ({"max_age": 0}, {"max_age": 3600}, {"acr_values": "mfa"}):
        answer = user.step_up(demand)
        case.same(
            ("403 step_up_failed", demand), (answer.told, answer.json.get("required")), f"{demand}: nobody knows when the user signed in")
        case.same({"acr": None, "authenticated_at": None}, {n: (answer.json.get("got") or {}).get(n, "") for n in ("acr", "authenticated_at")}, "and the answer says so")
        lives(case, user, "after it")
    refused = user.relay("/api/plain/userinfo")
    case.same("401 step_up_required", refused.told, "a call that needs it is told of a step-up, which would not do")
    broker.configure(providers={"real": {"step_up": {"acr": False, "max_age": False}}}, upstreams={"api": {"require": None}})
    broker.restart()
    case.same("403 client_not_allowed", user.step_up({"max_age": 300}).told, "where the file says that it cannot, no browser opens")
    lives(case, user, "after it")


CASES = {
    "by-levels": (by_levels, 180),
    "by-age": (by_age, 120),
    "without-a-time": (without_a_time, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
