#!/usr/bin/env bash
# Clever: the clients with and without a secret, the exact token request, launches without a state, HTML errors, no refresh.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. The legacy iOS client, with a blank secret"
start_login clever ios
expect_status 201 "start of a Clever login → 201"
same "" "$(url_value code_challenge "$AUTHORIZATION_URL")" "Clever login → authorization URL without PKCE"
matches '.' "$(url_value state "$AUTHORIZATION_URL")" "Clever login → authorization URL with a state"
browser "$AUTHORIZATION_URL" ana
matches '^clever-ios-0001://oauth\?' "$CALLBACK" "user signs in at Clever → the browser returns to the app"
forward "$CALLBACK"
expect_status 201 "callback of a Clever login, forwarded → a session"
matches '^65000000' "$(json .subject)" "Clever session → its subject is the user's id of Clever's API v3.0"
expect_json .identity.role student "student signs in at Clever → the session's identity has the role student"
expect_json .identity.district 650000000000000000000d01 "student signs in at Clever → the session's identity has the district's id"
expect_json .identity.email ana@example.org "student signs in at Clever → the session's identity has the e-mail address"
expect_json .tokens.refreshable false "Clever session → not refreshable, because Clever issues no refresh tokens"
same "$(json .tokens.expires_at)" "$(json .expires_at)" "Clever session → expires together with its access token"
handle=$(json .handle)
sandbox GET '/requests?provider=clever&endpoint=token'
same POST "$(json '[0].method' "$work/control")" "Clever's token endpoint → receives a POST request"
same /clever/oauth/tokens "$(json '[0].path' "$work/control")" "Clever's token request → its path is /oauth/tokens"
python3 -c 'import json, sys
for name, value in json.load(open(sys.argv[1]))[0]["headers"]: print(name.lower() + ": " + value)' "$work/control" >"$work/sent"
same "authorization: Basic $(printf 'ios-0001:' | base64)" "$(grep ^authorization "$work/sent")" "token request of a client with a blank secret → has HTTP Basic with the client id and an empty password"
same "content-type: application/json" "$(grep ^content-type "$work/sent")" "Clever's token request → has a JSON body"
json '[0].body' "$work/control" >"$work/token.json"
same '["code", "grant_type", "redirect_uri"]' "$(python3 -c 'import json, sys; print(json.dumps(sorted(json.load(open(sys.argv[1])))))' "$work/token.json")" "Clever's token request → its body has exactly code, grant_type and redirect_uri"

step "2. Safari and the app both deliver the code: one token call, one session"
forward "$CALLBACK"
expect_status 201 "callback of a Clever login, forwarded again by the same phone → 201"
expect_json .handle "$handle" "callback of a Clever login, forwarded again by the same phone → the same session handle"
same 1 "$(calls clever/token)" "callback of one login forwarded twice → one token call at Clever"
device a-stranger
forward "$CALLBACK"
expect_problem 409 code_already_used "another device forwards a callback that was already used"
same 1 "$(calls clever/token)" "another device forwards a used callback → no further token call"

step "3. A Clever session cannot be refreshed"
device a-phone
request POST /v1/session/refresh
expect_problem 409 not_refreshable "app asks to refresh a Clever session, which has no refresh token"

step "4. The web client, with a secret"
device a-browser
start_login clever web '"parameters":{"district_id":"650000000000000000000d01"}'
expect_problem 400 invalid_request "app starts a login with district_id, which this client does not allow"
sign_in clever web ben
expect_status 201 "callback of the web client → a session"
expect_json .identity.email ben@example.org "session of the web client → has ben's e-mail address"
start_login clever district '"parameters":{"district_id":"650000000000000000000d01"}'
expect_status 201 "app starts a login with district_id, which this client allows → 201"
same 650000000000000000000d01 "$(url_value district_id "$AUTHORIZATION_URL")" "login with district_id → the authorization URL contains this district_id"

