"""Payments of the playground's phone, with deploy/sandbox.yaml and without a browser. This script takes the place of the
playground's page: it has the phone's keys, and signs when the phone asks. Refusals come first.
"""

import datetime
import pathlib
import re
import secrets
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import sha256  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.programs import COATCHECK, SANDBOX  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402
from support.wire import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[3]
IN = "they are still signed in."


class Playground:
    """Sandbox and broker as `make run` starts them, and this script in the place of the browser's page."""

    def __init__(self, case):
        self.case = case
        ports = {name: free_port() for name in ("BROKER", "MANAGEMENT", "SANDBOX")}
        urls = {name: f"http://127.0.0.1:{port}" for name, port in ports.items()}
        self.broker, self.sandbox, self.management = urls["BROKER"], urls["SANDBOX"], urls["MANAGEMENT"]
        case.start([SANDBOX, "--listen", self.sandbox.removeprefix("http://"), "--playground", self.broker], "sandbox.log")
        if not wait_for(60, lambda: call(self.sandbox + "/_sandbox/health", seconds=5).status == 200):
            raise GaveUp("the sandbox did not start")
        text = (ROOT / "deploy/sandbox.yaml").read_text()
        marks = urls | {f"{name}_PORT": str(port) for name, port in ports.items()} | {
            "DIR": str(case.folder), "ADMIN_SHA256": sha256("a" * 32), "BACKEND_SHA256": sha256("b" * 32),
            "UNTIL": str(datetime.date.today() + datetime.timedelta(days=180))}
        for mark, value in marks.items():
            text = text.replace(f"@{mark}@", value)
        (case.folder / "data").mkdir(mode=0o700)
        configuration = case.folder / "coatcheck.yaml"
        configuration.write_text(text)
        configuration.chmod(0o600)
        case.start([COATCHECK, "keys", "generate", "--file", case.folder / "keys.json"], "keys.log").wait(30)
        case.start([COATCHECK, "serve", "--config", configuration], "broker.log", {"SANDBOX_CLIENT_SECRET": secrets.token_urlsafe(32)})
        if not wait_for(60, lambda: call(self.management + "/readyz", seconds=5).status == 200):
            raise GaveUp("the broker did not start: " + (case.folder / "broker.log").read_text()[-400:])
        page = call(self.sandbox + "/playground/").body.decode()
        self.token = re.search(r'playground-token" content="([^"]+)"', page)[1]
        self.keys = {"phone": Phone(None), "presence": Phone(None)}
        # The user's answers to the phone's prompts, and the prompts.
        self.answers, self.asked = [], []
        for name in self.keys:
            self.show(name)
        threading.Thread(target=self.sign, daemon=True).start()

    def play(self, action, body=None):
        return call(f"{self.sandbox}/playground/{action}", "POST", body or {}, seconds=150, Playground_Token=self.token)

    def show(self, name):
        self.play("key", {"for": name} | {part: self.keys[name].jwk[part] for part in "xy"})

    def sign(self):
        seen = {"after": 1 << 40, "version": -1, "beginning": 0}
        while True:
            news = self.play("wait", seen).json
            seen["version"] = news.get("version", -1)
            for order in news.get("sign", []):
                self.play("signed", {"for": "phone", "number": order["number"], "signature": self.keys["phone"].signature(order["text"])})
            if news.get("confirm") and news["screen"]["question"]:
                self.asked.append(news["screen"]["question"])
                for order in news["confirm"]:
                    self.play(*self.answer(order))

    def answer(self, order):
        said = self.answers.pop(0) if self.answers else "no"
        if said == "no":
            return "no", {}
        return "signed", {"for": "presence", "number": order["number"], "signature": self.keys[said].signature(order["text"])}

    @property
    def news(self):
        return self.play("wait", {"after": 0, "version": -1}).json

    @property
    def screen(self):
        return self.news["screen"]

    def do(self, action, body=None):
        """Presses a button, and returns the screen after the phone has reacted."""
        answer = self.play(action, body)
        self.case.same(200, answer.status, f"the playground's action {action} {body or ''} → 200")
        return self.screen

    def sign_in(self, provider, person="ana"):
        self.do("sign-in", {"provider": provider})
        screen = self.do("choose", {"as": person})
        if screen["view"] != "session":
            raise GaveUp(f"no session: {screen}")
        return screen

    def pay(self, amount, view="session"):
        screen = self.do("pay", {"amount": amount})
        self.case.same(view, screen["view"], f"a payment of {amount} € → the phone shows {view}")
        return screen

    def said(self, who=""):
        """Returns the titles of the messages that the app (or the party `who`) has sent and received since the last `clear`."""
        return [each["title"] for each in self.news["messages"] if each["who"] == who and "app" in (each["from"], each["to"]) and each["kind"] != "note"]

    def details(self, title):
        return next((each["details"] for each in self.news["messages"] if each["title"] == title), "")

    @property
    def payments(self):
        """The payments that the API accepted, by amount."""
        return [each["amount"] for each in call(self.sandbox + "/api/payments").json["payments"]]


