"""Forwards whose secrets are empty or wrong, and callbacks with forged identities.

The sources of the attacks are in docs/known-attacks.md. The case makes the attacks first, and then an honest request.
"""

import hashlib
import json
import pathlib
import re
import secrets
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import encoded  # noqa: E402
from support.raw_requests import raw  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402


def sign_ins(case):
    """Empty secrets → refused; forged identities in a callback → ignored (SEC-03, SEC-05, SEC-16)"""
    sandbox = Sandbox(case)
    kept = ["sub", "email", "user_id", "name"]
    broker = Broker(case, sandbox, settings={"providers": {"oidc": {"clients": {"ios": {"callback_parameters": kept}}}}})

    def begin(client="ios", **more):
        begun = broker.call("POST", "/v1/logins", body={"provider": "oidc", "client": client} | more)
        held = re.search(r"(coatcheck-login)=([^;]+)", begun.fields["Set-Cookie"] or "")
        return call(begun.json["authorization_url"] + "&sandbox_user=ana").fields["Location"], held and held[2], begun.json.get("login_token")

    before = sandbox.calls("oidc/token")
    # Forwards whose login token, cookie or verifier is empty or has a wrong type.
    callback, _, token = begin("android")
    for word, value in (("an empty login token", ""), ("a login token that is null", None), ("a list of the login token", [token]), ("the login token `true`", True)):
        answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback, "login_token": value})
        case.verdict(answer.status in (400, 403), f"a forward with {word} → refused", answer.told)
    for word, fields in (("no cookie", {}), ("an empty cookie", {"Cookie": "coatcheck-login="}), ("an empty cookie in quotes", {"Cookie": 'coatcheck-login=""'})):
        callback, _, _ = begin()
        answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields)
        case.verdict(answer.status in (400, 403), f"a forward with {word} → refused", answer.told)
    verifier = secrets.token_urlsafe(32)
    challenge = encoded(hashlib.sha256(verifier.encode()).digest())
    for word, value in (("an empty verifier", ""), ("a verifier that is null", None), ("the challenge itself", challenge), ("a verifier of 43 zeros", "0" * 43)):
        callback, cookie, _ = begin(code_challenge=challenge, code_challenge_method="S256")
        answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback, "code_verifier": value}, Cookie=f"coatcheck-login={cookie}")
        case.verdict(answer.status in (400, 403), f"a forward with {word} → refused", answer.told)
    callback, cookie, _ = begin(code_challenge=challenge, code_challenge_method="S256")
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f"coatcheck-login={cookie}")
    case.verdict(answer.status in (400, 403), "a forward without the verifier → refused", answer.told)
    # Forwards that name another client or provider than the login's.
    for word, more in (("the name of another client", {"client": "android"}), ("the name of another provider", {"provider": "clover"})):
        callback, cookie, _ = begin()
        answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback} | more, Cookie=f"coatcheck-login={cookie}")
        case.same("400 state_mismatch", answer.told, f"a forward with {word} → 400 state_mismatch")
    for word, state in (("no state", None), ("an empty state", ""), ("two states", "twice"), ("another login's state", begin()[0]), ("a list as its state", "[]")):
        callback, cookie, _ = begin()
        target, _, query = callback.partition("?")
        pairs = dict(urllib.parse.parse_qsl(query))
        own = pairs.pop("state")
        if state == "twice":
            query = urllib.parse.urlencode([*pairs.items(), ("state", own), ("state", own[::-1])])
        elif state == "[]":
            query = urllib.parse.urlencode([*pairs.items(), ("state[]", own)])
        elif state is not None:
            query = urllib.parse.urlencode([*pairs.items(), ("state", dict(urllib.parse.parse_qsl(state.partition("?")[2])).get("state", ""))])
        else:
            query = urllib.parse.urlencode(pairs)
        answer = broker.call("POST", "/v1/sessions", body={"callback_url": f"{target}?{query}"}, Cookie=f"coatcheck-login={cookie}")
        case.verdict(answer.status in (400, 403, 409) and not re.search("coatcheck=[^;]", answer.fields["Set-Cookie"] or ""), f"a callback with {word} → refused, and no session", answer.told)
    callback, _, _ = begin()
    _, _, token = begin("android")
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback, "login_token": token})
    case.same("403 login_not_yours", answer.told, "the callback of one client with the login token of another → 403 login_not_yours")
    case.same(before, sandbox.calls("oidc/token"), "all refused forwards → zero token calls at the provider")

    # Forged user names in the callback. The broker stores the configured parameters, but only as unverified identity.
    forged = {name: "mallory" for name in (*kept, "profile[id]", "externalUserId", "idpConfigId", "id_token_hint", "user")}
    callback, cookie, _ = begin()
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": f"{callback}&{urllib.parse.urlencode(forged)}"}, Cookie=f"coatcheck-login={cookie}")
    session = answer.json
    unverified = session.get("identity", {}).pop("unverified", None)
    case.same({name: "mallory" for name in kept}, unverified, "a callback with forged user names → the session lists only the configured members, as unverified")
    seen = json.dumps({name: session.get(name) for name in ("subject", "identity", "provider")})
    case.verdict(answer.status == 201 and session.get("subject") == "user-ana" and "mallory" not in seen, "a callback with forged user names → the session has the user whom the provider reports", f"{answer.told} {seen}")
    callback, cookie, _ = begin()
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": f"{callback}&sub=user-bob"}, Cookie=f"coatcheck-login={cookie}")
    case.same("user-ana", answer.json.get("subject"), "ana's callback with ben's subject added → a session of ana")

    # The broker accepts the Cookie field's name in any letter case, and always checks the login token in it.
    callback, cookie, _ = begin()
    for name in ("COOKIE", "cOOKIE"):
        answer = raw(broker, "POST", "/v1/sessions", f"{name}: coatcheck-login={secrets.token_urlsafe(32)}", "Content-Type: application/json",
                     body=json.dumps({"callback_url": begin()[0]}))
        case.verdict(answer[0][0] in (400, 403), f"another device's login token in the field {name} → refused", str(answer[0][0]))
    answer = raw(broker, "POST", "/v1/sessions", f"cOOKIE: coatcheck-login={cookie}", "Content-Type: application/json", body=json.dumps({"callback_url": callback}))
    case.same(201, answer[0][0], "the starter's login token in the field cOOKIE → a session")


if __name__ == "__main__":
    main({"sign-ins": (sign_ins, 60)}, __doc__)
