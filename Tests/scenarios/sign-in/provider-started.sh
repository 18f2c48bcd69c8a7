#!/usr/bin/env bash
# Flow D: an arrival never makes a session by itself. The app gets a new login instead.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. A code without a state, in the form in which the app received it"
code=$(url_value code "$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=strict-app&redirect_uri=com.example.strict:/cb&scope=openid&sandbox_user=ana")")
forward "com.example.strict:/cb?code=$code&iss=$SANDBOX/oidc"
expect_problem 409 login_required "code without a state"
matches '^coatcheck-login=' "$(header Set-Cookie)" "code without a state → sets a login cookie"
same "" "$(cookie coatcheck)" "code without a state → sets no session cookie"
same 0 "$(calls oidc/token)" "code without a state → no token call (SEC-15)"
url=$(json .login.authorization_url)
same "$(json .login.state)" "$(url_value state "$url")" "code without a state → the new login has a state"

step "2. The new login can be finished like any other login"
browser "$url" ana
forward "$CALLBACK"
expect_status 201 "new login finished → a session"

step "3. A second code without a state in a row starts no further login"
device b-phone
forward "com.example.strict:/cb?code=c-1"
expect_problem 409 login_required "first code without a state"
forward "com.example.strict:/cb?code=c-2"
expect_problem 400 invalid_callback "second code without a state in a row"

step "4. For a bearer client the login token is in the problem"
device c-phone
forward "com.example.android:/cb?code=c-1"
expect_problem 409 login_required "bearer client's code without a state"
token=$(json .login.login_token)
matches '^[A-Za-z0-9_-]{43}$' "$token" "bearer client → the problem has a login_token"
browser "$(json .login.authorization_url)" ana
forward "$CALLBACK" "\"login_token\":\"$token\""
expect_status 201 "bearer client finishes the new login → a session"

step "5. An attacker's code for a victim's device"
device victim
before=$(calls oidc/token)
forward "com.example.app:/cb?code=$(url_value code "$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid&sandbox_user=mallory")")"
expect_problem 409 login_required "attacker's code forwarded by the victim's device"
same "$before" "$(calls oidc/token)" "attacker's code → no token call"

step "6. A URL that no client has registered"
forward "com.nobody:/cb?code=c-1"
expect_problem 400 invalid_callback "code at an unknown redirect URI"

finish
