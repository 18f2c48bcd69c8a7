#!/usr/bin/env bash
# An event stream ends with its session. After SIGTERM, the process ends when its requests in progress have ended (SEC-123).
source "$(dirname "$0")/../support/lib.bash"
sed 's|^  drain_delay: .*|  drain_delay: 6s|' "$here/coatcheck.yaml" >"$work/stack.yaml"
start_stack "$work/stack.yaml"

# logged MESSAGE: returns whether the broker's log has a line with this message
logged() { grep -q "\"message\":\"$1\"" "$work/broker.log"; }
# member MESSAGE NAME: prints a member of the last log line with this message
member() { grep "\"message\":\"$1\"" "$work/broker.log" | tail -1 | jq -r ".$2"; }

step "1. A session's event stream ends at the first heartbeat (every 25 s) after the session's idle end"
device brief
sign_in oidc brief ana
expect_status 201 "sign-in at a client with an idle time of four seconds → a session"
begin=$SECONDS
curl -s -N -m 60 -b "coatcheck=$(cookie coatcheck)" "$BROKER/v1/session/events" >"$work/events"
same 0 $? "session reaches its idle end → the session's event stream ends"
took=$((SECONDS - begin))
[ "$took" -le 40 ]; same 0 $? "session reaches its idle end → the session's event stream ends within a heartbeat ($took s)"
matches 'event: session_ended
data: \{"reason":"idle_expired"\}' "$(cat "$work/events")" "session reaches its idle end → the session's event stream gets session_ended with the reason idle_expired"
get /v1/session
same "401 idle_expired" "$STATUS $(json .reason)" "session has reached its idle end → a request with the session's cookie gets 401 idle_expired"

step "2. SIGTERM: readiness turns 503 at once, and the broker serves for drain_delay"
device phone
sign_in oidc ios ana
cookie=$(cookie coatcheck)
curl -s -N -m 60 -b "coatcheck=$cookie" "$BROKER/v1/session/events" >"$work/phone.events" &
stream=$!
wait_for 20 grep -q '^event: session$' "$work/phone.events"
curl -s -m 60 -o "$work/slow" -w '%{http_code}' -b "coatcheck=$cookie" "$BROKER/v1/relay/api/slow?ms=14000" >"$work/slow.status" &
slow=$!
under_way() { shows '^coatcheck_relay_calls_under_way\{upstream="api"\} 1$'; }
wait_for 6 under_way
same 0 $? "relay call of fourteen seconds, before SIGTERM → in progress"
red() { [ "$(curl -s -o /dev/null -w '%{http_code}' "$MANAGEMENT/readyz")" = 503 ]; }
begin=$(date +%s%N)
kill -TERM "$broker_pid"
wait_for 5 red
same 0 $? "SIGTERM → /readyz is 503"
took=$((($(date +%s%N) - begin) / 1000000))
# Readiness has to turn 503 at once, long before drain_delay is over.
[ "$took" -lt 4000 ]; same 0 $? "SIGTERM → /readyz is 503 at once ($took ms)"
request GET "$MANAGEMENT/readyz"
expect_json .status shutting_down "SIGTERM → /readyz has the status shutting_down"
get /v1/session
expect_status 200 "request after SIGTERM, during drain_delay → served"
wait_for 10 logged draining
same "1 1 6000 36000" "$(member draining requests) $(member draining streams) $(member draining delay_ms) $(member draining at_most_ms)" "SIGTERM → the log line 'draining' has requests, streams, delay and longest time"
refused() { get /v1/providers && [ "$STATUS" = 503 ]; }
wait_for 20 refused
expect_problem 503 shutting_down "request after SIGTERM, when drain_delay is over"
expect_header Retry-After 1 "request after SIGTERM, when drain_delay is over → Retry-After is 1"
expect_header Connection close "request after SIGTERM, when drain_delay is over → Connection: close"
took=$((($(date +%s%N) - begin) / 1000000))
[ "$took" -ge 5900 ]; same 0 $? "SIGTERM → the first request that gets 503 comes only after drain_delay ($took ms)"
wait "$stream"
same 0 $? "SIGTERM → the open event stream ends with a complete HTTP body"
wait "$slow"
same 200 "$(cat "$work/slow.status")" "SIGTERM during a slow relay call → the call's answer still arrives"
wait "$broker_pid"
same 0 $? "SIGTERM, and the requests in progress have ended → exit status 0"
broker_pid=
same "0 0" "$(member drained requests) $(member drained streams)" "SIGTERM → the log line 'drained' reports zero requests and streams"
matches '^[0-9]+$' "$(member drained took_ms)" "SIGTERM → the log line 'drained' has the duration ($(member drained took_ms) ms)"

step "3. Without drain_delay the broker stops at once"
sed -i 's|^  drain_delay: .*|  drain_delay: 0s|' "$work/coatcheck.yaml"
start_broker
begin=$(date +%s%N)
kill_broker TERM
took=$((($(date +%s%N) - begin) / 1000000))
[ "$took" -lt 5900 ]; same 0 $? "SIGTERM with a drain_delay of 0 → the broker stops in $took ms, less than 5900"
owner=$(python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(
    "SELECT quote(owner) FROM leases WHERE name = '"'sweeper'"'").fetchone())' "$work/data/coatcheck.db")
same "''" "$owner" "broker stopped by SIGTERM → has released the sweeper's lease"

finish
