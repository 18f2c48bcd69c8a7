"""Forged identity fields in unusual spellings, behind a gateway's recipe.

The sources of the attacks are in docs/known-attacks.md. The case makes the attacks first, and then an honest request.
"""

import http.client
import pathlib
import re
import sys
import urllib.parse

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.wire import ROOT, free_port  # noqa: E402


class Traefik:
    """A model of how Traefik 3 treats header fields, with the middlewares of the recipe.

    Go splits names only at dashes, so `X_Auth_User` and `X.Auth.User` are different fields. `headers` deletes a field by its
    name. `forwardAuth` sends the listed fields and its own. Then it deletes the fields that match the expression, and adds
    those of the answer.
    """

    def __init__(self, recipe, broker, upstream_name="protected"):
        text = recipe.replace("@BROKER@", broker).replace("@NAME@", "app.example.com").replace("@UPSTREAM@", "127.0.0.1:1")
        http_ = yaml.safe_load(text.replace("@ORIGIN@", "https://app.example.com"))["http"]
        self.chain = [http_["middlewares"][name] for name in http_["routers"][upstream_name]["middlewares"]]

    @staticmethod
    def canonical(name):
        return "-".join(part[:1].upper() + part[1:].lower() for part in name.split("-"))

    def serve(self, method, target, fields):
        """Returns the answer's status, and the fields that the service gets, or None if the request does not reach it."""
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
        """Returns the fields as CGI, WSGI or PHP name them: with `_` for any character except letters and digits."""
        found = {}
        for name, values in held.items():
            found.setdefault(re.sub("[^A-Z0-9]", "_", name.upper()), []).extend(values)
        return found


# The characters in a field's name (RFC 9110 section 5.6.2) that CGI replaces by `_`.
SIGNS = "-_.!#$%&'*+^`|~"


def spellings(name):
    """Returns spellings of a field's name with other characters for its first two dashes, in different letter cases."""
    first, second, rest = name.split("-", 2)
    return [
        form for one in SIGNS for two in SIGNS for form in (f"{first}{one}{second}{two}{rest}", f"{first}{one}{second}{two}{rest}".lower())]


def traefik(case):
    """`X_Auth_…`, `X!Auth!…` and similar fields behind Traefik's recipe → the service sees only the broker's fields (SEC-86)"""
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
        case.same((401, None), gateway.serve("GET", "/orders", forged), f"a request that forges {name} in {len(forged)} spellings, without a session → 401")
        status, held = gateway.serve("GET", "/orders", [cookie, *forged])
        seen = gateway.variables(held or {})
        of_auth = {key: values for key, values in seen.items() if key.startswith("X_AUTH_")}
        case.verdict(
            status == 200 and of_auth.get("X_AUTH_SUBJECT") == ["user-ana"] and "mallory" not in str(of_auth)
            and all(len(values) == 1 for values in of_auth.values()),
            f"a request that forges {name} in {len(forged)} spellings, with a session → the service sees only the broker's value of each X-Auth field", str(of_auth))
    for form in spellings("X-Coatcheck-Session")[:4]:
        case.same((401, None), gateway.serve("GET", "/orders", [(form, session)]), f"a session token only in the field {form}, a spelling of X-Coatcheck-Session → 401")
    _, held = gateway.serve("GET", "/orders", [cookie, *((form, "mallory") for form in spellings("X-Coatcheck-Session"))])
    case.same([], [name for name, values in (held or {"none": "mallory"}).items() if "mallory" in values], "a request with the field X-Coatcheck-Session in all spellings → the gateway removes each of these fields")
    # Check the model itself: if a recipe removes only names with some of the characters, a forged field has to arrive.
    for signs, forms in (("-", ("X_Auth_Subject", "X.Auth.Subject")), ("[-_.]", ("X!Auth!Subject", "X~Auth~Subject", "X-Auth'Subject"))):
        plain = Traefik(recipe.replace("[^a-z0-9]", signs), f"127.0.0.1:{port}")
        for form in forms:
            _, held = plain.serve("GET", "/orders", [cookie, (form, "mallory")])
            case.verdict("mallory" in plain.variables(held)["X_AUTH_SUBJECT"], f"a weaker recipe, which removes only names with {signs} → the forged field {form} reaches the service")


if __name__ == "__main__":
    main({"traefik": (traefik, 60)}, __doc__)
