#!/usr/bin/env bash
# The presets of Cloudentity, Google, Apple, GitHub, Slack, Facebook and LinkedIn: sign-in, refusals, native codes, log-out.
# microsoft.sh tests Microsoft.
source "$(dirname "$0")/../support/lib.bash"
# The app forces several refreshes of one session within a minute, so this test turns off the pause between them.
LIMITS="forced_refresh_pause: 0s"
start_stack

step "1. Cloudentity: an issuer with path segments, a public client"
sign_in cloudentity ios ana
expect_status 201 "callback from Cloudentity → a session"
expect_json .subject user-ana "Cloudentity session → its subject is user-ana"
expect_json .tokens.refreshable true "Cloudentity session → refreshable"
sandbox GET '/requests?provider=cloudentity&endpoint=token'
same /cloudentity/example/demo/oauth2/token "$(json '[0].path' "$work/control")" "Cloudentity's token request → its path is below the issuer"
same "grant_type code redirect_uri code_verifier client_id" "$(form_names)" "Cloudentity's token request → has exactly grant_type, code, redirect_uri, code_verifier and client_id"
matches '^.{32,255}$' "$(sent_header X-Idempotency-Key)" "Cloudentity's token request → has an idempotency key"
same "" "$(sent_header Authorization)" "Cloudentity's token request of a public client → has no Authorization field"

step "2. Cloudentity: log-out revokes both tokens, then ends Cloudentity's session"
log_out
told cloudentity/end_session 1
same "POST /cloudentity/example/demo/oidc/logout 200" "$(jq -r '.[0] | "\(.method) \(.path) \(.status)"' "$work/control")" "Cloudentity's end_session call → is a POST, which Cloudentity answers with 200"
matches '^id_token_hint=[A-Za-z0-9_.-]+&client_id=mobile-app$' "$(json '[0].body' "$work/control")" "Cloudentity's end_session call → has exactly id_token_hint and client_id"
same "application/x-www-form-urlencoded" "$(sent_header Content-Type)" "Cloudentity's end_session call → its body is a form"
same "" "$(sent_header Authorization)$(sent_header Cookie)" "Cloudentity's end_session call → has no Authorization field and no cookie"
sandbox GET '/requests?provider=cloudentity'
same "revoke revoke end_session" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "log-out of a Cloudentity session → two revocations, then end_session"
same "/cloudentity/example/demo/oauth2/revoke" "$(jq -r '[.[0, 1].path] | unique | join(" ")' "$work/control")" "log-out of a Cloudentity session → both revocations go to the revocation endpoint"
same "token client_id, token client_id" "$(form_names 0), $(form_names 1)" "log-out of a Cloudentity session → both revocations have no token_type_hint"
matches '^token=rt-' "$(json '[0].body' "$work/control")" "log-out of a Cloudentity session → the first revocation contains the refresh token"
matches '^token=at-' "$(json '[1].body' "$work/control")" "log-out of a Cloudentity session → the second revocation contains the access token"
sandbox GET '/tokens?provider=cloudentity'
same 0 "$(jq '[.[] | select(.live)] | length' "$work/control")" "log-out of a Cloudentity session → Cloudentity has no live token"

step "3. Cloudentity: refused logins"
refusals cloudentity ios
device b-phone
fault cloudentity '{"fault":"invalid-iss","times":1}'
sign_in cloudentity ios ana
expect_problem 502 identity_rejected "Cloudentity's id_token with another workspace's issuer"
start_login cloudentity ios
browser "$AUTHORIZATION_URL" ana
forward "$(with_value iss "$SANDBOX/cloudentity/example/other" "$CALLBACK")"
expect_problem 400 issuer_mismatch "Cloudentity's callback with another workspace's issuer"

