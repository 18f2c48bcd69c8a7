"""Attacks that were published in 2025 and 2026, tried against the program (docs/known-attacks.md has the sources).

Each case first tries the attack, and then an honest request.
"""

import base64
import hashlib
import http.client
import http.server
import json
import pathlib
import re
import secrets
import socket
import subprocess
import sys
import threading
import time
import urllib.parse
from concurrent.futures import ThreadPoolExecutor

import yaml
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker, sha256  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import Phone, encoded  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.wire import ROOT, answers, free_port, read_all  # noqa: E402

FORM = "application/x-www-form-urlencoded"
EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}


# ---- proofs ----------------------------------------------------------------------------------------------------------


def flood(case):
    """A flood of proofs → a proof that was used stays used, and other keys are served (W2, W4)"""
    broker = Broker(case, Sandbox(case), settings={"providers": {"oidc": {"clients": {"ios": {"binding": {"mode": "enforce"}}}}}})
    phone, attacker = Phone(broker), Phone(broker)
    for each, user in ((phone, "ana"), (attacker, "bob")):
        case.same(201, each.sign_in(user).status, f"{user} signs in with a key → 201")
        each.call("GET", "/v1/session", each.session)
    caught = {
        (method, path): phone.proof(method, path, phone.session) for method, path in (("GET", "/v1/session"), ("POST", "/v1/session/refresh"))}

    def again(sentence):
        for (method, path), proof in caught.items():
            answer = broker.call(method, path, phone.session, DPoP=proof)
            case.same("401 proof_invalid replayed", answer.told, f"{sentence} → 401 proof_invalid replayed: {method} {path}")

    for (method, path), proof in caught.items():
        case.same(200, broker.call(method, path, phone.session, DPoP=proof).status, f"the first use of a proof → 200: {method} {path}")
    again("a used proof")

    # Proofs of an address that only `Host` or `X-Forwarded-Host` has.
    own = urllib.parse.urlsplit(broker.url).netloc
    for host in ("evil.example", f"{own}@evil.example", f"{own}/", f"{own},evil.example", f"{own}#"):
        proof = phone.proof("GET", "", phone.session, htu=f"http://{host}/v1/session")
        answer = broker.call("GET", "/v1/session", phone.session, Host=host, DPoP=proof)
        case.verdict(answer.status in (400, 421), f"Host: {host} with a proof of it → refused", answer.told)
        answer = broker.call("GET", "/v1/session", phone.session, X_Forwarded_Host=host, Forwarded=f"host={host}", DPoP=proof)
        case.same("401 proof_invalid address", answer.told, f"X-Forwarded-Host: {host} with a proof of it → refused")

    # The attacker's own key, beyond the 4,096 proofs that are kept of a key.
    def send(part):
        connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=20)
        proofs = (attacker.proof("GET", "/v1/session", attacker.session, jti=f"flood-{part}-{number}") for number in range(525))
        return [broker.call("GET", "/v1/session", attacker.session, connection=connection, DPoP=proof).told for proof in proofs]

    with ThreadPoolExecutor(8) as pool:
        told = [word for part in pool.map(send, range(8)) for word in part]
    taken = sum(word.startswith("200") for word in told)
    case.verdict(4000 < taken <= 4096, "a key that floods → served as many proofs as are kept for one key", f"{taken}: {sorted(set(told))}")
    case.same("429 rate_limited", attacker.call("GET", "/v1/session", attacker.session).told, "a key that floods → its next call is 429 rate_limited")
    again("a used proof after 4,200 proofs of another key")

    # Invented keys, half of them with the victim's cookie.
    stranger = Phone(broker)
    stranger.nonce = attacker.nonce
    connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=20)
    for number in range(200):
        proof = stranger.proof("GET", "/v1/session", phone.session, jti=f"stranger-{number}")
        broker.call("GET", "/v1/session", phone.session if number % 2 else None, connection=connection, DPoP=proof)
    again("a used proof after 200 proofs of a stranger")
    case.same("200", phone.call("GET", "/v1/session", phone.session).told, "the owner's next proof after a stranger's flood → 200")
    third = Phone(broker)
    case.same(201, third.sign_in("eva").status, "another user's sign-in after a stranger's flood → 201")

    # A restart empties the memory of used proofs, so it makes their nonces void.
    broker.restart()
    for (method, path), proof in caught.items():
        answer = broker.call(method, path, phone.session, DPoP=proof)
        case.same("401 use_dpop_nonce", answer.told, f"a used proof after a restart → 401 use_dpop_nonce: {method} {path}")
    case.same("200", phone.call("GET", "/v1/session", phone.session).told, "the owner's next proof after a restart → 200")


