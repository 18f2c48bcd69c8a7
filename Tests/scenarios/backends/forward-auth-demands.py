"""The recipes of deploy/forward-auth demand a step-up or the user's presence for single paths. They pass on each field of the
broker's answer, and no field that a client invents.
"""

import http.client
import pathlib
import re
import sys
import urllib.parse

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import recipes  # noqa: E402
from support.broker import BACKEND, Broker  # noqa: E402
from support.calls import Answer  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.protected import Service, Yes  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.step_up import Login, told  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402
from support.wire import ROOT, free_port  # noqa: E402

ORIGIN = "https://app.example.com"
STRONG = {"step_up": {"acr_values": "mfa", "max_age": 300}}
# Other spellings of /payments/7 that a service may accept.
SPELLINGS = ["//payments/7", "/./payments/7", "/orders/../payments/7", "/%70ayments/7", "/payments/%37", "/payments/7?acr=pwd&max_age=99999999"]


def ask(url, target, method="GET", **fields):
    """Sends one request, with its target unchanged."""
    parts = urllib.parse.urlsplit(url)
    connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=20)
    try:
        connection.putrequest(method, target, skip_accept_encoding=True, skip_host="Host" in fields)
        for name, value in fields.items():
            connection.putheader(name.replace("_", "-"), value)
        if method != "GET":
            connection.putheader("Content-Length", "0")
        connection.endheaders()
        answer = connection.getresponse()
        return Answer(answer.status, answer.headers, answer.read(), 0)
    finally:
        connection.close()


class Gate:
    """A proxy in front of a service, and the checks of this proxy."""

    def __init__(self, says, title, url, service):
        self.says, self.title, self.url, self.service = says, title, url, service

    def same(self, expected, actual, sentence):
        return self.says.same(expected, actual, f"{self.title}: {sentence}")

    def refused(self, expected, target, sentence, method="GET", **fields):
        before = self.service.count
        answer = ask(self.url, target, method, **fields)
        self.same(expected, told(answer), sentence)
        self.same(before, self.service.count, f"{sentence}, and the service is not reached")
        return answer

    def passes(self, target, sentence, method="GET", **fields):
        before = self.service.count
        answer = ask(self.url, target, method, **fields)
        self.same(("200", before + 1), (told(answer), self.service.count), sentence)
        return answer


