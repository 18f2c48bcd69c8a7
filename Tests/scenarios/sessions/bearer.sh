#!/usr/bin/env bash
# Clients with `transport: bearer` get the login token and the session token in the body instead of a cookie.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. A login"
start_login oidc android
expect_status 201 "start of a bearer client's login → 201"
matches '^[A-Za-z0-9_-]{43}$' "$LOGIN_TOKEN" "bearer client's login → the login token is in the body"
same "" "$(header Set-Cookie)" "bearer client's login → no cookie"
browser "$AUTHORIZATION_URL" ana

step "2. A forward without the login token is refused"
callback=$CALLBACK
forward "$callback"
expect_problem 403 login_not_yours "bearer client's callback, forwarded without the login token"

step "3. A forward with the login token makes a session"
start_login oidc android
token=$LOGIN_TOKEN
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK" "\"login_token\":\"$token\""
expect_status 201 "bearer client's callback, forwarded with the login token → a session"
session=$(json .session_token)
handle=$(json .handle)
matches '^[A-Za-z0-9_-]{43}$' "$session" "bearer client's session → the session token is in the body"
same "" "$(header Set-Cookie)" "bearer client's session → no cookie"
expect_header Cache-Control no-store "forward of a bearer client → its answer is not cached (Cache-Control: no-store)"

step "4. Authorization: Bearer identifies the session"
get /v1/session -H "Authorization: Bearer $session"
expect_status 200 "session read with its bearer token → 200"
expect_json .handle "$handle" "session read with its bearer token → the handle of this session"
same "" "$(json .session_token)" "session read with its bearer token → no session token in the body"
get /v1/session -H "authorization: bearer $session"
expect_status 200 "session read with the scheme 'bearer' in lower case → 200"
get /v1/session
expect_problem 401 session_required "session read without the bearer token"
matches '.' "$(header WWW-Authenticate)" "session read without the bearer token → the 401 has WWW-Authenticate"
get "/v1/session?session_token=$session"
same 4 "${STATUS:0:1}" "session token in the URL → refused (SEC-43)"

step "5. Cookie and bearer together must name the same session"
device a-browser
sign_in oidc ios ben
get /v1/session -H "Authorization: Bearer $session"
expect_problem 400 invalid_request "request with the cookie and the bearer token of two sessions"
get /v1/session -H "Authorization: Bearer $(cookie coatcheck)"
expect_status 200 "request with the cookie and the bearer token of one session → 200"

step "6. An app may send its login token with a second login; both logins then have this token"
device a-phone
start_login oidc android
first=$LOGIN_TOKEN
first_url=$AUTHORIZATION_URL
start_login oidc android "\"login_token\":\"$first\""
same "$first" "$LOGIN_TOKEN" "second login sent with the first login's token → gets the same login token"
start_login oidc android "\"login_token\":\"$(random_token)\""
if [ "$LOGIN_TOKEN" != "$first" ]; then ok "login sent with an invented login token → gets another login token"; else not_ok "login sent with an invented login token → gets another login token"; fi
browser "$first_url" ana
forward "$CALLBACK" "\"login_token\":\"$first\""
expect_status 201 "two logins share a login token, and the first login's callback is forwarded with this token → a session"

step "7. Log out"
request DELETE /v1/session -H "Authorization: Bearer $session"
expect_status 204 "log-out with the bearer token → 204"
get /v1/session -H "Authorization: Bearer $session"
expect_problem 401 session_ended "session read with the bearer token of a session that has logged out"

finish
