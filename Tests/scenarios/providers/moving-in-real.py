"""An app whose old SDK is Authlib moves in from real providers, also if the SDK refreshes at the same moment.

| provider | refresh tokens |
| --- | --- |
| Glewlwyd, `never` | stay the same |
| Canaille | rotate; a spent one is refused |
| Glewlwyd, `always` | rotate; a spent one ends the grant, with an empty 400 |
| Django OAuth Toolkit, or the sandbox | rotate; a spent one ends the grant (`invalid_grant`) |
| Django OAuth Toolkit with grace, or the sandbox | rotate; a spent one is still good for a while |
"""

import collections
import dataclasses
import pathlib
import re
import secrets
import sys
import threading
import time
import types
import typing
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import glewlwyd, oauth_toolkit  # noqa: E402
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.canaille_provider import Canaille  # noqa: E402
from support.cases import main  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.gate import Gate  # noqa: E402
from support.old_sdk import OldSDK  # noqa: E402
from support.openid_provider import SECRET  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

APP = "com.example.real:/cb"
# The number of rounds for two refreshes at the same time, and for each fixed order.
AT_ONCE, IN_ORDER = 20, 3
STAYS, ROTATES, ENDS, GRACE = "refresh tokens stay", "spent tokens are refused", "spent tokens end the grant", "spent tokens have a grace"
REVOKED = "409 login_required grant_revoked"
ENDED = "401 session_ended grant_revoked"
UNAVAILABLE = "503 provider_unavailable"


@dataclasses.dataclass
class Provider:
    """A provider, and the facts of it that matter here."""

    name: str
    kind: str
    issuer: str
    browser: typing.Callable
    users: tuple
    client: str = "mobile-app"
    redirect: str = APP
    scope: str = "openid"
    other: tuple = ("another-app", None)
    identity: dict | None = None
    endpoints: dict = dataclasses.field(default_factory=dict)
    # Authlib's report of a refused refresh token.
    refused: str = "invalid_grant"
    # The result of the broker's revocation with a public client.
    revocation: str = "done"
    # Whether a user's second token within one second is a 500. So after a sign-in, the next second has to come.
    one_a_second: bool = False
    # The number of users whose rounds run at the same time.
    workers: int = 8
    orders: tuple = ("the SDK first", "the broker first") * IN_ORDER + ("at once",) * AT_ONCE

    @property
    def is_mute(self):
        """Whether a refusal is a 400 with an empty body. Three of them, over five minutes, prove that the grant is dead."""
        return self.refused == "400"

    @property
    def refusal(self):
        return UNAVAILABLE if self.is_mute else REVOKED

    @property
    def ended(self):
        return UNAVAILABLE if self.is_mute else ENDED

    @property
    def url(self):
        return "{0.scheme}://{0.netloc}".format(urllib.parse.urlsplit(self.issuer))

    def sdk(self, client=None, secret=None):
        return OldSDK(self.issuer, client or self.client, self.redirect, self.scope, secret)


