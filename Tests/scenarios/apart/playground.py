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
    same(421, call(Host="evil.example"), "a name of another's that leads here (DNS rebinding) is refused")
    same(421, ask(run, "GET", "/playground/", {"Host": "evil.example:80"})[0], "and does not get the page with its token")
    same(403, call(Origin="https://evil.example"), "another site's page is refused")
    same(403, call(Origin="http://127.0.0.1:1"), "another port's as well")
    same(415, call(**{"Content-Type": "text/plain"}), "what a form can send is refused")
    same(403, call(**{"Playground-Token": None}), "no token is refused")
    same(403, call(**{"Playground-Token": "A" * len(token)}), "another token is refused")
    same(200, call(Origin=run.sandbox), "our own page may")
    same(403, ask(run, "DELETE", "/_sandbox/faults", {"Origin": "https://evil.example"})[0], "/_sandbox takes no other site's orders either")
    same(421, ask(run, "GET", "/_sandbox/tokens", {"Host": "evil.example"})[0], "nor another name's")
    say("default-src 'none'" in headers["Content-Security-Policy"], "the page may load its own files and nothing else")


def pasted(run):
    """The lines that scripts/run prints, pasted."""
    block = run.text[run.text.index("A login,"):run.text.index("For operators:")]
    lines = "\n".join(line[2:] for line in block.splitlines() if line.startswith("  "))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["bash", "-u", "-c", lines], cwd=folder, capture_output=True, text=True, timeout=60)
    statuses = re.findall(r"HTTP/1.1 (\d+)", done.stdout)
    same("201 204 201 201", " ".join(statuses), "the printed lines log in, log out, and log in at Zephr in both ways")


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
        page.signed_in(f"{title}: signed in", "ana@" if name == "zephr" else "Ana")
        page.click("#call")
        page.sees("document.getElementById('relay')?.innerText.includes('200.')", f"{title}: the API answers through the relay")
        page.sees("document.getElementById('live').innerText === 'events on'", f"{title}: the phone listens to events")
        page.sign_out()
        page.sees("document.getElementById('word')?.innerText === 'You are signed out.'", f"{title}: signed out")
    said = page.arrows()
    for arrow in ("POST /v1/logins", "POST /v1/sessions", "POST /oidc/token", "POST /clever/oauth/tokens", "GET /v1/session/events",
                  "DELETE /v1/session", "event: session_ended"):
        say(any(arrow in each for each in said), f"the diagram has {arrow}", said[-30:])
    page.sign_in("zephr", "refuse")
    page.sees("document.getElementById('word')?.innerText.includes('access_denied')", "Zephr, a failure: the phone says access_denied")
    page.sign_in("zephr", "new")
    page.sees("document.querySelector('#registration input') && document.getElementById('screen').innerText.includes('Almost there')",
              "Zephr, a partial registration: the phone asks for what is missing")


