#!/usr/bin/env bash
# Clever: both clients, the exact token request, launches without a state, HTML errors, no refresh.
source "$(dirname "$0")/support/lib.bash"
start_stack

step "1. The legacy iOS client, with a blank secret"
start_login clever ios
expect_status 201
same "" "$(url_value code_challenge "$AUTHORIZATION_URL")" "no PKCE"
matches '.' "$(url_value state "$AUTHORIZATION_URL")" "a state"
browser "$AUTHORIZATION_URL" ana
matches '^clever-ios-0001://oauth\?' "$CALLBACK" "back at the app"
forward "$CALLBACK"
expect_status 201 "a session"
matches '^65000000' "$(json .subject)" "the subject is the v3 id"
expect_json .identity.role student
expect_json .identity.district 650000000000000000000d01
expect_json .identity.email ana@example.org
expect_json .tokens.refreshable false
same "$(json .tokens.expires_at)" "$(json .expires_at)" "the session ends with the token"
handle=$(json .handle)
sandbox GET '/requests?provider=clever&endpoint=token'
same POST "$(json '[0].method' "$work/control")" "the token request: POST"
same /clever/oauth/tokens "$(json '[0].path' "$work/control")" "/oauth/tokens"
python3 -c 'import json, sys
for name, value in json.load(open(sys.argv[1]))[0]["headers"]: print(name.lower() + ": " + value)' "$work/control" >"$work/sent"
same "authorization: Basic $(printf 'ios-0001:' | base64)" "$(grep ^authorization "$work/sent")" "Basic with the blank secret"
same "content-type: application/json" "$(grep ^content-type "$work/sent")" "JSON"
json '[0].body' "$work/control" >"$work/token.json"
same '["code", "grant_type", "redirect_uri"]' "$(python3 -c 'import json, sys; print(json.dumps(sorted(json.load(open(sys.argv[1])))))' "$work/token.json")" "code, grant_type, redirect_uri and nothing else"

step "2. Safari and the app both deliver the code: one call, one session"
forward "$CALLBACK"
expect_status 201
expect_json .handle "$handle"
same 1 "$(calls clever/token)" "one call"
device a-stranger
forward "$CALLBACK"
expect_problem 409 code_already_used "a stranger"
same 1 "$(calls clever/token)" "still one call"

step "3. There is nothing to refresh"
device a-phone
request POST /v1/session/refresh
expect_problem 409 not_refreshable "refresh"

step "4. The web client, with a secret"
device a-browser
start_login clever web '"parameters":{"district_id":"650000000000000000000d01"}'
expect_problem 400 invalid_request "district_id is not on this client's list"
sign_in clever web ben
expect_status 201
expect_json .identity.email ben@example.org
start_login clever district '"parameters":{"district_id":"650000000000000000000d01"}'
expect_status 201 "a client that lists it"
same 650000000000000000000d01 "$(url_value district_id "$AUTHORIZATION_URL")" "takes the user straight to the district"

step "5. A launch from the portal: a code without a state is never redeemed"
device b-phone
before=$(calls clever/token)
CALLBACK=$(location "$SANDBOX/clever/oauth/instant-login?client_id=ios-0001&redirect_uri=clever-ios-0001://oauth&sandbox_user=cleo")
forward "$CALLBACK"
expect_problem 409 login_required "no state"
same "$before" "$(calls clever/token)" "no call"
browser "$(json .login.authorization_url)" cleo
forward "$CALLBACK"
expect_status 201 "the login that came with it"
same "" "$(json .identity.email)" "cleo has no e-mail"

step "5a. The Clever app, and the portal's district"
device app-phone
start_login clever ios
matches '^com\.clever://oauth/authorize\?' "$(json .app_url)" "the login opens in the Clever app"
same "$(url_value state "$AUTHORIZATION_URL")" "$(url_value state "$(json .app_url)")" "with the same state"
same 2.0.1 "$(url_value sdk_version "$(json .app_url)")" "and the SDK's version"
device portal-phone
forward "clever-ios-0002://oauth?code=portal&district_id=58da8c6d4cdb5d2e1c8b4567"
expect_problem 409 login_required "a portal's launch"
same 58da8c6d4cdb5d2e1c8b4567 "$(url_value district_id "$(json .login.authorization_url)")" "keeps its district"
device portal-phone-2
forward "clever-ios-0002://oauth?code=portal&district_id=x%26client_id%3Devil"
expect_problem 409 login_required "another launch"
same "" "$(url_value district_id "$(json .login.authorization_url)")" "what is no district is not kept"
device portal-phone-3
forward "clever-ios-0001://oauth?code=portal&district_id=58da8c6d4cdb5d2e1c8b4567"
same "" "$(url_value district_id "$(json .login.authorization_url)")" "nor where the client does not allow it"

step "6. A launch without any code; two in a row do not loop"
device c-phone
forward "clever-ios-0001://oauth"
expect_problem 409 login_required "codeless"
forward "clever-ios-0001://oauth"
expect_problem 400 invalid_callback "the second in a row"

