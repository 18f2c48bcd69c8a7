"""A broker whose provider is Glewlwyd."""

import hashlib
import urllib.parse

from .broker import BACKEND, Broker
from .calls import call
from .dpop import Phone, encoded
from .glewlwyd import Browser, Glewlwyd
from .mod_oauth2 import Apache
from .sandbox import Sandbox
from .waiting import GaveUp

NONCES = {"oauth-dpop-nonce-mandatory": True, "oauth-dpop-nonce-counter": 3, "oauth-par-allowed": True}
APP = "com.example.real:/cb"


def provider(issuer, **settings):
    return {
        "kind": "oidc", "issuer": issuer, "sender_constrained": "dpop", "identity": {"source": "userinfo"},
        "clients": {"ios": {"client_id": "mobile", "auth": "none", "scope": "openid", "redirect_uris": [APP]}}} | settings


def broker_of(case, issuer, upstreams=None, name="broker", **settings):
    return Broker(case, Sandbox(case), name=name, settings={
        "providers": {"real": provider(issuer, **settings), "oauth2": None}, "upstreams": upstreams})


def begin(broker, client="ios"):
    return broker.call("POST", "/v1/logins", body={"provider": "real", "client": client})


def forward(broker, begun, callback):
    return broker.call(
        "POST", "/v1/sessions", body={"callback_url": callback}, Cookie=begun.fields["Set-Cookie"].split(";")[0])


def sign_in(broker, glewlwyd, client="ios"):
    """Does a whole login. Returns the session's token and the answer."""
    begun = begin(broker, client)
    if begun.status != 201:
        raise GaveUp(f"no login: {begun.told} {broker.log()[-600:]}")
    answer = forward(broker, begun, Browser(glewlwyd).open(begun.json["authorization_url"]))
    if answer.status != 201:
        raise GaveUp(f"no session: {answer.told} {broker.log()[-600:]} {glewlwyd.log()[-900:]}")
    held = next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck="))
    return held.split(";")[0].split("=")[1], answer


def relayed(broker, session, path="/v1/relay/standard/things", method="GET", **more):
    return broker.call(method, path, session, **more)


def upstreams(apache):
    return {
        "standard": {"base_url": f"{apache.url}/standard", "provider": "real", "allow": ["ANY /**"]},
        "before": {"base_url": f"{apache.url}/before", "provider": "real", "allow": ["ANY /**"], "scheme": "Bearer"}}