# ---- gateways --------------------------------------------------------------------------------------------------------


class Traefik:
    """A model of Traefik 3's treatment of header fields, with the middlewares of the recipe.

    Go splits names at dashes alone, so `X_Auth_User` and `X.Auth.User` are fields of their own. `headers` deletes a field by its
    name. `forwardAuth` sends the listed fields and its own, deletes the matches of the expression, and puts in the answer's.
    """

    def __init__(self, recipe, broker, upstream_name="protected"):
        text = recipe.replace("@BROKER@", broker).replace("@NAME@", "app.example.com").replace("@UPSTREAM@", "127.0.0.1:1")
        http_ = yaml.safe_load(text.replace("@ORIGIN@", "https://app.example.com"))["http"]
        self.chain = [http_["middlewares"][name] for name in http_["routers"][upstream_name]["middlewares"]]

    @staticmethod
    def canonical(name):
        return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))

    def serve(self, method, target, fields):
        """The answer's status, and the fields at the service if the request arrives there."""
        held = {}
        for name, value in fields:
            held.setdefault(self.canonical(name), []).append(value)
        for middleware in self.chain:
            for name, value in middleware.get("headers", {}).get("customRequestHeaders", {}).items():
                held.pop(self.canonical(name), None) if value == "" else held.update({self.canonical(name): [value]})
            if "forwardAuth" in middleware:
                status = self.ask(middleware["forwardAuth"], method, target, held)
                if not 200 <= status < 300:
                    return status, None
        return 200, held

    def ask(self, settings, method, target, held):
        address = urllib.parse.urlsplit(settings["address"])
        sent = {name: held[name] for name in map(self.canonical, settings["authRequestHeaders"]) if name in held}
        sent |= {
            "X-Forwarded-For": ["198.51.100.7"], "X-Forwarded-Method": [method], "X-Forwarded-Proto": ["https"],
            "X-Forwarded-Host": ["app.example.com"], "X-Forwarded-Uri": [target]}
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=20, source_address=("127.0.0.2", 0))
        connection.putrequest("GET", address.path + (f"?{address.query}" if address.query else ""))
        for name, values in sent.items():
            for value in values:
                connection.putheader(name, value)
        connection.endheaders()
        answer = connection.getresponse()
        answer.read()
        connection.close()
        if 200 <= answer.status < 300:
            matches = re.compile(settings["authResponseHeadersRegex"]).search
            for name in [name for name in held if matches(name)]:
                del held[name]
            for name, value in answer.getheaders():
                if matches(self.canonical(name)):
                    held.setdefault(self.canonical(name), []).append(value)
        return answer.status

    @staticmethod
    def variables(held):
        """The variables that CGI, WSGI or PHP make of the fields, with `_` for each other sign."""
        found = {}
        for name, values in held.items():
            found.setdefault(re.sub("[^A-Z0-9]", "_", name.upper()), []).extend(values)
        return found


# The signs of a field's name (RFC 9110 section 5.6.2) that CGI writes as `_`.
SIGNS = "-_.!#$%&'*+^`|~"


