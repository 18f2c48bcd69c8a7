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
expect_status 201 "sign-in, while PostgreSQL's answer to the INSERT of the session is lost → 201"
same 1 "$(calls oidc/token)" "sign-in, while PostgreSQL's answer to the INSERT of the session is lost → one token call at the provider"
get /v1/session
expect_status 200 "sign-in, while PostgreSQL's answer to the INSERT of the session is lost → the session is alive"

step "2. The answer to a log-out of the user's other sessions is lost"
signed_in old ben
elsewhere=$COOKIE
signed_in new ben
alone "$elsewhere"
expect_status 200 "session on ben's old device, before the new device logs out all others → alive, and in the broker's cache"
lose "s.subject = \$1 AND s.token <> \$2 AND"
request DELETE "/v1/sessions?except=current"
was_lost
expect_status 204 "device logs out all others while PostgreSQL's answer is lost → 204"
alone "$elsewhere"
same "401 logged_out_elsewhere" "$STATUS $(json .reason)" "device logs out all others while PostgreSQL's answer is lost → the other device's session is refused at once"
get /v1/session
expect_status 200 "device logs out all others while PostgreSQL's answer is lost → this device's own session is alive"

step "3. The answer to the write of a provider's logout token is lost"
signed_in third cyd sid-1
alone "$COOKIE"
expect_status 200 "session before the provider sends a logout token for the session → alive, and in the broker's cache"
lose "INSERT INTO logout_tokens"
sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"ios-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",\"user\":\"cyd\",\"sid\":\"sid-1\"}"
was_lost
same 200 "$(json .status "$work/control")" "logout token, while PostgreSQL's answer to the INSERT of the token is lost → accepted"
alone "$COOKIE"
same "401 provider_logout" "$STATUS $(json .reason)" "logout token, while PostgreSQL's answer to the INSERT of the token is lost → the session is refused at once"

finish
