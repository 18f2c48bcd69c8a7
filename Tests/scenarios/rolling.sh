#!/usr/bin/env bash
# Rolling upgrades on PostgreSQL: two releases on one database at the same time (docs/operate/upgrades.md). OLD_COATCHECK is an
# older release's binary. If it is missing, this release plays the older one, next to the effects of a newer one. These are an
# extended schema, and rows whose format number is higher by one.
source "$(dirname "$0")/support/lib.bash"
start_sandbox
start_postgresql
CLOSED_PORT=$(free_port)
old=${OLD_COATCHECK:-$COATCHECK}
new=$COATCHECK
"$old" keys generate --file "$work/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
# One provider and its upstreams, because the older release may not know newer settings of the others.
awk '/^[^ #]/ { section = $1 } /^  [^ ]/ { kept = section == "providers:" ? $1 == "oidc:" : section != "upstreams:" || /provider: oidc/ }
    /^[^ ]/ || kept' "$here/coatcheck.yaml" | sed "s|url: sqlite:.*|url: $POSTGRESQL|" >"$work/template.yaml"
binaries=$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)
sql() { "$binaries/psql" -X -A -t -q -v ON_ERROR_STOP=1 -d "$POSTGRESQL" -c "$1"; }
public_port=$(free_port)
ends=()
managements=()

# start_release N PROGRAM: a process of a release
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

step "1. Of eight that migrate at once, one does"
waiting=()
for n in $(seq 8); do
    "$new" migrate --config "$work/release-1.yaml" >"$work/migrate.$n" 2>&1 &
    waiting[n]=$!
done
good=0
for n in $(seq 8); do wait "${waiting[n]}" && good=$((good + 1)); done
same 8 "$good" "all end well"
same 1 "$(cat "$work"/migrate.[1-8] | grep -c 'version 0 to')" "one did the work: $(grep -h 'version 0 to' "$work"/migrate.[1-8])"
same 7 "$(cat "$work"/migrate.[1-8] | grep -c 'is up to date')" "seven found it done"
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
    expect_status 201 "a login begun on $first is finished on $other"
    session=$(cookie coatcheck)
    on "$first"
    here_session
    expect_status 200 "its session is known on $first"
    JAR= request POST /v1/session/refresh -b "coatcheck=$session"
    expect_status 200 "refreshed on $first"
    on "$other"
    JAR= request POST /v1/session/refresh -b "coatcheck=$session"
    expect_status 200 "and on $other, with the pair of $first"
    JAR= request DELETE /v1/session -b "coatcheck=$session"
    expect_status 204 "logged out on $other"
    on "$first"
    wait_for 6 eval 'here_session; [ "$STATUS" = 401 ]'
    same "401 logged_out" "$STATUS $(json .reason)" "and refused on $first"
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
expect_status 200 "the older one, started again on the newer one's schema, serves"

step "3. The next release's migration, which the present one can work beside"
sql "BEGIN; ALTER TABLE sessions ADD COLUMN of_the_next text DEFAULT 'next'; ALTER TABLE session_states ADD COLUMN of_the_next bigint;
    CREATE TABLE things_of_the_next (name text PRIMARY KEY); CREATE INDEX sessions_of_the_next ON sessions (of_the_next);
    INSERT INTO schema_version VALUES ($((newest + 1)), $newest); COMMIT"
device next-phone
on 2
sign_in oidc ios ana
expect_status 201 "sign in beside it, without a restart"
session=$(cookie coatcheck)
handle=$(json .handle)
here_session
expect_status 200 "the session is there"
restart_release 1 "$new"
on 1
here_session
expect_status 200 "a process that starts on the newer schema serves"
"$new" migrate --config "$work/release-1.yaml" >"$work/migrate.log" 2>&1
same 0 $? "migrate has nothing to do: $(cat "$work/migrate.log")"

step "4. Rows of a format that is one higher: 503, nobody is logged out, nothing is rewritten"
device other-phone
sign_in oidc ios ben
other_session=$(cookie coatcheck)
# As the next release would have written them.
sql "UPDATE sessions SET format = 2 WHERE handle = '$handle'; UPDATE session_states SET format = 2 WHERE token = (SELECT token FROM sessions WHERE handle = '$handle')"
before=$(sql "SELECT s.*, st.* FROM sessions s JOIN session_states st USING (token) WHERE handle = '$handle'")
# A cached entry is gone within five seconds.
for n in 1 2; do
    on "$n"
    wait_for 8 eval 'here_session; [ "$STATUS" = 503 ]'
    expect_problem 503 store_unavailable "release $n leaves it alone"
    matches '^[0-9]+$' "$(header Retry-After)" "with Retry-After"
    same "" "$(header Set-Cookie)" "the cookie stays"
    JAR= request POST /v1/session/refresh -b "coatcheck=$session"
    expect_problem 503 store_unavailable "nor is it refreshed"
    JAR= request GET /v1/session -b "coatcheck=$other_session"
    expect_status 200 "the sessions of this format are served beside it"
done
same "$before" "$(sql "SELECT s.*, st.* FROM sessions s JOIN session_states st USING (token) WHERE handle = '$handle'")" "its row is as it was"
sql "UPDATE sessions SET format = 1 WHERE handle = '$handle'; UPDATE session_states SET format = 1 WHERE token = (SELECT token FROM sessions WHERE handle = '$handle')"
for n in 1 2; do
    on "$n"
    wait_for 8 eval 'here_session; [ "$STATUS" = 200 ]'
    same 200 "$STATUS" "a release that can read it serves it: $n"
done

step "5. A schema that the present release cannot work with"
sql "INSERT INTO schema_version VALUES ($((newest + 2)), $((newest + 2)))"
"$new" migrate --config "$work/release-2.yaml" >"$work/migrate.log" 2>&1
same 1 $? "migrate refuses it: $(cat "$work/migrate.log")"
matches "$((newest + 2))" "$(cat "$work/migrate.log")" "and names it"
timeout 20 "$new" serve --config "$work/release-2.yaml" >"$work/refused.log" 2>&1
same 1 $? "serve refuses it"
matches 'cannot start' "$(cat "$work/refused.log")" "and says so"
finish