def switches(page, run):
    """Every switch, once."""
    browser = page.browser
    page.sign_in("oidc")
    page.signed_in("signed in for the switches")
    handle = page.handle()
    same(("Nothing.", True), (lambda n, w: (n, "once" in w))(*page.trouble("expire-token")), "expire the token: the user noticed nothing")
    say("event: tokens_refreshed" in page.arrows(), "the diagram has the refresh's event")
    noticed, why = page.trouble("drop-answer")
    say(noticed.startswith("Nothing"), "drop the provider's answer: the user noticed nothing, or a pause", (noticed, why))
    say(any("no answer" in arrow for arrow in page.arrows()), "the diagram has the lost answer")

    noticed, why = page.trouble("kill-provider")
    say(noticed == "Nothing." and "Still signed in" in why, "kill the provider: the user noticed nothing", (noticed, why))
    same("Revive the provider", browser.text("[data-trouble=kill-provider] b"), "the switch is down")
    browser.click("[data-trouble=expire-token]")
    page.sees("document.getElementById('busy').innerText.includes('trying again')", "without a token and without a provider the phone waits")
    same(handle, page.handle(), "still signed in")
    before = page.notices()
    browser.click("[data-trouble=kill-provider]")
    # One notice is for the restart, the other for the delayed call.
    browser.until(f"Number(document.getElementById('noticed').dataset.count) >= {before + 2}", 75)
    page.sees("document.getElementById('noticed').textContent.startsWith('Nothing but a pause')", "revived: it goes on by itself, after a pause", 75)
    page.idle()
    same(handle, page.handle(), "in the same session")

    before = control(run, "/counts").get("oidc/token", 0)
    noticed, why = page.trouble("fifty-forwards")
    same("Nothing.", noticed, "fifty forwards of one code: the user noticed nothing")
    same(before + 1, control(run, "/counts").get("oidc/token", 0), "one call at the provider")
    page.signed_in("signed in, once")
    noticed, why = page.trouble("steal-code")
    say("403 login_not_yours" in why, "steal the code: the thief is refused", (noticed, why))
    page.signed_in("and the phone is signed in all the same")
    noticed, why = page.trouble("steal-cookie")
    same("Nothing, and the thief is in.", noticed, "steal the cookie: it says that the thief is in")
    page.sign_out()
    page.sees("document.getElementById('explanation').innerText.includes('401, logged_out')", "until the session ends: then the thief gets 401")

    page.sign_in("oidc", "ben")
    page.signed_in("Ben signs in", "Ben")
    noticed, why = page.trouble("log-out-elsewhere")
    same("“You were signed out from another device.”", noticed, "log out elsewhere: this session ends")
    same("You were signed out from another device.", browser.text("#word"), "and the phone says why")

    page.sign_in("oidc")
    page.signed_in("signed in, to have the broker killed")
    handle, pid = page.handle(), run.broker_pid()
    noticed, why = page.trouble("kill-broker")
    say(noticed.startswith("Nothing") and "same cookie" in why, "kill the broker: the user noticed a pause at most", (noticed, why))
    say(pid != run.broker_pid(), "scripts/run has started another process")
    same(handle, page.handle(), "the same session is shown")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "and the user is still signed in")
    page.sees("document.getElementById('live').innerText === 'events on'", "and listens again")
    page.sign_out()

    page.sign_in("clover")
    page.signed_in("signed in with Clover")
    noticed, why = page.trouble("drop-answer")
    say(noticed.startswith("Nothing") and "recovery" in why, "Clover: the answer is dropped, and the tokens recovered", (noticed, why))
    page.click("#listen")
    page.sees("document.getElementById('live').innerText === 'events off'", "listening can be stopped")
    page.sign_out()


