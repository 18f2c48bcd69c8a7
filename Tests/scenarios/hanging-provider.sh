#!/usr/bin/env bash
# A provider that hangs: another provider's logins and existing sessions are as fast as before (SEC-120).
source "$(dirname "$0")/support/lib.bash"
start_stack

step "1. A session, and a provider that answers nothing any more"
device a-phone
sign_in oauth2 ios ana
expect_status 201 "a session at another provider"
fault oidc '{"fault":"hang","endpoint":"token"}'
# The logins begin first. Their calls are given up after fifteen seconds, so the following steps have to happen before that.
for n in $(seq 12); do
    device "stuck-$n"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" ana
    printf '{"callback_url":%s}' "$(json_text "$CALLBACK")" >"$work/stuck-body.$n"
done
for n in $(seq 12); do
    curl -s -m 60 -o "$work/stuck.$n" -w '%{http_code}\n' "$BROKER/v1/sessions" -b "$work/stuck-$n.jar" \
        -H 'Content-Type: application/json' --data-binary "@$work/stuck-body.$n" >"$work/stuck-status.$n" &
    stuck[n]=$!
done
wait_for 10 eval '[ "$(calls oidc/token)" -ge 12 ]'
same 12 "$(calls oidc/token)" "twelve calls hang"

step "2. Meanwhile the others are served"
device a-phone
get /v1/session
expect_status 200 "the session that is there"
device another-phone
sign_in oauth2 ios ben
expect_status 201 "a login at the other provider"
same 0 "$(cat "$work"/stuck-status.* 2>/dev/null | wc -l)" "and the twelve still hang"

step "3. The hanging calls end, and say what to do"
wait "${stuck[@]}"
same 12 "$(cat "$work"/stuck-status.* | grep -c '^503$')" "twelve times 503"
same new_login "$(json .retry "$work/stuck.1")" "nobody knows what became of the code: a new login"

finish
