#!/usr/bin/env bash
# Reloads of the configuration by SIGHUP under traffic: changes that are applied, files that are refused as a whole, and sessions
# that survive both.
source "$(dirname "$0")/../support/lib.bash"
printf 'wq8ZrT5nLk2YvB7x:c/d+e&f\n' >"$work/web-secret"
chmod 600 "$work/web-secret"
# A secret in its own file, and a provider without references, so that a reload may remove it.
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
# change SED-SCRIPT: replaces the file by an edited copy
change() {
    sed -E "$1" "$work/first.yaml" >"$work/next.yaml"
    chmod 600 "$work/next.yaml"
    mv "$work/next.yaml" "$file"
}
# reload SENTENCE: sends HUP, and checks that a reload succeeds
# refused REGULAR-EXPRESSION SENTENCE: sends HUP, and checks that the reload is refused for this reason; sets REASON
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

step "refusals: a faulty file is refused as a whole, and the running configuration stays"
sign_in oidc ios
session=$(cookie coatcheck)
relayed() { get "/v1/relay/narrow/private/thing"; }
change 's|^  hosts: .*|  hosts: [ops.example.org|'
refused 'is not YAML' "reload of a file that is not valid YAML → refused"
change 's|log: \{level: trace\}|log: {levle: trace, request: false}|'
refused 'log.levle.*did you mean `level`' "reload with an unknown key → refused with a suggestion"
matches 'log.request' "$REASON" "reload with two unknown keys → the refusal also names the second key"
change 's|web-secret|no-such-secret|'
refused 'client_secret: names a file that cannot be read: .*/no-such-secret does not exist' "reload while a secret file is missing → refused with its path"
: >"$work/empty" && chmod 600 "$work/empty"
change 's|'"$work"'/web-secret|'"$work"'/empty|'
refused 'names a file that is empty: .*/empty' "reload while a secret file is empty → refused with its path"
for setting in "server.listen|s,  listen: 127.0.0.1:$BROKER_PORT,  listen: 127.0.0.1:$CLOSED_PORT," \
    "management.listen|s,  listen: 127.0.0.1:$MANAGEMENT_PORT,  listen: 127.0.0.1:$CLOSED_PORT," \
    "server.public_url|s,  public_url: .*,  public_url: http://localhost:$BROKER_PORT," \
    "store.url|s,sqlite:.*,sqlite:$work/data/other.db," \
    "keys.file|s,file: .*/keys.json,file: $work/../${work##*/}/keys.json," \
    "session.cookie.name|s,^session:,session:\n  cookie: {name: other},"; do
    # The file also has changes that a reload could apply. The refusal has to drop them, too.
    change "${setting#*|}; s,body: 8KiB,body: 16KiB,; s|log: \{level: trace\}|log: {level: error}|"
    # The hosted callbacks are at public_url, so they change with it.
    [ "${setting%%|*}" = server.public_url ] && sed -i "s|$BROKER/callback|http://localhost:$BROKER_PORT/callback|" "$file"
    refused "^${setting%%|*}: has changed, which takes a restart" "reload with another ${setting%%|*} → refused, because this change needs a restart"
done
get /v1/session
expect_status 200 "session after all refused reloads → alive"
cp -p "$work/first.yaml" "$file"
reload "original file restored after refused files → reload succeeds"

step "a second broker names the port in use"
sed -e "s|listen: 127.0.0.1:$MANAGEMENT_PORT|listen: 127.0.0.1:$CLOSED_PORT|; s|sqlite:.*|sqlite:$work/data/second.db|" "$work/first.yaml" >"$work/second.yaml"
# The second file has a setting on a client that belongs on its provider.
sed -i 's|client_id: oauth2-app,|client_id: oauth2-app, scope_separator: ",",|' "$work/second.yaml"
misplaced='line [0-9]+: providers.oauth2.clients.ios.scope_separator: belongs to the provider, at `providers.oauth2.scope_separator`'
chmod 600 "$work/second.yaml"
checked=$("$COATCHECK" check --config "$work/second.yaml")
same "0 1" "$? $(grep -cE "^warning: $misplaced" <<<"$checked")" "a client has a setting that belongs to its provider → check succeeds, with one warning that names both places"
"$COATCHECK" serve --config "$work/second.yaml" >"$work/second.log" 2>&1 &
second=$!
wait_for 20 grep -q "the public listener: 127.0.0.1:$BROKER_PORT is in use by another process" "$work/second.log"
same 0 $? "second broker on a used port → its log names listener and port"
kill "$second"
wait "$second" 2>/dev/null

