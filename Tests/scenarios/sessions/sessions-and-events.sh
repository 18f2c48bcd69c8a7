#!/usr/bin/env bash
# The list of a user's sessions, ways to end them, event streams, revocations in the background, and the operators' commands.
source "$(dirname "$0")/../support/lib.bash"
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

step "2. The list of the user's sessions"
device phone
get /v1/sessions
expect_status 200 "list of ana's sessions → 200"
same 3 "$(python3 -c 'import json, sys; print(len(json.load(open(sys.argv[1]))["items"]))' "$work/body")" "ana's list → has her three sessions, but not ben's"
same "[\"Ana's laptop\", \"Ana's phone\", \"Ana's tablet\"]" "$(python3 -c 'import json, sys; print(json.dumps(sorted(i["device"] for i in json.load(open(sys.argv[1]))["items"])))' "$work/body")" "ana's list → has the devices' names"
same "$phone_handle" "$(python3 -c 'import json, sys; print(*[i["handle"] for i in json.load(open(sys.argv[1]))["items"] if i["current"]])' "$work/body")" "ana's list → marks the current session"
expect_json .next_cursor null "ana's list → has no next page"
get '/v1/sessions?cursor=tampered'
expect_problem 400 invalid_request "list of sessions with an invented cursor (SEC-98)"
get '/v1/sessions?colour=red'
expect_problem 400 invalid_request "list of sessions with an unknown parameter"

step "3. An event stream begins with the session"
listen "$tablet_cookie" tablet
same 0 $? "new event stream → the first event is the session"
matches "$tablet_handle" "$(cat "$work/tablet.events")" "new event stream → its first event has the session's handle"
listen "$laptop_cookie" laptop

step "4. A user ends one of her own sessions"
request DELETE "/v1/sessions/$ben_handle"
expect_problem 404 not_found "ana ends ben's session by its handle"
request DELETE /v1/sessions/ses_short
expect_problem 404 not_found "ana ends a session by a malformed handle"
request DELETE "/v1/sessions/$tablet_handle"
expect_status 204 "ana ends her tablet's session by the session's handle → 204"
JAR= request GET /v1/session -b "coatcheck=$tablet_cookie"
same "401 logged_out_elsewhere" "$STATUS $(json .reason)" "ana has ended her tablet's session from the phone → the tablet gets 401 at once"
wait_for 20 grep -q '^event: session_ended' "$work/tablet.events"
same 0 $? "ana has ended her tablet's session from the phone → the tablet's event stream gets an event"
matches '"reason":"logged_out_elsewhere"' "$(cat "$work/tablet.events")" "ana has ended her tablet's session from the phone → the event has the reason logged_out_elsewhere"

step "5. A user ends all her other sessions"
request DELETE /v1/sessions
expect_problem 400 invalid_request "DELETE of all sessions without except=current"
request DELETE '/v1/sessions?except=current'
expect_status 204 "ana ends all her other sessions → 204"
JAR= request GET /v1/session -b "coatcheck=$laptop_cookie"
same "401 logged_out_elsewhere" "$STATUS $(json .reason)" "ana ended all her other sessions on the phone → the laptop gets 401"
wait_for 20 grep -q '^event: session_ended' "$work/laptop.events"
same 0 $? "ana ended all her other sessions on the phone → the laptop's stream gets an event"
get /v1/session
expect_status 200 "ana ended all her other sessions on the phone → the phone's session is alive"
JAR= request GET /v1/session -b "coatcheck=$ben_cookie"
expect_status 200 "ana ended all her other sessions on the phone → ben's session is alive"

step "6. A refresh sends an event"
listen "$phone_cookie" phone
request POST /v1/session/refresh
wait_for 20 grep -q '^event: tokens_refreshed' "$work/phone.events"
same 0 $? "refresh of a session → the session's event stream gets tokens_refreshed"
JAR= request GET "$MANAGEMENT/metrics"
matches 'coatcheck_refreshes_total\{provider="oidc",client="ios",result="refreshed",reason="-"\} 1' "$(body)" "one refresh → the metric counts one with the result refreshed"

