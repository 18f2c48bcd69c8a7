"""Hand-overs into a web view (guarantee 11). A Chromium takes the place of the web view. It opens a page of the broker's origin,
and a page of another site with its own backend.

    python handover.py
"""

import hashlib
import http.client
import http.server
import json
import pathlib
import secrets
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import BACKEND, Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.chromium import Chromium  # noqa: E402
from support.clock import Clock  # noqa: E402
from support.dpop import encoded  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

SECRET_COOKIE = "coatcheck-handover"


class Shop(http.server.BaseHTTPRequestHandler):
    """A page of another site. Its backend redeems the ticket in the address, with the secret in the request's cookie."""

    broker = None
    sessions = {}

    def do_GET(self):
        query = dict(urllib.parse.parse_qsl(urllib.parse.urlsplit(self.path).query))
        cookies = dict(part.strip().split("=", 1) for part in self.headers.get("Cookie", "").split(";") if "=" in part)
        if "handover" in query:
            answer = self.broker.call(
                "POST", "/v1/handovers/redeem", body={"ticket": query["handover"], "verifier": cookies.get(SECRET_COOKIE, "-")},
                X_Coatcheck_Backend=BACKEND)
            if answer.status != 200:
                return self.say(403, f"not signed in: {answer.status} {answer.json.get('code')}")
            own = secrets.token_urlsafe(16)
            self.sessions[own] = answer.json
            self.send_response(303)
            self.send_header("Location", "/")
            self.send_header("Set-Cookie", f"shop={own}; Path=/; HttpOnly; SameSite=Lax")
            self.send_header("Set-Cookie", f"{SECRET_COOKIE}=; Path=/; Max-Age=0")
            return self.end_headers()
        known = self.sessions.get(cookies.get("shop"))
        return self.say(200, f"the shop of {known['subject']}" if known else "the shop of nobody")

    def say(self, status, text):
        self.send_response(status)
        self.send_header("Content-Type", "text/html")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, *_):
        pass


class Stripping(http.server.BaseHTTPRequestHandler):
    """A proxy in front of a broker that removes `Sec-Fetch-*`, because old browsers and some proxies do not send these
    fields."""

    protocol_version = "HTTP/1.1"
    port = 0
    seen = []

    def pass_on(self):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
        connection.putrequest(self.command, self.path, skip_host=True, skip_accept_encoding=True)
        for name, value in self.headers.items():
            if not name.lower().startswith("sec-fetch-") and name.lower() != "connection":
                connection.putheader(name, value)
        self.seen.append((self.command, self.headers.get("Origin"), self.headers.get("Sec-Fetch-Site")))
        connection.endheaders(self.rfile.read(int(self.headers.get("Content-Length") or 0)))
        answer = connection.getresponse()
        body = answer.read()
        self.send_response(answer.status)
        for name, value in answer.getheaders():
            if name.lower() not in ("connection", "content-length", "transfer-encoding"):
                self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        connection.close()

    do_GET = do_POST = pass_on

    def log_message(self, *_):
        pass


def stripped(case):
    """Behind a proxy that removes `Sec-Fetch-*`, only the page's own `Origin` can show the source of a POST."""
    sandbox = Sandbox(case)
    proxy = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stripping)
    threading.Thread(target=proxy.serve_forever, daemon=True).start()
    origin = f"http://127.0.0.1:{proxy.server_port}"
    broker = Broker(case, sandbox, start=False)
    broker.configure(
        providers={"oidc": {"clients": {"ios": {"children": {"web": {"origins": [origin]}}}}}},
        server={"public_url": origin, "trusted_proxies": ["127.0.0.1"]})
    broker.start()
    Stripping.port = broker.port
    ana = broker.sign_in(user="ana")
    view = Chromium()
    try:
        def ticket():
            secret = secrets.token_urlsafe(32)
            answer = broker.call("POST", "/v1/session/handovers", ana, {
                "origin": origin, "path": "/v1/session", "challenge": encoded(hashlib.sha256(secret.encode()).digest())})
            return answer.json["url"], secret

        def put(secret):
            view.call("Network.setCookie", name=SECRET_COOKIE, value=secret, url=origin, httpOnly=True, sameSite="Strict")

        # A page without an origin, whose POSTs have the Origin `null`. Its browser has the secret.
        url, secret = ticket()
        put(secret)
        view.call("Page.navigate", url="data:text/html,<body><form method=post action='" + url + "'></form>")
        view.until("document.readyState === 'complete' && document.forms.length === 1")
        view.run("document.forms[0].submit(), 1")
        view.until("location.protocol === 'http:' && document.readyState === 'complete'")
        case.verdict("403 cross_origin" in view.run("document.body.innerText"), "a hand-over's POST whose Origin is null → 403 cross_origin", view.run("document.body.innerText"))
        case.same(("POST", "null"), Stripping.seen[-1][:2], "a POST that a browser sends from a page without an origin → has the Origin null")
        case.verdict(Stripping.seen[-1][2] is not None, "a browser's POST through a proxy that removes Sec-Fetch fields → the proxy itself received Sec-Fetch-Site")
        put(secret)
        view.call("Page.navigate", url=url)
        view.until("location.pathname === '/v1/session' && document.readyState === 'complete'")
        shown = json.loads(view.run("document.body.innerText"))
        case.same(("web", "user-ana"), (shown["kind"], shown["subject"]), "the broker's hand-over page sends its POST, and a proxy removes the Sec-Fetch fields → accepted because of the Origin")
        post = [one for one in Stripping.seen if one[0] == "POST"][-1]
        case.same(origin, post[1], "the POST of the broker's hand-over page → has the broker's Origin, despite the page's Referrer-Policy")
    finally:
        view.close()
        proxy.shutdown()


