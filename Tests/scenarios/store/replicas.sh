#!/usr/bin/env bash
# Guarantees 1, 2 and 6 with three replicas on one PostgreSQL: a code causes one token call, concurrent callers share one
# refresh, and an ended session stays ended at every replica.
source "$(dirname "$0")/../support/lib.bash"
start_sandbox
start_postgresql
CLOSED_PORT=$(free_port)
"$COATCHECK" keys generate --file "$work/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
sed -e "s|url: sqlite:.*|url: $POSTGRESQL|" "$here/coatcheck.yaml" >"$work/template.yaml"
public_port=$(free_port)
BROKER="http://127.0.0.1:$public_port"
replicas=()
ends=()
managements=()

# start_replica N: starts the N-th replica; all replicas have the same public_url
start_replica() {
    "$COATCHECK" serve --config "$work/replica-$1.yaml" >>"$work/broker-$1.log" 2>&1 &
    replicas[$1]=$!
    pids+=($!)
    disown $!
}
for n in 1 2 3; do
    BROKER_PORT=$([ "$n" = 1 ] && echo "$public_port" || free_port)
    MANAGEMENT_PORT=$(free_port)
    configure "$work/template.yaml"
    mv "$work/coatcheck.yaml" "$work/replica-$n.yaml"
    ends[n]="http://127.0.0.1:$BROKER_PORT"
    managements[n]="http://127.0.0.1:$MANAGEMENT_PORT"
    start_replica "$n"
done
# All three replicas migrate the store at the same time, and one of them does the work.
for n in 1 2 3; do wait_for 30 curl -sf "${managements[n]}/readyz" || give_up "replica $n"; done
on() { BROKER=${ends[$1]}; }
here_session() { JAR= request GET /v1/session -b "coatcheck=$session"; }
milliseconds() { date +%s%3N; }
device a-phone

step "1. A session made on one replica works on all"
on 1
sign_in oidc ios ana
expect_status 201 "sign-in on replica 1 → a session"
session=$(cookie coatcheck)
for n in 1 2 3; do
    on "$n"
    here_session
    expect_status 200 "sign-in on replica 1 → replica $n knows the session"
done

step "2. A login begun on one replica and finished on another"
device b-phone
on 1
start_login oidc ios
browser "$AUTHORIZATION_URL" ben
on 2
forward "$CALLBACK"
expect_status 201 "login started on replica 1, forwarded to replica 2 → a session"

step "3. A log-out on one replica: within a second all replicas refuse the session, and event streams end"
device a-phone
on 3
curl -sN -m 90 -b "coatcheck=$session" "$BROKER/v1/session/events" >"$work/events" 2>/dev/null &
stream=$!
wait_for 20 grep -q 'event: session' "$work/events"
for n in 1 2 3; do on "$n"; here_session; done
# Each replica gets one request after another. `served-N` has the start of the last request that the replica served.
for n in 1 2 3; do
    while [ ! -e "$work/asked-enough" ]; do
        asked=$(milliseconds)
        answer=$(curl -s -m 10 -o /dev/null -w '%{http_code}' -b "coatcheck=$session" "${ends[n]}/v1/session")
        [ "$answer" = 200 ] && echo "$asked" >"$work/served-$n"
    done &
    waiting[n]=$!
done
wait_for 30 eval '[ -s "$work/served-1" ] && [ -s "$work/served-2" ] && [ -s "$work/served-3" ]'
on 2
JAR= request DELETE /v1/session -b "coatcheck=$session"
begin=$(milliseconds)
expect_status 204 "log-out on replica 2 → 204"
sleep 2
touch "$work/asked-enough"
wait "${waiting[@]}"
for n in 1 2 3; do
    on "$n"
    here_session
    same "401 logged_out" "$STATUS $(json .reason)" "log-out on replica 2 → replica $n refuses the session"
    took=$(($(cat "$work/served-$n") - begin))
    [ "$took" -lt 1000 ]; same 0 $? "log-out on replica 2 → the last request that replica $n served began $took ms later, under 1000"
done
wait_for 10 grep -q 'event: session_ended' "$work/events"
same 0 $? "log-out on replica 2 → the session's event stream at replica 3 gets an event"
matches 'logged_out' "$(cat "$work/events")" "log-out on replica 2 → the event has the reason logged_out"
kill "$stream" 2>/dev/null

