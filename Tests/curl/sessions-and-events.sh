#!/usr/bin/env bash
# The user's devices, ending them, and the event stream.
source "$(dirname "$0")/lib.bash"
start_stack

# listen COOKIE NAME: collects a session's events in the background
listen() { curl -s -N -m 30 -b "coatcheck=$1" "$BROKER/v1/session/events" >"$work/$2.events" & pids+=($!); wait_for 5 grep -q '^event: session$' "$work/$2.events"; }

step "1. Three devices of ana, one of ben"
for name in phone tablet laptop; do
    device "$name"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" ana
    forward "$CALLBACK" "\"device\":\"Ana's $name\""
    eval "${name}_cookie=$(cookie coatcheck) ${name}_handle=$(json .handle)"
done
device ben
sign_in oidc ios ben
ben_cookie=$(cookie coatcheck)
ben_handle=$(json .handle)

step "2. The list"
device phone
get /v1/sessions
expect_status 200
same 3 "$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["items"]))' "$work/body")" "ana's three, not ben's"
same "[\"Ana's laptop\", \"Ana's phone\", \"Ana's tablet\"]" "$(python3 -c 'import json, sys; print(json.dumps(sorted(i["device"] for i in json.load(open(sys.argv[1]))["items"])))' "$work/body")" "with their devices"
same "$phone_handle" "$(python3 -c 'import json, sys; print(*[i["handle"] for i in json.load(open(sys.argv[1]))["items"] if i["current"]])' "$work/body")" "the current one is marked"
expect_json .next_cursor null
get '/v1/sessions?cursor=tampered'
expect_problem 400 invalid_request "a made-up cursor (SEC-98)"
get '/v1/sessions?colour=red'
expect_problem 400 invalid_request "an unknown parameter"

step "3. Events: the session first"
listen "$tablet_cookie" tablet
same 0 $? "the first event is the session"
matches "$tablet_handle" "$(cat "$work/tablet.events")" "with its object"
listen "$laptop_cookie" laptop

step "4. Ending one of one's own"
request DELETE "/v1/sessions/$ben_handle"
expect_problem 404 not_found "another user's handle"
request DELETE /v1/sessions/ses_short
expect_problem 404 not_found "a malformed handle"
request DELETE "/v1/sessions/$tablet_handle"
expect_status 204
JAR= request GET /v1/session -b "coatcheck=$tablet_cookie"
same "401 logged_out_elsewhere" "$STATUS $(json .reason)" "the tablet is out at once"
wait_for 5 grep -q '^event: session_ended' "$work/tablet.events"
same 0 $? "its stream says so"
matches '"reason":"logged_out_elsewhere"' "$(cat "$work/tablet.events")" "with the reason"

step "5. Ending all others"
request DELETE /v1/sessions
expect_problem 400 invalid_request "a bare DELETE"
request DELETE '/v1/sessions?except=current'
expect_status 204
JAR= request GET /v1/session -b "coatcheck=$laptop_cookie"
same "401 logged_out_elsewhere" "$STATUS $(json .reason)" "the laptop is out"
wait_for 5 grep -q '^event: session_ended' "$work/laptop.events"
same 0 $? "its stream says so"
get /v1/session
expect_status 200 "the phone stays"
JAR= request GET /v1/session -b "coatcheck=$ben_cookie"
expect_status 200 "ben stays"

step "6. A refresh is an event"
listen "$phone_cookie" phone
request POST /v1/session/refresh
wait_for 5 grep -q '^event: tokens_refreshed' "$work/phone.events"
same 0 $? "tokens_refreshed"

step "7. Revocation and end_session in the background (SEC-63): the provider was down, the broker died, it is tried again"
wait_for 10 eval '[ "$(calls oidc/end_session)" -ge 2 ]'
same "4 2" "$(calls oidc/revoke) $(calls oidc/end_session)" "tablet and laptop: tokens revoked, sessions ended"
fault oidc '{"fault":"status","status":503,"endpoint":"revoke","times":1}'
sandbox DELETE /requests
request DELETE /v1/session
expect_status 204 "204 whatever the provider says"
wait_for 10 eval '[ "$(calls oidc/revoke)" -ge 1 ]'
same 0 "$(calls oidc/end_session)" "revocation comes first"
device kiosk
sign_in oidc ios cleo
fault oidc '{"fault":"drop-before","endpoint":"end_session","times":1}'
request DELETE /v1/session
expect_status 204 "204 for cleo too"
wait_for 10 eval '[ "$(calls oidc/end_session)" -ge 1 ]'
same 0 $? "cleo's end_session got no answer"
kill_broker KILL
start_broker
# ana: refused, then refresh and access token. cleo: both twice.
wait_for 90 eval '[ "$(calls oidc/end_session)" -ge 3 ]'
same "7 3" "$(calls oidc/revoke) $(calls oidc/end_session)" "both done by a later try"
sandbox GET '/tokens?provider=oidc'
same 0 "$(jq '[.[] | select(.live and (.user == "ana" or .user == "cleo"))] | length' "$work/control")" "no token of theirs lives"

step "8. Operators: listing, ending, permissions (SEC-97)"
JAR=
request GET "$MANAGEMENT/admin/v1/sessions"
expect_problem 401 backend_unauthorized "without a token"
request GET "$MANAGEMENT/admin/v1/sessions" -b "coatcheck=$ben_cookie"
expect_problem 401 backend_unauthorized "a session cookie is no admin token (SEC-96)"
reader=(-H 'Authorization: Bearer admin-reader-7f3d2a9c51')
ender=(-H 'Authorization: Bearer admin-ender-b81c64e2f0')
request GET "$MANAGEMENT/admin/v1/sessions?provider=oidc&subject=user-ben" "${reader[@]}"
expect_status 200
expect_json .items[0].handle "$ben_handle"
request DELETE "$MANAGEMENT/admin/v1/sessions/$ben_handle" "${reader[@]}"
expect_problem 403 backend_not_allowed "a reader ends nothing"
request DELETE "$MANAGEMENT/admin/v1/subjects/oidc/user-ben/sessions" "${ender[@]}"
expect_status 200
expect_json .ended 1
request GET /v1/session -b "coatcheck=$ben_cookie"
same "401 admin" "$STATUS $(json .reason)" "ben was ended by an operator"
request GET "$MANAGEMENT/admin/v1/providers" "${reader[@]}"
expect_status 200

finish
