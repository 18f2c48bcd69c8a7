#!/usr/bin/env bash
# Log-outs with the provider's log-out page (`logout_url`). The page ends the browser's session at the provider. The provider then
# sends a logout token.
source "$(dirname "$0")/../support/lib.bash"
start_stack
sandbox PUT /clients/oidc/shared-app '{"post_logout_redirect_uris":["com.example.shared:/out"]}'

# at_provider URL: the browser opens the URL with its cookies; sets STATUS and CALLBACK
at_provider() {
    local url=$1
    shift
    STATUS=$(curl -s -m 20 -o "$work/body" -D "$work/headers" -w '%{http_code}' -b "$work/browser.jar" -c "$work/browser.jar" "$@" "$url")
    CALLBACK=$(header Location)
}
# log_out_with QUERY: sends DELETE /v1/session with this query
log_out_with() { request DELETE "/v1/session$1"; }

step "1. Refused parameters, and log-outs without a page"
device nobody
log_out_with '?logout_url=yes'
expect_problem 400 invalid_request "log-out with logout_url=yes"
log_out_with '?logout=true'
expect_problem 400 invalid_request "log-out with an unknown query parameter"
log_out_with '?logout_url=true&logout_url=true'
expect_problem 400 invalid_request "log-out with logout_url twice"
log_out_with '?logout_url=true'
same "200 null" "$STATUS $(json .logout_url)" "log-out without a session, with logout_url=true → logout_url is null"
log_out_with '?logout_url=false'
expect_status 204 "log-out without a session, with logout_url=false → 204"
JAR= request DELETE '/v1/session?logout_url=true' -b "coatcheck=$(random_token)"
same "200 null" "$STATUS $(json .logout_url)" "log-out with an invented cookie and logout_url=true → logout_url is null"
device github-phone
sign_in github web
log_out_with '?logout_url=true'
same "200 null" "$STATUS $(json .logout_url)" "log-out with logout_url=true, and the provider has no log-out page → logout_url is null"
get /v1/session
same 401 "$STATUS" "log-out with logout_url=true, and the provider has no log-out page → the session has ended"
device cross
sign_in oidc shared
request DELETE '/v1/session?logout_url=true' -H 'Sec-Fetch-Site: cross-site'
expect_problem 403 cross_origin "log-out from another site"
get /v1/session
expect_status 200 "page of another site sends a log-out → the session is alive"

step "2. A log-out without the page: the browser stays signed in at the provider"
device phone
start_login oidc shared
at_provider "$AUTHORIZATION_URL&sandbox_user=ana&sandbox_sid=sid-phone"
forward "$CALLBACK"
expect_status 201 "phone signs in through a browser that keeps its cookies → a session"
start_login oidc shared '"parameters":{"prompt":"none"}'
at_provider "$AUTHORIZATION_URL"
forward "$CALLBACK"
expect_status 201 "login with prompt=none while the browser is signed in at the provider → a session"
request DELETE /v1/session
expect_status 204 "log-out without logout_url=true → 204"
wait_for 10 eval '[ "$(calls oidc/end_session)" = 1 ]'
same 0 $? "log-out without logout_url=true → the broker calls the provider's end_session endpoint"

