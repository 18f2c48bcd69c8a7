"""An app whose sessions belong to a key, in front of a proxy. Prints `ok` and `not ok` lines. It is started by
forward-auth-bound.sh, proxies.sh and broken-proxies.sh.

    bound_app.py gate SERVER SITE BROKER ORIGIN SERVICE   a recipe of deploy/forward-auth at SITE, which apps know as ORIGIN
    bound_app.py service NAME SITE BROKER ORIGIN          a service of docs/backends/check-a-session.md at SITE, likewise
    bound_app.py front SERVER SITE BROKER                 a recipe of deploy/proxy at SITE, in front of the broker itself
"""

import http.client
import json
import pathlib
import re
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from support.calls import Answer, call  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402

COOKIE, BEARER = "strict", "silent"  # clients with `binding: {mode: enforce}`
says = Verdicts()


class Door:
    """A broker, or a proxy in front of it, with the address that its apps know."""

    def __init__(self, url):
        self.url = url
        self.settings = {"server": {"public_url": url}}

    def call(self, method, path, session=None, body=None, **fields):
        if session:
            fields["Cookie"] = f"coatcheck={session}"
        return call(self.url + path, method, body, **fields)


def told(answer):
    found = answer.json
    return " ".join(filter(None, [str(answer.status), found.get("code"), found.get("reason")]))


class Gate:
    """A protected service behind a proxy that asks the broker, and an app that calls the service."""

    def __init__(self, server, site, origin, service):
        self.server, self.site, self.origin, self.service = server, urllib.parse.urlsplit(site), origin, service

    def ask(self, method, target, fields, body=None):
        """Sends a request with exactly these fields and an unchanged target."""
        connection = http.client.HTTPConnection(self.site.hostname, self.site.port, timeout=20)
        try:
            connection.putrequest(method, target, skip_accept_encoding=True)
            for name, value in fields.items():
                connection.putheader(name, value)
            if method == "POST":
                connection.putheader("Content-Length", str(len(body or b"")))
            connection.endheaders(body if method == "POST" else None)
            answer = connection.getresponse()
            return Answer(answer.status, answer.headers, answer.read(), 0)
        finally:
            connection.close()

    def served(self):
        return call(self.service + "/count").body

    def proof(self, phone, method, path, **claims):
        return phone.proof(method, "", phone.session, htu=self.origin + path, **claims)

    def seen(self, answer, name):
        return answer.json.get("fields", {}).get(name)

    def refused(self, expected, sentence, *request):
        """A refusal that allows the app to continue: code, nonce and challenge arrive, and the session stays."""
        before = self.served()
        answer = self.ask(*request)
        # nginx's auth_request keeps the fields of a refusal, but loses its body.
        told_here = expected.split()[0] if self.server == "nginx" else expected
        says.same(f"401 {told_here}", told(answer), f"{sentence} → 401 {told_here}")
        fields = answer.fields
        says.verdict(
            re.fullmatch(r"[A-Za-z0-9_-]{16}", fields["DPoP-Nonce"] or "") and fields["Coatcheck-Code"] == expected.split()[0]
            and fields.get_all("WWW-Authenticate", []) == [f'DPoP error="{challenge(expected)}", algs="ES256"']
            and fields["Content-Type"] == "application/problem+json" and not fields["Set-Cookie"],
            f"{sentence} → nonce, code and challenge arrive, and the cookie stays", str(fields))
        says.same(before, self.served(), f"{sentence} → the service is not reached")
        return answer


def challenge(told):
    if told == "use_dpop_nonce":
        return told
    return "invalid_token" if told.endswith((" token", " key", " pass")) else "invalid_dpop_proof"


