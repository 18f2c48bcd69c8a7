#!/usr/bin/env bash
# Flow A: the broker starts the login, the app forwards the callback URL, and gets a session cookie.
source "$(dirname "$0")/support/lib.bash"
start_stack

step "1. What can one sign in with?"
get /v1/providers
expect_status 200
expect_json .items[0].name oidc
expect_json .items[0].clients[0].name ios
expect_json .items[0].clients[0].login both

step "2. The app asks for a login"
start_login oidc ios
expect_status 201 "the login has begun"
matches '^lgn_' "$(json .login_id)" "it has an id"
matches '^[A-Za-z0-9_-]{43}$' "$STATE" "the state is 43 characters, 256 bits"
same "" "$LOGIN_TOKEN" "the login token is not in the body: it is a cookie"
expect_header Cache-Control no-store
matches '^coatcheck-login=[A-Za-z0-9_-]{43}; ' "$(header Set-Cookie)" "the login cookie"
matches 'HttpOnly' "$(header Set-Cookie)" "no script reads it"
same S256 "$(url_value code_challenge_method "$AUTHORIZATION_URL")" "PKCE with S256"
matches '^[A-Za-z0-9_-]{43}$' "$(url_value code_challenge "$AUTHORIZATION_URL")" "and a challenge of 43 characters"
matches '^[A-Za-z0-9_-]{22,}$' "$(url_value nonce "$AUTHORIZATION_URL")" "a nonce"
same "$STATE" "$(url_value state "$AUTHORIZATION_URL")" "the state"
same "com.example.app:/cb" "$(url_value redirect_uri "$AUTHORIZATION_URL")" "the redirect URI is the app's"
same ios-app "$(url_value client_id "$AUTHORIZATION_URL")" "the client id"

step "3. The user signs in with the system browser; the provider returns to the app"
browser "$AUTHORIZATION_URL" ana
matches '^com\.example\.app:/cb\?' "$CALLBACK" "back at the app"

step "4. The app forwards the whole callback URL"
forward "$CALLBACK" '"device":"Ana'"'"'s phone"'
expect_status 201 "a session"
matches '^ses_[A-Za-z0-9_-]{22}$' "$(json .handle)" "its handle"
expect_json .provider oidc
expect_json .client ios
expect_json .subject user-ana
expect_json .identity.name "Ana Example"
expect_json .identity.email ana@example.org
expect_json .identity.unverified "{}"
expect_json .tokens.refreshable true
expect_header Cache-Control no-store
same "" "$(json .session_token)" "no token in the body"
matches '^coatcheck=[A-Za-z0-9_-]{43}; ' "$(header Set-Cookie | grep '^coatcheck=')" "the session cookie"
session=$(cookie coatcheck)
handle=$(json .handle)
same 1 "$(calls oidc/token)" "one call at the provider's token endpoint"

step "5. The cookie is the session"
get /v1/session
expect_status 200
expect_json .handle "$handle"

step "6. The answer was lost and the app forwards the same callback again: the same session, the same cookie, no call"
forward "$CALLBACK"
expect_status 201 "the same forward"
expect_json .handle "$handle"
same "$session" "$(cookie coatcheck)" "the same cookie"
same 1 "$(calls oidc/token)" "still one call"

step "7. A second login on this device is a new session and ends the first"
sign_in oidc ios ana
expect_status 201 "a new session"
new_handle=$(json .handle)
if [ "$new_handle" != "$handle" ]; then ok "another handle"; else not_ok "another handle" "$handle"; fi
if [ "$(cookie coatcheck)" != "$session" ]; then ok "another cookie"; else not_ok "another cookie"; fi
JAR= request GET /v1/session -b "coatcheck=$session"
same "401 session_ended replaced" "$STATUS $(json .code) $(json .reason)" "the old cookie: 401 session_ended, replaced"

step "8. Log out: gone here at once, and the cookie cleared (SEC-62, SEC-65)"
device a-phone
old=$(cookie coatcheck)
request DELETE /v1/session
expect_status 204 "logged out"
matches '^coatcheck=; .*Max-Age=0' "$(header Set-Cookie | grep '^coatcheck=')" "the cookie is cleared"
same "" "$(cookie coatcheck)" "the device has no cookie any more"
JAR= request GET /v1/session -b "coatcheck=$old"
same "401 session_ended logged_out" "$STATUS $(json .code) $(json .reason)" "the old cookie: 401 session_ended, logged_out"
get /v1/session
expect_problem 401 session_required "without a cookie"
request DELETE /v1/session
expect_status 204 "logging out twice is no error"

step "9. The app may hold the verifier itself"
verifier=$(random_token)
start_login oidc ios "\"code_challenge\":\"$(s256 "$verifier")\",\"code_challenge_method\":\"S256\""
expect_status 201
browser "$AUTHORIZATION_URL" ben
forward "$CALLBACK" "\"code_verifier\":\"$verifier\""
expect_status 201 "with its verifier"
expect_json .subject user-ben

step "10. A confidential client with reserved characters in its secret"
sign_in oidc web ana
expect_status 201

step "11. A plain OAuth 2.0 provider, whose identity is an API call with the new token (SEC-34)"
sign_in oauth2 ios ana
expect_status 201
expect_json .subject user-ana
expect_json .identity.email ana@example.org

finish
