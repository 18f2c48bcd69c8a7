#!/usr/bin/env bash
# Clients with `transport: bearer` get their tokens in the body, and no cookie.
source "$(dirname "$0")/support/lib.bash"
start_stack

step "1. A login"
start_login oidc android
expect_status 201
matches '^[A-Za-z0-9_-]{43}$' "$LOGIN_TOKEN" "the login token is in the body"
same "" "$(header Set-Cookie)" "no cookie"
browser "$AUTHORIZATION_URL" ana

step "2. Without the login token, nobody is the starter"
callback=$CALLBACK
forward "$callback"
expect_problem 403 login_not_yours "no login token"

step "3. With it"
start_login oidc android
token=$LOGIN_TOKEN
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK" "\"login_token\":\"$token\""
expect_status 201 "a session"
session=$(json .session_token)
handle=$(json .handle)
matches '^[A-Za-z0-9_-]{43}$' "$session" "the session token is in the body"
same "" "$(header Set-Cookie)" "no cookie"
expect_header Cache-Control no-store

step "4. Authorization: Bearer is the session"
get /v1/session -H "Authorization: Bearer $session"
expect_status 200
expect_json .handle "$handle"
same "" "$(json .session_token)" "only the 201 holds the token"
get /v1/session -H "authorization: bearer $session"
expect_status 200 "the scheme's case does not matter"
get /v1/session
expect_problem 401 session_required "without it"
matches '.' "$(header WWW-Authenticate)" "a challenge"
get "/v1/session?session_token=$session"
same 4 "${STATUS:0:1}" "never from the URL (SEC-43)"

step "5. Cookie and bearer together must name the same session"
device a-browser
sign_in oidc ios ben
get /v1/session -H "Authorization: Bearer $session"
expect_problem 400 invalid_request "two sessions"
get /v1/session -H "Authorization: Bearer $(cookie coatcheck)"
expect_status 200 "the same in both"

step "6. Two logins of one device share a starter, by the login token in the body"
device a-phone
start_login oidc android
first=$LOGIN_TOKEN
first_url=$AUTHORIZATION_URL
start_login oidc android "\"login_token\":\"$first\""
same "$first" "$LOGIN_TOKEN" "the second login joins the first one's starter"
start_login oidc android "\"login_token\":\"$(random_token)\""
if [ "$LOGIN_TOKEN" != "$first" ]; then ok "a token that the broker does not know is never adopted"; else not_ok "never adopted"; fi
browser "$first_url" ana
forward "$CALLBACK" "\"login_token\":\"$first\""
expect_status 201 "the first login finishes"

step "7. Log out"
request DELETE /v1/session -H "Authorization: Bearer $session"
expect_status 204
get /v1/session -H "Authorization: Bearer $session"
expect_problem 401 session_ended "the token is dead"

finish
