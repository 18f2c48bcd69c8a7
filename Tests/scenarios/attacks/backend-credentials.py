"""A backend's credential at routes that only other backends may use, and guessed credentials.

The sources of the attacks are in docs/known-attacks.md. The case makes the attacks first, and then an honest request.
"""

import base64
import pathlib
import sys
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker, sha256  # noqa: E402
from support.cases import main  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

FORM = "application/x-www-form-urlencoded"
EXCHANGE = {
    "grant_type": "urn:ietf:params:oauth:grant-type:token-exchange",
    "subject_token_type": "urn:ietf:params:oauth:token-type:access_token"}


def backends(case):
    """A backend's credential, in any form, at a route of another backend → refused (SEC-42)"""
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
            case.verdict(gives(answer) and answer.status == 200, f"{holder}'s credential ({form[0]}) at the one route that {holder} may call, {own} → accepted", answer.told)
        # Guessed credentials, and other secrets.
        for word, secret in (("an empty secret", ""), ("a credential with another last letter", held[holder][:-1] + "d"), ("the credential's digest", sha256(held[holder])),
                             ("a session token", session), ("the backend's name", holder)):
            for form in list(forms(holder, secret))[2:]:
                if form[2] and own == "forward-auth":
                    continue
                refused(own, form, f"{word} at {holder}'s {own}", (400, 401))
        query = "?" + urllib.parse.urlencode({"client_id": holder, "client_secret": held[holder]})
        refused(own, ("the query", {}, {}, query), f"{holder}'s credential at its own {own}", (401,))


if __name__ == "__main__":
    main({"backends": (backends, 60)}, __doc__)
