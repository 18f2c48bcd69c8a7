#!/usr/bin/env bash
# Flows A and B against Canaille, an OpenID provider from another project. PYTHON is an interpreter that has it
# (Tests/scenarios/support/setup makes one).
source "$(dirname "$0")/../support/lib.bash"

# real_post JSON: posts, and repeats like an app after a 503. This server answers 500 if one user and client get a second token
# within the same second. The code can then still be used.
real_post() {
    for _ in 1 2 3; do
        post /v1/sessions "$1"
        [ "$STATUS" = 503 ] || return 0
        sleep 1.1
    done
}
forward() { real_post "{\"callback_url\":$(json_text "$1")${2:+,$2}}"; }
with_packages

"$PYTHON" "$root/Tests/scenarios/support/openid_provider.py" --port 0 --redirect-uri com.example.real:/cb --redirect-uri com.example.realweb:/cb \
    >"$work/provider.out" 2>"$work/provider.log" &
pids+=($!)
wait_for 150 grep -q issuer "$work/provider.out" || give_up "the OpenID provider"
OPENID_PROVIDER=$(json .issuer "$work/provider.out")
wait_for 60 curl -sf "$OPENID_PROVIDER/.well-known/openid-configuration" || give_up "the OpenID provider"
start_stack

# real_browser URL: signs Ana in with her password the first time; CALLBACK is the provider's redirect
real_browser() {
    local jar="$work/browser.jar" token
    CALLBACK=$(location "$1" -b "$jar" -c "$jar")
    case $CALLBACK in */login*)
        token=$(curl -s -b "$jar" -c "$jar" "$OPENID_PROVIDER/login" | grep -o 'name="csrf_token"[^>]*value="[^"]*"' | head -1 | sed 's/.*value="//;s/"//')
        curl -s -b "$jar" -c "$jar" -o /dev/null "$OPENID_PROVIDER/login" --data-urlencode "csrf_token=$token" -d login=ana
        curl -s -b "$jar" -c "$jar" -o /dev/null "$OPENID_PROVIDER/auth/password" --data-urlencode "csrf_token=$token" \
            --data-urlencode "password=correct horse battery staple"
        CALLBACK=$(location "$1" -b "$jar" -c "$jar")
        ;;
    esac
}

step "1. Flow A with a public client"
start_login real ios
expect_status 201 "start of a login → 201"
real_browser "$AUTHORIZATION_URL"
matches '^com\.example\.real:/cb\?.*iss=' "$CALLBACK" "after the sign-in → the browser returns to the app with iss"
forward "$CALLBACK"
expect_status 201 "public client's callback forwarded → a session"
expect_json .subject ana
expect_json .identity.name "Ana Example"
expect_json .identity.email ana@example.org
expect_json .tokens.refreshable true
handle=$(json .handle)
get /v1/session
expect_status 200
forward "$CALLBACK"
expect_status 201 "a callback forwarded twice → 201"
expect_json .handle "$handle"

step "2. Refusals"
start_login real ios
real_browser "$AUTHORIZATION_URL"
forward "$(with_value iss "$OPENID_PROVIDER/" "$CALLBACK")"
expect_problem 400 issuer_mismatch "callback whose iss has one slash too many"
forward "$(with_value code invented "$CALLBACK")"
expect_problem 400 code_rejected "callback with an invented code"
start_login real ios
real_browser "$AUTHORIZATION_URL"
device a-stranger
forward "$CALLBACK"
expect_problem 403 login_not_yours "callback forwarded by another device"

step "3. Flow A with a confidential client and reserved characters in its secret"
device a-browser
start_login real web
real_browser "$AUTHORIZATION_URL"
forward "$CALLBACK"
expect_status 201 "confidential client's callback forwarded → a session"
expect_json .client web

step "4. Flow B: the app's own state, nonce and verifier"
device a-tablet
app_login() {
    verifier=$(random_token)
    state=$(random_token)
    nonce=$(random_token)
    real_browser "$OPENID_PROVIDER/oauth/authorize?response_type=code&client_id=mobile-app&redirect_uri=com.example.real:/cb&scope=openid+profile+email+offline_access&state=$state&nonce=$nonce&code_challenge=$(s256 "$verifier")&code_challenge_method=S256"
}
app_login
real_post "{\"provider\":\"real\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\"}"
expect_status 201 "flow B with its own verifier → a session"
expect_json .subject ana
app_login
real_post "{\"provider\":\"real\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$(random_token)\",\"nonce\":\"$nonce\"}"
expect_problem 400 code_rejected "flow B with another verifier, which the provider refuses"
app_login
real_post "{\"provider\":\"real\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$verifier\",\"nonce\":\"$(random_token)\"}"
expect_problem 502 identity_rejected "flow B with another nonce"

step "5. The log-out of the last session also ends the provider's session"
request DELETE '/v1/sessions?except=current'
expect_status 204
request DELETE /v1/session
expect_status 204
wait_for 10 shows '^coatcheck_revocations_total\{.*real.*done.* [1-9]'
same 0 $? "log-out of the last session → tokens are revoked"
wait_for 10 shows '^coatcheck_provider_session_ends_total\{.*real.*done.* [1-9]'
same 0 $? "log-out of the last session → the provider accepts end_session"

finish
