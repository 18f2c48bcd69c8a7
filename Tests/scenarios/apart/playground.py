"""The playground in a headless Chromium: every provider and every switch is clicked, and the display is checked.

    python playground.py [--pictures FOLDER]

scripts/run starts it, as for a user; COATCHECK and COATCHECK_SANDBOX name the programs (else the built ones).
"""

import argparse
import http.client
import json
import os
import pathlib
import re
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.chromium import Chromium  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402

root = pathlib.Path(__file__).resolve().parents[3]
verdicts = Verdicts()
say, same = verdicts.verdict, verdicts.same


def programs():
    """The two programs, for scripts/run to run them as they are."""
    environment = dict(os.environ)
    for name, program in (("COATCHECK", "coatcheck"), ("COATCHECK_SANDBOX", "coatcheck-sandbox")):
        for folder in ("dist", "debug"):
            path = root / ".build" / folder / program
            if name not in environment and path.exists():
                environment[name] = str(path)
    return environment


class Run:
    """scripts/run, from its first line to its end."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [root / "scripts/run", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=programs(), start_new_session=True)
        self.said = b""
        end = time.monotonic() + 120
        while b"/playground/\n" not in self.said:
            ready = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            read = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not read:
                raise SystemExit(f"Bail out! scripts/run did not start: {self.said.decode()[-800:]}")
            self.said += read
        self.text = self.said.decode()
        self.url = re.search(r"http\S+/playground/", self.text).group(0)
        self.sandbox = self.url.removesuffix("/playground/")
        self.broker = re.search(r"BROKER=(\S+)", self.text).group(1)

    def broker_pid(self):
        return pathlib.Path(self.folder, "broker.pid").read_text().strip()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


def control(run, path):
    with urllib.request.urlopen(f"{run.sandbox}/_sandbox{path}", timeout=20) as answer:
        return json.load(answer)


def ask(run, method, path, headers=None, body=None):
    """A request with exactly these fields; the status, and the body."""
    connection = http.client.HTTPConnection(run.sandbox.removeprefix("http://"), timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": run.sandbox.removeprefix("http://"), **(headers or {})}.items():
        connection.putheader(name, value)
    data = (body or "").encode()
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers


def refusals(run):
    """Callers that are refused."""
    _, page, headers = ask(run, "GET", "/playground/")
    token = re.search(r'playground-token" content="([^"]+)"', page).group(1)
    good = {"Content-Type": "application/json", "Playground-Token": token}
    call = lambda **changed: ask(run, "POST", "/playground/clear", {k: v for k, v in {**good, **changed}.items() if v}, "{}")[0]
    same(421, call(Host="evil.example"), "the sandbox under another host name (DNS rebinding) → 421")
    same(421, ask(run, "GET", "/playground/", {"Host": "evil.example:80"})[0], "the page under another host name → 421, so its token stays secret")
    same(403, call(Origin="https://evil.example"), "an order from another site's page → 403")
    same(403, call(Origin="http://127.0.0.1:1"), "an order from a page on another port → 403")
    same(415, call(**{"Content-Type": "text/plain"}), "an order with a media type that a form can send → 415")
    same(403, call(**{"Playground-Token": None}), "an order without the page's token → 403")
    same(403, call(**{"Playground-Token": "A" * len(token)}), "an order with another token → 403")
    same(200, call(Origin=run.sandbox), "an order from the playground's own page → 200")
    same(403, ask(run, "DELETE", "/_sandbox/faults", {"Origin": "https://evil.example"})[0], "a call of /_sandbox from another site's page → 403")
    same(421, ask(run, "GET", "/_sandbox/tokens", {"Host": "evil.example"})[0], "a call of /_sandbox under another host name → 421")
    say("default-src 'none'" in headers["Content-Security-Policy"], "the page's policy → allows its own files alone")


def pasted(run):
    """The lines that scripts/run prints, pasted."""
    block = run.text[run.text.index("A login,"):run.text.index("For operators:")]
    lines = "\n".join(line[2:] for line in block.splitlines() if line.startswith("  "))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["bash", "-u", "-c", lines], cwd=folder, capture_output=True, text=True, timeout=60)
    statuses = re.findall(r"HTTP/1.1 (\d+)", done.stdout)
    same("201 204 201 201", " ".join(statuses), "the lines that scripts/run prints, pasted → log in, log out, and log in at Zephr in both ways")


# Whether the phone's buttons are visible: its top is in sight, and most of it.
phone_in_sight = "(r => r.top > -20 && r.top < innerHeight / 2)(document.querySelector('.phone').getBoundingClientRect())"


class Page:
    """The page, and a user's actions on it."""

    def __init__(self, browser):
        self.browser = browser

    def opened(self):
        """Counts the unanswered orders; the phone accepts one at a time."""
        self.browser.run(
            "window.pending = 0; const plain = window.fetch; window.fetch = (url, options) => { if (url === 'wait') return plain(url, options);"
            "window.pending += 1; return plain(url, options).finally(() => { window.pending -= 1; }); }; 1")

    def click(self, selector):
        """Clicks when no other order is in progress."""
        self.browser.until("window.pending === 0 && document.getElementById('busy').hidden", 75)
        self.browser.click(selector)

    def sees(self, script, sentence, seconds=30):
        seen = self.browser.until(script, seconds)
        say(seen, sentence, "" if seen else self.browser.text("main")[:900])
        return seen

    def idle(self, seconds=70):
        return self.browser.until("document.getElementById('busy').hidden", seconds)

    def provider(self, name):
        self.click(f"[data-provider={name}]")
        self.browser.until("document.querySelector('[data-person=ana]:enabled') && 1")

    def sign_in(self, name, person="ana"):
        self.provider(name)
        self.click(f"[data-person={person}]")

    def signed_in(self, sentence, name="Ana"):
        return self.sees(f"document.getElementById('call')?.disabled === false && document.getElementById('name').innerText.startsWith('{name}')", sentence)

    def sign_out(self):
        self.click("#sign-out")
        self.browser.until("document.querySelector('[data-provider=oidc]:enabled') && 1")

    def handle(self):
        return self.browser.run("document.querySelector('.facts dd')?.innerText")

    def arrows(self):
        return self.browser.run("[...document.querySelectorAll('#messages .label')].map(e => e.innerText.trim())")

    def notices(self):
        """The number of notices about the user's view."""
        return self.browser.run("Number(document.getElementById('noticed').dataset.count)")

    def trouble(self, name, seconds=75):
        """Throws a switch; returns the user's view of it, and the reason."""
        before = self.notices()
        (self.browser if name == "kill-provider" else self).click(f"[data-trouble={name}]")
        self.browser.until(f"Number(document.getElementById('noticed').dataset.count) > {before}", seconds)
        self.idle(seconds)
        return self.browser.text("#noticed"), self.browser.text("#explanation")


