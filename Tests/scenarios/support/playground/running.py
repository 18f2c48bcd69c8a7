"""scripts/run as a process, and requests to its sandbox without a browser."""

import http.client
import json
import os
import pathlib
import re
import select
import signal
import subprocess
import time
import urllib.request

from ..wire import ROOT


def programs():
    """The two programs. scripts/run uses them instead of a build."""
    environment = dict(os.environ)
    for name, program in (("COATCHECK", "coatcheck"), ("COATCHECK_SANDBOX", "coatcheck-sandbox")):
        for folder in ("dist", "debug"):
            path = ROOT / ".build" / folder / program
            if name not in environment and path.exists():
                environment[name] = str(path)
    return environment


class Run:
    """scripts/run, from its first line to its end."""

    def __init__(self, folder):
        self.folder = folder
        self.process = subprocess.Popen(
            [ROOT / "scripts/run", folder], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
            env=programs(), start_new_session=True)
        self.said = b""
        end = time.monotonic() + 120
        while b"/playground/\n" not in self.said:
            ready = select.select([self.process.stdout], [], [], max(0, end - time.monotonic()))[0]
            read = os.read(self.process.stdout.fileno(), 65536) if ready else b""
            if not read:
                raise SystemExit(f"Bail out! scripts/run did not start: {self.said.decode()[-800:]}")
            self.said += read
        self.text = self.said.decode()
        self.url = re.search(r"http\S+/playground/", self.text).group(0)
        self.sandbox = self.url.removesuffix("/playground/")
        self.broker = re.search(r"BROKER=(\S+)", self.text).group(1)

    def broker_pid(self):
        return pathlib.Path(self.folder, "broker.pid").read_text().strip()

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)


def control(run, path):
    with urllib.request.urlopen(f"{run.sandbox}/_sandbox{path}", timeout=20) as answer:
        return json.load(answer)


def ask(run, method, path, headers=None, body=None):
    """Makes a request with exactly these fields. Returns the status and the body."""
    connection = http.client.HTTPConnection(run.sandbox.removeprefix("http://"), timeout=20)
    connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
    for name, value in {"Host": run.sandbox.removeprefix("http://"), **(headers or {})}.items():
        connection.putheader(name, value)
    data = (body or "").encode()
    connection.putheader("Content-Length", str(len(data)))
    connection.endheaders(data)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text, answer.headers
