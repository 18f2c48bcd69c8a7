#!/usr/bin/env bash
# Flow A: callbacks that the broker refuses, without a call to the provider. (Tests in Swift cover `login_expired`, because they
# can move the clock.)
source "$(dirname "$0")/../support/lib.bash"
start_stack

# fresh_callback: starts a login of a new device, because a device may have only 8 pending logins, and signs the user in
fresh_callback() {
    phone="phone-$RANDOM$RANDOM"
    device "$phone"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" "${1:-ana}"
}

no_call() { same "$before" "$(calls oidc/token)" "all forwards that were refused before line ${BASH_LINENO[0]} → zero token calls at the provider"; }
before=$(calls oidc/token)

step "1. Another device forwards the callback URL (SEC-05)"
fresh_callback
device a-stranger
forward "$CALLBACK"
expect_problem 403 login_not_yours "callback forwarded by another device"
device "$phone"
forward "$CALLBACK"
expect_problem 400 state_mismatch "starter forwards the callback after another device did"
no_call

step "2. Another device forwards the callback URL with its own login token"
fresh_callback
callback=$CALLBACK
device a-stranger
start_login oidc ios
forward "$callback"
expect_problem 403 login_not_yours "callback forwarded by another device with its own login token"
no_call

step "3. A callback without a state never makes a session (SEC-04, SEC-15)"
fresh_callback
forward "$(with_value state - "$CALLBACK")"
expect_problem 409 login_required "callback without a state"
matches '^lgn_' "$(json .login.login_id)" "callback without a state → the refusal contains a new login"
matches 'state=' "$(json .login.authorization_url)" "callback without a state → the new login has a state"
forward "$(with_value state - "$CALLBACK")"
expect_problem 400 invalid_callback "app forwards a callback without a state for the second time in a row"
no_call
fresh_callback
forward "$(with_value state "" "$CALLBACK")"
expect_problem 409 login_required "callback with an empty state"
no_call

step "4. A state that the broker did not make is refused"
fresh_callback
forward "$(with_value state "$(random_token)" "$CALLBACK")"
expect_problem 400 state_mismatch "callback with an invented state"
forward "$(with_value state "${STATE}x" "$CALLBACK")"
expect_problem 400 state_mismatch "callback whose state has one more character"
no_call

step "5. A callback with a repeated parameter is refused (SEC-11)"
fresh_callback
for name in code state iss; do
    forward "$CALLBACK&$name=second"
    expect_problem 400 invalid_callback "callback with $name twice"
    expect_json .errors[0].code duplicate "callback with $name twice → the error's code is duplicate"
done
no_call

step "6. The callback's issuer is compared (RFC 9207, SEC-09)"
fresh_callback
forward "$(with_value iss "$SANDBOX/oidc/" "$CALLBACK")"
expect_problem 400 issuer_mismatch "callback whose iss has one slash too many"
forward "$(with_value iss - "$CALLBACK")"
expect_problem 400 issuer_mismatch "callback without iss, although the metadata promises it"
forward "$(with_value iss "https://evil.example" "$CALLBACK")"
expect_problem 400 issuer_mismatch "callback whose iss is another server"
no_call
forward "$CALLBACK"
expect_status 201 "login's unchanged callback, forwarded after three copies with a wrong iss → a session"
before=$(calls oidc/token)