def gate(server, site, broker, origin, service):
    gate, broker = Gate(server, site, origin, service), Door(broker)
    phone, other, bearer = Phone(broker, COOKIE), Phone(broker, COOKIE), Phone(broker, BEARER)
    for each in (phone, other):
        says.same(201, each.sign_in().status, f"{server}: a sign-in with a key → 201")
    session = {"Cookie": f"theme=dark; coatcheck={phone.session}; lang=en"}

    def refused(expected, sentence, method, target, fields):
        return gate.refused(expected, f"{server}: {sentence}", method, target, session | fields)

    def passes(sentence, method, target, fields, body=None):
        before = int(gate.served())
        answer = gate.ask(method, target, session | fields, body)
        says.same((200, before + 1), (answer.status, int(gate.served())), f"{server}: {sentence} → served")
        return answer

    answer = refused("proof_required", "a copied cookie alone", "GET", "/orders", {})
    refused("proof_required", "a copied cookie alone, as a POST", "POST", "/orders", {})
    refused("proof_invalid pass", "another session's pass", "GET", "/orders", {"Coatcheck-Pass": other.held_pass})
    refused("proof_invalid pass", "an invented pass as a cookie", "GET", "/orders", {
        "Cookie": f"coatcheck={phone.session}; coatcheck-pass={'A' * 32}"})
    phone.nonce = None
    answer = refused("use_dpop_nonce", "a proof without a nonce", "GET", "/orders", {"DPoP": gate.proof(phone, "GET", "/orders")})
    phone.nonce = answer.fields["DPoP-Nonce"]
    caught = gate.proof(phone, "GET", "/orders")
    forged = {
        "X-Original-Method": "GET", "X-Original-URL": origin + "/orders", "X-Original-Uri": "/orders", "X-Forwarded-Method": "GET",
        "X-Forwarded-Proto": "https", "X-Forwarded-Host": origin.split("//")[1], "X-Forwarded-Uri": "/orders"}
    for sentence, fields in (("", {}), (", with forged X- fields that match the proof", forged)):
        refused("proof_invalid address", "a caught proof at another path" + sentence, "GET", "/transfer", {"DPoP": caught} | fields)
        refused("proof_invalid method", "a caught proof by another method" + sentence, "POST", "/orders", {"DPoP": caught} | fields)
    refused("proof_invalid address", "a proof for another origin", "GET", "/orders", {
        "DPoP": phone.proof("GET", "", phone.session, htu=site + "/orders")})
    refused("proof_invalid token", "a proof for another session", "GET", "/orders", {
        "DPoP": phone.proof("GET", "", other.session, htu=origin + "/orders")})
    other.nonce = phone.nonce
    refused("proof_invalid key", "a thief's proof with another key", "GET", "/orders", {
        "DPoP": other.proof("GET", "", phone.session, htu=origin + "/orders")})

    answer = passes("a proof sent with the request that it names", "GET", "/orders?page=2", {"DPoP": caught} | forged)
    for name in ("dpop", "coatcheck_pass", "coatcheck_code"):
        says.same(None, gate.seen(answer, name), f"{server}: a served call with a proof → the service sees no {name}")
    says.same(["theme=dark; lang=en"], gate.seen(answer, "cookie"), f"{server}: a served call with a proof → the service sees no session cookie")
    refused("proof_invalid replayed", "a used proof", "GET", "/orders", {"DPoP": caught})
    for method, target in [
        ("POST", "/orders"), ("HEAD", "/orders"), ("DELETE", "/orders/7"), ("GET", "/a%20b/~c?d=%2F"), ("GET", "/"),
        # Apps do not send such requests, and Caddy's recipe refuses them.
        *([("GET", site + "/orders"), ("GET", origin + "/orders?e=f")] if server != "caddy" else []),
    ]:
        path = urllib.parse.urlsplit(target).path
        passes(f"a proof for {method} {target.replace(site, 'http://…')}", method, target, {"DPoP": gate.proof(phone, method, path)}, b"x")

    both = {"Cookie": f"coatcheck-pass={phone.held_pass}; a=1; coatcheck={phone.session}; coatcheck-passage=2"}
    answer = passes("a pass as a cookie", "GET", "/orders", both)
    says.same(["a=1; coatcheck-passage=2"], gate.seen(answer, "cookie"), f"{server}: a pass as a cookie → the service does not see it")
    answer = passes("a pass as a cookie and as a field", "GET", "/orders", {
        "Cookie": f"coatcheck={phone.session}; coatcheck-pass={phone.held_pass}", "Coatcheck-Pass": phone.held_pass})
    says.same(None, re.search(re.escape(phone.held_pass), json.dumps(answer.json)), f"{server}: a pass as a cookie and as a field → the service sees neither")
    answer = passes("a pass next to misspelt pass fields", "GET", "/orders", both | {"Coatcheck_Pass": "mallory", "Coatcheck.Pass": "mallory"})
    says.same(None, re.search("mallory", json.dumps(answer.json)), f"{server}: a pass next to misspelt pass fields → the service does not see the values of these fields")
    refused("proof_invalid address", "a pass next to a proof for another path", "GET", "/orders", both | {
        "DPoP": gate.proof(phone, "GET", "/transfer")})

    begun, _ = bearer.begin()
    made = bearer.call("POST", "/v1/sessions", body={
        "callback_url": bearer.callback(begun), "login_token": begun.json["login_token"]})
    says.same(201, made.status, f"{server}: an app with bearer tokens signs in with a key → 201")
    bearer.session = made.json["session_token"]
    for scheme in ("Bearer", "DPoP"):
        named = {"Authorization": f"{scheme} {bearer.session}"}
        gate.refused("proof_required", f"{server}: a bearer session as {scheme} alone", "GET", "/orders", named)
        for evidence in ({"Coatcheck-Pass": made.json["pass"]["pass"]}, {"DPoP": bearer.proof("GET", "", bearer.session, htu=origin + "/orders")}):
            answer = gate.ask("GET", "/orders", named | evidence)
            seen = [gate.seen(answer, name) for name in ("authorization", "coatcheck_pass", "dpop")]
            says.same((200, [None] * 3), (answer.status, seen), f"{server}: a bearer session as {scheme} with {[*evidence][0]} → served, and token and evidence stay hidden from the service")

    broker.call("DELETE", "/v1/session", phone.session)
    answer = gate.ask("GET", "/orders", both)
    says.same("401 session_ended logged_out", told(answer), f"{server}: a request with the pass of a session that has logged out → 401 session_ended, and not proof_required")
    says.same((None, 'Bearer realm="coatcheck"'), (answer.fields["DPoP-Nonce"], answer.fields["WWW-Authenticate"]), f"{server}: a request with the pass of a session that has logged out → the challenge is Bearer, without a nonce")
    cleared = [f"{name}=; Path=/; HttpOnly; SameSite=Strict; Max-Age=0; Expires=Thu, 01-Jan-1970 00:00:00 GMT" for name in ("coatcheck", "coatcheck-pass")]
    says.same(sorted(cleared), sorted(answer.fields.get_all("Set-Cookie", [])), f"{server}: a request with the pass of a session that has logged out → both cookies are cleared")