def bound(page, run, shots):
    """A session that belongs to a key of the phone's browser, and the thief of its cookie; the result is a picture's size."""
    browser = page.browser
    token = browser.run("document.querySelector('meta[name=playground-token]').content")
    good = {"Content-Type": "application/json", "Playground-Token": token}
    same(403, ask(run, "POST", "/playground/key", good | {"Playground-Token": "none"}, "{}")[0], "another page's key is not taken")
    same(409, ask(run, "POST", "/playground/signed", good, json.dumps({"number": 1, "signature": "A" * 86}))[0], "a signature that nobody waits for is not taken")
    same(409, ask(run, "POST", "/playground/key", good, json.dumps({"x": "AA", "y": "AA"}))[0], "nor a key that is no point")
    same(False, browser.run("deviceKey.privateKey.extractable"), "the key cannot be exported")
    again = browser.run("Promise.all([findKey(), findKey()]).then(keys => Promise.all(keys.map(k => crypto.subtle.exportKey('jwk', k.publicKey)))).then(all => all.map(k => k.x))")
    same([browser.run("crypto.subtle.exportKey('jwk', deviceKey.publicKey).then(k => k.x)")] * 2, again, "pages of one browser have one key")
    same("private", browser.run("(async () => { const open = IDBFactory.prototype.open; IDBFactory.prototype.open = () => { throw new Error('kept nowhere'); };"
                                " try { return (await findKey()).privateKey.type; } finally { IDBFactory.prototype.open = open; } })()"),
         "where a browser keeps nothing, the page has one all the same")
    page.click("#clear")
    browser.until("document.querySelectorAll('#messages li').length === 0")
    page.sign_in("oidc-bound")
    page.signed_in("signed in, with a proof")
    page.sees("document.querySelector('.facts').innerText.includes('of this phone')", "the phone says that the session belongs to its key")
    said = page.arrows()
    say(any("401 use_dpop_nonce" in each for each in said), "the diagram has the refusal that brings the nonce", said)
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "the API answers, by the pass")
    page.sees("document.getElementById('live').innerText === 'events on'", "and the phone listens, by the pass")
    shown = browser.run("document.getElementById('messages').textContent")
    say('"htm":"POST"' in shown and '"typ":"dpop+jwt"' in shown, "the diagram says what the proofs say")
    say("DPoP: " in shown and not re.search(r"DPoP: [\w-]{40}", shown), "proofs are shown, and shortened")
    say("coatcheck-pass=" in shown and not re.search(r"coatcheck-pass=[\w-]{16}", shown), "passes, too")
    handle = page.handle()
    page.click("#clear")
    noticed, why = page.trouble("steal-cookie")
    size = browser.picture(f"{shots}/playground-bound.webp")
    same("Nothing, and the thief gets nothing.", noticed, "steal the cookie: the thief gets nothing")
    say("The copied cookie got 401 proof_required, with a proof" in why, "the copied cookie alone is refused", why)
    say("own key 401 proof_invalid (key):" in why, "and so it is with a key of the thief's own", why)
    say("got 200: there the thief is in" in why, "the copy of an unbound session's cookie, beside it, opens it", why)
    thief = browser.run("[...document.querySelectorAll('#messages summary')].map(e => e.getAttribute('aria-label')).filter(e => e.startsWith('thief'))")
    tones = browser.run("[...document.querySelectorAll('#messages li.answer')].filter(e => e.querySelector('summary').getAttribute('aria-label').includes(': 200 OK') && e.querySelector('.who')?.innerText === 'thief').map(e => e.classList.contains('bad'))")
    same([True], tones, "a thief's 200 is red")
    same(["GET /v1/session", "401 proof_required", "GET /v1/session", "401 proof_invalid", "GET /v1/session", "200 OK"],
         [each.split(": ", 1)[1] for each in thief], "what the thief sent and got stands in the diagram")
    same(handle, page.handle(), "the phone's session is as it was")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "and goes on")
    page.trouble("kill-provider")
    noticed, why = page.trouble("steal-cookie")
    say(noticed.endswith("gets nothing.") and "could not sign in" in why, "without a provider the thief gets nothing as well", (noticed, why))
    noticed, why = page.trouble("log-out-elsewhere")
    same(("Nothing.", True), (noticed, "could not sign in" in why), "and no tablet signs anybody out")
    page.trouble("kill-provider")
    same(handle, page.handle(), "the phone is signed in as before")
    browser.run("window.isOld = true, setTimeout(() => location.reload(), 0), 1")
    browser.until("window.isOld === undefined && document.getElementById('call')?.disabled === false && typeof deviceKey === 'object' && deviceKey !== undefined")
    page.opened()
    noticed, why = page.trouble("steal-code")
    say("403 login_not_yours" in why, "steal the code, after the page was loaded again: the thief is refused", (noticed, why))
    page.signed_in("and the phone, whose key is the same, is signed in")
    noticed, why = page.trouble("log-out-elsewhere")
    same("“You were signed out from another device.”", noticed, "log out elsewhere: an ending needs no proof")
    page.sign_in("oidc-bound")
    page.signed_in("signed in again")
    noticed, why = page.trouble("fifty-forwards")
    same("Nothing.", noticed, "fifty forwards are of a session that belongs to no key")
    page.sign_out()
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('.label')].every(e => e.scrollWidth <= e.clientWidth + 1)",
              "a small screen has room for it")
    browser.size(1280, 1020)
    return size