def providers(page):
    """Every provider, once."""
    for name, title in (("oidc", "OpenID Connect"), ("cloudentity", "Cloudentity"), ("clever", "Clever"), ("clover", "Clover"),
                        ("github", "GitHub style"), ("zephr", "Zephr")):
        page.sign_in(name)
        page.signed_in(f"{title}, a sign-in → the phone shows the user", "ana@" if name == "zephr" else "Ana")
        page.click("#call")
        page.sees("document.getElementById('relay')?.innerText.includes('200.')", f"{title}, a call → the API answers through the relay")
        page.sees("document.getElementById('live').innerText === 'events on'", f"{title}, a session → the phone listens to events")
        page.sign_out()
        page.sees("document.getElementById('word')?.innerText === 'You are signed out.'", f"{title}, a sign-out → the phone shows it")
    said = page.arrows()
    for arrow in ("POST /v1/logins", "POST /v1/sessions", "POST /oidc/token", "POST /clever/oauth/tokens", "GET /v1/session/events",
                  "DELETE /v1/session", "event: session_ended"):
        say(any(arrow in each for each in said), f"the diagram after all sign-ins → has {arrow}", said[-30:])
    page.sign_in("zephr", "refuse")
    page.sees("document.getElementById('word')?.innerText.includes('access_denied')", "Zephr, a refused sign-in → the phone shows access_denied")
    page.sign_in("zephr", "new")
    page.sees("document.querySelector('#registration input') && document.getElementById('screen').innerText.includes('Almost there')",
              "Zephr, a partial registration → the phone asks for the missing attributes")


