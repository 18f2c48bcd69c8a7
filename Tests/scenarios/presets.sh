#!/usr/bin/env bash
# The presets: Cloudentity, Google, GitHub, Slack, Apple; sign-in, refusals, native codes, log-out. Microsoft has a script of
# its own.
source "$(dirname "$0")/support/lib.bash"
# Its sessions refresh several times in a minute.
LIMITS="forced_refresh_pause: 0s"
start_stack

step "1. Cloudentity: an issuer with path segments, a public client"
sign_in cloudentity ios ana
expect_status 201
expect_json .subject user-ana
expect_json .tokens.refreshable true
sandbox GET '/requests?provider=cloudentity&endpoint=token'
same /cloudentity/example/demo/oauth2/token "$(json '[0].path' "$work/control")" "the address is under the issuer's path"
same "grant_type code redirect_uri code_verifier client_id" "$(form_names)" "its fields"
matches '^.{32,255}$' "$(sent_header X-Idempotency-Key)" "an idempotency key on the token call"
same "" "$(sent_header Authorization)" "no Authorization from a public client"

step "2. Cloudentity: log out: both tokens revoked, then the session ended there"
log_out
told cloudentity/end_session 1
same "POST /cloudentity/example/demo/oidc/logout 200" "$(jq -r '.[0] | "\(.method) \(.path) \(.status)"' "$work/control")" "POST, and it took the hint"
matches '^id_token_hint=[A-Za-z0-9_.-]+&client_id=mobile-app$' "$(json '[0].body' "$work/control")" "the id_token and the client, nothing else"
same "application/x-www-form-urlencoded" "$(sent_header Content-Type)" "as a form"
same "" "$(sent_header Authorization)$(sent_header Cookie)" "no Authorization, no cookie"
sandbox GET '/requests?provider=cloudentity'
same "revoke revoke end_session" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "revocation first"
same "/cloudentity/example/demo/oauth2/revoke" "$(jq -r '[.[0, 1].path] | unique | join(" ")' "$work/control")" "at the revocation endpoint"
same "token client_id, token client_id" "$(form_names 0), $(form_names 1)" "without token_type_hint"
matches '^token=rt-' "$(json '[0].body' "$work/control")" "the refresh token"
matches '^token=at-' "$(json '[1].body' "$work/control")" "then the access token"
sandbox GET '/tokens?provider=cloudentity'
same 0 "$(jq '[.[] | select(.live)] | length' "$work/control")" "no token lives there"

step "3. Cloudentity: refusals, with error_code and error_hint"
refusals cloudentity ios
device b-phone
fault cloudentity '{"fault":"invalid-iss","times":1}'
sign_in cloudentity ios ana
expect_problem 502 identity_rejected "another workspace's issuer"
start_login cloudentity ios
browser "$AUTHORIZATION_URL" ana
forward "$(with_value iss "$SANDBOX/cloudentity/example/other" "$CALLBACK")"
expect_problem 400 issuer_mismatch "another workspace's callback"

step "4. Cloudentity: a key in place of a secret, pushed authorization requests"
device b-service
sandbox DELETE /requests
start_login cloudentity service
expect_status 201
same 540 "$(jq '(.expires_at | fromdate) - (.open_by | fromdate)' "$work/body")" "the URL is to be opened within its minute; the sign-in has its ten"
same "client_id request_uri" "$(python3 -c 'import sys, urllib.parse as u; print(*sorted(dict(u.parse_qsl(u.urlsplit(sys.argv[1]).query))))' "$AUTHORIZATION_URL")" "the browser sees the client and a reference, nothing else (SEC-10)"
sandbox GET '/requests?provider=cloudentity&endpoint=par'
same "POST /cloudentity/example/demo/par" "$(jq -r '.[0] | "\(.method) \(.path)"' "$work/control")" "the request is pushed"
same "response_type redirect_uri scope state nonce code_challenge code_challenge_method client_id client_assertion_type client_assertion" "$(form_names)" "its fields"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201 "a session"
sandbox GET '/requests?provider=cloudentity&endpoint=token'
same "grant_type code redirect_uri code_verifier client_id client_assertion_type client_assertion" "$(form_names)" "the token request's fields"
same "$SANDBOX/cloudentity/example/demo" "$(jq -r '.[0].body | capture("client_assertion=[^.]+\\.(?<claims>[^.]+)").claims | gsub("-"; "+") | gsub("_"; "/")
    | . + ["", "", "==", "="][length % 4] | @base64d | fromjson.aud' "$work/control")" "the assertion's audience is the issuer (SEC-19)"
