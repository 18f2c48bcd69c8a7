"""Relayed calls with fields of frameworks and gateways, with unusual paths, and with ambiguous framing.

The sources of the attacks are in docs/known-attacks.md. The case makes the attacks first, and then an honest request.
"""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.raw_requests import head, raw, sent  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

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
        """Returns the paths of the calls that the upstream got."""
        return [item["path"] for item in sandbox.control("GET", "/requests?provider=api").json["items"]]

    cookie = f"Cookie: coatcheck={broker.sign_in()}"
    for name in INTERNAL:
        found = {}
        for form in {name, name.lower(), name.replace("-", "."), name.replace("-", "+"), name.replace("-", "_")}:
            status, _, body = raw(broker, "GET", "/v1/relay/narrow/echo", cookie, f"{form}: mallory")[0]
            found[form] = 400 if status == 400 and "_" in form else status if b"mallory" not in body else "arrived"
        case.same({form: 400 if "_" in form else 200 for form in found}, found, f"relayed calls with the field {name} in five spellings → a spelling with `_` gets 400, and the relay drops the others")
    sandbox.control("DELETE", "/requests")
    for trick in TRICKS:
        status, fields, _ = raw(broker, "GET", "/v1/relay/narrow/echo" + trick, cookie)[0]
        case.verdict(status in (400, 403, 404) and fields.get("coatcheck-source") != "upstream", f"a relayed path with {trick!r} → refused by the broker", str(status))
    case.same([], reached(), "all relayed paths with tricks → zero calls at the upstream")
    # Next: a second request after a request for another protocol, and a Connection field that names framing fields.
    behind = head(broker, "GET", "/v1/relay/narrow/bytes/10", cookie, "Connection: close")
    for protocol in ("websocket", "foo", "TLS/1.0"):
        found = sent(broker, head(broker, "GET", "/v1/relay/narrow/echo", cookie, "Connection: Upgrade", f"Upgrade: {protocol}") + behind)
        case.same([400], [status for status, _, _ in found], f"a relayed request with `Upgrade: {protocol}`, and a second request right behind it → the broker answers only the first, with 400")
    case.same([], reached(), "all requests with an `Upgrade`, and the requests after them → zero calls at the upstream")
    for framing, body in (("Transfer-Encoding: chunked", "5\r\nhello\r\n0\r\n\r\n"), ("Content-Length: 5", "hello")):
        for named in ("Transfer-Encoding", "Content-Length", "transfer-encoding, content-length, authorization, host"):
            first = head(broker, "POST", "/v1/relay/narrow/echo", cookie, "Content-Type: text/plain", framing, f"Connection: {named}")
            found = sent(broker, first + body + behind)
            kept = [(status, b"hello" in body, b"Bearer" in body) for status, _, body in found]
            case.same(
                [(200, True, True), (403, False, False)], kept, f"a relayed POST with {framing} and `Connection: {named}` → its body arrives, and the next request, to a forbidden path, gets 403")
    case.same(["/api/echo"] * 6, reached(), "six relayed requests with a body and a Connection field → exactly one call each at the upstream")
    status, _, body = raw(broker, "GET", "/v1/relay/narrow/echo", cookie)[0]
    case.verdict(status == 200 and b'"method"' in body, "a relayed call to the allowed path, without a trick → 200", str(status))


if __name__ == "__main__":
    main({"relayed": (relayed, 60)}, __doc__)
