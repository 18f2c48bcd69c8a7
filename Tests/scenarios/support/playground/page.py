"""The page, and a user's actions on it."""

from .said import say

# A script that returns whether the top of the phone is in the upper half of the window.
phone_in_sight = "(r => r.top > -20 && r.top < innerHeight / 2)(document.querySelector('.phone').getBoundingClientRect())"


class Page:
    """The page, and a user's actions on it."""

    def __init__(self, browser):
        self.browser = browser

    def opened(self):
        """Counts the unanswered orders, because the phone accepts one at a time."""
        self.browser.run(
            "window.pending = 0; const plain = window.fetch; window.fetch = (url, options) => { if (url === 'wait') return plain(url, options);"
            "window.pending += 1; return plain(url, options).finally(() => { window.pending -= 1; }); }; 1")

    def click(self, selector):
        """Clicks when no order is in progress."""
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
        """Uses a switch. Returns what the user notices, and the reason."""
        before = self.notices()
        (self.browser if name == "kill-provider" else self).click(f"[data-trouble={name}]")
        self.browser.until(f"Number(document.getElementById('noticed').dataset.count) > {before}", seconds)
        self.idle(seconds)
        return self.browser.text("#noticed"), self.browser.text("#explanation")