step "HUP during the start is kept until the broker runs"
"$COATCHECK" serve --config "$work/second.yaml" >"$work/second.log" 2>&1 &
second=$!
began=$(date +%s%N)
# heeds: returns whether the process ignores or catches HUP (bit 0 of its signal masks)
heeds() { awk '/^Sig(Ign|Cgt)/ { print substr($2, length($2)) }' "/proc/$second/status" | grep -q '[13579bdf]'; }
wait_for 10 heeds
same 0 $? "broker has just started → it already ignores or handles HUP, so HUP does not kill the process"
printf '#   %d ms after the start\n' $((($(date +%s%N) - began) / 1000000))
for _ in 1 2 3 4 5; do kill -HUP "$second"; sleep 0.1; done
wait_for 20 grep -q "is in use by another process" "$work/second.log"
same 0 $? "broker waits for its port at the start and gets five HUPs → it goes on waiting"
kill -HUP "$second"
kill_broker TERM
wait_for 20 grep -q '"message":"configuration unchanged"' "$work/second.log"
same 0 $? "broker gets HUP during its start → it reads its file again as soon as it runs"
kill -TERM "$second"
wait "$second"
same 0 $? "broker got HUPs during its start, and then gets TERM → exit status 0"
# The broker has ended, so both lines of each reload are in the log.
same "$((1 + $(grep -c '"message":"configuration unchanged"' "$work/second.log")))" "$(grep -cE "\"level\":\"warning\".*$misplaced" "$work/second.log")" "a client has a setting that belongs to its provider → one warning at the start and one at each reload"
start_broker

step "secret and configuration files that block a read"
mkfifo -m 600 "$work/pipe"
change 's|'"$work"'/web-secret|'"$work"'/pipe|'
refused 'client_secret: names a file that cannot be read: .*/pipe is no regular file' "reload while the secret file is a pipe → refused"
mv "$file" "$work/kept.yaml"
mkfifo -m 600 "$file"
refused 'is no regular file' "reload while the configuration file is a pipe → refused"
rm "$file"
cp -p "$work/first.yaml" "$file"
reload "original file restored after files that were pipes → reload succeeds"
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
in_log '"message":"reload still reading"' 1 "reload reads a secret on a mount that hangs → the log reports that the reading takes long"
cp -p "$work/first.yaml" "$file"
reload "read of a secret still hangs, and the file names the former secret again → reload succeeds"
relayed
expect_status 200 "relay call while a read of a secret hangs → 200"
change 's|'"$work"'/web-secret|'"$work"'/hung|'
kill -HUP "$broker_pid"
in_log '"message":"reload still reading"' 2 "reload reads the hanging secret a second time → the log also reports the second reading"
began=$SECONDS
kill -TERM "$broker_pid"
wait "$broker_pid"
same 0 $? "TERM while the read of a secret hangs → exit status 0"
same 1 $((SECONDS - began < 15)) "TERM while the read of a secret hangs → the broker ends within 15 s ($((SECONDS - began)) s)"
rm "$work/hangs"
cp -p "$work/first.yaml" "$file"
start_broker