step "4. Fifty identical forwards over three replicas: one token call, one session"
device c-phone
on 1
start_login oidc ios
browser "$AUTHORIZATION_URL" ana
login_cookie=$(cookie coatcheck-login)
sandbox DELETE /requests
fault oidc '{"fault":"slow","endpoint":"token","delay_ms":300}'
for n in $(seq 50); do
    curl -s -m 40 -o "$work/answer.$n" -w '%{http_code}\n' "${ends[n % 3 + 1]}/v1/sessions" \
        -b "coatcheck-login=$login_cookie" -H 'Content-Type: application/json' \
        --data-binary "{\"callback_url\":$(json_text "$CALLBACK")}" >"$work/status.$n" &
    waiting[n]=$!
done
wait "${waiting[@]}"
sandbox DELETE /faults
same 50 "$(cat "$work"/status.* | grep -c '^201$')" "fifty identical forwards to three replicas → each gets 201"
same 1 "$(calls oidc/token)" "fifty identical forwards to three replicas → one token call"
same 1 "$(for n in $(seq 50); do json .handle "$work/answer.$n"; done | sort -u | wc -l)" "fifty identical forwards to three replicas → one session"

step "5. Three hundred calls over three replicas when the token expires: one refresh"
device d-phone
on 2
sandbox PUT /settings/oidc '{"access_token_lifetime":1}'
sign_in oidc ios ana
sandbox PUT /settings/oidc '{"access_token_lifetime":3600}'
session=$(cookie coatcheck)
sandbox DELETE /requests
sleep 2
fault oidc '{"fault":"slow","endpoint":"refresh","delay_ms":500}'
fault oidc '{"fault":"rotate-strict","endpoint":"refresh"}'
waiting=()
for n in 1 2 3; do
    curl -s -m 60 -Z --parallel-immediate --parallel-max 100 -o "$work/many-$n-#1" -w '%{http_code}\n' \
        -b "coatcheck=$session" "${ends[n]}/v1/relay/api/private/echo?n=[1-100]" 2>/dev/null >"$work/statuses-$n" &
    waiting[n]=$!
done
wait "${waiting[@]}"
sandbox DELETE /faults
same 300 "$(cat "$work"/statuses-* | grep -c '^200$')" "three hundred relayed calls when the token expires → each gets 200"
same 1 "$(calls oidc/refresh)" "three hundred relayed calls when the token expires → one refresh call"
same 1 "$(jq -r '.headers[] | select(.[0] == "Authorization")[1]' "$work"/many-* | sort -u | wc -l)" "three hundred relayed calls when the token expires → one new token for all"

step "6. A replica is killed during its refresh: the session survives while the old token is accepted"
device e-phone
on 1
sandbox PUT /settings/oidc '{"refresh_mode":"overlap"}'
sign_in oidc ios ana
session=$(cookie coatcheck)
slow_session=$session
device e2-phone
sign_in oidc ios ben
hanging_session=$(cookie coatcheck)
sandbox DELETE /requests
# The slow call reaches the provider's work after replica 1 was killed. The hanging call is never carried out.
fault oidc '{"fault":"slow","endpoint":"refresh","delay_ms":13000,"times":1}'
JAR= request POST /v1/session/refresh -b "coatcheck=$slow_session" -m 2
fault oidc '{"fault":"hang","endpoint":"refresh","delay_ms":13000,"times":1}'
JAR= request POST /v1/session/refresh -b "coatcheck=$hanging_session" -m 2
kill -9 "${replicas[1]}"
same 2 "$(calls oidc/refresh)" "replica 1 is killed → the refresh calls of two sessions were in progress at the provider"
session=$slow_session
on 2
here_session
expect_status 200 "replica 1 is killed during a session's refresh → replica 2 knows the session"
begin=$(milliseconds)
wait_for 120 eval 'JAR= request POST /v1/session/refresh -b "coatcheck=$session"; [ "$STATUS" = 200 ]'
same 200 "$STATUS" "claim of the killed replica has lapsed → replica 2 refreshes, $(($(milliseconds) - begin)) ms after its first try"
same 3 "$(calls oidc/refresh)" "replica 2 has refreshed for the killed replica → one more refresh call"
sandbox PUT /settings/oidc '{"refresh_mode":"rotate-strict"}'
session=$hanging_session
on 3
wait_for 120 eval 'JAR= request POST /v1/session/refresh -b "coatcheck=$session"; [ "$STATUS" = 200 ]'
same 200 "$STATUS" "provider with strict rotation has not carried out the killed replica's refresh call → replica 3 refreshes the session"
same 4 "$(calls oidc/refresh)" "replica 3 has refreshed for the killed replica → one more refresh call"
sandbox PUT /settings/oidc '{"refresh_mode":"overlap"}'
session=$slow_session
on 3
here_session
expect_status 200 "session was refreshed on replica 2 → replica 3 knows the session"
start_replica 1
wait_for 30 curl -sf "${managements[1]}/readyz"
on 1
here_session
expect_status 200 "replica 1 is started again → it knows the session that replica 2 refreshed"

