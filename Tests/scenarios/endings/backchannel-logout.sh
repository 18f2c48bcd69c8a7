#!/usr/bin/env bash
# OpenID Connect Back-Channel Logout 1.0: the provider ends sessions with a signed logout token.
source "$(dirname "$0")/../support/lib.bash"
start_stack

# logout MEMBERS: the emulator signs a logout token and posts it to the broker; LOGOUT_STATUS is the status of the answer
logout() {
    sandbox POST /backchannel-logout "{\"provider\":\"oidc\",\"client_id\":\"ios-app\",\"url\":\"$BROKER/v1/backchannel-logout/oidc\",$1}"
    LOGOUT_STATUS=$(json .status "$work/control")
}
alive() { JAR= request GET /v1/session -b "coatcheck=$1"; [ "$STATUS" = 200 ]; }
# session_of USER SID: makes a session; COOKIE is its cookie
session_of() {
    device "phone-$RANDOM$RANDOM"
    start_login oidc ios
    CALLBACK=$(location "$AUTHORIZATION_URL&sandbox_user=$1&sandbox_sid=$2")
    forward "$CALLBACK"
    COOKIE=$(cookie coatcheck)
}

step "1. Three sessions of ana, one of ben"
session_of ana sid-1; first=$COOKIE
session_of ana sid-2; second=$COOKIE
session_of ana sid-3; third=$COOKIE
session_of ben sid-4; ben=$COOKIE

step "2. Invalid logout tokens (SEC-66) get 400 and end no session"
for members in '"sid":"sid-1","signature":"foreign"' '"sid":"sid-1","mutate":{"iss":"https://evil.example"}' '"sid":"sid-1","mutate":{"aud":"other-app"}' \
    '"sid":"sid-1","mutate":{"events":null}' '"sid":"sid-1","mutate":{"events":{"http://schemas.openid.net/event/other":{}}}' '"sid":"sid-1","mutate":{"nonce":"n"}' \
    '"sid":"sid-1","mutate":{"jti":null}' '"sid":"sid-1","mutate":{"iat":null}' '"sid":"sid-1","mutate":{"iat":1000000000,"exp":1000000600}' '"mutate":{"sub":null,"sid":null}' '"sid":"sid-1","header":{"typ":"at+jwt"}' '"sid":"sid-1","header":{"alg":"none"}'; do
    logout "$members"
    same 400 "$LOGOUT_STATUS" "logout token with $members → 400"
done
alive "$first"; same 0 $? "provider sends logout tokens with invalid members → the session is alive"
request POST /v1/backchannel-logout/oidc -d logout_token=junk
expect_status 400 "logout token that is not a JWT → 400"
request POST /v1/backchannel-logout/oidc -d other=x
expect_status 400 "request without a logout token → 400"
request POST /v1/backchannel-logout/oidc -H 'Content-Type: application/json' --data-binary '{"logout_token":"x"}'
expect_problem 415 unsupported_media_type "logout token in a JSON body"
get /v1/backchannel-logout/oidc
expect_problem 405 method_not_allowed "GET of the back-channel logout route"
request POST /v1/backchannel-logout/nobody -d logout_token=x
expect_problem 404 provider_not_found "logout token for an unknown provider"
head -c 100000 /dev/zero | tr '\0' x >"$work/big"
request POST /v1/backchannel-logout/oidc -H 'Content-Type: application/x-www-form-urlencoded' --data-binary "logout_token=$(cat "$work/big")" 2>/dev/null
same 4 "${STATUS:0:1}" "logout token of 100,000 bytes → refused"

step "3. A logout token with a sid ends exactly one session (SEC-68)"
logout '"user":"ana","sid":"sid-1"'
same 200 "$LOGOUT_STATUS" "logout token for ana's provider session sid-1 → accepted"
alive "$first"
same "401 provider_logout" "$STATUS $(json .reason)" "logout token for ana's provider session sid-1 → the session from sid-1 ends with provider_logout"
alive "$second"; same 0 $? "logout token for ana's provider session sid-1 → ana's second session is alive"
alive "$ben"; same 0 $? "logout token for ana's provider session sid-1 → ben's session is alive"

step "4. A logout token is used once (SEC-67)"
token=$(json .token "$work/control")
request POST /v1/backchannel-logout/oidc --data-urlencode "logout_token=$token"
expect_status 400 "logout token sent a second time → 400"

step "5. An unknown sid gets the same answer as a known one (SEC-69)"
logout '"user":"ana","sid":"sid-unknown"'
same 200 "$LOGOUT_STATUS" "logout token with an unknown sid → 200"

step "6. A logout token without a sid ends all sessions of the user"
logout '"user":"ana","mutate":{"sid":null}'
same 200 "$LOGOUT_STATUS" "logout token for ana without a sid → accepted"
alive "$second"
same "401 provider_logout" "$STATUS $(json .reason)" "logout token for ana without a sid → ana's second session ends"
alive "$third"
same "401 provider_logout" "$STATUS $(json .reason)" "logout token for ana without a sid → ana's third session ends"
alive "$ben"; same 0 $? "logout token for ana without a sid → ben's session is alive"

step "7. An id_token is not accepted as a logout token (SEC-31)"
logout "\"user\":\"ben\",\"sid\":\"sid-4\",\"mutate\":{\"events\":null,\"nonce\":\"n\"}"
same 400 "$LOGOUT_STATUS" "id_token sent as a logout token → 400"
alive "$ben"; same 0 $? "id_token sent as a logout token → ben's session is alive"

step "8. The conformance suite's back-channel modules, by their names"
# module NAME MEMBERS: checks that the conformance module's logout token is refused, and that the session lives
session_of cara sid-cara; cara=$COOKIE
module() {
    logout "\"user\":\"cara\",\"sid\":\"sid-cara\",$2"
    alive "$cara"
    same "400 200" "$LOGOUT_STATUS $STATUS" "conformance module oidcc-client-test-rp-backchannel-rpinitlogout-$1 → 400, and the session is alive"
}
module alg-none '"alg":"none"'
module wrong-alg '"alg":"HS256"'
module wrong-iss '"mutate":{"iss":"https://evil.example"}'
module wrong-aud '"mutate":{"aud":"somebody-else"}'
module no-event '"mutate":{"events":null}'
module wrong-event '"mutate":{"events":{"http://schemas.openid.net/event/other":{}}}'
module with-nonce '"mutate":{"nonce":"n"}'
logout '"user":"cara","sid":"sid-cara"'
alive "$cara"
same "200 401" "$LOGOUT_STATUS $STATUS" "conformance module oidcc-client-test-rp-backchannel-rpinitlogout → 200, and the session has ended"

finish