def spellings(name):
    """A field's name with other signs for its first two dashes, in both cases."""
    first, second, rest = name.split("-", 2)
    return [
        form for one in SIGNS for two in SIGNS for form in (f"{first}{one}{second}{two}{rest}", f"{first}{one}{second}{two}{rest}".lower())]


def traefik(case):
    """`X_Auth_…`, `X!Auth!…` and their like behind Traefik's recipe → the service sees the broker's fields alone (SEC-86)"""
    port = free_port()
    broker = Broker(case, Sandbox(case), settings={
        "server": {"backend_listen": f"127.0.0.1:{port}", "trusted_proxies": ["127.0.0.2"]},
        "backends": {"traefik": {"peers": ["127.0.0.2"], "may": ["forward-auth"]}}})
    session = broker.sign_in()
    recipe = (ROOT / "deploy/forward-auth/traefik.yaml").read_text()
    gateway = Traefik(recipe, f"127.0.0.1:{port}")
    cookie = ("Cookie", f"coatcheck={session}")
    names = [f"X-Auth-{word}" for word in "Subject Provider Client Session Name Email Scope Kind Parent Acr Time Token".split()]
    for name in names:
        forged = [(form, "mallory") for form in spellings(name)]
        case.same((401, None), gateway.serve("GET", "/orders", forged), f"{name} in {len(forged)} spellings with an anonymous request → 401")
        status, held = gateway.serve("GET", "/orders", [cookie, *forged])
        seen = gateway.variables(held or {})
        of_auth = {key: values for key, values in seen.items() if key.startswith("X_AUTH_")}
        case.verdict(
            status == 200 and of_auth.get("X_AUTH_SUBJECT") == ["user-ana"] and "mallory" not in str(of_auth)
            and all(len(values) == 1 for values in of_auth.values()),
            f"{name} in {len(forged)} spellings with a session → each variable has the broker's value, once", str(of_auth))
    for form in spellings("X-Coatcheck-Session")[:4]:
        case.same((401, None), gateway.serve("GET", "/orders", [(form, session)]), f"a session in the field {form} → 401")
    _, held = gateway.serve("GET", "/orders", [cookie, *((form, "mallory") for form in spellings("X-Coatcheck-Session"))])
    case.same([], [name for name, values in (held or {"none": "mallory"}).items() if "mallory" in values], "the field X-Coatcheck-Session in all spellings → removed")
    # The model passes the attack if a recipe names some signs alone.
    for signs, forms in (("-", ("X_Auth_Subject", "X.Auth.Subject")), ("[-_.]", ("X!Auth!Subject", "X~Auth~Subject", "X-Auth'Subject"))):
        plain = Traefik(recipe.replace("[^a-z0-9]", signs), f"127.0.0.1:{port}")
        for form in forms:
            _, held = plain.serve("GET", "/orders", [cookie, (form, "mallory")])
            case.verdict("mallory" in plain.variables(held)["X_AUTH_SUBJECT"], f"a recipe that removes names with {signs} alone → the forged field {form} arrives")