step "settings that HUP changes"
relayed
expect_status 200 "relay call with the original allow-list → 200"
change 's|(narrow: .*allow: \[")GET /private/\*|\1GET /public/*|; s|log: \{level: trace\}|log: {level: trace}\nlimits: {body: 4KiB}|; s|  orders: \{sha256: 1fc7|  orders: {sha256: 2fc7|'
reload "changed upstreams, limits and backends → reload succeeds"
relayed
expect_problem 403 upstream_not_allowed "relay call to a path that a reload removed from the allow-list"
JAR= request POST /v1/introspect -H 'Authorization: Bearer orders-credential-4f1d9c' --data-urlencode "token=$session"
same 401 "$STATUS" "introspection with a credential whose hash a reload replaced → 401"
long=$(head -c 5000 /dev/zero | tr '\0' a)
post /v1/logins "{\"provider\":\"oidc\",\"client\":\"ios\",\"scope\":\"$long\"}"
expect_problem 413 too_large "start of a login with a body above the new limit"
cp -p "$work/first.yaml" "$file"
reload "original file restored after changed upstreams, limits and backends → reload succeeds"
relayed
expect_status 200 "relay call after the original allow-list was restored → 200"

step "a reload reads secret files again"
device web-phone
sign_in oidc web
expect_status 201 "sign-in with the first client secret → a session"
sandbox PUT /clients/oidc/web-client '{"secret":"Hs0dPq4mJc6t9RfAwq8ZrT5n","auth":"client_secret_basic"}'
device second-phone
sign_in oidc web
same "400 invalid_client" "$STATUS $(json .provider_error)" "secret changed at the provider → the provider refuses the old one"
printf 'Hs0dPq4mJc6t9RfAwq8ZrT5n\n' >"$work/web-secret"
reload "unchanged configuration with a changed secret file → reload succeeds"
sign_in oidc web
expect_status 201 "sign-in with the second client secret → a session"
same "" "$(grep -oE 'Hs0dPq4mJc6t9RfAwq8ZrT5n|wq8ZrT5nLk2YvB7x:c' "$work/broker.log")" "sign-ins with the first and the second client secret → neither secret is in the log"

step "removing a provider and a client ends no session"
device other-phone
sign_in oauth2 ios
expect_status 201 "sign-in at a second provider → a session"
other=$(cookie coatcheck)
device third-phone
sign_in oauth2 ios
third=$(cookie coatcheck)
change '/^  oauth2:/,/^  real:/{/^  real:/!d}; s|^      ios: \{client_id: ios-app.*||'
reload "file without the provider oauth2 and the client oidc/ios → reload succeeds"
for name in a-phone other-phone; do
    device "$name"
    get /v1/session
    expect_problem 503 provider_unavailable "session of $name, whose provider or client a reload removed"
    matches '^[0-9]+$' "$(header Retry-After)" "session of $name, whose provider or client a reload removed → Retry-After in seconds"
    same "" "$(header Set-Cookie)" "session of $name, whose provider or client a reload removed → the cookie stays"
done
device third-phone
request DELETE /v1/session
expect_status 204 "log-out of a session whose provider a reload removed → 204"
post /v1/logins '{"provider":"oauth2","client":"ios"}'
expect_problem 404 provider_not_found "login at the removed provider"
cp -p "$work/first.yaml" "$file"
reload "file that has the removed provider and client again → reload succeeds"
for name in a-phone other-phone; do
    device "$name"
    get /v1/session
    expect_status 200 "reload restores the removed provider and client → the session of $name is alive"
done
same "$session $other" "$(device a-phone; cookie coatcheck) $(device other-phone; cookie coatcheck)" "reload restores the removed provider and client → the cookies of both sessions are unchanged"
JAR= request GET /v1/session -b "coatcheck=$third"
same "401 logged_out" "$STATUS $(json .reason)" "session was logged out while its provider was removed, and the provider is restored → the session stays logged out"

