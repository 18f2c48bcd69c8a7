#!/usr/bin/env bash
# Orderly ends: an event stream ends with its session, and the process ends after its work in progress (SEC-123).
source "$(dirname "$0")/../support/lib.bash"
sed 's|^  drain_delay: .*|  drain_delay: 6s|' "$here/coatcheck.yaml" >"$work/stack.yaml"
start_stack "$work/stack.yaml"

# logged MESSAGE: the broker's log has such a line
logged() { grep -q "\"message\":\"$1\"" "$work/broker.log"; }
# member MESSAGE NAME: the value of that member
member() { grep "\"message\":\"$1\"" "$work/broker.log" | tail -1 | jq -r ".$2"; }

step "1. An expired session ends its event stream at the next heartbeat (25 s)"
device brief
sign_in oidc brief ana
expect_status 201 "sign-in with four idle seconds → a session"
begin=$SECONDS
curl -s -N -m 60 -b "coatcheck=$(cookie coatcheck)" "$BROKER/v1/session/events" >"$work/events"
same 0 $? "session expired → the stream ends"
took=$((SECONDS - begin))
[ "$took" -le 40 ]; same 0 $? "session expired → the stream ends within a heartbeat ($took s)"
matches 'event: session_ended
data: \{"reason":"idle_expired"\}' "$(cat "$work/events")" "session expired → event with the reason idle_expired"
get /v1/session
same "401 idle_expired" "$STATUS $(json .reason)" "session expired → the cookie gets idle_expired"

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
same 0 $? "relay call of fourteen seconds → in progress"
red() { [ "$(curl -s -o /dev/null -w '%{http_code}' "$MANAGEMENT/readyz")" = 503 ]; }
begin=$(date +%s%N)
kill -TERM "$broker_pid"
wait_for 5 red
same 0 $? "SIGTERM → /readyz is 503"
took=$((($(date +%s%N) - begin) / 1000000))
# Readiness turns 503 at once, and not only after drain_delay.
[ "$took" -lt 4000 ]; same 0 $? "SIGTERM → /readyz is 503 at once ($took ms)"
request GET "$MANAGEMENT/readyz"
expect_json .status shutting_down
get /v1/session
expect_status 200 "request during drain_delay → served"
wait_for 10 logged draining
same "1 1 6000 36000" "$(member draining requests) $(member draining streams) $(member draining delay_ms) $(member draining at_most_ms)" "log line draining → has requests, streams, delay and longest time"
refused() { get /v1/providers && [ "$STATUS" = 503 ]; }
wait_for 20 refused
expect_problem 503 shutting_down "request after drain_delay"
expect_header Retry-After 1
expect_header Connection close "request after drain_delay → Connection: close"
took=$((($(date +%s%N) - begin) / 1000000))
[ "$took" -ge 5900 ]; same 0 $? "SIGTERM → the first 503 comes only after drain_delay ($took ms)"
wait "$stream"
same 0 $? "SIGTERM → the event stream ends completely"
wait "$slow"
same 200 "$(cat "$work/slow.status")" "SIGTERM during the slow call → its answer arrives"
wait "$broker_pid"
same 0 $? "SIGTERM → exit status 0"
broker_pid=
same "0 0" "$(member drained requests) $(member drained streams)" "log line drained → reports that no requests or streams are left"
matches '^[0-9]+$' "$(member drained took_ms)" "log line drained → has its duration ($(member drained took_ms) ms)"

step "3. Without drain_delay the broker stops at once"
sed -i 's|^  drain_delay: .*|  drain_delay: 0s|' "$work/coatcheck.yaml"
start_broker
begin=$(date +%s%N)
kill_broker TERM
took=$((($(date +%s%N) - begin) / 1000000))
[ "$took" -lt 5900 ]; same 0 $? "SIGTERM without drain_delay → stops in $took ms"
owner=$(python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(
    "SELECT quote(owner) FROM leases WHERE name = '"'sweeper'"'").fetchone())' "$work/data/coatcheck.db")
same "''" "$owner" "stopped broker → has released the sweeper's lease"

finish
