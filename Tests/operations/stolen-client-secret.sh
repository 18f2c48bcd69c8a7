#!/usr/bin/env bash
# Walks "A stolen client secret" of docs/operate/incidents.md: a new secret from the provider. Every session survives the
# change.
source "$(dirname "$0")/../scenarios/support/lib.bash"
start_stack
printf 'wq8ZrT5nLk2YvB7x:c/d+e&f' >"$work/web.secret"
chmod 600 "$work/web.secret"
kill_broker TERM
sed -i "s|client_secret: \"wq8ZrT5nLk2YvB7x:c/d+e&f\"|client_secret: {file: $work/web.secret}|" "$work/coatcheck.yaml"
start_broker
sign_in oidc web ana
expect_status 201 "ana is signed in by the client"

step "1. A new secret at the provider; the old one is void at once"
new=$(random_token)
sandbox PUT /clients/oidc/web-client "{\"secret\":\"$new\",\"auth\":\"client_secret_basic\"}"
request POST /v1/session/refresh
expect_status 503 "a refresh fails for the moment"
get /v1/session
expect_status 200 "and nobody is logged out for it"
device ben
sign_in oidc web ben
expect_problem 400 code_rejected "a login is refused"
expect_json .provider_error invalid_client "and the app can tell that it was for the client"

step "2. The new secret into its file, and a reload"
printf '%s' "$new" >"$work/web.secret"
"$COATCHECK" check --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "coatcheck check"
kill -HUP "$broker_pid"
reloaded() { grep -q '"message":"configuration reloaded"' "$work/broker.log"; }
wait_for 20 reloaded
same 0 $? "the running broker takes it"
device a-phone
# After a failed refresh, a session waits a moment before its next one, as Retry-After shows.
refreshed() { request POST /v1/session/refresh; [ "$STATUS" = 200 ]; }
wait_for 30 refreshed || true
expect_status 200 "the old session is refreshed with the new secret"
device ben-again
sign_in oidc web ben
expect_status 201 "logins go on"
finish
