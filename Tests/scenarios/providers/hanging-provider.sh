#!/usr/bin/env bash
# A provider that hangs: another provider's logins and existing sessions are as fast as before (SEC-120).
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. A session, and another provider that hangs"
device a-phone
sign_in oauth2 ios ana
expect_status 201 "sign-in at a healthy provider → a session"
fault oidc '{"fault":"hang","endpoint":"token"}'
# The logins begin first. Their calls end after fifteen seconds, so the following steps have to be faster.
ready=0
for n in $(seq 12); do
    device "stuck-$n"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" ana
    case $CALLBACK in *code=*) ready=$((ready + 1)) ;; *) echo "# login $n: status $STATUS, callback $CALLBACK" ;; esac
    printf '{"callback_url":%s}' "$(json_text "$CALLBACK")" >"$work/stuck-body.$n"
done
same 12 "$ready" "twelve users sign in at a provider whose token endpoint hangs → the browsers return twelve codes"
for n in $(seq 12); do
    curl -s -m 60 -o "$work/stuck.$n" -w '%{http_code}\n' "$BROKER/v1/sessions" -b "$work/stuck-$n.jar" \
        -H 'Content-Type: application/json' --data-binary "@$work/stuck-body.$n" >"$work/stuck-status.$n" &
    stuck[n]=$!
done
wait_for 10 eval '[ "$(calls oidc/token)" -ge 12 ]'
same 12 "$(calls oidc/token)" "apps forward twelve codes while the provider's token endpoint hangs → twelve token calls wait"

step "2. Other sessions and logins are served meanwhile"
device a-phone
get /v1/session
expect_status 200 "twelve token calls hang at one provider → a session of another provider is served"
device another-phone
sign_in oauth2 ios ben
expect_status 201 "twelve token calls hang at one provider → a login at another provider succeeds"
same 0 "$(cat "$work"/stuck-status.* 2>/dev/null | wc -l)" "login at another provider has finished → the twelve token calls still hang"

step "3. The waiting calls end with 503 and advise what to do"
wait "${stuck[@]}"
answers=$(for n in $(seq 12); do echo "$(cat "$work/stuck-status.$n") $(json .code "$work/stuck.$n")"; done | sort | uniq -c | xargs)
same "12 503 provider_unavailable" "$answers" "twelve token calls hang until their time limit → each app gets 503 provider_unavailable"
same new_login "$(json .retry "$work/stuck.1")" "token call hangs until its time limit → the answer to the app has retry new_login"

finish