def exchange(broker, session, **fields):
    """Exchanges a session's token as a backend. `fields` name the request that the proof is for."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": session,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"} | fields
    return broker.call(
        "POST", "/v1/token", body=urllib.parse.urlencode(form), Authorization=f"Bearer {BACKEND}",
        Content_Type="application/x-www-form-urlencoded")


def apache(case):
    """Apache's mod_oauth2 checks the relayed calls. It refuses a caller that has the token but lacks the DPoP key."""
    glewlwyd = Glewlwyd(case)
    issuer = glewlwyd.issuer("nonces", **NONCES)
    glewlwyd.client("mobile", APP)
    api = Apache(case, issuer)
    broker = broker_of(case, issuer, upstreams(api), dpop={"nonce_before_spending": True})
    session, signed_in = sign_in(broker, glewlwyd)

    # A thief has the token and an intercepted proof.
    address = f"{api.url}/standard/things"
    answer = exchange(broker, session, dpop_htm="GET", dpop_htu=address)
    token, proof = answer.json.get("access_token"), answer.json.get("dpop_proof")
    case.same("DPoP", answer.json.get("token_type"), "backend's token exchange that names a request → a token of type DPoP")
    thief = Phone(broker)
    thief.nonce = None
    ath = encoded(hashlib.sha256(token.encode()).digest())
    foreign = thief.proof("GET", "/", htu=address, ath=ath)
    for what, url, fields in (
            ("no proof", address, {"Authorization": f"DPoP {token}"}),
            ("no proof, as Bearer", address, {"Authorization": f"Bearer {token}"}),
            ("no proof, at a path that expects Bearer", f"{api.url}/before/things", {"Authorization": f"Bearer {token}"}),
            ("a proof by another key", address, {"Authorization": f"DPoP {token}", "DPoP": foreign}),
            ("a proof of another address", f"{address}/other", {"Authorization": f"DPoP {token}", "DPoP": proof}),
            ("no token", address, {"DPoP": proof})):
        case.same(401, call(url, **fields).status, f"direct call to Apache with {what} → 401")
    case.same(
        401, call(address, "POST", b"x", Authorization=f"DPoP {token}", DPoP=proof).status, "direct call to Apache with a proof for another method → 401")
    case.same(0, api.reached, "Apache has refused all direct calls → the API behind Apache has received zero calls")
    case.same(200, call(address, Authorization=f"DPoP {token}", DPoP=proof).status, "backend calls Apache with the proof for its request → 200")
    case.same(401, call(address, Authorization=f"DPoP {token}", DPoP=proof).status, "backend calls Apache a second time with the same proof → 401")
    for what, fields in (
            ("as Bearer", {"Authorization": f"Bearer {token}"}),
            ("with a proof by another key", {"Authorization": f"DPoP {token}", "DPoP": thief.proof("GET", "/", htu=f"{issuer}/userinfo", ath=ath)})):
        case.verdict(call(f"{issuer}/userinfo", **fields).status in (400, 401, 403), f"userinfo with the token {what} → the provider refuses")

    # Relayed calls.
    for number in range(3):
        answer = relayed(broker, session, "/v1/relay/standard/things?page=2")
        case.same(200, answer.status, f"relayed call {number + 1} of a DPoP-bound session to Apache → 200")
    sent = {name.lower(): value for name, value in answer.json["fields"].items()}
    case.verdict(sent["authorization"].startswith("DPoP "), "relayed call of a DPoP-bound session → Apache receives the token with the scheme DPoP")
    case.same("/standard/things?page=2", answer.json["target"], "relayed call with a query, to an API behind Apache → the API receives the query")
    case.same(signed_in.json["subject"], sent["oauth2_claim_sub"], "relayed call of a DPoP-bound session → Apache reads the user's subject from the token")
    answer = relayed(broker, session, "/v1/relay/standard/things", "POST", body=b"x" * 200_000)
    case.same((200, 200_000), (answer.status, answer.json.get("body")), "relayed upload of 200,000 bytes → arrives completely")
    # The proof names the path as the broker sends it, but mod_oauth2 compares it with the decoded path.
    answer = relayed(broker, session, "/v1/relay/standard/a%20b")
    case.same(401, answer.status, "relayed call whose path has an encoded space → Apache's own 401")
    case.same("200", broker.look(session).told, "relayed call that Apache answered with 401 → the session is alive")
    answer = relayed(broker, session, "/v1/relay/before/things")
    case.same(200, answer.status, "relayed call to an upstream that expects the scheme Bearer → 200")
    sent = {name.lower(): value for name, value in answer.json.get("fields", {}).items()}
    case.verdict(sent.get("authorization", "").startswith("Bearer ") and sent.get("dpop"), "relayed call to an upstream that expects the scheme Bearer → has the token as Bearer, and a proof", sent)
    case.same("200", broker.refresh(session).told, "refresh of a DPoP-bound session → 200")
    case.same(200, relayed(broker, session).status, "relayed call to Apache after a refresh → 200")
    broker.restart()
    case.same(200, relayed(broker, session).status, "relayed call to Apache after kill -9 of the broker → 200")

    # The configured scheme is now wrong for this path, so Apache refuses the call. The session stays.
    broker.configure(upstreams={"standard": {"scheme": "Bearer"}})
    broker.restart()
    answer = relayed(broker, session)
    case.same(401, answer.status, "upstream is configured with the wrong token scheme → the app gets Apache's 401")
    case.same(None, answer.fields["Set-Cookie"], "upstream is configured with the wrong token scheme → the session cookie stays")
    case.same("200", broker.look(session).told, "upstream is configured with the wrong token scheme → the session is alive")