step "6b. A refresh at one replica causes exactly one event on streams at other replicas"
device h-phone
on 1
sign_in oidc ios ana
session=$(cookie coatcheck)
for n in 2 3; do
    curl -sN -m 90 -b "coatcheck=$session" "${ends[n]}/v1/session/events" >"$work/events-$n" 2>/dev/null &
    streams[n]=$!
done
for n in 2 3; do wait_for 20 grep -q 'event: session' "$work/events-$n"; done
on 2
JAR= request POST /v1/session/refresh -b "coatcheck=$session"
expect_status 200 "refresh on replica 2 → 200"
for n in 2 3; do
    wait_for 20 grep -q 'event: tokens_refreshed' "$work/events-$n"
    same 0 $? "refresh on replica 2 → the session's event stream at replica $n gets an event"
done
# Each replica polls the database twice more in this time, and must still send only one event.
sleep 2.5
for n in 2 3; do same 1 "$(grep -c 'event: tokens_refreshed' "$work/events-$n")" "refresh on replica 2 → the session's event stream at replica $n gets only one event"; done
kill "${streams[@]}" 2>/dev/null

step "7. Operators check the store: migrate, check --online, metrics"
"$COATCHECK" migrate --config "$work/replica-1.yaml" >"$work/migrate.log" 2>&1
same 0 $? "migrate on an up-to-date store → exit 0: $(cat "$work/migrate.log")"
"$COATCHECK" check --online --config "$work/replica-1.yaml" >"$work/check.log" 2>&1
matches 'ok +store: answers and is up to date' "$(cat "$work/check.log")" "check --online with a migrated store → reports that the store is up to date"
matches 'no commit waits for a standby' "$(cat "$work/check.log")" "check --online without a standby → reports that no commit waits for a standby"
on 2
JAR= request GET "${managements[2]}/metrics"
matches 'coatcheck_store_connections 8' "$(body)" "metrics of a replica → contain the number of store connections"
for name in store_connections_lost_total store_waiting sessions_live 'build_info\{version="[0-9.]+",store="postgresql"\}'; do
    matches "coatcheck_$name [0-9]+" "$(body)" "metrics for dashboard and alerts → contain $name"
done

step "8. PostgreSQL hangs: 503 with Retry-After, the cookie stays, and replicas recover"
device f-phone
on 2
sign_in oidc ios ana
session=$(cookie coatcheck)
sleep 6
backends=$(pgrep -P "$POSTGRESQL_PID")
kill -STOP "$POSTGRESQL_PID" $backends
begin=$(milliseconds)
get /v1/session
took=$(($(milliseconds) - begin))
expect_problem 503 store_unavailable "session read while PostgreSQL hangs, and the session is not cached"
matches '^[0-9]+$' "$(header Retry-After)" "session read while PostgreSQL hangs → Retry-After in seconds"
same "" "$(header Set-Cookie)" "session read while PostgreSQL hangs → the cookie stays"
[ "$took" -lt 12000 ]; same 0 $? "session read while PostgreSQL hangs → answered after $took ms, under 12000"
kill -CONT "$POSTGRESQL_PID" $backends
for n in 1 2 3; do
    on "$n"
    wait_for 30 eval 'here_session; [ "$STATUS" = 200 ]'
    same 200 "$STATUS" "PostgreSQL hung and continues → replica $n serves the session"
done

step "9. PostgreSQL crashes and recovers: no user is logged out"
kill -9 "$(pgrep -P "$POSTGRESQL_PID" | tail -1)"
for n in 1 2 3; do
    on "$n"
    device "g-phone-$n"
    wait_for 40 eval 'sign_in oidc ios ana; [ "$STATUS" = 201 ]'
    same 201 "$STATUS" "PostgreSQL recovered → sign-in on replica $n works"
    # Another of the replica's connections may be dead. It may cause a 503 for a moment, but never a 401.
    wait_for 20 eval 'here_session; [ "$STATUS" != 503 ]'
    expect_status 200 "PostgreSQL recovered → the session from before the crash is alive"
done
finish
