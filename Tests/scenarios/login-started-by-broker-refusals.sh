#!/usr/bin/env bash
# Flow A, refused: the callbacks that a login of the broker does not accept. No refusal may cost a call at the provider. (A
# login that is 601 seconds old is `login_expired`; the tests in Swift move the clock for that.)
source "$(dirname "$0")/support/lib.bash"
start_stack

# fresh_callback: starts a login of a new device (a device may have 8 pending), and walks it up to the provider's return
fresh_callback() {
    phone="phone-$RANDOM$RANDOM"
    device "$phone"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" "${1:-ana}"
}

no_call() { same "$before" "$(calls oidc/token)" "no call at the provider"; }
before=$(calls oidc/token)

step "1. A stranger has the callback URL, but is not the one who started (SEC-05)"
fresh_callback
device a-stranger
forward "$CALLBACK"
expect_problem 403 login_not_yours "another device"
device "$phone"
forward "$CALLBACK"
expect_problem 400 state_mismatch "the login is burned for its starter too"
no_call

step "2. A stranger with a login of his own"
fresh_callback
callback=$CALLBACK
device a-stranger
start_login oidc ios
forward "$callback"
expect_problem 403 login_not_yours "another's login token"
no_call

step "3. A callback without a state never makes a session (SEC-04, SEC-15)"
fresh_callback
forward "$(with_value state - "$CALLBACK")"
expect_problem 409 login_required "no state"
matches '^lgn_' "$(json .login.login_id)" "a fresh login comes with the refusal"
matches 'state=' "$(json .login.authorization_url)" "its URL has a state of its own"
forward "$(with_value state - "$CALLBACK")"
expect_problem 400 invalid_callback "a second one in a row does not loop"
no_call
fresh_callback
forward "$(with_value state "" "$CALLBACK")"
expect_problem 409 login_required "an empty state"
no_call

step "4. A state that the broker never made"
fresh_callback
forward "$(with_value state "$(random_token)" "$CALLBACK")"
expect_problem 400 state_mismatch "an unknown state"
forward "$(with_value state "${STATE}x" "$CALLBACK")"
expect_problem 400 state_mismatch "a state with one character more"
no_call

step "5. A parameter that stands twice is never first-wins or last-wins (SEC-11)"
fresh_callback
for name in code state iss; do
    forward "$CALLBACK&$name=second"
    expect_problem 400 invalid_callback "two times $name"
    expect_json .errors[0].code duplicate
done
no_call

step "6. The issuer (RFC 9207, SEC-09)"
fresh_callback
forward "$(with_value iss "$SANDBOX/oidc/" "$CALLBACK")"
expect_problem 400 issuer_mismatch "one slash more"
forward "$(with_value iss - "$CALLBACK")"
expect_problem 400 issuer_mismatch "left out although the metadata promises it"
forward "$(with_value iss "https://evil.example" "$CALLBACK")"
expect_problem 400 issuer_mismatch "somebody else's"
no_call
forward "$CALLBACK"
expect_status 201 "the true callback still works"
before=$(calls oidc/token)