def backends(case):
    """Each backend's credential, in each form, at each backend route of another → refused (SEC-42)"""
    owners = {"gateway": "forward-auth", "orders": "introspect", "ledger": "token"}
    held = {name: f"{name}-credential-4f1d9c" for name in owners}
    broker = Broker(case, Sandbox(case), settings={
        "backends": {name: {"sha256": sha256(held[name]), "may": [may]} for name, may in owners.items()}})
    session = broker.sign_in()
    routes = {
        "forward-auth": ("GET", "/v1/forward-auth", {}), "introspect": ("POST", "/v1/introspect", {"token": session}),
        "token": ("POST", "/v1/token", EXCHANGE | {"subject_token": session})}

    def basic(name, secret):
        return {"Authorization": "Basic " + base64.b64encode(f"{name}:{secret}".encode()).decode()}

    def forms(name, secret):
        yield "X-Coatcheck-Backend", {"X-Coatcheck-Backend": secret}, {}, ""
        yield "Bearer", {"Authorization": f"Bearer {secret}"}, {}, ""
        yield "Basic", basic(name, secret), {}, ""
        yield "the body", {}, {"client_id": name, "client_secret": secret}, ""

    def ask(route, fields, more, query):
        method, path, form = routes[route]
        fields = {name.replace("-", "_"): value for name, value in fields.items()}
        if method == "GET":
            return broker.call("GET", path + query, session, **fields)
        return broker.call("POST", path + query, body=urllib.parse.urlencode(form | more), Content_Type=FORM, **fields)

    def gives(answer):
        return bool(answer.status == 200 or answer.fields["X-Auth-Subject"] or answer.json.get("active") or answer.json.get("access_token"))

    def refused(route, form, sentence, expected):
        answer = ask(route, *form[1:])
        case.verdict(not gives(answer) and answer.status in expected, f"{sentence} ({form[0]}) → refused", answer.told)

    for holder, own in owners.items():
        for owner, route in owners.items():
            if owner == holder:
                continue
            for form in forms(holder, held[holder]):
                if form[2] and route == "forward-auth":
                    continue
                refused(route, form, f"{holder}'s credential at {owner}'s {route}, under its own name", (403,))
            for form in list(forms(owner, held[holder]))[2:]:
                if form[2] and route == "forward-auth":
                    continue
                refused(route, form, f"{holder}'s credential at {owner}'s {route}, under {owner}'s name", (401,))
        for form in forms(holder, held[holder]):
            if form[2] and own == "forward-auth":
                continue
            answer = ask(own, *form[1:])
            case.verdict(gives(answer) and answer.status == 200, f"{holder}'s credential at its own {own} ({form[0]}) → accepted", answer.told)
        # Guesses, and other secrets.
        for word, secret in (("an empty secret", ""), ("a credential with another last letter", held[holder][:-1] + "d"), ("the credential's digest", sha256(held[holder])),
                             ("a session token", session), ("the backend's name", holder)):
            for form in list(forms(holder, secret))[2:]:
                if form[2] and own == "forward-auth":
                    continue
                refused(own, form, f"{word} at {holder}'s {own}", (400, 401))
        query = "?" + urllib.parse.urlencode({"client_id": holder, "client_secret": held[holder]})
        refused(own, ("the query", {}, {}, query), f"{holder}'s credential at its own {own}", (401,))


# ---- tokens of providers ---------------------------------------------------------------------------------------------


class Issuer:
    """A provider whose key is in this process. Its key set lacks `alg`."""

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
    """Forged and misread id_tokens → refused; the provider's own → a session (SEC-25, SEC-26, SEC-28, SEC-31)"""
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
            answer.told == "400 code_rejected" and not answer.fields["Set-Cookie"], f"an id_token attack, {word} → refused", answer.told)
    case.same(0, broker.query("SELECT count(*) FROM sessions")[0][0], "all attacks with id_tokens → zero sessions in the store")
    answer = give(issuer.signed(good))
    case.same((201, "user-ana"), (answer.status, answer.json.get("subject")), "an id_token with the same claims and a good signature → a session")


