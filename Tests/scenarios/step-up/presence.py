"""Presence: a phone uses its second key, the presence key, only after the user has confirmed. The cases show that a stolen
token, the session's own key or an intercepted proof is useless. presence-replicas.py tests several replicas.
"""

import collections
import pathlib
import socket
import sys
import threading

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.presence import KEY, PAY, Upstream, User, paying  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.step_up import told  # noqa: E402


def is_presence_wanted(case, answer, code, sentence):
    """Checks a 401 about presence: its code in body and field, a nonce, a challenge with this code, and an unchanged cookie."""
    case.same(f"401 {code}", told(answer), sentence)
    word = code.split()[0]
    case.verdict(
        len(answer.fields["DPoP-Nonce"] or "") == 16 and answer.fields["Coatcheck-Code"] == word
        and answer.fields["WWW-Authenticate"] == f'DPoP error="{word}", algs="ES256"' and not answer.fields["Set-Cookie"],
        f"{sentence} → the refusal has nonce, code and challenge, and the cookie stays", str(answer.fields))


def refusals(case):
    """Presence keys that may not be registered, and calls that are refused because of their presence proof."""
    sandbox, upstream = Sandbox(case), Upstream()
    broker = paying(case, sandbox, upstream)
    user, thief = User(broker), User(broker)
    for each in (user, thief):
        case.same(201, each.phone.sign_in().status, "a phone signs in with a key → a bound session")
    is_presence_wanted(case, user.send("PUT", KEY), "presence_required", "a presence key's registration without the presence key's own proof → presence_required")
    own = user.phone.proof("PUT", KEY, user.session)
    is_presence_wanted(case, user.send("PUT", KEY, own), "presence_invalid key", "a session registers its session key also as its presence key → refused")
    case.same("401 proof_required", told(user.phone.passing("PUT", KEY, Coatcheck_Presence=user.presence("PUT", KEY))), "a presence key's registration with a pass instead of the session key's proof → proof_required")
    unbound = broker.sign_in(client="android")
    bearer = {"Authorization": f"Bearer {unbound}"}
    case.same("403 client_not_allowed", told(broker.call("PUT", KEY, **bearer)), "a presence key's registration for an unbound session → refused")
    refused = broker.call("POST", PAY, **bearer)
    case.same(("403 step_up_failed", {"presence": True}), (told(refused), refused.json["required"]), "a payment that needs presence, by an unbound session → step_up_failed")
    is_presence_wanted(case, user.pay(), "presence_required", "a payment of a session without a presence key → presence_required")

    case.same(None, user.send("GET", "/v1/session").json["presence"], "refused registrations of a presence key → the session has no presence key")
    case.same(200, user.register().status, "a presence key's registration with both proofs → 200")
    shown = user.send("GET", "/v1/session").json["presence"]
    case.same(user.face.thumbprint, shown["jkt"], "a presence key is registered → the session object has the key's thumbprint")
    case.same(200, user.register().status, "a session registers the same presence key a second time → 200")
    user.face, held = Phone(broker), user.face
    is_presence_wanted(case, user.register(), "presence_invalid key", "a session with a presence key registers another presence key → refused")
    user.face = held
    widget = Phone(broker)
    child = user.phone.call(
        "POST", "/v1/session/children", user.session, {"kind": "widget", "name": "home", "jkt": widget.thumbprint}).json["session_token"]
    widget.nonce = user.phone.nonce
    answer = broker.call(
        "POST", PAY, Authorization=f"Bearer {child}", DPoP=widget.proof("POST", PAY, child),
        Coatcheck_Presence=user.presence("POST", PAY, child))
    is_presence_wanted(case, answer, "presence_required", "a child's call with its parent's presence proof → presence_required")
    case.same(({"presence": True}, True), (answer.json["step_up"], answer.json["parent"]), "a child's call without presence is refused → the answer has `parent`, because the parent has to make the call")
    answer = broker.call("PUT", KEY, Authorization=f"Bearer {child}", DPoP=widget.proof("PUT", KEY, child))
    case.same("403 client_not_allowed", told(answer), "a presence key's registration for a child session → refused")

    before = upstream.count
    answer = user.send("POST", PAY)
    is_presence_wanted(case, answer, "presence_required", "a call that needs presence, without a presence proof → presence_required")
    case.same({"presence": True}, answer.json["step_up"], "a call that needs presence, without a presence proof → the answer's body demands presence")
    caught = user.presence("POST", PAY)
    for reason, presence, method, path in [
            ("malformed", "x.y", "POST", PAY), ("key", thief.presence("POST", PAY, user.session, user.phone.nonce), "POST", PAY),
            ("key", user.phone.proof("POST", PAY, user.session), "POST", PAY),
            ("address", caught, "POST", PAY + "/2"), ("method", caught, "PUT", PAY), ("address", user.presence("POST", KEY), "POST", PAY),
            ("token", user.presence("POST", PAY, thief.session), "POST", PAY), ("token", user.presence("POST", PAY, ath=None), "POST", PAY),
            ("nonce", user.presence("POST", PAY, nonce="A" * 16), "POST", PAY), ("signature", user.presence("POST", PAY)[:-4] + "AAAA", "POST", PAY)]:
        is_presence_wanted(case, user.send(method, path, presence), f"presence_invalid {reason}", f"a presence proof with a wrong {reason} → refused for that reason")
    thief.phone.session, stolen = user.session, thief.phone.session
    case.same("401 proof_invalid key", told(thief.send("POST", PAY, user.presence("POST", PAY))), "a thief sends a stolen session token with the user's presence proof → refused, because the thief's key signed the DPoP proof")
    thief.phone.session = stolen
    thief.register()
    case.same("401 presence_invalid token", told(thief.send("POST", PAY, caught)), "a thief sends a copied presence proof in another session → refused")
    case.same(before, upstream.count, "calls with missing, wrong, stolen or copied presence proofs are refused → zero calls at the upstream")
    case.same("200", told(user.send("POST", PAY, caught)), "a presence proof was refused in another session, and then the user sends it in the right session → 200")
    for method in ("POST", "GET"):
        presence = user.presence(method, PAY)
        found = [told(user.send(method, PAY, presence)) for _ in range(3)]
        case.same(["200"] + ["401 presence_invalid replayed"] * 2, found, f"one presence proof in three {method} requests, one after another → only the first request succeeds")
    racing = [case.beside(lambda proof=proof: broker.call(
        "POST", PAY, user.session, DPoP=proof, Coatcheck_Presence=racer)) for racer in [user.presence("POST", PAY)]
        for proof in [user.phone.proof("POST", PAY, user.session) for _ in range(8)]]
    found = collections.Counter(told(answer.result(30)) for answer in racing)
    case.same({"200": 1, "401 presence_invalid replayed": 7}, dict(found), "one presence proof in eight requests at the same time → one request succeeds")
    case.verdict(not any("presence" in name.lower() for fields in upstream.fields for name in fields), "relayed calls → the upstream receives no presence field")
    case.same(2.0, broker.metric("coatcheck_presence_keys_total", client="ios"), "two presence keys are registered → the metric counts two")


