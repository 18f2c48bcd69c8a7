#!/usr/bin/env bash
# The configuration under traffic: applied changes, changes that HUP refuses as a whole, and the sessions that survive both.
source "$(dirname "$0")/support/lib.bash"
printf 'wq8ZrT5nLk2YvB7x:c/d+e&f\n' >"$work/web-secret"
chmod 600 "$work/web-secret"
# A secret in its own file, and a provider without references, so that it may leave.
sed -e 's|client_secret: "wq8ZrT5nLk2YvB7x:c/d+e&f"|client_secret: {file: @WORK@/web-secret}|' "$here/coatcheck.yaml" >"$work/template.yaml"
start_stack "$work/template.yaml"
file="$work/coatcheck.yaml"
cp "$file" "$work/first.yaml"
printf 'admin-shaper-93e0b7a21c\n' >"$work/shaper"
printf 'admin-reader-7f3d2a9c51\n' >"$work/reader"
chmod 600 "$work/shaper" "$work/reader"

answers() { grep -cE '"message":"configuration (reloaded|unchanged)"' "$work/broker.log"; }
faults() { grep -cE '"message":"configuration not reloaded"' "$work/broker.log"; }
more_than() { [ "$($1)" -gt "$2" ]; }
# change SED-SCRIPT: another file in the place of this one
change() {
    sed -E "$1" "$work/first.yaml" >"$work/next.yaml"
    chmod 600 "$work/next.yaml"
    mv "$work/next.yaml" "$file"
}
# reload: sends HUP, and waits for its success; refused: the same, for a refusal; REASON is the last one
reload() {
    local before
    before=$(answers)
    kill -HUP "$broker_pid"
    wait_for 20 more_than answers "$before"
    same 0 $? "$1"
}
refused() {
    local before
    before=$(faults)
    kill -HUP "$broker_pid"
    wait_for 20 more_than faults "$before"
    REASON=$(grep '"message":"configuration not reloaded"' "$work/broker.log" | tail -n +$((before + 1)) | jq -r .detail)
    matches "$1" "$REASON" "$2"
}

step "refusals: the whole file, by name, and the running one goes on"
sign_in oidc ios
session=$(cookie coatcheck)
relayed() { get "/v1/relay/narrow/private/thing"; }
change 's|^  hosts: .*|  hosts: [ops.example.org|'
refused 'is not YAML' "half a file"
change 's|log: \{level: trace\}|log: {levle: trace, request: false}|'
refused 'log.levle.*did you mean `level`' "a key that is none"
matches 'log.request' "$REASON" "and the other fault with it"
change 's|web-secret|no-such-secret|'
refused 'client_secret: names a file that cannot be read: .*/no-such-secret does not exist' "a secret that is gone, with its path"
: >"$work/empty" && chmod 600 "$work/empty"
change 's|'"$work"'/web-secret|'"$work"'/empty|'
refused 'names a file that is empty: .*/empty' "an empty one"
for setting in "server.listen|s,  listen: 127.0.0.1:$BROKER_PORT,  listen: 127.0.0.1:$CLOSED_PORT," \
    "management.listen|s,  listen: 127.0.0.1:$MANAGEMENT_PORT,  listen: 127.0.0.1:$CLOSED_PORT," \
    "server.public_url|s,  public_url: .*,  public_url: http://localhost:$BROKER_PORT," \
    "store.url|s,sqlite:.*,sqlite:$work/data/other.db," \
    "keys.file|s,file: .*/keys.json,file: $work/../${work##*/}/keys.json," \
    "session.cookie.name|s,^session:,session:\n  cookie: {name: other},"; do
    # In addition, a change that could be applied.
    change "${setting#*|}; s,body: 8KiB,body: 16KiB,; s|log: \{level: trace\}|log: {level: error}|"
    # The hosted callbacks are at public_url.
    [ "${setting%%|*}" = server.public_url ] && sed -i "s|$BROKER/callback|http://localhost:$BROKER_PORT/callback|" "$file"
    refused "^${setting%%|*}: has changed, which takes a restart" "${setting%%|*}"
done
get /v1/session
expect_status 200 "the session goes on"
cp -p "$work/first.yaml" "$file"
reload "the file as it was"

step "a taken port is named"
sed -e "s|listen: 127.0.0.1:$MANAGEMENT_PORT|listen: 127.0.0.1:$CLOSED_PORT|; s|sqlite:.*|sqlite:$work/data/second.db|" "$work/first.yaml" >"$work/second.yaml"
chmod 600 "$work/second.yaml"
"$COATCHECK" serve --config "$work/second.yaml" >"$work/second.log" 2>&1 &
second=$!
wait_for 20 grep -q "the public listener: 127.0.0.1:$BROKER_PORT is in use by another process" "$work/second.log"
same 0 $? "a second broker says where it waits, and with which listener"
kill "$second"
wait "$second" 2>/dev/null