def hand_over(case):
    """An app hands its session over to a page of the broker, and to a page of another site."""
    sandbox = Sandbox(case)
    shop = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=shop.serve_forever, daemon=True).start()
    # With another host name, the page of the other site has cookies of its own.
    elsewhere = f"http://localhost:{shop.server_port}"
    clock = Clock(case)
    broker = Broker(case, sandbox, clock=clock, start=False)
    broker.configure(
        providers={"oidc": {"clients": {"ios": {"children": {"web": {"origins": [broker.url, elsewhere], "backends": ["orders"]}}}}}},
        backends={"orders": {"may": ["introspect", "handover"], "origins": [elsewhere]}})
    broker.start()
    Shop.broker = broker
    ana, ben = broker.sign_in(user="ana"), broker.sign_in(user="ben")

    def ticket(session, origin=broker.url, path="/v1/session"):
        secret = secrets.token_urlsafe(32)
        answer = broker.call("POST", "/v1/session/handovers", session, {
            "origin": origin, "path": path, "challenge": encoded(hashlib.sha256(secret.encode()).digest())})
        case.verdict(answer.status == 201, "an app's request for a hand-over ticket → 201", answer.body[:200])
        return answer.json["url"], secret

    view, thief = Chromium(), Chromium()
    try:
        def put(browser, secret, origin=broker.url):
            browser.call("Network.setCookie", name=SECRET_COOKIE, value=secret, url=origin, httpOnly=True, sameSite="Strict")

        def text(browser):
            # Read state and text in one expression, because the page with the button leads to another page.
            return browser.until(
                "document.readyState === 'complete' && document.body.innerText.trim() !== 'Continue' && document.body.innerText") or ""

        def opened(browser, url):
            browser.open(url)
            return text(browser)

        def cookies(browser):
            return {one["name"] for one in browser.call("Network.getAllCookies")["cookies"]}

        def forget(browser):
            browser.call("Network.clearBrowserCookies")

        url, secret = ticket(ana)
        case.verdict("400 verifier_mismatch" in opened(thief, url), "a thief opens a copied hand-over address without the hand-over's secret → 400 verifier_mismatch")
        put(thief, secrets.token_urlsafe(32))
        case.verdict("400 verifier_mismatch" in opened(thief, url), "a thief opens a copied hand-over address with another secret → 400 verifier_mismatch")
        case.same({SECRET_COOKIE}, cookies(thief), "a thief opens a copied hand-over address → the thief gets no session cookie")
        case.verdict("400 verifier_mismatch" in opened(view, ticket(ben)[0]), "a victim's web view opens the hand-over address of an attacker's session → 400 verifier_mismatch")
        case.same(set(), cookies(view), "a victim's web view opens the hand-over address of an attacker's session → the web view gets no cookie")
        for _ in range(3):
            broker.call("GET", urllib.parse.urlsplit(url).path)
        for fields in ({}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": elsewhere}):
            answer = broker.call(
                "POST", urllib.parse.urlsplit(url).path, body="", Cookie=f"{SECRET_COOKIE}={secret}", Accept="application/problem+json", **fields)
            case.same("cross_origin", answer.json.get("code"), f"a hand-over's POST from another page, with {fields} → cross_origin")
        put(view, secret)
        shown = json.loads(opened(view, url))
        case.same(("web", "ana"), (shown["kind"], shown["subject"].removeprefix("user-")), "the app's web view opens a hand-over address that a thief has tried → a web session of the app's user")
        case.same(broker.url + "/v1/session", view.run("location.href"), "the web view after the hand-over → the page's address has no ticket")
        case.same({"coatcheck-web"}, cookies(view), "the web view after the hand-over → has the cookie coatcheck-web, and the secret's cookie is gone")
        case.same([], [one for one in view.complaints() if "verifier" not in one and "400" not in one], "the web view after the hand-over → the browser reports no violated policy")
        case.same("", view.run("document.referrer").removeprefix(broker.url + "/"), "the web view after the hand-over → the page's referrer has no ticket")
        child = next(one["value"] for one in view.call("Network.getAllCookies")["cookies"] if one["name"] == "coatcheck-web")
        both = broker.call("GET", "/v1/session", Cookie=f"coatcheck={ana}; coatcheck-web={child}")
        case.same((200, None), (both.status, both.json["kind"]), "a request with both the app's and the web view's session cookie → gets the app's session")

        answer = broker.call(
            "POST", urllib.parse.urlsplit(url).path, body="", Cookie=f"{SECRET_COOKIE}={secret}", Origin=broker.url)
        case.verdict(
            answer.status == 303 and f"coatcheck-web={child};" in ", ".join(answer.fields.get_all("Set-Cookie")),
            "a hand-over's POST is repeated with the same secret and the broker's Origin → the same web session", answer.status)

        # The web view has another user's session.
        url, secret = ticket(ben)
        put(view, secret)
        case.verdict("409 other_session" in opened(view, url), "a hand-over when the web view has another user's session → 409 other_session")
        case.same({"coatcheck-web", SECRET_COOKIE}, cookies(view), "a hand-over when the web view has another user's session → the web view's session cookie and secret stay")
        forget(view)
        put(view, secret)
        case.same("user-ben", json.loads(opened(view, url))["subject"], "a hand-over after the web view's cookies were cleared → the new user's session")

        # A browser without scripts.
        forget(view)
        url, secret = ticket(ana)
        put(view, secret)
        view.call("Emulation.setScriptExecutionDisabled", value=True)
        view.open(url)
        case.same("Continue", view.run("document.body.innerText").strip(), "a hand-over in a browser without scripts → the hand-over page has a button")
        view.key("Tab")
        view.key("Enter")
        case.verdict(view.until("location.pathname === '/v1/session'"), "a user presses the hand-over page's button in a browser without scripts → the page opens")
        view.call("Emulation.setScriptExecutionDisabled", value=False)

        # A hand-over to a page of another site.
        forget(view)
        forget(thief)
        url, secret = ticket(ana, elsewhere, "/?basket=7")
        case.verdict(url.startswith(elsewhere + "/?basket=7&handover="), "a hand-over to another site → the ticket is in the address")
        case.verdict("400 verifier_mismatch" in opened(thief, url) or "400 invalid_request" in text(thief), "a thief opens a copied hand-over address of another site → refused")
        put(view, secrets.token_urlsafe(32), elsewhere)
        case.verdict("400 verifier_mismatch" in opened(view, ticket(ben, elsewhere, "/")[0]), "a victim opens the hand-over address of an attacker's session, for another site → 400 verifier_mismatch")
        put(view, secret, elsewhere)
        case.same("the shop of user-ana", opened(view, url), "a hand-over to another site → the site's backend redeems ticket and secret")
        case.same(elsewhere + "/", view.run("location.href"), "another site's page after the hand-over → the page's address has no ticket")

        # The web view uses the ticket too late.
        forget(view)
        url, secret = ticket(ana)
        put(view, secret)
        clock.set(wall=61, monotonic=61)
        case.verdict("410 handover_expired" in opened(view, url), "a web view opens a hand-over's address 61 seconds after the ticket was made → 410 handover_expired")
        clock.set()
        # When the app's session ends, the web view's session ends, too.
        url, secret = ticket(ana)
        put(view, secret)
        case.verdict("user-ana" in opened(view, url), "a web view opens a hand-over's address before the ticket expires → a session of the user")
        case.same(204, broker.log_out(ana).status, "a log-out of the app → 204")
        shown = opened(view, broker.url + "/v1/session")
        case.verdict("parent_ended" in shown, "a log-out of the app → the web view's session ends as parent_ended", shown)
    finally:
        view.close()
        thief.close()
        shop.shutdown()


if __name__ == "__main__":
    main({"hand_over": (hand_over, 240), "stripped": (stripped, 120)}, __doc__)