def anew(playground, provider):
    """Signs in again at the provider, clears the conversation, and returns the screen. The playground dates this sign-in an hour
    ago.
    """
    if playground.screen["view"] == "session":
        playground.do("sign-out")
    screen = playground.sign_in(provider)
    playground.do("clear")
    return screen


def step_up(case):
    """20 € need a sign-in within the last five minutes. The provider's page opens, and the same session continues."""
    playground = Playground(case)
    case.same(409, playground.play("pay", {"amount": 21}).status, "a payment of an amount that the playground's phone does not offer → 409")
    playground.sign_in("cloudentity")
    playground.do("pay", {"amount": 20})
    case.same([], playground.payments, "a payment of 20 € after a sign-in at a provider without payments → nothing is paid")
    case.same(409, playground.play("trouble", {"name": "ignore-step-up"}).status, "the playground's switch ignore-step-up, after a sign-in at a provider that lacks payments in the playground → 409")
    for provider in ("oidc", "oidc-bound"):
        before = anew(playground, provider)["session"]
        age = time.time() - datetime.datetime.fromisoformat(before["authenticated_at"]).timestamp()
        case.verdict(3500 < age < 3700, f"a sign-in in the playground at {provider} → the session's sign-in is dated an hour ago", age)
        paid = list(playground.payments)

        def unpaid(screen, why):
            case.same(("session", "That nothing was paid; " + IN), (screen["view"], screen["noticed"]), why)
            case.verdict("The session is as it was." in screen["explanation"], "a failed step-up → the phone shows that the session is unchanged", screen["explanation"])
            case.same(paid, playground.payments, "a failed step-up → the API takes no payment")

        screen = playground.do("trouble", {"name": "ignore-step-up"})
        unpaid(screen, "a payment needs a step-up, and the provider ignores the demanded age → nothing is paid")
        case.verdict(
            '403 step_up_failed: wanted was {"max_age":300}, and the provider answered' in screen["explanation"], "a payment needs a step-up, and the provider ignores the demanded age → the phone shows the demand and the answer", screen["explanation"])
        case.same("honours", call(playground.sandbox + "/_sandbox/settings/oidc").json["step_up"], "the playground's switch ignore-step-up has run → the provider honours step-ups again")

        screen = playground.pay(20, "consent")
        challenge = playground.details("401 step_up_required")
        scheme = "DPoP" if provider == "oidc-bound" else "Bearer"
        case.verdict(
            f'{scheme} error="insufficient_user_authentication", max_age="300"' in challenge and '"step_up": {"max_age":300}' in challenge,
            "a payment that needs a step-up → the messages on the page have the challenge", challenge)
        case.same("To pay 20 €, “Corner Shop” wants a sign-in of the last 5 minutes.", screen["step_up"], "a payment that needs a step-up → the phone shows why a new sign-in is needed")
        case.same(["Sign in again as Ana", "Sign in as Ben", "Refuse"], [each["title"] for each in screen["people"]], "a payment that needs a step-up → the provider's page offers Ana, Ben and a refusal")
        case.same(409, playground.play("trouble", {"name": "expire-token"}).status, "the playground's switch expire-token during a step-up → 409")
        unpaid(playground.do("cancel"), "the user closes the browser during a step-up → nothing is paid")
        for person, answer in (("refuse", "403 access_denied"), ("ben", "409 subject_mismatch")):
            playground.pay(20, "consent")
            screen = playground.do("choose", {"as": person})
            unpaid(screen, f"the user chooses “{person}” on the provider's page → nothing is paid")
            case.verdict(screen["explanation"].startswith(answer + ":"), f"the user chose “{person}” on the provider's page → the phone shows {answer}", screen["explanation"])
        playground.pay(20, "consent")
        call(playground.sandbox + "/_sandbox/faults/oidc", "PUT", {"fault": "other-user-callback", "times": 1})
        unpaid(playground.do("choose", {"as": "ana"}), "the provider answers a step-up as another user → nothing is paid")

        playground.do("clear")
        playground.pay(20, "consent")
        screen = playground.do("choose", {"as": "ana"})
        case.same(("session", "The provider's page, once; and the payment is made."), (screen["view"], screen["noticed"]), "Ana signs in again for a payment → the payment is made")
        case.verdict(f"the same session goes on: {before['handle']}, and the same cookie" in screen["explanation"], "a step-up for a payment → the same session continues, with the same cookie", screen["explanation"])
        case.same((before["handle"], True), (screen["session"]["handle"], screen["session"]["authenticated_at"] > before["authenticated_at"]), "a step-up for a payment → the session has the same handle and a new time of sign-in")
        case.same([*paid, 20], playground.payments, "a payment with a step-up → the API takes the payment once")
        case.verdict("20 EUR, by user-ana" in screen["paid"], "a payment with a step-up → the phone shows amount and user", screen["paid"])
        case.same(
            ["POST /v1/relay/shop/payments", "401 step_up_required", "POST /v1/logins", "201 Created", "POST /v1/sessions", "200 OK", "POST /v1/relay/shop/payments", "201 Created"],
            [each for each in playground.said() if not each.startswith("event")], "a payment with a step-up → the page shows its eight messages in order")
        screen = playground.pay(20)
        case.same([*paid, 20, 20], playground.payments, "a second payment soon after a step-up → the payment is made at once")
        case.same("Nothing but the payment.", screen["noticed"], "a second payment soon after a step-up → the user gets no prompt")
        screen = playground.do("trouble", {"name": "ignore-step-up"})
        case.verdict("Paid at once" in screen["explanation"], "the playground's switch ignore-step-up, soon after a step-up → the payment is made at once, because no step-up is needed", screen["explanation"])
        case.verdict("200." in playground.do("call")["relay"], "a call after the payments → the API answers 200")