def switches(page, run):
    """Every switch, once."""
    browser = page.browser
    page.sign_in("oidc")
    page.signed_in("a sign-in before the switches → the phone shows the user")
    handle = page.handle()
    same(("Nothing.", True), (lambda n, w: (n, "once" in w))(*page.trouble("expire-token")), "the switch expire-token → the user noticed nothing")
    say("event: tokens_refreshed" in page.arrows(), "the switch expire-token → the diagram has the refresh's event")
    noticed, why = page.trouble("drop-answer")
    say(noticed.startswith("Nothing"), "the switch drop-answer → the user noticed nothing, or a pause", (noticed, why))
    say(any("no answer" in arrow for arrow in page.arrows()), "the switch drop-answer → the diagram has the lost answer")

    noticed, why = page.trouble("kill-provider")
    say(noticed == "Nothing." and "Still signed in" in why, "the switch kill-provider → the user noticed nothing", (noticed, why))
    same("Revive the provider", browser.text("[data-trouble=kill-provider] b"), "the switch kill-provider → offers to revive the provider")
    browser.click("[data-trouble=expire-token]")
    page.sees("document.getElementById('busy').innerText.includes('trying again')", "expire-token while the provider is dead → the phone waits")
    same(handle, page.handle(), "expire-token while the provider is dead → the same session")
    before = page.notices()
    browser.click("[data-trouble=kill-provider]")
    # One notice is for the restart, the other for the delayed call.
    browser.until(f"Number(document.getElementById('noticed').dataset.count) >= {before + 2}", 75)
    page.sees("document.getElementById('noticed').textContent.startsWith('Nothing but a pause')", "a revived provider → the waiting call goes on after a pause", 75)
    page.idle()
    same(handle, page.handle(), "a revived provider → the same session")

    before = control(run, "/counts").get("oidc/token", 0)
    noticed, why = page.trouble("fifty-forwards")
    same("Nothing.", noticed, "fifty forwards of one code → the user noticed nothing")
    same(before + 1, control(run, "/counts").get("oidc/token", 0), "fifty forwards of one code → one call at the provider")
    page.signed_in("fifty forwards of one code → the phone shows the user")
    noticed, why = page.trouble("steal-code")
    say("403 login_not_yours" in why, "the switch steal-code → the thief is refused", (noticed, why))
    page.signed_in("the switch steal-code → the phone shows its user")
    noticed, why = page.trouble("steal-cookie")
    same("Nothing, and the thief is in.", noticed, "the switch steal-cookie → the phone says that the thief is in")
    page.sign_out()
    page.sees("document.getElementById('explanation').innerText.includes('401, logged_out')", "a sign-out after steal-cookie → the thief gets 401")

    page.sign_in("oidc", "ben")
    page.signed_in("Ben signs in → the phone shows Ben", "Ben")
    noticed, why = page.trouble("log-out-elsewhere")
    same("“You were signed out from another device.”", noticed, "the switch log-out-elsewhere → this session ends")
    same("You were signed out from another device.", browser.text("#word"), "the switch log-out-elsewhere → the phone says why")

    page.sign_in("oidc")
    page.signed_in("a sign-in before kill-broker → the phone shows the user")
    handle, pid = page.handle(), run.broker_pid()
    noticed, why = page.trouble("kill-broker")
    say(noticed.startswith("Nothing") and "same cookie" in why, "the switch kill-broker → the user noticed a pause at most", (noticed, why))
    say(pid != run.broker_pid(), "the switch kill-broker → scripts/run starts another process")
    same(handle, page.handle(), "the switch kill-broker → the same session")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a call after kill-broker → the API answers 200")
    page.sees("document.getElementById('live').innerText === 'events on'", "the switch kill-broker → the phone listens to events again")
    page.sign_out()

    page.sign_in("clover")
    page.signed_in("a sign-in with Clover → the phone shows the user")
    noticed, why = page.trouble("drop-answer")
    say(noticed.startswith("Nothing") and "recovery" in why, "Clover, the switch drop-answer → the tokens are recovered", (noticed, why))
    page.click("#listen")
    page.sees("document.getElementById('live').innerText === 'events off'", "the button for events → stops them")
    page.sign_out()


