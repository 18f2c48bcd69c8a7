#!/usr/bin/env bash
# Follows "A stolen client secret" of docs/operate/incidents.md: the provider issues a new secret, and every session survives.
source "$(dirname "$0")/../scenarios/support/lib.bash"
start_stack
printf 'wq8ZrT5nLk2YvB7x:c/d+e&f' >"$work/web.secret"
chmod 600 "$work/web.secret"
kill_broker TERM
sed -i "s|client_secret: \"wq8ZrT5nLk2YvB7x:c/d+e&f\"|client_secret: {file: $work/web.secret}|" "$work/coatcheck.yaml"
start_broker
sign_in oidc web ana
expect_status 201 "sign-in with the first secret → ana has a session"

step "1. The provider has a new secret and refuses the old one"
new=$(random_token)
sandbox PUT /clients/oidc/web-client "{\"secret\":\"$new\",\"auth\":\"client_secret_basic\"}"
request POST /v1/session/refresh
expect_status 503 "provider has a new client secret, and the broker refreshes with the old one → 503"
get /v1/session
expect_status 200 "provider has a new client secret, and the broker refreshes with the old one → the session is alive"
device ben
sign_in oidc web ben
expect_problem 400 code_rejected "provider has a new client secret, and a login uses the old one"
expect_json .provider_error invalid_client "provider has a new client secret, and a login uses the old one → provider_error is invalid_client"

step "2. The new secret is written to its file and loaded"
printf '%s' "$new" >"$work/web.secret"
"$COATCHECK" check --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "coatcheck check after the new secret was written → exit 0"
kill -HUP "$broker_pid"
reloaded() { grep -q '"message":"configuration reloaded"' "$work/broker.log"; }
wait_for 20 reloaded
same 0 $? "HUP after the new secret was written → the running broker reloads"
device a-phone
# After a failed refresh, the broker waits a moment before it refreshes the session again, as Retry-After shows.
refreshed() { request POST /v1/session/refresh; [ "$STATUS" = 200 ]; }
wait_for 30 refreshed || true
expect_status 200 "broker has loaded the new client secret → a session from before the change is refreshed"
device ben-again
sign_in oidc web ben
expect_status 201 "broker has loaded the new client secret → a login succeeds"
finish