def stack(case):
    """Makes a broker, with a client whose sessions are bound, and a protected service. Returns both."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings={
        "server": {"trusted_proxies": ["127.0.0.1"]},
        "backends": {"orders": {"original_request": True, "origins": [ORIGIN]}},
        "providers": {"oidc": {"clients": {"strict": {
            "client_id": "strict-app", "auth": "none", "redirect_uris": ["com.example.strict:/cb"], "scope": "openid email", "login": "both",
            "binding": {"mode": "enforce"}}}}}})
    return broker, Service()


def stronger(broker, age=0):
    """Returns a new session of a user who stepped up `age` seconds ago."""
    session = broker.sign_in()
    answer = Login(broker, session, {"step_up": {"acr_values": "mfa"}}).sign_in(sandbox_auth_age=age).forward()
    assert answer.status == 200, answer.body
    return session


def stepping_up(gate, broker, prefix="", confirm=True):
    """Checks a path that demands a step-up, and a path without a demand."""
    pay, orders = f"{prefix}/payments/7", f"{prefix}/orders"
    plain, strong, old = broker.sign_in(), stronger(broker), stronger(broker, 400)
    bearer, strong_bearer = broker.sign_in(client="android"), broker.sign_in(client="android")
    Login(broker, strong_bearer, STRONG, bearer=True).sign_in().forward()
    gate.refused("401 session_required", pay, "a path that demands a step-up, without a session → 401 session_required")
    gate.refused("401 session_required", pay, "a path that demands a step-up, with an invented bearer → 401 session_required", Authorization="Bearer garbage")
    gate.refused("401 session_required", pay, "a POST to a path that demands a step-up, with an invented bearer → 401 session_required", "POST", Authorization=f"Bearer {'t' * 43}")
    for name, fields in (("a cookie", {"Cookie": f"coatcheck={plain}"}), ("a bearer token", {"Authorization": f"Bearer {bearer}"})):
        answer = gate.refused("401 step_up_required", pay, f"a path that demands a step-up, with {name} of a session without a step-up → 401 step_up_required", **fields)
        challenge = answer.fields["WWW-Authenticate"] or ""
        gate.says.verdict(
            'error="insufficient_user_authentication"' in challenge and 'acr_values="mfa"' in challenge and 'max_age="300"' in challenge
            and not answer.fields["Set-Cookie"], f"{gate.title}, a refused call with {name} of a session without a step-up → the app gets the challenge and keeps its cookie", str(answer.fields))
    gate.refused("401 step_up_required", pay, "a path that demands a step-up, seven minutes after the user's step-up → 401 step_up_required", Cookie=f"coatcheck={old}")
    for target in SPELLINGS:
        before = gate.service.count
        # Some of these spellings are refused because of their form, so any status other than 200 is accepted here.
        answer = ask(gate.url, target.replace("/", prefix + "/", 1) if prefix else target, Cookie=f"coatcheck={plain}")
        gate.says.verdict(
            gate.service.count == before and answer.status != 200, f"{gate.title}, a session without a step-up at {target} → refused, and the service is not reached", f"{told(answer)} {answer.body[:200]}")
    answer = gate.passes(pay, "a path that demands a step-up, after a fresh step-up → served", Cookie=f"coatcheck={strong}")
    seen = answer.json.get("fields", {})
    gate.says.verdict(
        seen.get("x_auth_acr") == ["mfa"] and re.fullmatch(r"\d{10}", "".join(seen.get("x_auth_time", []))), f"{gate.title}, a call after a step-up → the service sees acr and time of the sign-in", str(seen))
    gate.passes(pay, "a POST to a path that demands a step-up, after a fresh step-up → served", "POST", Cookie=f"coatcheck={strong}")
    gate.passes(pay, "a path that demands a step-up, with a bearer after a fresh step-up → served", Authorization=f"Bearer {strong_bearer}")
    gate.passes(orders + "?acr=mfa&max_age=60", "a path without a demand, with a demand only in the client's query → served to a session without a step-up", Cookie=f"coatcheck={plain}")


def present(gate, broker):
    """Checks a path that demands the user's presence."""
    phone, face = Phone(broker, "strict"), Phone(broker, "strict")
    gate.same(201, phone.sign_in().status, "a sign-in with the device's key → 201")
    phone.call("GET", "/v1/session", phone.session)

    def registered(nonce):
        face.nonce = phone.nonce = nonce
        return phone.call(
            "PUT", "/v1/session/presence-key", phone.session, retry=False,
            Coatcheck_Presence=face.proof("PUT", "/v1/session/presence-key", phone.session))

    answer = registered(phone.nonce)
    if answer.status != 200:
        answer = registered(answer.fields["DPoP-Nonce"])
    gate.same("200", told(answer), "the registration of a presence key → 200")

    def evidence(target="/payments/confirm", by=None):
        (by or face).nonce = phone.nonce
        fields = {"Cookie": f"coatcheck={phone.session}", "DPoP": phone.proof("POST", "", phone.session, htu=ORIGIN + "/payments/confirm")}
        return fields | ({"Coatcheck_Presence": face.proof("POST", "", phone.session, htu=ORIGIN + target)} if by is None else {})

    gate.refused("401 session_required", "/payments/confirm", "a POST to a path that needs presence, without a session → 401 session_required", "POST")
    answer = gate.refused("401 presence_required", "/payments/confirm", "a POST to a path that needs presence, with only a proof by the session's own key → 401 presence_required", "POST", **evidence(by=phone))
    phone.nonce = answer.fields["DPoP-Nonce"]
    gate.says.verdict(len(phone.nonce or "") == 16 and answer.fields["Coatcheck-Code"] == "presence_required", f"{gate.title}, a refusal because the presence proof is missing → nonce and code reach the app")
    answer = ask(gate.url, "/payments/confirm", "POST", **evidence("/payments/other"))
    gate.same("401 presence_invalid", " ".join(told(answer).split()[:2]), "a POST to a path that needs presence, with a proof for another path → 401 presence_invalid")
    answer = gate.passes("/payments/confirm", "a POST to a path that needs presence, with a presence proof → served", "POST", **evidence())
    for name in ("coatcheck_presence", "dpop"):
        gate.same(None, answer.json["fields"].get(name), f"a served call with a presence proof → the service sees no field {name}")


