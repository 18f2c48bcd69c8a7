#!/usr/bin/env bash
# Guarantee 4: an answer is durable. The broker is killed with SIGKILL right after it answered a sign-in with 201, repeatedly.
source "$(dirname "$0")/../support/lib.bash"
start_stack
rounds=${ROUNDS:-20}

step "1. Sign in, kill -9 right after the 201, start again: $rounds times"
for n in $(seq "$rounds"); do
    device "phone-$n"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" ana
    login_cookie=$(cookie coatcheck-login)
    # One process sends the forward and kills the broker, as soon as the head of the answer has arrived.
    python3 - "$BROKER_PORT" "$broker_pid" "$login_cookie" "$CALLBACK" >"$work/killed.$n" <<'PY'
import http.client, json, os, re, signal, sys
port, pid, login, callback = sys.argv[1:]
connection = http.client.HTTPConnection("127.0.0.1", int(port), timeout=30)
connection.request("POST", "/v1/sessions", json.dumps({"callback_url": callback}),
                   {"Content-Type": "application/json", "Cookie": "coatcheck-login=" + login})
answer = connection.getresponse()
os.kill(int(pid), signal.SIGKILL)
cookies = answer.headers.get_all("Set-Cookie") or []
found = [m.group(1) for m in (re.match(r"coatcheck=([^;]+)", c) for c in cookies) if m]
print(answer.status, found[0] if found else "-")
PY
    wait "$broker_pid" 2>/dev/null
    start_broker
done
same "$rounds" "$(cat "$work"/killed.* | grep -c '^201 ')" "$rounds sign-ins, each followed by kill -9 → each gets 201"

step "2. Every session still exists"
alive=0
for n in $(seq "$rounds"); do
    JAR= request GET /v1/session -b "coatcheck=$(cut -d' ' -f2 "$work/killed.$n")"
    [ "$STATUS" = 200 ] && alive=$((alive + 1))
done
same "$rounds" "$alive" "$rounds sign-ins, each followed by kill -9 → all sessions are alive"

step "3. An ended session stays ended after kill -9"
victim=$(cut -d' ' -f2 "$work/killed.1")
JAR= request DELETE /v1/session -b "coatcheck=$victim"
kill_broker KILL
expect_status 204 "log-out right before kill -9 → 204"
start_broker
JAR= request GET /v1/session -b "coatcheck=$victim"
same "401 session_ended logged_out" "$STATUS $(json .code) $(json .reason)" "log-out, then kill -9 and a start → the session gets 401 session_ended, logged_out"

finish
