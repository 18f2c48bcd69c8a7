"""Two brokers behind each recipe of deploy/proxy. They restart one after the other, one stops, one drains, and one hangs, while
requests go on. proxy-replicas.py has stand-ins instead of brokers.
"""

import pathlib
import signal
import sys
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import recipes  # noqa: E402
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.many_calls import many, told  # noqa: E402
from support.recipes import CHECKS  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402
from support.wire import free_port  # noqa: E402


class Load:
    """Sends requests through each proxy, one after another, until it is stopped."""

    def __init__(self, sites):
        self.answers = {name: [] for name in sites}
        self.over = threading.Event()
        self.threads = [threading.Thread(target=self.run, args=item, daemon=True) for item in sites.items()]
        for thread in self.threads:
            thread.start()

    def run(self, name, url):
        while not self.over.is_set():
            body = {"provider": "oidc", "client": "ios"}
            self.answers[name].append(("GET", call(url + "/v1/providers", seconds=20)))
            self.answers[name].append(("POST", call(url + "/v1/logins", "POST", body, seconds=20)))
            time.sleep(0.02)

    def until(self, number):
        """Waits until each proxy has given `number` answers."""
        wait_for(30, lambda: all(len(found) >= number for found in self.answers.values()))

    def stop(self):
        self.over.set()
        for thread in self.threads:
            thread.join(30)
        return self.answers


