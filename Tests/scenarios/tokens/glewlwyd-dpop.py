"""DPoP against servers from outside this project. Glewlwyd is the provider: it demands nonces and changes them, or accepts
pushed requests and signed assertions. Apache with mod_oauth2 is the API that checks the tokens' proofs.
"""

import hashlib
import pathlib
import sys
import urllib.parse

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.authority import Authority  # noqa: E402
from support.dpop import Phone, encoded  # noqa: E402
from support.glewlwyd import Browser, Glewlwyd, public_jwk  # noqa: E402
from support.harness import ADMIN, BACKEND, Broker, GaveUp, Sandbox, call, main, wait_for  # noqa: E402
from support.mod_oauth2 import Apache  # noqa: E402

NONCES = {"oauth-dpop-nonce-mandatory": True, "oauth-dpop-nonce-counter": 3, "oauth-par-allowed": True}
PUSHED = {"oauth-par-allowed": True, "oauth-par-required": True}
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
    """A whole login; the session's token and the answer."""
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
    """A backend's call for a session's token and, for the request that it names, its proof."""
    form = {
        "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange", "subject_token": session,
        "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"} | fields
    return broker.call(
        "POST", "/v1/token", body=urllib.parse.urlencode(form), Authorization=f"Bearer {BACKEND}",
        Content_Type="application/x-www-form-urlencoded")


def nonces(case):
    """A public client at a provider that demands nonces, and changes them with each answer or from time to time."""
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
        case.verdict("dpop_jkt=" in begun.json["authorization_url"], f"{name}, the authorization URL → it names the key", begun.json)
        session, answer = sign_in(broker, glewlwyd)
        case.same("Ana Example", answer.json["identity"]["name"], f"{name}, a sign-in → a session with the name from userinfo")
        case.same(2, challenged(before), f"{name}, a sign-in → one nonce challenge by token endpoint and userinfo each")
        for _ in range(2 * counter + 3):
            case.same("200", broker.refresh(session).told, f"{name}, a refresh → 200")
        # The server's endpoints share a nonce, and each answer brings a new one.
        case.verdict(challenged(before) <= 3, f"{name}: more refreshes → the nonces of earlier answers are used", challenged(before) - 2)

        # Another process's calls use up the client's nonce, so the known one is old.
        other = broker_of(case, issuer, name=f"{name}-other", dpop=dpop)
        theirs, _ = sign_in(other, glewlwyd)
        before = challenged()
        for _ in range(4):
            case.same("200", other.refresh(theirs).told, f"{name}, a refresh by another broker → 200")
            case.same("200", broker.refresh(session).told, f"{name}, a refresh with a nonce that may be old → 200")
        case.verdict(challenged(before) >= 2, f"{name}: eight refreshes by two brokers → {challenged(before)} nonce challenges", challenged(before))

        before = challenged()
        broker.restart()
        case.same("200", broker.refresh(session).told, f"{name}, a refresh after kill -9 → 200")
        # Without better knowledge the broker asks PAR first, and gets no nonce here.
        case.same(1 if dpop else 2, challenged(before), f"{name}, a refresh after kill -9 → one challenge, two if PAR is asked first")
        case.same("204", broker.log_out(session).told, f"{name}, a log-out → 204")
        other.stop()
        broker.configure(providers={"real": {"par": "required"}}, log={"requests": True})
        broker.restart()
        case.same("502 provider_error", begin(broker).told, f"{name}: PAR with nonces on → the provider refuses every proof")
        case.verdict(wait_for(5, lambda: "dpop: {par: thumbprint}" in broker.log()), f"{name}: PAR with nonces on → the log names the setting that helps", broker.log()[-900:])
        broker.stop()
    case.verdict("already used" not in glewlwyd.log(), "all calls → each proof is sent once")


def pushed(case):
    """Pushed requests, proofs and signed assertions, without nonces."""
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
            answer.status >= 500, f"an assertion for {audience} → refused at PAR: {answer.told}", answer.body)
        broker.stop()
    api = Apache(case, issuer)
    broker = broker_of(case, issuer, upstreams(api), **settings, assertion={"audience": "endpoint"})
    begun = begin(broker)
    if begun.status != 201:
        raise GaveUp(f"no login: {begun.told} {broker.log()[-600:]} {glewlwyd.log()[-600:]}")
    query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(begun.json["authorization_url"]).query))
    case.same({"client_id", "request_uri"}, set(query), "a pushed request → the URL has client_id and request_uri alone")
    broker.restart()
    callback = Browser(glewlwyd).open(begun.json["authorization_url"])
    case.verdict("client_assertion=" in callback, "a pushed request → the provider's callback has its assertion too", callback)
    answer = forward(broker, begun, callback)
    case.same(201, answer.status, "kill -9 between PAR and callback → a session")
    case.same("Ana Example", answer.json.get("identity", {}).get("name"), "kill -9 between PAR and callback → the session has the user's name")
    assertion = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(callback).query)).get("client_assertion", "-")
    case.verdict(assertion not in broker.log(), "the callback's assertion → it is in no log")
    session = next(v for v in answer.fields.get_all("Set-Cookie") if v.startswith("coatcheck=")).split(";")[0].split("=")[1]
    for _ in range(3):
        case.same("200", broker.refresh(session).told, "a refresh → 200")
        broker.restart()
    case.same("200", broker.refresh(session).told, "kill -9 between a commit and the next refresh → 200")
    case.same(200, relayed(broker, session).status, "a relayed call that Apache checks → 200")
    case.same("204", broker.log_out(session).told, "a log-out → 204")
    case.verdict(
        wait_for(10, lambda: broker.metric("coatcheck_revocations_total", provider="real", result="done") == 1),
        "a log-out → its tokens are revoked by an assertion", broker.log()[-500:])
    case.same([(0,)], glewlwyd.query("SELECT DISTINCT gpor_enabled FROM gpo_refresh_token"), "a log-out → the provider's refresh tokens are disabled")