# ---- sign-ins --------------------------------------------------------------------------------------------------------


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
    # Empty texts.
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
    # Another client's forward.
    for word, more in (("the name of another client", {"client": "android"}), ("the name of another provider", {"provider": "clover"})):
        callback, cookie, _ = begin()
        answer = broker.call("POST", "/v1/sessions", body={"callback_url": callback} | more, Cookie=f"coatcheck-login={cookie}")
        case.same("400 state_mismatch", answer.told, f"a forward with {word} → 400 state_mismatch")
    for word, state in (("no state", None), ("an empty state", ""), ("two states", "twice"), ("another login's state", begin()[0]), ("a list", "[]")):
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

    # Names of users in the callback. The broker keeps the configured ones as unverified, so they do reach the identity.
    forged = {name: "mallory" for name in (*kept, "profile[id]", "externalUserId", "idpConfigId", "id_token_hint", "user")}
    callback, cookie, _ = begin()
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": f"{callback}&{urllib.parse.urlencode(forged)}"}, Cookie=f"coatcheck-login={cookie}")
    session = answer.json
    unverified = session.get("identity", {}).pop("unverified", None)
    case.same({name: "mallory" for name in kept}, unverified, "user names in a callback → the configured ones are kept as unverified")
    seen = json.dumps({name: session.get(name) for name in ("subject", "identity", "provider")})
    case.verdict(answer.status == 201 and session.get("subject") == "user-ana" and "mallory" not in seen, "forged user names in a callback → the session has the provider's user", f"{answer.told} {seen}")
    callback, cookie, _ = begin()
    answer = broker.call("POST", "/v1/sessions", body={"callback_url": f"{callback}&sub=user-bob"}, Cookie=f"coatcheck-login={cookie}")
    case.same("user-ana", answer.json.get("subject"), "the callback of one user with the subject of another → a session of the first")

    # The binding to the starter holds in every case of the field's name.
    callback, cookie, _ = begin()
    for name in ("COOKIE", "cOOKIE"):
        answer = raw(broker, "POST", "/v1/sessions", f"{name}: coatcheck-login={secrets.token_urlsafe(32)}", "Content-Type: application/json",
                     body=json.dumps({"callback_url": begin()[0]}))
        case.verdict(answer[0][0] in (400, 403), f"another device's login token in the field {name} → refused", str(answer[0][0]))
    answer = raw(broker, "POST", "/v1/sessions", f"cOOKIE: coatcheck-login={cookie}", "Content-Type: application/json", body=json.dumps({"callback_url": callback}))
    case.same(201, answer[0][0], "the starter's login token in the field cOOKIE → a session")


def raw(broker, method, path, *fields, body=""):
    """Sends a target and fields as they are; the answers."""
    length = [f"Content-Length: {len(body)}"] if body else []
    return sent(broker, head(broker, method, path, "Connection: close", *fields, *length) + body)


def head(broker, method, path, *fields):
    return "\r\n".join([f"{method} {path} HTTP/1.1", f"Host: {urllib.parse.urlsplit(broker.url).netloc}", *fields, "", ""])


def sent(broker, text):
    """Sends any text on one connection; the answers."""
    with socket.create_connection(("127.0.0.1", broker.port), 5) as end:
        end.sendall(text.encode("latin1"))
        return answers(read_all(end, 10)[0]) or [(0, {}, b"")]


# ---- sessions --------------------------------------------------------------------------------------------------------


def log_outs(case):
    """Requests in progress across a log-out → the session stays ended, on every route (SEC-62, SEC-64)"""
    sandbox = Sandbox(case)
    upstream = {"base_url": sandbox.url + "/api", "provider": "oidc", "allow": ["ANY /**"]}
    broker = Broker(case, sandbox, settings={"upstreams": {"api": upstream}})
    for client in ("ios", "android"):
        session = broker.sign_in(client=client)
        fields = {"Authorization": f"Bearer {session}"} if client == "android" else {"Cookie": f"coatcheck={session}"}
        token = broker.exchange(session).json["access_token"]
        case.verdict(sandbox.lives(token), f"before the log-out, the provider's token → live ({client})")
        sandbox.fault("oidc", fault="slow-after", delay_ms=700, endpoint="refresh", times=1)
        running = [case.beside(lambda: broker.call("GET", "/v1/relay/api/slow?ms=800", **fields)) for _ in range(3)]
        running.append(case.beside(lambda: broker.call("POST", "/v1/session/refresh", **fields)))
        # All have begun when the provider has the refresh.
        deadline = time.monotonic() + 10
        while not sandbox.calls("oidc/refresh") and time.monotonic() < deadline:
            time.sleep(0.02)
        sandbox.control("DELETE", "/requests")
        case.same(204, broker.call("DELETE", "/v1/session", **fields).status, f"{client}, a log-out while four requests are in progress → 204")
        for each in running:
            each.result(20)
        for method, path in (("GET", "/v1/session"), ("POST", "/v1/session/refresh"), ("GET", "/v1/sessions"), ("GET", "/v1/session/events"),
                             ("GET", "/v1/relay/api/echo"), ("DELETE", "/v1/sessions?except=current"), ("POST", "/v1/session/token")):
            case.same("401 session_ended logged_out", broker.call(method, path, **fields).told, f"{client}: {method} {path} after the log-out → 401 session_ended logged_out")
        case.same("400 session_ended", broker.exchange(session).told, f"{client}, a backend's token exchange after the log-out → 400 session_ended")
        case.verdict(broker.row(session, "ended_at")[0] is not None, f"the session's row after the log-out → has its end ({client})")
        broker.restart()
        case.same("401 session_ended logged_out", broker.call("GET", "/v1/session", **fields).told, f"{client}, the session after the log-out and a restart → 401 session_ended logged_out")