class Stage:
    """A broker with one provider, and a gate for the broker's refreshes. The old SDKs call the provider directly."""

    def __init__(self, case, provider, clock=None):
        self.case, self.provider, self.clock = case, provider, clock
        self.gate = Gate(provider)
        # For each refresh token: the effect on the broker's next call with it.
        self.acts = {}
        self.gate.always = lambda taken, forward: self.acts.pop(taken.refresh_token, Gate.pass_on)(taken, forward)
        path = urllib.parse.urlsplit(provider.sdk().metadata["token_endpoint"]).path
        self.broker = Broker(case, types.SimpleNamespace(url=provider.url), clock=clock, settings={"providers": {
            "oidc": None, "oauth2": None, "real": {
                "kind": "oidc", "issuer": provider.issuer, "endpoints": {"refresh": self.gate.url + path} | provider.endpoints, "identity": provider.identity,
                "clients": {"ios": {
                    "client_id": provider.client, "auth": "none", "scope": provider.scope, "redirect_uris": [provider.redirect],
                    "import_tokens": {"until": "2099-12-31"}}}}}})
        self.browsers = {user: provider.browser(user) for user in provider.users}
        self.posted = []

    def sign_in(self, user, client=None, secret=None):
        """An SDK that has signed the user in."""
        sdk = self.provider.sdk(client, secret)
        if (told := insisting(lambda: sdk.sign_in(self.browsers[user]))) != "granted":
            raise GaveUp(f"{self.provider.name} refuses Authlib's sign-in: {told}")
        now = int(time.time())
        wait_for(5, lambda: not self.provider.one_a_second or int(time.time()) != now)
        return sdk

    def phone(self, user):
        return Phone(self, self.sign_in(user))

    def counted(self, result):
        return self.broker.metric("coatcheck_moved_total", provider="real", client="ios", way="tokens", result=result)

    def sessions(self):
        return self.broker.query("SELECT count(*) FROM sessions")[0][0]

    def is_silent(self):
        log = self.broker.log()
        found = [value for sent in self.posted for value in sent.values() if value in log]
        self.case.same(0, len(found), f"{self.provider.name}: all moves → the broker's log is free of the SDK's tokens")


class Phone:
    """A phone that moves in. Its mark is the body of its post."""

    def __init__(self, stage, sdk, **other):
        self.stage, self.sdk, self.session = stage, sdk, None
        tokens = {name: sdk.tokens[name] for name in ("refresh_token", "id_token")} | other
        tokens = {name: value for name, value in tokens.items() if value}
        self.token = tokens["refresh_token"]
        self.body = {"provider": "real", "client": "ios", "tokens": tokens, "login_token": secrets.token_urlsafe(32)}
        stage.posted.append(tokens)

    def post(self):
        answer = self.stage.broker.call("POST", "/v1/sessions", body=self.body)
        found = re.search(r"coatcheck=([^;]+)", ", ".join(answer.fields.get_all("Set-Cookie") or []))
        self.session = found[1] if found else self.session
        return answer

    def move(self):
        """Posts until the provider is able to decide."""
        answers = []
        insisting(lambda: answers.append(self.post()) or self.failed() or "decided")
        return answers[-1]

    def failed(self):
        calls = self.stage.gate.refreshes(self.token)
        return "500" if calls and calls[-1].status == 500 else None

    def refresh(self):
        """Refreshes the session, until the provider is able to decide."""
        before, told = len(self.stage.gate.calls), []

        def ask():
            told.append(self.stage.broker.refresh(self.session).told)
            return "500" if any(taken.status == 500 for taken in self.stage.gate.calls[before:]) and told[-1] == UNAVAILABLE else "decided"

        insisting(ask)
        return told[-1]


def insisting(ask):
    """Repeats an act while the provider answers 500. Canaille does so if one user gets two tokens within a second."""
    return wait_for(15, lambda: (told := ask()) != "500" and told, 0.3)


# -- one phone after the other