step "7. The redirect URI is compared byte for byte before any parameter is read (SEC-12)"
fresh_callback
query=${CALLBACK#*\?}
for target in com.evil.app:/cb com.example.app:/cb/ com.example.app:/CB com.example.app:/cb/../cb com.example.app://cb \
    https://com.example.app/cb https://app.example.org@evil.example/cb https://app.example.org:0000000443/cb; do
    forward "$target?$query"
    expect_problem 400 invalid_callback "callback at the redirect URI $target"
done
forward "$CALLBACK#fragment"
expect_problem 400 invalid_callback "callback URL with a fragment"
forward "com.example.app:\\cb?$query"
same 400 "$STATUS" "callback URL with a backslash → 400"
no_call

step "8. A callback with a token is refused, and the token is not read (SEC-01)"
fresh_callback
forward "$CALLBACK&access_token=at-canary-implicit"
expect_problem 400 invalid_callback "callback with an access token"
if grep -q canary "$work/body"; then not_ok "callback with an access token → the answer does not contain the token"; else ok "callback with an access token → the answer does not contain the token"; fi
no_call

step "9. An error from the provider ends the login, even together with a code (SEC-13)"
start_login oidc ios
browser "$AUTHORIZATION_URL" denied
forward "$CALLBACK"
expect_problem 403 access_denied "user refuses the sign-in"
forward "$CALLBACK"
expect_problem 400 state_mismatch "callback forwarded again after the user's refusal"
fresh_callback
forward "$(with_value error '<script>alert(1)</script>' "$CALLBACK")"
expect_problem 502 provider_error "callback with an unknown error together with a code"
if grep -q script "$work/body"; then not_ok "callback with an unknown error → the answer does not contain the error's text"; else ok "callback with an unknown error → the answer does not contain the error's text"; fi
forward "$CALLBACK"
expect_problem 400 state_mismatch "login's unchanged callback, forwarded after a copy with an error"
no_call

step "10. The state of one provider's login at another provider's callback (SEC-09)"
start_login oauth2 ios
other=$STATE
fresh_callback
forward "$(with_value state "$other" "$CALLBACK")"
expect_problem 400 invalid_callback "callback with the state of another provider's login"
no_call

step "11. A code that the provider does not know"
fresh_callback
forward "$(with_value code c-invented "$CALLBACK")"
expect_problem 400 code_rejected "callback with an invented code"
before=$(calls oidc/token)
forward "$(with_value code c-invented "$CALLBACK")"
expect_problem 400 code_rejected "callback with the same invented code, forwarded again"
no_call
forward "$CALLBACK"
expect_problem 400 state_mismatch "login's unchanged callback, forwarded after a copy with an invented code"
no_call

step "12. The broker checks an app's verifier before it calls the provider (SEC-03)"
verifier=$(random_token)
device c-phone
start_login oidc ios "\"code_challenge\":\"$(s256 "$verifier")\",\"code_challenge_method\":\"S256\""
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_problem 400 invalid_request "login with the app's code challenge, forwarded without a verifier"
forward "$CALLBACK" "\"code_verifier\":\"$(random_token)\""
expect_problem 400 verifier_mismatch "login with the app's code challenge, forwarded with another verifier"
forward "$CALLBACK" "\"code_verifier\":\"${verifier:0:42}\""
expect_problem 400 invalid_request "login with the app's code challenge, forwarded with a verifier of 42 characters"
forward "$CALLBACK" "\"code_verifier\":\"$(printf 'v%.0s' $(seq 129))\""
expect_problem 400 invalid_request "login with the app's code challenge, forwarded with a verifier of 129 characters"
no_call
fresh_callback
forward "$CALLBACK" "\"code_verifier\":\"$verifier\""
expect_problem 400 invalid_request "login with the broker's own verifier, forwarded with a verifier from the app"
no_call

step "13. State, login id and login token open no session (SEC-06)"
device d-phone
start_login oidc ios
for value in "$STATE" "$(json .login_id)" "$(cookie coatcheck-login)"; do
    JAR= request GET /v1/session -b "coatcheck=$value"
    expect_problem 401 session_required "a login's state, id or token, sent as the session cookie"
    JAR= request GET /v1/session -H "Authorization: Bearer $value"
    expect_problem 401 session_required "a login's state, id or token, sent as the bearer token"
    post /v1/sessions "{\"handoff\":\"$value\"}"
    same 4 "${STATUS:0:1}" "a login's state, id or token, sent as a handoff → refused"
done

step "14. Refused starts of a login (SEC-02, SEC-07, SEC-08, SEC-92)"
start_login oidc ios '"redirect_uri":"com.evil.app:/cb"'
expect_problem 400 invalid_request "start of a login with an unregistered redirect URI"
expect_json .errors[0].pointer /redirect_uri "start of a login with an unregistered redirect URI → the error points to redirect_uri"
start_login oidc ios '"scope":"openid admin"'
expect_problem 400 invalid_request "start of a login with a scope beyond the client's"
start_login oidc ios '"parameters":{"redirect_uri":"https://evil.example"}'
expect_problem 400 invalid_request "start of a login with a parameter reserved for the broker"
start_login oidc ios '"code_challenge":"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM","code_challenge_method":"plain"'
expect_problem 400 invalid_request "start of a login with the code challenge method plain"
start_login oidc ios '"return":"evilapp://"'
expect_problem 400 invalid_request "start of a login with an address to return to"
start_login nobody ios
expect_problem 404 provider_not_found "start of a login at an unknown provider"
start_login oidc nobody
expect_problem 400 invalid_request "start of a login of an unknown client"
expect_json .errors[0].pointer /client "start of a login of an unknown client → the error points to client"
post /v1/logins '{"provider":"oidc","client":"ios"}' -H 'Host: evil.example'
expect_problem 421 wrong_host "start of a login with another Host"
post /v1/logins '{"provider":"oidc","client":"ios"}' -H 'X-Forwarded-Host: evil.example'
expect_status 201 "start of a login with X-Forwarded-Host from an untrusted peer → 201"
same "com.example.app:/cb" "$(url_value redirect_uri "$(json .authorization_url)")" "start of a login with X-Forwarded-Host from an untrusted peer → the redirect URI is unchanged"

finish