# ---- the relay -------------------------------------------------------------------------------------------------------

INTERNAL = (
    "X-Middleware-Subrequest", "X-Middleware-Rewrite", "X-Userinfo", "X-ID-Token", "X-Access-Token", "X-Refresh-Token", "X-Auth-Subject",
    "X-Auth-Request-Email", "X-Forwarded-User", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto", "X-Forwarded-Uri", "Forwarded",
    "X-Real-IP", "X-Original-URL", "X-Original-URI", "X-Rewrite-URL", "Remote-User", "X-Remote-User", "X-Client-Cert", "X-SSL-Client-Cert",
    "X-Envoy-External-Address", "X-Http-Method-Override", "Proxy-Authorization")
TRICKS = (
    "/../bytes/10", "/..;/bytes/10", "/..;a=b/bytes/10", "/.;/../bytes/10", "/%2e%2e/bytes/10", "/%2e%2e;/bytes/10", "/..%3b/bytes/10",
    "/.%2e/bytes/10", "/..%2fbytes/10", "/%2e%2e%2fbytes%2f10", "/..%5cbytes%5c10", "/..\\bytes\\10", "/%252e%252e/bytes/10", "//bytes/10",
    "/%c0%ae%c0%ae/bytes/10", "/%00/../bytes/10", "/x%0d%0aHost:%20evil.example", "/x%0aX-Injected:%201", "/x%20HTTP/1.1%0d%0aA:%20b",
    "/x%23/../bytes/10", "/x%3f/../bytes/10", "/%2f..%2fbytes/10", "/a/..%00/bytes/10", "/\x85/../bytes/10")


