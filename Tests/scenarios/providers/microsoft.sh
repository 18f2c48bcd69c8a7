#!/usr/bin/env bash
# Microsoft has one registration for all tenants. Each token has the issuer of its user's tenant, and the issuer has to match
# the token's tid.
source "$(dirname "$0")/../support/lib.bash"
start_stack

ours=11111111-2222-4333-8444-555555555555
foreign=99999999-2222-4333-8444-555555555555

step "1. A login, and the exact token request"
start_login microsoft ios
expect_status 201 "start of a Microsoft login → 201"
matches "^$SANDBOX/microsoft/common/oauth2/v2\.0/authorize\?" "$AUTHORIZATION_URL" "Microsoft's authorization URL → its path has “common” in place of a tenant's id"
same "openid email profile offline_access" "$(url_value scope "$AUTHORIZATION_URL")" "Microsoft's authorization URL → has the preset's scope"
same S256 "$(url_value code_challenge_method "$AUTHORIZATION_URL")" "Microsoft's authorization URL → has code_challenge_method S256"
matches '.' "$(url_value nonce "$AUTHORIZATION_URL")" "Microsoft's authorization URL → has a nonce"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201 "callback from Microsoft → a session"
expect_json .subject user-ana "Microsoft session of ana → its subject is user-ana"
expect_json .identity.name "Ana Example" "Microsoft session of ana → its identity has her name"
expect_json .tokens.refreshable true "Microsoft session → refreshable"
sandbox GET '/requests?provider=microsoft&endpoint=token'
same "POST /microsoft/common/oauth2/v2.0/token" "$(json '[0].method' "$work/control") $(json '[0].path' "$work/control")" "Microsoft's token request → is a POST to the token endpoint from the metadata"
same "grant_type code redirect_uri code_verifier client_id" "$(form_names)" "Microsoft's token request → has exactly grant_type, code, redirect_uri, code_verifier and client_id"
same "" "$(sent_header Authorization)" "Microsoft's token request of a public client → has no Authorization field"

step "2. Each tenant's token contains its own issuer"
device b-phone
sandbox PUT /users/ben "{\"tenant\":\"$foreign\"}"
sign_in microsoft ios ben
expect_status 201 "user of another tenant signs in, and the client has no list of tenants → a session"
expect_json .subject user-ben "Microsoft session of ben → its subject is user-ben"
device c-phone
sign_in microsoft work ben
expect_problem 502 identity_rejected "user's tenant is missing from the client's list of tenants (SEC-28)"
sign_in microsoft work ana
expect_status 201 "user's tenant is on the client's list of tenants → a session"

# refused FAULT SENTENCE: checks that a login with a wrong id_token is refused, and refused again if its forward is repeated
refused() {
    device "phone-$RANDOM$RANDOM"
    fault microsoft "$1"
    sign_in microsoft ios ana
    expect_problem 502 identity_rejected "$2"
    sandbox DELETE /faults
    local before
    before=$(calls microsoft/token)
    forward "$CALLBACK"
    expect_problem 502 identity_rejected "app repeats a forward whose id_token was refused ($2)"
    same "$before" "$(calls microsoft/token)" "app repeats a forward whose id_token was refused ($2) → no further token call"
}

step "3. An id_token whose issuer does not match its tenant id, tid (SEC-28)"
refused "{\"fault\":\"claims\",\"value\":{\"iss\":\"$SANDBOX/microsoft/$foreign/v2.0\"}}" "ana's id_token with another tenant's issuer"
refused '{"fault":"wrong-tid"}' "id_token with the issuer of ana's tenant and another tenant's tid"
refused '{"fault":"missing-tid"}' "id_token without a tid"
refused "{\"fault\":\"claims\",\"value\":{\"iss\":\"$SANDBOX/microsoft/{tenantid}/v2.0\"}}" "id_token whose issuer is the template with {tenantid}"
refused "{\"fault\":\"claims\",\"value\":{\"iss\":\"$SANDBOX/microsoft/common/v2.0\",\"tid\":\"common\"}}" "id_token whose issuer and tid name common instead of a tenant"
refused "{\"fault\":\"claims\",\"value\":{\"iss\":\"$SANDBOX/microsoft/$ours/../$ours/v2.0\",\"tid\":\"$ours/../$ours\"}}" "id_token with a path as tid"
refused '{"fault":"nonce-invalid"}' "id_token with another login's nonce"
refused '{"fault":"invalid-aud"}' "id_token whose audience is another app"

step "4. Other refusals"
refusals microsoft ios
expect_json .code code_rejected "token error in Microsoft's format (AADSTS) → code_rejected"

step "5. A refresh"
device a-phone
request POST /v1/session/refresh
expect_status 200 "refresh of a Microsoft session → 200"
sandbox GET '/requests?provider=microsoft&endpoint=refresh'
same "grant_type refresh_token client_id" "$(form_names)" "Microsoft's refresh request → has exactly grant_type, refresh_token and client_id"

step "6. A log-out calls only Microsoft's end_session endpoint, with the id_token"
log_out
told microsoft/end_session 1
sandbox GET '/requests?provider=microsoft'
same "end_session" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "log-out of a Microsoft session → one end_session call and no other call"
same "POST /microsoft/common/oauth2/v2.0/logout 200" "$(jq -r '.[0] | "\(.method) \(.path) \(.status)"' "$work/control")" "Microsoft's end_session call → is a POST, which Microsoft answers with 200"
same "id_token_hint client_id" "$(form_names)" "Microsoft's end_session call → has exactly id_token_hint and client_id"
sid=$(jq -r '.[0].body | capture("id_token_hint=[^.]+\\.(?<claims>[^.]+)").claims | gsub("-"; "+") | gsub("_"; "/")
    | . + ["", "", "==", "="][length % 4] | @base64d | fromjson.sid' "$work/control")
sandbox GET '/tokens?provider=microsoft'
same "true 0" "$(jq -r --arg sid "$sid" '[.[] | select(.sid == $sid)] | "\(length > 1) \([.[] | select(.live)] | length)"' "$work/control")" "log-out of a Microsoft session → Microsoft accepts none of its tokens"

finish