def moves(stage):
    """A move from the SDK's tokens, its repeats, and tokens of another client or user."""
    case, broker, gate, provider = stage.case, stage.broker, stage.gate, stage.provider
    name, (user, another, *_) = provider.name, provider.users
    phone = stage.phone(user)
    answer = phone.move()
    case.same((201, phone.sdk.subject), (answer.status, answer.json.get("subject")), f"{name}: an app posts Authlib's tokens → a session of Authlib's user")
    case.same(200, broker.look(phone.session).status, f"{name}: the moved session is read → 200")
    case.same("200", phone.refresh(), f"{name}: the moved session is refreshed → 200")
    before = len(gate.calls)
    again = phone.post()
    case.same((201, answer.json.get("handle"), 0), (again.status, again.json.get("handle"), len(gate.calls) - before),
              f"{name}: the same post again → the same session, and zero provider calls")
    copy = Phone(stage, phone.sdk)
    case.same(("409 code_already_used", 0), (copy.post().told, len(gate.calls) - before),
              f"{name}: the same tokens with another login_token → code_already_used, and zero provider calls")

    # A mistake of an app: its old SDK goes on with the token that has moved.
    phone = stage.phone(user)
    phone.move()
    expected = "granted" if provider.kind in (STAYS, GRACE) else provider.refused
    case.same(expected, insisting(lambda: phone.sdk.refresh(phone.token)), f"{name}: the old SDK refreshes after the move → {expected}")
    expected = "200" if provider.kind != ENDS else provider.ended
    case.same(expected, phone.refresh(), f"{name}: the session is refreshed after the old SDK's refresh → {expected}")

    # Tokens of another client.
    other = stage.sign_in(user, *provider.other)
    before, sessions = len(gate.calls), stage.sessions()
    answer = Phone(stage, other).post()
    case.same((400, ["/tokens/id_token"], 0), (answer.status, [fault["pointer"] for fault in answer.json.get("errors", [])], len(gate.calls) - before),
              f"{name}: tokens of another client → 400 at the id_token, and zero provider calls")
    case.same(provider.refusal, Phone(stage, other, id_token=None).move().told, f"{name}: only the refresh token of another client → {provider.refusal}")
    expected = "400" if provider.is_mute and provider.kind == ENDS else "granted"
    case.same(expected, insisting(other.refresh), f"{name}: the broker posted another client's refresh token → that client's next refresh is {expected}")

    # Tokens of two users.
    mixed = Phone(stage, stage.sign_in(user), id_token=stage.sign_in(another).tokens["id_token"])
    case.same(["502 identity_rejected"] * 2, [mixed.move().told, mixed.move().told],
              f"{name}: one user's refresh token with another user's id_token → identity_rejected, as often as posted")
    case.same((1, sessions), (len(gate.refreshes(mixed.token)), stage.sessions()), f"{name}: tokens of two users → one provider call, and as many sessions as before")
    case.verdict(wait_for(20, lambda: broker.metric("coatcheck_revocations_total", provider="real", result=provider.revocation) > 0),
                 f"{name}: tokens of two users → the broker revokes the granted tokens ({provider.revocation})", broker.log()[-500:])


def lost(stage):
    """The provider's answer is lost after it has spent the token, so the broker makes its confirming call."""
    case, provider = stage.case, stage.provider
    phone = stage.phone(provider.users[0])
    stage.acts[phone.token] = lambda taken, forward: (forward(), None)[1]
    told = phone.move().told
    expected = "201" if provider.kind in (STAYS, GRACE) else "409 login_required refresh_lost"
    case.same((expected, 2), (told, len(stage.gate.refreshes(phone.token))), f"{provider.name}: the answer to the import is lost → two provider calls, and {expected}")


# -- the SDK refreshes at the same moment

@dataclasses.dataclass
class Round:
    """The result of one round: the answers to the post and to the SDK's refresh. `session` and `newer` are the answers to the
    next refresh of the session and of the SDK, if there was one."""

    phone: Phone
    post: str
    sdk: str
    # The number of the broker's calls with the phone's token that the provider decided.
    calls: int
    session: str | None = None
    newer: str | None = None

    @property
    def told(self):
        return self.post, self.sdk, self.session, self.newer


