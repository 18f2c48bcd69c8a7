"""Starts examples/two-replicas with its one command, and compares the processes with compose.yaml. Then it kills, restarts and
pauses each replica. All calls of a signed-in app have to succeed.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.request

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.calls import call  # noqa: E402
from support.programs import COATCHECK, SANDBOX  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402
from support.waiting import GaveUp, wait_for  # noqa: E402
from support.wire import ROOT  # noqa: E402

EXAMPLE = ROOT / "examples/two-replicas"
says = Verdicts()

# An app with the TypeScript client, run by node. It signs in and makes calls until its input ends. For each line of its input, it
# prints its counts.
APP = """
const { Coatcheck, MemoryStorage } = require('./coatcheck')
const browser = { open: async page => (await fetch(page + '&sandbox_user=ana', { redirect: 'manual' })).headers.get('location') }
const coatcheck = new Coatcheck({ broker: process.argv[2], client: 'android', transport: 'bearer', storage: new MemoryStorage(), browser })
const counts = { calls: 0, faults: [], put_off: 0, ended: 0 }
let open = true
async function repeat(work) {
  while (open) {
    try { await work(); counts.calls += 1 } catch (error) { counts.faults.push(String(error)) }
    await new Promise(next => setTimeout(next, 20))
  }
}
// A replica that is killed during a refresh leaves its claim for 85 s (guarantee 3), which is longer than the client tries.
async function refresh() {
  const begin = Date.now()
  try { await coatcheck.refresh() } catch (error) {
    if (Date.now() - begin < 25000 || !(error.passes || error.constructor.name === 'Unreachable')) throw error
    counts.put_off += 1
  }
}
(async () => {
  const signIn = await coatcheck.signIn('oidc')
  const abort = new AbortController()
  const events = (async () => { for await (const event of coatcheck.events(abort.signal)) if (event.kind === 'ended') counts.ended += 1 })().catch(() => {})
  const work = [repeat(() => coatcheck.session()), repeat(refresh), repeat(async () => {
    const answer = await coatcheck.relay('api', 'private/orders')
    if (answer.status !== 200) throw new Error('relay ' + answer.status)
  })]
  console.log(JSON.stringify(signIn.session))
  for await (const line of require('readline').createInterface({ input: process.stdin })) {
    console.log(JSON.stringify({ ...counts, standing: await coatcheck.standing() }))
  }
  open = false
  await Promise.all(work)
  await coatcheck.signOut()
  // The stream may be between two connections.
  for (let turn = 0; turn < 300 && counts.ended === 0; turn++) await new Promise(next => setTimeout(next, 50))
  abort.abort()
  await events
  console.log(JSON.stringify({ ...counts, standing: await coatcheck.standing() }))
})()
"""


class Example:
    """The example's running command, and the addresses and the folder that it has printed."""

    def __init__(self):
        self.process = subprocess.Popen(
            [EXAMPLE / "run"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL,
            start_new_session=True, env=os.environ | {"COATCHECK": COATCHECK, "COATCHECK_SANDBOX": SANDBOX})
        self.printed = []
        threading.Thread(target=lambda: self.printed.extend(self.process.stdout), daemon=True).start()
        wait_for(180, lambda: "Ctrl-C stops everything." in self.text() or self.process.poll() is not None)
        found = re.search(r"nginx at (\S+)\. Logs and process ids are in (\S+)\.\n", self.text())
        if not found:
            self.process.terminate()
            self.process.wait(60)
            raise GaveUp("the example did not start: " + self.text()[-600:])
        self.url, self.folder = found[1], pathlib.Path(found[2])
        self.sandbox = re.search(r"(http://\S+)/playground/", self.text())[1]

    def text(self):
        return "".join(self.printed)

    def services(self):
        return sorted(file.stem for file in self.folder.glob("*.pid"))

    def pid(self, name):
        return int((self.folder / f"{name}.pid").read_text())

    def settings(self, name):
        return yaml.safe_load((self.folder / f"{name}.yaml").read_text())

    def is_ready(self, name):
        return call(f"http://{self.settings(name)['management']['listen']}/readyz", seconds=5).status == 200


def compared(example):
    """Checks that compose.yaml and the processes are equal, except for paths and ports."""
    compose = yaml.safe_load((EXAMPLE / "compose.yaml").read_text())
    services = compose["services"]
    # Leave out `prepare`, which ends at once, and `network`, whose only purpose is the shared network.
    says.same(sorted({*services} - {"prepare", "network"}), example.services(), "compose.yaml and the example's command → start the same services")
    replicas = {name: example.settings(name) for name in ("broker-1", "broker-2")}
    ports = {"8080": example.url.rpartition(":")[2], "8089": example.sandbox.rpartition(":")[2]}
    for name, service in services.items():
        if name in ("prepare", "network"):
            continue
        command = [*map(str, service["command"])]
        for old, new in [("/var/lib/coatcheck", str(example.folder)), ("/example/", f"{EXAMPLE}/"), ("0.0.0.0", "127.0.0.1"),
                         *((f":{old}", f":{new}") for old, new in ports.items())]:
            command = [word.replace(old, new) for word in command]
        running = pathlib.Path(f"/proc/{example.pid(name)}/cmdline").read_bytes().decode().strip("\0").split("\0")
        if name == "nginx":  # its master rewrites the line
            running = running[0].partition("nginx: master process ")[2].split()
        if name == "orders":  # python3 may be a wrapper with words of its own
            running = running[-2:]
        if name == "postgresql":  # the image sets the folder, and the port is the usual one
            running = ["postgres", *running[-2:]]
        says.same(command[-len(running[1:]):], running[1:], f"process {name} → has the command of compose.yaml")
        says.same("service:network", service["network_mode"], f"service {name} of compose.yaml → shares the network of the service `network`")
        says.same("unless-stopped", service["restart"], f"service {name} of compose.yaml → is restarted unless stopped, as by the command")
    database = services["postgresql"]["environment"]
    for name, settings in replicas.items():
        port = settings["store"]["url"].rpartition(":")[2].partition("/")[0]
        says.same("postgresql://{POSTGRES_USER}:{POSTGRES_PASSWORD}@127.0.0.1:{port}/{POSTGRES_DB}".format(port=port, **database),
                  settings["store"]["url"], f"process {name} → uses the database of compose.yaml")
        says.same(example.url, settings["server"]["public_url"], f"process {name} → its public_url is nginx's address")
    for settings in replicas.values():
        del settings["server"]["listen"], settings["management"]["listen"]
    says.same(replicas["broker-1"], replicas["broker-2"], "the configurations of both replicas → differ only in their ports")
    says.same({f"127.0.0.1:{port}:{port}" for port in ports}, {*services["network"]["ports"]}, "compose.yaml → publishes nginx and the sandbox on loopback")
    says.same("/bin/sh /example/prepare /var/lib/coatcheck /deploy", " ".join(services["prepare"]["entrypoint"]), "the service `prepare` of compose.yaml → runs the script `prepare` with the folders /var/lib/coatcheck and /deploy")
    # With the ports of compose, `prepare` writes the same addresses as compose.yaml has.
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run([EXAMPLE / "prepare", folder, ROOT / "deploy"], check=True, env=os.environ | {"COATCHECK": COATCHECK})
        proxy = pathlib.Path(folder, "nginx/proxy.conf").read_text()
        says.same(["0.0.0.0:8080"], re.findall(r"^ *listen (\S+);", proxy, re.M), "the example's script `prepare` without settings → nginx listens on compose's port")
        listens = [yaml.safe_load(pathlib.Path(folder, f"{name}.yaml").read_text())["server"]["listen"] for name in ("broker-1", "broker-2")]
        says.same(listens, re.findall(r"^ *server (127\S+) ", proxy, re.M), "the example's script `prepare` without settings → nginx's configuration has both replicas")
        for file in ("broker-1", "broker-2"):
            checked = subprocess.run([COATCHECK, "check", "--config", f"{folder}/{file}.yaml"], capture_output=True, text=True)
            says.same(0, checked.returncode, f"the example's script `prepare` without settings → writes a valid {file}.yaml")
        left = [path.name for path in pathlib.Path(folder).rglob("*.[cy]*") if path.is_file() and re.search(r"^[^#]*@[A-Z_]+@", path.read_text(), re.M)]
        says.same([], left, "the example's script `prepare` without settings → replaces every word between at signs")


class App:
    """The app, and a thread that calls the protected service with another session of the user."""

    def __init__(self, example, folder):
        subprocess.run(
            ["tsc", "--strict", "--target", "es2020", "--module", "commonjs", "--lib", "es2020,dom", "--outDir", folder,
             ROOT / "clients/typescript/coatcheck.ts"], check=True)
        pathlib.Path(folder, "app.js").write_text(APP)
        self.process = subprocess.Popen(
            ["node", "app.js", example.url], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.session = json.loads(self.process.stdout.readline())
        token = subprocess.run([ROOT / "examples/token"], env=os.environ | {"COATCHECK_URL": example.url}, check=True, capture_output=True, text=True)
        self.token = token.stdout.strip()
        self.orders, self.open = [], True
        self.thread = threading.Thread(target=self.call_orders, args=(example.url + "/orders/",), daemon=True)
        self.thread.start()

    def call_orders(self, url):
        while self.open:
            self.orders.append(call(url, seconds=90, Authorization=f"Bearer {self.token}").status)
            time.sleep(0.02)

    def counts(self):
        self.process.stdin.write("?\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def goes_on(self, situation, calls=12):
        """Checks, after the event `situation`, that the app makes more calls and that all its calls so far have succeeded."""
        before, orders = self.counts()["calls"], len(self.orders)
        wait_for(30, lambda: self.counts()["calls"] >= before + calls and len(self.orders) > orders, 0.1)
        now = self.counts()
        says.verdict(now["calls"] >= before + calls, f"{situation} → the app's calls continue", f"{before}, then {now['calls']}")
        says.same([], now["faults"], f"{situation} → no call of the app fails")
        says.same(("signedIn", self.session["handle"]), (now["standing"]["kind"], now["standing"].get("session", {}).get("handle")),
                  f"{situation} → the user is signed in, with the same session")
        says.same([], [status for status in self.orders if status not in (200, 503)], f"{situation} → the protected service refuses no call of the user")


def trouble(example, app):
    """Kills, restarts and pauses each replica."""
    for name in ("broker-1", "broker-2"):
        for how, title in ((signal.SIGKILL, "killed"), (signal.SIGTERM, "restarted")):
            before = example.pid(name)
            os.kill(before, how)
            app.goes_on(f"replica {name} is {title}")
            back = wait_for(60, lambda: example.pid(name) != before and example.is_ready(name), 0.1)
            says.verdict(back, f"replica {name} is {title} → the example's command starts the process again")
        os.kill(example.pid(name), signal.SIGSTOP)
        try:
            # The calls to the paused replica wait. The other replica answers the rest.
            time.sleep(4)
        finally:
            os.kill(example.pid(name), signal.SIGCONT)
        app.goes_on(f"replica {name} was paused for four seconds")


def main():
    example = Example()
    try:
        says.say(f"the command answers at {example.url}")
        says.same(401, call(example.url + "/orders/").status, "protected service without a session → 401")
        says.same(401, call(example.url + "/orders/", X_Auth_Subject="user-ana").status, "protected service without a session, with a forged identity header → 401")
        compared(example)
        page = urllib.request.urlopen(example.sandbox + "/playground/", timeout=20).read().decode()
        says.verdict("playground-token" in page, "a request for the playground's page → the page is served")
        with tempfile.TemporaryDirectory() as folder:
            app = App(example, folder)
            app.goes_on("the app has signed in")
            answer = call(example.url + "/orders/", Authorization=f"Bearer {app.token}")
            says.same((200, "user-ana"), (answer.status, answer.json.get("user")), "protected service with a session → names the user")
            trouble(example, app)
            app.open = False
            app.thread.join(90)
            said, _ = app.process.communicate(timeout=90)
            last = json.loads(said.splitlines()[-1])
            says.same(([], "signedOut", 1), (last["faults"], last["standing"]["kind"], last["ended"]), "the app's user signs out at the end → the client library reports signedOut once, and no call has failed")
            says.verdict(last["put_off"] <= 4, "replicas were killed while they had claims → these claims delay at most four forced refreshes of the app", last["put_off"])
            call(example.url + "/v1/session", "DELETE", Authorization=f"Bearer {app.token}")
            for name in ("broker-1", "broker-2"):
                at = f"http://{example.settings(name)['server']['listen']}/v1/session"
                host = example.url.removeprefix("http://")
                gone = wait_for(10, lambda: call(at, Authorization=f"Bearer {app.token}", Host=host).status == 401)
                says.verdict(gone, f"log-out through nginx → {name} refuses the session")
    finally:
        pids = [example.pid(name) for name in example.services()]
        example.process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            example.process.wait(60)
    says.same(0, example.process.returncode, "SIGTERM to the example's command → exit 0")
    left = [pid for pid in pids if pathlib.Path(f"/proc/{pid}").exists()]
    says.same(([], False), (left, example.folder.exists()), "SIGTERM to the example's command → all services have ended, and the folder is gone")
    says.finish()


main()
