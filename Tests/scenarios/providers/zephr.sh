#!/usr/bin/env bash
# Flow E, Zephr: a known user; a registration that the app completes with its state_key; Zephr's refusals; attributes submitted
# twice; a lost answer; and the exact register request.
source "$(dirname "$0")/../support/lib.bash"
start_stack

zephr_login() { start_login zephr ios '"social_provider":"google"'; browser "$AUTHORIZATION_URL" "$1"; }
# register STATE-KEY ATTRIBUTES [MORE-MEMBERS]: the app submits the attributes of a registration
register() { post /v1/registrations "{\"provider\":\"zephr\",\"client\":\"ios\",\"state_key\":$(json_text "$1"),\"attributes\":$2${3:+,$3}}"; }
# partial USER: starts a login of this device that ends in a registration (202); sets STATE_KEY
partial() {
    zephr_login "$1"
    forward "$CALLBACK"
    STATE_KEY=$(json .state_key)
}

step "1. The start of a login"
post /v1/logins '{"provider":"zephr","client":"ios"}'
expect_problem 400 invalid_request "two social providers are configured, and the request names neither"
expect_json .errors[0].pointer /social_provider "two social providers are configured, and the request omits the provider → the error points to /social_provider"
post /v1/logins '{"provider":"zephr","client":"ios","social_provider":"myspace"}'
expect_problem 400 invalid_request "login request names a social provider that is not configured"
zephr_login ana
expect_status 201 "start of a Zephr login with a social provider → 201"
matches "^$SANDBOX/zephr/" "$AUTHORIZATION_URL" "Zephr login → the authorization URL is an address of the Zephr site"

step "2. A known user signs in"
matches 'status=success' "$CALLBACK" "known user's sign-in → the callback has status=success"
forward "$CALLBACK"
expect_status 201 "known user's callback is forwarded → a session"
expect_json .provider zephr "known user's session → its provider is zephr"
expect_json .identity.email ana@example.org "known user's session → has ana's e-mail address"
expect_json .tokens.refreshable false "Zephr session → not refreshable"
same 1 "$(calls zephr/account)" "known user's callback → the broker verifies the Zephr session with one account call"
handle=$(json .handle)
forward "$CALLBACK"
expect_status 201 "app repeats a forward because the broker's answer was lost → 201"
expect_json .handle "$handle" "app repeats a forward because the broker's answer was lost → the same session handle"
device a-stranger
forward "$CALLBACK"
same 4 "${STATUS:0:1}" "another device forwards Zephr's callback URL → refused"
device a-phone
request DELETE /v1/session
expect_status 204 "log-out of a Zephr session → 204"
wait_for 10 eval '[ "$(calls zephr/logout)" -ge 1 ]'
same 0 $? "log-out of a Zephr session → the broker also ends the session at Zephr"

step "2a. A user who is already signed in at Zephr gets the same session id and may sign in again"
sandbox PUT /settings/zephr '{"signed_in":true}'
device a-tablet
zephr_login ana
forward "$CALLBACK"
expect_status 201 "first login of a user on a tablet, at Zephr → a session"
first=$(url_value session_id "$CALLBACK")
zephr_login ana
same "$first" "$(url_value session_id "$CALLBACK")" "user who is signed in at Zephr starts a second login → Zephr returns the same session id"
before=$(calls zephr/logout)
forward "$CALLBACK"
expect_status 201 "second login of the user on the tablet, with the same Zephr session id → a session"
wait_for 10 shows 'coatcheck_revocations_total.*shared.* [1-9]'
same 0 $? "second login replaces the tablet's session → the outbox counts the old session's revocation as shared"
same "$before" "$(calls zephr/logout)" "second login replaces a session, and both use the same Zephr session id → no Zephr logout call"
get /v1/relay/news/blaize/profile
expect_status 200 "relay call of the session from the second login → 200"
request DELETE /v1/session
expect_status 204 "user logs out of the last session with this Zephr session id → 204"
wait_for 10 eval '[ "$(calls zephr/logout)" -gt "$before" ]'
same 0 $? "log-out of the last session with this Zephr session id → a Zephr logout call"
sandbox PUT /settings/zephr '{"signed_in":false}'
device a-phone