def web_view(page, shots):
    """The app's page in a web view, signed in; a thief of its address, and one of its cookie. The result is a picture's size."""
    browser = page.browser
    page.sign_in("clever")
    page.signed_in("signed in where no page is opened")
    say(browser.run("document.getElementById('open-shop') === null && document.querySelector('[data-trouble=steal-address]').disabled"),
        "a client without web children has no button and no thief")
    page.sign_out()
    page.click("#clear")
    page.sign_in("oidc")
    page.signed_in("signed in, to open the shop")
    handle = page.handle()
    page.click("#open-shop")
    page.sees("document.getElementById('shop')?.innerText.includes('Welcome, Ana')", "the page is signed in")
    shop = browser.text("#shop")
    say("kind “web”" in shop and "ses_" in shop and handle not in shop, "by a session of kind web, which is not the app's", shop)
    say("/v1/session" in shop and "handover" not in shop, "at a clean address", shop)
    sent = lambda who: browser.run(
        f"[...document.querySelectorAll('#messages summary')].map(e => e.getAttribute('aria-label').replace('broker to app', 'to app')).filter(e => e.includes('{who}'))")
    say(any("POST /v1/session/handovers" in each for each in page.arrows()), "the diagram has the ticket's order")
    seen = [each.split(": ", 1)[1] for each in sent("web view")]
    same([True, "200 OK", True, "303 See Other", "GET /v1/session", "200 OK"],
         [each.startswith(("GET /handover/", "POST /handover/")) or each for each in seen], "and what the web view sent and got")
    shown = browser.run("document.getElementById('messages').textContent")
    for name in ("coatcheck-handover=", "coatcheck-web=", "/handover/"):
        say(name in shown and not re.search(re.escape(name) + r"[\w-]{12}", shown), f"what stands behind {name} is shortened")
    page.click("#clear")
    noticed, why = page.trouble("steal-address")
    browser.run("scrollTo(0, 0), 1")
    size = browser.picture(f"{shots}/playground-web-view.webp")
    same("Nothing, and the address gets the thief nothing.", noticed, "steal the page's address: the thief gets nothing")
    say("The copied address got 400 verifier_mismatch, with a secret of the thief's own 400 verifier_mismatch:" in why,
        "neither without a secret nor with another", why)
    thief = [each.split(": ", 1)[1] for each in sent("thief")]
    same([True, "200 OK", True, "400 verifier_mismatch", True, "400 verifier_mismatch", "GET /v1/session", "200 OK"],
         [each.startswith(("GET /handover/", "POST /handover/")) or each for each in thief], "what the thief sent and got stands in the diagram")
    page.sees("document.getElementById('shop')?.innerText.includes('Welcome, Ana')", "the app's own web view opened it all the same")
    say("The page's own cookie, copied, got 200, and ends with" in why, "the page's cookie opens the page while the app is signed in", why)
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "and the app goes on")
    same(handle, page.handle(), "in its own session")
    page.click("#clear")
    page.sign_out()
    page.sees("document.getElementById('explanation').innerText.includes('401, parent_ended')", "the app's log-out is the page's: its cookie's thief gets nothing")
    same(["GET /v1/session", "401 session_ended"] * 2, [each.split(": ", 1)[1] for each in sent("web view") + sent("thief")], "as the diagram says")
    return size


