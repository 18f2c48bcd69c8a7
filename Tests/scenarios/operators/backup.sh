#!/usr/bin/env bash
# A backup under traffic, its restore, `store copy` to PostgreSQL and back, and migrations at the same time.
source "$(dirname "$0")/../support/lib.bash"
start_stack
printf 'admin-keeper-5d20c7f19e\n' >"$work/keeper"
printf 'admin-ender-b81c64e2f0\n' >"$work/ender"
chmod 600 "$work/keeper" "$work/ender"
copies="$work/copies"
mkdir -m 700 "$copies"
configuration=(--config "$work/coatcheck.yaml")

# run COMMAND…: runs the command; "$work/out" is its output, RUN its status
run() { RUN=0; "$COATCHECK" "$@" >"$work/out" 2>&1 || RUN=$?; }
backup() { run backup "$1" --management "$MANAGEMENT" --token-file "${2:-$work/keeper}"; }
kept() { compgen -G "$work/data/coatcheck.db.before-*" | grep -vc -e '-wal$' -e '-shm$' -e '\.lock$'; }
mode() { stat -c %a "$1"; }

step "Backups that are refused"
sign_in oidc ios
expect_status 201 "sign-in before the backup → a session"
backup "$copies/none.db" "$work/ender"
same 1 "$RUN" "backup with an admin token without the right \`maintain\` → exit 1"
same no "$([ -e "$copies/none.db" ] && echo yes || echo no)" "backup with an admin token without the right \`maintain\` → no file is written"
echo mine >"$copies/mine"
backup "$copies/mine"
same "1 mine" "$RUN $(cat "$copies/mine")" "backup to an existing file → exit 1, file unchanged"
admin=(-H "Authorization: Bearer admin-keeper-5d20c7f19e")
JAR= post "$MANAGEMENT/admin/v1/backups" "{\"file\":\"$copies/mine\"}" "${admin[@]}"
expect_problem 400 invalid_request "request for a backup to an existing file"
same mine "$(cat "$copies/mine")" "request for a backup to an existing file → the file is unchanged"
ln -s "$copies/through" "$copies/link"
JAR= post "$MANAGEMENT/admin/v1/backups" "{\"file\":\"$copies/link\"}" "${admin[@]}"
expect_problem 400 invalid_request "request for a backup through a symbolic link"
for file in relative.db ../up.db / /tmp/; do
    JAR= post "$MANAGEMENT/admin/v1/backups" "{\"file\":\"$file\"}" "${admin[@]}"
    expect_problem 400 invalid_request "request for a backup to the path $file"
done
JAR= post "$MANAGEMENT/admin/v1/backups" "{}" "${admin[@]}"
expect_problem 400 invalid_request "request for a backup that names no file"
JAR= request POST "$MANAGEMENT/admin/v1/backups" "${admin[@]}" -H 'Content-Type: text/plain' --data-binary '{"file":"/x"}'
expect_problem 415 unsupported_media_type "request for a backup whose body is not JSON"
JAR= post "$MANAGEMENT/admin/v1/backups" "{\"file\":\"$copies/no-token.db\"}"
expect_problem 401 backend_unauthorized "request for a backup without an admin token"

step "a backup under traffic"
(for n in 1 2 3 4 5 6; do device "busy-$n"; sign_in oidc ios; done) >/dev/null 2>&1 &
traffic=$!
backup "$copies/good.db"
same 0 "$RUN" "backup under traffic → exit 0"
matches 'integrity check passes.*key ring opens' "$(tr '\n' ' ' <"$work/out")" "backup under traffic → reports that SQLite and the key ring have checked the file"
same 600 "$(mode "$copies/good.db")" "backup under traffic → its file has mode 0600"
wait "$traffic"
kept_session=$(cookie coatcheck)
JAR= get /v1/session -b "coatcheck=$kept_session"
expect_status 200 "session from before the backup, read after the backup → alive"
device a-late-one
sign_in oidc ios
late_session=$(cookie coatcheck)

