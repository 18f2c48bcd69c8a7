"""Step-up at OpenID providers from other projects. LemonLDAP::NG and Canaille ask their users for the password again because of
`max_age`. Glewlwyd does so, too, but cannot report the time. A failed step-up never ends the session.
"""

import pathlib
import re
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import glewlwyd, lemonldap  # noqa: E402
from support.broker import Broker  # noqa: E402
from support.canaille_provider import Canaille  # noqa: E402
from support.cases import main  # noqa: E402
from support.glewlwyd import Glewlwyd  # noqa: E402
from support.lemonldap import OTHER, PASSWORD, STRONG, Lemonldap  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

APP = "com.example.real:/cb"
# Clocks may differ by this number of seconds. A sign-in must be older than this to count as old.
LEEWAY = 4


class User:
    """A user with an app and a browser."""

    def __init__(self, broker, browser):
        self.broker, self.browser, self.session = broker, browser, None

    def insisting(self, ask):
        """Retries after a 503 as an app does, because Canaille answers 500 if a user gets more than one token in a second."""
        return wait_for(10, lambda: (answer := ask()).status != 503 and answer, 1.1) or ask()

    def forward(self, begun, callback):
        cookies = [begun.fields["Set-Cookie"].split(";")[0]] + ([f"coatcheck={self.session}"] if self.session else [])
        return self.insisting(
            lambda: self.broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie="; ".join(cookies)))

    def sign_in(self, step_up=None, **open):
        """Does a whole login, keeps the token of the new session, and returns the forward's answer."""
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
    """Makes a broker with the real provider. `api` is the base URL of its upstream."""
    upstreams = {"api": {"base_url": api, "provider": "real", "allow": ["GET /**"]} | settings.pop("upstream", {})} if api else None
    return Broker(case, Sandbox(case), settings={"upstreams": upstreams, "providers": {"oidc": None, "oauth2": None, "real": {
        "kind": "oidc", "issuer": issuer, "id_token": {"leeway": f"{LEEWAY}s"},
        "clients": {"ios": {"client_id": "app", "auth": "none", "scope": scope, "redirect_uris": [APP]}}} | settings}})


def grows_old(case, user):
    """Waits until the session's sign-in is older than LEEWAY, the allowed difference of clocks."""
    signed_in = seconds(user.broker.look(user.session).json["authenticated_at"])
    wait_for(30, lambda: time.time() > signed_in + LEEWAY + 2, 0.1)


def seconds(moment):
    """Converts a time of an answer to seconds since 1970. None stays None."""
    return moment and int(time.mktime(time.strptime(re.sub(r"\.\d+", "", moment), "%Y-%m-%dT%H:%M:%SZ")) - time.timezone)


def lives(case, user, what):
    """Checks that a refresh succeeds, and that the session's handle, subject, class, methods and time are the same after it.
    Returns the session object.
    """
    before = user.broker.look(user.session).json
    refreshed = user.insisting(lambda: user.broker.refresh(user.session))
    case.same("200", refreshed.told, f"{what}, a refresh of the session → 200")
    after = user.broker.look(user.session).json
    names = ("handle", "subject", "acr", "amr", "authenticated_at")
    case.same([before.get(n) for n in names], [after.get(n) for n in names], f"{what}, the refreshed session → the same handle, subject, acr, methods and time")
    return after


