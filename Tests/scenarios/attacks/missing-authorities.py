"""Configurations whose `ca_file` is missing, empty or broken.

The sources of the attacks are in docs/known-attacks.md. The case makes the attacks first, and then an honest request.
"""

import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.cases import main  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402


def authorities(case):
    """A `ca_file` that is missing, empty or broken → the start fails (SEC-111)"""
    broker = Broker(case, Sandbox(case), start=False)
    (case.folder / "empty.pem").write_text("")
    (case.folder / "junk.pem").write_text("-----BEGIN CERTIFICATE-----\nbm90IGEgY2VydGlmaWNhdGU=\n-----END CERTIFICATE-----\n")
    (case.folder / "words.pem").write_text("trust me\n")
    api = {"base_url": "https://api.example.com", "provider": "oidc", "allow": ["GET /**"]}
    for name in ("missing.pem", "empty.pem", "junk.pem", "words.pem"):
        for where in ("outbound", "upstream"):
            file = str(case.folder / name)
            broker.settings["outbound"] = {"ca_file": file} if where == "outbound" else {}
            broker.settings["upstreams"] = {"api": api | ({"tls": {"ca_file": file}} if where == "upstream" else {})}
            broker.configure()
            for words in (["check"], ["serve"]):
                try:
                    run = subprocess.run([COATCHECK, *words, "--config", broker.configuration], capture_output=True, text=True, timeout=10)
                    case.verdict(run.returncode != 0 and "ca_file" in run.stdout + run.stderr, f"`{words[0]}` of a configuration whose {where} section has the ca_file {name} → refused, and the message names ca_file", (run.stdout + run.stderr)[:300])
                except subprocess.TimeoutExpired:
                    case.verdict(False, f"`{words[0]}` of a configuration whose {where} section has the ca_file {name} → refused", "it runs")
    broker.settings["outbound"], broker.settings["upstreams"] = {}, {"api": api}
    broker.configure()
    run = subprocess.run([COATCHECK, "check", "--config", broker.configuration], capture_output=True, text=True, timeout=10)
    case.same(0, run.returncode, "`check` of a configuration without ca_file → succeeds")


if __name__ == "__main__":
    main({"authorities": (authorities, 60)}, __doc__)