def payments(page, run, shots):
    """20 € require a fresh sign-in, 500 € the user's presence; returns the pictures' sizes."""
    browser = page.browser
    taken = lambda: [each["amount"] for each in json.load(urllib.request.urlopen(f"{run.sandbox}/api/payments", timeout=20))["payments"]]
    page.sign_in("clever")
    page.signed_in("signed in where nothing is paid")
    say(browser.run("document.getElementById('pay-20') === null && document.querySelector('[data-trouble=ignore-step-up]').disabled"),
        "a provider that does not say when its user signed in has no payments")
    page.sign_out()
    page.sign_in("oidc")
    page.signed_in("signed in, to pay")
    say(browser.run("document.querySelector('[data-trouble=steal-presence]').disabled"), "a session without a key has no confirmation to be stolen")
    handle = page.handle()
    noticed, why = page.trouble("ignore-step-up")
    same("That nothing was paid; they are still signed in.", noticed, "the provider ignores the step-up: nothing is paid")
    say("403 step_up_failed" in why and "as it was" in why, "which is step_up_failed, and the session is as it was", why)

    def asked():
        page.click("#pay-20")
        page.sees("document.getElementById('step-up')?.innerText.includes('To pay 20 €')", "the provider's page comes up, and says what for")

    def unpaid(press, words, sentence):
        before = page.notices()
        asked()
        page.click(press)
        page.sees(f"Number(document.getElementById('noticed').dataset.count) > {before} && document.getElementById('explanation').innerText.includes('{words}')"
                  " && document.getElementById('pay-20')?.disabled === false", sentence)
        same(handle, page.handle(), "and the session lives")

    unpaid(".push", "The browser was closed", "the browser is closed: nothing is paid")
    unpaid("[data-person=refuse]", "403 access_denied", "the user refuses: access_denied")
    unpaid("[data-person=ben]", "409 subject_mismatch", "somebody else signs in: subject_mismatch")
    same([], taken(), "the API took nothing of these")
    page.click("#clear")
    asked()
    sizes = [browser.picture(f"{shots}/playground-step-up.webp")]
    page.click("[data-person=ana]")
    page.sees("document.getElementById('paid')?.innerText.includes('20 EUR, by user-ana')", "Ana signs in again, and the payment is made")
    same((handle, [20]), (page.handle(), taken()), "in the same session, once")
    say("401 step_up_required" in page.arrows(), "the diagram has the challenge", page.arrows())
    page.sign_out()

    page.sign_in("oidc-bound")
    page.signed_in("signed in with a key, to pay 500 €")
    say(browser.run("presenceKey.privateKey.extractable === false && presenceKey !== deviceKey"), "the key that asks is another, and cannot be exported")
    page.click("#pay-500")
    page.sees("document.querySelector('[data-person=ana]:enabled') && document.getElementById('step-up') && 1", "the fresh sign-in comes first")
    page.click("[data-person=ana]")
    page.sees("!document.getElementById('question').hidden && document.getElementById('asked').innerText.includes('Let this phone confirm')", "then the phone asks whether it may confirm")
    say("stands in for it" in browser.text("#question"), "and the page says for what it stands in")
    same(True, browser.run("document.getElementById('screen').inert && document.activeElement.id === 'yes'"), "nothing else can be pressed")
    browser.click("#no")
    page.sees("document.getElementById('question').hidden && document.getElementById('explanation').innerText.includes('did not say yes')", "no is an answer")
    page.click("#pay-500")
    page.sees("document.getElementById('asked').innerText.includes('Let this phone confirm') && !document.getElementById('question').hidden", "asked again")
    browser.click("#yes")
    page.sees("document.getElementById('asked').innerText.includes('Pay 500 €') && !document.getElementById('question').hidden", "the payment asks by itself")
    browser.click("#yes")
    page.sees("document.getElementById('paid')?.innerText.includes('500 EUR')", "and is made")
    page.sees("document.querySelector('.facts').innerText.includes('another key')", "the session shows the key that asks")
    page.click("#clear")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees("!document.getElementById('question').hidden", "the confirmation that is stolen is the user's")
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth && (r => r.left >= 0 && r.right <= innerWidth)(document.getElementById('yes').getBoundingClientRect())",
              "a small screen has room for the question")
    browser.run("scrollTo(0, document.body.scrollHeight), 1")
    browser.key("Escape")
    page.sees("document.getElementById('question').hidden && document.getElementById('explanation').innerText.includes('did not say yes')", "Escape is a no")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees(f"!document.getElementById('question').hidden && {phone_in_sight}", "the question brings the phone into view")
    browser.size(1280, 1020)
    same(True, browser.run("['header', '.talk', '.trouble'].every(part => document.querySelector(part).inert)"), "while it is asked, the rest of the page cannot be pressed")
    browser.click("#yes")
    browser.until(f"Number(document.getElementById('noticed').dataset.count) > {before}", 60)
    same(False, browser.run("document.querySelector('.trouble').inert"), "afterwards it can")
    page.idle()
    same("The phone's question, and the thieves get nothing.", browser.text("#noticed"), "the thieves get nothing")
    say(all(f"presence_invalid ({reason})" in browser.text("#explanation") for reason in ("address", "replayed", "key")),
        "neither at another path, nor again, nor with another key", browser.text("#explanation"))
    same([20, 500, 500], taken(), "the API took what the user said")
    browser.run("scrollTo(0, 0), 1")
    sizes.append(browser.picture(f"{shots}/playground-presence.webp"))
    page.sign_out()

    # A sign-in of an hour ago, on a small screen: the step-up comes first, and then the thieves.
    page.sign_in("oidc-bound")
    page.signed_in("signed in anew with a key")
    browser.size(390, 844)
    browser.run("document.querySelector('[data-trouble=steal-presence]').scrollIntoView(), 1")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees(f"document.getElementById('step-up') && {phone_in_sight}", "the provider's page brings the phone into view")
    say("phone waits for you" in browser.text("[data-trouble=steal-cookie]"), "a switch that wants the session says that the phone waits", browser.text("[data-trouble=steal-cookie]"))
    browser.run("document.querySelector('[data-trouble=steal-cookie]').scrollIntoView(), 1")
    browser.click("[data-trouble=steal-cookie]")
    page.sees(phone_in_sight, "and leads to the phone")
    page.click("[data-person=ana]")
    page.sees("document.getElementById('asked').innerText.includes('Let this phone confirm') && !document.getElementById('question').hidden", "the key is registered")
    browser.click("#yes")
    page.sees("document.getElementById('asked').innerText.includes('Pay 500 €') && !document.getElementById('question').hidden", "the payment asks")
    before = page.notices()
    browser.click("#yes")
    browser.until(f"Number(document.getElementById('noticed').dataset.count) > {before}", 60)
    page.idle()
    same("The phone's question, and the thieves get nothing.", browser.text("#noticed"), "with a fresh sign-in the thieves come, too, and get nothing")
    browser.size(1280, 1020)
    page.sign_out()
    return sizes