def by_levels(case):
    """LemonLDAP::NG prompts for `max_age`, but not for `acr_values`.
    Its `acr` is the level of the last method for which it prompted.
    """
    provider = Lemonldap(case, APP)
    broker = broker_of(
        case, provider.issuer, provider.url, scope="openid profile email", identity={"source": "userinfo"}, upstream={"require": [
            {"allow": "GET /oauth2/userinfo", "acr": ["loa-4", "loa-5"], "max_age": "5m"}]})
    user = User(broker, lemonldap.Browser(provider))
    answer = user.sign_in()
    case.same(("201", "loa-1", [], "Doctor Who"), (
        answer.told, *(answer.json.get(n) for n in ("acr", "amr")), answer.json["identity"]["name"]), "a sign-in at LemonLDAP::NG → the session has the level of the sign-in")
    first = answer.json["authenticated_at"]
    case.verdict(abs(seconds(first) - time.time()) < 30, "a sign-in at LemonLDAP::NG → the session has the time of the sign-in", first)
    lives(case, user, "while the user is signed in at the provider")

    # Refusals.
    grows_old(case, user)
    asked = user.browser.asked
    answer = user.step_up({"acr_values": "loa-5"})
    case.same(
        ("403 step_up_failed", {"acr_values": "loa-5"}, "loa-1"), (answer.told, answer.json.get("required"), (answer.json.get("got") or {}).get("acr")),
        "a step-up demands only a level, and LemonLDAP::NG does not prompt the user → 403 with the required and the reached level")
    case.same(asked, user.browser.asked, "a step-up demands only a level → no password prompt, because the user is still signed in at the provider")
    lives(case, user, "after a failed step-up by level")
    answer = user.step_up({"acr_values": "loa-5", "max_age": 0}, how=STRONG)
    case.same(
        ("403 step_up_failed", "loa-4"), (answer.told, (answer.json.get("got") or {}).get("acr")), "a step-up demands a level that the provider cannot reach → 403 with the level reached")
    case.same(asked + 1, user.browser.asked, "a step-up with max_age 0 → one password prompt")
    case.same("loa-1", lives(case, user, "after a step-up to an unreachable level")["acr"], "a step-up raises the browser's level at the provider, but the broker refuses the step-up → the session keeps its level")
    answer = user.step_up({"max_age": 60}, lemonldap.Browser(provider, OTHER))
    case.same("409 subject_mismatch", answer.told, "another user signs in for a step-up → 409 subject_mismatch")
    case.same(first, lives(case, user, "after another user's sign-in")["authenticated_at"], "another user signs in for a step-up → the session keeps the time of its first sign-in")

    # Single sign-on: the sign-in is recent enough, so the provider does not prompt for a password.
    asked = user.browser.asked
    answer = user.step_up({"max_age": 3600})
    case.same(("200", asked), (answer.told, user.browser.asked), "a step-up demands an age, and the user's sign-in is recent enough → 200 without a password prompt")
    case.same("loa-4", answer.json["acr"], "a step-up succeeds without a password prompt → the session gets the level that the browser has at the provider")
    grows_old(case, user)
    answer = user.step_up({"max_age": 1})
    case.same(("200", asked + 1, "loa-1"), (answer.told, user.browser.asked, answer.json["acr"]), "a step-up demands an age, and the user's sign-in is older → a password prompt, and the session gets the level of a password")
    case.verdict(seconds(answer.json["authenticated_at"]) > seconds(first), "a step-up with a password prompt → the session gets the new time of sign-in", answer.json["authenticated_at"])
    grows_old(case, user)
    answer = user.step_up({"max_age": 0})
    case.same(("200", asked + 2), (answer.told, user.browser.asked), "a step-up with max_age 0 → a password prompt")
    lives(case, user, "after a step-up with max_age 0")

    # A relayed call that demands a level and an age.
    refused = user.relay("/oauth2/userinfo")
    case.same(
        ("401 step_up_required", {"acr_values": "loa-4 loa-5", "max_age": 300}), (refused.told, refused.json.get("step_up")), "a relayed call that needs a level and an age → 401 step_up_required with both")
    answer = user.step_up(refused.json["step_up"])
    case.same("403 step_up_failed", answer.told, "a step-up demands a level and an age soon after a sign-in → 403, because LemonLDAP::NG does not prompt the user")
    lives(case, user, "after a step-up without a prompt")
    grows_old(case, user)
    answer = user.step_up(refused.json["step_up"] | {"max_age": 0}, how=STRONG)
    case.same(("200", "loa-4"), (answer.told, answer.json.get("acr")), "a step-up demands a level and max_age 0 → the session gets this level")
    passed = user.relay("/oauth2/userinfo")
    case.same((200, "dwho"), (passed.status, passed.json.get("sub")), "a relayed call that needs a level, after the step-up to this level → 200")
    handle = lives(case, user, "after a step-up to a level")["handle"]

    # The browser signs in again for another app. A refresh reports this, but the session keeps its own sign-in.
    signed_in = broker.look(user.session).json["authenticated_at"]
    grows_old(case, user)
    other = User(broker, user.browser)
    answer = other.sign_in({"max_age": 1})
    case.same(("201", "loa-1"), (answer.told, answer.json["acr"]), "a second app starts a login with max_age in the first app's browser → a session of its own")
    after = lives(case, user, "after another app's sign-in")
    case.same((handle, "loa-4", signed_in), tuple(after[n] for n in ("handle", "acr", "authenticated_at")), "another app's sign-in in the first app's browser → the first app's session keeps its level and time")
    case.same(200, user.relay("/oauth2/userinfo").status, "a relayed call of the first app's session after another app's sign-in → 200")
    answer = User(broker, lemonldap.Browser(provider)).sign_in({"acr_values": "loa-4"}, how=PASSWORD)
    case.same("403 step_up_failed", answer.told, "a login demands a level, and the user signs in with a lower level → 403 step_up_failed")
    answer = User(broker, lemonldap.Browser(provider)).sign_in({"acr_values": "loa-4"}, how=STRONG)
    case.same(("201", "loa-4"), (answer.told, answer.json.get("acr")), "a login demands a level, and the user signs in with this level → a session")


