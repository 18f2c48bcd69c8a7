"""Hand-overs into a web view, with a Chromium in its place: a page of the broker's origin, and one elsewhere with a backend of its
own (guarantee 11). Refusals before acceptances.

    python handover.py
"""

import hashlib
import http.server
import json
import pathlib
import secrets
import sys
import threading
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.chromium import Chromium  # noqa: E402
from support.dpop import encoded  # noqa: E402
from support.harness import BACKEND, Broker, Clock, Sandbox, main  # noqa: E402

SECRET_COOKIE = "coatcheck-handover"


class Shop(http.server.BaseHTTPRequestHandler):
    """A page elsewhere: its backend redeems the ticket of the address with the secret of that very request's cookie."""

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


def hand_over(case):
    """An app hands its session over to a page of ours, and to one elsewhere."""
    sandbox = Sandbox(case)
    shop = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Shop)
    threading.Thread(target=shop.serve_forever, daemon=True).start()
    # Another name, so that it has cookies of its own.
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
        case.verdict(answer.status == 201, "a ticket", answer.body[:200])
        return answer.json["url"], secret

    view, thief = Chromium(), Chromium()
    try:
        def put(browser, secret, origin=broker.url):
            browser.call("Network.setCookie", name=SECRET_COOKIE, value=secret, url=origin, httpOnly=True, sameSite="Strict")

        def text(browser):
            browser.until("document.readyState === 'complete' && document.body.innerText.trim() !== 'Continue'")
            return browser.run("document.body.innerText")

        def opened(browser, url):
            browser.open(url)
            return text(browser)

        def cookies(browser):
            return {one["name"] for one in browser.call("Network.getAllCookies")["cookies"]}

        def forget(browser):
            browser.call("Network.clearBrowserCookies")

        url, secret = ticket(ana)
        case.verdict("400 verifier_mismatch" in opened(thief, url), "a thief of the address sees that it cannot be opened")
        put(thief, secrets.token_urlsafe(32))
        case.verdict("400 verifier_mismatch" in opened(thief, url), "nor with a secret of his own")
        case.same({SECRET_COOKIE}, cookies(thief), "and has no cookie of ours")
        case.verdict("400 verifier_mismatch" in opened(view, ticket(ben)[0]), "an attacker's own address signs nobody in")
        case.same(set(), cookies(view), "here either")
        for _ in range(3):
            broker.call("GET", urllib.parse.urlsplit(url).path)
        for fields in ({}, {"Origin": "null"}, {"Sec_Fetch_Site": "cross-site"}, {"Origin": elsewhere}):
            answer = broker.call(
                "POST", urllib.parse.urlsplit(url).path, body="", Cookie=f"{SECRET_COOKIE}={secret}", Accept="application/problem+json", **fields)
            case.same("cross_origin", answer.json.get("code"), f"a post of no page of ours: {fields}")
        put(view, secret)
        shown = json.loads(opened(view, url))
        case.same(("web", "ana"), (shown["kind"], shown["subject"].removeprefix("user-")), "its own web view is signed in, after all that")
        case.same(broker.url + "/v1/session", view.run("location.href"), "at a clean address")
        case.same({"coatcheck-web"}, cookies(view), "with a cookie of its own, and the secret gone")
        case.same([], [one for one in view.complaints() if "verifier" not in one and "400" not in one], "and nothing that its policy forbids")
        case.same("", view.run("document.referrer").removeprefix(broker.url + "/"), "no address ever stood in a Referer")
        child = next(one["value"] for one in view.call("Network.getAllCookies")["cookies"] if one["name"] == "coatcheck-web")
        both = broker.call("GET", "/v1/session", Cookie=f"coatcheck={ana}; coatcheck-web={child}")
        case.same((200, None), (both.status, both.json["kind"]), "both cookies in one jar: the app's session is untouched")

        answer = broker.call(
            "POST", urllib.parse.urlsplit(url).path, body="", Cookie=f"{SECRET_COOKIE}={secret}", Origin=broker.url)
        case.verdict(
            answer.status == 303 and f"coatcheck-web={child};" in ", ".join(answer.fields.get_all("Set-Cookie")),
            "a lost answer is repeated to the same secret, without Sec-Fetch-Site by our Origin", answer.status)

        # Somebody else's.
        url, secret = ticket(ben)
        put(view, secret)
        case.verdict("409 other_session" in opened(view, url), "over somebody else's session nothing is replaced in silence")
        case.same({"coatcheck-web", SECRET_COOKIE}, cookies(view), "and nothing is spent")
        forget(view)
        put(view, secret)
        case.same("user-ben", json.loads(opened(view, url))["subject"], "with its cookies cleared it is opened")

        # Without scripts.
        forget(view)
        url, secret = ticket(ana)
        put(view, secret)
        view.call("Emulation.setScriptExecutionDisabled", value=True)
        view.call("Page.navigate", url=url)
        view.until("document.readyState === 'complete'")
        case.same("Continue", view.run("document.body.innerText").strip(), "where scripts are off there is a button")
        view.key("Tab")
        view.key("Enter")
        case.verdict(view.until("location.pathname === '/v1/session'"), "which does the same")
        view.call("Emulation.setScriptExecutionDisabled", value=False)

        # Elsewhere.
        forget(view)
        forget(thief)
        url, secret = ticket(ana, elsewhere, "/?basket=7")
        case.verdict(url.startswith(elsewhere + "/?basket=7&handover="), "a page elsewhere gets the ticket in its address")
        case.verdict("400 verifier_mismatch" in opened(thief, url) or "400 invalid_request" in text(thief), "its thief gets nothing there")
        put(view, secrets.token_urlsafe(32), elsewhere)
        case.verdict("400 verifier_mismatch" in opened(view, ticket(ben, elsewhere, "/")[0]), "an attacker's own address signs nobody in there")
        put(view, secret, elsewhere)
        case.same("the shop of user-ana", opened(view, url), "its backend redeems ticket and secret")
        case.same(elsewhere + "/", view.run("location.href"), "at a clean address")

        # Late.
        forget(view)
        url, secret = ticket(ana)
        put(view, secret)
        clock.set(wall=61, monotonic=61)
        case.verdict("410 handover_expired" in opened(view, url), "after 61 seconds it is over")
        clock.set()
        # With the app.
        url, secret = ticket(ana)
        put(view, secret)
        opened(view, url)
        case.same(204, broker.log_out(ana).status, "the app's log-out")
        case.verdict("parent_ended" in opened(view, broker.url + "/v1/session"), "is the page's")
    finally:
        view.close()
        thief.close()
        shop.shutdown()


if __name__ == "__main__":
    main({"hand_over": (hand_over, 240)}, __doc__)