step "7. Revocations and end_session calls (SEC-63) are retried after the provider's outage and after kill -9"
# pending COUNT: returns whether the metric shows this number of pending revocations
pending() { [ "$(curl -s "$MANAGEMENT/metrics" | sed -n 's/^coatcheck_revocations_pending //p')" = "$1" ]; }
wait_for 10 eval '[ "$(calls oidc/end_session)" -ge 2 ]'
same "4 2" "$(calls oidc/revoke) $(calls oidc/end_session)" "tablet's and laptop's sessions have ended → the broker revokes their tokens and calls end_session for both"
wait_for 10 pending 0
same 0 $? "two sessions ended, and their provider calls succeeded → no revocation is pending"
fault oidc '{"fault":"status","status":503,"endpoint":"revoke","times":1}'
sandbox DELETE /requests
request DELETE /v1/session
expect_status 204 "log-out while the revocation fails → 204"
wait_for 10 eval '[ "$(calls oidc/revoke)" -ge 1 ]'
same 0 "$(calls oidc/end_session)" "log-out while the revocation fails → end_session is not called yet"
device kiosk
sign_in oidc ios cleo
fault oidc '{"fault":"drop-before","endpoint":"end_session","times":1}'
request DELETE /v1/session
expect_status 204 "log-out while end_session fails → 204"
wait_for 10 eval '[ "$(calls oidc/end_session)" -ge 1 ]'
same 0 $? "cleo's log-out, and the provider drops the connection of end_session → end_session was called"
kill_broker KILL
start_broker
pending 2
same 0 $? "broker is killed and restarted after two log-outs with failed provider calls → both revocations are pending"
# The number of revoke calls: for ana, refresh token (answered 503) and access token, and later both again; for cleo, both twice.
wait_for 90 eval '[ "$(calls oidc/end_session)" -ge 3 ]'
same "8 3" "$(calls oidc/revoke) $(calls oidc/end_session)" "broker retries two log-outs' provider calls after an outage and kill -9 → all calls are completed"
sandbox GET '/tokens?provider=oidc'
same 0 "$(jq '[.[] | select(.live and (.user == "ana" or .user == "cleo"))] | length' "$work/control")" "broker retries two log-outs' provider calls after an outage and kill -9 → ana and cleo have no live token"
wait_for 10 pending 0
same 0 $? "broker retries two log-outs' provider calls after an outage and kill -9 → no revocation is pending"

step "8. Operators: listing, ending, permissions (SEC-97)"
JAR=
request GET "$MANAGEMENT/admin/v1/sessions"
expect_problem 401 backend_unauthorized "operator lists sessions without an admin token"
request GET "$MANAGEMENT/admin/v1/sessions" -b "coatcheck=$ben_cookie"
expect_problem 401 backend_unauthorized "operators' list of sessions with a session cookie instead of an admin token (SEC-96)"
reader=(-H 'Authorization: Bearer admin-reader-7f3d2a9c51')
ender=(-H 'Authorization: Bearer admin-ender-b81c64e2f0')
request GET "$MANAGEMENT/admin/v1/sessions?provider=oidc&subject=user-ben" "${reader[@]}"
expect_status 200 "operator lists ben's sessions → 200"
expect_json .items[0].handle "$ben_handle" "operator lists ben's sessions → has the handle of ben's session"
request DELETE "$MANAGEMENT/admin/v1/sessions/$ben_handle" "${reader[@]}"
expect_problem 403 backend_not_allowed "operator ends a session with an admin token that may only read"
request DELETE "$MANAGEMENT/admin/v1/subjects/oidc/user-ben/sessions" "${ender[@]}"
expect_status 200 "operator ends ben's sessions by subject → 200"
expect_json .ended 1 "operator ends ben's sessions by subject → one session has ended"
request GET /v1/session -b "coatcheck=$ben_cookie"
same "401 admin" "$STATUS $(json .reason)" "operator has ended ben's sessions by subject → ben's session has the reason admin"
request GET "$MANAGEMENT/admin/v1/providers" "${reader[@]}"
expect_status 200 "operator lists the providers → 200"