def bound(page, run, shots):
    """A session that belongs to a key of the phone's browser, and the thief of its cookie; the result is a picture's size."""
    browser = page.browser
    token = browser.run("document.querySelector('meta[name=playground-token]').content")
    good = {"Content-Type": "application/json", "Playground-Token": token}
    same(403, ask(run, "POST", "/playground/key", good | {"Playground-Token": "none"}, "{}")[0], "a device key from another page → 403")
    same(409, ask(run, "POST", "/playground/signed", good, json.dumps({"number": 1, "signature": "A" * 86}))[0], "a signature for which no request waits → 409")
    same(409, ask(run, "POST", "/playground/key", good, json.dumps({"x": "AA", "y": "AA"}))[0], "a device key that is not a point of the curve → 409")
    same(False, browser.run("deviceKey.privateKey.extractable"), "the device's key → cannot be exported")
    again = browser.run("Promise.all([findKey(), findKey()]).then(keys => Promise.all(keys.map(k => crypto.subtle.exportKey('jwk', k.publicKey)))).then(all => all.map(k => k.x))")
    same([browser.run("crypto.subtle.exportKey('jwk', deviceKey.publicKey).then(k => k.x)")] * 2, again, "two pages of one browser → have one key")
    same("private", browser.run("(async () => { const open = IDBFactory.prototype.open; IDBFactory.prototype.open = () => { throw new Error('kept nowhere'); };"
                                " try { return (await findKey()).privateKey.type; } finally { IDBFactory.prototype.open = open; } })()"),
         "a browser that stores nothing → the page has a key")
    page.click("#clear")
    browser.until("document.querySelectorAll('#messages li').length === 0")
    page.sign_in("oidc-bound")
    page.signed_in("a sign-in with a proof → the phone shows the user")
    page.sees("document.querySelector('.facts').innerText.includes('of this phone')", "a sign-in with a proof → the phone says that the session belongs to its key")
    said = page.arrows()
    say(any("401 use_dpop_nonce" in each for each in said), "a sign-in with a proof → the diagram has the refusal that brings the nonce", said)
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a call with the pass → the API answers 200")
    page.sees("document.getElementById('live').innerText === 'events on'", "a session with a pass → the phone listens to events")
    shown = browser.run("document.getElementById('messages').textContent")
    say('"htm":"POST"' in shown and '"typ":"dpop+jwt"' in shown, "a bound session's diagram → shows the contents of the proofs")
    say("DPoP: " in shown and not re.search(r"DPoP: [\w-]{40}", shown), "a bound session's diagram → shows proofs shortened")
    say("coatcheck-pass=" in shown and not re.search(r"coatcheck-pass=[\w-]{16}", shown), "a bound session's diagram → shows passes shortened")
    handle = page.handle()
    page.click("#clear")
    noticed, why = page.trouble("steal-cookie")
    size = browser.picture(f"{shots}/playground-bound.webp")
    same("Nothing, and the thief gets nothing.", noticed, "steal-cookie of a bound session → the thief gets nothing")
    say("The copied cookie got 401 proof_required, with a proof" in why, "steal-cookie of a bound session, the cookie alone → 401 proof_required", why)
    say("own key 401 proof_invalid (key):" in why, "steal-cookie of a bound session, with the thief's own key → 401 proof_invalid", why)
    say("got 200: there the thief is in" in why, "steal-cookie of an unbound session → 200", why)
    thief = browser.run("[...document.querySelectorAll('#messages summary')].map(e => e.getAttribute('aria-label')).filter(e => e.startsWith('thief'))")
    tones = browser.run("[...document.querySelectorAll('#messages li.answer')].filter(e => e.querySelector('summary').getAttribute('aria-label').includes(': 200 OK') && e.querySelector('.who')?.innerText === 'thief').map(e => e.classList.contains('bad'))")
    same([True], tones, "a thief's 200 in the diagram → red")
    same(["GET /v1/session", "401 proof_required", "GET /v1/session", "401 proof_invalid", "GET /v1/session", "200 OK"],
         [each.split(": ", 1)[1] for each in thief], "steal-cookie of a bound session → the diagram has the thief's calls and their answers")
    same(handle, page.handle(), "steal-cookie of a bound session → the phone has the same session")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a call after steal-cookie → the API answers 200")
    page.trouble("kill-provider")
    noticed, why = page.trouble("steal-cookie")
    say(noticed.endswith("gets nothing.") and "could not sign in" in why, "steal-cookie while the provider is dead → the thief gets nothing", (noticed, why))
    noticed, why = page.trouble("log-out-elsewhere")
    same(("Nothing.", True), (noticed, "could not sign in" in why), "log-out-elsewhere while the provider is dead → the user stays signed in")
    page.trouble("kill-provider")
    same(handle, page.handle(), "log-out-elsewhere while the provider was dead → the same session")
    browser.run("window.isOld = true, setTimeout(() => location.reload(), 0), 1")
    browser.until("window.isOld === undefined && document.getElementById('call')?.disabled === false && typeof deviceKey === 'object' && deviceKey !== undefined")
    page.opened()
    noticed, why = page.trouble("steal-code")
    say("403 login_not_yours" in why, "steal-code after a reload of the page → the thief is refused", (noticed, why))
    page.signed_in("steal-code after a reload of the page → the phone is signed in with the same key")
    noticed, why = page.trouble("log-out-elsewhere")
    same("“You were signed out from another device.”", noticed, "log-out-elsewhere with a bound session → the session ends without a proof")
    page.sign_in("oidc-bound")
    page.signed_in("another sign-in with a proof → the phone shows the user")
    noticed, why = page.trouble("fifty-forwards")
    same("Nothing.", noticed, "fifty forwards of an unbound sign-in → the user noticed nothing")
    page.sign_out()
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('.label')].every(e => e.scrollWidth <= e.clientWidth + 1)",
              "a bound session's page on a small screen → fits")
    browser.size(1280, 1020)
    return size


