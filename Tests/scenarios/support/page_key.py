"""Takes the place of the playground's page without a browser: registers a key, and signs with it until it is stopped.

    python page_key.py SANDBOX TOKEN
"""

import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parents[1]))

from support.calls import call  # noqa: E402
from support.dpop import Phone  # noqa: E402

sandbox, token = sys.argv[1:]
phone = Phone(None)


def play(action, body):
    return call(f"{sandbox}/playground/{action}", "POST", body, Playground_Token=token)


play("key", {name: phone.jwk[name] for name in "xy"})
print("shown", flush=True)
while True:
    for order in play("wait", {}).json["sign"]:
        play("signed", {"number": order["number"], "signature": phone.signature(order["text"])})
    time.sleep(0.02)