def service(name, site, broker, origin):
    """Checks an example service of docs/backends/check-a-session.md. The service asks the broker itself."""
    gate, phone = Gate(name, site, origin, None), Phone(Door(broker), BEARER)
    begun, _ = phone.begin()
    made = phone.call("POST", "/v1/sessions", body={"callback_url": phone.callback(begun), "login_token": begun.json["login_token"]})
    says.same(201, made.status, f"{name}: a sign-in with a key → 201")
    phone.session, held, phone.nonce = made.json["session_token"], made.json["pass"]["pass"], None

    def ask(**fields):
        answer = gate.ask("GET", "/orders?page=2", {"Authorization": f"DPoP {phone.session}"} | {n.replace("_", "-"): v for n, v in fields.items()})
        phone.nonce = answer.fields["DPoP-Nonce"] or phone.nonce
        return answer

    for code, sentence, fields in [
        ("proof_required", "a bound session's token without evidence", {}), ("proof_invalid", "an invented pass", {"Coatcheck_Pass": "A" * 32}),
        ("proof_invalid", "a proof for another path", {"DPoP": lambda: gate.proof(phone, "GET", "/transfer")}),
        ("use_dpop_nonce", "a proof without a nonce", {"DPoP": lambda: gate.proof(phone, "GET", "/orders", nonce=None)}),
    ]:
        answer = ask(**{name: value() if callable(value) else value for name, value in fields.items()})
        error = code if code == "use_dpop_nonce" else "invalid_dpop_proof"
        says.same(
            (401, code, f'DPoP error="{error}", algs="ES256"', True),
            (answer.status, answer.fields["Coatcheck-Code"], answer.fields["WWW-Authenticate"], bool(answer.fields["DPoP-Nonce"])), f"{name}: {sentence} → 401 {code}")
    good = gate.proof(phone, "GET", "/orders")
    says.same((200, b"user-ana"), (lambda a: (a.status, a.body))(ask(DPoP=good)), f"{name}: a good proof → the service names the user")
    says.same((401, "proof_invalid"), (lambda a: (a.status, a.fields["Coatcheck-Code"]))(ask(DPoP=good)), f"{name}: a used proof → 401 proof_invalid")
    says.same((200, b"user-ana"), (lambda a: (a.status, a.body))(ask(Coatcheck_Pass=held)), f"{name}: a pass → the service names the user")
    phone.session = "t" * 43
    says.same((401, None), (lambda a: (a.status, a.fields["Coatcheck-Code"]))(ask(Coatcheck_Pass=held)), f"{name}: an unknown token with a pass → 401 without a code")


