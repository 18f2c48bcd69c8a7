#!/usr/bin/env bash
# Clever: both clients, the exact token request, launches without a state, HTML errors, no refresh.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. The legacy iOS client, with a blank secret"
start_login clever ios
expect_status 201
same "" "$(url_value code_challenge "$AUTHORIZATION_URL")" "Clever login → authorization URL without PKCE"
matches '.' "$(url_value state "$AUTHORIZATION_URL")" "Clever login → authorization URL with a state"
browser "$AUTHORIZATION_URL" ana
matches '^clever-ios-0001://oauth\?' "$CALLBACK" "after the sign-in → the browser returns to the app"
forward "$CALLBACK"
expect_status 201 "callback forwarded → a session"
matches '^65000000' "$(json .subject)" "Clever session → the subject is the v3 id"
expect_json .identity.role student
expect_json .identity.district 650000000000000000000d01
expect_json .identity.email ana@example.org
expect_json .tokens.refreshable false
same "$(json .tokens.expires_at)" "$(json .expires_at)" "session → expires together with its access token"
handle=$(json .handle)
sandbox GET '/requests?provider=clever&endpoint=token'
same POST "$(json '[0].method' "$work/control")" "token request → method POST"
same /clever/oauth/tokens "$(json '[0].path' "$work/control")" "token request → path /oauth/tokens"
python3 -c 'import json, sys
for name, value in json.load(open(sys.argv[1]))[0]["headers"]: print(name.lower() + ": " + value)' "$work/control" >"$work/sent"
same "authorization: Basic $(printf 'ios-0001:' | base64)" "$(grep ^authorization "$work/sent")" "token request → HTTP Basic with the blank secret"
same "content-type: application/json" "$(grep ^content-type "$work/sent")" "token request → a JSON body"
json '[0].body' "$work/control" >"$work/token.json"
same '["code", "grant_type", "redirect_uri"]' "$(python3 -c 'import json, sys; print(json.dumps(sorted(json.load(open(sys.argv[1])))))' "$work/token.json")" "token request → only code, grant_type and redirect_uri"

step "2. Safari and the app both deliver the code: one token call, one session"
forward "$CALLBACK"
expect_status 201
expect_json .handle "$handle"
same 1 "$(calls clever/token)" "code delivered twice → one token call"
device a-stranger
forward "$CALLBACK"
expect_problem 409 code_already_used "a stranger forwards the same callback"
same 1 "$(calls clever/token)" "stranger's forward → no further token call"

step "3. A Clever session cannot be refreshed"
device a-phone
request POST /v1/session/refresh
expect_problem 409 not_refreshable "refresh of a session without a refresh token"

step "4. The web client, with a secret"
device a-browser
start_login clever web '"parameters":{"district_id":"650000000000000000000d01"}'
expect_problem 400 invalid_request "login with district_id, which this client does not allow"
sign_in clever web ben
expect_status 201
expect_json .identity.email ben@example.org
start_login clever district '"parameters":{"district_id":"650000000000000000000d01"}'
expect_status 201 "login with district_id, which this client allows → 201"
same 650000000000000000000d01 "$(url_value district_id "$AUTHORIZATION_URL")" "login with district_id → the authorization URL contains it"

step "5. A launch from the portal: a code without a state is never redeemed"
device b-phone
before=$(calls clever/token)
CALLBACK=$(location "$SANDBOX/clever/oauth/instant-login?client_id=ios-0001&redirect_uri=clever-ios-0001://oauth&sandbox_user=cleo")
forward "$CALLBACK"
expect_problem 409 login_required "forwarded code without a state"
same "$before" "$(calls clever/token)" "code without a state → no token call"
browser "$(json .login.authorization_url)" cleo
forward "$CALLBACK"
expect_status 201 "user finishes the login from the 409 → a session"
same "" "$(json .identity.email)" "user without an e-mail address → identity without an e-mail"

step "5a. Logins in the Clever app, and the district of a portal launch"
device app-phone
start_login clever ios
matches '^com\.clever://oauth/authorize\?' "$(json .app_url)" "login → app_url opens the Clever app"
same "$(url_value state "$AUTHORIZATION_URL")" "$(url_value state "$(json .app_url)")" "app_url → the state of the authorization URL"
same 2.0.1 "$(url_value sdk_version "$(json .app_url)")" "app_url → contains the SDK version"
device portal-phone
forward "clever-ios-0002://oauth?code=portal&district_id=58da8c6d4cdb5d2e1c8b4567"
expect_problem 409 login_required "launch from the portal with a district_id"
same 58da8c6d4cdb5d2e1c8b4567 "$(url_value district_id "$(json .login.authorization_url)")" "launch with a district_id → the new login keeps it"
device portal-phone-2
forward "clever-ios-0002://oauth?code=portal&district_id=x%26client_id%3Devil"
expect_problem 409 login_required "launch from the portal with a malformed district_id"
same "" "$(url_value district_id "$(json .login.authorization_url)")" "malformed district_id → the new login omits it"
device portal-phone-3
forward "clever-ios-0001://oauth?code=portal&district_id=58da8c6d4cdb5d2e1c8b4567"
same "" "$(url_value district_id "$(json .login.authorization_url)")" "client that does not allow district_id → the new login omits it"

