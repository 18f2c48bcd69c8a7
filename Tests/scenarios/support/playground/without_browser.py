"""Callers that the playground refuses, and the lines that scripts/run prints."""

import re
import subprocess
import tempfile

from .running import ask
from .said import same, say


def refusals(run):
    """Callers that the playground refuses."""
    _, page, headers = ask(run, "GET", "/playground/")
    token = re.search(r'playground-token" content="([^"]+)"', page).group(1)
    good = {"Content-Type": "application/json", "Playground-Token": token}
    call = lambda **changed: ask(run, "POST", "/playground/clear", {k: v for k, v in {**good, **changed}.items() if v}, "{}")[0]
    same(421, call(Host="evil.example"), "the sandbox under another host name (DNS rebinding) → 421")
    same(421, ask(run, "GET", "/playground/", {"Host": "evil.example:80"})[0], "the playground's page under another host name → 421, so the page's token stays secret")
    same(403, call(Origin="https://evil.example"), "a command to the playground from another site's page → 403")
    same(403, call(Origin="http://127.0.0.1:1"), "a command to the playground from a page on another port → 403")
    same(415, call(**{"Content-Type": "text/plain"}), "a command to the playground with a media type that a form can send → 415")
    same(403, call(**{"Playground-Token": None}), "a command to the playground without the page's token → 403")
    same(403, call(**{"Playground-Token": "A" * len(token)}), "a command to the playground with a wrong page token → 403")
    same(200, call(Origin=run.sandbox), "a command to the playground from the playground's own page → 200")
    same(403, ask(run, "DELETE", "/_sandbox/faults", {"Origin": "https://evil.example"})[0], "a call of /_sandbox from another site's page → 403")
    same(421, ask(run, "GET", "/_sandbox/tokens", {"Host": "evil.example"})[0], "a call of /_sandbox under another host name → 421")
    say("default-src 'none'" in headers["Content-Security-Policy"], "the Content-Security-Policy of the playground's page → begins with default-src 'none'")


def pasted(run):
    """The lines that scripts/run prints, pasted into a shell."""
    block = run.text[run.text.index("A login,"):run.text.index("For operators:")]
    lines = "\n".join(line[2:] for line in block.splitlines() if line.startswith("  "))
    with tempfile.TemporaryDirectory() as folder:
        done = subprocess.run(["bash", "-u", "-c", lines], cwd=folder, capture_output=True, text=True, timeout=60)
    statuses = re.findall(r"HTTP/1.1 (\d+)", done.stdout)
    same("201 204 201 201", " ".join(statuses), "the lines that scripts/run prints, pasted → log in, log out, and log in at Zephr in both ways")
