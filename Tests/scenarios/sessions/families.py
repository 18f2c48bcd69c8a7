"""Child sessions of widgets and watches: who may have them, their rights, and their end with their parent."""

import contextlib
import http.client
import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import ADMIN, BACKEND, Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.dpop import Phone  # noqa: E402
from support.families import ask, by, child, settings, told  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

FORM = "application/x-www-form-urlencoded"


def asking(case):
    """Requests for a child that the broker refuses or grants, and the rights of a child."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings=settings(sandbox))
    case.same("401 session_required", told(ask(broker, None)), "a request for a child without the parent's session → refused")
    parent = broker.sign_in()
    case.same("403 client_not_allowed", told(ask(broker, broker.sign_in(client="web"))), "a request for a child by a client without children → refused")
    case.same("403 client_not_allowed", told(ask(broker, parent, kind="tv")), "a request for a child of an unknown kind → refused")
    case.same("400 invalid_request", told(ask(broker, parent, kind="web")), "a request for a child of the kind `web`, which only hand-overs make → refused")
    case.same("400 invalid_request", told(ask(broker, parent, name="Ana's")), "a request for a child with an invalid name → refused")
    case.same("403 cross_origin", told(broker.call(
        "POST", "/v1/session/children", parent, {"kind": "widget", "name": "home"}, Sec_Fetch_Site="cross-site")), "a request for a child from another site → 403 cross_origin")
    case.same(0, broker.query("SELECT count(*) FROM sessions WHERE parent IS NOT NULL")[0][0], "after refused requests for a child of an unbound session → the store has no row of a child")

    answer = ask(broker, parent, device="Ana's home screen")
    case.same("201", told(answer), "a parent asks for a widget's child session → 201")
    made = answer.json
    case.verdict(not answer.fields["Set-Cookie"], "a parent asks for a child session → the child's token is in the body, and no cookie is set")
    widget = made["session_token"]
    whole = broker.look(parent).json
    case.same(
        ("widget", whole["handle"], whole["subject"], whole["tokens"]),
        tuple(made[name] for name in ("kind", "parent", "subject", "tokens")), "a new child's session object → has its kind, the parent's handle, and the parent's subject and tokens")
    case.same(200, by(broker, widget).status, "a request with the child's token → 200")
    columns = "tokens IS NULL, refreshable, hex(parent) IS NOT NULL"
    case.same((1, 0, 1), broker.row(widget, columns), "a new child's row in the store → has no token of the provider")

    for method, path, body in [
            ("POST", "/v1/session/token", None), ("POST", "/v1/session/refresh", None), ("GET", "/v1/sessions", None),
            ("DELETE", "/v1/sessions?except=current", None), ("DELETE", f"/v1/sessions/{whole['handle']}", None),
            ("POST", "/v1/session/children", {"kind": "widget", "name": "grandchild"})]:
        case.same("403 client_not_allowed", told(by(broker, widget, method, path, body=body)), f"{method} {path} by a child → refused")
    case.same(200, broker.look(parent).status, "after refused requests by a child → the parent lives")

    watch = child(broker, parent, "watch")
    case.same("403 upstream_not_allowed", told(by(broker, widget, path="/v1/relay/other/userinfo")), "a child calls an upstream that the child's kind may not use → refused")
    case.same("403 upstream_not_allowed", told(by(broker, watch, path="/v1/relay/api/userinfo")), "a child whose kind has no upstreams calls an upstream → refused")
    case.same(200, by(broker, widget, path="/v1/relay/api/userinfo").status, "a child calls an upstream of its kind → 200")

    def gate(token):
        return broker.call("GET", "/v1/forward-auth", X_Coatcheck_Backend=BACKEND, X_Coatcheck_Session=token)

    def introspect(token):
        return broker.call("POST", "/v1/introspect", body=f"token={token}", X_Coatcheck_Backend=BACKEND, Content_Type=FORM)

    case.same("403 backend_not_allowed", told(gate(watch)), "forward-auth for a child by a backend that the child's kind may not use → refused")
    case.same({"active": False}, introspect(watch).json, "introspection of a child by a backend that the child's kind may not use → inactive")
    case.same((400, "invalid_target"), (broker.exchange(watch).status, broker.exchange(watch).json.get("error")), "token exchange for a child by a backend that the child's kind may not use → invalid_target")
    answer = gate(widget)
    case.same(
        (200, "widget", whole["handle"]), (answer.status, answer.fields["X-Auth-Kind"], answer.fields["X-Auth-Parent"]),
        "forward-auth for a child → the answer has the child's kind and parent")
    answer = gate(parent)
    case.same((200, "", ""), (answer.status, answer.fields["X-Auth-Kind"], answer.fields["X-Auth-Parent"]), "forward-auth for a parent → the fields of kind and parent are empty")
    found = introspect(widget).json
    case.same((True, "widget", whole["handle"]), (found["active"], found.get("kind"), found.get("parent")), "introspection of a child → the answer has the child's kind and parent")
    case.verdict("kind" not in introspect(parent).json, "introspection of a parent → the answer has no kind")
    tokens = broker.exchange(parent).json["access_token"], broker.exchange(widget).json["access_token"]
    case.same(tokens[0], tokens[1], "token exchange of parent and child → the same access token")

    listed = broker.call("GET", "/v1/sessions", parent).json["items"]
    case.same(
        [(None, None), ("widget", "Ana's home screen"), ("watch", None)],
        [(item["kind"], item["device"]) for item in listed if item["handle"] == whole["handle"] or item["parent"] == whole["handle"]],
        "the user's list of sessions → has the children right after the parent")
    again = child(broker, parent)
    case.same("401 session_ended replaced", told(by(broker, widget)), "a new child with the same kind and name → the earlier child has ended as replaced")
    for number in range(14):
        child(broker, parent, name=f"w{number}")
    case.same("409 too_many_sessions", told(ask(broker, parent, name="one-more")), "a parent with sixteen children asks for one more → 409 too_many_sessions")
    case.same("201", told(ask(broker, parent)), "sixteen children exist, and the parent asks again for a child with the same kind and name → 201")
    answer = by(broker, watch, "DELETE")
    case.same((204, "401 session_ended logged_out", 200), (answer.status, told(by(broker, watch)), broker.look(parent).status), "a child logs out → the parent lives")
    case.same(18.0, broker.metric("coatcheck_child_sessions_total", client="ios"), "eighteen children were made → the metric counts eighteen")
    case.verdict(again not in broker.log() and widget not in broker.log(), "eighteen children were made → the log has no child's token")


def endings(case):
    """Any end of the parent ends its children. Their event streams report it, and kill -9 does not undo it."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings=settings(sandbox))

    def listen(token):
        connection = http.client.HTTPConnection("127.0.0.1", broker.port, timeout=20)
        connection.request("GET", "/v1/session/events", headers={
            "Authorization": f"Bearer {token}", "Host": f"127.0.0.1:{broker.port}"})
        return connection.getresponse()

    def out(parent):
        return broker.log_out(parent).status

    def by_admin(parent):
        handle = broker.look(parent).json["handle"]
        return call(f"{broker.management}/admin/v1/sessions/{handle}", "DELETE", Authorization=f"Bearer {ADMIN}").status

    def by_provider(parent):
        token = sandbox.control("POST", "/backchannel-logout", {
            "provider": "oidc", "client_id": "ios-app", "user": "ana", "mutate": {"sid": None}}).json["token"]
        return broker.call("POST", "/v1/backchannel-logout/oidc", body=f"logout_token={token}", Content_Type=FORM).status

    def by_sign_in(parent):
        begun = broker.call("POST", "/v1/logins", parent, {"provider": "oidc", "client": "ios"})
        login = re.search(r"coatcheck-login=[^;]+", begun.fields["Set-Cookie"])[0]
        callback = call(begun.json["authorization_url"] + "&sandbox_user=ana").fields["Location"]
        return broker.call("POST", "/v1/sessions", body={"callback_url": callback}, Cookie=f"{login}; coatcheck={parent}").status

    for name, end, status in [
            ("its log-out", out, 204), ("an operator", by_admin, 204), ("the provider's logout token", by_provider, 200),
            ("a new sign-in of its device", by_sign_in, 201)]:
        parent = broker.sign_in()
        children = [child(broker, parent), child(broker, parent, "watch")]
        stranger = broker.sign_in(user="ben")
        spared = child(broker, stranger)
        stream = listen(children[0])
        case.same(200, by(broker, children[1]).status, f"before the parent is ended by {name}, a child's request → 200")
        case.same(status, end(parent), f"the parent is ended by {name} → {status}")
        case.same({"401 session_ended parent_ended", "401 session_ended provider_logout"} & {told(by(broker, one)) for one in children},
                  {told(by(broker, one)) for one in children}, f"the parent was ended by {name} → the children's next requests are refused")
        case.verdict("session_ended" in stream.read().decode(), f"the parent was ended by {name} → a child's event stream reports the end")
        case.same(200, by(broker, spared).status, f"the parent was ended by {name} → the child of another session is alive")
        case.same(204, broker.log_out(stranger).status, "another parent's session, which was left alive, logs out → 204")

    # One commit ends the parent and its children, so kill -9 cannot separate them.
    parent = broker.sign_in()
    one = child(broker, parent)
    case.same(204, broker.log_out(parent).status, "a parent's log-out → 204")
    broker.stop()
    case.same(("parent_ended",), broker.row(one, "end_reason"), "kill -9 after a parent's log-out → in the database file, the child's row has ended")
    broker.start()
    case.same("401 session_ended parent_ended", told(by(broker, one)), "kill -9 and a restart after a parent's log-out → the child's request is refused as parent_ended")

    parent = broker.sign_in()
    one = child(broker, parent)
    broker.restart()
    case.same(200, by(broker, one).status, "kill -9 right after a new child was answered with 201, and a restart → the child is alive")
    # An attacker changes the child's row in the database file.
    other = broker.sign_in(user="ben")
    with contextlib.closing(broker.database()) as database:
        database.execute("UPDATE sessions SET parent = (SELECT token FROM sessions WHERE handle = ?) WHERE parent IS NOT NULL AND ended_at IS NULL",
                         [broker.look(other).json["handle"]])
    broker.restart()
    case.same("401 session_ended integrity", told(by(broker, one)), "someone moves a child's row to another parent in the database → the child's request is refused with the reason integrity")