def apache(case):
    """Apache's mod_oauth2 checks the relayed calls, and refuses a caller that has the token without the key."""
    glewlwyd = Glewlwyd(case)
    issuer = glewlwyd.issuer("nonces", **NONCES)
    glewlwyd.client("mobile", APP)
    api = Apache(case, issuer)
    broker = broker_of(case, issuer, upstreams(api), dpop={"nonce_before_spending": True})
    session, signed_in = sign_in(broker, glewlwyd)

    # The powers of a thief with a token and an intercepted proof.
    address = f"{api.url}/standard/things"
    answer = exchange(broker, session, dpop_htm="GET", dpop_htu=address)
    token, proof = answer.json.get("access_token"), answer.json.get("dpop_proof")
    case.same("DPoP", answer.json.get("token_type"), "a backend's exchange → a token with a proof")
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
        case.same(401, call(url, **fields).status, f"Apache with {what} → 401")
    case.same(
        401, call(address, "POST", b"x", Authorization=f"DPoP {token}", DPoP=proof).status, "Apache with a proof for another method → 401")
    case.same(0, api.reached, "the calls that Apache refuses → zero calls at the API")
    case.same(200, call(address, Authorization=f"DPoP {token}", DPoP=proof).status, "the backend's proof in its own request → 200")
    case.same(401, call(address, Authorization=f"DPoP {token}", DPoP=proof).status, "a used proof at Apache → 401")
    for what, fields in (
            ("as Bearer", {"Authorization": f"Bearer {token}"}),
            ("with a proof by another key", {"Authorization": f"DPoP {token}", "DPoP": thief.proof("GET", "/", htu=f"{issuer}/userinfo", ath=ath)})):
        case.verdict(call(f"{issuer}/userinfo", **fields).status in (400, 401, 403), f"userinfo with the token {what} → the provider refuses")

    # The relay.
    for number in range(3):
        answer = relayed(broker, session, "/v1/relay/standard/things?page=2")
        case.same(200, answer.status, f"relayed call {number + 1} → 200")
    sent = {name.lower(): value for name, value in answer.json["fields"].items()}
    case.verdict(sent["authorization"].startswith("DPoP "), "a relayed call → the token is sent as DPoP")
    case.same("/standard/things?page=2", answer.json["target"], "a relayed call → its query arrives")
    case.same(signed_in.json["subject"], sent["oauth2_claim_sub"], "a relayed call → Apache reads the token's subject")
    answer = relayed(broker, session, "/v1/relay/standard/things", "POST", body=b"x" * 200_000)
    case.same((200, 200_000), (answer.status, answer.json.get("body")), "a streamed body → it arrives whole")
    # A proof names the path as it is sent; this module compares it with the decoded one.
    answer = relayed(broker, session, "/v1/relay/standard/a%20b")
    case.same(401, answer.status, "a path with encoded letters → Apache's own 401")
    case.same("200", broker.look(session).told, "Apache's own 401 → the session lives")
    answer = relayed(broker, session, "/v1/relay/before/things")
    case.same(200, answer.status, "an upstream that expects Bearer → 200")
    sent = {name.lower(): value for name, value in answer.json.get("fields", {}).items()}
    case.verdict(sent.get("authorization", "").startswith("Bearer ") and sent.get("dpop"), "an upstream that expects Bearer → the token as Bearer, and a proof", sent)
    case.same("200", broker.refresh(session).told, "a refresh → 200")
    case.same(200, relayed(broker, session).status, "a relayed call with the new token → 200")
    broker.restart()
    case.same(200, relayed(broker, session).status, "a relayed call after kill -9 → 200")

    # The other scheme at either place: Apache refuses, and the session stays.
    broker.configure(upstreams={"standard": {"scheme": "Bearer"}})
    broker.restart()
    answer = relayed(broker, session)
    case.same(401, answer.status, "the wrong scheme → Apache's 401")
    case.same(None, answer.fields["Set-Cookie"], "the wrong scheme → the cookie stays")
    case.same("200", broker.look(session).told, "the wrong scheme → the session lives")