def both(stage, user, order):
    """One phone's post and its SDK's refresh in the order that is asked for, and then what lives."""
    phone = stage.phone(user)
    reached, passed = threading.Event(), threading.Event()
    meet = threading.Barrier(2)

    def act(taken, forward):
        if order == "at once":
            meet.wait(30)
            return forward()
        answer = forward() if order == "the broker first" else None
        reached.set()
        Gate.wait(taken, event=passed)
        return answer or forward()

    stage.acts[phone.token] = act
    posting = stage.case.beside(phone.post)
    if order == "at once":
        meet.wait(30)
    else:
        reached.wait(30)
    sdk = phone.sdk.refresh(phone.token)
    passed.set()
    answer = posting.result(40)
    # If the provider answered 500 to one of the two, this one tries again.
    if sdk == "500":
        sdk = insisting(lambda: phone.sdk.refresh(phone.token))
    if phone.failed():
        answer = phone.move()
    found = Round(phone, answer.told, sdk, sum(taken.status != 500 for taken in stage.gate.refreshes(phone.token)))
    if answer.status == 201:
        found.session = phone.refresh()
    # If both were granted, a refresh by the SDK would end the session at some providers. The app has erased these tokens.
    if sdk == "granted" and not (stage.provider.kind == ENDS and answer.status == 201):
        found.newer = insisting(phone.sdk.refresh)
    return found


def allowed(provider, order):
    """The results that are right in an order."""
    both_live, refused = {("201", "granted", "200", "granted")}, provider.refused
    if provider.kind in (STAYS, GRACE):
        return both_live
    if provider.kind == ROTATES:
        found = {"the SDK first": {(REVOKED, "granted", None, "granted")}, "the broker first": {("201", refused, "200", None)}}
    else:
        found = {
            "the SDK first": {(REVOKED, "granted", None, refused)},
            "the broker first": {("201", refused, ENDED, None)}}
        # Two refreshes within a moment may both be granted.
        both_live = {("201", "granted", "200", None)}
    return found.get(order) or both_live.union(*found.values())


def same_moment(stage):
    """Rounds in each order, with all users at the same time."""
    case, provider = stage.case, stage.provider
    before = {result: stage.counted(result) for result in ("moved", "grant_revoked")}
    todo, rounds = collections.deque(provider.orders), []

    def run(user):
        while True:
            try:
                order = todo.popleft()
            except IndexError:
                return
            rounds.append((order, both(stage, user, order)))

    for worker in [case.beside(run, user) for user in provider.users[: provider.workers]]:
        worker.result(120)
    others = decided_later(stage, [found for _, found in rounds])
    for order in dict.fromkeys(provider.orders):
        told = collections.Counter(found.told for kind, found in rounds if kind == order)
        for result, times in told.items():
            case.say(f"{provider.name}, {order}, {times} times: the post {result[0]}, the SDK {result[1]}, then the session {result[2]}, the SDK {result[3]}")
        case.same([], [result for result in told if result not in allowed(provider, order)],
                  f"{provider.name}: the SDK refreshes at the same moment, {order}, {sum(told.values())} times → only results that the documents name")
    for result, told, more in (("moved", "201", others), ("grant_revoked", REVOKED, 0)):
        case.same([found.post for _, found in rounds].count(told) + more, stage.counted(result) - before[result],
                  f"{provider.name}: each post with {told} → counted as {result}")
    case.same({1}, {found.calls for _, found in rounds}, f"{provider.name}: each token → one call of the broker that the provider decided")


def decided_later(stage, rounds):
    """Asks again about each empty 400. The third one decides, if five minutes have passed and the provider granted another call.
    Returns the number of other phones that have moved for this."""
    asks = []
    for found in rounds:
        if found.post == UNAVAILABLE:
            asks.append((found, "post", lambda phone=found.phone: phone.post().told))
        elif found.session == UNAVAILABLE:
            asks.append((found, "session", lambda phone=found.phone: stage.broker.refresh(phone.session).told))
    if not asks:
        return 0
    well = stage.phone(stage.provider.users[0])
    well.post()
    for minutes in (3, 6):
        stage.clock.set(minutes * 60, minutes * 60)
        for found, member, ask in asks:
            stage.broker.refresh(well.session)
            setattr(found, member, ask())
    return 1


def whole(stage):
    moves(stage)
    if not (stage.provider.is_mute and stage.provider.kind == ENDS):
        lost(stage)
    same_moment(stage)
    stage.is_silent()