def front(server, site, broker):
    """The broker's own routes, for an app that uses the proxy's address."""
    # Proofs name the broker's configured address; the app reaches the broker at the proxy's address.
    door = Door(broker)
    door.url = site
    phone, thief = Phone(door, COOKIE), Phone(door, COOKIE)
    answer = door.call("POST", "/v1/logins", body={"provider": "oidc", "client": COOKIE})
    says.same("401 proof_required", told(answer), f"{server}: a login without a proof → 401 proof_required")
    says.verdict(
        answer.fields["DPoP-Nonce"] and answer.fields["Coatcheck-Code"] == "proof_required"
        and answer.fields["WWW-Authenticate"] == 'DPoP error="invalid_dpop_proof", algs="ES256"', f"{server}: a login without a proof → nonce, code and challenge arrive", str(answer.fields))
    says.same(201, phone.sign_in().status, f"{server}: a sign-in with proofs → 201")
    thief.nonce = phone.nonce
    def passed(answer):
        return answer.status == 200 or answer.fields["Coatcheck-Source"] == "upstream"

    for path in ("/v1/session", "/v1/relay/api/private/a%3Ab%20c?d=e"):
        says.same("401 proof_required", told(door.call("GET", path, phone.session)), f"{server}: a copied cookie at {path} → 401 proof_required")
        says.same("401 proof_invalid key", told(thief.call("GET", path, phone.session)), f"{server}: a copied cookie with another key's proof → 401 proof_invalid key")
        answer = phone.call("GET", path, phone.session)
        says.verdict(passed(answer), f"{server}: a proof for the path as the app sent it → served", told(answer))
        says.verdict(passed(phone.passing("GET", path)), f"{server}: a request with the pass as a cookie → served")
        says.verdict(passed(door.call("GET", path, phone.session, Coatcheck_Pass=phone.held_pass)), f"{server}: a request with the pass as a field → served")
    answer = phone.call("POST", "/v1/session/pass", phone.session)
    says.verdict(answer.status == 200 and "coatcheck-pass=" in (answer.fields["Set-Cookie"] or ""), f"{server}: an app asks for a pass → the answer sets a new pass as a cookie", str(answer.fields))
    answer = phone.passing("DELETE", "/v1/session")
    says.same(
        (204, 2), (answer.status, sum("Max-Age=0" in field for field in answer.fields.get_all("Set-Cookie", []))), f"{server}: a log-out with a pass → 204, and both cookies are cleared")


if __name__ == "__main__":
    {"gate": gate, "front": front, "service": service}[sys.argv[1]](*sys.argv[2:])