step "4. Cloudentity: a client with a key and pushed authorization requests"
device b-service
sandbox DELETE /requests
start_login cloudentity service
expect_status 201 "client that pushes its authorization requests starts a login → 201"
same 540 "$(jq '(.expires_at | fromdate) - (.open_by | fromdate)' "$work/body")" "login with a pushed request → the authorization URL expires after one minute, and the login after ten"
same "client_id request_uri" "$(python3 -c 'import sys, urllib.parse as u; print(*sorted(dict(u.parse_qsl(u.urlsplit(sys.argv[1]).query))))' "$AUTHORIZATION_URL")" "login with a pushed request → its authorization URL has exactly client_id and request_uri (SEC-10)"
sandbox GET '/requests?provider=cloudentity&endpoint=par'
same "POST /cloudentity/example/demo/par" "$(jq -r '.[0] | "\(.method) \(.path)"' "$work/control")" "login with a pushed request → one POST to the PAR endpoint"
same "response_type redirect_uri scope state nonce code_challenge code_challenge_method client_id client_assertion_type client_assertion" "$(form_names)" "pushed request → has exactly the fields of an authorization request and a client assertion"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201 "callback of a login with a pushed request → a session"
sandbox GET '/requests?provider=cloudentity&endpoint=token'
same "grant_type code redirect_uri code_verifier client_id client_assertion_type client_assertion" "$(form_names)" "token request of a client that authenticates with a key → has a client assertion"
same "$SANDBOX/cloudentity/example/demo" "$(jq -r '.[0].body | capture("client_assertion=[^.]+\\.(?<claims>[^.]+)").claims | gsub("-"; "+") | gsub("_"; "/")
    | . + ["", "", "==", "="][length % 4] | @base64d | fromjson.aud' "$work/control")" "token request of a client that authenticates with a key → the assertion's audience is the issuer (SEC-19)"
fault cloudentity '{"fault":"status","endpoint":"par","status":400,"body":"{\"error\":\"invalid_request\",\"error_code\":\"INVALID_REQUEST\",\"status_code\":400}","times":1}'
start_login cloudentity service
same "502 provider_error" "$STATUS $(json .code)" "Cloudentity refuses the pushed request → the login fails (SEC-10)"
log_out
told cloudentity/end_session 1
matches 'client_id=web-jwt$' "$(json '[0].body' "$work/control")" "log-out of a session of a client that authenticates with a key → end_session has this client's id"

step "5. Cloudentity behind a vanity domain, without the vendor's path"
device b-vanity
sign_in cloudentity-vanity ios ana
expect_status 201 "user signs in at Cloudentity behind a vanity domain → a session"
sandbox GET '/requests?provider=cloudentity-vanity&endpoint=token'
same /demo/oauth2/token "$(json '[0].path' "$work/control")" "token request behind a vanity domain → its path is below the issuer"
refusals cloudentity-vanity ios

step "6. Google: sign-in, refresh, log-out, refusals"
device c-phone
sandbox DELETE /requests
start_login google web
same offline "$(url_value access_type "$AUTHORIZATION_URL")" "Google's authorization URL → access_type=offline"
same consent "$(url_value prompt "$AUTHORIZATION_URL")" "Google's authorization URL → prompt=consent"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201 "callback from Google → a session"
expect_json .provider google "Google session → its provider is google"
expect_json .tokens.refreshable true "Google session → refreshable"
sandbox GET '/requests?provider=google&endpoint=token'
same "grant_type code redirect_uri code_verifier" "$(form_names)" "Google's token request → has exactly grant_type, code, redirect_uri and code_verifier"
same "Basic $(printf %s google-app:wq8ZrT5nLk2YvB7xHs0d | base64 | tr -d '\n')" "$(sent_header Authorization)" "Google's token request → has client id and secret in HTTP Basic"
request POST /v1/session/refresh
expect_status 200 "first refresh of a Google session → 200"
request POST /v1/session/refresh
expect_status 200 "second refresh of a Google session, with the same refresh token → 200"
log_out
told google/revoke 2
same "refresh_token access_token" "$(jq -r '[.[].body | capture("token_type_hint=(?<hint>[a-z_]+)").hint] | join(" ")' "$work/control")" "log-out of a Google session → revokes the refresh token, then the access token"
same "200 200" "$(jq -r '[.[].status | tostring] | join(" ")' "$work/control")" "log-out of a Google session → Google answers both revocations with 200"
refusals google web

