"""The diagram of the messages."""

import re
import subprocess
import tempfile

from .running import control
from .said import same, say


def diagram(page):
    """The diagram follows new messages. If the user has scrolled up, it shows their number."""
    browser = page.browser
    at_end = "(b => b.scrollHeight - b.scrollTop - b.clientHeight < 40)(document.getElementById('scroller'))"
    page.sign_in("oidc")
    page.signed_in("a sign-in before the checks of the diagram → the phone shows the user")
    page.click("#call")
    page.idle()
    page.sees(f"document.querySelectorAll('#messages li').length > 12 && {at_end}", "the playground's user calls the API → the diagram scrolls to its end")
    browser.run("[...document.querySelectorAll('#messages summary')].at(-6).click(), 1")
    # The event of an earlier scroll arrives now.
    browser.run("document.getElementById('scroller').dispatchEvent(new Event('scroll')), 1")
    page.click("#call")
    page.idle()
    page.sees(at_end, "the playground's user calls the API while a row of the diagram is open → the diagram scrolls to its end")
    browser.run("[...document.querySelectorAll('#messages summary')].at(-1).click(), 1")
    page.sees("(r => { const b = document.getElementById('scroller').getBoundingClientRect(); return r.bottom <= b.bottom + 1 || r.top <= b.top + 1; })"
              "([...document.querySelectorAll('#messages details')].at(-1).getBoundingClientRect())", "the diagram's newest row is opened → the end or the beginning of the row is visible")
    # The event arrives late, like in a browser that draws few frames.
    browser.run("window.addEventListener('scroll', event => event.stopImmediatePropagation(), { capture: true, once: true })")
    browser.run("document.getElementById('scroller').scrollTop = 0, 1")
    browser.until("document.getElementById('scroller').scrollTop === 0")
    page.click("#call")
    page.sees("/^↓ [1-9][0-9]* new$/.test(document.getElementById('below').innerText)", "new messages while the user has scrolled up in the diagram → the page shows their number")
    same(0, browser.run("document.getElementById('scroller').scrollTop"), "new messages while the user has scrolled up in the diagram → the diagram does not move")
    page.click("#below")
    page.sees(f"document.getElementById('below').hidden && {at_end}", "a click on the count of new messages → the diagram scrolls to its end")
    browser.run("document.getElementById('scroller').scrollTop = 0, 1")
    place = "Math.round(document.querySelector('.switch').getBoundingClientRect().top + scrollY)"
    before = browser.run(place)
    page.trouble("expire-token")
    page.sees(at_end, "a switch is pressed while the user has scrolled up in the diagram → the diagram scrolls to its end")
    same(before, browser.run(place), "a switch is pressed → the switches keep their place on the page")
    page.sign_out()
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth", "the playground's page on a small screen → fits without sideways scrolling")
    page.sees("[...document.querySelectorAll('.label')].every(e => e.scrollWidth <= e.clientWidth + 1)", "the playground's page on a small screen → no label of the diagram is cut")
    page.sees("(r => r.bottom <= innerHeight + 1 && r.top >= 0)(document.querySelector('.result').getBoundingClientRect())", "the playground's page on a small screen → the sentence about what the user notices is visible")
    browser.size(2560, 1300)
    page.sees("document.querySelector('.talk').getBoundingClientRect().height > 800", "the playground's page on a large screen → the diagram uses the height")
    browser.size(1280, 1020)
    browser.media("light", forced="active")
    same("rgb(0, 0, 0)", browser.run("getComputedStyle(document.querySelector('.right .line'), '::after').borderLeftColor"), "an arrow of the diagram with forced colours → has its head")
    same("rgba(0, 0, 0, 0)", browser.run("getComputedStyle(document.querySelector('.right .line'), '::after').borderTopColor"), "an arrow's head in the diagram with forced colours → is not a square")
    same("none", browser.run("getComputedStyle(document.getElementById('messages')).forcedColorAdjust"), "the diagram's lifelines with forced colours → are visible")
    browser.media("light")


def secrets_and_lines(page, run):
    """The diagram of a login shows no secret, and its curl lines work."""
    browser = page.browser
    page.click("#clear")
    browser.until("document.querySelectorAll('#messages li').length === 0")
    page.sign_in("oidc")
    page.signed_in("a sign-in before the page is searched for secrets → the phone shows the user")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "a call before the page is searched for secrets → the API answers 200")
    shown = browser.run("document.getElementById('messages').textContent + document.getElementById('screen').textContent")
    tokens = [each["token"] for each in control(run, "/tokens?provider=oidc")]
    say(tokens and not [t for t in tokens if t in shown], "the playground's page after a sign-in → shows no token")
    say("code=c-" in shown and not re.search(r"code=c-[\w-]{20}", shown), "the diagram of a sign-in → shows codes shortened")
    say("coatcheck=" in shown and not re.search(r"coatcheck=[\w-]{30}", shown), "the diagram of a sign-in → shows cookies shortened")
    lines = browser.run("[...document.querySelectorAll('.curl code')].map(e => e.textContent)")
    mine = [line for line in lines if "$BROKER" in line or "CALLBACK=" in line]
    mine = [line for line in mine if "events" not in line]
    page.click("#variables")
    page.sees("document.getElementById('variables').innerText === 'Copied'", "the button that copies the curl lines' variables → shows “Copied”")
    with tempfile.TemporaryDirectory() as folder:
        script = "\n".join([f"BROKER={run.broker} SANDBOX={run.sandbox}", *mine])
        done = subprocess.run(["bash", "-u", "-c", script], cwd=folder, capture_output=True, text=True, timeout=60)
    same("201 200", " ".join(re.findall(r"HTTP/1.1 (\d+)", done.stdout)), "the curl lines of a sign-in, pasted into a shell → log in and call the API")
    page.sign_out()
