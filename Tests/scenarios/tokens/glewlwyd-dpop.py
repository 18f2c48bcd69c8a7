"""DPoP at Glewlwyd, a provider from outside this project. One case has DPoP nonces. Another has pushed requests and signed
client assertions, without nonces.
"""

import pathlib
import sys
import urllib.parse
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import ADMIN  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.glewlwyd import Browser, Glewlwyd, public_jwk  # noqa: E402
from support.glewlwyd_broker import APP, NONCES, begin, broker_of, forward, relayed, sign_in, upstreams  # noqa: E402
from support.mod_oauth2 import Apache  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402

PUSHED = {"oauth-par-allowed": True, "oauth-par-required": True}


def nonces(case):
    """A public client at a provider that demands DPoP nonces, and changes them after each answer or after every third."""
    glewlwyd = Glewlwyd(case)
    glewlwyd.client("mobile", APP)

    def challenged(since=0):
        return glewlwyd.refused("Invalid nonce") - since

    for counter, dpop in ((1, {"nonce_before_spending": True}), (3, {})):
        name = f"after-{counter}"
        issuer = glewlwyd.issuer(name, **NONCES | {"oauth-dpop-nonce-counter": counter})
        broker = broker_of(case, issuer, name=name, dpop=dpop)
        before = challenged()
        begun = begin(broker)
        case.verdict("dpop_jkt=" in begun.json["authorization_url"], f"Glewlwyd makes a new nonce after {counter} uses, the authorization URL → names the DPoP key", begun.json)
        session, answer = sign_in(broker, glewlwyd)
        case.same("Ana Example", answer.json["identity"]["name"], f"Glewlwyd makes a new nonce after {counter} uses, a sign-in → a session with the name from userinfo")
        case.same(2, challenged(before), f"Glewlwyd makes a new nonce after {counter} uses, a sign-in → one nonce challenge each from the token endpoint and from userinfo")
        for _ in range(2 * counter + 3):
            case.same("200", broker.refresh(session).told, f"Glewlwyd makes a new nonce after {counter} uses, a refresh → 200")
        # The server's endpoints share the client's nonce, and each answer contains a new one.
        case.verdict(challenged(before) <= 3, f"Glewlwyd makes a new nonce after {counter} uses, {2 * counter + 3} refreshes → at most one more challenge, because earlier answers have brought nonces", challenged(before) - 2)

        # The calls of a second broker change the client's nonce, so the nonce that the first broker knows is old.
        other = broker_of(case, issuer, name=f"{name}-other", dpop=dpop)
        theirs, _ = sign_in(other, glewlwyd)
        before = challenged()
        for _ in range(4):
            case.same("200", other.refresh(theirs).told, f"Glewlwyd makes a new nonce after {counter} uses, a refresh by another broker → 200")
            case.same("200", broker.refresh(session).told, f"Glewlwyd makes a new nonce after {counter} uses, a refresh with a nonce that may be old → 200")
        case.verdict(challenged(before) >= 2, f"Glewlwyd makes a new nonce after {counter} uses, eight refreshes by two brokers in turn → at least two nonce challenges", challenged(before))

        before = challenged()
        broker.restart()
        case.same("200", broker.refresh(session).told, f"Glewlwyd makes a new nonce after {counter} uses, a refresh after kill -9 → 200")
        # Without `nonce_before_spending`, the broker asks PAR first, and gets no nonce there.
        case.same(1 if dpop else 2, challenged(before), f"Glewlwyd makes a new nonce after {counter} uses, a refresh after kill -9 → {1 if dpop else 2} nonce challenges")
        case.same("204", broker.log_out(session).told, f"Glewlwyd makes a new nonce after {counter} uses, a log-out → 204")
        other.stop()
        broker.configure(providers={"real": {"par": "required"}}, log={"requests": True})
        broker.restart()
        case.same("502 provider_error", begin(broker).told, f"Glewlwyd makes a new nonce after {counter} uses, pushed request at a provider with nonces → 502, because Glewlwyd refuses every proof there")
        case.verdict(wait_for(5, lambda: "dpop: {par: thumbprint}" in broker.log()), f"Glewlwyd makes a new nonce after {counter} uses, pushed request at a provider with nonces → the log names the setting that helps", broker.log()[-900:])
        broker.stop()
    case.verdict("already used" not in glewlwyd.log(), "all calls to Glewlwyd → Glewlwyd's log has no DPoP proof that was already used")