step "7. Google's serverAuthCode needs an empty redirect_uri and a nonce"
device d-phone
nonce=$(random_token)
secret=$(random_token)
sandbox POST /native-code/google "{\"client_id\":\"google-app\",\"user\":\"ben\",\"nonce\":\"$nonce\"}"
code=$(json .code "$work/control")
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$code\",\"login_token\":\"$secret\"}"
expect_problem 400 invalid_request "app forwards Google's serverAuthCode without a nonce"
sandbox DELETE /requests
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$code\",\"login_token\":\"$secret\",\"nonce\":\"$nonce\"}"
expect_status 201 "app forwards Google's serverAuthCode with the nonce → a session"
sandbox GET '/requests?provider=google&endpoint=token'
matches 'redirect_uri=(&|$)' "$(json '[0].body' "$work/control")" "token request for Google's serverAuthCode → has an empty redirect_uri"
sandbox POST /native-code/google "{\"client_id\":\"google-app\",\"user\":\"ben\",\"nonce\":\"another\"}"
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$(json .code "$work/control")\",\"login_token\":\"$secret\",\"nonce\":\"$nonce\"}"
expect_problem 502 identity_rejected "app forwards a serverAuthCode, and Google's id_token has another nonce"

step "8. Apple's authorizationCode needs no redirect_uri, and its nonce may be hashed"
device e-phone
hashed=$(printf %s "$nonce" | sha256sum | cut -d' ' -f1)
# native_code: sets CODE to a code from the native SDK
native_code() {
    sandbox POST /native-code/apple "{\"client_id\":\"com.example.app\",\"user\":\"ana\",\"nonce\":\"$hashed\",\"scope\":\"openid email\"}"
    CODE=$(json .code "$work/control")
}
apple() { post /v1/sessions "{\"provider\":\"apple\",\"client\":\"ios\",\"code\":\"$1\",\"login_token\":\"$secret\",\"nonce\":\"$2\"}"; }
native_code
sandbox DELETE /requests
apple "$CODE" "$nonce"
expect_status 201 "Apple's authorizationCode, whose id_token has the SHA-256 of the app's nonce → a session"
sandbox GET '/requests?provider=apple&endpoint=token'
same "grant_type code client_id client_secret" "$(form_names)" "Apple's token request → has exactly grant_type, code, client_id and client_secret"
same "" "$(sent_header Authorization)" "Apple's token request → has no Authorization field"
matches 'client_secret=eyJ[A-Za-z0-9_-]+\.eyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+' "$(json '[0].body' "$work/control")" "Apple's token request → its client secret is a signed JWT"

step "9. Apple: refusals and log-out"
native_code
apple "$CODE" "$(random_token)"
expect_problem 502 identity_rejected "Apple's authorizationCode, whose id_token has another login's nonce"
secret=$(random_token)
apple c-invented "$nonce"
expect_problem 400 code_rejected "app forwards an invented authorizationCode for Apple"
post /v1/sessions "{\"provider\":\"apple\",\"client\":\"ios\",\"code\":\"$CODE\",\"login_token\":\"$secret\"}"
expect_problem 400 invalid_request "app forwards Apple's authorizationCode without a nonce"
# Apple's call would end everything that the user has granted. The user of these tokens is unknown, so they are not revoked
# (decision 21).
wait_for 10 eval '[ "$(curl -s "$MANAGEMENT/metrics" | sed -n "s/^coatcheck_revocations_pending //p")" = 0 ]'
same 0 "$(calls apple/revoke)" "broker refuses Apple's token answer, so the user is unknown → the tokens of this answer are not revoked"
log_out
told apple/revoke 2
same "token token_type_hint client_id client_secret" "$(form_names)" "Apple's revocation → has exactly token, token_type_hint, client_id and client_secret"
same "refresh_token access_token" "$(jq -r '[.[].body | capture("token_type_hint=(?<hint>[a-z_]+)").hint] | join(" ")' "$work/control")" "log-out of an Apple session → revokes the refresh token, then the access token"
same "200 200" "$(jq -r '[.[].status | tostring] | join(" ")' "$work/control")" "log-out of an Apple session → Apple answers both revocations with 200"