step "3. A log-out with the provider's page"
device phone
start_login oidc shared
at_provider "$AUTHORIZATION_URL&sandbox_user=ana&sandbox_sid=sid-phone"
forward "$CALLBACK"
expect_status 201 "phone signs in again after its log-out → a session"
device tablet
start_login oidc shared
CALLBACK=$(location "$AUTHORIZATION_URL&sandbox_user=ana&sandbox_sid=sid-tablet")
forward "$CALLBACK"
expect_status 201 "the same user signs in on a tablet → a session"
device phone
old=$(cookie coatcheck)
sandbox DELETE /requests
log_out_with '?logout_url=true'
expect_status 200 "log-out with logout_url=true → 200"
page=$(json .logout_url)
expect_header Cache-Control no-store "log-out with logout_url=true → its answer has Cache-Control: no-store"
matches 'coatcheck=;.*Max-Age=0' "$(header Set-Cookie)" "log-out with logout_url=true → the answer clears the cookie"
same "$SANDBOX/oidc/end_session" "${page%%\?*}" "log-out with logout_url=true → the answer's logout_url is the provider's end_session endpoint"
same "client_id post_logout_redirect_uri state" "$(python3 -c 'import sys, urllib.parse as u; print(*[n for n, _ in u.parse_qsl(u.urlsplit(sys.argv[1]).query)])' "$page")" "log-out with logout_url=true → the answer's logout_url has client, return address and state, but no id_token"
same "shared-app com.example.shared:/out" "$(url_value client_id "$page") $(url_value post_logout_redirect_uri "$page")" "log-out with logout_url=true → the answer's logout_url has the client's id and return address"
matches '^[A-Za-z0-9_-]{43}$' "$(url_value state "$page")" "log-out with logout_url=true → the answer's logout_url has a random state"
JAR= request GET /v1/session -b "coatcheck=$old"
same "401 logged_out" "$STATUS $(json .reason)" "log-out with logout_url=true → the ended session's cookie gets 401"
JAR= request DELETE '/v1/session?logout_url=true' -b "coatcheck=$old"
same "200 null" "$STATUS $(json .logout_url)" "second log-out with logout_url=true and the ended session's cookie → logout_url is null"
wait_for 10 eval '[ "$(calls oidc/revoke)" -ge 1 ]'
same 0 $? "log-out with logout_url=true → the tokens are revoked"
sleep 1
same 0 "$(calls oidc/end_session)" "log-out with logout_url=true → the broker does not call the end_session endpoint"

# The next step does what the conformance module oidcc-client-test-rp-init-logout does. Its variants -no-state and -other-state
# test the app, because the app compares the state.
step "4. The user confirms on the page and returns to the app with the state (oidcc-client-test-rp-init-logout)"
at_provider "$page"
same "200" "$STATUS" "browser opens the log-out page → the provider asks the user to confirm"
start_login oidc shared '"parameters":{"prompt":"none"}'
at_provider "$AUTHORIZATION_URL"
same "" "$(url_value error "$CALLBACK")" "log-out page is open but not confirmed → the browser is signed in at the provider"
at_provider "${page%%\?*}" --data-urlencode "confirm=yes" --data-urlencode "client_id=shared-app" --data-urlencode "post_logout_redirect_uri=com.example.shared:/out" --data-urlencode "state=$(url_value state "$page")"
same "com.example.shared:/out?state=$(url_value state "$page")" "$CALLBACK" "user confirms on the log-out page → the browser returns to the app with the state"
start_login oidc shared '"parameters":{"prompt":"none"}'
at_provider "$AUTHORIZATION_URL"
forward "$CALLBACK"
expect_problem 409 interaction_required "login with prompt=none after the user confirmed on the log-out page"
expect_json .provider_error login_required "login with prompt=none after the user confirmed on the log-out page → provider_error is login_required"

step "5. The provider's logout token for the phone's sign-in does not end the tablet's session"
sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"shared-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",\"user\":\"ana\",\"sid\":\"sid-phone\"}"
same 200 "$(json .status "$work/control")" "logout token for the phone's sign-in → accepted"
device tablet
get /v1/session
expect_status 200 "logout token for the phone's sign-in → the tablet's session is alive"
sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"ios-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",\"user\":\"ana\",\"mutate\":{\"sid\":null}}"
same 200 "$(json .status "$work/control")" "logout token for another client → accepted"
get /v1/session
expect_status 200 "logout token for another client → the tablet's session is alive"
sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"shared-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",\"user\":\"ana\",\"sid\":\"sid-tablet\"}"
get /v1/session
same "401 provider_logout" "$STATUS $(json .reason)" "logout token for the tablet's sign-in → the tablet's session has ended"

step "6. A login with prompt=none and max_age, and the sign-in at the provider is too old"
device old-phone
start_login oidc shared
at_provider "$AUTHORIZATION_URL&sandbox_user=ana"
forward "$CALLBACK"
expect_status 201 "sign-in before the provider's clock moves by 400 seconds → a session"
sandbox POST /clock '{"advance":400}'
start_login oidc shared '"parameters":{"prompt":"none","max_age":"300"}'
at_provider "$AUTHORIZATION_URL"
forward "$CALLBACK"
expect_problem 409 interaction_required "login with max_age 300 and prompt=none, 400 seconds after the sign-in at the provider"

finish