def web_view(page, shots):
    """The app's page in a web view, signed in; a thief of its address, and one of its cookie. The result is a picture's size."""
    browser = page.browser
    page.sign_in("clever")
    page.signed_in("a sign-in at a provider without web children → the phone shows the user")
    say(browser.run("document.getElementById('open-shop') === null && document.querySelector('[data-trouble=steal-address]').disabled"),
        "a client without web children → has no button for the shop and no address to steal")
    page.sign_out()
    page.click("#clear")
    page.sign_in("oidc")
    page.signed_in("a sign-in before the shop → the phone shows the user")
    handle = page.handle()
    page.click("#open-shop")
    page.sees("document.getElementById('shop')?.innerText.includes('Welcome, Ana')", "the shop in the web view → shows the user")
    shop = browser.text("#shop")
    say("kind “web”" in shop and "ses_" in shop and handle not in shop, "the shop's session → of kind web, and not the app's", shop)
    say("/v1/session" in shop and "handover" not in shop, "the shop's address → has no ticket", shop)
    sent = lambda who: browser.run(
        f"[...document.querySelectorAll('#messages summary')].map(e => e.getAttribute('aria-label').replace('broker to app', 'to app')).filter(e => e.includes('{who}'))")
    say(any("POST /v1/session/handovers" in each for each in page.arrows()), "an opened shop → the diagram has the order of the ticket")
    seen = [each.split(": ", 1)[1] for each in sent("web view")]
    same([True, "200 OK", True, "303 See Other", "GET /v1/session", "200 OK"],
         [each.startswith(("GET /handover/", "POST /handover/")) or each for each in seen], "an opened shop → the diagram has the web view's calls and their answers")
    shown = browser.run("document.getElementById('messages').textContent")
    for name in ("coatcheck-handover=", "coatcheck-web=", "/handover/"):
        say(name in shown and not re.search(re.escape(name) + r"[\w-]{12}", shown), f"an opened shop, the value of {name} in the diagram → shortened")
    page.click("#clear")
    noticed, why = page.trouble("steal-address")
    browser.run("scrollTo(0, 0), 1")
    size = browser.picture(f"{shots}/playground-web-view.webp")
    same("Nothing, and the address gets the thief nothing.", noticed, "the switch steal-address → the thief gets nothing")
    say("The copied address got 400 verifier_mismatch, with a secret of the thief's own 400 verifier_mismatch:" in why,
        "the switch steal-address → refused without the secret and with another one", why)
    thief = [each.split(": ", 1)[1] for each in sent("thief")]
    same([True, "200 OK", True, "400 verifier_mismatch", True, "400 verifier_mismatch", "GET /v1/session", "200 OK"],
         [each.startswith(("GET /handover/", "POST /handover/")) or each for each in thief], "the switch steal-address → the diagram has the thief's calls and their answers")
    page.sees("document.getElementById('shop')?.innerText.includes('Welcome, Ana')", "the switch steal-address → the app's own web view opens the shop")
    say("The page's own cookie, copied, got 200, and ends with" in why, "the copied cookie of the shop → opens the shop while the app is signed in", why)
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a call after steal-address → the API answers 200")
    same(handle, page.handle(), "the switch steal-address → the app keeps its session")
    page.click("#clear")
    page.sign_out()
    page.sees("document.getElementById('explanation').innerText.includes('401, parent_ended')", "the app's log-out → the copied cookie of the shop gets 401 parent_ended")
    same(["GET /v1/session", "401 session_ended"] * 2, [each.split(": ", 1)[1] for each in sent("web view") + sent("thief")], "the app's log-out → the diagram has the 401 of web view and thief")
    return size


