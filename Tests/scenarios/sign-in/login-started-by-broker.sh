#!/usr/bin/env bash
# Flow A: the broker starts the login, the app forwards the callback URL, and gets a session cookie.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. The app lists the providers"
get /v1/providers
expect_status 200 "app lists the providers → 200"
expect_json .items[0].name oidc "list of providers → its first provider is oidc"
expect_json .items[0].clients[0].name ios "list of providers → the first client of oidc is ios"
expect_json .items[0].clients[0].login both "list of providers → the client ios has login: both"

step "2. The app starts a login"
start_login oidc ios
expect_status 201 "app starts a login → 201"
matches '^lgn_' "$(json .login_id)" "new login → has a login_id"
matches '^[A-Za-z0-9_-]{43}$' "$STATE" "new login → has a state of 43 characters (256 bits)"
same "" "$LOGIN_TOKEN" "new login of a cookie client → no login token in the body"
expect_header Cache-Control no-store "start of a login → its answer is not cached (Cache-Control: no-store)"
matches '^coatcheck-login=[A-Za-z0-9_-]{43}; ' "$(header Set-Cookie)" "new login → sets a login cookie"
matches 'HttpOnly' "$(header Set-Cookie)" "login cookie → is HttpOnly"
same S256 "$(url_value code_challenge_method "$AUTHORIZATION_URL")" "authorization URL → has code_challenge_method S256"
matches '^[A-Za-z0-9_-]{43}$' "$(url_value code_challenge "$AUTHORIZATION_URL")" "authorization URL → has a code_challenge of 43 characters"
matches '^[A-Za-z0-9_-]{22,}$' "$(url_value nonce "$AUTHORIZATION_URL")" "authorization URL → has a nonce"
same "$STATE" "$(url_value state "$AUTHORIZATION_URL")" "authorization URL → has the login's state"
same "com.example.app:/cb" "$(url_value redirect_uri "$AUTHORIZATION_URL")" "authorization URL → has the app's redirect URI"
same ios-app "$(url_value client_id "$AUTHORIZATION_URL")" "authorization URL → has the client id"

step "3. The user signs in in the system browser, and the provider returns to the app"
browser "$AUTHORIZATION_URL" ana
matches '^com\.example\.app:/cb\?' "$CALLBACK" "user signs in at the provider → the browser returns to the app"

step "4. The app forwards the whole callback URL"
forward "$CALLBACK" '"device":"Ana'"'"'s phone"'
expect_status 201 "app forwards the callback URL → a session"
matches '^ses_[A-Za-z0-9_-]{22}$' "$(json .handle)" "new session → has a handle"
expect_json .provider oidc "new session → its provider is oidc"
expect_json .client ios "new session → its client is ios"
expect_json .subject user-ana "new session → its subject is user-ana"
expect_json .identity.name "Ana Example" "new session → its identity has the user's name"
expect_json .identity.email ana@example.org "new session → its identity has the user's e-mail address"
expect_json .identity.unverified "{}" "new session → its unverified identity is empty"
expect_json .tokens.refreshable true "new session → refreshable"
expect_header Cache-Control no-store "answer to a forward → is not cached (Cache-Control: no-store)"
same "" "$(json .session_token)" "cookie session → no session token in the body"
matches '^coatcheck=[A-Za-z0-9_-]{43}; ' "$(header Set-Cookie | grep '^coatcheck=')" "new session → sets a session cookie"
session=$(cookie coatcheck)
handle=$(json .handle)
same 1 "$(calls oidc/token)" "app forwards the callback URL → one token call"

step "5. The cookie identifies the session"
get /v1/session
expect_status 200 "session read with the session's cookie → 200"
expect_json .handle "$handle" "session read with the session's cookie → the handle of this session"

step "6. The answer was lost, so the app forwards again: the same session and cookie, without a token call"
forward "$CALLBACK"
expect_status 201 "a callback forwarded twice → 201"
expect_json .handle "$handle" "a callback forwarded twice → the same session handle"
same "$session" "$(cookie coatcheck)" "a callback forwarded twice → the same cookie"
same 1 "$(calls oidc/token)" "a callback forwarded twice → no further token call"

step "7. A second login on this device makes a new session and ends the first one"
sign_in oidc ios ana
expect_status 201 "second sign-in on a device → a session"
new_handle=$(json .handle)
if [ "$new_handle" != "$handle" ]; then ok "second sign-in on a device → the new session has another handle"; else not_ok "second sign-in on a device → the new session has another handle" "$handle"; fi
if [ "$(cookie coatcheck)" != "$session" ]; then ok "second sign-in on a device → the new session has another cookie"; else not_ok "second sign-in on a device → the new session has another cookie"; fi
JAR= request GET /v1/session -b "coatcheck=$session"
same "401 session_ended replaced" "$STATUS $(json .code) $(json .reason)" "second sign-in on a device → the cookie of the first session gets session_ended, replaced"

step "8. Log-out ends the session at once and clears the cookie (SEC-62, SEC-65)"
device a-phone
old=$(cookie coatcheck)
request DELETE /v1/session
expect_status 204 "log-out of a session → 204"
matches '^coatcheck=; .*Max-Age=0' "$(header Set-Cookie | grep '^coatcheck=')" "log-out of a session → the answer clears the cookie"
same "" "$(cookie coatcheck)" "log-out of a session → the device has no session cookie any more"
JAR= request GET /v1/session -b "coatcheck=$old"
same "401 session_ended logged_out" "$STATUS $(json .code) $(json .reason)" "request with a session's cookie after the log-out → session_ended, logged_out"
get /v1/session
expect_problem 401 session_required "session read without a cookie, after a log-out cleared the cookie"
request DELETE /v1/session
expect_status 204 "log-out without a session → 204"

step "9. The app may keep the PKCE verifier itself"
verifier=$(random_token)
start_login oidc ios "\"code_challenge\":\"$(s256 "$verifier")\",\"code_challenge_method\":\"S256\""
expect_status 201 "start of a login with the app's code challenge → 201"
browser "$AUTHORIZATION_URL" ben
forward "$CALLBACK" "\"code_verifier\":\"$verifier\""
expect_status 201 "forward with the app's own verifier → a session"
expect_json .subject user-ben "forward with the app's own verifier → the session's subject is user-ben"

step "10. A confidential client with reserved characters in its secret"
sign_in oidc web ana
expect_status 201 "sign-in of a confidential client → a session"

step "11. A plain OAuth 2.0 provider: the identity comes from an API call (SEC-34)"
sign_in oauth2 ios ana
expect_status 201 "sign-in at an OAuth 2.0 provider without OpenID Connect → a session"
expect_json .subject user-ana "session at an OAuth 2.0 provider → its subject is user-ana"
expect_json .identity.email ana@example.org "session at an OAuth 2.0 provider → its identity has the e-mail address"

finish
