"""Compares dashboard, rules and documents with the broker's /metrics (Tests/scenarios/operators/monitoring.sh).

  monitoring.py names METRICS-FILE            every metric that is named somewhere exists, with its help text
  monitoring.py dashboard PROMETHEUS          every query of the dashboard is answered
  monitoring.py panel PROMETHEUS TITLE        the legends of the panel's present values, one a line
  monitoring.py impatient FROM TO TARGET      a copy of Prometheus's configuration and rules without waits
  monitoring.py firing PROMETHEUS             the alerts that fire, one a line: name and labels
"""

import json
import pathlib
import re
import sys
import time
import urllib.parse
import urllib.request

import yaml

from verdicts import Verdicts

ROOT = pathlib.Path(__file__).resolve().parents[3]
DASHBOARD = ROOT / "deploy/grafana/coatcheck.json"
RULES = ROOT / "deploy/prometheus/rules.yaml"
PAGE = ROOT / "docs/reference/metrics-and-logs.md"
NAME = re.compile(r"\b(?:coatcheck|process)_[a-z0-9_]+\b")
verdicts = Verdicts()
say = verdicts.verdict


def families(text):
    """The metric families of a scrape, with their help texts. Families without a sample are left out."""
    sentences = dict(re.findall(r"^# HELP (\S+) (.+)$", text, re.MULTILINE))
    types = dict(re.findall(r"^# TYPE (\S+) (\S+)$", text, re.MULTILINE))
    samples = {re.match(r"[a-z0-9_]+", line)[0] for line in text.splitlines() if line and not line.startswith("#")}
    found = {}
    for name, kind in types.items():
        ends = ["_bucket", "_sum", "_count"] if kind == "histogram" else [""]
        if any(name + end in samples for end in ends):
            found.update({name + end: sentences.get(name) for end in ["", *ends]})
    return found


def panels():
    board = json.loads(DASHBOARD.read_text())
    return board, [panel for panel in board["panels"] if panel["type"] != "row"]


def row(title):
    """The panels between the row with this title and the next row."""
    found, is_inside = [], False
    for panel in panels()[0]["panels"]:
        if panel["type"] == "row":
            is_inside = panel["title"] == title
        elif is_inside:
            found.append(panel)
    return found


def rules():
    return [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]


def documented():
    """The names in the document's table, each with a flag: whether only PostgreSQL, or only the broker's own TLS, has it."""
    names = {}
    section = PAGE.read_text().split("## What to watch", 1)[1].split("\n## ", 1)[0]
    for row in re.findall(r"^\| (`.*)$", section, re.MULTILINE):
        cells = row.split(" | ")
        for name in re.findall(r"`([a-z_]+)`", cells[0]):
            full = name if name.startswith("process_") else "coatcheck_" + name
            names[full] = "| PostgreSQL: " in row or "| With `" in row
    return names


def check_names(path):
    there = families(pathlib.Path(path).read_text())
    known = documented()
    say(len(known) > 30, "docs/reference/metrics-and-logs.md → has a table of more than 30 metrics", str(known))
    say(all(there.values()), "every metric of the broker → has a help text", str([n for n, s in there.items() if not s]))
    elsewhere = {name for name, is_elsewhere in known.items() if is_elsewhere}
    # NAME does not match the metrics of Prometheus itself, so they are not checked.
    board, shown = panels()
    expressions = [target["expr"] for panel in shown for target in panel["targets"]]
    expressions += [rule["expr"] for rule in rules()]
    expressions += [v["query"]["query"] for v in board["templating"]["list"] if isinstance(v["query"], dict)]
    used = {name for text in expressions for name in NAME.findall(text)}
    for name in sorted(used | set(known)):
        say(name in there or name in elsewhere, f"the metric {name}, which dashboard, rules or docs name → the broker has this metric, perhaps only with PostgreSQL or TLS")
    missing = {name for name in used if re.sub("_(bucket|sum|count)$", "", name) not in known}
    say(not missing, "every metric in the dashboard and the alert rules → explained in docs/reference/metrics-and-logs.md", str(missing))
    whole = {re.sub("_(bucket|sum|count)$", "", name) for name in there}
    say(not whole - set(known), "every metric of the broker → explained in docs/reference/metrics-and-logs.md", str(sorted(whole - set(known))))


