#!/usr/bin/env bash
# Flow D: an arrival, which is a callback without a state, never makes a session by itself. The app gets a new login instead.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. The app forwards a code without a state, as it received it"
code=$(url_value code "$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=strict-app&redirect_uri=com.example.strict:/cb&scope=openid&sandbox_user=ana")")
forward "com.example.strict:/cb?code=$code&iss=$SANDBOX/oidc"
expect_problem 409 login_required "app forwards a code without a state"
matches '^coatcheck-login=' "$(header Set-Cookie)" "app forwards a code without a state → the answer sets a login cookie"
same "" "$(cookie coatcheck)" "app forwards a code without a state → the answer sets no session cookie"
same 0 "$(calls oidc/token)" "app forwards a code without a state → no token call (SEC-15)"
url=$(json .login.authorization_url)
same "$(json .login.state)" "$(url_value state "$url")" "app forwards a code without a state → the new login has a state"

step "2. The new login can be finished like any other login"
browser "$url" ana
forward "$CALLBACK"
expect_status 201 "code without a state got 409 with a new login, and the user finishes this login → a session"

step "3. A second code without a state in a row starts no further login"
device b-phone
forward "com.example.strict:/cb?code=c-1"
expect_problem 409 login_required "app forwards a first code without a state"
forward "com.example.strict:/cb?code=c-2"
expect_problem 400 invalid_callback "app forwards a code without a state for the second time in a row"

step "4. For a bearer client, the 409 contains the new login's login token"
device c-phone
forward "com.example.android:/cb?code=c-1"
expect_problem 409 login_required "bearer client's app forwards a code without a state"
token=$(json .login.login_token)
matches '^[A-Za-z0-9_-]{43}$' "$token" "bearer client's app forwards a code without a state → the 409 has a login_token"
browser "$(json .login.authorization_url)" ana
forward "$CALLBACK" "\"login_token\":\"$token\""
expect_status 201 "bearer client's code without a state got 409 with a new login, and the user finishes this login → a session"

step "5. An attacker's code for a victim's device"
device victim
before=$(calls oidc/token)
forward "com.example.app:/cb?code=$(url_value code "$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid&sandbox_user=mallory")")"
expect_problem 409 login_required "attacker's code without a state, forwarded by the victim's device"
same "$before" "$(calls oidc/token)" "attacker's code without a state, forwarded by the victim's device → zero token calls"

step "6. A URL that no client has registered"
forward "com.nobody:/cb?code=c-1"
expect_problem 400 invalid_callback "app forwards a code at an unknown redirect URI"

finish
