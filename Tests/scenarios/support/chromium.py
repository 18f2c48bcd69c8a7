"""A headless Chromium, which a pipe controls by the DevTools protocol. Only the browser itself has to be installed."""

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time


class Navigated(RuntimeError):
    """Raised if the browser has opened another page during an evaluation."""

    WORDS = ("Inspected target navigated or closed", "Execution context was destroyed", "Cannot find default execution context")


class Chromium:
    """One browser with one page."""

    def __init__(self, width=1360, height=1000):
        self.folder = tempfile.mkdtemp(prefix="coatcheck-chromium.")
        fonts = os.path.join(self.folder, "fonts.conf")
        with open(fonts, "w") as file:
            file.write(
                '<?xml version="1.0"?><!DOCTYPE fontconfig SYSTEM "fonts.dtd"><fontconfig>'
                '<include ignore_missing="yes">/etc/fonts/fonts.conf</include>'
                + "".join(
                    f'<match target="pattern"><test name="family"><string>{name}</string></test>'
                    '<edit name="family" mode="prepend" binding="strong"><string>Inter</string></edit></match>'
                    for name in ("system-ui", "sans", "sans-serif"))
                + "</fontconfig>")
        to_browser, commands = os.pipe()
        answers, from_browser = os.pipe()
        # Chromium's sandbox refuses to run as root, and the tests' own page on loopback needs none.
        alone = ["--no-sandbox"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec 3<&{to_browser} 4>&{from_browser}; exec "$@"', "_", "chromium", "--headless", *alone,
             "--remote-debugging-pipe", f"--user-data-dir={self.folder}/profile", "--disable-gpu", "--no-first-run",
             "--disable-background-networking", "--disable-component-update", "--disable-dev-shm-usage", "--disable-extensions",
             "--force-color-profile=srgb", "--lang=en-GB", f"--window-size={width},{height}"],
            pass_fds=(to_browser, from_browser), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            env={**os.environ, "FONTCONFIG_FILE": fonts, "HOME": self.folder, "LANGUAGE": "en_GB", "TZ": "UTC"})
        os.close(to_browser)
        os.close(from_browser)
        self.commands, self.answers = commands, answers
        self.buffer = b""
        self.number = 0
        self.events = []
        self.session = None
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def close(self):
        try:
            self.call("Browser.close")
            self.process.wait(10)
        except Exception:
            self.process.kill()
            self.process.wait()
        os.close(self.commands)
        os.close(self.answers)
        shutil.rmtree(self.folder, ignore_errors=True)

    def call(self, method, seconds=60, **parameters):
        """Sends a command and waits for its answer. Events that arrive meanwhile are kept."""
        self.number += 1
        message = {"id": self.number, "method": method, "params": parameters}
        if self.session and not method.startswith(("Target.", "Browser.")):
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        end = time.monotonic() + seconds
        while True:
            answer = self.receive(end, method)
            if answer.get("id") == self.number:
                if "error" in answer:
                    is_left = answer["error"].get("message", "").startswith(Navigated.WORDS)
                    raise (Navigated if is_left else RuntimeError)(f"{method}: {answer['error']}")
                return answer["result"]

    def receive(self, end, awaited):
        """Returns the browser's next message. If it is an event, it is kept."""
        while b"\0" not in self.buffer:
            if not select.select([self.answers], [], [], max(0, end - time.monotonic()))[0]:
                raise TimeoutError(f"{awaited}: no answer")
            read = os.read(self.answers, 1 << 20)
            if not read:
                raise EOFError("the browser is gone")
            self.buffer += read
        line, self.buffer = self.buffer.split(b"\0", 1)
        message = json.loads(line)
        if "method" in message:
            self.events.append(message)
        return message

    def open(self, url, seconds=60):
        """Opens an address. Returns when the former page is gone and the new page is complete."""
        seen, end = len(self.events), time.monotonic() + seconds
        answer = self.call("Page.navigate", url=url)

        def has_gone():
            return any(
                event["method"] == "Page.frameNavigated" and event["params"]["frame"]["loaderId"] == answer["loaderId"]
                for event in self.events[seen:])

        # The browser answers early, and uses the former page until the new frame exists.
        while "loaderId" in answer and "errorText" not in answer and not has_gone():
            self.receive(end, f"{url}: the page")
        self.until("document.readyState === 'complete'")

    def run(self, script):
        """The value of an expression."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(result["exceptionDetails"].get("exception", {}).get("description", str(result)))
        return result["result"].get("value")

    def until(self, script, seconds=30):
        """Waits until an expression is true, even over redirects. Returns its value, or its last value after the time limit."""
        end = time.monotonic() + seconds
        while True:
            is_over = time.monotonic() > end
            try:
                value = self.run(script)
                if value or is_over:
                    return value
            except Navigated:
                # The browser has opened another page, so ask that page.
                if is_over:
                    raise
            time.sleep(0.03)

    def text(self, selector):
        return self.run(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector, seconds=30):
        """Waits until an element exists and accepts clicks, and clicks in its middle."""
        element = json.dumps(selector)
        place = self.until(
            f"(() => {{ const e = document.querySelector({element}); if (!e || e.disabled) return null;"
            "e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();"
            "return [r.x + r.width / 2, r.y + r.height / 2]; })()", seconds)
        if not place:
            raise TimeoutError(f"{selector} takes no click: {self.text('main')[:800]}")
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=place[0], y=place[1], button="left", clickCount=1)

    def key(self, name):
        """Presses a key: Tab, Enter or Space."""
        code, text = {"Tab": (9, ""), "Escape": (27, ""), "Enter": (13, "\r"), "Space": (32, " ")}[name]
        parameters = {"key": " " if name == "Space" else name, "code": name, "windowsVirtualKeyCode": code}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **parameters)
        self.call("Input.dispatchKeyEvent", type="keyUp", **parameters)

    def media(self, scheme, forced="none"):
        """Sets a light or a dark theme, and whether the system forces its colours."""
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": scheme}, {"name": "prefers-reduced-motion", "value": "reduce"},
            {"name": "forced-colors", "value": forced}])

    def size(self, width, height, scale=1):
        self.call("Emulation.setScrollbarsHidden", hidden=True)
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=scale, mobile=False)

    def picture(self, path, quality=82):
        """Takes a picture of the window, as WebP or PNG according to the name."""
        kind = {} if path.endswith(".png") else {"format": "webp", "quality": quality}
        data = base64.b64decode(self.call("Page.captureScreenshot", **kind)["data"])
        with open(path, "wb") as file:
            file.write(data)
        return len(data)

    def complaints(self):
        """The errors that the page, its policy or its script has caused."""
        found = []
        for event in self.events:
            parameters = event["params"]
            if event["method"] == "Runtime.exceptionThrown":
                found.append(parameters["exceptionDetails"].get("exception", {}).get("description", "an exception"))
            if event["method"] == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(parameters["entry"]["text"] + " " + parameters["entry"].get("url", ""))
        return found

    def asked(self):
        """Every requested address."""
        return {e["params"]["request"]["url"] for e in self.events if e["method"] == "Network.requestWillBeSent"}
