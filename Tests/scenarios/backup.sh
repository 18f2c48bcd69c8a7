#!/usr/bin/env bash
# Backup under traffic, restore, store copy to PostgreSQL and back, many migrations at once.
source "$(dirname "$0")/support/lib.bash"
start_stack
printf 'admin-keeper-5d20c7f19e\n' >"$work/keeper"
printf 'admin-ender-b81c64e2f0\n' >"$work/ender"
chmod 600 "$work/keeper" "$work/ender"
copies="$work/copies"
mkdir -m 700 "$copies"
configuration=(--config "$work/coatcheck.yaml")

# run COMMAND…: runs it; "$work/out" is its output, RUN its status
run() { RUN=0; "$COATCHECK" "$@" >"$work/out" 2>&1 || RUN=$?; }
backup() { run backup "$1" --management "$MANAGEMENT" --token-file "${2:-$work/keeper}"; }
kept() { compgen -G "$work/data/coatcheck.db.before-*" | grep -vc -e '-wal$' -e '-shm$' -e '\.lock$'; }
mode() { stat -c %a "$1"; }

step "a backup: refusals"
sign_in oidc ios
expect_status 201 "signed in before the backup"
backup "$copies/none.db" "$work/ender"
same 1 "$RUN" "a token without maintain is refused"
same no "$([ -e "$copies/none.db" ] && echo yes || echo no)" "and no file is made"
echo mine >"$copies/mine"
backup "$copies/mine"
same "1 mine" "$RUN $(cat "$copies/mine")" "an existing file is left alone"
admin=(-H "Authorization: Bearer admin-keeper-5d20c7f19e")
JAR= post "$MANAGEMENT/admin/v1/backups" "{\"file\":\"$copies/mine\"}" "${admin[@]}"
expect_problem 400 invalid_request "nor does the listener take one's place"
same mine "$(cat "$copies/mine")" "which is as it was"
ln -s "$copies/through" "$copies/link"
JAR= post "$MANAGEMENT/admin/v1/backups" "{\"file\":\"$copies/link\"}" "${admin[@]}"
expect_problem 400 invalid_request "a link is not followed"
for file in relative.db ../up.db / /tmp/; do
    JAR= post "$MANAGEMENT/admin/v1/backups" "{\"file\":\"$file\"}" "${admin[@]}"
    expect_problem 400 invalid_request "no path: $file"
done
JAR= post "$MANAGEMENT/admin/v1/backups" "{}" "${admin[@]}"
expect_problem 400 invalid_request "no file"
JAR= request POST "$MANAGEMENT/admin/v1/backups" "${admin[@]}" -H 'Content-Type: text/plain' --data-binary '{"file":"/x"}'
expect_problem 415 unsupported_media_type "no JSON"
JAR= post "$MANAGEMENT/admin/v1/backups" "{\"file\":\"$copies/no-token.db\"}"
expect_problem 401 backend_unauthorized "no token"

step "a backup under traffic"
(for n in 1 2 3 4 5 6; do device "busy-$n"; sign_in oidc ios; done) >/dev/null 2>&1 &
traffic=$!
backup "$copies/good.db"
same 0 "$RUN" "it is written"
matches 'integrity check passes.*key ring opens' "$(tr '\n' ' ' <"$work/out")" "and looked through, by SQLite and by the ring"
same 600 "$(mode "$copies/good.db")" "with mode 0600"
wait "$traffic"
kept_session=$(cookie coatcheck)
JAR= get /v1/session -b "coatcheck=$kept_session"
expect_status 200 "the session of before lives"
device a-late-one
sign_in oidc ios
late_session=$(cookie coatcheck)

step "restore: refusals"
run restore "$copies/good.db" "${configuration[@]}"
matches '^1 .*another process' "$RUN $(cat "$work/out")" "a running broker has the database"
JAR= get /v1/session -b "coatcheck=$late_session"
expect_status 200 "and goes on with it"
kill_broker TERM
same 0 "$(stat -c %s "$work/data/coatcheck.db-wal" 2>/dev/null || echo 0)" "a clean stop has merged the log"
run restore "$copies/mine" "${configuration[@]}"
matches '^1 .*not a Coatcheck database' "$RUN $(cat "$work/out")" "a foreign file"
cp "$copies/good.db" "$copies/newer.db"
python3 - "$copies/newer.db" <<'P'
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as d: d.execute("INSERT INTO schema_version (version, readable_from) VALUES (99, 99)")
P
run restore "$copies/newer.db" "${configuration[@]}"
matches '^1 .*newer Coatcheck' "$RUN $(cat "$work/out")" "a newer schema"
cp "$work/coatcheck.yaml" "$work/other.yaml"
"$COATCHECK" keys generate --file "$work/other.json" >/dev/null
sed -i "s|file: $work/keys.json|file: $work/other.json|" "$work/other.yaml"
run restore "$copies/good.db" --config "$work/other.yaml"
matches '^1 .*opens 0 of' "$RUN $(cat "$work/out")" "a ring that does not open it"
same 0 "$(kept)" "nothing was put aside by any of these"

run restore "$copies/good.db" "${configuration[@]}"
matches '^1 .*log-outs since 20.*Z.* are lost.*--without-endings' "$RUN $(cat "$work/out")" "nobody knows who was logged out since"
same 0 "$(kept)" "and nothing is put aside"

