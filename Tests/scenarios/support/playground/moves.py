"""An older app with the provider's tokens, which is updated and moves its user to the broker."""

import re

from .running import control
from .said import same, say


def older(page):
    """Signs Ana in to the older app, whose SDK gets the provider's tokens."""
    page.click("#old-app")
    page.browser.until("document.querySelector('[data-person=ana]:enabled') && 1")
    page.click("[data-person=ana]")
    page.sees("document.getElementById('update')?.disabled === false", "a sign-in with the older app's SDK → the phone offers the update")


def moves(page, run, shots):
    """Updates the app in good weather, with a lost answer, with a thief, and with a dead provider. Returns the size of a picture."""
    browser = page.browser
    token_calls = lambda: control(run, "/counts").get("oidc/refresh", 0)
    say(browser.run("document.querySelector('[data-trouble=lose-move]').disabled && document.querySelector('[data-trouble=steal-refresh-token]').disabled"),
        "an app that is up to date → the switches of the move are disabled")
    page.sees("(screen => screen.scrollHeight <= screen.clientHeight)(document.getElementById('screen'))", "the phone's start page → all ways to sign in fit on the screen")
    page.click("#clear")
    browser.until("document.querySelectorAll('#messages li').length === 0")
    older(page)
    shown = browser.text("#old-tokens")
    say(all(name in shown for name in ("access_token", "refresh_token", "id_token")), "the older app is signed in → the phone shows its three tokens", shown)
    say("…" in shown and not re.search(r"[\w-]{20}", shown), "the older app's tokens → shown shortened", shown)
    said = page.arrows()
    say(any("POST /oidc/token" in each for each in said) and not any("/v1/" in each for each in said), "the older app's sign-in → its SDK redeems the code, and bypasses the broker", said)
    page.click(".push")
    page.sees("document.querySelector('[data-provider=oidc]:enabled') && 1", "the older app is deleted → the phone shows its start page")
    older(page)
    before = token_calls()
    noticed = page.notices()
    page.click("#update")
    page.signed_in("the older app is updated → the phone shows the user's session")
    page.sees(f"Number(document.getElementById('noticed').dataset.count) > {noticed}", "the older app is updated → the page explains the move")
    same("Nothing.", browser.text("#noticed"), "the older app is updated → the move goes unnoticed")
    say("refresh token has left the phone" in browser.text("#explanation"), "the older app is updated → the page explains that the refresh token has left the phone", browser.text("#explanation"))
    same(before + 1, token_calls(), "the older app is updated → one refresh at the provider")
    say(browser.run("document.getElementById('old-tokens') === null"), "the older app is updated → the tokens are gone from the phone")
    page.sees("document.querySelector('.facts').innerText.includes('of this phone')", "the older app is updated → the session belongs to the phone's key")
    told = browser.run("[...document.querySelectorAll('#messages li')].map(e => e.textContent)")
    order = [next((i for i, each in enumerate(told) if words in each), -1) for words in ("stores its mark", "POST /v1/sessions", "201 Created", "erases the old tokens")]
    say(-1 not in order and order == sorted(order), "the older app is updated → the diagram has the mark, the post, the session and the erasure, in this order", order)
    everything = browser.run("document.getElementById('messages').textContent")
    tokens = [each["token"] for each in control(run, "/tokens?provider=oidc")]
    say(tokens and not [each for each in tokens if each in everything], "the diagram of a move → hides the tokens")
    say("login_token" in everything and not re.search(r'"(login_token|refresh_token)": "[\w-]{20}', everything), "the diagram of a move → shows the secrets shortened")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "the older app is updated, and the user calls the API → 200")
    page.sign_out()

    older(page)
    before = token_calls()
    noticed, why = page.trouble("lose-move")
    page.signed_in("the playground's switch lose-move is pressed → the phone shows the user's session")
    say(noticed.startswith("Nothing but a pause"), "the playground's switch lose-move is pressed → the user notices only a pause", (noticed, why))
    same(before + 2, token_calls(), "the playground's switch lose-move is pressed → the broker makes two refreshes")
    page.sign_out()

    page.click("#clear")
    older(page)
    noticed, why = page.trouble("steal-refresh-token")
    browser.run("scrollTo(0, 0), 1")
    size = browser.picture(f"{shots}/playground-move-in.webp")
    same("Nothing, and the thief gets nothing.", noticed, "the playground's switch steal-refresh-token is pressed → the thief is refused")
    say("409 code_already_used from the broker, and 400 invalid_grant from the provider" in why, "the playground's switch steal-refresh-token is pressed → broker and provider refuse the copied token", why)
    same(("Nothing.", True), (lambda n, w: (n, "once" in w))(*page.trouble("expire-token")), "a thief has shown the spent refresh token, and the access token expires → the session goes on unnoticed")
    page.sign_out()

    older(page)
    page.trouble("kill-provider")
    noticed = page.notices()
    page.click("#update")
    page.sees(f"Number(document.getElementById('noticed').dataset.count) > {noticed}", "the older app is updated while the provider is dead → the page explains the end")
    same(("“Please sign in again.”", True), (browser.text("#noticed"), "409 login_required (refresh_lost)" in browser.text("#explanation")),
         "the older app is updated while the provider is dead → two lost answers, and the user signs in again")
    page.trouble("kill-provider")
    return size
