#!/usr/bin/env bash
# A log-out with the provider's page: the browser's own sign-on session there, and the logout token that follows.
source "$(dirname "$0")/support/lib.bash"
start_stack
sandbox PUT /clients/oidc/shared-app '{"post_logout_redirect_uris":["com.example.shared:/out"]}'

# at_provider URL: the browser opens it with its cookies; STATUS and CALLBACK
at_provider() {
    local url=$1
    shift
    STATUS=$(curl -s -m 20 -o "$work/body" -D "$work/headers" -w '%{http_code}' -b "$work/browser.jar" -c "$work/browser.jar" "$@" "$url")
    CALLBACK=$(header Location)
}
# log_out QUERY: DELETE /v1/session
log_out_with() { request DELETE "/v1/session$1"; }

step "1. What it refuses"
device nobody
log_out_with '?logout_url=yes'
expect_problem 400 invalid_request "another word"
log_out_with '?logout=true'
expect_problem 400 invalid_request "another name"
log_out_with '?logout_url=true&logout_url=true'
expect_problem 400 invalid_request "twice"
log_out_with '?logout_url=true'
same "200 null" "$STATUS $(json .logout_url)" "without a session: null"
log_out_with '?logout_url=false'
expect_status 204 "not wanted"
JAR= request DELETE '/v1/session?logout_url=true' -b "coatcheck=$(random_token)"
same "200 null" "$STATUS $(json .logout_url)" "a made-up cookie: null"
device github-phone
sign_in github web
log_out_with '?logout_url=true'
same "200 null" "$STATUS $(json .logout_url)" "a provider without a page: null"
get /v1/session
same 401 "$STATUS" "logged out all the same"
device cross
sign_in oidc shared
request DELETE '/v1/session?logout_url=true' -H 'Sec-Fetch-Site: cross-site'
expect_problem 403 cross_origin "another site"
get /v1/session
expect_status 200 "the session lives"

step "2. A shared device: the browser stays signed in at the provider"
device phone
start_login oidc shared
at_provider "$AUTHORIZATION_URL&sandbox_user=ana&sandbox_sid=sid-phone"
forward "$CALLBACK"
expect_status 201
start_login oidc shared '"parameters":{"prompt":"none"}'
at_provider "$AUTHORIZATION_URL"
forward "$CALLBACK"
expect_status 201 "prompt=none: in without a question"
request DELETE /v1/session
expect_status 204 "an ordinary log-out"
wait_for 10 eval '[ "$(calls oidc/end_session)" = 1 ]'
same 0 $? "is told by the server"

step "3. With the page"
device phone
start_login oidc shared
at_provider "$AUTHORIZATION_URL&sandbox_user=ana&sandbox_sid=sid-phone"
forward "$CALLBACK"
expect_status 201
device tablet
start_login oidc shared
CALLBACK=$(location "$AUTHORIZATION_URL&sandbox_user=ana&sandbox_sid=sid-tablet")
forward "$CALLBACK"
expect_status 201 "the same user on another device"
device phone
old=$(cookie coatcheck)
sandbox DELETE /requests
log_out_with '?logout_url=true'
expect_status 200
page=$(json .logout_url)
expect_header Cache-Control no-store
matches 'coatcheck=;.*Max-Age=0' "$(header Set-Cookie)" "the cookie is cleared"
same "$SANDBOX/oidc/end_session" "${page%%\?*}" "end_session"
same "client_id post_logout_redirect_uri state" "$(python3 -c 'import sys, urllib.parse as u; print(*[n for n, _ in u.parse_qsl(u.urlsplit(sys.argv[1]).query)])' "$page")" "its parameters, no id_token among them"
same "shared-app com.example.shared:/out" "$(url_value client_id "$page") $(url_value post_logout_redirect_uri "$page")" "the client's own"
matches '^[A-Za-z0-9_-]{43}$' "$(url_value state "$page")" "a fresh state"
JAR= request GET /v1/session -b "coatcheck=$old"
same "401 logged_out" "$STATUS $(json .reason)" "gone here at once"
JAR= request DELETE '/v1/session?logout_url=true' -b "coatcheck=$old"
same "200 null" "$STATUS $(json .logout_url)" "a second time: null"
wait_for 10 eval '[ "$(calls oidc/revoke)" -ge 1 ]'
same 0 $? "its tokens are revoked"
sleep 1
same 0 "$(calls oidc/end_session)" "and the background call is not made"

# oidcc-client-test-rp-init-logout; for -no-state and -other-state the app is the judge, because it compares the state.
step "4. The user opens it: asked, then signed out there, and back to the app with the state (oidcc-client-test-rp-init-logout)"
at_provider "$page"
same "200" "$STATUS" "the provider asks"
start_login oidc shared '"parameters":{"prompt":"none"}'
at_provider "$AUTHORIZATION_URL"
same "" "$(url_value error "$CALLBACK")" "until then the browser is signed in"
at_provider "${page%%\?*}" --data-urlencode "confirm=yes" --data-urlencode "client_id=shared-app" --data-urlencode "post_logout_redirect_uri=com.example.shared:/out" --data-urlencode "state=$(url_value state "$page")"
same "com.example.shared:/out?state=$(url_value state "$page")" "$CALLBACK" "back at the app"
start_login oidc shared '"parameters":{"prompt":"none"}'
at_provider "$AUTHORIZATION_URL"
forward "$CALLBACK"
expect_problem 409 interaction_required "the next sign-in is asked for"
expect_json .provider_error login_required

step "5. The provider's logout token for that sign-in: the tablet lives"
sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"shared-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",\"user\":\"ana\",\"sid\":\"sid-phone\"}"
same 200 "$(json .status "$work/control")" "taken"
device tablet
get /v1/session
expect_status 200 "the other device"
sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"ios-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",\"user\":\"ana\",\"mutate\":{\"sid\":null}}"
same 200 "$(json .status "$work/control")" "one for another client"
get /v1/session
expect_status 200 "does not touch it"
sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"shared-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",\"user\":\"ana\",\"sid\":\"sid-tablet\"}"
get /v1/session
same "401 provider_logout" "$STATUS $(json .reason)" "its own ends it"

step "6. max_age over a sign-on session that is too old"
device old-phone
start_login oidc shared
at_provider "$AUTHORIZATION_URL&sandbox_user=ana"
forward "$CALLBACK"
expect_status 201
sandbox POST /clock '{"advance":400}'
start_login oidc shared '"parameters":{"prompt":"none","max_age":"300"}'
at_provider "$AUTHORIZATION_URL"
forward "$CALLBACK"
expect_problem 409 interaction_required "asked for again"

finish