def pushed(case):
    """Pushed requests, DPoP proofs and signed client assertions at a provider without nonces."""
    glewlwyd = Glewlwyd(case)
    issuer = glewlwyd.issuer("pushed", **PUSHED)
    key = ec.generate_private_key(ec.SECP256R1())
    file = case.folder / "client.pem"
    file.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    file.chmod(0o600)
    glewlwyd.client(
        "service", APP, confidential=True, token_endpoint_auth_method=["private_key_jwt"], jwks={"keys": [public_jwk(key, "key-1")]})
    settings = {
        "par": "required",
        "clients": {"ios": {
            "client_id": "service", "auth": "private_key_jwt", "scope": "openid", "redirect_uris": [APP],
            "private_key": {"file": str(file), "key_id": "key-1", "algorithm": "ES256"}}}}
    for audience in ("issuer", "token_endpoint"):
        broker = broker_of(case, issuer, name=f"for-{audience}", **settings, assertion={"audience": audience})
        answer = begin(broker)
        case.verdict(
            answer.status >= 500, f"client assertion whose audience is the {audience} → the provider refuses the pushed request: {answer.told}", answer.body)
        broker.stop()
    api = Apache(case, issuer)
    broker = broker_of(case, issuer, upstreams(api), **settings, assertion={"audience": "endpoint"})
    begun = begin(broker)
    if begun.status != 201:
        raise GaveUp(f"no login: {begun.told} {broker.log()[-600:]} {glewlwyd.log()[-600:]}")
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(begun.json["authorization_url"]).query))
    case.same({"client_id", "request_uri"}, set(query), "login with a pushed request → its URL has exactly client_id and request_uri")
    broker.restart()
    callback = Browser(glewlwyd).open(begun.json["authorization_url"])
    case.verdict("client_assertion=" in callback, "login with a pushed request → Glewlwyd's callback repeats the client assertion", callback)
    answer = forward(broker, begun, callback)
    case.same(201, answer.status, "kill -9 of the broker between the pushed request and the callback → a session")
    case.same("Ana Example", answer.json.get("identity", {}).get("name"), "kill -9 of the broker between the pushed request and the callback → the session has the user's name")
    assertion = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(callback).query)).get("client_assertion", "-")
    case.verdict(assertion not in broker.log(), "callback that repeats the client assertion → the broker does not log the assertion")
    session = next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck=")).split(";")[0].split("=")[1]
    for _ in range(3):
        case.same("200", broker.refresh(session).told, "a refresh with a proof → 200")
        broker.restart()
    case.same("200", broker.refresh(session).told, "kill -9 of the broker after a refresh was committed → the next refresh is 200")
    case.same(200, relayed(broker, session).status, "a relayed call that Apache checks → 200")
    case.same("204", broker.log_out(session).told, "a log-out of a session at Glewlwyd → 204")
    case.verdict(
        wait_for(10, lambda: broker.metric("coatcheck_revocations_total", provider="real", result="done") == 1),
        "log-out of a session whose client authenticates with assertions → the tokens are revoked", broker.log()[-500:])
    case.same([(0,)], glewlwyd.query("SELECT DISTINCT gpor_enabled FROM gpo_refresh_token"), "log-out of a session whose client authenticates with assertions → Glewlwyd has disabled the refresh tokens")


def from_before(case):
    """A session from before `sender_constrained: dpop` was set. Its tokens stay unbound, and Glewlwyd refuses proofs for them."""
    glewlwyd = Glewlwyd(case)
    issuer = glewlwyd.issuer("plain")
    glewlwyd.client("mobile", APP, dpop_bound="0")
    broker = broker_of(case, issuer, sender_constrained="off")
    session, _ = sign_in(broker, glewlwyd)
    case.same("200", broker.refresh(session).told, "refresh before `sender_constrained: dpop` is set → 200")
    broker.configure(providers={"real": {"sender_constrained": "dpop"}})
    broker.restart()
    for _ in range(3):
        case.same("200", broker.refresh(session).told, "`sender_constrained: dpop` is set, a refresh of an unbound session from before the change → 200")
    case.same("200", broker.refresh(sign_in(broker, glewlwyd)[0]).told, "`sender_constrained: dpop` is set, a refresh of a new session → 200")
    listed = call(f"{broker.management}/admin/v1/sessions?provider=real", Authorization=f"Bearer {ADMIN}")
    case.same(["dpop", None], [item["sender_constrained"] for item in listed.json["items"]], "admin's list of sessions → shows which session is bound by dpop")
    broker.configure(providers={"real": {"sender_constrained": "off"}})
    broker.restart()
    case.same("200", broker.refresh(session).told, "`sender_constrained` is turned off again → a refresh of the unbound session is 200")


CASES = {
    "nonces": (nonces, 120),
    "pushed": (pushed, 120),
    "from-before": (from_before, 60),
}

if __name__ == "__main__":
    main(CASES, __doc__)