def by_age(case):
    """Canaille prompts for the password again because of `max_age`, and reports the time. It has no `acr`."""
    provider = Canaille(case, APP)
    broker = broker_of(case, provider.issuer, provider.issuer, scope="openid profile email offline_access", upstream={"require": [
        {"allow": "GET /oauth/userinfo", "max_age": "1m"}]})
    broker.configure(providers={"real": {"clients": {"ios": {"client_id": "mobile-app"}}}})
    broker.restart()
    user = User(broker, provider.browser())
    answer = user.sign_in()
    case.same(("201", None), (answer.told, answer.json.get("acr")), "a sign-in at Canaille → a session without an acr")
    first = answer.json["authenticated_at"]
    lives(case, user, "after a sign-in")
    grows_old(case, user)
    answer = user.step_up({"acr_values": "mfa"})
    case.same(("403 step_up_failed", None), (answer.told, (answer.json.get("got") or {"acr": ""}).get("acr")), "a step-up by acr at Canaille, which returns no acr → 403 step_up_failed")
    lives(case, user, "after a failed step-up by acr")
    asked = user.browser.asked
    answer = user.step_up({"max_age": 3600})
    case.same(("200", asked, first), (answer.told, user.browser.asked, answer.json.get("authenticated_at")), "a step-up at Canaille demands an age, and the user's sign-in is recent enough → 200 without a password prompt")
    # After the password, Canaille checks the age again. So on a slow machine it may prompt twice if the allowed age is less
    # than a second.
    for age in (5, 0):
        grows_old(case, user)
        before, asked = broker.look(user.session).json["authenticated_at"], user.browser.asked
        answer = user.step_up({"max_age": age})
        case.same(("200", True), (answer.told, user.browser.asked > asked), f"a step-up at Canaille with max_age {age} → a password prompt")
        case.verdict(seconds(answer.json.get("authenticated_at") or before) > seconds(before), "a step-up at Canaille with a password prompt → the session gets the new time of sign-in", answer.json)
        lives(case, user, "after a step-up by age")
    case.same(200, user.relay("/oauth/userinfo").status, "a relayed call that needs a fresh sign-in, after the step-up at Canaille → 200")


def without_a_time(case):
    """Glewlwyd prompts for the password again because of `max_age`, but its `auth_time` is 0.
    So the configuration marks Glewlwyd as unable to step up.
    """
    provider = Glewlwyd(case)
    issuer = provider.issuer("plain", **{"oauth-dpop-allowed": False})
    provider.client("app", APP, dpop_bound="0")
    broker = broker_of(case, issuer, provider.url, identity={"source": "userinfo"}, upstream={"require": [
        {"allow": "GET /api/plain/userinfo", "max_age": "5m"}]})
    user = User(broker, glewlwyd.Browser(provider))
    answer = user.sign_in()
    case.same(("201", None, None), (answer.told, *(answer.json.get(n) for n in ("acr", "authenticated_at"))), "a sign-in at Glewlwyd → a session without an acr and a time of the sign-in")
    lives(case, user, "after a sign-in")
    for demand in ({"max_age": 0}, {"max_age": 3600}, {"acr_values": "mfa"}):
        answer = user.step_up(demand)
        case.same(
            ("403 step_up_failed", demand), (answer.told, answer.json.get("required")), f"a step-up at Glewlwyd with {demand} → 403, because Glewlwyd omits acr and time")
        case.same({"acr": None, "authenticated_at": None}, {n: (answer.json.get("got") or {}).get(n, "") for n in ("acr", "authenticated_at")}, "a failed step-up at Glewlwyd → the answer has neither acr nor time")
        lives(case, user, "after a failed step-up")
    refused = user.relay("/api/plain/userinfo")
    case.same("401 step_up_required", refused.told, "a relayed call that needs a fresh sign-in, in a session from Glewlwyd → 401 step_up_required")
    broker.configure(providers={"real": {"step_up": {"acr": False, "max_age": False}}}, upstreams={"api": {"require": None}})
    broker.restart()
    case.same("403 client_not_allowed", user.step_up({"max_age": 300}).told, "the configuration marks a provider as unable to step up, and an app starts a step-up → 403 client_not_allowed")
    lives(case, user, "after a refused step-up")


CASES = {
    "by-levels": (by_levels, 180),
    "by-age": (by_age, 120),
    "without-a-time": (without_a_time, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
