#!/usr/bin/env bash
# Orderly ends: an event stream ends with its session, and the process with its work in progress (SEC-123).
source "$(dirname "$0")/support/lib.bash"
sed 's|^  drain_delay: .*|  drain_delay: 6s|' "$here/coatcheck.yaml" >"$work/stack.yaml"
start_stack "$work/stack.yaml"

# logged MESSAGE: the broker's log has such a line
logged() { grep -q "\"message\":\"$1\"" "$work/broker.log"; }
# member MESSAGE NAME: the value of that member
member() { grep "\"message\":\"$1\"" "$work/broker.log" | tail -1 | jq -r ".$2"; }

step "1. A session that lapses ends its event stream, at the next heartbeat (25 s)"
device brief
sign_in oidc brief ana
expect_status 201 "a session of four idle seconds"
begin=$SECONDS
curl -s -N -m 60 -b "coatcheck=$(cookie coatcheck)" "$BROKER/v1/session/events" >"$work/events"
same 0 $? "the stream comes to its end"
took=$((SECONDS - begin))
[ "$took" -le 40 ]; same 0 $? "within a heartbeat ($took s)"
matches 'event: session_ended
data: \{"reason":"idle_expired"\}' "$(cat "$work/events")" "with the reason"
get /v1/session
same "401 idle_expired" "$STATUS $(json .reason)" "the cookie is refused with the same"

step "2. SIGTERM: readiness is red at once, and the broker serves for drain_delay"
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
same 0 $? "a call that takes fourteen seconds is under way"
red() { [ "$(curl -s -o /dev/null -w '%{http_code}' "$MANAGEMENT/readyz")" = 503 ]; }
begin=$(date +%s%N)
kill -TERM "$broker_pid"
wait_for 5 red
same 0 $? "/readyz is 503"
took=$((($(date +%s%N) - begin) / 1000000))
# At once, and not only when the delay is over.
[ "$took" -lt 4000 ]; same 0 $? "at once ($took ms)"
request GET "$MANAGEMENT/readyz"
expect_json .status shutting_down
get /v1/session
expect_status 200 "who has not noticed yet is served"
wait_for 10 logged draining
same "1 1 6000 36000" "$(member draining requests) $(member draining streams) $(member draining delay_ms) $(member draining at_most_ms)" "draining: a request, a stream, the delay, the longest it may take"
refused() { get /v1/providers && [ "$STATUS" = 503 ]; }
wait_for 20 refused
expect_problem 503 shutting_down "then everybody is told to come again"
expect_header Retry-After 1
expect_header Connection close "on another connection"
took=$((($(date +%s%N) - begin) / 1000000))
[ "$took" -ge 5900 ]; same 0 $? "and not before ($took ms)"
wait "$stream"
same 0 $? "the event stream ends in order"
wait "$slow"
same 200 "$(cat "$work/slow.status")" "the slow call gets its answer"
wait "$broker_pid"
same 0 $? "the broker ends in order"
broker_pid=
same "0 0" "$(member drained requests) $(member drained streams)" "drained: nothing is left"
matches '^[0-9]+$' "$(member drained took_ms)" "and how long it took ($(member drained took_ms) ms)"

step "3. Without a delay, at once"
sed -i 's|^  drain_delay: .*|  drain_delay: 0s|' "$work/coatcheck.yaml"
start_broker
begin=$(date +%s%N)
kill_broker TERM
took=$((($(date +%s%N) - begin) / 1000000))
[ "$took" -lt 5900 ]; same 0 $? "it stops in $took ms"
owner=$(python3 -c 'import sqlite3, sys; print(*sqlite3.connect(sys.argv[1]).execute(
    "SELECT quote(owner) FROM leases WHERE name = '"'sweeper'"'").fetchone())' "$work/data/coatcheck.db")
same "''" "$owner" "and leaves the sweeper's lease to the next"

finish
