"""Payments that require a step-up or the user's presence."""

import json
import urllib.request

from .page import phone_in_sight
from .said import same, say


def payments(page, run, shots):
    """20 € require a fresh sign-in, 500 € the user's presence. Returns the sizes of the pictures."""
    browser = page.browser
    taken = lambda: [each["amount"] for each in json.load(urllib.request.urlopen(f"{run.sandbox}/api/payments", timeout=20))["payments"]]
    page.sign_in("clever")
    page.signed_in("a sign-in at a provider without payments → the phone shows the user")
    say(browser.run("document.getElementById('pay-20') === null && document.querySelector('[data-trouble=ignore-step-up]').disabled"),
        "a provider that omits the time of the sign-in → the phone has no payments")
    page.sign_out()
    page.sign_in("oidc")
    page.signed_in("a sign-in before the payments → the phone shows the user")
    say(browser.run("document.querySelector('[data-trouble=steal-presence]').disabled"), "a session that belongs to no key → the switch steal-presence is disabled")
    handle = page.handle()
    noticed, why = page.trouble("ignore-step-up")
    same("That nothing was paid; they are still signed in.", noticed, "the playground's switch ignore-step-up is pressed → nothing is paid")
    say("403 step_up_failed" in why and "as it was" in why, "the playground's switch ignore-step-up is pressed → step_up_failed, and the session is unchanged", why)

    def asked():
        page.click("#pay-20")
        page.sees("document.getElementById('step-up')?.innerText.includes('To pay 20 €')", "a payment of 20 € → the provider's page opens and names the payment")

    def unpaid(press, words, sentence):
        before = page.notices()
        asked()
        page.click(press)
        page.sees(f"Number(document.getElementById('noticed').dataset.count) > {before} && document.getElementById('explanation').innerText.includes('{words}')"
                  " && document.getElementById('pay-20')?.disabled === false", sentence)
        same(handle, page.handle(), "a step-up for a payment fails → the phone keeps its session")

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
    say(browser.run("presenceKey.privateKey.extractable === false && presenceKey !== deviceKey"), "the page's presence key → differs from the device key, and cannot be exported")
    page.click("#pay-500")
    page.sees("document.querySelector('[data-person=ana]:enabled') && document.getElementById('step-up') && 1", "a payment of 500 € → a fresh sign-in comes first")
    page.click("[data-person=ana]")
    page.sees("!document.getElementById('question').hidden && document.getElementById('asked').innerText.includes('Let this phone confirm')", "a payment of 500 € after the fresh sign-in → the phone asks whether it may confirm payments with a presence key")
    say("stands in for it" in browser.text("#question"), "the phone asks its user a question → the page explains that the question replaces a phone's dialog")
    same(True, browser.run("document.getElementById('screen').inert && document.activeElement.id === 'yes'"), "the phone asks its user a question → the rest of the phone cannot be pressed")
    browser.click("#no")
    page.sees("document.getElementById('question').hidden && document.getElementById('explanation').innerText.includes('did not say yes')", "the user refuses the presence key → the phone shows the refusal")
    page.click("#pay-500")
    page.sees("document.getElementById('asked').innerText.includes('Let this phone confirm') && !document.getElementById('question').hidden", "a payment of 500 € after a refused presence key → the phone asks about the key again")
    browser.click("#yes")
    page.sees("document.getElementById('asked').innerText.includes('Pay 500 €') && !document.getElementById('question').hidden", "the user accepts the presence key → the phone asks about the payment")
    browser.click("#yes")
    page.sees("document.getElementById('paid')?.innerText.includes('500 EUR')", "the user confirms the payment of 500 € on the phone → the payment is made")
    page.sees("document.querySelector('.facts').innerText.includes('another key')", "a session with a presence key → the phone shows the key")
    page.click("#clear")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees("!document.getElementById('question').hidden", "the playground's switch steal-presence is pressed → the phone asks its user")
    browser.size(390, 844)
    page.sees("document.documentElement.scrollWidth <= innerWidth && (r => r.left >= 0 && r.right <= innerWidth)(document.getElementById('yes').getBoundingClientRect())",
              "the phone asks its user a question on a small screen → the question fits")
    browser.run("scrollTo(0, document.body.scrollHeight), 1")
    browser.key("Escape")
    page.sees("document.getElementById('question').hidden && document.getElementById('explanation').innerText.includes('did not say yes')", "the user presses Escape while the phone asks a question → the phone treats this as a refusal")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees(f"!document.getElementById('question').hidden && {phone_in_sight}", "the phone asks its user a question → the page scrolls the phone into view")
    browser.size(1280, 1020)
    same(True, browser.run("['header', '.talk', '.trouble'].every(part => document.querySelector(part).inert)"), "the phone asks its user a question → the rest of the page cannot be pressed")
    browser.click("#yes")
    browser.until(f"Number(document.getElementById('noticed').dataset.count) > {before}", 60)
    same(False, browser.run("document.querySelector('.trouble').inert"), "the user has answered the phone's question → the page can be pressed again")
    page.idle()
    same("The phone's question, and the thieves get nothing.", browser.text("#noticed"), "the playground's switch steal-presence is pressed → the thieves get nothing")
    say(all(f"presence_invalid ({reason})" in browser.text("#explanation") for reason in ("address", "replayed", "key")),
        "the playground's switch steal-presence is pressed → the thieves' proofs are refused with the reasons address, replayed and key", browser.text("#explanation"))
    same([20, 500, 500], taken(), "the playground's switch steal-presence is pressed → the API took only the user's payments")
    browser.run("scrollTo(0, 0), 1")
    sizes.append(browser.picture(f"{shots}/playground-presence.webp"))
    page.sign_out()

    # A sign-in an hour ago, on a small screen. The step-up comes first, and then the thieves.
    page.sign_in("oidc-bound")
    page.signed_in("the user signs in with a key on a small screen → the phone shows the user")
    browser.size(390, 844)
    browser.run("document.querySelector('[data-trouble=steal-presence]').scrollIntoView(), 1")
    before = page.notices()
    page.click("[data-trouble=steal-presence]")
    page.sees(f"document.getElementById('step-up') && {phone_in_sight}", "the switch steal-presence is pressed an hour after the sign-in → the page scrolls the phone with the provider's page into view")
    say("phone waits for you" in browser.text("[data-trouble=steal-cookie]"), "the phone waits for its user → a switch that needs the session shows that the phone waits", browser.text("[data-trouble=steal-cookie]"))
    browser.run("document.querySelector('[data-trouble=steal-cookie]').scrollIntoView(), 1")
    browser.click("[data-trouble=steal-cookie]")
    page.sees(phone_in_sight, "the phone waits for its user, and a switch is clicked → the page scrolls to the phone")
    page.click("[data-person=ana]")
    page.sees("document.getElementById('asked').innerText.includes('Let this phone confirm') && !document.getElementById('question').hidden", "the switch steal-presence is pressed, and the user signs in again → the phone asks about the presence key")
    browser.click("#yes")
    page.sees("document.getElementById('asked').innerText.includes('Pay 500 €') && !document.getElementById('question').hidden", "the switch steal-presence is pressed, and the user accepts the presence key → the phone asks about the payment")
    before = page.notices()
    browser.click("#yes")
    browser.until(f"Number(document.getElementById('noticed').dataset.count) > {before}", 60)
    page.idle()
    same("The phone's question, and the thieves get nothing.", browser.text("#noticed"), "the switch steal-presence is pressed, and the user confirms everything → the thieves get nothing")
    browser.size(1280, 1020)
    page.sign_out()
    return sizes
