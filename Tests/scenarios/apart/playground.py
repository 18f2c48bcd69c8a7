"""The playground in a headless Chromium. The script clicks every provider and every switch, and checks what the page shows.

python playground.py [--pictures FOLDER]

scripts/run starts the playground, as for a user. COATCHECK and COATCHECK_SANDBOX name the programs; the default is the built
ones.
"""

import argparse
import pathlib
import shutil
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.chromium import Chromium  # noqa: E402
from support.playground.diagram import diagram, secrets_and_lines  # noqa: E402
from support.playground.moves import moves  # noqa: E402
from support.playground.page import Page  # noqa: E402
from support.playground.payments import payments  # noqa: E402
from support.playground.running import Run  # noqa: E402
from support.playground.said import same, say, verdicts  # noqa: E402
from support.playground.sign_ins import keyboard, providers  # noqa: E402
from support.playground.switches import groups, switches  # noqa: E402
from support.playground.thieves import bound, web_view  # noqa: E402
from support.playground.without_browser import pasted, refusals  # noqa: E402


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
        page.sees("document.querySelectorAll('[data-provider]').length === 7 && document.querySelectorAll('#old-app').length === 1 && document.querySelectorAll('.switch').length === 13", "the playground's page → has seven ways to sign in, an older app, and thirteen switches")
        ground = browser.run("getComputedStyle(document.body).backgroundColor")
        providers(page)
        shots = pictures or folder
        sizes = [browser.picture(f"{shots}/playground-registration.webp")]
        page.click("#registration button")
        page.signed_in("a registration at Zephr gets its missing attributes → the phone shows the new user", "new-")
        page.sign_out()
        keyboard(page)
        page.sign_out()
        page.click("#clear")
        page.sign_in("cloudentity")
        page.signed_in("a sign-in with Cloudentity → the phone shows the user")
        page.idle()
        noticed, why = page.trouble("drop-answer")
        say(noticed.startswith("Nothing") and "idempotency" in why, "the user switches on drop-answer for Cloudentity → the page explains that the broker repeats the call with the idempotency key", (noticed, why))
        sizes.append(browser.picture(f"{shots}/playground.webp"))
        browser.media("dark")
        say(browser.run("getComputedStyle(document.body).backgroundColor") != ground, "the browser prefers dark colours → the playground's page has another background")
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
        sizes.append(moves(page, run, shots))
        say(max(sizes) < 150_000, "each picture of the playground → smaller than 150 kB", sizes)
        secrets_and_lines(page, run)
        same([], browser.complaints(), "the whole run of the playground → the browser reports no script error and no policy violation")
        foreign = [url for url in browser.asked() if not url.startswith(run.sandbox + "/")]
        same([], foreign, "the whole run of the playground → the page calls only the sandbox's host")
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