def registration(case):
    """The registration of a presence key needs a sign-in within the last ten minutes. The key stays until the session's end."""
    sandbox, upstream = Sandbox(case), Upstream()
    broker = paying(case, sandbox, upstream)
    user = User(broker)
    begun, fields = user.phone.begin()
    late = call(f"{begun.json['authorization_url']}&sandbox_user=ana&sandbox_auth_age=4000").fields["Location"]
    case.same(201, user.phone.forward(late, fields).status, "a sign-in whose auth_time is an hour ago → a session")
    answer = user.register()
    case.same(("401 step_up_required", {"max_age": 600}), (told(answer), answer.json["step_up"]), "a presence key's registration an hour after the sign-in → step_up_required")
    begun = user.phone.call("POST", "/v1/logins", user.session, {"step_up": {"max_age": 600}})
    cookie = (begun.fields["Set-Cookie"] or "").split(";")[0]
    callback = user.phone.callback(begun)
    answer = user.phone.call("POST", "/v1/sessions", user.session, {"callback_url": callback}, Cookie=cookie)
    case.same("200", told(answer), "a step-up before the presence key's registration → 200")
    case.same(200, user.register().status, "a presence key's registration after the step-up → 200")
    stood = user.send("GET", "/v1/session").json["presence"]
    case.same(200, user.send("POST", "/v1/session/refresh").status, "a refresh of a session with a presence key → 200")
    begun = user.phone.call("POST", "/v1/logins", user.session, {"step_up": {"max_age": 600}})
    cookie = (begun.fields["Set-Cookie"] or "").split(";")[0]
    answer = user.phone.call(
        "POST", "/v1/sessions", user.session, {"callback_url": user.phone.callback(begun)}, Cookie=cookie)
    case.same(("200", stood), (told(answer), answer.json["presence"]), "a session with a presence key is refreshed and then steps up → the presence key stays")
    caught = user.presence("POST", PAY)
    broker.restart()
    case.same(stood, user.send("GET", "/v1/session").json["presence"], "the broker restarts → the session's presence key stays")
    case.same("401 presence_invalid nonce", told(user.send("POST", PAY, caught)), "a broker on SQLite has restarted, and gets a presence proof from before the restart → refused because of the proof's nonce")
    case.same("200", told(user.pay()), "a new presence proof after the restart → 200")
    columns = "presence_key IS NOT NULL, presence IS NOT NULL"
    case.same((1, 1), broker.row(user.session, columns), "a session with a presence key → its row has the key, sealed")
    broker.log_out(user.session)
    case.same([(0, 0)], broker.query(f"SELECT {columns} FROM sessions"), "a session with a presence key logs out → the tombstone lacks the presence key")
    case.same(
        [("session", "session.presence_key_changed", "done")], broker.query("SELECT actor, action, outcome FROM audit WHERE actor = 'session'"),
        "a presence key is registered → one row in the audit table")