# Broken copies of each recipe: the edit, and a part of the name of the check that must fail. The first copy for nginx was once in
# the documents.
COPIES = {
    "nginx": [
        (("nginx.conf", "auth_request /_coatcheck/stepped-up", "auth_request /v1/forward-auth?acr=mfa&max_age=300"), "without a session"),
        (("nginx-gate.conf", r"\?acr=mfa&max_age=300", ""), "with a cookie of a session without a step-up"),
        (("nginx-gate.conf", "&max_age=300", ""), "seven minutes after")],
    "caddy": [
        (("Caddyfile", "coatcheck_ask acr=.*", 'coatcheck_ask ""'), "with a cookie of a session without a step-up"),
        (("Caddyfile", r"forward-auth\?\{args.0\}", "forward-auth"), "with a cookie of a session without a step-up"),
        # This copy denies all other paths without asking the broker.
        (("Caddyfile", "@others not path .*", "@others path /none"), "served to a session without a step-up")],
    "haproxy": [
        (("haproxy.lua", r" \.\. demanded\(.*", ","), "with a cookie of a session without a step-up"),
        (("haproxy.lua", r'if part == "\.\." .*', "table.insert(parts, part)"), "a session without a step-up at /orders/../")],
    "apache": [(("apache.conf", r"^.*acr=mfa.*$", ""), "with a cookie of a session without a step-up")],
}


def demands(server):
    def case_of_server(case):
        broker, service = stack(case)
        host = broker.url.removeprefix("http://")
        values = {"BROKER_NAME": host, "CREDENTIAL": BACKEND}
        # nginx and Caddy get a first replica that refuses connections. The scripts of HAProxy and Apache know only one address.
        lost = [f"127.0.0.3:{free_port()}"] if server in ("nginx", "caddy") else []
        url = recipes.forward_auth(case, server, [*lost, host], service.address, **values).url
        gate = Gate(case, server, url, service)
        stepping_up(gate, broker)
        present(gate, broker)
        for edit, sentence in COPIES[server]:
            quiet = Verdicts()
            quiet.lines = []
            quiet.print = quiet.lines.append
            stepping_up(Gate(quiet, server, recipes.forward_auth(case, server, [host], service.address, [edit], **values).url, service), broker)
            case.verdict(
                any(line.startswith("not ok") and sentence in line for line in quiet.lines), f"{server}, the checks run on a recipe with a planted fault ({edit[2] or 'no ' + edit[1]}) → a check fails",
                [line for line in quiet.lines if line.startswith("not ok")][:4])

    case_of_server.__doc__ = f"{server}: the demands of single paths."
    return case_of_server


def one_host(case):
    """nginx: broker and protected service on one host, next to a separate host for the service."""
    broker, service = stack(case)
    host = broker.url.removeprefix("http://")
    values = {
        "BROKER_NAME": host, "CREDENTIAL": BACKEND, "UPSTREAM": service.address, "port": free_port()}
    files = [
        ("proxy/nginx.conf", "proxy.conf"), ("forward-auth/nginx-http.conf", "nginx-http.conf"), ("forward-auth/nginx-gate.conf", "nginx-gate.conf"),
        ("forward-auth/nginx-service.conf", "nginx-service.conf"), ("forward-auth/nginx.conf", "forward-auth.conf"),
        ("forward-auth/nginx-one-host.conf", "coatcheck.d/orders.conf")]
    front = recipes.Recipe(case, "nginx", files, values, [host], [
        ("proxy/nginx.conf", "server_name .*", "server_name 127.0.0.1;"), ("forward-auth/nginx.conf", "server_name .*", "server_name service.example.com;")])
    front.start()
    door = Broker.__new__(Broker)
    door.__dict__ |= broker.__dict__ | {"url": front.url}
    case.same(200, ask(front.url, "/v1/providers").status, "one host for broker and service, a request for /v1/providers → reaches the broker")
    session = door.sign_in()
    case.same(200, door.look(session).status, "one host for broker and service, a sign-in through the proxy → a session")
    gate = Gate(case, "one host for broker and service", front.url, service)
    gate.refused("401 session_required", "/orders/7", "a call without a session → 401 session_required")
    answer = gate.passes("/orders/7?a=b", "a call with the broker's cookie → served", Cookie=f"coatcheck={session}; theme=dark", X_Auth_Subject="mallory")
    case.same(("/orders/7?a=b", ["user-ana"], ["theme=dark"]), (
        answer.json["path"], answer.json["fields"].get("x_auth_subject"), answer.json["fields"].get("cookie")), "one host for broker and service, a served call → the service sees the user, but not the session")
    stepping_up(Gate(case, "one host for broker and service", front.url, service), broker, "/orders")
    for path in ("/_coatcheck/ask", "/_coatcheck/stepped-up", "/_coatcheck/", "/_coatcheck/none"):
        case.same(404, ask(front.url, path, Cookie=f"coatcheck={session}").status, f"one host for broker and service, a client's request for {path} → 404")
    gate = Gate(case, "a host of the service alone", front.url, service)
    gate.refused("401 session_required", "/anything", "a call without a session → 401 session_required", Host="service.example.com")
    gate.passes("/anything", "a call with a session → served", Host="service.example.com", Cookie=f"coatcheck={session}")