step "Restores that are refused"
run restore "$copies/good.db" "${configuration[@]}"
matches '^1 .*another process' "$RUN $(cat "$work/out")" "restore while the broker runs → refused"
JAR= get /v1/session -b "coatcheck=$late_session"
expect_status 200 "restore while the broker runs → the broker still serves the session"
kill_broker TERM
same 0 "$(stat -c %s "$work/data/coatcheck.db-wal" 2>/dev/null || echo 0)" "broker stopped by SIGTERM → the write-ahead log is merged into the database"
run restore "$copies/mine" "${configuration[@]}"
matches '^1 .*not a Coatcheck database' "$RUN $(cat "$work/out")" "restore of another program's file → refused"
cp "$copies/good.db" "$copies/newer.db"
python3 - "$copies/newer.db" <<'P'
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as d: d.execute("INSERT INTO schema_version (version, readable_from) VALUES (99, 99)")
P
run restore "$copies/newer.db" "${configuration[@]}"
matches '^1 .*newer Coatcheck' "$RUN $(cat "$work/out")" "restore of a backup with a newer schema → refused"
cp "$work/coatcheck.yaml" "$work/other.yaml"
"$COATCHECK" keys generate --file "$work/other.json" >/dev/null
sed -i "s|file: $work/keys.json|file: $work/other.json|" "$work/other.yaml"
run restore "$copies/good.db" --config "$work/other.yaml"
matches '^1 .*opens 0 of' "$RUN $(cat "$work/out")" "restore with another key ring → refused"
same 0 "$(kept)" "four restores were refused → the present database stays in its place"

run restore "$copies/good.db" "${configuration[@]}"
matches '^1 .*log-outs since 20.*Z.* are lost.*--without-endings' "$RUN $(cat "$work/out")" "restore without an endings file → refused, and prints since when log-outs would be lost"
same 0 "$(kept)" "restore without an endings file → the present database stays in its place"

step "A restore"
run restore "$copies/good.db" "${configuration[@]}" --without-endings
same 0 "$RUN" "restore with --without-endings → exit 0"
same 1 "$(kept)" "restore with --without-endings → the old database is kept"
start_broker
JAR= get /v1/session -b "coatcheck=$kept_session"
expect_status 200 "session from before the backup → alive after the restore"
JAR= get /v1/session -b "coatcheck=$late_session"
expect_problem 401 session_required "session that began after the backup, read after the restore"

step "restore and migrate as root, for files that belong to the broker's user"
if [ "$(id -u)" -eq 0 ]; then
    theirs=$(mktemp -d "${TMPDIR:-/tmp}/coatcheck-theirs.XXXXXX")
    trap 'stop_stack; rm -rf "$theirs"' EXIT
    chmod 755 "$theirs"
    cp "$work/keys.json" "$work/client-key.pem" "$theirs/"
    sed "s|$work/|$theirs/|g" "$work/coatcheck.yaml" >"$theirs/coatcheck.yaml"
    chown -R 54321:54322 "$theirs"
    run restore "$copies/good.db" --config "$theirs/coatcheck.yaml" --without-endings
    same "0 1" "$RUN $(find "$theirs/data" -name coatcheck.db | wc -l)" "restore as root → the database exists"
    same "" "$(find "$theirs" -not -uid 54321)" "restore as root → every file belongs to the broker's user"
    rm -r "$theirs/data"
    run migrate --config "$theirs/coatcheck.yaml"
    same "0 1" "$RUN $(find "$theirs/data" -name coatcheck.db | wc -l)" "migrate as root → the database exists"
    same "" "$(find "$theirs" -not -uid 54321)" "migrate as root → every file belongs to the broker's user"
else
    echo "# skipped: not root"
fi

step "serve and migrate refuse a newer schema"
kill_broker TERM
cp "$work/data/coatcheck.db" "$work/data/newer.db"
python3 - "$work/data/newer.db" <<'P'
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as d: d.execute("INSERT INTO schema_version (version, readable_from) VALUES (99, 99)")
P
sed "s|data/coatcheck.db|data/newer.db|" "$work/coatcheck.yaml" >"$work/newer.yaml"
for command in serve migrate; do
    run "$command" --config "$work/newer.yaml"
    matches '^1 .*newer Coatcheck' "$RUN $(cat "$work/out")" "coatcheck $command on a store with a newer schema → exit 1"