def presence(case):
    """500 € need the user's presence. A second key signs that request, and thieves without this key are refused."""
    playground = Playground(case)
    register, large = "Let this phone confirm payments to “Corner Shop”?", "Pay 500 € to “Corner Shop”?"

    def ask(*answers):
        playground.answers, playground.asked = list(answers), []

    anew(playground, "oidc")
    case.same(409, playground.play("trouble", {"name": "steal-presence"}).status, "the playground's switch steal-presence, in a session without a presence key → 409")
    playground.pay(500, "consent")
    screen = playground.do("choose", {"as": "ana"})
    case.verdict("The payment was answered 403 step_up_failed." in screen["explanation"], "a payment of 500 €, which needs presence, in an unbound session → 403 step_up_failed", screen["explanation"])
    case.same(([], []), (playground.payments, playground.asked), "a payment of 500 €, which needs presence, in an unbound session → the user gets no prompt, and nothing is paid")

    before = anew(playground, "oidc-bound")["session"]
    case.same(None, before["presence"], "a new bound session → has no presence key")
    playground.pay(500, "consent")
    screen = playground.do("choose", {"as": "ana"})
    case.same([register], playground.asked, "a payment of 500 € an hour after the sign-in → a new sign-in, then one prompt about the presence key")
    case.same("That nothing was paid; " + IN, screen["noticed"], "the user refuses the presence key → nothing is paid")
    case.verdict("no proof was made, and nothing was sent" in screen["explanation"], "the user refuses the presence key → no proof is made and nothing is sent", screen["explanation"])
    ask("presence", "no")
    screen = playground.pay(500)
    case.same([register, large], playground.asked, "the user accepts the presence key → the phone asks about the payment next")
    case.same((playground.keys["presence"].thumbprint, before["handle"]), ((screen["session"]["presence"] or {}).get("jkt"), screen["session"]["handle"]), "the user accepts the presence key → the session has the key")
    case.same(409, playground.play("signed", {"for": "presence", "number": 2, "signature": "A" * 86}).status, "the page sends a signature that the phone has not requested → 409")
    case.same([], playground.payments, "the user accepts the presence key and refuses the payment → nothing is paid")

    playground.do("clear")
    ask("presence")
    screen = playground.pay(500)
    case.same("The phone's question; and the payment is made.", screen["noticed"], "the user confirms a payment of 500 € → the payment is made")
    case.same(([large], [500]), (playground.asked, playground.payments), "the user confirms a payment of 500 € → one prompt, and one payment at the API")
    case.same(["POST /v1/relay/shop/payments/large", "401 presence_required", "POST /v1/relay/shop/payments/large", "201 Created"],
              [each for each in playground.said() if not each.startswith("event")], "a confirmed payment → the page shows its four messages in order")
    sent = [each for each in playground.news["messages"] if "Coatcheck-Presence" in each["details"]]
    case.verdict(sent and '"htm":"POST"' in sent[0]["details"] and "/v1/relay/shop/payments/large" in sent[0]["details"], "the message with the presence proof → shows the proof's method and path", sent[:1])
    case.verdict(sent and "$PRESENCE" in sent[0]["curl"] and not re.search(r"Presence: [\w-]{40}", sent[0]["details"]), "the message with the presence proof → shows the proof shortened")

    playground.do("clear")
    ask("presence")
    screen = playground.do("trouble", {"name": "steal-presence"})
    case.same("The phone's question, and the thieves get nothing.", screen["noticed"], "the playground's switch steal-presence: thieves use the user's presence proof → the thieves get nothing")
    for words in ("at another path got 401 presence_invalid (address)", "sent again, 401 presence_invalid (replayed)",
                  "silent key got 401 presence_required", "a presence key of its own 401 presence_invalid (key)"):
        case.verdict(words in screen["explanation"], f"thieves use the user's presence proof → the phone reports “{words}”", screen["explanation"])
    case.same([500, 500], playground.payments, "thieves use the user's presence proof → the API takes only the user's payment")
    case.same(
        ["401 presence_invalid", "401 presence_invalid", "401 presence_required", "401 presence_invalid"],
        [each for each in playground.said("thief") if each[0].isdigit()], "thieves use the user's presence proof → the page shows the thieves' four refusals")
    playground.keys["presence"] = Phone(None)
    playground.show("presence")
    ask("presence")
    screen = playground.pay(500)
    case.verdict("401 presence_invalid (key)" in screen["explanation"], "a payment with another browser's presence key → 401 presence_invalid (key)", screen["explanation"])
    case.same([500, 500], playground.payments, "a payment with another browser's presence key → nothing is paid")
    case.verdict("200." in playground.do("call")["relay"], "a call after a refused presence proof → the API answers 200")

    anew(playground, "oidc-bound")
    screen = playground.do("trouble", {"name": "steal-presence"})
    case.same("consent", screen["view"], "the playground's switch steal-presence, an hour after the sign-in → the provider's page opens first, for a new sign-in")
    ask("presence", "presence")
    screen = playground.do("choose", {"as": "ana"})
    case.same([register, large], playground.asked, "the switch steal-presence, after its new sign-in → the phone asks about the presence key, then about the payment")
    case.same("The phone's question, and the thieves get nothing.", screen["noticed"], "the switch steal-presence, after its new sign-in → the thieves get nothing")
    case.verdict("sent again, 401 presence_invalid (replayed)" in screen["explanation"], "the switch steal-presence, after its new sign-in → the thieves' repeated proof is refused as replayed", screen["explanation"])
    case.same([500, 500, 500], playground.payments, "the switch steal-presence, after its new sign-in → the API takes only the user's payment")


if __name__ == "__main__":
    main({"step-up": (step_up, 120), "presence": (presence, 120)}, __doc__)
