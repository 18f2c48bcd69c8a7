#!/usr/bin/env bash
# Walks "Upgrades" of docs/operate/upgrades.md: back up, check, stop, start. Then it returns to the older program on a schema
# that a newer one has extended. If the newer one has made the schema unreadable, it returns with the backup.
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

step "1. Before: a backup, and a look at the configuration with the new program"
sign_in oidc ios ana
expect_status 201 "ana is signed in"
"$COATCHECK" backup "$work/before.db" --config "$work/coatcheck.yaml" --token-file "$work/keeper" >"$work/out" 2>&1
same 0 $? "coatcheck backup"
"$COATCHECK" check --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "coatcheck check"

step "2. The new program"
kill_broker TERM
"$COATCHECK" migrate --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "coatcheck migrate, beforehand"
start_broker
get /v1/session
expect_status 200 "ana is signed in"

step "3. Back: a later release has only added"
kill_broker TERM
later same
start_broker
get /v1/session
expect_status 200 "the older program serves beside what the later one has added"
request POST /v1/session/refresh
expect_status 200 "and refreshes"
device ben
sign_in oidc ios ben
request DELETE /v1/session
expect_status 204 "and ends"

step "4. Back: a later release cannot be worked with"
kill_broker TERM
later newer
"$COATCHECK" serve --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 1 $? "the older program does not start"
matches 'newer Coatcheck' "$(cat "$work/out")" "and says why"
"$COATCHECK" restore "$work/before.db" --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "the backup of before the upgrade is restored"
start_broker
device a-phone
get /v1/session
expect_status 200 "ana is signed in"
finish
