"""Presence at three replicas. A user is prompted once for a call, and only one replica accepts a presence proof. A changed
session is visible at every replica within a second.
"""

import collections
import itertools
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.presence import KEY, PAY, Upstream, User, paying  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.step_up import MFA, told  # noqa: E402
from support.waiting import wait_for  # noqa: E402


class Balanced:
    """Three replicas, which get requests in turn."""

    def __init__(self, brokers):
        self.settings, self.turn = brokers[0].settings, itertools.cycle(brokers)

    def call(self, *arguments, **fields):
        return next(self.turn).call(*arguments, **fields)


def catches_up(case, broker, ask, wanted):
    """Polls a replica in the background until it has returned the wanted answer for a second. The result is the start time of the
    last request with another answer.
    """

    def run():
        last = since = time.monotonic()
        end = last + 20
        while (begin := time.monotonic()) < end and begin - since < 1:
            if ask(broker) != wanted:
                last = since = begin
            time.sleep(0.005)
        return last

    return case.beside(run)


def changes(case, user, first, others):
    """A change at one replica is visible at the others within a second, even if they have the session in memory."""
    held = user.phone.held_pass

    def session(broker):
        found = broker.call("GET", "/v1/session", user.session, Coatcheck_Pass=held).json
        return (found["presence"] or {}).get("jkt"), found["acr"]

    def introspected(broker):
        found = broker.call(
            "POST", "/v1/introspect", body=f"token={user.session}&pass={held}", Content_Type="application/x-www-form-urlencoded",
            X_Coatcheck_Backend=BACKEND).json
        return found.get("acr")

    def stepped_up():
        begun = user.phone.call("POST", "/v1/logins", user.session, MFA)
        cookie = (begun.fields["Set-Cookie"] or "").split(";")[0]
        callback = user.phone.callback(begun)
        return user.phone.call("POST", "/v1/sessions", user.session, {"callback_url": callback}, Cookie=cookie)

    key = user.face.thumbprint
    for sentence, change, version, before, wanted in [
            ("a presence key's registration", lambda: user.register(first), 2, (None, "pwd"), {session: (key, "pwd")}),
            ("a step-up", stepped_up, 3, (key, "pwd"), {session: (key, "mfa"), introspected: "mfa"})]:
        case.same([before] * 2, [session(broker) for broker in others], f"before {sentence} at one replica → the other replicas return the session without this change")
        watching = {(broker.name, ask.__name__): catches_up(case, broker, ask, value) for broker in others for ask, value in wanted.items()}
        answer = change()
        answered = time.monotonic()
        case.same((200, version), (answer.status, (answer.json or {}).get("version")), f"{sentence} → the answer has the session's next version")
        for (name, asked), future in watching.items():
            took = future.result(60) - answered
            case.verdict(took < 1, f"{sentence} → replica {name} shows the change {max(took, 0):.2f} s later ({asked})", f"{took}")


def replicas(case):
    """Three replicas: a user is prompted once, only one replica accepts a presence proof, and payments need the store."""
    sandbox, upstream = Sandbox(case), Upstream()
    with Database() as database:
        first = paying(case, sandbox, upstream, name="one", start=False)
        first.configure(store={"url": database.url()})
        first.start()
        brokers = [first]
        for name in ("two", "three"):
            broker = paying(case, sandbox, upstream, name=name, like=first, start=False)
            broker.configure(store={"url": database.url()}, server={"public_url": first.url})
            broker.start()
            brokers.append(broker)
        racing = User(first)
        racing.phone.sign_in()
        faces = [Phone(first) for _ in range(6)]
        calls = []
        for index, face in enumerate(faces):
            face.nonce = racing.phone.nonce
            fields = {"DPoP": racing.phone.proof("PUT", KEY, racing.session), "Coatcheck_Presence": face.proof("PUT", KEY, racing.session)}
            calls.append(case.beside(lambda broker=brokers[index % 3], fields=fields: broker.call("PUT", KEY, racing.session, **fields)))
        found = collections.Counter(told(answer.result(30)) for answer in calls)
        case.same({"200": 1, "401 presence_invalid key": 5}, dict(found), "a session registers six presence keys at three replicas at the same time → one registration succeeds")

        user = User(first)
        user.phone.sign_in()
        changing = User(first)
        changing.phone.sign_in()
        changes(case, changing, first, brokers[1:])
        balancer = Balanced(brokers)
        case.same("200", told(user.register(balancer)), "a presence key's registration through a balancer → 200")
        for method in ("POST", "GET", "PUT", "POST"):
            asked, before = user.asked, upstream.count
            case.same(("200", 1, 1), (told(user.pay(balancer, method)), user.asked - asked, upstream.count - before), f"a payment by {method} through a balancer → one prompt for the user, and one call at the upstream")
        presence = user.presence("GET", PAY)
        found = [told(user.send("GET", PAY, presence, broker)) for broker in brokers]
        case.same(["200"] + ["401 presence_invalid replayed"] * 2, found, "one presence proof for GET, sent to three replicas in turn → only the first replica accepts the proof")
        before, good = upstream.count, 0
        for _ in range(5):
            presence = user.presence("POST", PAY)
            answers = [case.beside(lambda broker=broker, proof=user.phone.proof("POST", PAY, user.session): broker.call(
                "POST", PAY, user.session, DPoP=proof, Coatcheck_Presence=presence)) for broker in brokers * 2]
            good += sum(told(answer.result(30)) == "200" for answer in answers)
        case.same((5, before + 5), (good, upstream.count), "six calls with one presence proof to three replicas at the same time → one call succeeds, in each of five rounds")
        upstream.go()
        presence = user.presence("POST", PAY)
        case.same("502 upstream_error", told(user.send("POST", PAY, presence, brokers[0])), "a payment while the upstream is down → 502 upstream_error")
        upstream.come()
        case.same("200", told(user.send("POST", PAY, presence, brokers[1])), "a payment did not reach the upstream, and its presence proof is sent again to another replica → 200")

        before, presence = upstream.count, user.presence("GET", PAY)
        fields = {"Coatcheck_Pass": user.phone.held_pass, "Coatcheck_Presence": presence}
        case.same(200, brokers[2].call("GET", "/v1/session", user.session, Coatcheck_Pass=user.phone.held_pass).status, "a replica returns a session, which is then in the replica's cache → 200")
        database.do("away")
        answer = brokers[2].call("GET", PAY, user.session, **fields)
        case.same(("503 store_unavailable", before), (told(answer), upstream.count), "the store is unavailable, and a replica with the session in its cache gets a payment → 503, and zero calls at the upstream")
        database.do("back")
        case.verdict(wait_for(30, lambda: told(user.pay(balancer)) == "200"), "a payment after the store is available again → 200")


CASES = {
    "replicas": (replicas, 240),
}

if __name__ == "__main__":
    main(CASES, __doc__)
