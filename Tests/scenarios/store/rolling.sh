#!/usr/bin/env bash
# Rolling upgrades on PostgreSQL: two releases use one database at the same time (docs/operate/upgrades.md). OLD_COATCHECK is the
# binary of an older release; if it is not set, this release takes its place. The script also imitates the next release: it
# extends the schema, and writes rows with a higher format number.
source "$(dirname "$0")/../support/lib.bash"
start_sandbox
start_postgresql
CLOSED_PORT=$(free_port)
old=${OLD_COATCHECK:-$COATCHECK}
new=$COATCHECK
"$old" keys generate --file "$work/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
# Keep only one provider and its upstreams, because the older release may not know newer settings of the other providers.
awk '/^[^ #]/ { section = $1 } /^  [^ ]/ { kept = section == "providers:" ? $1 == "oidc:" : section != "upstreams:" || /provider: oidc/ }
    /^[^ ]/ || kept' "$here/coatcheck.yaml" | sed "s|url: sqlite:.*|url: $POSTGRESQL|" >"$work/template.yaml"
binaries=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
sql() { "$binaries/psql" -X -A -t -q -v ON_ERROR_STOP=1 -d "$POSTGRESQL" -c "$1"; }
public_port=$(free_port)
ends=()
managements=()

# start_release N PROGRAM: starts process N with a release's program
start_release() {
    "$2" serve --config "$work/release-$1.yaml" >>"$work/release-$1.log" 2>&1 &
    releases[$1]=$!
    pids+=($!)
    disown $!
}
releases=()
BROKER="http://127.0.0.1:$public_port"
for n in 1 2; do
    BROKER_PORT=$([ "$n" = 1 ] && echo "$public_port" || free_port)
    MANAGEMENT_PORT=$(free_port)
    configure "$work/template.yaml"
    mv "$work/coatcheck.yaml" "$work/release-$n.yaml"
    ends[n]="http://127.0.0.1:$BROKER_PORT"
    managements[n]="http://127.0.0.1:$MANAGEMENT_PORT"
done
on() { BROKER=${ends[$1]}; }
here_session() { JAR= request GET /v1/session -b "coatcheck=$session"; }

step "1. Eight migrations at the same time: one does the work"
waiting=()
for n in $(seq 8); do
    "$new" migrate --config "$work/release-1.yaml" >"$work/migrate.$n" 2>&1 &
    waiting[n]=$!
done
good=0
for n in $(seq 8); do wait "${waiting[n]}" && good=$((good + 1)); done
same 8 "$good" "eight migrations at the same time → all exit 0"
same 1 "$(cat "$work"/migrate.[1-8] | grep -c 'version 0 to')" "eight migrations at the same time → one does the work: $(grep -h 'version 0 to' "$work"/migrate.[1-8])"
same 7 "$(cat "$work"/migrate.[1-8] | grep -c 'is up to date')" "eight migrations at the same time → seven find the schema up to date"
newest=$(sql 'SELECT max(version) FROM schema_version')

step "2. The older release and the newer one, side by side"
start_release 1 "$old"
start_release 2 "$new"
for n in 1 2; do wait_for 30 curl -sf "${managements[n]}/readyz" || give_up "release $n"; done
printf '# %s beside %s\n' "$("$old" --version)" "$("$new" --version)"
for first in 1 2; do
    other=$((3 - first))
    device "phone-$first"
    on "$first"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" ana
    on "$other"
    forward "$CALLBACK"
    expect_status 201 "login started on release $first, finished on release $other → a session"
    session=$(cookie coatcheck)
    on "$first"
    here_session
    expect_status 200 "session made by release $other → known to release $first"
    JAR= request POST /v1/session/refresh -b "coatcheck=$session"
    expect_status 200 "refresh by release $first of a session made by release $other → 200"
    on "$other"
    JAR= request POST /v1/session/refresh -b "coatcheck=$session"
    expect_status 200 "refresh by release $other with the token pair that release $first stored → 200"
    JAR= request DELETE /v1/session -b "coatcheck=$session"
    expect_status 204 "log-out at release $other → 204"
    on "$first"
    wait_for 6 eval 'here_session; [ "$STATUS" = 401 ]'
    same "401 logged_out" "$STATUS $(json .reason)" "log-out at release $other → release $first refuses the session within 6 s"
done

