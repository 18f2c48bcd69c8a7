"""Step-ups during a refresh in progress, step-ups during which the process is killed, and step-ups of bound sessions."""

import pathlib
import re
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.gate import Gate  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.step_up import A_PAIR, MFA, Login, step_up, told  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402


def crossing(case):
    """A step-up during a refresh in progress, which then succeeds, is refused, or is lost because the process is killed."""
    sandbox = Sandbox(case)
    gate = Gate(sandbox)
    broker = Broker(case, sandbox, gate, gated=("refresh",), settings={"providers": {"oidc": {"revocation": {"reaches": "token"}}}})
    session = broker.sign_in()

    def under_way():
        release = threading.Event()
        gate.plan.append(Gate.hold(release))
        before = len(gate.calls)
        asked = case.beside(broker.refresh, session)
        if not wait_for(20, lambda: len(gate.calls) > before):
            raise GaveUp("no refresh came")
        return release, asked

    # The refresh ends after the step-up.
    release, asked = under_way()
    answer = step_up(broker, session, MFA)
    case.same("200", told(answer), "a refresh is in progress, and a step-up begins and ends meanwhile → the step-up gets 200")
    stood = broker.row(session, "token_version, grant_version")
    case.same((2, 2), stood, "a step-up has ended while a refresh is still in progress → the session has the step-up's new grant")
    release.set()
    asked.result(30)
    case.verdict(wait_for(20, lambda: sandbox.calls("oidc/revoke") == 2 * A_PAIR), "a refresh begins, a step-up begins and ends, and then the refresh ends → both token pairs of the old grant are revoked")
    case.same(stood, broker.row(session, "token_version, grant_version"), "a refresh begins, a step-up begins and ends, and then the refresh ends → the refresh's tokens are not stored")
    case.same(200, broker.refresh(session).status, "a step-up and then a refresh of the old grant have ended, and then the app refreshes again → 200")
    case.same("mfa", broker.look(session).json["acr"], "a step-up and then a refresh of the old grant have ended, and then the app refreshes again → the session keeps the step-up's acr")

    # The refresh ends after the step-up, and the provider refuses it.
    release = threading.Event()

    def refuse(_, forward):
        release.wait(30)
        return 400, {"Content-Type": "application/json"}, b'{"error": "invalid_grant"}'

    gate.plan.append(refuse)
    before = len(gate.calls)
    asked = case.beside(broker.refresh, session)
    wait_for(20, lambda: len(gate.calls) > before)
    case.same("200", told(step_up(broker, session, MFA)), "a refresh is in progress, and a step-up begins and ends before the provider refuses the refresh → the step-up gets 200")
    release.set()
    asked.result(30)
    case.same(200, broker.look(session).status, "a step-up has begun a new grant, and then the provider refuses a refresh of the old grant → the session is alive")
    case.same(200, broker.refresh(session).status, "after a step-up, the provider has refused a refresh of the old grant, and then the app refreshes again → 200")

    # The process is killed during a refresh, after the step-up has been committed.
    release, _ = under_way()
    case.same("200", told(step_up(broker, session, MFA)), "a refresh is in progress, and a step-up begins and ends before kill -9 → the step-up gets 200")
    broker.restart()
    release.set()
    case.same(200, broker.refresh(session).status, "a refresh of the old grant is in progress, a step-up ends, and then kill -9 → a refresh of the new grant succeeds")


def dying(case):
    """kill -9 after a step-up's code was sent and before its answer arrives: the session stays unchanged."""
    sandbox = Sandbox(case)
    gate = Gate(sandbox)
    broker = Broker(case, sandbox, gate, gated=("token",))
    session = broker.sign_in()
    before = broker.look(session).json
    login = Login(broker, session, MFA).sign_in()
    release = threading.Event()
    arrived = len(gate.calls)

    def lose(_, forward):
        forward()
        release.wait(30)

    gate.plan.append(lose)
    asked = case.beside(login.forward)
    wait_for(20, lambda: len(gate.calls) > arrived)
    time.sleep(0.5)
    broker.restart()
    release.set()
    asked.result(30)
    case.same("503 provider_unavailable", told(login.forward()), "kill -9 after a step-up's code was sent, and then the app repeats the forward → 503 provider_unavailable")
    case.same("new_login", login.forward().json.get("retry"), "kill -9 after a step-up's code was sent, and then the app repeats the forward → the answer advises a new login")
    case.same(before["authenticated_at"], broker.look(session).json["authenticated_at"], "a step-up's answer is lost because of kill -9 → the session keeps its time of sign-in")
    case.same(200, broker.refresh(session).status, "a step-up's answer is lost because of kill -9 → a refresh of the session gets 200")
    case.same("200", told(step_up(broker, session, MFA)), "a step-up's answer was lost because of kill -9, and then the user steps up again → 200")


def bound(case):
    """The step-up of a bound session needs proofs by the session's key."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings={"providers": {"oidc": {"clients": {"ios": {"binding": {"mode": "enforce"}}}}}})
    phone, thief = Phone(broker), Phone(broker)
    case.same(201, phone.sign_in().status, "a phone signs in with a key → a bound session")
    thief.nonce = phone.nonce
    session = phone.session
    count = broker.query("SELECT count(*) FROM logins")[0][0]
    held = f"coatcheck={session}; coatcheck-pass={phone.held_pass}"
    case.same("401 proof_required", told(broker.call("POST", "/v1/logins", session, MFA)), "the start of a bound session's step-up, without a proof → refused")
    case.same("401 proof_required", told(broker.call("POST", "/v1/logins", None, MFA, Cookie=held)), "the start of a bound session's step-up, with a pass instead of a proof → refused")
    case.same("401 proof_invalid key", told(thief.call("POST", "/v1/logins", session, MFA)), "the start of a bound session's step-up, with another key's proof → refused")
    case.same(count, broker.query("SELECT count(*) FROM logins")[0][0], "refused step-ups of a bound session → leave no login row")

    def begin():
        begun = phone.call("POST", "/v1/logins", session, MFA)
        cookie = re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]
        callback = call(f"{begun.json['authorization_url']}&sandbox_user=ana").fields["Location"]
        return {"callback_url": callback}, cookie

    body, cookie = begin()
    case.same(
        "401 proof_required", told(broker.call("POST", "/v1/sessions", None, body, Cookie=f"{cookie}; {held}")), "the forward of a bound session's step-up, without a proof → refused")
    case.same("403 login_not_yours", told(thief.call("POST", "/v1/sessions", session, body, Cookie=cookie)), "the forward of a bound session's step-up, with another key's proof → refused")
    case.same("400 state_mismatch", told(phone.call("POST", "/v1/sessions", session, body, Cookie=cookie)), "another key has tried to forward a bound session's step-up, and then the session's own key tries → refused, because the login is burned")
    body, cookie = begin()
    answer = phone.call("POST", "/v1/sessions", session, body, Cookie=cookie)
    case.same(("200", "mfa", phone.thumbprint), (told(answer), answer.json["acr"], answer.json["binding"]["jkt"]), "the forward of a bound session's step-up, with a proof by the session's key → 200, and the session keeps this key")
    case.same(200, phone.call("GET", "/v1/session", session).status, "a read of the bound session after its step-up → 200")


CASES = {
    "crossing": (crossing, 180),
    "dying": (dying, 120),
    "bound": (bound, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