def fields(case):
    """The service gets exactly the identity fields of the broker's answer. It gets no field that the answer lacks."""
    contract = yaml.safe_load((ROOT / "openapi.yaml").read_text())
    answered = contract["paths"]["/v1/forward-auth"]["get"]["responses"]["200"]["headers"]
    identity = [name for name in answered if name.startswith("X-Auth-")]
    case.verdict(len(identity) >= 12, "the contract (openapi.yaml) → lists at least twelve X-Auth fields of forward-auth", identity)
    broker, service = Yes(), Service()
    values = {"BROKER_NAME": "auth.example.com", "CREDENTIAL": "the-credential"}
    handle = "ses_0000000000000000000000"
    full = {name: f"{name.lower()}-of-the-broker" for name in identity} | {"X-Auth-Session": handle}
    forged = {name.replace("-", "_"): "mallory" for name in [*identity, "X-Auth-Roles", "X-Coatcheck-Backend", "X-Coatcheck-Session"]}

    def look(says, server, edits=()):
        url = recipes.forward_auth(case, server, [broker.address], service.address, edits, **values).url

        def seen(answered):
            broker.fields = answered
            found = ask(url, "/orders", **forged, Cookie="coatcheck=c; a=1", Authorization="Bearer b", DPoP="a.proof", Coatcheck_Pass="a-pass", Coatcheck_Presence="a.presence")
            return {name: [v for v in values if v] for name, values in found.json.get("fields", {}).items() if name.startswith(("x_auth", "x_coatcheck")) and any(values)}

        expected = {name.lower().replace("-", "_"): [value] for name, value in full.items()}
        says.same(expected, seen(full), f"{server}, the client forges every identity field → the service sees only the broker's values")
        says.same({"x_auth_session": [handle]}, seen({"X-Auth-Session": handle}), f"{server}, the client forges identity fields that the broker's answer lacks → the service sees only the broker's X-Auth-Session")
        asked = {name: broker.asked[name] for name in (
            "Host", "Cookie", "Authorization", "DPoP", "Coatcheck-Pass", "Coatcheck-Presence", "X-Coatcheck-Backend", "X-Coatcheck-Session", "X-Original-Method", "X-Original-URL")}
        says.same({
            "Host": "auth.example.com", "Cookie": "coatcheck=c; a=1", "Authorization": "Bearer b", "DPoP": "a.proof", "Coatcheck-Pass": "a-pass",
            "Coatcheck-Presence": "a.presence", "X-Coatcheck-Backend": "the-credential", "X-Coatcheck-Session": None, "X-Original-Method": "GET",
            "X-Original-URL": ORIGIN + "/orders"}, asked, f"{server}, a client's request → the forward-auth call contains the session, the session's evidence and the original request")

    for server in recipes.SERVERS:
        look(case, server)
    for server, edit in [
            ("nginx", ("nginx-service.conf", ".*X-Auth-Parent.*", "")), ("nginx", ("nginx-gate.conf", ".*Coatcheck-Presence.*", "")),
            ("caddy", ("Caddyfile", "request_header @token", "request_header")), ("caddy", ("Caddyfile", r".*request_header -X-Auth\*", "")),
            ("haproxy", ("haproxy.lua", '"x-auth-acr", "x-auth-time", ', "")), ("haproxy", ("haproxy.lua", r'.*\["coatcheck-presence"\].*', "")),
            ("apache", ("apache.lua", '"X-Auth-Acr", ', "")), ("apache", ("apache.lua", r'.*\["Coatcheck-Presence"\].*', ""))]:
        quiet = Verdicts()
        quiet.print = lambda _: None
        look(quiet, server, [edit])
        case.verdict(quiet.failed, f"{server}, the checks run on a recipe with a planted fault ({edit[2] or 'no ' + edit[1]}) → a check fails")


if __name__ == "__main__":
    if gap := recipes.missing():
        raise SystemExit(f"Bail out! {' '.join(gap)} missing: scripts/setup test")
    cases = {server: (demands(server), 120) for server in recipes.SERVERS} | {"one-host": (one_host, 90), "fields": (fields, 90)}
    main({name: (recipes.serving(function), seconds) for name, (function, seconds) in cases.items()}, __doc__)
