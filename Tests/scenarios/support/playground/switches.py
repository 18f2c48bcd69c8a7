"""The switches that cause trouble for a session without a key, and the order of all switches."""

from .running import control
from .said import same, say


def switches(page, run):
    """Presses the switches of a session without a key, and checks what the user notices."""
    browser = page.browser
    page.sign_in("oidc")
    page.signed_in("a sign-in before the switches → the phone shows the user")
    handle = page.handle()
    same(("Nothing.", True), (lambda n, w: (n, "once" in w))(*page.trouble("expire-token")), "the playground's switch expire-token is pressed → the user notices nothing")
    say("event: tokens_refreshed" in page.arrows(), "the playground's switch expire-token is pressed → the diagram has the refresh's event")
    noticed, why = page.trouble("drop-answer")
    say(noticed.startswith("Nothing"), "the playground's switch drop-answer is pressed → the user notices nothing, or a pause", (noticed, why))
    say(any("no answer" in arrow for arrow in page.arrows()), "the playground's switch drop-answer is pressed → the diagram has the lost answer")

    noticed, why = page.trouble("kill-provider")
    say(noticed == "Nothing." and "Still signed in" in why, "the playground's switch kill-provider is pressed → the user notices nothing", (noticed, why))
    same("Revive the provider", browser.text("[data-trouble=kill-provider] b"), "the playground's switch kill-provider is pressed → offers to revive the provider")
    browser.click("[data-trouble=expire-token]")
    page.sees("document.getElementById('busy').innerText.includes('trying again')", "the playground's switch expire-token is pressed while the provider is dead → the phone waits")
    same(handle, page.handle(), "the playground's switch expire-token is pressed while the provider is dead → the phone keeps its session")
    before = page.notices()
    browser.click("[data-trouble=kill-provider]")
    # One notice is about the restart, the other about the delayed call.
    browser.until(f"Number(document.getElementById('noticed').dataset.count) >= {before + 2}", 75)
    page.sees("document.getElementById('noticed').textContent.startsWith('Nothing but a pause')", "a call waits for the playground's dead provider, and the provider is revived → the call goes on after a pause", 75)
    page.idle()
    same(handle, page.handle(), "the playground's dead provider is revived → the phone keeps its session")

    before = control(run, "/counts").get("oidc/token", 0)
    noticed, why = page.trouble("fifty-forwards")
    same("Nothing.", noticed, "the playground's phone forwards one code fifty times → the user notices nothing")
    same(before + 1, control(run, "/counts").get("oidc/token", 0), "the playground's phone forwards one code fifty times → one token call at the provider")
    page.signed_in("the playground's phone forwards one code fifty times → the phone shows the user")
    noticed, why = page.trouble("steal-code")
    say("403 login_not_yours" in why, "the playground's switch steal-code is pressed → the thief is refused", (noticed, why))
    page.signed_in("the playground's switch steal-code is pressed → the phone shows its user")
    noticed, why = page.trouble("steal-cookie")
    same("Nothing, and the thief is in.", noticed, "the playground's switch steal-cookie is pressed → the phone shows that the thief is in")
    page.sign_out()
    page.sees("document.getElementById('explanation').innerText.includes('401, logged_out')", "the playground's thief has copied the cookie, and the user signs out → the thief gets 401")

    page.sign_in("oidc", "ben")
    page.signed_in("Ben signs in at the playground → the phone shows Ben", "Ben")
    noticed, why = page.trouble("log-out-elsewhere")
    same("“You were signed out from another device.”", noticed, "the playground's switch log-out-elsewhere is pressed → the phone's session ends")
    same("You were signed out from another device.", browser.text("#word"), "the playground's switch log-out-elsewhere is pressed → the phone shows the reason")

    page.sign_in("oidc")
    page.signed_in("a sign-in before kill-broker → the phone shows the user")
    handle, pid = page.handle(), run.broker_pid()
    noticed, why = page.trouble("kill-broker")
    say(noticed.startswith("Nothing") and "same cookie" in why, "the playground's switch kill-broker is pressed → the user notices at most a pause", (noticed, why))
    say(pid != run.broker_pid(), "the playground's switch kill-broker is pressed → scripts/run starts another process")
    same(handle, page.handle(), "the playground's switch kill-broker is pressed → the phone keeps its session")
    page.click("#call")
    page.sees("document.getElementById('relay')?.innerText.includes('200.')", "the playground's switch kill-broker is pressed, and then the user calls the API → 200")
    page.sees("document.getElementById('live').innerText === 'events on'", "the playground's switch kill-broker is pressed → the phone listens to events again")
    page.sign_out()

    page.sign_in("clover")
    page.signed_in("a sign-in with Clover → the phone shows the user")
    noticed, why = page.trouble("drop-answer")
    say(noticed.startswith("Nothing") and "recovery" in why, "the playground's switch drop-answer is pressed for Clover → the broker recovers the tokens", (noticed, why))
    page.click("#listen")
    page.sees("document.getElementById('live').innerText === 'events off'", "the playground's user presses the button that stops events → the phone shows “events off”")
    page.sign_out()


def groups(page):
    """The switches are grouped by the source of the trouble. In each group, the switches that can be used now come first."""
    browser = page.browser
    same(["The network and the provider", "A thief", "The user"], browser.run("[...document.querySelectorAll('#switches h3')].map(e => e.innerText)"), "the playground's switches → are in three groups: network and provider, thief, user")
    order = "[...document.querySelectorAll('#switches .switches')].map(list => [...list.children].map(e => e.dataset.fits === 'true'))"
    sorted_first = "(lists => lists.every(l => l.every((fits, i) => fits || !l.slice(i).includes(true))))"
    page.sees(f"{sorted_first}({order}) && {order}.flat().includes(false)", "the playground's switches without a session → in each group, the usable ones come first")
    page.sign_in("oidc")
    page.signed_in("a sign-in before the checks of the switches' order → the phone shows the user")
    page.sees(f"{sorted_first}({order})", "the playground's switches with a session → in each group, the usable ones come first")
    same("expire-token", browser.run("document.querySelector('#switches .switch').dataset.trouble"), "the playground's switches with a session → expire-token is the first")
    page.sign_out()