def away(case):
    """An upstream fails. If it provably did not receive the call, the presence proof stays valid. Otherwise it counts as used."""
    sandbox, upstream = Sandbox(case), Upstream()
    broker = paying(case, sandbox, upstream)
    user = User(broker)
    user.phone.sign_in()
    case.same(200, user.register().status, "a presence key's registration → 200")
    upstream.go()
    presence = user.presence("POST", PAY)
    asked = user.asked
    case.same("502 upstream_error", told(user.send("POST", PAY, presence)), "a payment while the upstream is down → 502 upstream_error")
    upstream.come()
    case.same("200", told(user.send("POST", PAY, presence)), "a payment did not reach the upstream, and its presence proof is sent again later → 200")
    case.same(asked, user.asked, "a payment repeated with the same presence proof → the user gets no second prompt")
    case.same("401 presence_invalid replayed", told(user.send("POST", PAY, presence)), "a payment with a used presence proof → refused as replayed")
    upstream.go()
    rude = socket.create_server(("127.0.0.1", upstream.port))

    def hang_up():
        peer, _ = rude.accept()
        peer.recv(65536)
        peer.close()

    threading.Thread(target=hang_up, daemon=True).start()
    presence = user.presence("POST", PAY)
    case.same("502 upstream_error", told(user.send("POST", PAY, presence)), "the upstream reads a payment and closes the connection without an answer → 502 upstream_error")
    rude.close()
    upstream.come()
    case.same("401 presence_invalid replayed", told(user.send("POST", PAY, presence)), "the upstream may have received a payment, and its presence proof is sent again → refused as replayed")
    statuses = [told(user.send("POST", PAY, user.presence("POST", PAY))) for _ in range(32)]
    case.verdict(statuses.count("200") <= 30 and "429 rate_limited" in statuses, "32 payments of one session in a minute → at most thirty succeed, and one gets 429", str(statuses))


def gateways(case):
    """Forward-auth with `presence=1` accepts a presence proof for the original request once."""
    sandbox, upstream = Sandbox(case), Upstream()
    broker = paying(case, sandbox, upstream)
    user = User(broker)
    user.phone.sign_in()
    user.register()

    def ask(presence=None, query="?presence=1", says=True):
        fields = {"X_Coatcheck_Backend": BACKEND, "Coatcheck_Pass": user.phone.held_pass}
        if presence:
            fields["Coatcheck_Presence"] = presence
        if says:
            fields |= {"X_Original_Method": "POST", "X_Original_URL": f"{broker.url}/orders"}
        answer = broker.call("GET", "/v1/forward-auth" + query, user.session, **fields)
        user.phone.nonce = answer.fields["DPoP-Nonce"] or user.phone.nonce
        return answer

    case.same("403 backend_not_allowed", told(ask(query="?presence=yes")), "forward-auth with the query presence=yes → refused")
    case.same("403 backend_not_allowed", told(ask(says=False)), "forward-auth that demands presence, without the original request's method and URL → refused")
    is_presence_wanted(case, ask(), "presence_required", "forward-auth that demands presence, without a presence proof → presence_required")
    is_presence_wanted(case, ask(user.presence("GET", "/v1/forward-auth")), "presence_invalid method", "forward-auth with a presence proof for the proxy's own request instead of the original request → refused")
    good = user.presence("POST", "/orders")
    case.same(200, ask(good).status, "forward-auth with a presence proof for the original request → 200")
    is_presence_wanted(case, ask(good), "presence_invalid replayed", "forward-auth with a used presence proof → refused as replayed")
    case.same(200, ask(query="").status, "forward-auth without a demand for presence → 200")


CASES = {
    "refusals": (refusals, 180),
    "registration": (registration, 180),
    "away": (away, 120),
    "gateways": (gateways, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
