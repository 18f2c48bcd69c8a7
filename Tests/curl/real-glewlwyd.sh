#!/usr/bin/env bash
# Log-out, PAR and signed proofs against Glewlwyd, an OpenID provider that nobody here wrote: its metadata lists Basic for
# revocation, and it takes what the client is registered for; an assertion has to be made for the endpoint that is called.
source "$(dirname "$0")/lib.bash"
[ -x /usr/bin/glewlwyd ] || give_up "glewlwyd (scripts/setup test installs it)"

python3 "$root/Tests/blackbox/glewlwyd_provider.py" "$work/provider" >"$work/provider.out" 2>"$work/provider.log" &
pids+=($!)
wait_for 90 grep -q issuer "$work/provider.out" || give_up "the OpenID provider"
OPENID_PROVIDER=$(json .issuer "$work/provider.out")
session=$(json .session "$work/provider.out")
start_stack "$here/glewlwyd.yaml"

# userinfo: the status that the provider answers the access token with
userinfo() { curl -s -m 20 -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $1" "$OPENID_PROVIDER/userinfo"; }

# revoked N: so many tokens' revocations were taken by the provider
revoked() { shows "^coatcheck_revocations_total\{provider=\"glewlwyd\",result=\"done\"\} $1\$"; }

# log_in CLIENT: a whole login; ACCESS is its access token
log_in() {
    start_login glewlwyd "$1"
    expect_status 201 "the login has begun"
    CALLBACK=$(location "$AUTHORIZATION_URL" -H "Cookie: $session")
    matches "^com\.example\.$1:/cb\?.*code=.*iss=" "$CALLBACK" "back at the app, with a code and iss"
    forward "$CALLBACK"
    expect_status 201 "a session"
    expect_json .identity.email ana@example.org
    expect_json .tokens.refreshable true
    post /v1/session/refresh '{}'
    expect_status 200 "refreshed"
    post /v1/session/token '{}'
    ACCESS=$(json .access_token)
    same 200 "$(userinfo "$ACCESS")" "the access token is good at the provider"
}

# log_out N: the session ends, and after so many revocations its token is good no more
log_out() {
    request DELETE /v1/session
    expect_status 204 "logged out"
    wait_for 20 revoked "$1"
    same 0 $? "the revocation is done"
    same 401 "$(userinfo "$ACCESS")" "the access token is revoked at the provider"
}

step "1. The metadata is wrong about revocation: a client with client_secret_post (SEC-63)"
matches '"revocation_endpoint_auth_methods_supported":\["client_secret_basic"\]' \
    "$(curl -s "$OPENID_PROVIDER/.well-known/openid-configuration" | jq -c .)" "it lists Basic alone"
log_in posting
log_out 1
log_in posting
log_out 2

step "2. private_key_jwt with audience: endpoint, and pushed requests (SEC-10, SEC-19)"
device a-tablet
log_in signing
matches 'request_uri=' "$AUTHORIZATION_URL" "the request was pushed"
log_out 3

step "3. check --online has nothing to say against it"
"$COATCHECK" check --config "$work/coatcheck.yaml" --online >"$work/body" 2>&1
same 0 $? "status 0"
if grep -q FAULT "$work/body"; then not_ok "no fault" "$(grep FAULT "$work/body")"; else ok "no fault"; fi

finish
