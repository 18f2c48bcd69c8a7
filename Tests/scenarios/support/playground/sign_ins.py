"""A sign-in at each of six providers, and a sign-in with the keyboard."""

from .said import same, say


def providers(page):
    """Signs in and out once at each of six providers. At Zephr, checks a refusal and a partial registration, too."""
    for name, title in (("oidc", "OpenID Connect"), ("cloudentity", "Cloudentity"), ("clever", "Clever"), ("clover", "Clover"),
                        ("github", "GitHub style"), ("zephr", "Zephr")):
        page.sign_in(name)
        page.signed_in(f"{title}, a sign-in → the phone shows the user", "ana@" if name == "zephr" else "Ana")
        page.click("#call")
        page.sees("document.getElementById('relay')?.innerText.includes('200.')", f"{title}, the user calls the API → the API answers through the relay")
        page.sees("document.getElementById('live').innerText === 'events on'", f"{title}, the user is signed in → the phone listens to events")
        page.sign_out()
        page.sees("document.getElementById('word')?.innerText === 'You are signed out.'", f"{title}, the user signs out → the phone shows “You are signed out.”")
    said = page.arrows()
    for arrow in ("POST /v1/logins", "POST /v1/sessions", "POST /oidc/token", "POST /clever/oauth/tokens", "GET /v1/session/events",
                  "DELETE /v1/session", "event: session_ended"):
        say(any(arrow in each for each in said), f"the diagram after all sign-ins → has {arrow}", said[-30:])
    page.sign_in("zephr", "refuse")
    page.sees("document.getElementById('word')?.innerText.includes('access_denied')", "a refused sign-in at Zephr → the phone shows access_denied")
    page.sign_in("zephr", "new")
    page.sees("document.querySelector('#registration input') && document.getElementById('screen').innerText.includes('Almost there')",
              "a sign-in at Zephr by a user whose attributes are missing → the phone asks for these attributes")


def keyboard(page):
    """A login without the mouse."""
    browser = page.browser
    browser.click("h1")
    for _ in range(12):
        browser.key("Tab")
        if browser.run("document.activeElement.dataset.provider") == "oidc":
            break
    same("oidc", browser.run("document.activeElement.dataset.provider"), "the Tab key → reaches the page's first provider")
    say(browser.run("getComputedStyle(document.activeElement).outlineStyle") != "none", "the provider that the Tab key reached → shows its focus")
    browser.key("Enter")
    browser.until("document.querySelector('[data-person=ana]:enabled') && 1")
    for _ in range(12):
        if browser.run("document.activeElement.dataset.person") == "ana":
            break
        browser.key("Tab")
    browser.key("Enter")
    page.signed_in("the user signs in with the Enter key on provider and person → the phone shows the user")
