#!/usr/bin/env bash
# Follows "A provider is down for a day" of docs/operate/incidents.md: sessions stay, other providers are served, and when the
# provider works again, the operator has nothing to do.
source "$(dirname "$0")/../scenarios/support/lib.bash"
start_stack
sign_in oidc ios ana
expect_status 201 "sign-in at oidc → ana has a session"
device ben
sign_in oauth2 ios ben
expect_status 201 "sign-in at oauth2 → ben has a session"
printf 'admin-reader-7f3d2a9c51\n' >"$work/reader"
provider() { curl -s "$MANAGEMENT/readyz" | jq -r ".providers.$1"; }

step "1. The provider answers 500 to token requests"
fault oidc '{"fault":"status","status":500,"endpoint":"refresh"}'
fault oidc '{"fault":"status","status":500,"endpoint":"token"}'
device a-phone
for n in 1 2 3; do
    request POST /v1/session/refresh
    sleep 0.1
done
expect_status 503 "refresh while the provider answers 500 → 503"
get /v1/session
expect_status 200 "provider answers 500 → the session is alive"
expect_json .provider oidc "provider answers 500 → the session is unchanged"
failing() { request POST /v1/session/refresh; [ "$(provider oidc)" = failing ]; }
wait_for 30 failing
same failing "$(provider oidc)" "provider answers 500 to token requests → readiness shows this provider as failing"
same ok "$(provider oauth2)" "provider answers 500 to token requests → readiness shows the other provider as ok"
get "$MANAGEMENT/readyz"
expect_status 200 "one provider fails → readiness is still 200"

step "2. The provider answers 503 to everything"
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
same open "$(provider oidc)" "provider is down → readiness shows an open breaker"
device dora
start_login oidc ios
[ "$STATUS" = 201 ] && { browser "$AUTHORIZATION_URL" dora; forward "$CALLBACK"; }
same 503 "$STATUS" "login at the provider that is down → 503"
matches '^[0-9]+$' "$(header Retry-After)" "login at the provider that is down → Retry-After in seconds"
device a-phone
get /v1/session
expect_status 200 "provider is down → ana's session is alive"
device ben
request POST /v1/session/refresh
expect_status 200 "provider is down → ben's refresh at the other provider succeeds"
device ana-2
JAR="$work/a-phone.jar" request DELETE /v1/session
expect_status 204 "provider is down → ana's log-out succeeds"
"$COATCHECK" sessions list --ended --config "$work/coatcheck.yaml" --token-file "$work/reader" --provider oidc --no-header >"$work/list"
matches 'logged_out' "$(cut -f5 "$work/list")" "ana has logged out while the provider is down → her session is listed as logged_out"

step "3. The provider works again"
sandbox DELETE /faults/oidc
back() { device "back-$RANDOM"; sign_in oidc ios ana; [ "$STATUS" = 201 ]; }
wait_for 90 back
same 201 "$STATUS" "provider works again → logins succeed without an operator"
same ok "$(provider oidc)" "provider works again → readiness shows ok"
finish
