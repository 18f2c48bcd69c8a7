#!/usr/bin/env bash
# Flows A and B against Canaille, an OpenID provider from another project. PYTHON is an interpreter that has Canaille installed
# (Tests/scenarios/support/setup makes one).
source "$(dirname "$0")/../support/lib.bash"

# real_post JSON: posts to /v1/sessions, and repeats after a 503 as an app does. Canaille answers 500 if one user and client get
# a second token within the same second, and the code stays valid.
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
expect_status 201 "start of a login at Canaille → 201"
real_browser "$AUTHORIZATION_URL"
matches '^com\.example\.real:/cb\?.*iss=' "$CALLBACK" "user signs in at Canaille → the browser returns to the app with iss"
forward "$CALLBACK"
expect_status 201 "public client's callback forwarded → a session"
expect_json .subject ana "public client's session → its subject is ana"
expect_json .identity.name "Ana Example" "public client's session → its identity has ana's name"
expect_json .identity.email ana@example.org "public client's session → its identity has ana's e-mail address"
expect_json .tokens.refreshable true "public client's session → refreshable"
handle=$(json .handle)
get /v1/session
expect_status 200 "app reads its session → 200"
forward "$CALLBACK"
expect_status 201 "public client's callback forwarded a second time → 201"
expect_json .handle "$handle" "public client's callback forwarded a second time → the same session handle"

step "2. The broker refuses changed callbacks and a callback from another device"
start_login real ios
real_browser "$AUTHORIZATION_URL"
forward "$(with_value iss "$OPENID_PROVIDER/" "$CALLBACK")"
expect_problem 400 issuer_mismatch "Canaille's callback, whose iss has one slash too many"
forward "$(with_value code invented "$CALLBACK")"
expect_problem 400 code_rejected "Canaille's callback with an invented code"
start_login real ios
real_browser "$AUTHORIZATION_URL"
device a-stranger
forward "$CALLBACK"
expect_problem 403 login_not_yours "Canaille's callback, forwarded by another device"

step "3. Flow A with a confidential client and reserved characters in its secret"
device a-browser
start_login real web
real_browser "$AUTHORIZATION_URL"
forward "$CALLBACK"
expect_status 201 "confidential client's callback forwarded → a session"
expect_json .client web "confidential client's session → its client is web"

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
expect_status 201 "login that the app started (flow B), and the app sends the right verifier → a session"
expect_json .subject ana "session from a login that the app started (flow B) → its subject is ana"
app_login
real_post "{\"provider\":\"real\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$(random_token)\",\"nonce\":\"$nonce\"}"
expect_problem 400 code_rejected "login that the app started (flow B), and the app sends another verifier, which Canaille refuses"
app_login
real_post "{\"provider\":\"real\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$verifier\",\"nonce\":\"$(random_token)\"}"
expect_problem 502 identity_rejected "login that the app started (flow B), and the app sends a nonce that differs from the id_token's nonce"

step "5. The log-out of a user's last session also ends the session at Canaille"
request DELETE '/v1/sessions?except=current'
expect_status 204 "user ends all other sessions at Canaille → 204"
request DELETE /v1/session
expect_status 204 "user logs out of the last session at Canaille → 204"
wait_for 10 shows '^coatcheck_revocations_total\{.*real.*done.* [1-9]'
same 0 $? "log-out of the last session → the session's tokens are revoked at Canaille"
wait_for 10 shows '^coatcheck_provider_session_ends_total\{.*real.*done.* [1-9]'
same 0 $? "log-out of the last session → Canaille accepts end_session"

finish