step "5. A launch from Clever's portal has a code without a state; the broker never redeems such a code"
device b-phone
before=$(calls clever/token)
CALLBACK=$(location "$SANDBOX/clever/oauth/instant-login?client_id=ios-0001&redirect_uri=clever-ios-0001://oauth&sandbox_user=cleo")
forward "$CALLBACK"
expect_problem 409 login_required "app forwards a portal launch, whose code has no state"
same "$before" "$(calls clever/token)" "portal launch, whose code has no state → zero token calls"
browser "$(json .login.authorization_url)" cleo
forward "$CALLBACK"
expect_status 201 "launch from the portal got 409 with a new login, and the user finishes this login → a session"
same "" "$(json .identity.email)" "user without an e-mail address → the session's identity has no e-mail"

step "5a. Logins that open the Clever app, and the district_id in a launch from the portal"
device app-phone
start_login clever ios
matches '^com\.clever://oauth/authorize\?' "$(json .app_url)" "start of a login at Clever → app_url opens the Clever app"
same "$(url_value state "$AUTHORIZATION_URL")" "$(url_value state "$(json .app_url)")" "login's app_url → has the same state as the authorization URL"
same 2.0.1 "$(url_value sdk_version "$(json .app_url)")" "login's app_url → contains the SDK version"
device portal-phone
forward "clever-ios-0002://oauth?code=portal&district_id=58da8c6d4cdb5d2e1c8b4567"
expect_problem 409 login_required "launch from the portal with a district_id"
same 58da8c6d4cdb5d2e1c8b4567 "$(url_value district_id "$(json .login.authorization_url)")" "launch from the portal with a district_id → the new login's URL has this district_id"
device portal-phone-2
forward "clever-ios-0002://oauth?code=portal&district_id=x%26client_id%3Devil"
expect_problem 409 login_required "launch from the portal with a malformed district_id"
same "" "$(url_value district_id "$(json .login.authorization_url)")" "launch from the portal with a malformed district_id → the new login's URL omits district_id"
device portal-phone-3
forward "clever-ios-0001://oauth?code=portal&district_id=58da8c6d4cdb5d2e1c8b4567"
same "" "$(url_value district_id "$(json .login.authorization_url)")" "launch with a district_id, for a client that does not allow the parameter → the new login's URL omits district_id"

step "6. A launch without a code starts a login; a second such launch in a row does not"
device c-phone
forward "clever-ios-0001://oauth"
expect_problem 409 login_required "app forwards a first launch without a code"
forward "clever-ios-0001://oauth"
expect_problem 400 invalid_callback "app forwards a launch without a code for the second time in a row"

step "7. Flow B without PKCE requires the whole callback URL and the app's state"
device d-phone
app_authorizes() {
    state=$(random_token)
    CALLBACK=$(location "$SANDBOX/clever/oauth/authorize?response_type=code&client_id=ios-0001&redirect_uri=clever-ios-0001://oauth&state=$state&sandbox_user=ana")
}
app_authorizes
before=$(calls clever/token)
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"code\":\"$(url_value code "$CALLBACK")\"}"
expect_problem 400 invalid_request "app-started Clever login, and the app sends only the code"
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK")}"
expect_problem 409 login_required "app-started Clever login, and the app sends the callback URL without its own state"
same "$before" "$(calls clever/token)" "app-started Clever login, forwarded without the app's own state → zero token calls"
device f-phone
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$(random_token)\"}"
expect_problem 409 login_required "app-started Clever login, and the app's state differs from the callback's state"
same "$before" "$(calls clever/token)" "app-started Clever login, forwarded with a state that differs from the callback's state → zero token calls"
device g-phone
secret=$(random_token)
post /v1/sessions "{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"login_token\":\"$secret\"}"
expect_status 201 "app-started Clever login, forwarded with the app's own state → a session"

