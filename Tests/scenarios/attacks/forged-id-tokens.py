"""Forged id_tokens, and id_tokens that a careless verifier would read wrongly.

The sources of the attacks are in docs/known-attacks.md. The case makes the attacks first, and then an honest request.
"""

import hashlib
import http.server
import json
import pathlib
import secrets
import sys
import threading
import time

from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import encoded  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402


class Issuer:
    """A provider with its key in this process, so that the case can sign any token. Its key set lacks `alg`."""

    def __init__(self):
        self.key = rsa.generate_private_key(65537, 2048)
        numbers = self.key.public_key().public_numbers()
        self.jwk = {
            "kty": "RSA", "kid": "k1", "n": encoded(numbers.n.to_bytes(256, "big")), "e": encoded(numbers.e.to_bytes(3, "big"))}
        issuer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):
                found = {"keys": [issuer.jwk]} if self.path == "/jwks" else {
                    "issuer": issuer.url, "authorization_endpoint": issuer.url + "/authorize", "token_endpoint": issuer.url + "/token",
                    "jwks_uri": issuer.url + "/jwks", "response_types_supported": ["code"], "subject_types_supported": ["public"],
                    "id_token_signing_alg_values_supported": ["RS256"], "code_challenge_methods_supported": ["S256"]}
                body = json.dumps(found).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def claims(self, nonce, **more):
        now = int(time.time())
        found = {"iss": self.url, "aud": "app-1", "sub": "user-ana", "iat": now, "exp": now + 300, "nonce": nonce} | more
        return {name: value for name, value in found.items() if value is not None}

    def signed(self, payload, header=None):
        """A token with any content, signed by the provider's own key."""
        text = payload if isinstance(payload, str) else json.dumps(payload)
        head = {"alg": "RS256", "kid": "k1", "typ": "JWT"} | (header or {})
        start = f"{encoded(json.dumps({k: v for k, v in head.items() if v is not None}).encode())}.{encoded(text.encode())}"
        return start + "." + encoded(self.key.sign(start.encode(), padding.PKCS1v15(), hashes.SHA256()))

    def keyed(self, payload, algorithm, secret):
        start = f"{encoded(json.dumps({'alg': algorithm, 'kid': 'k1', 'typ': 'JWT'}).encode())}.{encoded(json.dumps(payload).encode())}"
        digest = {"HS256": hashlib.sha256, "HS384": hashlib.sha384, "HS512": hashlib.sha512}[algorithm]
        return start + "." + encoded(__import__("hmac").new(secret, start.encode(), digest).digest())


def tokens(case):
    """Forged or wrongly read id_tokens → refused; the provider's own → a session (SEC-25, SEC-26, SEC-28, SEC-31)"""
    issuer = Issuer()
    broker = Broker(case, Sandbox(case), settings={"providers": {"own": {
        "kind": "oidc", "issuer": issuer.url,
        "clients": {"ios": {"client_id": "app-1", "auth": "none", "redirect_uris": ["com.example.own:/cb"], "native_code": True}}}}})
    nonce = secrets.token_urlsafe(32)
    good = issuer.claims(nonce)

    def give(token):
        return broker.call("POST", "/v1/sessions", body={
            "provider": "own", "client": "ios", "id_token": token, "nonce": nonce, "login_token": secrets.token_urlsafe(32)})

    pem = issuer.key.public_key().public_bytes(serialization.Encoding.PEM, serialization.PublicFormat.SubjectPublicKeyInfo)
    compact = json.JSONEncoder(separators=(",", ":")).encode
    duplicated = json.dumps(good)[:-1] + ', "iss": "https://evil.example"}'
    parts = issuer.signed(good).split(".")
    unprotected = {"payload": parts[1], "header": {"alg": "none"}, "signature": ""}
    protected, payload, signature = issuer.signed(good, {"alg": None, "typ": None}).split(".")
    mixed = {"payload": payload, "protected": protected, "header": {"alg": "RS256"}, "signature": signature}
    attacks = {
        "an issuer that is a list with the right one in it": issuer.signed(good | {"iss": ["https://evil.example", issuer.url]}),
        "an issuer that is a list of one": issuer.signed(good | {"iss": [issuer.url]}),
        "claims that are a list": issuer.signed(json.dumps([good])),
        "claims that are a list of names": issuer.signed(json.dumps(list(good))),
        "claims that are a text": issuer.signed(json.dumps("claims")),
        "claims that are null": issuer.signed("null"),
        "a critical extension": issuer.signed(good, {"crit": ["exp"]}),
        "an unknown critical extension": issuer.signed(good, {"crit": ["urn:example:x"], "urn:example:x": True}),
        "an empty list of critical extensions": issuer.signed(good, {"crit": []}),
        "no algorithm": issuer.signed(good, {"alg": None}),
        "alg none, unsigned": parts[0].replace(parts[0], encoded(b'{"alg":"none"}')) + f".{parts[1]}.",
        "alg none, signed": issuer.signed(good, {"alg": "none"}),
        "alg nOnE": issuer.signed(good, {"alg": "nOnE"}),
        "an algorithm that is a list": issuer.signed(good, {"alg": ["RS256"]}),
        "flattened JSON with the algorithm unprotected": compact(unprotected),
        "flattened JSON with a signature and the algorithm unprotected": compact(mixed),
        "general JSON": compact({"payload": parts[1], "signatures": [{"protected": parts[0], "signature": parts[2]}]}),
        "a member that is there twice": issuer.signed(duplicated),
        "an access token": issuer.signed(good, {"typ": "at+jwt"}),
        "a logout token": issuer.signed(good | {"events": {"http://schemas.openid.net/event/backchannel-logout": {}}}),
        "another client's token": issuer.signed(good | {"aud": "app-2"}),
        "another client's token with our client as its party": issuer.signed(good | {"aud": "app-2", "azp": "app-1"}),
        "our client next to an untrusted audience": issuer.signed(good | {"aud": ["app-1", "app-2"], "azp": "app-1"}),
        "no issuer": issuer.signed(issuer.claims(nonce, iss=None)),
        "no audience": issuer.signed(issuer.claims(nonce, aud=None)),
        "a time that is a text": issuer.signed(good | {"exp": "9999999999"}),
        "an unknown algorithm with any hash": issuer.signed(good | {"at_hash": "AAAA", "c_hash": "AAAA"}, {"alg": "RS1024"}),
        "a key in the header": issuer.signed(good, {"jwk": issuer.jwk, "kid": "k2"}).rsplit(".", 1)[0] + "." + encoded(bytes(256)),
    }
    for algorithm in ("HS256", "HS384", "HS512"):
        for word, secret in (("an empty key", b""), ("the public key's PEM", pem), ("the public key's PEM behind a blank", b" " + pem),
                             ("the modulus as it is written", issuer.jwk["n"].encode()), ("a null byte", b"\0")):
            attacks[f"{algorithm} with {word}"] = issuer.keyed(good, algorithm, secret)
    for word, token in attacks.items():
        answer = give(token)
        case.verdict(
            answer.told == "400 code_rejected" and not answer.fields["Set-Cookie"], f"a forged or misused id_token, {word} → refused", answer.told)
    case.same(0, broker.query("SELECT count(*) FROM sessions")[0][0], "all forged and misused id_tokens were sent → the store has zero sessions")
    answer = give(issuer.signed(good))
    case.same((201, "user-ana"), (answer.status, answer.json.get("subject")), "an unchanged id_token with the provider's signature → a session of user-ana")


if __name__ == "__main__":
    main({"tokens": (tokens, 60)}, __doc__)