def groups(page):
    """The switches by the source of the trouble; in each group, the switches that fit the moment come first."""
    browser = page.browser
    same(["The network and the provider", "A thief", "The user"], browser.run("[...document.querySelectorAll('#switches h3')].map(e => e.innerText)"), "the switches are in three groups")
    order = "[...document.querySelectorAll('#switches .switches')].map(list => [...list.children].map(e => e.dataset.fits === 'true'))"
    sorted_first = "(lists => lists.every(l => l.every((fits, i) => fits || !l.slice(i).includes(true))))"
    page.sees(f"{sorted_first}({order}) && {order}.flat().includes(false)", "signed out: those that fit come first")
    page.sign_in("oidc")
    page.signed_in("signed in for the groups")
    page.sees(f"{sorted_first}({order})", "signed in: so they do")
    same("expire-token", browser.run("document.querySelector('#switches .switch').dataset.trouble"), "and then in their own order")
    page.sign_out()


def diagram(page):
    """The diagram follows the messages, and shows it while the user looks elsewhere."""
    browser = page.browser
    at_end = "(b => b.scrollHeight - b.scrollTop - b.clientHeight < 40)(document.getElementById('scroller'))"
    page.sign_in("oidc")
    page.signed_in("signed in for the diagram")
    page.click("#call")
    page.idle()
    page.sees(f"document.querySelectorAll('#messages li').length > 12 && {at_end}", "the diagram is at its end")
    browser.run("[...document.querySelectorAll('#messages summary')].at(-6).click(), 1")
    # The event of an earlier scroll arrives now.
    browser.run("document.getElementById('scroller').dispatchEvent(new Event('scroll')), 1")
    page.click("#call")
    page.idle()
    page.sees(at_end, "a row that somebody has opened is no scrolling away")
    browser.run("[...document.querySelectorAll('#messages summary')].at(-1).click(), 1")
    page.sees("(r => { const b = document.getElementById('scroller').getBoundingClientRect(); return r.bottom <= b.bottom + 1 || r.top <= b.top + 1; })"
              "([...document.querySelectorAll('#messages details')].at(-1).getBoundingClientRect())", "the newest row, opened, is seen whole")
    # The event arrives late, as in a browser that draws few frames.
    browser.run("window.addEventListener('scroll', event => event.stopImmediatePropagation(), { capture: true, once: true })")
    browser.run("document.getElementById('scroller').scrollTop = 0, 1")
    browser.until("document.getElementById('scroller').scrollTop === 0")
    page.click("#call")
    page.sees("/^↓ [1-9][0-9]* new$/.test(document.getElementById('below').innerText)", "what comes while somebody looks elsewhere is counted")
    same(0, browser.run("document.getElementById('scroller').scrollTop"), "and nothing moves under them")
    page.click("#below")
    page.sees(f"document.getElementById('below').hidden && {at_end}", "a click goes there")
    browser.run("document.getElementById('scroller').scrollTop = 0, 1")
    place = "Math.round(document.querySelector('.switch').getBoundingClientRect().top + scrollY)"
    before = browser.run(place)
    page.trouble("expire-token")
    page.sees(at_end, "a switch that is thrown is followed")
    same(before, browser.run(place), "and the switches stay where they are")
    page.sign_out()
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth", "a small screen has no sideways scrolling")
    page.sees("[...document.querySelectorAll('.label')].every(e => e.scrollWidth <= e.clientWidth + 1)", "and no label is cut")
    page.sees("(r => r.bottom <= innerHeight + 1 && r.top >= 0)(document.querySelector('.result').getBoundingClientRect())", "what the user noticed is in sight")
    browser.size(2560, 1300)
    page.sees("document.querySelector('.talk').getBoundingClientRect().height > 800", "a large screen is used")
    browser.size(1280, 1020)
    browser.media("light", forced="active")
    same("rgb(0, 0, 0)", browser.run("getComputedStyle(document.querySelector('.right .line'), '::after').borderLeftColor"), "with forced colours an arrow has its head")
    same("rgba(0, 0, 0, 0)", browser.run("getComputedStyle(document.querySelector('.right .line'), '::after').borderTopColor"), "which is no square")
    same("none", browser.run("getComputedStyle(document.getElementById('messages')).forcedColorAdjust"), "and the lifelines stay")
    browser.media("light")


