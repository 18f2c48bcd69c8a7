"""The broker's PostgreSQL role lacks rights to a table that another role's migration has made. The broker starts but is not
ready, and names the table and the rights. `check --online` fails. After the rights are granted, the broker becomes ready
without a restart.
"""

import json
import pathlib
import subprocess
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.broker import Broker  # noqa: E402
from support.calls import call  # noqa: E402
from support.cases import main  # noqa: E402
from support.database import Database  # noqa: E402
from support.programs import COATCHECK  # noqa: E402
from support.sandbox import Sandbox  # noqa: E402
from support.waiting import wait_for  # noqa: E402

TABLES = "audience_tokens"


def psql(database, sql):
    subprocess.run(
        ["psql", "-qX", "-v", "ON_ERROR_STOP=1", "-c", sql, database.url()], check=True, capture_output=True, text=True)


def rights(case):
    """The broker's role lacks rights on a table that another role owns."""
    sandbox = Sandbox(case)
    with Database() as database:
        # The owner of the tables migrates. The broker uses another role.
        owner = Broker(case, sandbox, name="owner", settings={"store": {"url": database.url()}}, start=False)
        subprocess.run([COATCHECK, "migrate", "--config", str(owner.configuration)], check=True, capture_output=True)
        psql(database, "CREATE ROLE app LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA public TO app;"
             f"REVOKE ALL ON {TABLES} FROM app")
        url = database.url().replace("//coatcheck@", "//app@")
        broker = Broker(case, sandbox, name="app", settings={"store": {"url": url}}, start=False)

        def check():
            done = subprocess.run(
                [COATCHECK, "check", "--online", "--config", str(broker.configuration)], capture_output=True, text=True)
            return done.returncode, done.stdout

        status, told = check()
        sentence = f"the role app lacks SELECT, INSERT, UPDATE, DELETE on {TABLES}"
        case.verdict(status == 1 and f"FAULT  store: {sentence}" in told, "a database role that lacks rights on one table → `check --online` names role, rights and table", told)
        broker.health = "/livez"
        broker.start()
        wait_for(20, lambda: "lacks rights" in broker.log())
        ready = call(broker.management + "/readyz")
        case.same((503, "store_rights_missing"), (ready.status, ready.json.get("status")), "a broker whose database role lacks rights → readiness is 503 store_rights_missing")
        case.verdict(sentence in " ".join(ready.json["problems"]), "a broker whose database role lacks rights → readiness names role, rights and table", ready.body)
        lines = [json.loads(line) for line in broker.log().splitlines() if "lacks rights" in line]
        case.same(["error"], [line["level"] for line in lines], "a broker whose database role lacks rights → one error line in the log")
        case.verdict(sentence in lines[0]["detail"], "a broker whose database role lacks rights → the log's error line names role, rights and table", lines)
        psql(database, f"GRANT SELECT, INSERT, UPDATE, DELETE ON {TABLES} TO app")
        case.verdict(
            wait_for(20, lambda: call(broker.management + "/readyz").status == 200), "the missing rights are granted → the broker becomes ready",
            call(broker.management + "/readyz").body)
        session = broker.sign_in("ana")
        case.same(204, broker.log_out(session).status, "a log-out after the missing rights were granted → 204")
        case.same(0, check()[0], "the missing rights are granted → `check --online` succeeds")


if __name__ == "__main__":
    main({"rights": (rights, 120)}, "Rights of the database role")