step "HUP to a broker that starts is kept until it runs"
"$COATCHECK" serve --config "$work/second.yaml" >"$work/second.log" 2>&1 &
second=$!
began=$(date +%s%N)
# heeds: whether the process ignores or catches HUP (bit 0 of its signal masks)
heeds() { awk '/^Sig(Ign|Cgt)/ { print substr($2, length($2)) }' "/proc/$second/status" | grep -q '[13579bdf]'; }
wait_for 10 heeds
same 0 $? "HUP is not deadly from the first lines on"
printf '#   %d ms after the start\n' $((($(date +%s%N) - began) / 1000000))
for _ in 1 2 3 4 5; do kill -HUP "$second"; sleep 0.1; done
wait_for 20 grep -q "is in use by another process" "$work/second.log"
same 0 $? "it waits for its port"
kill -HUP "$second"
kill_broker TERM
wait_for 20 grep -q '"message":"configuration unchanged"' "$work/second.log"
same 0 $? "and reads its file once more when it runs"
kill -TERM "$second"
wait "$second"
same 0 $? "and ends in order"
start_broker

step "files that block"
mkfifo -m 600 "$work/pipe"
change 's|'"$work"'/web-secret|'"$work"'/pipe|'
refused 'client_secret: names a file that cannot be read: .*/pipe is no regular file' "a secret that is a pipe"
mv "$file" "$work/kept.yaml"
mkfifo -m 600 "$file"
refused 'is no regular file' "a configuration that is one"
rm "$file"
cp -p "$work/first.yaml" "$file"
reload "the file as it was"
cc -shared -fPIC -O2 -o "$work/hanging.so" "$here/hanging_file.c" -ldl || give_up "the compiler"
kill_broker TERM
export HANGING_FILE="$work/hung" HANGING_WHILE="$work/hangs"
printf 'wq8ZrT5nLk2YvB7x:c/d+e&f\n' >"$work/hung"
chmod 600 "$work/hung"
LD_PRELOAD="$work/hanging.so" "$COATCHECK" serve --config "$work/coatcheck.yaml" >>"$work/broker.log" 2>&1 &
broker_pid=$!
wait_for 60 curl -sf "$MANAGEMENT/readyz" || give_up "broker"
touch "$work/hangs"
change 's|'"$work"'/web-secret|'"$work"'/hung|'
kill -HUP "$broker_pid"
in_log '"message":"reload still reading"' 1 "a secret on a mount that hangs is said"
cp -p "$work/first.yaml" "$file"
reload "a file that does not name it is taken all the same"
relayed
expect_status 200 "requests are served meanwhile"
change 's|'"$work"'/web-secret|'"$work"'/hung|'
kill -HUP "$broker_pid"
in_log '"message":"reload still reading"' 2 "it hangs once more"
began=$SECONDS
kill -TERM "$broker_pid"
wait "$broker_pid"
same 0 $? "TERM ends the process in order"
same 1 $((SECONDS - began < 15)) "within seconds ($((SECONDS - began)) s)"
rm "$work/hangs"
cp -p "$work/first.yaml" "$file"
start_broker

step "what HUP takes over"
relayed
expect_status 200 "the upstream is called"
change 's|(narrow: .*allow: \[")GET /private/\*|\1GET /public/*|; s|log: \{level: trace\}|log: {level: trace}\nlimits: {body: 4KiB}|; s|  orders: \{sha256: 1fc7|  orders: {sha256: 2fc7|'
reload "upstreams, limits and backends"
relayed
expect_problem 403 upstream_not_allowed "the allow-list is the file's"
JAR= request POST /v1/introspect -H 'Authorization: Bearer orders-credential-4f1d9c' --data-urlencode "token=$session"
same 401 "$STATUS" "so is the backend's credential"
long=$(head -c 5000 /dev/zero | tr '\0' a)
post /v1/logins "{\"provider\":\"oidc\",\"client\":\"ios\",\"scope\":\"$long\"}"
expect_problem 413 too_large "and the largest body"
cp -p "$work/first.yaml" "$file"
reload "back again"
relayed
expect_status 200 "as before"

step "a secret's file is read again"
device web-phone
sign_in oidc web
expect_status 201 "with the first secret"
sandbox PUT /clients/oidc/web-client '{"secret":"Hs0dPq4mJc6t9RfAwq8ZrT5n","auth":"client_secret_basic"}'
device second-phone
sign_in oidc web
same "400 invalid_client" "$STATUS $(json .provider_error)" "the provider takes another one by now"
printf 'Hs0dPq4mJc6t9RfAwq8ZrT5n\n' >"$work/web-secret"
reload "the file of the configuration is the same"
sign_in oidc web
expect_status 201 "with the second secret"
same "" "$(grep -oE 'Hs0dPq4mJc6t9RfAwq8ZrT5n|wq8ZrT5nLk2YvB7x:c' "$work/broker.log")" "the log has neither"

step "a provider and a client that leave end nobody's session"
device other-phone
sign_in oauth2 ios
expect_status 201 "a session of another provider"
other=$(cookie coatcheck)
device third-phone
sign_in oauth2 ios
third=$(cookie coatcheck)
change '/^  oauth2:/,/^  real:/{/^  real:/!d}; s|^      ios: \{client_id: ios-app.*||'
reload "oauth2 and the client oidc/ios are gone"
for name in a-phone other-phone; do
    device "$name"
    get /v1/session
    expect_problem 503 provider_unavailable "$name"
    matches '^[0-9]+$' "$(header Retry-After)" "it may come again"
    same "" "$(header Set-Cookie)" "and its cookie stays"
