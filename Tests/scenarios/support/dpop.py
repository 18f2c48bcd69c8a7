"""A phone with its own key. It makes DPoP proofs (RFC 9449), keeps the nonce, and signs in with them.

A test can replace each part of a proof by a wrong one.
"""

import base64
import hashlib
import json
import re
import secrets
import time
import urllib.parse

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, utils

from .calls import call


def encoded(data):
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Phone:
    """A phone: its key, its clock's error in seconds, and the values from the broker (session, pass, nonce)."""

    def __init__(self, broker, client="ios", provider="oidc", clock=0):
        self.broker, self.client, self.provider, self.clock = broker, client, provider, clock
        self.key = ec.generate_private_key(ec.SECP256R1())
        self.nonce = self.session = self.held_pass = None

    @property
    def jwk(self):
        numbers = self.key.public_key().public_numbers()
        return {"kty": "EC", "crv": "P-256"} | {name: encoded(getattr(numbers, name).to_bytes(32, "big")) for name in "xy"}

    @property
    def thumbprint(self):
        jwk = self.jwk
        text = json.dumps({name: jwk[name] for name in ("crv", "kty", "x", "y")}, separators=(",", ":"))
        return encoded(hashlib.sha256(text.encode()).digest())

    def signed(self, header, claims):
        text = ".".join(encoded(part if isinstance(part, bytes) else json.dumps(part).encode()) for part in (header, claims))
        return text + "." + self.signature(text)

    def signature(self, text):
        r, s = utils.decode_dss_signature(self.key.sign(text.encode(), ec.ECDSA(hashes.SHA256())))
        return encoded(r.to_bytes(32, "big") + s.to_bytes(32, "big"))

    def proof(self, method, path, session=None, header=None, **claims):
        """Returns a proof for one request. A claim or header member that is None is left out."""
        found = {
            "jti": secrets.token_urlsafe(16), "htm": method, "htu": self.broker.settings["server"]["public_url"] + path,
            "iat": int(time.time()) + self.clock, "nonce": self.nonce}
        if session:
            found["ath"] = encoded(hashlib.sha256(session.encode()).digest())
        found |= claims
        head = {"typ": "dpop+jwt", "alg": "ES256", "jwk": self.jwk} | (header or {})
        return self.signed(*({k: v for k, v in part.items() if v is not None} for part in (head, found)))

    def call(self, method, path, session=None, body=None, retry=True, proof=True, **more):
        """Sends a request with a proof. If the broker requires another nonce, repeats the request once with this nonce."""
        fields = dict(more)
        if session:
            fields["Cookie"] = "; ".join(filter(None, [f"coatcheck={session}", fields.get("Cookie")]))
        if proof:
            fields["DPoP"] = self.proof(method, urllib.parse.urlsplit(path).path, session)
        answer = self.broker.call(method, path, body=body, **fields)
        self.nonce = answer.fields["DPoP-Nonce"] or self.nonce
        if retry and answer.json.get("code") == "use_dpop_nonce":
            return self.call(method, path, session, body, retry=False, proof=proof, **more)
        return answer

    def begin(self, **more):
        """Starts a login. Returns its answer, and the fields with its login token."""
        begun = self.call("POST", "/v1/logins", body={"provider": self.provider, "client": self.client}, **more)
        found = re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"] or "")
        return begun, {"Cookie": found[0]} if found else {}

    def callback(self, begun, user="ana"):
        return call(f"{begun.json['authorization_url']}&sandbox_user={user}").fields["Location"]

    def forward(self, callback, fields, **more):
        answer = self.call("POST", "/v1/sessions", body={"callback_url": callback}, **fields, **more)
        if answer.status == 201:
            held = ", ".join(answer.fields.get_all("Set-Cookie") or [])
            self.session = re.search(r"coatcheck=([^;]+)", held)[1]
            found = re.search(r"coatcheck-pass=([^;]+)", held)
            self.held_pass = found[1] if found else None
        return answer

    def sign_in(self, user="ana"):
        begun, fields = self.begin()
        return self.forward(self.callback(begun, user), fields)

    def passing(self, method, path, session=None, held=None, **more):
        """Sends a request with the session's cookie and a pass as a cookie, without a proof."""
        cookies = f"coatcheck={session or self.session}; coatcheck-pass={held or self.held_pass}"
        return self.broker.call(method, path, Cookie=cookies, **more)