fault cloudentity '{"fault":"status","endpoint":"par","status":400,"body":"{\"error\":\"invalid_request\",\"error_code\":\"INVALID_REQUEST\",\"status_code\":400}","times":1}'
start_login cloudentity service
same "502 provider_error" "$STATUS $(json .code)" "a refused push is no plain request (SEC-10)"
log_out
told cloudentity/end_session 1
matches 'client_id=web-jwt$' "$(json '[0].body' "$work/control")" "ended for this client"

step "5. Cloudentity behind a vanity domain: no path of the vendor's"
device b-vanity
sign_in cloudentity-vanity ios ana
expect_status 201
sandbox GET '/requests?provider=cloudentity-vanity&endpoint=token'
same /demo/oauth2/token "$(json '[0].path' "$work/control")" "the address is under the issuer"
refusals cloudentity-vanity ios

step "6. Google"
device c-phone
sandbox DELETE /requests
start_login google web
same offline "$(url_value access_type "$AUTHORIZATION_URL")" "access_type=offline"
same consent "$(url_value prompt "$AUTHORIZATION_URL")" "prompt=consent"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201
expect_json .provider google
expect_json .tokens.refreshable true
sandbox GET '/requests?provider=google&endpoint=token'
same "grant_type code redirect_uri code_verifier" "$(form_names)" "the token request's fields"
same "Basic $(printf %s google-app:wq8ZrT5nLk2YvB7xHs0d | base64 | tr -d '\n')" "$(sent_header Authorization)" "with Basic"
request POST /v1/session/refresh
expect_status 200 "a refresh"
request POST /v1/session/refresh
expect_status 200 "and another: the refresh token stays"
log_out
told google/revoke 2
same "refresh_token access_token" "$(jq -r '[.[].body | capture("token_type_hint=(?<hint>[a-z_]+)").hint] | join(" ")' "$work/control")" "refresh, then access token"
same "200 200" "$(jq -r '[.[].status | tostring] | join(" ")' "$work/control")" "and it took them"
refusals google web

step "7. Google's serverAuthCode: an empty redirect_uri, and the nonce is demanded"
device d-phone
nonce=$(random_token)
secret=$(random_token)
sandbox POST /native-code/google "{\"client_id\":\"google-app\",\"user\":\"ben\",\"nonce\":\"$nonce\"}"
code=$(json .code "$work/control")
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$code\",\"login_token\":\"$secret\"}"
expect_problem 400 invalid_request "without a nonce"
sandbox DELETE /requests
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$code\",\"login_token\":\"$secret\",\"nonce\":\"$nonce\"}"
expect_status 201 "with it"
sandbox GET '/requests?provider=google&endpoint=token'
matches 'redirect_uri=(&|$)' "$(json '[0].body' "$work/control")" "redirect_uri is empty"
sandbox POST /native-code/google "{\"client_id\":\"google-app\",\"user\":\"ben\",\"nonce\":\"another\"}"
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$(json .code "$work/control")\",\"login_token\":\"$secret\",\"nonce\":\"$nonce\"}"
expect_problem 502 identity_rejected "another nonce"

step "8. Apple's authorizationCode: no redirect_uri, the nonce may be hashed"
device e-phone
hashed=$(printf %s "$nonce" | sha256sum | cut -d' ' -f1)
# native_code: sets CODE to a code of the native sheet
native_code() {
    sandbox POST /native-code/apple "{\"client_id\":\"com.example.app\",\"user\":\"ana\",\"nonce\":\"$hashed\",\"scope\":\"openid email\"}"
    CODE=$(json .code "$work/control")
}
apple() { post /v1/sessions "{\"provider\":\"apple\",\"client\":\"ios\",\"code\":\"$1\",\"login_token\":\"$secret\",\"nonce\":\"$2\"}"; }
native_code
sandbox DELETE /requests
apple "$CODE" "$nonce"
expect_status 201 "a session"
sandbox GET '/requests?provider=apple&endpoint=token'
same "grant_type code client_id client_secret" "$(form_names)" "the token request's fields: no redirect_uri"
same "" "$(sent_header Authorization)" "no Authorization"
matches 'client_secret=eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+' "$(json '[0].body' "$work/control")" "the client secret is a signed JWT"