def payments(page, run, shots):
    """20 € require a fresh sign-in, 500 € the user's presence; returns the pictures' sizes."""
    browser = page.browser
    taken = lambda: [each["amount"] for each in json.load(urllib.request.urlopen(f"{run.sandbox}/api/payments", timeout=20))["payments"]]
    page.sign_in("clever")
    page.signed_in("a sign-in at a provider without payments → the phone shows the user")
    say(browser.run("document.getElementById('pay-20') === null && document.querySelector('[data-trouble=ignore-step-up]').disabled"),
        "a provider that omits the time of the sign-in → the phone has no payments")
    page.sign_out()
    page.sign_in("oidc")
    page.signed_in("a sign-in before the payments → the phone shows the user")
    say(browser.run("document.querySelector('[data-trouble=steal-presence]').disabled"), "a session without a key → the switch steal-presence is disabled")
    handle = page.handle()
    noticed, why = page.trouble("ignore-step-up")
    same("That nothing was paid; they are still signed in.", noticed, "the provider ignores the step-up → nothing is paid")
    say("403 step_up_failed" in why and "as it was" in why, "the provider ignores the step-up → step_up_failed, and the session is unchanged", why)

    def asked():
        page.click("#pay-20")
        page.sees("document.getElementById('step-up')?.innerText.includes('To pay 20 €')", "a payment of 20 € → the provider's page opens and names the payment")

    def unpaid(press, words, sentence):
        before = page.notices()
        asked()
        page.click(press)
        page.sees(f"Number(document.getElementById('noticed').dataset.count) > {before} && document.getElementById('explanation').innerText.includes('{words}')"
                  " && document.getElementById('pay-20')?.disabled === false", sentence)
        same(handle, page.handle(), "a step-up that failed → the same session")

    unpaid(".push", "The browser was closed", "the user closes the browser during a step-up → nothing is paid")
    unpaid("[data-person=refuse]", "403 access_denied", "the user refuses at the provider during a step-up → access_denied")
    unpaid("[data-person=ben]", "409 subject_mismatch", "another user signs in during a step-up → subject_mismatch")
    same([], taken(), "three failed step-ups → the API took no payment")
    page.click("#clear")
    asked()
    sizes = [browser.picture(f"{shots}/playground-step-up.webp")]
    page.click("[data-person=ana]")
    page.sees("document.getElementById('paid')?.innerText.includes('20 EUR, by user-ana')", "Ana signs in again during a step-up → the payment is made")
    same((handle, [20]), (page.handle(), taken()), "a payment with a step-up → made once, in the same session")
    say("401 step_up_required" in page.arrows(), "a payment with a step-up → the diagram has the challenge", page.arrows())
    page.sign_out()

    page.sign_in("oidc-bound")
    page.signed_in("a sign-in with a key before a payment of 500 € → the phone shows the user")
    say(browser.run("presenceKey.privateKey.extractable === false && presenceKey !== deviceKey"), "the presence key → another key than the device's, and cannot be exported")
    page.click("#pay-500")
    page.sees("document.querySelector('[data-person=ana]:enabled') && document.getElementById('step-up') && 1", "a payment of 500 € → a fresh sign-in comes first")
    page.click("[data-person=ana]")
    page.sees("!document.getElementById('question').hidden && document.getElementById('asked').innerText.includes('Let this phone confirm')", "a payment of 500 € after the fresh sign-in → the phone asks whether it may confirm")
    say("stands in for it" in browser.text("#question"), "the phone's question → the page says that it stands in for a phone's dialog")
    same(True, browser.run("document.getElementById('screen').inert && document.activeElement.id === 'yes'"), "the phone's question → the rest of the phone cannot be pressed")
    browser.click("#no")
    page.sees("document.getElementById('question').hidden && document.getElementById('explanation').innerText.includes('did not say yes')", "the user says no to the key → the phone says that the user did not say yes")
    page.click("#pay-500")
    page.sees("document.getElementById('asked').innerText.includes('Let this phone confirm') && !document.getElementById('question').hidden", "a payment of 500 € after a no → the phone asks about the key again")
    browser.click("#yes")
    page.sees("document.getElementById('asked').innerText.includes('Pay 500 €') && !document.getElementById('question').hidden", "the user says yes to the key → the phone asks about the payment")
    browser.click("#yes")
    page.sees("document.getElementById('paid')?.innerText.includes('500 EUR')", "the user says yes to the payment → it is made")
    page.sees("document.querySelector('.facts').innerText.includes('another key')", "a session with a presence key → the phone shows the key")
    page.click("#clear")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees("!document.getElementById('question').hidden", "the switch steal-presence → the phone asks its user")
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth && (r => r.left >= 0 && r.right <= innerWidth)(document.getElementById('yes').getBoundingClientRect())",
              "the phone's question on a small screen → fits")
    browser.run("scrollTo(0, document.body.scrollHeight), 1")
    browser.key("Escape")
    page.sees("document.getElementById('question').hidden && document.getElementById('explanation').innerText.includes('did not say yes')", "the Escape key in the phone's question → counts as a no")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees(f"!document.getElementById('question').hidden && {phone_in_sight}", "the phone's question → scrolls the phone into view")
    browser.size(1280, 1020)
    same(True, browser.run("['header', '.talk', '.trouble'].every(part => document.querySelector(part).inert)"), "the phone's question → the rest of the page cannot be pressed")
    browser.click("#yes")
    browser.until(f"Number(document.getElementById('noticed').dataset.count) > {before}", 60)
    same(False, browser.run("document.querySelector('.trouble').inert"), "an answered question → the page can be pressed again")
    page.idle()
    same("The phone's question, and the thieves get nothing.", browser.text("#noticed"), "the switch steal-presence → the thieves get nothing")
    say(all(f"presence_invalid ({reason})" in browser.text("#explanation") for reason in ("address", "replayed", "key")),
        "the switch steal-presence → refused at another path, as a repeat and with another key", browser.text("#explanation"))
    same([20, 500, 500], taken(), "the switch steal-presence → the API took the user's payments alone")
    browser.run("scrollTo(0, 0), 1")
    sizes.append(browser.picture(f"{shots}/playground-presence.webp"))
    page.sign_out()

    # A sign-in of an hour ago, on a small screen: the step-up comes first, and then the thieves.
    page.sign_in("oidc-bound")
    page.signed_in("one more sign-in with a key → the phone shows the user")
    browser.size(390, 844)
    browser.run("document.querySelector('[data-trouble=steal-presence]').scrollIntoView(), 1")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees(f"document.getElementById('step-up') && {phone_in_sight}", "steal-presence an hour after the sign-in → the provider's page scrolls the phone into view")
    say("phone waits for you" in browser.text("[data-trouble=steal-cookie]"), "a switch that needs the session while the phone waits → says that the phone waits", browser.text("[data-trouble=steal-cookie]"))
    browser.run("document.querySelector('[data-trouble=steal-cookie]').scrollIntoView(), 1")
    browser.click("[data-trouble=steal-cookie]")
    page.sees(phone_in_sight, "a click on a switch while the phone waits → leads to the phone")
    page.click("[data-person=ana]")
    page.sees("document.getElementById('asked').innerText.includes('Let this phone confirm') && !document.getElementById('question').hidden", "steal-presence after a fresh sign-in → the phone asks about the key")
    browser.click("#yes")
    page.sees("document.getElementById('asked').innerText.includes('Pay 500 €') && !document.getElementById('question').hidden", "steal-presence with a new key → the phone asks about the payment")
    before = page.notices()
    browser.click("#yes")
    browser.until(f"Number(document.getElementById('noticed').dataset.count) > {before}", 60)
    page.idle()
    same("The phone's question, and the thieves get nothing.", browser.text("#noticed"), "steal-presence after a fresh sign-in → the thieves get nothing")
    browser.size(1280, 1020)
    page.sign_out()
    return sizes


