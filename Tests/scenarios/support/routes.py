"""Compares the contract with a running broker: every documented path exists, with exactly the documented methods. The relay's
paths are left out, because they take any method. Management paths do not exist at the public listener.

    python routes.py PUBLIC-URL MANAGEMENT-URL ADMIN-TOKEN
"""

import pathlib
import sys
import urllib.error
import urllib.request

import yaml

from verdicts import Verdicts

public, management, token = sys.argv[1:]
contract = yaml.safe_load((pathlib.Path(__file__).resolve().parents[3] / "openapi.yaml").read_text())
values = {"handle": "ses_" + "A" * 22, "provider": "oidc", "upstream": "api", "path": "echo", "subject": "user-ana",
          "ticket": "A" * 43}
verdicts = Verdicts()
say = verdicts.verdict


def ask(method, url):
    request = urllib.request.Request(url, method=method, headers={"Authorization": f"Bearer {token}"})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers
    except urllib.error.HTTPError as error:
        return error.code, error.headers


for path, item in contract["paths"].items():
    documented = {m.upper() for m, o in item.items() if isinstance(o, dict) and "responses" in o}
    if "relay" in next(o for o in item.values() if isinstance(o, dict) and "responses" in o)["tags"]:
        continue  # takes any method
    base = management if "servers" in item else public
    status, headers = ask("PURGE", base + path.format(**values))
    say(status == 405, f"the path {path} of the contract → the broker has this path", f"PURGE gave {status}")
    allowed = {m.strip() for m in headers.get("Allow", "").split(",")} - {"HEAD", "OPTIONS", ""}
    say(allowed == documented, f"the path {path} of the contract → has exactly the methods {', '.join(sorted(documented))}", f"the broker has {', '.join(sorted(allowed))}")
    if base == management:
        status, _ = ask("GET", public + path.format(**values))
        say(status == 404, f"GET of the management path {path} on the public listener → 404", f"GET gave {status}")

verdicts.finish()