step "3. A session id that Zephr does not know"
zephr_login ana
forward "$(with_value session_id bs-invented "$CALLBACK")"
same 4 "${STATUS:0:1}" "callback with a session id unknown to Zephr → refused"
same "" "$(json .handle)" "callback with a session id unknown to Zephr → no session"

step "4. A new user signs in, and the app completes the registration"
partial newbie
expect_status 202 "new user with missing attributes → 202"
expect_json .outcome registration_required "new user with missing attributes → the outcome is registration_required"
expect_json .identifier newbie@example.org "new user with missing attributes → the answer has the e-mail address as identifier"
expect_json .fields[0].name first-name "new user with missing attributes → the first missing field is first-name"
expect_json .fields[0].required true "new user with missing attributes → the field first-name is required"
same "" "$(cookie coatcheck)" "new user with missing attributes → no session cookie"
first=$STATE_KEY
forward "$CALLBACK"
expect_status 202 "app repeats the forward that began a registration → 202"
same "$first" "$(json .state_key)" "app repeats the forward that began a registration → the same state_key"
device a-stranger
register "$first" '{"first-name":"Mallory"}'
expect_problem 403 login_not_yours "another device submits the registration's state_key"
device a-phone
sandbox DELETE /requests
register "$first" '{"first-name":"Ana","newsletter":true,"birth-year":1990}'
expect_status 201 "app submits the missing attributes → a session"
expect_json .identity.email newbie@example.org "app submits the missing attributes → the session has the new user's e-mail address"
handle=$(json .handle)
session=$(cookie coatcheck)
sandbox GET '/requests?provider=zephr&endpoint=register'
same 1 "$(jq length "$work/control")" "completed registration → one register request at Zephr"
same POST "$(json '[0].method' "$work/control")" "Zephr's register endpoint → receives a POST request"
same /zephr/blaize/register "$(json '[0].path' "$work/control")" "Zephr's register request → its path is /blaize/register"
body=$(json '[0].body' "$work/control")
printf %s "$body" >"$work/register.json"
same "$first" "$(json .validators.token_exchange "$work/register.json")" "Zephr's register request → its validators.token_exchange is the state_key"
same Ana "$(json .attributes.first-name "$work/register.json")" "Zephr's register request → contains the submitted attributes"
same 1990 "$(json .attributes.birth-year "$work/register.json")" "app submits a numeric attribute → the attribute stays a number in Zephr's register request"
same '{}' "$(json .identifiers "$work/register.json")" "Zephr's register request → its identifiers are empty"

step "5. The app submits again because the first answer was lost"
register "$first" '{"newsletter":true,"first-name":"Ana","birth-year":1990}'
expect_status 201 "app repeats a completed registration with the attributes in another order → 201"
expect_json .handle "$handle" "app repeats a completed registration → the same session handle"
same "$session" "$(cookie coatcheck)" "app repeats a completed registration → the same session cookie"
same 1 "$(calls zephr/register)" "app repeats a completed registration → one register call at Zephr in all"
register "$first" '{"first-name":"Other"}'
expect_problem 410 state_key_expired "app submits other attributes with a used state_key"

step "6. Zephr rejects an attribute; the user corrects it with the same state_key"
device b-phone
partial newt
before=$(calls zephr/register)
register "$STATE_KEY" '{"newsletter":true}'
expect_problem 400 invalid_request "app submits a registration without a required attribute"
same "/attributes/first-name required" "$(json '.errors[0].pointer') $(json '.errors[0].code')" "registration without a required attribute → the error points to this attribute"
same "$before" "$(calls zephr/register)" "registration without a required attribute → no register call"
fault zephr '{"fault":"register-weak","times":1}'
register "$STATE_KEY" '{"first-name":"?"}'
expect_problem 400 registration_rejected "registration with an attribute whose value Zephr rejects"
register "$STATE_KEY" '{"first-name":"Newt"}'
expect_status 201 "app submits corrected attributes after Zephr's rejection → a session"