restart_release() { # restart_release N PROGRAM
    kill "${releases[$1]}"
    wait_for 40 eval "! kill -0 ${releases[$1]} 2>/dev/null"
    start_release "$1" "$2"
    wait_for 30 curl -sf "${managements[$1]}/readyz"
}
restart_release 1 "$old"
device phone-of-before
on 1
sign_in oidc ios ana
session=$(cookie coatcheck)
here_session
expect_status 200 "older release is restarted on the newer schema → it serves the session"

step "3. The next release has added to the schema, and the present release still works"
sql "BEGIN; ALTER TABLE sessions ADD COLUMN of_the_next text DEFAULT 'next'; ALTER TABLE session_states ADD COLUMN of_the_next bigint;
    CREATE TABLE things_of_the_next (name text PRIMARY KEY); CREATE INDEX sessions_of_the_next ON sessions (of_the_next);
    INSERT INTO schema_version VALUES ($((newest + 1)), $newest); COMMIT"
device next-phone
on 2
sign_in oidc ios ana
expect_status 201 "schema is extended, and a broker that runs meanwhile signs a user in → a session"
session=$(cookie coatcheck)
handle=$(json .handle)
here_session
expect_status 200 "running broker reads a session on the extended schema → 200"
restart_release 1 "$new"
on 1
here_session
expect_status 200 "broker is started on the extended schema → serves the session"
"$new" migrate --config "$work/release-1.yaml" >"$work/migrate.log" 2>&1
same 0 $? "migrate on the extended schema → exit 0: $(cat "$work/migrate.log")"

step "4. A session whose rows have a newer format: 503, and the rows are unchanged"
device other-phone
sign_in oidc ios ben
other_session=$(cookie coatcheck)
# Give the session's rows a higher format number, as the next release would do.
sql "UPDATE sessions SET format = 2 WHERE handle = '$handle'; UPDATE session_states SET format = 2 WHERE token = (SELECT token FROM sessions WHERE handle = '$handle')"
before=$(sql "SELECT s.*, st.* FROM sessions s JOIN session_states st USING (token) WHERE handle = '$handle'")
# Each process may have the session in its cache for five seconds, so wait until it reads the row.
for n in 1 2; do
    on "$n"
    wait_for 8 eval 'here_session; [ "$STATUS" = 503 ]'
    expect_problem 503 store_unavailable "release $n reads a session whose rows have a newer format"
    matches '^[0-9]+$' "$(header Retry-After)" "release $n reads a session whose rows have a newer format → Retry-After in seconds"
    same "" "$(header Set-Cookie)" "release $n reads a session whose rows have a newer format → the cookie stays"
    JAR= request POST /v1/session/refresh -b "coatcheck=$session"
    expect_problem 503 store_unavailable "release $n refreshes a session whose rows have a newer format"
    JAR= request GET /v1/session -b "coatcheck=$other_session"
    expect_status 200 "release $n reads a session whose rows have the present format → 200"
done
same "$before" "$(sql "SELECT s.*, st.* FROM sessions s JOIN session_states st USING (token) WHERE handle = '$handle'")" "both releases have read a session of a newer format → its rows are unchanged"
sql "UPDATE sessions SET format = 1 WHERE handle = '$handle'; UPDATE session_states SET format = 1 WHERE token = (SELECT token FROM sessions WHERE handle = '$handle')"
for n in 1 2; do
    on "$n"
    wait_for 8 eval 'here_session; [ "$STATUS" = 200 ]'
    same 200 "$STATUS" "session's rows have the present format again → release $n serves the session"
done

step "5. The present release refuses an unreadable schema"
sql "INSERT INTO schema_version VALUES ($((newest + 2)), $((newest + 2)))"
"$new" migrate --config "$work/release-2.yaml" >"$work/migrate.log" 2>&1
same 1 $? "migrate on an unreadable schema → exit 1: $(cat "$work/migrate.log")"
matches "$((newest + 2))" "$(cat "$work/migrate.log")" "migrate on an unreadable schema → prints the schema's version"
timeout 20 "$new" serve --config "$work/release-2.yaml" >"$work/refused.log" 2>&1
same 1 $? "serve on an unreadable schema → exit 1"
matches 'cannot start' "$(cat "$work/refused.log")" "serve on an unreadable schema → prints that it cannot start"
finish