step "6. A launch without a code starts a login, but never twice in a row"
device c-phone
forward "clever-ios-0001://oauth"
expect_problem 409 login_required "first launch without a code"
forward "clever-ios-0001://oauth"
expect_problem 400 invalid_callback "second launch without a code in a row"

step "7. Flow B without PKCE requires the whole callback URL and the app's state"
device d-phone
app_authorizes() {
    state=$(random_token)
    CALLBACK=$(location "$SANDBOX/clever/oauth/authorize?response_type=code&client_id=ios-0001&redirect_uri=clever-ios-0001://oauth&state=$state&sandbox_user=ana")
}
app_authorizes
before=$(calls clever/token)
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"code\":\"$(url_value code "$CALLBACK")\"}"
expect_problem 400 invalid_request "app sends only the code"
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK")}"
expect_problem 409 login_required "app sends the callback URL without its own state"
same "$before" "$(calls clever/token)" "request without the app's state → no token call"
device f-phone
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$(random_token)\"}"
expect_problem 409 login_required "app sends a state that differs from the callback's"
same "$before" "$(calls clever/token)" "request with a wrong state → no token call"
device g-phone
secret=$(random_token)
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"login_token\":\"$secret\"}"
expect_status 201 "callback URL with the app's own state → a session"

step "8. An unauthorised district, an HTML error, a rate limit, a contradictory identity"
device e-phone
start_login clever ios
CALLBACK="clever-ios-0001://oauth?error=unauthorized-user&state=$STATE"
forward "$CALLBACK"
expect_problem 403 access_denied "Clever's callback says unauthorized-user"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"status","endpoint":"token","status":400,"body":"<html><h1>Bad Request</h1></html>","times":1}'
forward "$CALLBACK"
same 400 "$STATUS" "token endpoint answers 400 with HTML → the app gets 400"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"rate-limited","endpoint":"token","times":1}'
forward "$CALLBACK"
expect_problem 503 provider_unavailable "token endpoint answers 429"
matches '^[0-9]+$' "$(header Retry-After)" "token endpoint answers 429 → Retry-After in seconds"
forward "$CALLBACK"
expect_status 201 "forward repeated after the 429 → a session"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"userinfo-invalid-sub","endpoint":"me","times":1}'
forward "$CALLBACK"
same 502 "$STATUS" "identity with contradictory user ids → 502"

step "9. With OpenID Connect the id_token is verified and userinfo names the same user"
device f-browser
sandbox PUT /settings/clever '{"oidc":true}'
sandbox DELETE /requests
sign_in clever-connect web ana
expect_status 201
expect_json .identity.role student
expect_json .identity.email ana@example.org
same "1 0" "$(calls clever/userinfo) $(calls clever/me)" "OpenID Connect login → one /userinfo call, no /v3.0/me call"
for name in nonce-invalid invalid-aud idtoken-sig-none; do
    fault clever "{\"fault\":\"$name\",\"times\":1}"
    sign_in clever-connect web ana
    expect_problem 502 identity_rejected "id_token fault $name"
done
sandbox DELETE /settings/clever

step "10. A code older than a minute is refused like a used code"
device g-phone
start_login clever ios
browser "$AUTHORIZATION_URL" ana
sandbox POST /clock '{"advance":61}'
forward "$CALLBACK"
expect_problem 400 code_rejected "code forwarded after 61 seconds"

step "11. Log-out makes no call to Clever"
device a-phone
log_out
wait_for 10 shows '^coatcheck_revocations_total.*clever.*unsupported.* [1-9]'
same 0 $? "log-out → the outbox marks the revocation as unsupported"
sandbox GET '/requests?provider=clever'
same 0 "$(jq length "$work/control")" "log-out → no call to Clever"

step "An app with Clever's SDK 1.x can import its access token, but only once"
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
expect_problem 403 client_not_allowed "import by a client without import_tokens"
import ios at-x "$secret" '"refresh_token":"rt-x"'
expect_problem 400 invalid_request "import with a refresh token, although Clever never issues one"
same 0 "$(calls clever/tokeninfo)" "invalid import → no tokeninfo call"
import ios at-invented "$secret"
expect_problem 400 code_rejected "import of an invented access token"
clever_token other-app
import ios "$TOKEN" "$(random_token)"
expect_problem 400 code_rejected "import of another application's access token"
same "0 0" "$(calls clever/me) $(calls clever/users)" "another application's token → no user data is read"
clever_token ios-0001
import ios "$TOKEN" "$secret"
expect_status 201 "import of the app's own access token → a session"
expect_json .identity.email ben@example.org
expect_json .tokens.refreshable false
same "$(json .tokens.expires_at)" "$(json .expires_at)" "imported session → expires together with its access token"
handle=$(json .handle)
import ios "$TOKEN" "$secret"
expect_json .handle "$handle" "a repeated import → the same session"
import ios "$TOKEN" "$(random_token)"
expect_problem 409 code_already_used "the same token imported with another login_token"
get /v1/relay/clever-api/v3.0/me
expect_status 200 "relay call with the imported token → 200"

finish
