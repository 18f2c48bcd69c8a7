#!/usr/bin/env bash
# Microsoft: one registration for all tenants. Each token's issuer belongs to the user's own tenant, and has to fit its tid.
source "$(dirname "$0")/support/lib.bash"
start_stack

ours=11111111-2222-4333-8444-555555555555
foreign=99999999-2222-4333-8444-555555555555

step "1. A login, and the exact token request"
start_login microsoft ios
expect_status 201
matches "^$SANDBOX/microsoft/common/oauth2/v2\.0/authorize\?" "$AUTHORIZATION_URL" "the URL names no tenant"
same "openid email profile offline_access" "$(url_value scope "$AUTHORIZATION_URL")" "the preset's scope"
same S256 "$(url_value code_challenge_method "$AUTHORIZATION_URL")" "S256"
matches '.' "$(url_value nonce "$AUTHORIZATION_URL")" "a nonce"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201 "a session"
expect_json .subject user-ana
expect_json .identity.name "Ana Example"
expect_json .tokens.refreshable true
sandbox GET '/requests?provider=microsoft&endpoint=token'
same "POST /microsoft/common/oauth2/v2.0/token" "$(json '[0].method' "$work/control") $(json '[0].path' "$work/control")" "POST, at the address that the metadata names"
same "grant_type code redirect_uri code_verifier client_id" "$(form_names)" "its fields"
same "" "$(sent_header Authorization)" "no Authorization from a public client"

step "2. Each tenant's token carries its own issuer"
device b-phone
sandbox PUT /users/ben "{\"tenant\":\"$foreign\"}"
sign_in microsoft ios ben
expect_status 201 "a user of another tenant signs in"
expect_json .subject user-ben
device c-phone
sign_in microsoft work ben
expect_problem 502 identity_rejected "a client that names its tenants does not take him (SEC-28)"
sign_in microsoft work ana
expect_status 201 "it takes ana, whose tenant is named"

# refused FAULT SENTENCE: a login whose id_token is wrong, and its forward repeated once
refused() {
    device "phone-$RANDOM$RANDOM"
    fault microsoft "$1"
    sign_in microsoft ios ana
    expect_problem 502 identity_rejected "$2"
    sandbox DELETE /faults
    local before
    before=$(calls microsoft/token)
    forward "$CALLBACK"
    expect_problem 502 identity_rejected "and the same again"
    same "$before" "$(calls microsoft/token)" "without a call"
}

step "3. An issuer that is not its tid's (SEC-28)"
refused "{\"fault\":\"claims\",\"value\":{\"iss\":\"$SANDBOX/microsoft/$foreign/v2.0\"}}" "ana's token, issued by another tenant"
refused '{"fault":"wrong-tid"}' "her tenant's issuer, another tenant's tid"
refused '{"fault":"missing-tid"}' "no tid"
refused "{\"fault\":\"claims\",\"value\":{\"iss\":\"$SANDBOX/microsoft/{tenantid}/v2.0\"}}" "the template itself as issuer"
refused "{\"fault\":\"claims\",\"value\":{\"iss\":\"$SANDBOX/microsoft/common/v2.0\",\"tid\":\"common\"}}" "the configured issuer, which is nobody's"
refused "{\"fault\":\"claims\",\"value\":{\"iss\":\"$SANDBOX/microsoft/$ours/../$ours/v2.0\",\"tid\":\"$ours/../$ours\"}}" "a tid that is a path"
refused '{"fault":"nonce-invalid"}' "another login's nonce"
refused '{"fault":"invalid-aud"}' "another app's token"

step "4. Other refusals"
refusals microsoft ios
expect_json .code code_rejected "Microsoft's own error shape (AADSTS) is a refusal"

step "5. A refresh"
device a-phone
request POST /v1/session/refresh
expect_status 200
sandbox GET '/requests?provider=microsoft&endpoint=refresh'
same "grant_type refresh_token client_id" "$(form_names)" "its fields"

step "6. Log out: no token can be revoked there; the log-out page is shown the id_token"
log_out
told microsoft/end_session 1
sandbox GET '/requests?provider=microsoft'
same "end_session" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "one call, and no other"
same "POST /microsoft/common/oauth2/v2.0/logout 200" "$(jq -r '.[0] | "\(.method) \(.path) \(.status)"' "$work/control")" "POST, and it took the hint"
same "id_token_hint client_id" "$(form_names)" "its fields"
sid=$(jq -r '.[0].body | capture("id_token_hint=[^.]+\\.(?<claims>[^.]+)").claims | gsub("-"; "+") | gsub("_"; "/")
    | . + ["", "", "==", "="][length % 4] | @base64d | fromjson.sid' "$work/control")
sandbox GET '/tokens?provider=microsoft'
same "true 0" "$(jq -r --arg sid "$sid" '[.[] | select(.sid == $sid)] | "\(length > 1) \([.[] | select(.live)] | length)"' "$work/control")" "the tokens of that session are dead there"

finish
