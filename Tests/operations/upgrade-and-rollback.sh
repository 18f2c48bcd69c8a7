#!/usr/bin/env bash
# Follows "Upgrades" of docs/operate/upgrades.md: back up, check, stop, start. Then the older program returns: first on a schema
# that the newer program has only extended, then with the backup, because the newer program has made the schema unreadable.
source "$(dirname "$0")/../scenarios/support/lib.bash"
mkdir -m 700 "$work/endings"
sed "s|url: sqlite:@WORK@/data/coatcheck.db|&\n  endings_file: @WORK@/endings/endings|" "$here/coatcheck.yaml" >"$work/template.yaml"
start_stack "$work/template.yaml"
printf 'admin-keeper-5d20c7f19e\n' >"$work/keeper"
# later READABLE-FROM: changes the database as a later release's migration would
later() {
    python3 - "$work/data/coatcheck.db" "$1" <<'P'
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database:
    newest = database.execute("SELECT max(version) FROM schema_version").fetchone()[0]
    database.execute(f"CREATE TABLE IF NOT EXISTS of_a_later_release_{newest} (id INTEGER PRIMARY KEY)")
    database.execute(
        "INSERT INTO schema_version (version, readable_from) VALUES (?, ?)",
        (newest + 1, newest if sys.argv[2] == "same" else newest + 1))
P
}

step "1. Before the upgrade: a backup, and a check of the configuration by the new program"
sign_in oidc ios ana
expect_status 201 "sign-in before the upgrade → ana has a session"
"$COATCHECK" backup "$work/before.db" --config "$work/coatcheck.yaml" --token-file "$work/keeper" >"$work/out" 2>&1
same 0 $? "coatcheck backup before the upgrade → exit 0"
"$COATCHECK" check --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "new program checks the configuration before the upgrade → exit 0"

step "2. The new program is started"
kill_broker TERM
"$COATCHECK" migrate --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "new program runs migrate before its first start → exit 0"
start_broker
get /v1/session
expect_status 200 "new program started → ana is signed in"

step "3. Back to the older program: the newer one has only added to the schema"
kill_broker TERM
later same
start_broker
get /v1/session
expect_status 200 "older program runs on a schema that a newer one has extended → ana is signed in"
request POST /v1/session/refresh
expect_status 200 "older program runs on a schema that a newer one has extended → a refresh succeeds"
device ben
sign_in oidc ios ben
request DELETE /v1/session
expect_status 204 "older program runs on a schema that a newer one has extended → a log-out succeeds"

step "4. Back to the older program: it cannot read the newer schema"
kill_broker TERM
later newer
"$COATCHECK" serve --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 1 $? "older program starts on a newer schema that it cannot read → exit 1"
matches 'newer Coatcheck' "$(cat "$work/out")" "older program starts on a newer schema that it cannot read → the error asks for a newer Coatcheck"
"$COATCHECK" restore "$work/before.db" --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "restore of the backup from before the upgrade → exit 0"
start_broker
device a-phone
get /v1/session
expect_status 200 "backup from before the upgrade was restored → ana is signed in"
finish
