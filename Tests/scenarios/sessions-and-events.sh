#!/usr/bin/env bash
# The user's devices, ending them, and the event stream.
source "$(dirname "$0")/support/lib.bash"
start_stack

# listen COOKIE NAME: collects a session's events in the background
listen() { curl -s -N -m 120 -b "coatcheck=$1" "$BROKER/v1/session/events" >"$work/$2.events" & pids+=($!); wait_for 20 grep -q '^event: session$' "$work/$2.events"; }

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
wait_for 20 grep -q '^event: session_ended' "$work/tablet.events"
same 0 $? "its stream says so"
matches '"reason":"logged_out_elsewhere"' "$(cat "$work/tablet.events")" "with the reason"

step "5. Ending all others"
request DELETE /v1/sessions
expect_problem 400 invalid_request "a bare DELETE"
request DELETE '/v1/sessions?except=current'
expect_status 204
JAR= request GET /v1/session -b "coatcheck=$laptop_cookie"
same "401 logged_out_elsewhere" "$STATUS $(json .reason)" "the laptop is out"
wait_for 20 grep -q '^event: session_ended' "$work/laptop.events"
same 0 $? "its stream says so"
get /v1/session
expect_status 200 "the phone stays"
JAR= request GET /v1/session -b "coatcheck=$ben_cookie"
expect_status 200 "ben stays"

step "6. A refresh is an event"
listen "$phone_cookie" phone
request POST /v1/session/refresh
wait_for 20 grep -q '^event: tokens_refreshed' "$work/phone.events"
same 0 $? "tokens_refreshed"
JAR= request GET "$MANAGEMENT/metrics"
matches 'coatcheck_refreshes_total\{provider="oidc",client="ios",result="refreshed",reason="-"\} 1' "$(body)" "refreshes by result"

step "7. Revocation and end_session in the background (SEC-63): the provider was down, the broker died, it is tried again"
# pending COUNT: so many revocations wait
pending() { [ "$(curl -s "$MANAGEMENT/metrics" | sed -n 's/^coatcheck_revocations_pending //p')" = "$1" ]; }
wait_for 10 eval '[ "$(calls oidc/end_session)" -ge 2 ]'
same "4 2" "$(calls oidc/revoke) $(calls oidc/end_session)" "tablet and laptop: tokens revoked, sessions ended"
wait_for 10 pending 0
same 0 $? "nothing waits"
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
pending 2
same 0 $? "after the kill both still wait"
# ana: the refresh token is refused, the access token is still sent, then both again. cleo: both twice.
wait_for 90 eval '[ "$(calls oidc/end_session)" -ge 3 ]'
same "8 3" "$(calls oidc/revoke) $(calls oidc/end_session)" "both done by a later try"
sandbox GET '/tokens?provider=oidc'
same 0 "$(jq '[.[] | select(.live and (.user == "ana" or .user == "cleo"))] | length' "$work/control")" "no token of theirs lives"
wait_for 10 pending 0
same 0 $? "nothing waits"

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