def secrets_and_lines(page, run):
    """The diagram of a login shows no secret, and its curl lines work."""
    browser = page.browser
    page.click("#clear")
    browser.until("document.querySelectorAll('#messages li').length === 0")
    page.sign_in("oidc")
    page.signed_in("a last login")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "with a call")
    shown = browser.run("document.getElementById('messages').textContent + document.getElementById('screen').textContent")
    tokens = [each["token"] for each in control(run, "/tokens?provider=oidc")]
    say(tokens and not [t for t in tokens if t in shown], "no token stands in the page")
    say("code=c-" in shown and not re.search(r"code=c-[\w-]{20}", shown), "codes are shortened")
    say("coatcheck=" in shown and not re.search(r"coatcheck=[\w-]{30}", shown), "cookies are shortened")
    lines = browser.run("[...document.querySelectorAll('.curl code')].map(e => e.textContent)")
    mine = [line for line in lines if "$BROKER" in line or "CALLBACK=" in line]
    mine = [line for line in mine if "events" not in line]
    page.click("#variables")
    page.sees("document.getElementById('variables').innerText === 'Copied'", "lines and variables can be copied")
    with tempfile.TemporaryDirectory() as folder:
        script = "\n".join([f"BROKER={run.broker} SANDBOX={run.sandbox}", *mine])
        done = subprocess.run(["bash", "-u", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60)
    same("201 200", " ".join(re.findall(r"HTTP/1.1 (\d+)", done.stdout)), "the curl lines of a login, pasted, log in and call the API")
    page.sign_out()


def keyboard(page):
    """A login without the mouse."""
    browser = page.browser
    browser.click("h1")
    for _ in range(12):
        browser.key("Tab")
        if browser.run("document.activeElement.dataset.provider") == "oidc":
            break
    same("oidc", browser.run("document.activeElement.dataset.provider"), "Tab comes to the first provider")
    say(browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none", "which shows its focus")
    browser.key("Enter")
    browser.until("document.querySelector('[data-person=ana]:enabled') && 1")
    for _ in range(12):
        if browser.run("document.activeElement.dataset.person") == "ana":
            break
        browser.key("Tab")
    browser.key("Enter")
    page.signed_in("Enter signs in")


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
        page.sees("document.querySelectorAll('[data-provider]').length === 7 && document.querySelectorAll('.switch').length === 11", "seven ways to sign in, eleven switches")
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        providers(page)
        shots = pictures or folder
        sizes = [browser.picture(f"{shots}/playground-registration.webp")]
        page.click("#registration button")
        page.signed_in("Zephr: what was missing is sent, and somebody new is signed in", "new-")
        page.sign_out()
        keyboard(page)
        page.sign_out()
        page.click("#clear")
        page.sign_in("cloudentity")
        page.signed_in("signed in with Cloudentity")
        page.idle()
        noticed, why = page.trouble("drop-answer")
        say(noticed.startswith("Nothing") and "idempotency" in why, "Cloudentity: its answer is dropped, and repeated", (noticed, why))
        sizes.append(browser.picture(f"{shots}/playground.webp"))
        browser.media("dark")
        say(browser.run("getComputedStyle(document.body).backgroundColor") != ground, "dark where the system is dark")
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
        say(max(sizes) < 150_000, "each picture is smaller than 150 kB", sizes)
        secrets_and_lines(page, run)
        same([], browser.complaints(), "neither script nor policy complained")
        foreign = [url for url in browser.asked() if not url.startswith(run.sandbox + "/")]
        same([], foreign, "the page asked nobody else")
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