def relayed(case):
    """Fields of frameworks and gateways → dropped by the relay; tricks with paths and framing → refused (SEC-73, SEC-75)"""
    sandbox = Sandbox(case)
    upstream = {"base_url": sandbox.url + "/api", "provider": "oidc", "allow": ["GET /echo", "POST /echo", "GET /echo/**"]}
    broker = Broker(case, sandbox, settings={"upstreams": {"narrow": upstream}})

    def reached():
        """The paths that the upstream was asked for."""
        return [item["path"] for item in sandbox.control("GET", "/requests?provider=api").json["items"]]

    cookie = f"Cookie: coatcheck={broker.sign_in()}"
    for name in INTERNAL:
        found = {}
        for form in {name, name.lower(), name.replace("-", "."), name.replace("-", "+"), name.replace("-", "_")}:
            status, _, body = raw(broker, "GET", "/v1/relay/narrow/echo", cookie, f"{form}: mallory")[0]
            found[form] = 400 if status == 400 and "_" in form else status if b"mallory" not in body else "arrived"
        case.same({form: 400 if "_" in form else 200 for form in found}, found, f"the field {name} in five spellings → dropped, and 400 for `_`")
    sandbox.control("DELETE", "/requests")
    for trick in TRICKS:
        status, fields, _ = raw(broker, "GET", "/v1/relay/narrow/echo" + trick, cookie)[0]
        case.verdict(status in (400, 403, 404) and fields.get("coatcheck-source") != "upstream", f"a relayed path with {trick!r} → refused by the broker", str(status))
    case.same([], reached(), "all relayed paths with tricks → zero calls at the upstream")
    # A second request behind one that asks for another protocol, and fields of framing that Connection names.
    behind = head(broker, "GET", "/v1/relay/narrow/bytes/10", cookie, "Connection: close")
    for protocol in ("websocket", "foo", "TLS/1.0"):
        found = sent(broker, head(broker, "GET", "/v1/relay/narrow/echo", cookie, "Connection: Upgrade", f"Upgrade: {protocol}") + behind)
        case.same([400], [status for status, _, _ in found], f"a request behind `Upgrade: {protocol}` → one refusal, and the connection closes")
    case.same([], reached(), "all requests behind an `Upgrade` → zero calls at the upstream")
    for framing, body in (("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"), ("Content-Length: 5", "hello")):
        for named in ("Transfer-Encoding", "Content-Length", "transfer-encoding, content-length, authorization, host"):
            first = head(broker, "POST", "/v1/relay/narrow/echo", cookie, "Content-Type: text/plain", framing, f"Connection: {named}")
            found = sent(broker, first + body + behind)
            kept = [(status, b"hello" in body, b"Bearer" in body) for status, _, body in found]
            case.same(
                [(200, True, True), (403, False, False)], kept, f"{framing} with `Connection: {named}` → the body arrives, and the request behind it is refused")
    case.same(["/api/echo"] * 6, reached(), "the framed requests → these six calls at the upstream")
    status, _, body = raw(broker, "GET", "/v1/relay/narrow/echo", cookie)[0]
    case.verdict(status == 200 and b'"method"' in body, "the allowed path without a trick → 200", str(status))


# ---- configuration ---------------------------------------------------------------------------------------------------


def authorities(case):
    """An authority's file that is missing, empty or broken → the start fails (SEC-111)"""
    broker = Broker(case, Sandbox(case), start=False)
    (case.folder / "empty.pem").write_text("")
    (case.folder / "junk.pem").write_text("-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n")
    (case.folder / "words.pem").write_text("trust me\n")
    api = {"base_url": "https://api.example.com", "provider": "oidc", "allow": ["GET /**"]}
    for name in ("missing.pem", "empty.pem", "junk.pem", "words.pem"):
        for where in ("outbound", "upstream"):
            file = str(case.folder / name)
            broker.settings["outbound"] = {"ca_file": file} if where == "outbound" else {}
            broker.settings["upstreams"] = {"api": api | ({"tls": {"ca_file": file}} if where == "upstream" else {})}
            broker.configure()
            for words in (["check"], ["serve"]):
                try:
                    run = subprocess.run([COATCHECK, *words, "--config", broker.configuration], capture_output=True, text=True, timeout=10)
                    case.verdict(run.returncode != 0 and "ca_file" in run.stdout + run.stderr, f"`{words[0]}` with {where}'s ca_file {name} → refused, and the message names ca_file", (run.stdout + run.stderr)[:300])
                except subprocess.TimeoutExpired:
                    case.verdict(False, f"`{words[0]}` with {where}'s ca_file {name} → refused", "it runs")
    broker.settings["outbound"], broker.settings["upstreams"] = {}, {"api": api}
    broker.configure()
    run = subprocess.run([COATCHECK, "check", "--config", broker.configuration], capture_output=True, text=True, timeout=10)
    case.same(0, run.returncode, "`check` of a configuration without ca_file → succeeds")


if __name__ == "__main__":
    main({
        "flood": (flood, 90), "traefik": (traefik, 60), "backends": (backends, 60), "tokens": (tokens, 60), "sign-ins": (sign_ins, 60),
        "log-outs": (log_outs, 60), "relayed": (relayed, 60), "authorities": (authorities, 60)}, __doc__)
