#!/usr/bin/env bash
# Follows "Backups" of docs/operate/backups.md: a backup next to a running broker, the loss of the machine, and a restore.
# Sessions that were logged out after the backup stay ended.
source "$(dirname "$0")/../scenarios/support/lib.bash"
mkdir -m 700 "$work/endings" "$work/backups"
sed "s|url: sqlite:@WORK@/data/coatcheck.db|&\n  endings_file: @WORK@/endings/endings|" "$here/coatcheck.yaml" >"$work/template.yaml"
start_stack "$work/template.yaml"
printf 'admin-keeper-5d20c7f19e\n' >"$work/keeper"
export COATCHECK_TOKEN_FILE="$work/keeper"

step "1. All users sign in, and the nightly backup is written"
for user in ana ben cleo; do device "$user"; sign_in oidc ios "$user"; done
expect_status 201 "three users sign in → sessions"
"$COATCHECK" backup "$work/backups/nightly.db" --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "coatcheck backup FILE --config FILE → exit 0"

step "2. Ben logs out after the backup"
device ben
request DELETE /v1/session -b "$JAR"
expect_status 204 "ben logs out after the backup → 204"
get "$MANAGEMENT/readyz"
expect_json .endings_file ok "endings file is in use → readiness shows ok"

step "3. The machine is lost, with its database"
kill_broker KILL
rm -rf "$work/data"
"$COATCHECK" restore "$work/backups/nightly.db" --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "coatcheck restore FILE --config FILE → exit 0"
matches '1 of them had ended since' "$(cat "$work/out")" "restore with the endings file → reports one session that has ended since the backup"

step "4. The broker starts again"
start_broker
for user in ana cleo; do
    device "$user"
    get /v1/session
    expect_status 200 "backup was restored with the endings file → $user is signed in"
    request POST /v1/session/refresh
    expect_status 200 "backup was restored with the endings file → $user's session is refreshed"
done
device ben-again
sign_in oidc ios ben
expect_status 201 "backup was restored with the endings file → ben signs in again"
"$COATCHECK" sessions list --ended --config "$work/coatcheck.yaml" --no-header >"$work/list"
matches 'logged_out' "$(cut -f5 "$work/list")" "backup was restored with the endings file → the session that ben logged out after the backup has ended as logged_out"

step "5. The endings file is lost as well"
kill_broker TERM
rm -rf "$work/endings" "$work/data"
mkdir -m 700 "$work/endings"
"$COATCHECK" restore "$work/backups/nightly.db" --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 1 $? "restore without the endings file → exit 1"
matches 'log-outs since 20[0-9T:-]*Z.* are lost' "$(cat "$work/out")" "restore without the endings file → prints since when log-outs are lost"
"$COATCHECK" restore "$work/backups/nightly.db" --config "$work/coatcheck.yaml" --without-endings >"$work/out" 2>&1
same 0 $? "restore with --without-endings → exit 0"
start_broker
device ana
get /v1/session
expect_status 200 "restore with --without-endings → ana is signed in"
finish