def from_before(case):
    """Sessions from before the setting. This provider leaves their tokens unbound, and refuses proofs for them."""
    glewlwyd = Glewlwyd(case)
    issuer = glewlwyd.issuer("plain")
    glewlwyd.client("mobile", APP, dpop_bound="0")
    broker = broker_of(case, issuer, sender_constrained="off")
    session, _ = sign_in(broker, glewlwyd)
    case.same("200", broker.refresh(session).told, "a refresh before the setting → 200")
    broker.configure(providers={"real": {"sender_constrained": "dpop"}})
    broker.restart()
    for _ in range(3):
        case.same("200", broker.refresh(session).told, "a refresh of the unbound session after the setting → 200")
    case.same("200", broker.refresh(sign_in(broker, glewlwyd)[0]).told, "a refresh of a new, bound session → 200")
    listed = call(f"{broker.management}/admin/v1/sessions?provider=real", Authorization=f"Bearer {ADMIN}")
    case.same(["dpop", None], [item["sender_constrained"] for item in listed.json["items"]], "the list of sessions → it tells bound from unbound")
    broker.configure(providers={"real": {"sender_constrained": "off"}})
    broker.restart()
    case.same("200", broker.refresh(session).told, "`sender_constrained` is removed again → the unbound session is refreshed")


def certificates(case):
    """Pushed requests and tokens that a certificate proves, at a provider and an API that check it (RFC 8705)."""
    authority = Authority(case)
    authority.sign("server", "IP:127.0.0.1")
    for name in ("client", "stranger"):
        authority.sign(name, f"DNS:{name}.example")
    glewlwyd = Glewlwyd(case, {"certificate": authority.file("server.pem"), "key": authority.file("server.key"), "roots": authority.file("root.pem")})
    issuer = glewlwyd.bank()
    glewlwyd.client(
        "bank", APP, confidential=True, token_endpoint_auth_method=["tls_client_auth"], tls_client_auth_san_dns="client.example")
    api = Apache(case, issuer, authority=authority)
    roots = {"ca_file": authority.file("root.pem")}
    api_settings = {"standard": {"base_url": f"{api.url}/standard", "provider": "real", "allow": ["ANY /**"], "tls": roots}}

    def settings(name):
        shown = {"certificate": authority.file(f"{name}.pem"), "key": authority.file(f"{name}.key")} if name else {}
        return {"sender_constrained": "mtls", "par": "required", "tls": roots | shown, "clients": {"ios": {
            "client_id": "bank", "auth": "tls_client_auth", "scope": "openid", "redirect_uris": [APP]}}}

    stranger = broker_of(case, issuer, api_settings, name="stranger-broker", **settings("stranger"))
    case.verdict(begin(stranger).status >= 500, "a certificate of another owner → refused at PAR", begin(stranger).told)
    stranger.stop()
    broker = broker_of(case, issuer, api_settings, **settings("client"))
    session, answer = sign_in(broker, glewlwyd)
    case.same("Ana Example", answer.json["identity"]["name"], "a sign-in with the certificate → a session")
    for number in range(3):
        case.same("200", broker.refresh(session).told, "a refresh with the certificate → 200")
        case.same(200, relayed(broker, session).status, "a relayed call whose certificate Apache checks → 200")
        broker.restart()
    sent = {name.lower(): value for name, value in relayed(broker, session).json["fields"].items()}
    token = sent["authorization"].removeprefix("Bearer ")
    case.verdict(authority.thumbprint("client") in sent["oauth2_claim_cnf"], "the relayed token → it is bound to the client's certificate", sent.get("oauth2_claim_cnf"))
    for name in (None, "stranger"):
        answer = api.call("/standard/things", context=authority.context(name), Authorization=f"Bearer {token}")
        case.same(401, answer.status, f"Apache, the token with {name or 'no certificate'} → 401")
    listed = call(f"{broker.management}/admin/v1/sessions?provider=real", Authorization=f"Bearer {ADMIN}")
    case.same(["mtls"], [item["sender_constrained"] for item in listed.json["items"]], "the list of sessions → it has the kind of binding")
    # If this provider refuses a client's authentication at a refresh, it has already spent the refresh token. A second try is
    # useless.
    case.same("204", broker.log_out(session).told, "a log-out → 204")
    case.verdict(
        wait_for(10, lambda: broker.metric("coatcheck_revocations_total", provider="real", result="done") == 1),
        "a log-out → its tokens are revoked with the certificate", broker.log()[-500:])


CASES = {
    "nonces": (nonces, 120),
    "pushed": (pushed, 120),
    "apache": (apache, 120),
    "from-before": (from_before, 60),
    "certificates": (certificates, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