step "9. What an operator does is on record first, or it is not done (SEC-99)"
database() { python3 -c 'import sqlite3, sys
for row in sqlite3.connect(sys.argv[1], isolation_level=None).execute(sys.argv[2]): print(*row)' "$work/data/coatcheck.db" "$1"; }
same "ender end_sessions 1" "$(database "SELECT actor, action, count(*) FROM audit WHERE action = 'end_sessions' AND target LIKE 'oidc/subject:%'")" "by subject, under a pseudonym"
device eva
sign_in oidc ios eva
eva_handle=$(json .handle)
database "CREATE TRIGGER no_audit BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END"
request DELETE "$MANAGEMENT/admin/v1/sessions/$eva_handle" "${ender[@]}"
expect_problem 503 store_unavailable "the record cannot be written"
get /v1/session
expect_status 200 "and the session lives"
database "DROP TRIGGER no_audit"
request DELETE "$MANAGEMENT/admin/v1/sessions/$eva_handle" "${ender[@]}"
expect_status 204 "now it can"
same "ender end_session $eva_handle" "$(database "SELECT actor, action, target FROM audit WHERE action = 'end_session'")" "who, what, whose: once"
get /v1/session
same "401 admin" "$STATUS $(json .reason)" "and she is out"
JAR=

step "10. Operators: why was I logged out?"
request GET "$MANAGEMENT/admin/v1/sessions?provider=oidc&subject=user-ben&state=ended" "${reader[@]}"
expect_status 200
same "$ben_handle admin" "$(json .items[0].handle) $(json .items[0].reason)" "ben, by an operator"
matches '^20[0-9-]+T[0-9:]+Z$' "$(json .items[0].ended_at)" "and when"
request GET "$MANAGEMENT/admin/v1/sessions?provider=oidc&subject=user-ana&state=ended" "${reader[@]}"
same '["logged_out","logged_out_elsewhere","logged_out_elsewhere"]' "$(jq -c '[.items[].reason]' "$work/body")" "ana, newest ending first"
request GET "$MANAGEMENT/admin/v1/sessions?provider=oidc&subject=user-ben" "${reader[@]}"
same '[]' "$(json .items)" "without asking, the live ones only"
request GET "$MANAGEMENT/admin/v1/sessions?state=gone" "${reader[@]}"
expect_problem 400 invalid_request "another state"
printf 'admin-reader-7f3d2a9c51\n' >"$work/admin-token"
"$COATCHECK" sessions list --management "$MANAGEMENT" --token-file "$work/admin-token" --ended --provider oidc --subject user-ben >"$work/list"
same "HANDLE PROVIDER CLIENT REASON SUBJECT KEY KIND PARENT $ben_handle oidc ios admin user-ben - - -" "$(cut -f1-3,5-9 "$work/list" | tr '\t\n' '  ' | sed 's/ $//')" "coatcheck sessions list --ended, with the columns' names"
COATCHECK_TOKEN_FILE="$work/admin-token" "$COATCHECK" sessions list --config "$work/coatcheck.yaml" --no-header --ended --provider oidc --subject user-ben >"$work/list"
same "$ben_handle" "$(cut -f1 "$work/list")" "the same by --config and COATCHECK_TOKEN_FILE, without the names"
"$COATCHECK" sessions list --config "$work/coatcheck.yaml" 2>"$work/refusal" >/dev/null && not_ok "no token is refused" || matches 'token-file' "$(cat "$work/refusal")" "no token is refused, and how to give one is said"
for shell in bash zsh fish; do
    "$COATCHECK" --generate-completion-script "$shell" >"$work/completion.$shell" && [ -s "$work/completion.$shell" ]
    same 0 $? "completions for $shell"
done
bash -n "$work/completion.bash"
same 0 $? "bash takes its own"

request GET "$MANAGEMENT/metrics"
matches 'coatcheck_revocations_pending [0-9]+' "$(body)" "how many revocations wait"
matches 'coatcheck_sessions_ended_total\{reason="admin"\} 2' "$(body)" "endings by reason"

step "11. Operators: a whole client's, by the command line"
printf 'admin-ender-b81c64e2f0\n' >"$work/admin-token"
device gil
sign_in oidc ios gil
end_sessions() { "$COATCHECK" sessions end --management "$MANAGEMENT" --token-file "$work/admin-token" --provider oidc "$@"; }
end_sessions --client ios >"$work/list" 2>&1
same 64 $? "not without --all"
get /v1/session
expect_status 200 "nobody is out"
same "ended 1" "$(end_sessions --client ios --all)" "with it"
get /v1/session
same "401 admin" "$STATUS $(json .reason)" "she is"

step "12. A thousand idle listeners, and none of them holds up a shutdown"
# Eight streams for each of 125 sessions; a ninth would end the session's first.
python3 - "$BROKER" "$BROKER_PORT" <<'PYTHON' >"$work/listeners" &
import http.client, json, resource, socket, sys, urllib.parse
broker, port = urllib.parse.urlsplit(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_NOFILE, (4096, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
def call(origin, method, path, body=None, cookie=None):
    connection = http.client.HTTPConnection(origin, timeout=20)
    fields = {"Content-Type": "application/json"} if body else {}
    connection.request(method, path, json.dumps(body) if body else None, fields | ({"Cookie": cookie} if cookie else {}))
    answer = connection.getresponse()
    return answer, answer.read()
def sign_in(user):
    answer, text = call(broker.netloc, "POST", "/v1/logins", {"provider": "oidc", "client": "ios"})
    url = urllib.parse.urlsplit(json.loads(text)["authorization_url"])
    found, _ = call(url.netloc, "GET", f"{url.path}?{url.query}&sandbox_user={user}")
    answer, _ = call(broker.netloc, "POST", "/v1/sessions", {"callback_url": found.getheader("Location")}, answer.getheader("Set-Cookie").split(";")[0])
    return next(part for name, value in answer.getheaders() if name == "Set-Cookie" and value.startswith("coatcheck=") for part in value.split(";")[:1])
cookies = [sign_in(f"listener-{number}") for number in range(125)]
streams = [socket.create_connection(("127.0.0.1", port), 20) for _ in range(1000)]
for number, stream in enumerate(streams):
    stream.sendall(f"GET /v1/session/events HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: {cookies[number % 125]}\r\n\r\n".encode())
def read(stream, mark):
    text = b""
    while mark not in text:
        part = stream.recv(4096)
        if not part: return text
        text += part
    return text
print(sum(b"event: session\n" in read(stream, b"event: session\n") for stream in streams), flush=True)
print(sum(read(stream, b"0\r\n\r\n").endswith(b"0\r\n\r\n") for stream in streams), flush=True)
PYTHON
listeners=$!
wait_for 90 grep -q . "$work/listeners"
same 1000 "$(head -1 "$work/listeners")" "all of them are told of the session"
begin=$SECONDS
kill_broker TERM
took=$((SECONDS - begin))
# If the streams delayed the stop, it would take the whole shutdown_timeout, half a minute.
[ "$took" -le 12 ]; same 0 $? "the broker stops at once ($took s, at most 12)"
wait "$listeners"
same 1000 "$(sed -n 2p "$work/listeners")" "and every stream ends in order"

finish