def brokers(case):
    """Two brokers restart one after the other, twice within twenty seconds; one stops, and one hangs."""
    sandbox = Sandbox(case)
    port, management = free_port(), free_port()
    replicas = []
    for number in (1, 2):
        broker = Broker(case, sandbox, name=f"replica{number}", start=False, settings={"upstreams": {
            "api": {"base_url": sandbox.url + "/api", "provider": "oidc", "allow": ["GET /**"], "internal": True}}})
        broker.management = f"http://127.0.0.{number}:{management}"
        broker.configure(
            server={
                "listen": f"127.0.0.{number}:{port}", "public_url": "http://127.0.0.1", "drain_delay": "3s", "trusted_proxies": ["127.0.0.1"]},
            management={"listen": f"127.0.0.{number}:{management}"})
        broker.url = f"http://127.0.0.{number}:{port}"
        broker.start()
        replicas.append(broker)
    addresses = [broker.url.removeprefix("http://") for broker in replicas]

    def sites(**edits):
        return {server: recipes.proxy(case, server, addresses, edits.get(server, ()), MANAGEMENT_PORT=management) for server in recipes.SERVERS}

    # In this test, proxies without health checks have short time-outs.
    started = sites(nginx=[("nginx.conf", "_timeout 75s", "_timeout 2s")], apache=[("apache.conf", "timeout=75", "timeout=2")], **CHECKS)
    plain = {server: recipe.url for server, recipe in started.items()}

    def verdicts(answers, sentence, least=10, may_refuse=()):
        """Checks that every request was answered. Only the proxies in `may_refuse` may pass on the 503 of a broker that is
        ending.
        """
        for server, found in answers.items():
            for method, good in (("GET", 200), ("POST", 201)):
                # If a replica closes a kept connection at the moment of a GET, nginx repeats the GET, but Apache does not.
                lost = server == "apache" or method == "POST"
                odd = [
                    answer for asked, answer in found if asked == method and answer.status != good
                    and not (server in may_refuse and (b"This instance is shutting down" in answer.body or lost and answer.told == "503 shutting_down"))]
                count = sum(answer.status == good for asked, answer in found if asked == method)
                case.verdict(count >= least and not odd, f"{server}: {sentence} → every {method} is answered", f"{count} good, {told(odd)} {[answer.body[-200:] for answer in odd[:2]]}")

    load = Load(plain)
    for _ in range(2):
        for broker in replicas:
            broker.restart(signal.SIGTERM)
    # Proxies without health checks may send requests to a draining replica, and pass on its 503.
    verdicts(load.stop(), "two restarts of each replica, one after the other", 30, {"nginx", "apache"})
    # One failure then takes a replica out for a minute, instead of the default of ten seconds.
    load = Load({"nginx": recipes.proxy(case, "nginx", addresses, [("nginx.conf", " max_fails=0", " fail_timeout=60s")]).url})
    for broker in replicas:
        broker.restart(signal.SIGTERM)
    lost = [answer for method, answer in load.stop()["nginx"] if method == "GET" and b"is away for a moment" in answer.body]
    case.verdict(lost, "nginx runs on its recipe without max_fails=0, and each replica is restarted → requests are lost")

    replicas[1].stop(signal.SIGTERM)
    load = Load(plain)
    load.until(20)
    verdicts(load.stop(), "one replica is stopped")
    replicas[1].start()

    # A replica drains as long as it has a request in progress, and refuses new requests in this time.
    session = replicas[0].sign_in()
    slow = case.beside(replicas[0].call, "GET", "/v1/relay/api/private/events/900", session)
    wait_for(10, lambda: replicas[0].metric("coatcheck_relay_calls_under_way", upstream="api") == 1)
    nginx = started["nginx"]
    file, line = nginx.folder / "nginx.conf", f"server {addresses[0]} max_fails=0"
    file.write_text(file.read_text().replace(line, line + " down"))
    nginx.process.send_signal(signal.SIGHUP)
    without = {
        "nginx": recipes.proxy(case, "nginx", addresses).url, "apache": recipes.proxy(case, "apache", addresses, [("apache.conf", "ProxySet failonstatus=503", "")]).url}
    replicas[0].process.send_signal(signal.SIGTERM)
    wait_for(30, lambda: b"is shutting down" in replicas[0].call("GET", "/v1/providers").body)
    load, lost = Load(plain), Load(without)
    load.until(60)
    answers, lost = load.stop(), lost.stop()
    verdicts({server: found for server, found in answers.items() if server != "apache"}, "one replica drains", 20)

    def share(found):
        return sum(answer.status == 503 for _, answer in found) / len(found)

    case.verdict(share(answers["apache"]) < 0.2, "apache, one replica drains → fewer than a fifth of the requests get the draining replica's 503", f"{share(answers['apache']):.2f}")
    for server in without:
        case.verdict(share(lost[server]) > 0.3, f"{server} runs on a recipe that still uses a draining replica → more than 30 % of the requests get 503", f"{share(lost[server]):.2f}")
    file.write_text(file.read_text().replace(line + " down", line))
    nginx.process.send_signal(signal.SIGHUP)
    replicas[0].process.kill()
    slow.result(20)
    replicas[0].start()

    # A hanging process still accepts connections, so only health checks notice it. nginx and Apache have no such checks here.
    replicas[1].process.send_signal(signal.SIGSTOP)
    checked = {server: plain[server] for server in CHECKS}
    for url in checked.values():
        wait_for(20, lambda url=url: max(answer.seconds for answer in many(lambda _: call(url + "/v1/providers", seconds=20), 6)) < 1)
    load = Load(checked)
    load.until(20)
    verdicts(load.stop(), "one replica hangs")
    for server in ("nginx", "apache"):
        found = told(many(lambda _, url=plain[server]: call(url + "/v1/providers", seconds=20), 8))
        case.verdict(found.get("200", 0) >= 4 and not set(found) - {"200", "503 shutting_down"}, f"{server}, one replica hangs → at least half of the requests are answered", str(found))
    replicas[1].process.send_signal(signal.SIGCONT)
    load = Load(plain)
    load.until(40)
    verdicts({server: found[-20:] for server, found in load.stop().items()}, "the hanging replica goes on", 9)


if __name__ == "__main__":
    if gap := recipes.missing():
        raise SystemExit(f"Bail out! {' '.join(gap)} missing: scripts/setup test")
    main({"brokers": (recipes.serving(brokers), 150)}, __doc__)