done

step "eight migrations at once"
# migrated CONFIGURATION: runs eight migrations at the same time; prints how many migrated the store, and how many found it up to
# date
migrated() {
    local n pids=()
    for n in 1 2 3 4 5 6 7 8; do "$COATCHECK" migrate --config "$1" >"$work/migrate.$n" 2>&1 & pids+=($!); done
    for n in "${pids[@]}"; do wait "$n"; done
    echo "$(cat "$work"/migrate.? | grep -c 'version 0 to') $(cat "$work"/migrate.? | grep -c 'is up to date')"
}
sed "s|data/coatcheck.db|data/fresh.db|" "$work/coatcheck.yaml" >"$work/fresh.yaml"
same "1 7" "$(migrated "$work/fresh.yaml")" "eight migrations of SQLite → one migrates, and seven find that nothing is left to do"
start_postgresql
sed "s|url: sqlite:.*|url: $POSTGRESQL|" "$work/coatcheck.yaml" >"$work/postgresql.yaml"
same "1 7" "$(migrated "$work/postgresql.yaml")" "eight migrations of PostgreSQL → one migrates, and seven find that nothing is left to do"

step "refused copies of a store"
run store copy "${configuration[@]}" --to "mysql://x"
same 1 "$RUN" "store copy to an unknown engine → exit 1"
run store copy "${configuration[@]}" --to "sqlite:$work/data/coatcheck.db"
matches '^1 .*same store' "$RUN $(cat "$work/out")" "store copy to the same store → refused"
run store copy "${configuration[@]}" --to "sqlite:$copies/good.db"
matches '^1 .*not empty' "$RUN $(cat "$work/out")" "store copy to a store with rows → refused"
start_broker
run store copy "${configuration[@]}" --to "$POSTGRESQL"
matches '^1 .*another process' "$RUN $(cat "$work/out")" "store copy while a broker runs → refused"
kill_broker TERM

step "store copy to PostgreSQL and back"
COATCHECK_TARGET=$POSTGRESQL run store copy "${configuration[@]}" --to env:COATCHECK_TARGET
same 0 "$RUN" "store copy from SQLite to PostgreSQL → exit 0"
matches '100 %' "$(cat "$work/out")" "store copy from SQLite to PostgreSQL → prints its progress"
cp "$work/coatcheck.yaml" "$work/sqlite.yaml"
cp "$work/postgresql.yaml" "$work/coatcheck.yaml"
start_broker
JAR= get /v1/session -b "coatcheck=$kept_session"
expect_status 200 "session from SQLite, after the store copy to PostgreSQL → alive"
JAR= request POST /v1/session/refresh -b "coatcheck=$kept_session"
expect_status 200 "refresh of a session from SQLite on PostgreSQL, after the store copy → 200"
backup "$copies/postgresql.db"
matches '^1 .*404' "$RUN $(cat "$work/out")" "coatcheck backup on PostgreSQL → refused with 404"
run store copy "${configuration[@]}" --to "sqlite:$work/data/back.db"
matches '^1 .*stop it' "$RUN $(cat "$work/out")" "store copy from PostgreSQL while a broker runs → refused"
kill_broker TERM
psql -q "$POSTGRESQL" -c "DELETE FROM leases WHERE name = 'sweeper'" >/dev/null
run store copy "${configuration[@]}" --to "sqlite:$work/data/back.db"
same 0 "$RUN" "store copy from PostgreSQL to SQLite → exit 0"
sed "s|data/coatcheck.db|data/back.db|" "$work/sqlite.yaml" >"$work/coatcheck.yaml"
start_broker
JAR= get /v1/session -b "coatcheck=$kept_session"
expect_status 200 "session from PostgreSQL, after the store copy back to SQLite → alive"
JAR= request POST /v1/session/refresh -b "coatcheck=$kept_session"
expect_status 200 "refresh of a session from PostgreSQL on SQLite, after the store copy back → 200"
finish