step "7. The redirect URI is compared byte for byte before any parameter is read (SEC-12)"
fresh_callback
query=${CALLBACK#*\?}
for target in com.evil.app:/cb com.example.app:/cb/ com.example.app:/CB com.example.app:/cb/../cb com.example.app://cb \
    https://com.example.app/cb https://app.example.org@evil.example/cb https://app.example.org:0000000443/cb; do
    forward "$target?$query"
    expect_problem 400 invalid_callback "$target"
done
forward "$CALLBACK#fragment"
expect_problem 400 invalid_callback "a fragment"
forward "com.example.app:\\cb?$query"
same 400 "$STATUS" "a backslash: 400"
no_call

step "8. A token in the callback is dropped unread (SEC-01)"
fresh_callback
forward "$CALLBACK&access_token=at-canary-implicit"
expect_problem 400 invalid_callback "an access token"
if grep -q canary "$work/body"; then not_ok "it is not echoed"; else ok "it is not echoed"; fi
no_call

step "9. The provider says no; an error ends the login even with a code beside it (SEC-13)"
start_login oidc ios
browser "$AUTHORIZATION_URL" denied
forward "$CALLBACK"
expect_problem 403 access_denied "the user refused"
forward "$CALLBACK"
expect_problem 400 state_mismatch "the login is over"
fresh_callback
forward "$(with_value error '<script>alert(1)</script>' "$CALLBACK")"
expect_problem 502 provider_error "an error nobody knows, with a code"
if grep -q script "$work/body"; then not_ok "its text is not echoed"; else ok "its text is not echoed"; fi
forward "$CALLBACK"
expect_problem 400 state_mismatch "the login is over"
no_call

step "10. One provider's state at another provider's callback (SEC-09)"
start_login oauth2 ios
other=$STATE
fresh_callback
forward "$(with_value state "$other" "$CALLBACK")"
expect_problem 400 invalid_callback "another provider's login"
no_call

step "11. A code that the provider does not know"
fresh_callback
forward "$(with_value code c-invented "$CALLBACK")"
expect_problem 400 code_rejected "an invented code"
before=$(calls oidc/token)
forward "$(with_value code c-invented "$CALLBACK")"
expect_problem 400 code_rejected "the same again"
no_call
forward "$CALLBACK"
expect_problem 400 state_mismatch "the login was used up by it"
no_call

step "12. The app holds the verifier: the broker checks it itself, before the provider is asked (SEC-03)"
verifier=$(random_token)
device c-phone
start_login oidc ios "\"code_challenge\":\"$(s256 "$verifier")\",\"code_challenge_method\":\"S256\""
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_problem 400 invalid_request "no verifier"
forward "$CALLBACK" "\"code_verifier\":\"$(random_token)\""
expect_problem 400 verifier_mismatch "another verifier"
forward "$CALLBACK" "\"code_verifier\":\"${verifier:0:42}\""
expect_problem 400 invalid_request "42 characters"
forward "$CALLBACK" "\"code_verifier\":\"$(printf 'v%.0s' $(seq 129))\""
expect_problem 400 invalid_request "129 characters"
no_call
fresh_callback
forward "$CALLBACK" "\"code_verifier\":\"$verifier\""
expect_problem 400 invalid_request "a verifier where the broker holds it"
no_call

step "13. State, login id and login token open no session (SEC-06)"
device d-phone
start_login oidc ios
for value in "$STATE" "$(json .login_id)" "$(cookie coatcheck-login)"; do
    JAR= request GET /v1/session -b "coatcheck=$value"
    expect_problem 401 session_required "as the cookie"
    JAR= request GET /v1/session -H "Authorization: Bearer $value"
    expect_problem 401 session_required "as the bearer"
    post /v1/sessions "{\"handoff\":\"$value\"}"
    same 4 "${STATUS:0:1}" "as a handoff: refused"
done

step "14. What a login may ask for, and where it may lead (SEC-02, SEC-07, SEC-08, SEC-92)"
start_login oidc ios '"redirect_uri":"com.evil.app:/cb"'
expect_problem 400 invalid_request "a redirect URI that is not registered"
expect_json .errors[0].pointer /redirect_uri
start_login oidc ios '"scope":"openid admin"'
expect_problem 400 invalid_request "a scope beyond the client's"
start_login oidc ios '"parameters":{"redirect_uri":"https://evil.example"}'
expect_problem 400 invalid_request "a parameter that only the broker sets"
start_login oidc ios '"code_challenge":"E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM","code_challenge_method":"plain"'
expect_problem 400 invalid_request "PKCE plain"
start_login oidc ios '"return":"evilapp://"'
expect_problem 400 invalid_request "a place to return to"
start_login nobody ios
expect_problem 404 provider_not_found "an unknown provider"
start_login oidc nobody
expect_problem 400 invalid_request "an unknown client"
expect_json .errors[0].pointer /client
post /v1/logins '{"provider":"oidc","client":"ios"}' -H 'Host: evil.example'
expect_problem 421 wrong_host "another Host"
post /v1/logins '{"provider":"oidc","client":"ios"}' -H 'X-Forwarded-Host: evil.example'
expect_status 201 "X-Forwarded-Host from nobody we trust"
same "com.example.app:/cb" "$(url_value redirect_uri "$(json .authorization_url)")" "changes nothing"

finish