step "9. An operator's action needs its audit record (SEC-99)"
database() { python3 -c 'import sqlite3, sys
for row in sqlite3.connect(sys.argv[1], isolation_level=None).execute(sys.argv[2]): print(*row)' "$work/data/coatcheck.db" "$1"; }
same "ender end_sessions 1" "$(database "SELECT actor, action, count(*) FROM audit WHERE action = 'end_sessions' AND target LIKE 'oidc/subject:%'")" "operator ended ben's sessions by subject → one audit row, with a pseudonym"
device eva
sign_in oidc ios eva
eva_handle=$(json .handle)
database "CREATE TRIGGER no_audit BEFORE INSERT ON audit BEGIN SELECT RAISE(ABORT, 'no'); END"
request DELETE "$MANAGEMENT/admin/v1/sessions/$eva_handle" "${ender[@]}"
expect_problem 503 store_unavailable "operator ends a session while the audit record cannot be written"
get /v1/session
expect_status 200 "operator ends a session while the audit record cannot be written → the session is alive"
database "DROP TRIGGER no_audit"
request DELETE "$MANAGEMENT/admin/v1/sessions/$eva_handle" "${ender[@]}"
expect_status 204 "operator ends the session when the audit record can be written again → 204"
same "ender end_session $eva_handle" "$(database "SELECT actor, action, target FROM audit WHERE action = 'end_session'")" "operator ended a session → one audit row with the session's handle"
get /v1/session
same "401 admin" "$STATUS $(json .reason)" "operator ended eva's session → eva gets the reason admin"
JAR=

step "10. Operators see why a session has ended"
request GET "$MANAGEMENT/admin/v1/sessions?provider=oidc&subject=user-ben&state=ended" "${reader[@]}"
expect_status 200 "operator lists ben's ended sessions → 200"
same "$ben_handle admin" "$(json .items[0].handle) $(json .items[0].reason)" "operator lists ben's ended sessions → the reason is admin"
matches '^20[0-9-]+T[0-9:]+Z$' "$(json .items[0].ended_at)" "operator lists ben's ended sessions → the list has the time of the end"
request GET "$MANAGEMENT/admin/v1/sessions?provider=oidc&subject=user-ana&state=ended" "${reader[@]}"
same '["logged_out","logged_out_elsewhere","logged_out_elsewhere"]' "$(jq -c '[.items[].reason]' "$work/body")" "operator lists ana's ended sessions → the list has the reasons, newest first"
request GET "$MANAGEMENT/admin/v1/sessions?provider=oidc&subject=user-ben" "${reader[@]}"
same '[]' "$(json .items)" "operators' list of sessions without a state in the query → has only live sessions"
request GET "$MANAGEMENT/admin/v1/sessions?state=gone" "${reader[@]}"
expect_problem 400 invalid_request "operators' list of sessions with an unknown state in the query"
printf 'admin-reader-7f3d2a9c51\n' >"$work/admin-token"
"$COATCHECK" sessions list --management "$MANAGEMENT" --token-file "$work/admin-token" --ended --provider oidc --subject user-ben >"$work/list"
same "HANDLE PROVIDER CLIENT REASON SUBJECT KEY KIND PARENT $ben_handle oidc ios admin user-ben - - -" "$(cut -f1-3,5-9 "$work/list" | tr '\t\n' '  ' | sed 's/ $//')" "coatcheck sessions list --ended → the row comes after the column names"
COATCHECK_TOKEN_FILE="$work/admin-token" "$COATCHECK" sessions list --config "$work/coatcheck.yaml" --no-header --ended --provider oidc --subject user-ben >"$work/list"
same "$ben_handle" "$(cut -f1 "$work/list")" "coatcheck sessions list with --config, COATCHECK_TOKEN_FILE and --no-header → prints only the row"
"$COATCHECK" sessions list --config "$work/coatcheck.yaml" 2>"$work/refusal" >/dev/null && not_ok "sessions list without a token → refused" || matches 'token-file' "$(cat "$work/refusal")" "sessions list without a token → refused, and the message names token-file"
for shell in bash zsh fish; do
    "$COATCHECK" --generate-completion-script "$shell" >"$work/completion.$shell" && [ -s "$work/completion.$shell" ]
    same 0 $? "completion script for $shell → not empty"
done
bash -n "$work/completion.bash"
same 0 $? "completion script for bash → valid bash"

request GET "$MANAGEMENT/metrics"
matches 'coatcheck_revocations_pending [0-9]+' "$(body)" "metrics of the broker → have the number of pending revocations"
matches 'coatcheck_sessions_ended_total\{reason="admin"\} 2' "$(body)" "two sessions ended by operators → the metric counts two endings with the reason admin"

step "11. Operators end all sessions of a client on the command line"
printf 'admin-ender-b81c64e2f0\n' >"$work/admin-token"
device gil
sign_in oidc ios gil
end_sessions() { "$COATCHECK" sessions end --management "$MANAGEMENT" --token-file "$work/admin-token" --provider oidc "$@"; }
end_sessions --client ios >"$work/list" 2>&1
same 64 $? "sessions end for a client without --all → usage error"
get /v1/session
expect_status 200 "sessions end without --all → the session is alive"
same "ended 1" "$(end_sessions --client ios --all)" "sessions end with --all → one session ended"
get /v1/session
same "401 admin" "$STATUS $(json .reason)" "sessions end with --all → gil gets the reason admin"

step "12. A thousand idle event streams do not delay a shutdown"
# Eight streams for each of 125 sessions. A ninth stream would end the first one of its session.
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
same 1000 "$(head -1 "$work/listeners")" "a thousand event streams are opened → each gets the event session"
begin=$SECONDS
kill_broker TERM
took=$((SECONDS - begin))
# If the streams delayed the stop, it would take the whole shutdown_timeout of half a minute.
[ "$took" -le 12 ]; same 0 $? "TERM to a broker with a thousand event streams → it stops in $took s, at most 12"
wait "$listeners"
same 1000 "$(sed -n 2p "$work/listeners")" "TERM to a broker with a thousand event streams → each stream ends with its last chunk"

finish
