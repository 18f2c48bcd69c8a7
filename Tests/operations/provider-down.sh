#!/usr/bin/env bash
# Walks "A provider is down for a day" of docs/operate/incidents.md: sessions stay, other providers are served, and the
# provider's return needs no operator.
source "$(dirname "$0")/../scenarios/support/lib.bash"
start_stack
sign_in oidc ios ana
expect_status 201 "ana is signed in"
device ben
sign_in oauth2 ios ben
expect_status 201 "ben is, at another provider"
printf 'admin-reader-7f3d2a9c51\n' >"$work/reader"
provider() { curl -s "$MANAGEMENT/readyz" | jq -r ".providers.$1"; }

step "1. It answers 500 to everything"
fault oidc '{"fault":"status","status":500,"endpoint":"refresh"}'
fault oidc '{"fault":"status","status":500,"endpoint":"token"}'
device a-phone
for n in 1 2 3; do
    request POST /v1/session/refresh
    sleep 0.1
done
expect_status 503 "a refresh is 503"
get /v1/session
expect_status 200 "the session lives"
expect_json .provider oidc "and is the same"
failing() { request POST /v1/session/refresh; [ "$(provider oidc)" = failing ]; }
wait_for 30 failing
same failing "$(provider oidc)" "readiness shows it as failing"
same ok "$(provider oauth2)" "and the other as ok"
get "$MANAGEMENT/readyz"
expect_status 200 "which does not count"

step "2. It is gone altogether"
sandbox DELETE /faults/oidc
for endpoint in token refresh userinfo discovery jwks revoke; do fault oidc "{\"fault\":\"status\",\"status\":503,\"endpoint\":\"$endpoint\"}"; done
opened() {
    device "stuck-$RANDOM"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" cleo
    forward "$CALLBACK"
    [ "$(provider oidc)" = open ]
}
wait_for 40 opened
same open "$(provider oidc)" "the breaker opens, and readiness says so"
device dora
start_login oidc ios
[ "$STATUS" = 201 ] && { browser "$AUTHORIZATION_URL" dora; forward "$CALLBACK"; }
same 503 "$STATUS" "a login is 503"
matches '^[0-9]+$' "$(header Retry-After)" "with Retry-After"
device a-phone
get /v1/session
expect_status 200 "ana is signed in"
device ben
request POST /v1/session/refresh
expect_status 200 "ben is refreshed at his provider"
device ana-2
JAR="$work/a-phone.jar" request DELETE /v1/session
expect_status 204 "ana logs out: that does not wait for the provider"
"$COATCHECK" sessions list --ended --config "$work/coatcheck.yaml" --token-file "$work/reader" --provider oidc --no-header >"$work/list"
matches 'logged_out' "$(cut -f5 "$work/list")" "and is logged out here"

step "3. It is back"
sandbox DELETE /faults/oidc
back() { device "back-$RANDOM"; sign_in oidc ios ana; [ "$STATUS" = 201 ]; }
wait_for 90 back
same 201 "$STATUS" "logins go on by themselves"
same ok "$(provider oidc)" "readiness says ok"
finish