def check_shape():
    board, shown = panels()
    ids = [panel["id"] for panel in board["panels"]]
    say(len(ids) == len(set(ids)), "the panels of the dashboard → have different ids")
    bad = [panel["title"] for panel in shown if not panel["title"].endswith("?") or not panel["description"]]
    say(not bad, "each panel of the dashboard → has a question as its title, and a description", str(bad))
    bad = [p["title"] for p in shown if any("> 0" in t["expr"] for t in p["targets"]) and not p["fieldConfig"]["defaults"].get("noValue")]
    say(not bad, "each panel of the dashboard about rare events → has a text for the case of zero events", str(bad))
    bad = [r["alert"] for r in rules() if not r["annotations"]["summary"].endswith("?") or not r["annotations"]["description"]]
    say(not bad, "each Prometheus alert → has a question as its summary, and a description", str(bad))
    bad = [rule["alert"] for rule in rules() if rule["labels"]["severity"] not in ("page", "ticket")]
    say(not bad, "each Prometheus alert → has the severity `page` or `ticket`", str(bad))
    places = [(p["gridPos"]["x"], p["gridPos"]["y"]) for p in board["panels"]]
    say(len(places) == len(set(places)) and all(p["gridPos"]["x"] + p["gridPos"]["w"] <= 24 for p in shown), "the panels of the dashboard → fit into 24 columns, and begin at different places")
    moving = {name for panel in row("Moving in") for target in panel["targets"] for name in NAME.findall(target["expr"])}
    say(moving == {"coatcheck_moved_total", "coatcheck_old_system_answers_total"},
        "the row `Moving in` of the dashboard → shows the apps' posts and the old server's answers", str(moving))
    # A rule without a unit test might never fire.
    tested = (ROOT / "Tests/scenarios/support/prometheus/rules.test.yaml").read_text()
    bad = [rule["alert"] for rule in rules() if f'"{rule["alert"]}"' not in tested]
    say(not bad, "each Prometheus alert → has a unit test", str(bad))


def ask(prometheus, path, **query):
    with urllib.request.urlopen(f"{prometheus}/api/v1/{path}?{urllib.parse.urlencode(query)}", timeout=20) as answer:
        return json.load(answer)["data"]


def query(target):
    return target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")


def legends(prometheus, title):
    panel, = [panel for panel in panels()[1] if panel["title"] == title]
    for target in panel["targets"]:
        for found in ask(prometheus, "query", query=query(target))["result"]:
            print(re.sub(r"{{(\w+)}}", lambda name: found["metric"].get(name[1], ""), target["legendFormat"]))


def check_dashboard(prometheus):
    for panel in panels()[1]:
        for target in panel["targets"]:
            text = query(target)
            try:
                empty = not ask(prometheus, "query", query=text)["result"]
                # Panels that compare with zero, or that need PostgreSQL or TLS, are empty on an idle SQLite.
                if "> 0" in text or "PostgreSQL" in panel["title"] or "TLS of its own" in panel["title"]:
                    empty = False
                # After a missed scrape all panels are empty until the next one.
                deadline = time.monotonic() + 20
                while empty and time.monotonic() < deadline:
                    time.sleep(0.2)
                    empty = not ask(prometheus, "query", query=text)["result"]
                say(not empty, f"the query {target['refId']} of the panel {panel['title']} → is answered, and has values if an idle broker has values for it", f"empty: {text}")
            except urllib.error.HTTPError as error:
                say(False, f"the query {target['refId']} of the panel {panel['title']} → is answered, and has values if an idle broker has values for it", error.read().decode())


def impatient(source, target, address):
    source, target = pathlib.Path(source), pathlib.Path(target)
    target.mkdir(exist_ok=True)
    text = re.sub(r"^( +for:) .*$", r"\1 0s", (source / "rules.yaml").read_text(), flags=re.MULTILINE)
    # One waiting time remains, because a scrape may miss a broker on a busy machine.
    text, found = re.subn(r"(alert: CoatcheckDown\n.*\n +for:) 0s", r"\1 10s", text)
    assert found == 1
    (target / "rules.yaml").write_text(text)
    # A scrape that takes longer than the interval is skipped.
    text = (source / "prometheus.yaml").read_text().replace("interval: 15s", "interval: 1s")
    assert "127.0.0.1:9090" in text
    (target / "prometheus.yaml").write_text(text.replace("127.0.0.1:9090", address))


def firing(prometheus):
    for alert in ask(prometheus, "alerts")["alerts"]:
        if alert["state"] == "firing":
            labels = {k: v for k, v in sorted(alert["labels"].items()) if k not in ("alertname", "severity", "instance", "job")}
            print(alert["labels"]["alertname"], *(f"{k}={v}" for k, v in labels.items()))


if __name__ == "__main__":
    command, *rest = sys.argv[1:]
    if command == "names":
        check_names(*rest)
        check_shape()
    elif command == "dashboard":
        check_dashboard(*rest)
    elif command == "panel":
        legends(*rest)
    elif command == "impatient":
        impatient(*rest)
    elif command == "firing":
        firing(*rest)
    sys.exit(verdicts.failed > 0)