def groups(page):
    """The switches by the source of the trouble; in each group, the switches that fit the moment come first."""
    browser = page.browser
    same(["The network and the provider", "A thief", "The user"], browser.run("[...document.querySelectorAll('#switches h3')].map(e => e.innerText)"), "the switches → in three groups")
    order = "[...document.querySelectorAll('#switches .switches')].map(list => [...list.children].map(e => e.dataset.fits === 'true'))"
    sorted_first = "(lists => lists.every(l => l.every((fits, i) => fits || !l.slice(i).includes(true))))"
    page.sees(f"{sorted_first}({order}) && {order}.flat().includes(false)", "the switches without a session → the fitting ones come first")
    page.sign_in("oidc")
    page.signed_in("a sign-in before the groups → the phone shows the user")
    page.sees(f"{sorted_first}({order})", "the switches with a session → the fitting ones come first")
    same("expire-token", browser.run("document.querySelector('#switches .switch').dataset.trouble"), "the fitting switches with a session → in their own order")
    page.sign_out()


def diagram(page):
    """The diagram follows the messages, and shows it while the user looks elsewhere."""
    browser = page.browser
    at_end = "(b => b.scrollHeight - b.scrollTop - b.clientHeight < 40)(document.getElementById('scroller'))"
    page.sign_in("oidc")
    page.signed_in("a sign-in before the diagram → the phone shows the user")
    page.click("#call")
    page.idle()
    page.sees(f"document.querySelectorAll('#messages li').length > 12 && {at_end}", "a call → the diagram scrolls to its end")
    browser.run("[...document.querySelectorAll('#messages summary')].at(-6).click(), 1")
    # The event of an earlier scroll arrives now.
    browser.run("document.getElementById('scroller').dispatchEvent(new Event('scroll')), 1")
    page.click("#call")
    page.idle()
    page.sees(at_end, "a call while a row is open → the diagram scrolls to its end")
    browser.run("[...document.querySelectorAll('#messages summary')].at(-1).click(), 1")
    page.sees("(r => { const b = document.getElementById('scroller').getBoundingClientRect(); return r.bottom <= b.bottom + 1 || r.top <= b.top + 1; })"
              "([...document.querySelectorAll('#messages details')].at(-1).getBoundingClientRect())", "the newest row, opened → seen whole")
    # The event arrives late, as in a browser that draws few frames.
    browser.run("window.addEventListener('scroll', event => event.stopImmediatePropagation(), { capture: true, once: true })")
    browser.run("document.getElementById('scroller').scrollTop = 0, 1")
    browser.until("document.getElementById('scroller').scrollTop === 0")
    page.click("#call")
    page.sees("/^↓ [1-9][0-9]* new$/.test(document.getElementById('below').innerText)", "new messages while the user has scrolled up → counted")
    same(0, browser.run("document.getElementById('scroller').scrollTop"), "new messages while the user has scrolled up → the diagram stays in place")
    page.click("#below")
    page.sees(f"document.getElementById('below').hidden && {at_end}", "a click on the count of new messages → the diagram scrolls to its end")
    browser.run("document.getElementById('scroller').scrollTop = 0, 1")
    place = "Math.round(document.querySelector('.switch').getBoundingClientRect().top + scrollY)"
    before = browser.run(place)
    page.trouble("expire-token")
    page.sees(at_end, "a switch while the user has scrolled up → the diagram scrolls to its end")
    same(before, browser.run(place), "a switch that is thrown → the switches stay in place")
    page.sign_out()
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth", "the page on a small screen → no sideways scrolling")
    page.sees("[...document.querySelectorAll('.label')].every(e => e.scrollWidth <= e.clientWidth + 1)", "the page on a small screen → no label is cut")
    page.sees("(r => r.bottom <= innerHeight + 1 && r.top >= 0)(document.querySelector('.result').getBoundingClientRect())", "the page on a small screen → the user's notice is in sight")
    browser.size(2560, 1300)
    page.sees("document.querySelector('.talk').getBoundingClientRect().height > 800", "the page on a large screen → uses its height")
    browser.size(1280, 1020)
    browser.media("light", forced="active")
    same("rgb(0, 0, 0)", browser.run("getComputedStyle(document.querySelector('.right .line'), '::after').borderLeftColor"), "an arrow with forced colours → has its head")
    same("rgba(0, 0, 0, 0)", browser.run("getComputedStyle(document.querySelector('.right .line'), '::after').borderTopColor"), "an arrow's head with forced colours → is not a square")
    same("none", browser.run("getComputedStyle(document.getElementById('messages')).forcedColorAdjust"), "the lifelines with forced colours → stay")
    browser.media("light")


