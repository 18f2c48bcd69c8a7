"""Thieves of a bound session's cookie and of a web view's address."""

import json
import re

from .running import ask
from .said import same, say


def bound(page, run, shots):
    """A session that belongs to a key of the phone's browser, and the thief of its cookie. Returns the size of a picture."""
    browser = page.browser
    token = browser.run("document.querySelector('meta[name=playground-token]').content")
    good = {"Content-Type": "application/json", "Playground-Token": token}
    same(403, ask(run, "POST", "/playground/key", good | {"Playground-Token": "none"}, "{}")[0], "a device key sent with a wrong page token → 403")
    same(409, ask(run, "POST", "/playground/signed", good, json.dumps({"number": 1, "signature": "A" * 86}))[0], "the page sends a signature that the phone has not requested → 409")
    same(409, ask(run, "POST", "/playground/key", good, json.dumps({"x": "AA", "y": "AA"}))[0], "a device key that is not a point of the curve → 409")
    same(False, browser.run("deviceKey.privateKey.extractable"), "the device's key → cannot be exported")
    again = browser.run("Promise.all([findKey(), findKey()]).then(keys => Promise.all(keys.map(k => crypto.subtle.exportKey('jwk', k.publicKey)))).then(all => all.map(k => k.x))")
    same([browser.run("crypto.subtle.exportKey('jwk', deviceKey.publicKey).then(k => k.x)")] * 2, again, "two pages of one browser → have the same key")
    same("private", browser.run("(async () => { const open = IDBFactory.prototype.open; IDBFactory.prototype.open = () => { throw new Error('kept nowhere'); };"
                                " try { return (await findKey()).privateKey.type; } finally { IDBFactory.prototype.open = open; } })()"),
         "a browser that stores nothing → the page has a key")
    page.click("#clear")
    browser.until("document.querySelectorAll('#messages li').length === 0")
    page.sign_in("oidc-bound")
    page.signed_in("a sign-in with a proof → the phone shows the user")
    page.sees("document.querySelector('.facts').innerText.includes('of this phone')", "a sign-in with a proof → the phone shows that the session belongs to its key")
    said = page.arrows()
    say(any("401 use_dpop_nonce" in each for each in said), "a sign-in with a proof → the diagram has the refusal that brings the nonce", said)
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a bound session's call with its pass → the API answers 200")
    page.sees("document.getElementById('live').innerText === 'events on'", "a session with a pass → the phone listens to events")
    shown = browser.run("document.getElementById('messages').textContent")
    say('"htm":"POST"' in shown and '"typ":"dpop+jwt"' in shown, "a bound session's diagram → shows the contents of the proofs")
    say("DPoP: " in shown and not re.search(r"DPoP: [\w-]{40}", shown), "a bound session's diagram → the proofs in it are shortened")
    say("coatcheck-pass=" in shown and not re.search(r"coatcheck-pass=[\w-]{16}", shown), "a bound session's diagram → the passes in it are shortened")
    handle = page.handle()
    page.click("#clear")
    noticed, why = page.trouble("steal-cookie")
    size = browser.picture(f"{shots}/playground-bound.webp")
    same("Nothing, and the thief gets nothing.", noticed, "a thief copies a bound session's cookie → the thief gets nothing")
    say("The copied cookie got 401 proof_required, with a proof" in why, "a thief copies a bound session's cookie and sends only the cookie → 401 proof_required", why)
    say("own key 401 proof_invalid (key):" in why, "a thief copies a bound session's cookie and adds a proof by the thief's own key → 401 proof_invalid", why)
    say("got 200: there the thief is in" in why, "a thief copies an unbound session's cookie → the thief gets 200", why)
    thief = browser.run("[...document.querySelectorAll('#messages summary')].map(e => e.getAttribute('aria-label')).filter(e => e.startsWith('thief'))")
    tones = browser.run("[...document.querySelectorAll('#messages li.answer')].filter(e => e.querySelector('summary').getAttribute('aria-label').includes(': 200 OK') && e.querySelector('.who')?.innerText === 'thief').map(e => e.classList.contains('bad'))")
    same([True], tones, "the thief's call in the diagram was answered with 200 → this answer is red")
    same(["GET /v1/session", "401 proof_required", "GET /v1/session", "401 proof_invalid", "GET /v1/session", "200 OK"],
         [each.split(": ", 1)[1] for each in thief], "a thief copies a bound session's cookie → the diagram has the thief's calls and their answers")
    same(handle, page.handle(), "a thief copies a bound session's cookie → the phone keeps its session")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a thief has copied a bound session's cookie, and the user calls the API → 200")
    page.trouble("kill-provider")
    noticed, why = page.trouble("steal-cookie")
    say(noticed.endswith("gets nothing.") and "could not sign in" in why, "a thief copies a bound session's cookie while the provider is dead → the thief gets nothing", (noticed, why))
    noticed, why = page.trouble("log-out-elsewhere")
    same(("Nothing.", True), (noticed, "could not sign in" in why), "the switch log-out-elsewhere is pressed while the provider is dead → the user stays signed in")
    page.trouble("kill-provider")
    same(handle, page.handle(), "the provider is revived after a failed log-out-elsewhere → the phone still has the session from before")
    browser.run("window.isOld = true, setTimeout(() => location.reload(), 0), 1")
    browser.until("window.isOld === undefined && document.getElementById('call')?.disabled === false && typeof deviceKey === 'object' && deviceKey !== undefined")
    page.opened()
    noticed, why = page.trouble("steal-code")
    say("403 login_not_yours" in why, "the page is reloaded, and the switch steal-code is pressed → the thief is refused", (noticed, why))
    page.signed_in("the page is reloaded, and the switch steal-code is pressed → the phone is signed in with the same key")
    noticed, why = page.trouble("log-out-elsewhere")
    same("“You were signed out from another device.”", noticed, "the switch log-out-elsewhere is pressed for a bound session → the session ends without a proof")
    page.sign_in("oidc-bound")
    page.signed_in("another sign-in with a proof → the phone shows the user")
    noticed, why = page.trouble("fifty-forwards")
    same("Nothing.", noticed, "fifty forwards of an unbound sign-in → the user notices nothing")
    page.sign_out()
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('.label')].every(e => e.scrollWidth <= e.clientWidth + 1)",
              "a bound session's page on a small screen → fits")
    browser.size(1280, 1020)
    return size