step "8. Clever refuses the user, answers an HTML error, limits the rate, or sends contradictory user ids"
device e-phone
start_login clever ios
CALLBACK="clever-ios-0001://oauth?error=unauthorized-user&state=$STATE"
forward "$CALLBACK"
expect_problem 403 access_denied "Clever's callback has the error unauthorized-user"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"status","endpoint":"token","status":400,"body":"<html><h1>Bad Request</h1></html>","times":1}'
forward "$CALLBACK"
same 400 "$STATUS" "Clever's token endpoint answers 400 with HTML → the app gets 400"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"rate-limited","endpoint":"token","times":1}'
forward "$CALLBACK"
expect_problem 503 provider_unavailable "Clever's token endpoint answers 429"
matches '^[0-9]+$' "$(header Retry-After)" "Clever's token endpoint answers 429 → the app gets Retry-After in seconds"
forward "$CALLBACK"
expect_status 201 "app repeats the forward after Clever's 429 → a session"
start_login clever ios
browser "$AUTHORIZATION_URL" ana
fault clever '{"fault":"userinfo-invalid-sub","endpoint":"me","times":1}'
forward "$CALLBACK"
same 502 "$STATUS" "Clever's identity answer has contradictory user ids → 502"

step "9. Clever with OpenID Connect: the broker verifies the id_token and calls userinfo"
device f-browser
sandbox PUT /settings/clever '{"oidc":true}'
sandbox DELETE /requests
sign_in clever-connect web ana
expect_status 201 "login of a client that uses Clever's OpenID Connect → a session"
expect_json .identity.role student "OpenID Connect session at Clever → its identity has the role student"
expect_json .identity.email ana@example.org "OpenID Connect session at Clever → its identity has ana's e-mail address"
same "1 0" "$(calls clever/userinfo) $(calls clever/me)" "OpenID Connect login at Clever → one /userinfo call, no /v3.0/me call"
for name in nonce-invalid invalid-aud idtoken-sig-none; do
    fault clever "{\"fault\":\"$name\",\"times\":1}"
    sign_in clever-connect web ana
    expect_problem 502 identity_rejected "Clever's id_token has the fault $name"
done
sandbox DELETE /settings/clever

step "10. Clever refuses a code older than a minute; the app gets the error of a used code"
device g-phone
start_login clever ios
browser "$AUTHORIZATION_URL" ana
sandbox POST /clock '{"advance":61}'
forward "$CALLBACK"
expect_problem 400 code_rejected "app forwards a callback 61 seconds after Clever issued its code"

step "11. Log-out makes no call to Clever"
device a-phone
log_out
wait_for 10 shows '^coatcheck_revocations_total.*clever.*unsupported.* [1-9]'
same 0 $? "log-out of a Clever session → the outbox counts the revocation as unsupported"
sandbox GET '/requests?provider=clever'
same 0 "$(jq length "$work/control")" "log-out of a Clever session → zero calls to Clever"

step "12. An app with Clever's SDK 1.x can import its access token once"
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
expect_problem 403 client_not_allowed "import of a Clever token by a client whose configuration lacks import_tokens"
import ios at-x "$secret" '"refresh_token":"rt-x"'
expect_problem 400 invalid_request "import of a Clever token with a refresh token, although Clever never issues refresh tokens"
same 0 "$(calls clever/tokeninfo)" "two imports of Clever tokens that the broker itself refuses → no tokeninfo call at Clever"
import ios at-invented "$secret"
expect_problem 409 login_required "import of an invented Clever token"
expect_json .reason grant_revoked "import of an invented Clever token → the reason grant_revoked"
clever_token other-app
import ios "$TOKEN" "$(random_token)"
expect_problem 502 provider_error "import of a Clever token that another application got"
same "0 0" "$(calls clever/me) $(calls clever/users)" "import of a Clever token that another application got → the broker reads no user data at Clever"
clever_token ios-0001
import ios "$TOKEN" "$secret"
expect_status 201 "an app imports the access token that it got from Clever → a session"
expect_json .identity.email ben@example.org "session from an imported access token → has ben's e-mail address"
expect_json .tokens.refreshable false "session from an imported access token → not refreshable"
same "$(json .tokens.expires_at)" "$(json .expires_at)" "session from an imported access token → expires together with this token"
handle=$(json .handle)
import ios "$TOKEN" "$secret"
expect_json .handle "$handle" "import of a Clever token, repeated with the same login_token → the same session"
phone=$JAR
device another-phone
import ios "$TOKEN" "$(random_token)"
JAR=$phone
expect_problem 409 code_already_used "import of a Clever token that was already imported with another login_token"
get /v1/relay/clever-api/v3.0/me
expect_status 200 "relay call of a session from an imported access token → 200"

finish