step "10. GitHub: a numeric id, an e-mail from a second call, refusals"
device f-phone
sandbox DELETE /requests
sign_in github web ana
expect_status 201 "user signs in at GitHub → a session"
matches '^[0-9]+$' "$(json .subject)" "GitHub's numeric user id → the session's subject is the same number as text"
expect_json .identity.email ana@example.org "GitHub session → has the e-mail address from a second call, to GitHub's list of addresses"
expect_json .tokens.refreshable false "GitHub session → not refreshable"
sandbox GET '/requests?provider=github&endpoint=token'
same "POST /github/login/oauth/access_token" "$(json '[0].method' "$work/control") $(json '[0].path' "$work/control")" "GitHub's token request → is a POST to GitHub's path"
same "application/json" "$(sent_header Accept)" "GitHub's token request → its Accept field names JSON"
same 1 "$(calls github/emails)" "sign-in at GitHub → one call for the e-mail address"
log_out
told github/revoke 1
same "DELETE /github/applications/github-app/token 204" "$(jq -r '.[0] | "\(.method) \(.path) \(.status)"' "$work/control")" "GitHub's revocation → is a DELETE with the client id in the path"
same "Basic $(printf %s github-app:wq8ZrT5nLk2YvB7xHs0d | base64 | tr -d '\n')" "$(sent_header Authorization)" "GitHub's revocation → has client id and secret in HTTP Basic"
same '["access_token"]' "$(jq -c '.[0].body | fromjson | keys' "$work/control")" "GitHub's revocation → its JSON body has exactly the access token"
refusals github web

step "11. Slack: a user token from authed_user, requested with user_scope"
device g-phone
start_login slack web
matches 'identity.basic' "$(url_value user_scope "$AUTHORIZATION_URL")" "Slack's authorization URL → has user_scope"
same "" "$(url_value code_challenge "$AUTHORIZATION_URL")" "Slack's authorization URL → has no PKCE"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201 "callback from Slack → a session"
matches '^U' "$(json .subject)" "Slack session → its subject is the user's id"
log_out
told slack/revoke 1
same "POST /slack/api/auth.revoke 200" "$(jq -r '.[0] | "\(.method) \(.path) \(.status)"' "$work/control")" "log-out of a Slack session → a POST to auth.revoke"
matches '^Bearer at-' "$(sent_header Authorization)" "Slack's auth.revoke call → has the user's token as Bearer"
sandbox GET '/tokens?provider=slack'
same 0 "$(jq '[.[] | select(.live)] | length' "$work/control")" "log-out of a Slack session → Slack has no live token"
refusals slack web

step "12. Facebook: two forms of refusal, an identity from the Graph API, no refresh"
device f-phone
start_login facebook web
browser "$AUTHORIZATION_URL" denied
same "200 user_denied" "$(url_value error_code "$CALLBACK") $(url_value error_reason "$CALLBACK")" "user refuses at Facebook → the callback has error_code and error_reason"
forward "$CALLBACK"
expect_problem 403 access_denied "user refuses at Facebook"
expect_json .provider_error access_denied "user refuses at Facebook → provider_error is access_denied"
fault facebook '{"fault":"error-callback","value":"server_error","times":1}'
start_login facebook web
browser "$AUTHORIZATION_URL" ana
same "" "$(url_value error "$CALLBACK")" "Facebook has a server error → the callback lacks the parameter error"
forward "$CALLBACK"
expect_problem 502 provider_error "Facebook's callback has only an error_code"
fault facebook '{"fault":"error-callback","value":"server_error","times":1}'
start_login facebook hosted
CALLBACK=$(location "$AUTHORIZATION_URL&sandbox_user=ana")
matches '^com.example.facebook:/back\?error=provider_error&' "$(location "$CALLBACK")" "Facebook's hosted callback has only an error_code → the app gets provider_error"
sign_in facebook web ana
expect_status 201 "user signs in at Facebook → a session"
expect_json .identity.email ana@example.org "Facebook session → has the e-mail address from the Graph API"
expect_json .tokens.refreshable false "Facebook session → not refreshable"
expect_json .scope '["public_profile","email"]' "Facebook's token answer has no scope → the session has the requested scope"

step "13. LinkedIn: no PKCE, and its own error when the user cancels"
device l-phone
start_login linkedin web
browser "$AUTHORIZATION_URL" denied
same user_cancelled_authorize "$(url_value error "$CALLBACK")" "user cancels at LinkedIn → the callback has the error user_cancelled_authorize"
forward "$CALLBACK"
expect_problem 403 access_denied "user cancels at LinkedIn"
sign_in linkedin web ana
expect_status 201 "user signs in at LinkedIn → a session"
expect_json .subject user-ana "LinkedIn session → its subject is user-ana"

finish
