#!/usr/bin/env bash
# Flow C: the provider returns to the broker, and the app gets a one-time handoff instead of the provider's code.
source "$(dirname "$0")/../support/lib.bash"
start_stack

# come_back URL [curl options…]: the browser opens the hosted callback; TARGET is the address to which it is redirected
come_back() { JAR= request GET "$@"; TARGET=$(header Location); }
hosted_login() { start_login oidc hosted; browser "$AUTHORIZATION_URL" ana; }

step "1. The provider returns to the broker, which sends the browser on to the app"
hosted_login
login_id=$(json .login_id)
matches "^$BROKER/callback/oidc\?" "$CALLBACK" "user signs in at the provider → the browser returns to the broker's hosted callback"
come_back "$CALLBACK"
expect_status 303 "browser opens the hosted callback → 303"
matches '^com\.example\.hosted:/back\?handoff=[A-Za-z0-9_-]{43}&login_id=' "$TARGET" "hosted callback → redirect to the app with a handoff"
same "$login_id" "$(url_value login_id "$TARGET")" "hosted callback → the redirect to the app has the login's id"
same "" "$(url_value code "$TARGET")" "hosted callback → the redirect to the app has no code"
same "" "$(header Set-Cookie)" "hosted callback → its answer sets no cookie"
expect_header Cache-Control no-store "answer of the hosted callback → is not cached (Cache-Control: no-store)"
same "" "$(body)" "hosted callback → its answer has an empty body"
same 0 "$(calls oidc/token)" "hosted callback → zero token calls"
handoff=$(url_value handoff "$TARGET")

step "2. Only the starter can redeem the handoff (SEC-91)"
device a-stranger
post /v1/sessions "{\"handoff\":\"$handoff\"}"
expect_problem 403 login_not_yours "another device redeems the handoff"
device a-phone
post /v1/sessions "{\"handoff\":\"$handoff\"}"
same 4 "${STATUS:0:1}" "starter redeems the handoff after another device has tried → refused"
same 0 "$(calls oidc/token)" "another device redeems the handoff → zero token calls"

step "3. The starter redeems the handoff"
hosted_login
come_back "$CALLBACK"
handoff=$(url_value handoff "$TARGET")
post /v1/sessions "{\"handoff\":\"$handoff\"}"
expect_status 201 "starter redeems the handoff → a session"
expect_json .subject user-ana "starter redeems the handoff → a session of user-ana"
handle=$(json .handle)
post /v1/sessions "{\"handoff\":\"$handoff\"}"
expect_status 201 "starter sends the handoff again, as after a lost answer → 201"
expect_json .handle "$handle" "starter sends the handoff again, as after a lost answer → the same session handle"
same 1 "$(calls oidc/token)" "starter redeems the handoff twice → one token call"
post /v1/sessions "{\"handoff\":\"$(random_token)\"}"
expect_problem 410 handoff_expired "app redeems an invented handoff"

step "4. HEAD and prefetch of the hosted callback do not change the login (SEC-44)"
device b-phone
hosted_login
JAR= request HEAD "$CALLBACK" -I
same "" "$(header Location)" "HEAD of the hosted callback → no redirect"
come_back "$CALLBACK" -H 'Sec-Purpose: prefetch'
same 4 "${STATUS:0:1}" "prefetch of the hosted callback → refused"
come_back "$CALLBACK"
expect_status 303 "GET of the hosted callback after HEAD and prefetch → redirect to the app"
post /v1/sessions "{\"handoff\":\"$(url_value handoff "$TARGET")\"}"
expect_status 201 "starter redeems the handoff from a GET that followed a HEAD and a prefetch → a session"