def canaille(case):
    """Canaille: refresh tokens rotate, and a spent one is refused."""
    users = ("ana", "ben", "cem", "dora", "emil", "fay", "gil", "hana")
    server = Canaille(case, APP, users=users[1:])
    whole(Stage(case, Provider(
        "Canaille", ROTATES, server.issuer, server.browser, users, scope="openid profile email offline_access", other=("web-app", SECRET),
        revocation="rejected", one_a_second=True)))


def of_glewlwyd(case, name, kind, one_use, clock=None):
    server = glewlwyd.Glewlwyd(case)
    users = ("ana", "ben")
    for user in users[1:]:
        server.add("user", username=user, password=glewlwyd.PASSWORD, name=user, email=f"{user}@example.org", enabled=True, scope=["openid"])
    issuer = server.issuer("real", **{"oauth-dpop-allowed": False, "refresh-token-one-use": one_use})
    for client in ("mobile-app", "another-app"):
        server.client(client, APP, dpop_bound="0")
    whole(Stage(case, Provider(
        name, kind, issuer, lambda user: glewlwyd.Browser(server, user), users, identity={"source": "userinfo"}, refused="400",
        # Glewlwyd 2.7.5 crashes if two refreshes reach it at the same time. So the broker's call waits at the gate.
        revocation="unusable", workers=1, orders=("the SDK first", "the broker first") * 10), clock))


def glewlwyd_stays(case):
    """Glewlwyd with reusable refresh tokens."""
    of_glewlwyd(case, "Glewlwyd, never", STAYS, "never")


def glewlwyd_ends(case):
    """Glewlwyd: refresh tokens rotate, and a spent one ends the grant. The answer is an empty 400."""
    of_glewlwyd(case, "Glewlwyd, always", ENDS, "always", Clock(case))


def of_toolkit(case, name, kind, grace):
    server = oauth_toolkit.OAuthToolkit(case, grace)
    whole(Stage(case, Provider(
        name, kind, server.issuer, lambda user: oauth_toolkit.Browser(server, user), oauth_toolkit.USERS,
        endpoints={"revocation": f"{server.issuer}/revoke_token/"})))


def toolkit_ends(case):
    """Django OAuth Toolkit: refresh tokens rotate, and a spent one ends the grant."""
    of_toolkit(case, "Django OAuth Toolkit", ENDS, 0)


def toolkit_grace(case):
    """Django OAuth Toolkit: a spent refresh token is good for two more minutes."""
    of_toolkit(case, "Django OAuth Toolkit with grace", GRACE, 120)


class SandboxBrowser:
    def __init__(self, user):
        self.user = user

    def open(self, url):
        return call(f"{url}&sandbox_user={self.user}").fields["Location"]


def of_sandbox(case, name, kind, mode):
    sandbox = Sandbox(case)
    sandbox.settings("oidc", refresh_token="always", refresh_mode=mode)
    whole(Stage(case, Provider(
        name, kind, f"{sandbox.url}/oidc", SandboxBrowser, ("ana", "ben", "cem", "dora"), "ios-app", "com.example.app:/cb",
        "openid email offline_access")))


def sandbox_ends(case):
    """The sandbox: refresh tokens rotate, and a spent one ends the grant."""
    of_sandbox(case, "sandbox", ENDS, "rotate-strict")


def sandbox_grace(case):
    """The sandbox: the former refresh token stays good."""
    of_sandbox(case, "sandbox with grace", GRACE, "overlap")


CASES = {
    "canaille": (canaille, 85), "glewlwyd-stays": (glewlwyd_stays, 85), "glewlwyd-ends": (glewlwyd_ends, 85),
    "toolkit-ends": (toolkit_ends, 85), "toolkit-grace": (toolkit_grace, 85), "sandbox-ends": (sandbox_ends, 85),
    "sandbox-grace": (sandbox_grace, 85),
}

if __name__ == "__main__":
    main(CASES, __doc__)