def secrets_and_lines(page, run):
    """The diagram of a login shows no secret, and its curl lines work."""
    browser = page.browser
    page.click("#clear")
    browser.until("document.querySelectorAll('#messages li').length === 0")
    page.sign_in("oidc")
    page.signed_in("the last sign-in → the phone shows the user")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a call after the last sign-in → the API answers 200")
    shown = browser.run("document.getElementById('messages').textContent + document.getElementById('screen').textContent")
    tokens = [each["token"] for each in control(run, "/tokens?provider=oidc")]
    say(tokens and not [t for t in tokens if t in shown], "the page after a sign-in → shows no token")
    say("code=c-" in shown and not re.search(r"code=c-[\w-]{20}", shown), "the diagram of a sign-in → shows codes shortened")
    say("coatcheck=" in shown and not re.search(r"coatcheck=[\w-]{30}", shown), "the diagram of a sign-in → shows cookies shortened")
    lines = browser.run("[...document.querySelectorAll('.curl code')].map(e => e.textContent)")
    mine = [line for line in lines if "$BROKER" in line or "CALLBACK=" in line]
    mine = [line for line in mine if "events" not in line]
    page.click("#variables")
    page.sees("document.getElementById('variables').innerText === 'Copied'", "the copy button → copies lines and variables")
    with tempfile.TemporaryDirectory() as folder:
        script = "\n".join([f"BROKER={run.broker} SANDBOX={run.sandbox}", *mine])
        done = subprocess.run(["bash", "-u", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60)
    same("201 200", " ".join(re.findall(r"HTTP/1.1 (\d+)", done.stdout)), "the curl lines of a sign-in, pasted → log in and call the API")
    page.sign_out()


def keyboard(page):
    """A login without the mouse."""
    browser = page.browser
    browser.click("h1")
    for _ in range(12):
        browser.key("Tab")
        if browser.run("document.activeElement.dataset.provider") == "oidc":
            break
    same("oidc", browser.run("document.activeElement.dataset.provider"), "the Tab key → reaches the first provider")
    say(browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none", "the provider that the Tab key reached → shows its focus")
    browser.key("Enter")
    browser.until("document.querySelector('[data-person=ana]:enabled') && 1")
    for _ in range(12):
        if browser.run("document.activeElement.dataset.person") == "ana":
            break
        browser.key("Tab")
    browser.key("Enter")
    page.signed_in("the Enter key on provider and person → the phone shows the user")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--pictures", help="a folder for the documents' pictures")
    pictures = parser.parse_args().pictures
    folder = tempfile.mkdtemp(prefix="coatcheck-playground.")
    run = browser = None
    try:
        run = Run(folder)
        refusals(run)
        browser = Chromium()
        browser.size(1280, 1020)
        browser.media("light")
        browser.open(run.url)
        page = Page(browser)
        page.opened()
        page.sees("document.querySelectorAll('[data-provider]').length === 7 && document.querySelectorAll('.switch').length === 11", "the page → has seven ways to sign in and eleven switches")
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        providers(page)
        shots = pictures or folder
        sizes = [browser.picture(f"{shots}/playground-registration.webp")]
        page.click("#registration button")
        page.signed_in("Zephr, the missing attributes are sent → the phone shows the new user", "new-")
        page.sign_out()
        keyboard(page)
        page.sign_out()
        page.click("#clear")
        page.sign_in("cloudentity")
        page.signed_in("a sign-in with Cloudentity → the phone shows the user")
        page.idle()
        noticed, why = page.trouble("drop-answer")
        say(noticed.startswith("Nothing") and "idempotency" in why, "Cloudentity, the switch drop-answer → the token call is repeated", (noticed, why))
        sizes.append(browser.picture(f"{shots}/playground.webp"))
        browser.media("dark")
        say(browser.run("getComputedStyle(document.body).backgroundColor") != ground, "a dark system → a dark page")
        sizes.append(browser.picture(f"{shots}/playground-dark.webp"))
        browser.media("light")
        page.click("#clear")
        page.trouble("steal-code")
        browser.run("document.querySelector('#messages .bad summary').click(), 1")
        sizes.append(browser.picture(f"{shots}/playground-thief.webp"))
        page.sign_out()
        groups(page)
        diagram(page)
        switches(page, run)
        sizes.append(bound(page, run, shots))
        sizes.append(web_view(page, shots))
        sizes += payments(page, run, shots)
        say(max(sizes) < 150_000, "each picture → smaller than 150 kB", sizes)
        secrets_and_lines(page, run)
        same([], browser.complaints(), "the whole run → no script fails and no policy is violated")
        foreign = [url for url in browser.asked() if not url.startswith(run.sandbox + "/")]
        same([], foreign, "the whole run → the page calls no other host")
        pasted(run)
    finally:
        if browser:
            browser.close()
        if run:
            run.stop()
            if verdicts.failed:
                print("#", "\n# ".join(pathlib.Path(folder, "broker.log").read_text().splitlines()[-5:]))
        shutil.rmtree(folder, ignore_errors=True)
    verdicts.finish()


if __name__ == "__main__":
    main()
