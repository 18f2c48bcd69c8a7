#!/usr/bin/env bash
# Flow D: an arrival that the provider started never makes a session; it gets a new login instead.
source "$(dirname "$0")/support/lib.bash"
start_stack

step "1. A code without a state, as the app received it"
code=$(url_value code "$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=strict-app&redirect_uri=com.example.strict:/cb&scope=openid&sandbox_user=ana")")
forward "com.example.strict:/cb?code=$code&iss=$SANDBOX/oidc"
expect_problem 409 login_required "no state"
matches '^coatcheck-login=' "$(header Set-Cookie)" "the login cookie is set"
same "" "$(cookie coatcheck)" "no session"
same 0 "$(calls oidc/token)" "the code is never redeemed (SEC-15)"
url=$(json .login.authorization_url)
same "$(json .login.state)" "$(url_value state "$url")" "the fresh login has a state"

step "2. It finishes like any other"
browser "$url" ana
forward "$CALLBACK"
expect_status 201 "a session"

step "3. Two in a row do not loop"
device b-phone
forward "com.example.strict:/cb?code=c-1"
expect_problem 409 login_required "the first"
forward "com.example.strict:/cb?code=c-2"
expect_problem 400 invalid_callback "the second"

step "4. For a bearer client the login token is in the problem"
device c-phone
forward "com.example.android:/cb?code=c-1"
expect_problem 409 login_required "no state"
token=$(json .login.login_token)
matches '^[A-Za-z0-9_-]{43}$' "$token" "with a login_token"
browser "$(json .login.authorization_url)" ana
forward "$CALLBACK" "\"login_token\":\"$token\""
expect_status 201 "a session"

step "5. An attacker's code for a victim's device"
device victim
before=$(calls oidc/token)
forward "com.example.app:/cb?code=$(url_value code "$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid&sandbox_user=mallory")")"
expect_problem 409 login_required "nobody becomes mallory"
same "$before" "$(calls oidc/token)" "and nothing was redeemed for it"

step "6. A URL that belongs to nobody"
forward "com.nobody:/cb?code=c-1"
expect_problem 400 invalid_callback "an unknown redirect URI"

finish
