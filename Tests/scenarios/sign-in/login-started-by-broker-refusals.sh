#!/usr/bin/env bash
# Flow A: callbacks that a login of the broker refuses. No refusal may cost a call to the provider. (A login that is 601 seconds
# old is `login_expired`. The tests in Swift move the clock for that.)
source "$(dirname "$0")/../support/lib.bash"
start_stack

# fresh_callback: starts a login of a new device (a device may have 8 pending), and continues it until the provider's callback
fresh_callback() {
    phone="phone-$RANDOM$RANDOM"
    device "$phone"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" "${1:-ana}"
}

no_call() { same "$before" "$(calls oidc/token)" "all forwards refused so far → no token call at the provider"; }
before=$(calls oidc/token)

step "1. A stranger forwards the callback URL of another device (SEC-05)"
fresh_callback
device a-stranger
forward "$CALLBACK"
expect_problem 403 login_not_yours "callback forwarded by another device"
device "$phone"
forward "$CALLBACK"
expect_problem 400 state_mismatch "the starter forwards after a stranger"
no_call

step "2. A stranger with a login token of another login"
fresh_callback
callback=$CALLBACK
device a-stranger
start_login oidc ios
forward "$callback"
expect_problem 403 login_not_yours "callback forwarded with the stranger's own login token"
no_call

step "3. A callback without a state never makes a session (SEC-04, SEC-15)"
fresh_callback
forward "$(with_value state - "$CALLBACK")"
expect_problem 409 login_required "callback without a state"
matches '^lgn_' "$(json .login.login_id)" "callback without a state → the refusal contains a new login"
matches 'state=' "$(json .login.authorization_url)" "callback without a state → the new login has a state"
forward "$(with_value state - "$CALLBACK")"
expect_problem 400 invalid_callback "second callback without a state in a row"
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
expect_problem 400 state_mismatch "callback with one character more in the state"
no_call

step "5. A callback with a repeated parameter is refused (SEC-11)"
fresh_callback
for name in code state iss; do
    forward "$CALLBACK&$name=second"
    expect_problem 400 invalid_callback "callback with $name twice"
    expect_json .errors[0].code duplicate
done
no_call

step "6. The issuer (RFC 9207, SEC-09)"
fresh_callback
forward "$(with_value iss "$SANDBOX/oidc/" "$CALLBACK")"
expect_problem 400 issuer_mismatch "issuer with one slash too many"
forward "$(with_value iss - "$CALLBACK")"
expect_problem 400 issuer_mismatch "no issuer, although the metadata promises one"
forward "$(with_value iss "https://evil.example" "$CALLBACK")"
expect_problem 400 issuer_mismatch "issuer of another server"
no_call
forward "$CALLBACK"
expect_status 201 "unchanged callback afterwards → a session"
before=$(calls oidc/token)

step "7. The redirect URI is compared byte for byte before any parameter is read (SEC-12)"
fresh_callback
query=${CALLBACK#*\?}
for target in com.evil.app:/cb com.example.app:/cb/ com.example.app:/CB com.example.app:/cb/../cb com.example.app://cb \
    https://com.example.app/cb https://app.example.org@evil.example/cb https://app.example.org:0000000443/cb; do
    forward "$target?$query"
    expect_problem 400 invalid_callback "redirect URI $target"
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
if grep -q canary "$work/body"; then not_ok "callback with an access token → not echoed"; else ok "callback with an access token → not echoed"; fi
no_call

step "9. An error from the provider ends the login, even together with a code (SEC-13)"
start_login oidc ios
browser "$AUTHORIZATION_URL" denied
forward "$CALLBACK"
expect_problem 403 access_denied "user refuses the sign-in"
forward "$CALLBACK"
expect_problem 400 state_mismatch "the same callback after the refusal"
fresh_callback
forward "$(with_value error '<script>alert(1)</script>' "$CALLBACK")"
expect_problem 502 provider_error "unknown error together with a code"
if grep -q script "$work/body"; then not_ok "unknown error → its text is not echoed"; else ok "unknown error → its text is not echoed"; fi
forward "$CALLBACK"
expect_problem 400 state_mismatch "unchanged callback after the error"
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
expect_problem 400 code_rejected "the same invented code again"
no_call
forward "$CALLBACK"
expect_problem 400 state_mismatch "unchanged callback after the invented code"
no_call

step "12. The broker checks an app's verifier before it calls the provider (SEC-03)"
verifier=$(random_token)
device c-phone
start_login oidc ios "\"code_challenge\":\"$(s256 "$verifier")\",\"code_challenge_method\":\"S256\""
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_problem 400 invalid_request "forward without the app's verifier"
forward "$CALLBACK" "\"code_verifier\":\"$(random_token)\""
expect_problem 400 verifier_mismatch "forward with another verifier"
forward "$CALLBACK" "\"code_verifier\":\"${verifier:0:42}\""
expect_problem 400 invalid_request "verifier of 42 characters"
forward "$CALLBACK" "\"code_verifier\":\"$(printf 'v%.0s' $(seq 129))\""
expect_problem 400 invalid_request "verifier of 129 characters"
no_call
fresh_callback
forward "$CALLBACK" "\"code_verifier\":\"$verifier\""
expect_problem 400 invalid_request "verifier for a login whose verifier the broker holds"
no_call

step "13. State, login id and login token open no session (SEC-06)"
device d-phone
start_login oidc ios
for value in "$STATE" "$(json .login_id)" "$(cookie coatcheck-login)"; do
    JAR= request GET /v1/session -b "coatcheck=$value"
    expect_problem 401 session_required "state, login id or login token as the session cookie"
    JAR= request GET /v1/session -H "Authorization: Bearer $value"
    expect_problem 401 session_required "state, login id or login token as the bearer"
    post /v1/sessions "{\"handoff\":\"$value\"}"
    same 4 "${STATUS:0:1}" "state, login id or login token as a handoff → refused"
done

step "14. Refused starts of a login (SEC-02, SEC-07, SEC-08, SEC-92)"
start_login oidc ios '"redirect_uri":"com.evil.app:/cb"'
expect_problem 400 invalid_request "start with an unregistered redirect URI"
expect_json .errors[0].pointer /redirect_uri
start_login oidc ios '"scope":"openid admin"'
expect_problem 400 invalid_request "start with a scope beyond the client's"
start_login oidc ios '"parameters":{"redirect_uri":"https://evil.example"}'
expect_problem 400 invalid_request "start with a parameter reserved for the broker"
start_login oidc ios '"code_challenge":"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM","code_challenge_method":"plain"'
expect_problem 400 invalid_request "start with PKCE plain"
start_login oidc ios '"return":"evilapp://"'
expect_problem 400 invalid_request "start with an address to return to"
start_login nobody ios
expect_problem 404 provider_not_found "start with an unknown provider"
start_login oidc nobody
expect_problem 400 invalid_request "start with an unknown client"
expect_json .errors[0].pointer /client
post /v1/logins '{"provider":"oidc","client":"ios"}' -H 'Host: evil.example'
expect_problem 421 wrong_host "start with another Host"
post /v1/logins '{"provider":"oidc","client":"ios"}' -H 'X-Forwarded-Host: evil.example'
expect_status 201 "start with X-Forwarded-Host from an untrusted peer → 201"
same "com.example.app:/cb" "$(url_value redirect_uri "$(json .authorization_url)")" "untrusted X-Forwarded-Host → the same redirect URI"

finish