def web_view(page, shots):
    """The app's page in a web view, signed in. One thief has its address, and another one its cookie. Returns the size of a
    picture."""
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
    page.sees("document.getElementById('shop')?.innerText.includes('Welcome, Ana')", "the shop's page in the web view → shows the user")
    shop = browser.text("#shop")
    say("kind “web”" in shop and "ses_" in shop and handle not in shop, "the shop's session → has the kind web, and is not the app's", shop)
    say("/v1/session" in shop and "handover" not in shop, "the shop's address → has no ticket", shop)
    sent = lambda who: browser.run(
        f"[...document.querySelectorAll('#messages summary')].map(e => e.getAttribute('aria-label').replace('broker to app', 'to app')).filter(e => e.includes('{who}'))")
    say(any("POST /v1/session/handovers" in each for each in page.arrows()), "the user opens the shop in the web view → the diagram has the request for the ticket")
    seen = [each.split(": ", 1)[1] for each in sent("web view")]
    same([True, "200 OK", True, "303 See Other", "GET /v1/session", "200 OK"],
         [each.startswith(("GET /handover/", "POST /handover/")) or each for each in seen], "the user opens the shop in the web view → the diagram has the web view's calls and their answers")
    shown = browser.run("document.getElementById('messages').textContent")
    for name in ("coatcheck-handover=", "coatcheck-web=", "/handover/"):
        say(name in shown and not re.search(re.escape(name) + r"[\w-]{12}", shown), f"the user opens the shop in the web view → the diagram shows the value of {name} shortened")
    page.click("#clear")
    noticed, why = page.trouble("steal-address")
    browser.run("scrollTo(0, 0), 1")
    size = browser.picture(f"{shots}/playground-web-view.webp")
    same("Nothing, and the address gets the thief nothing.", noticed, "the playground's switch steal-address is pressed → the thief gets nothing")
    say("The copied address got 400 verifier_mismatch, with a secret of the thief's own 400 verifier_mismatch:" in why,
        "the playground's switch steal-address is pressed → the thief is refused without the secret and with another secret", why)
    thief = [each.split(": ", 1)[1] for each in sent("thief")]
    same([True, "200 OK", True, "400 verifier_mismatch", True, "400 verifier_mismatch", "GET /v1/session", "200 OK"],
         [each.startswith(("GET /handover/", "POST /handover/")) or each for each in thief], "the playground's switch steal-address is pressed → the diagram has the thief's calls and their answers")
    page.sees("document.getElementById('shop')?.innerText.includes('Welcome, Ana')", "the playground's switch steal-address is pressed → the app's own web view opens the shop")
    say("The page's own cookie, copied, got 200, and ends with" in why, "a thief copies the shop's cookie from the web view → the cookie opens the shop while the app is signed in", why)
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a thief has copied the hand-over address, and the user calls the API → 200")
    same(handle, page.handle(), "the playground's switch steal-address is pressed → the app keeps its session")
    page.click("#clear")
    page.sign_out()
    page.sees("document.getElementById('explanation').innerText.includes('401, parent_ended')", "the app's log-out → the copied cookie of the shop gets 401 parent_ended")
    same(["GET /v1/session", "401 session_ended"] * 2, [each.split(": ", 1)[1] for each in sent("web view") + sent("thief")], "the app's log-out → the diagram has the 401 of web view and thief")
    return size
