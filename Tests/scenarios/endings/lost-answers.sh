#!/usr/bin/env bash
# PostgreSQL commits a transaction, but its answer to the broker is lost. The app still gets the right answer, and logged-out
# sessions stay ended (guarantee 6).
source "$(dirname "$0")/../support/lib.bash"
start_sandbox
start_postgresql
server=${POSTGRESQL##*127.0.0.1:}
CUTTER_PORT=$(free_port)
python3 "$here/answer_cutter.py" "$CUTTER_PORT" "${server%%/*}" "$work/marker" >"$work/cutter.log" 2>&1 &
pids+=($!)
wait_for 60 grep -q listening "$work/cutter.log"
sed -e "s|url: sqlite:.*|url: ${POSTGRESQL/${server%%/*}/$CUTTER_PORT}|" "$here/coatcheck.yaml" >"$work/template.yaml"
start_stack "$work/template.yaml"

# lose STATEMENT: PostgreSQL's answer to the next statement that contains this text is lost
lose() { rm -f "$work/marker.cut" && printf %s "$1" >"$work/marker"; }
was_lost() { wait_for 10 test -e "$work/marker.cut"; same 0 $? "the proxy cuts PostgreSQL's answer to the statement of this step → the answer is lost"; }
# alone COOKIE: reads a session with only the cookie
alone() { JAR= get /v1/session -b "coatcheck=$1"; }
# signed_in DEVICE USER [SID]: makes a session; COOKIE is its cookie
signed_in() {
    device "$1"
    start_login oidc ios
    forward "$(location "$AUTHORIZATION_URL&sandbox_user=$2${3:+&sandbox_sid=$3}")"
    COOKIE=$(cookie coatcheck)
}

# A connection sends a statement's text only at the statement's first use, so only the answer to the first use can be lost.
step "1. The answer to the write that completes a sign-in is lost"
lose "INSERT INTO sessions"
signed_in phone ana
was_lost
expect_status 201 "sign-in, the answer to the session's INSERT is lost → 201"
same 1 "$(calls oidc/token)" "sign-in, the answer to the session's INSERT is lost → one token call"
get /v1/session
expect_status 200 "sign-in, the answer to the session's INSERT is lost → the session is alive"

step "2. The answer to a log-out of the user's other sessions is lost"
signed_in old ben
elsewhere=$COOKIE
signed_in new ben
alone "$elsewhere"
expect_status 200 "session on another device before the log-out elsewhere → alive, and in the broker's cache"
lose "s.subject = \$1 AND s.token <> \$2 AND"
request DELETE "/v1/sessions?except=current"
was_lost
expect_status 204 "PostgreSQL's answer to a log-out elsewhere is lost → 204"
alone "$elsewhere"
same "401 logged_out_elsewhere" "$STATUS $(json .reason)" "PostgreSQL's answer to a log-out elsewhere is lost → the other device's session is refused at once"
get /v1/session
expect_status 200 "PostgreSQL's answer to a log-out elsewhere is lost → the session of the device that sent it is alive"

step "3. The answer to the write of a provider's logout token is lost"
signed_in third cyd sid-1
alone "$COOKIE"
expect_status 200 "session before the logout token → alive, and in the broker's cache"
lose "INSERT INTO logout_tokens"
sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"ios-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",\"user\":\"cyd\",\"sid\":\"sid-1\"}"
was_lost
same 200 "$(json .status "$work/control")" "logout token, the answer to its INSERT is lost → accepted"
alone "$COOKIE"
same "401 provider_logout" "$STATUS $(json .reason)" "logout token, the answer to its INSERT is lost → the session is refused at once"

finish