step "7. Zephr's refusals become problem codes"
device c-phone
partial taken
register "$STATE_KEY" '{"first-name":"T"}'
expect_problem 409 user_already_exists "registration of a user whom Zephr already has"
partial blocked
register "$STATE_KEY" '{"first-name":"B"}'
expect_problem 403 email_domain_denied "registration with an e-mail domain that Zephr blocks"
for pair in "register-key-unknown 410 state_key_expired" "register-key-expired 410 state_key_expired" "register-key-spent 410 state_key_expired" \
    "register-exists 409 user_already_exists" "register-domain 403 email_domain_denied" "register-weak 400 registration_rejected" "register-no-session 502 provider_error"; do
    read -r name status code <<<"$pair"
    for shape in "" html-error empty-error text-error; do
        partial "new-$name${shape:+-$shape}"
        fault zephr "{\"fault\":\"$name\",\"times\":1}"
        [ -n "$shape" ] && fault zephr "{\"fault\":\"$shape\",\"endpoint\":\"register\",\"times\":1}"
        register "$STATE_KEY" '{"first-name":"N"}'
        expect_problem "$status" "$code" "Zephr's register answer has the fault $name${shape:+ with $shape}"
        sandbox DELETE /faults
    done
done
for name in register-body-cookie-only register-header-cookie-only; do
    partial "new-$name"
    fault zephr "{\"fault\":\"$name\",\"times\":1}"
    register "$STATE_KEY" '{"first-name":"N"}'
    expect_status 201 "Zephr's register answer has the form $name → the broker finds Zephr's session"
    sandbox DELETE /faults
done

step "8. Zephr limits the rate of register calls, or its register answer is lost"
device d-phone
partial new-limited
fault zephr '{"fault":"rate-limited","endpoint":"register","times":1}'
register "$STATE_KEY" '{"first-name":"N"}'
expect_problem 503 provider_unavailable "Zephr answers 429 to the register call"
register "$STATE_KEY" '{"first-name":"N"}'
expect_status 201 "app repeats the registration after Zephr's 429 → a session"
partial new-lost
sandbox DELETE /requests
fault zephr '{"fault":"drop-after","endpoint":"register","times":1}'
register "$STATE_KEY" '{"first-name":"N"}'
expect_problem 503 provider_unavailable "Zephr's answer to the register call is lost"
expect_json .retry new_login "Zephr's answer to the register call is lost → the broker's answer has retry new_login"
register "$STATE_KEY" '{"first-name":"N"}'
expect_problem 409 login_required "app repeats the registration after Zephr's answer to the register call was lost"
same 1 "$(calls zephr/register)" "Zephr's answer to the register call is lost, and the app repeats the registration → one register call at Zephr in all"
sandbox DELETE /faults

step "9. The user refuses, or the callback has an unknown status"
device e-phone
zephr_login denied
forward "$CALLBACK"
expect_problem 403 access_denied "user refuses the sign-in at Zephr"
start_login zephr ios '"social_provider":"google"'
CALLBACK="my-app:/oauthRedirect?action=login&status=pending"
forward "$CALLBACK"
expect_problem 400 invalid_callback "Zephr's callback with an undocumented status"

step "10. A client with login: both may forward the callback of a login that the app started"
device f-phone
CALLBACK=$(location "$SANDBOX/zephr/blaize/oauth/google?client_type=ios&sandbox_user=ben")
post /v1/sessions "{\"provider\":\"zephr\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK")}"
expect_status 201 "app-started login, forwarded with provider and client → a session"
expect_json .identity.email ben@example.org "app-started login, forwarded with provider and client → the session has ben's e-mail address"
CALLBACK=$(location "$SANDBOX/zephr/blaize/oauth/google?client_type=ios&sandbox_user=ben")
forward "$CALLBACK"
same 4 "${STATUS:0:1}" "app-started login, forwarded without provider and client → refused"
CALLBACK=$(location "$SANDBOX/zephr/blaize/oauth/google?client_type=ios&sandbox_user=newcomer")
key=$(url_value state_key "$CALLBACK")
register "$key" '{"first-name":"N"}' "\"login_token\":\"$(random_token)\""
expect_status 201 "registration with a state_key from an app-started login → a session"

step "11. A callback with a Zephr session that has already ended"
device dead-phone
fault zephr '{"fault":"dead-session-callback","endpoint":"*"}'
post /v1/logins '{"provider":"zephr","social_provider":"google"}'
browser "$(json .authorization_url)" ana
forward "$CALLBACK"
expect_problem 400 code_rejected "callback with a Zephr session that has ended"
sandbox DELETE /faults/zephr

finish