step "5. Errors go only to the configured address, as ?error= (SEC-89)"
device c-phone
start_login oidc hosted
browser "$AUTHORIZATION_URL" denied
come_back "$CALLBACK"
expect_status 303 "hosted callback after the user refused → 303"
same access_denied "$(url_value error "$TARGET")" "hosted callback after the user refused → the app gets error=access_denied"
hosted_login
come_back "$(with_value iss https://evil.example "$CALLBACK")"
same issuer_mismatch "$(url_value error "$TARGET")" "hosted callback with another issuer → the app gets error=issuer_mismatch"
come_back "$(with_value state "$(random_token)" "$CALLBACK")"
same state_mismatch "$(url_value error "$TARGET")" "hosted callback with an unknown state → the app gets error=state_mismatch"
come_back "$BROKER/callback/oidc?code=c-portal"
same "login_required oidc hosted" "$(url_value error "$TARGET") $(url_value provider "$TARGET") $(url_value client "$TARGET")" "hosted callback without a state → the app gets login_required with provider and client"
come_back "$BROKER/callback/oidc?error=%3Cscript%3E&state=x"
if [[ "$TARGET$(body)" == *script* ]]; then not_ok "hosted callback whose error is a script → the answer does not contain the script (SEC-94)"; else ok "hosted callback whose error is a script → the answer does not contain the script (SEC-94)"; fi
come_back "$CALLBACK&code=second"
expect_problem 400 invalid_callback "hosted callback with the parameter code twice"
come_back "$BROKER/callback/nobody?code=c&state=s"
expect_problem 404 provider_not_found "hosted callback of an unknown provider"
come_back "$BROKER/callback/oauth2?code=c&state=s"
expect_problem 404 provider_not_found "hosted callback of a provider that is configured without a hosted callback"

step "6. Apple returns by form post"
device d-phone
start_login apple web
expect_status 201 "start of an Apple login with a hosted callback → 201"
same form_post "$(url_value response_mode "$AUTHORIZATION_URL")" "Apple's authorization URL → response_mode=form_post"
curl -s -m 20 -H 'Accept: application/json' "$AUTHORIZATION_URL&sandbox_user=ana" -o "$work/form"
JAR= request POST "$(json .action "$work/form")" -H 'Origin: https://appleid.apple.com' -H 'Sec-Fetch-Site: cross-site' \
    -H 'Content-Type: application/x-www-form-urlencoded' --data-binary "$(json .body "$work/form")"
expect_status 303 "Apple's cross-site form post → redirect to the app"
same "" "$(header Set-Cookie)" "Apple's form post → the answer sets no cookie"
TARGET=$(header Location)
post /v1/sessions "{\"handoff\":\"$(url_value handoff "$TARGET")\"}"
expect_status 201 "handoff from Apple's form post → a session"
expect_json .provider apple "handoff from Apple's form post → the session's provider is apple"
matches 'Ana' "$(json .identity)" "Apple's form post with the user's name → the session's identity has the name"
JAR= request POST /callback/apple -H 'Content-Type: application/json' --data-binary '{}'
expect_problem 415 unsupported_media_type "POST of JSON instead of a form to Apple's hosted callback"

step "7. The app's link opens in a browser instead of the app: the page reveals nothing (SEC-94)"
JAR= request GET "/oauth/clever?code=c-canary&state=st-canary&handoff=h-canary" -H 'Accept: text/html'
expect_status 200 "app link opened in a browser → 200"
if grep -q canary "$work/body" "$work/headers"; then not_ok "app link with code and state, opened in a browser → the page contains neither"; else ok "app link with code and state, opened in a browser → the page contains neither"; fi
same "" "$(header Location)" "app link opened in a browser → no redirect"
same "" "$(header Set-Cookie)" "app link opened in a browser → no cookie"
expect_header Referrer-Policy no-referrer "app link opened in a browser → Referrer-Policy is no-referrer"
expect_header Cache-Control no-store "app link opened in a browser → Cache-Control is no-store"
matches "default-src 'none'" "$(header Content-Security-Policy)" "app link opened in a browser → its Content-Security-Policy has default-src 'none'"
same 0 "$(grep -c canary "$work/broker.log")" "app link opened in a browser → code and state are not logged"

finish