step "requests in progress keep the configuration that they began with"
device a-phone
curl -sN -b "$JAR" "$BROKER/v1/session/events" >"$work/events" &
listener=$!
wait_for 10 grep -q '^event: session' "$work/events"
curl -s -b "$JAR" -o /dev/null -w '%{http_code}' "$BROKER/v1/relay/narrow/private/slow?ms=4000" >"$work/slow-status" &
slow=$!
wait_for 3 shows '^coatcheck_relay_calls_under_way\{upstream="narrow"\} 1$'
same 0 $? "relay call of four seconds → counted as in progress"
change 's|^  narrow: .*||; s|^  small: .*||'
reload "file without an upstream, during a call to this upstream → reload succeeds"
wait "$slow"
same 200 "$(cat "$work/slow-status")" "reload removes an upstream during a call to this upstream → the call gets 200"
relayed
expect_problem 404 upstream_not_found "relay call to an upstream that a reload removed"
kill -0 "$listener"
same 0 $? "reload that removes an upstream → a session's event stream stays open"
request POST /v1/session/refresh
expect_status 200 "refresh after a reload that removes an upstream → 200"
wait_for 10 grep -q '^event: tokens_refreshed' "$work/events"
same 0 $? "refresh after a reload that removes an upstream → the event stream from before the reload gets tokens_refreshed"
kill "$listener"
cp -p "$work/first.yaml" "$file"
reload "original file restored after an upstream was removed → reload succeeds"

step "coatcheck config diff"
diff_() { RUN=0; "$COATCHECK" config diff --config "$1" --management "$MANAGEMENT" --token-file "$2" >"$work/out" 2>&1 || RUN=$?; }
diff_ "$file" "$work/reader"
matches '^2 .*403' "$RUN $(cat "$work/out")" "config diff with an admin token without the right \`configure\` → exit status 2, and the output has 403"
diff_ "$file" "$work/shaper"
matches '^0 .*this one' "$RUN $(cat "$work/out")" "config diff with an unchanged file → exit status 0"
change 's|(narrow: .*allow: \[")GET /private/\*|\1GET /public/*|; s|  listen: 127.0.0.1:'"$BROKER_PORT"'|  listen: 127.0.0.1:'"$CLOSED_PORT"'|'
printf 'rT5nLk2YvB7xHs0dPq4mJc6t\n' >"$work/web-secret"
diff_ "$file" "$work/shaper"
same 1 "$RUN" "config diff with a changed file → exit status 1"
same "changed  providers.oidc.clients.web.client_secret
changed  server.listen (takes a restart)
changed  upstreams.narrow.allow[0]" "$(cat "$work/out")" "config diff with a changed file → prints the changed paths, without values"
JAR= request POST "$MANAGEMENT/admin/v1/config/diff" -H 'Authorization: Bearer admin-shaper-93e0b7a21c' -H 'Content-Type: application/json' \
    --data-binary '{"salt":"AAAAAAAAAAAAAAAAAAAAAA","items":[{"path":"server.listen"},7]}'
expect_problem 400 invalid_request "request for a config diff with an item that is not a digest"
cp -p "$work/first.yaml" "$file"
printf 'Hs0dPq4mJc6t9RfAwq8ZrT5n\n' >"$work/web-secret"

step "200 logins during repeated HUPs"
reload "reload of the original file before 200 logins → succeeds"
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
same "200 of 200" "$(tail -1 "$work/logins")" "200 logins during reloads → all succeed"
matches '^([2-9]|[1-9][0-9]+)$' "$(($(answers) - before))" "200 logins during reloads → at least two reloads during these logins"
printf '# %s signals, %s reloads\n' "$signals" "$(($(answers) - before))"
cp -p "$work/first.yaml" "$file"
reload "reload of the original file after 200 logins → succeeds"
# Reloads for earlier signals may still be in progress, so wait until the original allow-list applies.
holds() { relayed && [ "$STATUS" = 200 ]; }
wait_for 10 holds
same 0 $? "reload of the original file after 200 logins → its allow-list applies"
matches 'coatcheck_config_reloads_total\{result="done"\} [1-9]' "$(curl -s "$MANAGEMENT/metrics")" "metrics after reloads → count the successful reloads"
finish