step "7. Flow B: without PKCE, the whole callback URL and the app's state"
device d-phone
app_authorizes() {
    state=$(random_token)
    CALLBACK=$(location "$SANDBOX/clever/oauth/authorize?response_type=code&client_id=ios-0001&redirect_uri=clever-ios-0001://oauth&state=$state&sandbox_user=ana")
}
app_authorizes
before=$(calls clever/token)
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"code\":\"$(url_value code "$CALLBACK")\"}"
expect_problem 400 invalid_request "a bare code"
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK")}"
expect_problem 409 login_required "without the app's state"
same "$before" "$(calls clever/token)" "no call"
device f-phone
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$(random_token)\"}"
expect_problem 409 login_required "with another state"
same "$before" "$(calls clever/token)" "no call"
device g-phone
secret=$(random_token)
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"login_token\":\"$secret\"}"
expect_status 201 "with its state"

step "8. The district has not authorised the app; HTML errors; a rate limit"
device e-phone
start_login clever ios
CALLBACK="clever-ios-0001://oauth?error=unauthorized-user&state=$STATE"
forward "$CALLBACK"
expect_problem 403 access_denied "unauthorized-user"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"status","endpoint":"token","status":400,"body":"<html><h1>Bad Request</h1></html>","times":1}'
forward "$CALLBACK"
same 400 "$STATUS" "an HTML 400: 400"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"rate-limited","endpoint":"token","times":1}'
forward "$CALLBACK"
expect_problem 503 provider_unavailable "429"
matches '^[0-9]+$' "$(header Retry-After)" "with Retry-After"
forward "$CALLBACK"
expect_status 201 "and once more"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"userinfo-invalid-sub","endpoint":"me","times":1}'
forward "$CALLBACK"
same 502 "$STATUS" "an identity that contradicts itself: 502"

step "9. OpenID Connect switched on: the id_token is verified, userinfo is the same user's"
device f-browser
sandbox PUT /settings/clever '{"oidc":true}'
sandbox DELETE /requests
sign_in clever-connect web ana
expect_status 201
expect_json .identity.role student
expect_json .identity.email ana@example.org
same "1 0" "$(calls clever/userinfo) $(calls clever/me)" "by /userinfo, not by /v3.0/me"
for name in nonce-invalid invalid-aud idtoken-sig-none; do
    fault clever "{\"fault\":\"$name\",\"times\":1}"
    sign_in clever-connect web ana
    expect_problem 502 identity_rejected "$name"
done
sandbox DELETE /settings/clever

step "10. A code lives for a minute, and is then refused as a used one is"
device g-phone
start_login clever ios
browser "$AUTHORIZATION_URL" ana
sandbox POST /clock '{"advance":61}'
forward "$CALLBACK"
expect_problem 400 code_rejected "61 seconds later"

step "11. Log out: there is nothing to call at Clever"
device a-phone
log_out
wait_for 10 shows '^coatcheck_revocations_total.*clever.*unsupported.* [1-9]'
same 0 $? "the outbox has looked at it"
sandbox GET '/requests?provider=clever'
same 0 "$(jq length "$work/control")" "no call"

step "An app with Clever's SDK 1.x imports its access token, once"
device sdk-phone
# clever_token CLIENT_ID: sets TOKEN to an access token that the app fetched itself
clever_token() {
    local callback secret=${2-}
    callback=$(location "$SANDBOX/clever/oauth/authorize?response_type=code&client_id=$1&redirect_uri=clever-$1://oauth&state=s&sandbox_user=ben")
    TOKEN=$(curl -s -u "$1:$secret" -H 'Content-Type: application/json' "$SANDBOX/clever/oauth/tokens" \
        -d "{\"code\":\"$(url_value code "$callback")\",\"grant_type\":\"authorization_code\",\"redirect_uri\":\"clever-$1://oauth\"}" | jq -r .access_token)
}
import() { post /v1/sessions "{\"provider\":\"clever\",\"client\":\"$1\",\"tokens\":{\"access_token\":\"$2\"${4:+,$4}},\"login_token\":\"$3\"}"; }
secret=$(random_token)
sandbox DELETE /requests
import web at-x "$secret"
expect_problem 403 client_not_allowed "a client without import_tokens"
import ios at-x "$secret" '"refresh_token":"rt-x"'
expect_problem 400 invalid_request "with a refresh token, which Clever does not have"
same 0 "$(calls clever/tokeninfo)" "and Clever was not asked"
import ios at-invented "$secret"
expect_problem 400 code_rejected "an invented token"
clever_token other-app
import ios "$TOKEN" "$(random_token)"
expect_problem 400 code_rejected "another application's token"
same "0 0" "$(calls clever/me) $(calls clever/users)" "and nothing was read with it"
clever_token ios-0001
import ios "$TOKEN" "$secret"
expect_status 201 "its own: a session"
expect_json .identity.email ben@example.org
expect_json .tokens.refreshable false
same "$(json .tokens.expires_at)" "$(json .expires_at)" "the session ends with the token"
handle=$(json .handle)
import ios "$TOKEN" "$secret"
expect_json .handle "$handle" "the same import again: the same session"
import ios "$TOKEN" "$(random_token)"
expect_problem 409 code_already_used "by somebody else"
get /v1/relay/clever-api/v3.0/me
expect_status 200 "the relay works with it"

finish