step "restore"
run restore "$copies/good.db" "${configuration[@]}" --without-endings
same 0 "$RUN" "the backup is put in its place"
same 1 "$(kept)" "the old database is kept aside"
start_broker
JAR= get /v1/session -b "coatcheck=$kept_session"
expect_status 200 "who was signed in then is signed in"
JAR= get /v1/session -b "coatcheck=$late_session"
expect_problem 401 session_required "who came later is not"

step "restore and migrate as root, in the place of the broker's user"
if [ "$(id -u)" -eq 0 ]; then
    theirs=$(mktemp -d "${TMPDIR:-/tmp}/coatcheck-theirs.XXXXXX")
    trap 'stop_stack; rm -rf "$theirs"' EXIT
    chmod 755 "$theirs"
    cp "$work/keys.json" "$work/client-key.pem" "$theirs/"
    sed "s|$work/|$theirs/|g" "$work/coatcheck.yaml" >"$theirs/coatcheck.yaml"
    chown -R 54321:54322 "$theirs"
    run restore "$copies/good.db" --config "$theirs/coatcheck.yaml" --without-endings
    same "0 1" "$RUN $(find "$theirs/data" -name coatcheck.db | wc -l)" "restored"
    same "" "$(find "$theirs" -not -uid 54321)" "everything in it is the broker's"
    rm -r "$theirs/data"
    run migrate --config "$theirs/coatcheck.yaml"
    same "0 1" "$RUN $(find "$theirs/data" -name coatcheck.db | wc -l)" "migrated"
    same "" "$(find "$theirs" -not -uid 54321)" "everything in it is the broker's"
else
    echo "# skipped: not root"
fi

step "a newer schema is refused by every start"
kill_broker TERM
cp "$work/data/coatcheck.db" "$work/data/newer.db"
python3 - "$work/data/newer.db" <<'P'
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as d: d.execute("INSERT INTO schema_version (version, readable_from) VALUES (99, 99)")
P
sed "s|data/coatcheck.db|data/newer.db|" "$work/coatcheck.yaml" >"$work/newer.yaml"
for command in serve migrate; do
    run "$command" --config "$work/newer.yaml"
    matches '^1 .*newer Coatcheck' "$RUN $(cat "$work/out")" "$command"
done

step "migrate by many at once"
# migrated CONFIGURATION: how many of eight did the work, and how many found it done
migrated() {
    local n pids=()
    for n in 1 2 3 4 5 6 7 8; do "$COATCHECK" migrate --config "$1" >"$work/migrate.$n" 2>&1 & pids+=($!); done
    for n in "${pids[@]}"; do wait "$n"; done
    echo "$(cat "$work"/migrate.? | grep -c 'version 0 to') $(cat "$work"/migrate.? | grep -c 'is up to date')"
}
sed "s|data/coatcheck.db|data/fresh.db|" "$work/coatcheck.yaml" >"$work/fresh.yaml"
same "1 7" "$(migrated "$work/fresh.yaml")" "SQLite: one winner"
start_postgresql
sed "s|url: sqlite:.*|url: $POSTGRESQL|" "$work/coatcheck.yaml" >"$work/postgresql.yaml"
same "1 7" "$(migrated "$work/postgresql.yaml")" "PostgreSQL: one winner"

step "store copy: refusals"
run store copy "${configuration[@]}" --to "mysql://x"
same 1 "$RUN" "no engine"
run store copy "${configuration[@]}" --to "sqlite:$work/data/coatcheck.db"
matches '^1 .*same store' "$RUN $(cat "$work/out")" "itself"
run store copy "${configuration[@]}" --to "sqlite:$copies/good.db"
matches '^1 .*not empty' "$RUN $(cat "$work/out")" "a store that has rows"
start_broker
run store copy "${configuration[@]}" --to "$POSTGRESQL"
matches '^1 .*another process' "$RUN $(cat "$work/out")" "while a broker works on it"
kill_broker TERM

step "store copy to PostgreSQL and back"
COATCHECK_TARGET=$POSTGRESQL run store copy "${configuration[@]}" --to env:COATCHECK_TARGET
same 0 "$RUN" "SQLite to PostgreSQL"
matches '100 %' "$(cat "$work/out")" "with a progress bar"
cp "$work/coatcheck.yaml" "$work/sqlite.yaml"
cp "$work/postgresql.yaml" "$work/coatcheck.yaml"
start_broker
JAR= get /v1/session -b "coatcheck=$kept_session"
expect_status 200 "the session lives on PostgreSQL"
JAR= request POST /v1/session/refresh -b "coatcheck=$kept_session"
expect_status 200 "and is refreshed there"
backup "$copies/postgresql.db"
matches '^1 .*404' "$RUN $(cat "$work/out")" "PostgreSQL is backed up by its own means"
run store copy "${configuration[@]}" --to "sqlite:$work/data/back.db"
matches '^1 .*stop it' "$RUN $(cat "$work/out")" "not while a broker works on it"
kill_broker TERM
psql -q "$POSTGRESQL" -c "DELETE FROM leases WHERE name = 'sweeper'" >/dev/null
run store copy "${configuration[@]}" --to "sqlite:$work/data/back.db"
same 0 "$RUN" "PostgreSQL to SQLite"
sed "s|data/coatcheck.db|data/back.db|" "$work/sqlite.yaml" >"$work/coatcheck.yaml"
start_broker
JAR= get /v1/session -b "coatcheck=$kept_session"
expect_status 200 "the session lives on SQLite again"
JAR= request POST /v1/session/refresh -b "coatcheck=$kept_session"
expect_status 200 "and is refreshed there"
finish
