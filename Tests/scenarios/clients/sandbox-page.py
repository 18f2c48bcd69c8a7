"""The block of docs/apps/sandbox.md about the sandbox's control API, line by line."""

import pathlib
import re
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402

PAGE = pathlib.Path(__file__).resolve().parents[3] / "docs/apps/sandbox.md"


def control(case):
    """Each call has the effect that the page describes."""
    sandbox = Sandbox(case)
    block, = re.findall(r"```sh\n(CONTROL=.*?)^```", PAGE.read_text(), re.M | re.S)
    before = sandbox.control("GET", "/settings/oidc").json
    own = block.replace("http://127.0.0.1:8089", sandbox.url)
    lines = own.splitlines()
    assert lines[-1].startswith("curl -sS -X POST $CONTROL/reset")

    def run(some):
        done = subprocess.run(["bash", "-euc", "\n".join(some)], capture_output=True, text=True)
        case.same((0, ""), (done.returncode, done.stderr), f"the page's first {len(some)} lines → succeed")
        return done.stdout

    run(lines[:3])
    found = sandbox.control("GET", "/settings/oidc").json
    case.same({"access_token_lifetime": 300, "refresh_mode": "rotate-strict"},
              {name: found.get(name) for name in ("access_token_lifetime", "refresh_mode")},
              "two PUTs of settings → the second one changes only its own member")
    case.same(set(), {name for name in before if found.get(name) != before[name]} - {"access_token_lifetime", "refresh_mode"},
              "PUT of settings → all other settings keep their values")
    run([lines[0], *lines[3:5]])
    ana = sandbox.control("GET", "/users/ana").json
    case.same(("Ana Pérez", "ana@example.org", "user-ana"), (ana.get("name"), ana.get("email"), ana.get("sub")),
              "two PUTs of a user, the second with a null → this member has its default again, and the others keep their values")
    printed = run([lines[0], *lines[5:-1]])
    case.verdict('"status": 503' in printed or '"status":503' in printed, "PUT and GET of a fault → the fault is listed", printed)
    case.verdict('"revoked"' in printed, "POST of /revoke → the number of grants", printed)
    run([lines[0], lines[-1]])
    case.same((before, []), (sandbox.control("GET", "/settings/oidc").json, sandbox.control("GET", "/faults").json["items"]),
              "POST of /reset → settings and faults are those of the start")


def replaced(case):
    """`PUT` of a client replaces the whole client."""
    sandbox = Sandbox(case)
    form = "grant_type=client_credentials&client_id=shop&client_secret="
    for change, secret, told in (
            ({"secret": "first-secret", "auth": "client_secret_post"}, "first-secret", "known"),
            ({"auth": "client_secret_post"}, "first-secret", "401 invalid_client")):
        sandbox.control("PUT", "/clients/oidc/shop", change)
        answer = call(sandbox.url + "/oidc/token", "POST", form + secret, Content_Type="application/x-www-form-urlencoded")
        case.same(told, "known" if answer.json.get("error") != "invalid_client" else answer.told, f"PUT of a client with {sorted(change)} → {told}")


if __name__ == "__main__":
    main({"control": (control, 60), "replaced": (replaced, 60)}, __doc__)
