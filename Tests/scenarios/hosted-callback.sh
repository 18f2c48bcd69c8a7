#!/usr/bin/env bash
# Flow C: the provider returns to the broker; the app gets a one-time handoff, never the provider's code.
source "$(dirname "$0")/support/lib.bash"
start_stack

# come_back URL [curl options…]: the browser arrives at the hosted callback; TARGET is the address of its redirect
come_back() { JAR= request GET "$@"; TARGET=$(header Location); }
hosted_login() { start_login oidc hosted; browser "$AUTHORIZATION_URL" ana; }

step "1. The provider returns to the broker, which sends the browser on to the app"
hosted_login
login_id=$(json .login_id)
matches "^$BROKER/callback/oidc\?" "$CALLBACK" "back at the broker"
come_back "$CALLBACK"
expect_status 303
matches '^com\.example\.hosted:/back\?handoff=[A-Za-z0-9_-]{43}&login_id=' "$TARGET" "with a handoff"
same "$login_id" "$(url_value login_id "$TARGET")" "and the login's id"
same "" "$(url_value code "$TARGET")" "without the code"
same "" "$(header Set-Cookie)" "no cookie is set"
expect_header Cache-Control no-store
same "" "$(body)" "an empty page"
same 0 "$(calls oidc/token)" "no call yet"
handoff=$(url_value handoff "$TARGET")

step "2. Only the starter redeems it (SEC-91)"
device a-stranger
post /v1/sessions "{\"handoff\":\"$handoff\"}"
expect_problem 403 login_not_yours "another device"
device a-phone
post /v1/sessions "{\"handoff\":\"$handoff\"}"
same 4 "${STATUS:0:1}" "the login is burned"
same 0 "$(calls oidc/token)" "no call"

step "3. The starter"
hosted_login
come_back "$CALLBACK"
handoff=$(url_value handoff "$TARGET")
post /v1/sessions "{\"handoff\":\"$handoff\"}"
expect_status 201 "a session"
expect_json .subject user-ana
handle=$(json .handle)
post /v1/sessions "{\"handoff\":\"$handoff\"}"
expect_status 201 "again, as the answer was lost"
expect_json .handle "$handle"
same 1 "$(calls oidc/token)" "one call"
post /v1/sessions "{\"handoff\":\"$(random_token)\"}"
expect_problem 410 handoff_expired "an invented handoff"

step "4. HEAD, prefetch and link previews leave the login alone (SEC-44)"
device b-phone
hosted_login
JAR= request HEAD "$CALLBACK" -I
same "" "$(header Location)" "HEAD sends nobody anywhere"
come_back "$CALLBACK" -H 'Sec-Purpose: prefetch'
same 4 "${STATUS:0:1}" "a prefetch is refused"
come_back "$CALLBACK"
expect_status 303 "the real one works"
post /v1/sessions "{\"handoff\":\"$(url_value handoff "$TARGET")\"}"
expect_status 201

step "5. What goes wrong goes to the configured place as ?error=, and nowhere else (SEC-89)"
device c-phone
start_login oidc hosted
browser "$AUTHORIZATION_URL" denied
come_back "$CALLBACK"
expect_status 303
same access_denied "$(url_value error "$TARGET")" "the user refused"
hosted_login
come_back "$(with_value iss https://evil.example "$CALLBACK")"
same issuer_mismatch "$(url_value error "$TARGET")" "another issuer"
come_back "$(with_value state "$(random_token)" "$CALLBACK")"
same state_mismatch "$(url_value error "$TARGET")" "an unknown state"
come_back "$BROKER/callback/oidc?code=c-portal"
same "login_required oidc hosted" "$(url_value error "$TARGET") $(url_value provider "$TARGET") $(url_value client "$TARGET")" "no state: login_required, with provider and client"
come_back "$BROKER/callback/oidc?error=%3Cscript%3E&state=x"
if [[ "$TARGET$(body)" == *script* ]]; then not_ok "nothing is reflected (SEC-94)"; else ok "nothing is reflected (SEC-94)"; fi
come_back "$CALLBACK&code=second"
expect_problem 400 invalid_callback "a parameter twice"
come_back "$BROKER/callback/nobody?code=c&state=s"
expect_problem 404 provider_not_found "an unknown provider"
come_back "$BROKER/callback/oauth2?code=c&state=s"
expect_problem 404 provider_not_found "a provider without a hosted callback"

step "6. By form post, as Apple does it"
device d-phone
start_login apple web
expect_status 201
same form_post "$(url_value response_mode "$AUTHORIZATION_URL")" "response_mode=form_post"
curl -s -m 20 -H 'Accept: application/json' "$AUTHORIZATION_URL&sandbox_user=ana" -o "$work/form"
JAR= request POST "$(json .action "$work/form")" -H 'Origin: https://appleid.apple.com' -H 'Sec-Fetch-Site: cross-site' \
    -H 'Content-Type: application/x-www-form-urlencoded' --data-binary "$(json .body "$work/form")"
expect_status 303 "a cross-site POST is what it is"
same "" "$(header Set-Cookie)" "no cookie is set"
TARGET=$(header Location)
post /v1/sessions "{\"handoff\":\"$(url_value handoff "$TARGET")\"}"
expect_status 201 "a session"
expect_json .provider apple
matches 'Ana' "$(json .identity)" "the name that comes once"
JAR= request POST /callback/apple -H 'Content-Type: application/json' --data-binary '{}'
expect_problem 415 unsupported_media_type "JSON is no form"

step "7. The app's link opens in a browser instead of the app: the page leaks nothing (SEC-94)"
JAR= request GET "/oauth/clever?code=c-canary&state=st-canary&handoff=h-canary" -H 'Accept: text/html'
expect_status 200
if grep -q canary "$work/body" "$work/headers"; then not_ok "nothing is reflected"; else ok "nothing is reflected"; fi
same "" "$(header Location)" "it sends nobody on"
same "" "$(header Set-Cookie)" "no cookie"
expect_header Referrer-Policy no-referrer
expect_header Cache-Control no-store
matches "default-src 'none'" "$(header Content-Security-Policy)" "nothing is loaded"
same 0 "$(grep -c canary "$work/broker.log")" "nor logged"

finish