def bound(case):
    """Children of a bound session: each child has a key of its own."""
    sandbox = Sandbox(case)
    broker = Broker(case, sandbox, settings=settings(sandbox, binding={"mode": "enforce"}))
    phone, watch = Phone(broker), Phone(broker)
    phone.sign_in()
    body = {"kind": "widget", "name": "home"}
    path = "/v1/session/children"
    case.same("401 proof_required", told(broker.call("POST", path, phone.session, body)), "a request for a child with only a bound session's cookie → refused")
    case.same("401 proof_required", told(phone.passing("POST", path, body=body)), "a request for a child with a pass instead of a proof → refused")
    keyless = phone.call("POST", path, phone.session, body)
    case.same(("400 invalid_request", "/jkt"), (told(keyless), keyless.json["errors"][0]["pointer"]), "a request for a child of a bound session without a key → refused, and the pointer is /jkt")
    case.same("400 invalid_request", told(phone.call("POST", path, phone.session, body | {"jkt": phone.thumbprint})), "a request for a child that names the parent's key as the child's key → refused")
    case.same(0, broker.query("SELECT count(*) FROM sessions WHERE parent IS NOT NULL")[0][0], "after refused requests for a child of a bound session → the store has no row of a child")
    made = phone.call("POST", path, phone.session, body | {"jkt": watch.thumbprint})
    case.same(("201", watch.thumbprint, None), (told(made), made.json["binding"]["jkt"], made.json.get("pass")), "a request for a child that names a key of the child's own → 201 without a pass")
    token = made.json["session_token"]
    watch.nonce = phone.nonce

    def shown(phone, method="GET", path="/v1/session"):
        return broker.call(method, path, Authorization=f"DPoP {token}", DPoP=phone.proof(method, path, token))

    case.same("401 proof_required", told(by(broker, token)), "a child's copied token without a proof → refused")
    case.same("401 proof_invalid key", told(shown(phone)), "a request with a child's token and a proof by the parent's key → refused")
    case.same("200", told(shown(watch)), "a request with a child's token and a proof by the child's own key → 200")
    granted = shown(watch, "POST", "/v1/session/pass")
    case.same(200, granted.status, "a child asks for a pass → 200")
    case.same((True, None), ("pass" in granted.json, granted.fields.get("Set-Cookie")), "a child asks for a pass → the pass is in the body, and no cookie is set")
    admin = case.folder / "admin"
    admin.write_text(ADMIN)
    printed = subprocess.run(
        [broker.program, "sessions", "list", "--no-header", "--management", broker.management, "--token-file", admin],
        capture_output=True, text=True, timeout=30).stdout
    case.same(
        sorted([[phone.thumbprint, "-", "-"], [watch.thumbprint, "widget", made.json["parent"]]]),
        sorted(line.split("\t")[7:] for line in printed.splitlines()), "coatcheck sessions list → has the keys of parent and child, and the child's kind and parent")
    case.same(204, phone.call("DELETE", "/v1/session", phone.session).status, "a bound parent logs out → 204")
    case.same("401 session_ended parent_ended", told(shown(watch)), "a bound parent has logged out → the child's request is refused as parent_ended")


CASES = {
    "asking": (asking, 180),
    "endings": (endings, 240),
    "bound": (bound, 120),
}

if __name__ == "__main__":
    main(CASES, __doc__)