done
device third-phone
request DELETE /v1/session
expect_status 204 "who wants to log out does"
post /v1/logins '{"provider":"oauth2","client":"ios"}'
expect_problem 404 provider_not_found "nobody signs in there"
cp -p "$work/first.yaml" "$file"
reload "both are back"
for name in a-phone other-phone; do
    device "$name"
    get /v1/session
    expect_status 200 "$name goes on"
done
same "$session $other" "$(device a-phone; cookie coatcheck) $(device other-phone; cookie coatcheck)" "with the cookies they had"
JAR= request GET /v1/session -b "coatcheck=$third"
same "401 logged_out" "$STATUS $(json .reason)" "the log-out stands"

step "what is under way goes on with what it began with"
device a-phone
curl -sN -b "$JAR" "$BROKER/v1/session/events" >"$work/events" &
listener=$!
wait_for 10 grep -q '^event: session' "$work/events"
curl -s -b "$JAR" -o /dev/null -w '%{http_code}' "$BROKER/v1/relay/narrow/private/slow?ms=4000" >"$work/slow-status" &
slow=$!
wait_for 3 shows '^coatcheck_relay_calls_under_way\{upstream="narrow"\} 1$'
same 0 $? "an upstream is being called"
change 's|^  narrow: .*||; s|^  small: .*||'
reload "the upstream leaves while it is called"
wait "$slow"
same 200 "$(cat "$work/slow-status")" "the call ends well"
relayed
expect_problem 404 upstream_not_found "the next one finds it gone"
kill -0 "$listener"
same 0 $? "the event stream stands"
request POST /v1/session/refresh
expect_status 200 "a refresh by the new configuration"
wait_for 10 grep -q '^event: tokens_refreshed' "$work/events"
same 0 $? "is told on the stream of the old one"
kill "$listener"
cp -p "$work/first.yaml" "$file"
reload "as at first"

step "coatcheck config diff"
diff_() { RUN=0; "$COATCHECK" config diff --config "$1" --management "$MANAGEMENT" --token-file "$2" >"$work/out" 2>&1 || RUN=$?; }
diff_ "$file" "$work/reader"
matches '^2 .*403' "$RUN $(cat "$work/out")" "a token without configure"
diff_ "$file" "$work/shaper"
matches '^0 .*this one' "$RUN $(cat "$work/out")" "the same"
change 's|(narrow: .*allow: \[")GET /private/\*|\1GET /public/*|; s|  listen: 127.0.0.1:'"$BROKER_PORT"'|  listen: 127.0.0.1:'"$CLOSED_PORT"'|'
printf 'rT5nLk2YvB7xHs0dPq4mJc6t\n' >"$work/web-secret"
diff_ "$file" "$work/shaper"
same 1 "$RUN" "another one"
same "changed  providers.oidc.clients.web.client_secret
changed  server.listen (takes a restart)
changed  upstreams.narrow.allow[0]" "$(cat "$work/out")" "its paths, and no value"
JAR= request POST "$MANAGEMENT/admin/v1/config/diff" -H 'Authorization: Bearer admin-shaper-93e0b7a21c' -H 'Content-Type: application/json' \
    --data-binary '{"salt":"AAAAAAAAAAAAAAAAAAAAAA","items":[{"path":"server.listen"},7]}'
expect_problem 400 invalid_request "what is no digest"
cp -p "$work/first.yaml" "$file"
printf 'Hs0dPq4mJc6t9RfAwq8ZrT5n\n' >"$work/web-secret"

step "200 logins in flight while HUPs come"
reload "once more"
before=$(answers)
python3 "$here/reload_logins.py" "$BROKER" 200 20 >"$work/logins" 2>&1 &
logins=$!
signals=0
while kill -0 "$logins" 2>/dev/null; do
    signals=$((signals + 1))
    if [ $((signals % 2)) -eq 1 ]; then change 's|small: (.*)max_concurrent: 8|small: \1max_concurrent: 9|; s|^  github:|  github-too:|; s|(narrow: .*allow: \[")GET /private/\*|\1GET /public/*|'; else cp -p "$work/first.yaml" "$work/next.yaml" && mv "$work/next.yaml" "$file"; fi
    kill -HUP "$broker_pid"
    sleep 0.2
done
wait "$logins"
same "200 of 200" "$(tail -1 "$work/logins")" "all of them"
matches '^([2-9]|[1-9][0-9]+)$' "$(($(answers) - before))" "under reloads"
printf '# %s signals, %s reloads\n' "$signals" "$(($(answers) - before))"
cp -p "$work/first.yaml" "$file"
reload "the last word is the file's"
# Earlier signals may still be in progress.
holds() { relayed && [ "$STATUS" = 200 ]; }
wait_for 10 holds
same 0 $? "and it holds"
matches 'coatcheck_config_reloads_total\{result="done"\} [1-9]' "$(curl -s "$MANAGEMENT/metrics")" "reloads are counted"
finish