step "9. Apple: refusals and log-out"
native_code
apple "$CODE" "$(random_token)"
expect_problem 502 identity_rejected "another login's nonce"
secret=$(random_token)
apple c-invented "$nonce"
expect_problem 400 code_rejected "a code that nobody issued"
post /v1/sessions "{\"provider\":\"apple\",\"client\":\"ios\",\"code\":\"$CODE\",\"login_token\":\"$secret\"}"
expect_problem 400 invalid_request "no nonce"
# Apple's call ends everything that the user granted, and the user of these tokens is unknown (decision 21).
wait_for 10 eval '[ "$(curl -s "$MANAGEMENT/metrics" | sed -n "s/^coatcheck_revocations_pending //p")" = 0 ]'
same 0 "$(calls apple/revoke)" "the refused login's tokens are left alone"
log_out
told apple/revoke 2
same "token token_type_hint client_id client_secret" "$(form_names)" "its fields"
same "refresh_token access_token" "$(jq -r '[.[].body | capture("token_type_hint=(?<hint>[a-z_]+)").hint] | join(" ")' "$work/control")" "refresh, then access token"
same "200 200" "$(jq -r '[.[].status | tostring] | join(" ")' "$work/control")" "and it took them"

step "10. GitHub: errors with status 200, a numeric id, the e-mail by a second call"
device f-phone
sandbox DELETE /requests
sign_in github web ana
expect_status 201
matches '^[0-9]+$' "$(json .subject)" "the id as text"
expect_json .identity.email ana@example.org
expect_json .tokens.refreshable false
sandbox GET '/requests?provider=github&endpoint=token'
same "POST /github/login/oauth/access_token" "$(json '[0].method' "$work/control") $(json '[0].path' "$work/control")" "the token request"
same "application/json" "$(sent_header Accept)" "asks for JSON"
same 1 "$(calls github/emails)" "one call for the e-mail"
log_out
told github/revoke 1
same "DELETE /github/applications/github-app/token 204" "$(jq -r '.[0] | "\(.method) \(.path) \(.status)"' "$work/control")" "DELETE, with the client id in the path"
same "Basic $(printf %s github-app:wq8ZrT5nLk2YvB7xHs0d | base64 | tr -d '\n')" "$(sent_header Authorization)" "with Basic"
same '["access_token"]' "$(jq -c '.[0].body | fromjson | keys' "$work/control")" "the access token as JSON"
refusals github web

step "11. Slack: the user's token under authed_user, user_scope"
device g-phone
start_login slack web
matches 'identity.basic' "$(url_value user_scope "$AUTHORIZATION_URL")" "user_scope"
same "" "$(url_value code_challenge "$AUTHORIZATION_URL")" "no PKCE"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201
matches '^U' "$(json .subject)" "the user's id"
log_out
told slack/revoke 1
same "POST /slack/api/auth.revoke 200" "$(jq -r '.[0] | "\(.method) \(.path) \(.status)"' "$work/control")" "auth.revoke"
matches '^Bearer at-' "$(sent_header Authorization)" "with the user's token as Bearer"
sandbox GET '/tokens?provider=slack'
same 0 "$(jq '[.[] | select(.live)] | length' "$work/control")" "no token lives there"
refusals slack web

step "12. Facebook: two dialects of no, an identity from the Graph API, no refresh"
device f-phone
start_login facebook web
browser "$AUTHORIZATION_URL" denied
same "200 user_denied" "$(url_value error_code "$CALLBACK") $(url_value error_reason "$CALLBACK")" "as Facebook says it"
forward "$CALLBACK"
expect_problem 403 access_denied "the user refused"
expect_json .provider_error access_denied
fault facebook '{"fault":"error-callback","value":"server_error","times":1}'
start_login facebook web
browser "$AUTHORIZATION_URL" ana
same "" "$(url_value error "$CALLBACK")" "error_code alone"
forward "$CALLBACK"
expect_problem 502 provider_error "what went wrong there"
fault facebook '{"fault":"error-callback","value":"server_error","times":1}'
start_login facebook hosted
CALLBACK=$(location "$AUTHORIZATION_URL&sandbox_user=ana")
matches '^com.example.facebook:/back\?error=provider_error&' "$(location "$CALLBACK")" "and through the hosted callback"
sign_in facebook web ana
expect_status 201
expect_json .identity.email ana@example.org
expect_json .tokens.refreshable false
expect_json .scope '["public_profile","email"]' "the scope is the one asked for: the answer names none"

step "13. LinkedIn: no PKCE, its own word for who turned back"
device l-phone
start_login linkedin web
browser "$AUTHORIZATION_URL" denied
same user_cancelled_authorize "$(url_value error "$CALLBACK")" "as LinkedIn says it"
forward "$CALLBACK"
expect_problem 403 access_denied "the user turned back"
sign_in linkedin web ana
expect_status 201
expect_json .subject user-ana

finish
