#!/usr/bin/env bash
# Flow E, Zephr: a known user, a partial registration finished by its state_key, every refusal, expiry, double submission, a
# lost answer; and the exact register request on the wire.
source "$(dirname "$0")/support/lib.bash"
start_stack

zephr_login() { start_login zephr ios '"social_provider":"google"'; browser "$AUTHORIZATION_URL" "$1"; }
# register STATE-KEY ATTRIBUTES [MORE-MEMBERS]
register() { post /v1/registrations "{\"provider\":\"zephr\",\"client\":\"ios\",\"state_key\":$(json_text "$1"),\"attributes\":$2${3:+,$3}}"; }
# partial USER: a login of this device up to the 202; STATE_KEY
partial() {
    zephr_login "$1"
    forward "$CALLBACK"
    STATE_KEY=$(json .state_key)
}

step "1. The start"
post /v1/logins '{"provider":"zephr","client":"ios"}'
expect_problem 400 invalid_request "two social providers are configured: one has to be named"
expect_json .errors[0].pointer /social_provider
post /v1/logins '{"provider":"zephr","client":"ios","social_provider":"myspace"}'
expect_problem 400 invalid_request "a social provider that is not configured"
zephr_login ana
expect_status 201
matches "^$SANDBOX/zephr/" "$AUTHORIZATION_URL" "the URL is the site's"

step "2. A known user"
matches 'status=success' "$CALLBACK" "Zephr returns a session id"
forward "$CALLBACK"
expect_status 201 "a session"
expect_json .provider zephr
expect_json .identity.email ana@example.org
expect_json .tokens.refreshable false
same 1 "$(calls zephr/account)" "the Zephr session was verified with Zephr"
handle=$(json .handle)
forward "$CALLBACK"
expect_status 201 "the same forward again"
expect_json .handle "$handle"
device a-stranger
forward "$CALLBACK"
same 4 "${STATUS:0:1}" "a stranger with the callback URL: refused"
device a-phone
request DELETE /v1/session
expect_status 204
wait_for 10 eval '[ "$(calls zephr/logout)" -ge 1 ]'
same 0 $? "logging out ends the Zephr session too"

step "2a. Who is signed in at Zephr already gets the same session id, and may sign in again"
sandbox PUT /settings/zephr '{"signed_in":true}'
device a-tablet
zephr_login ana
forward "$CALLBACK"
expect_status 201 "the first login"
first=$(url_value session_id "$CALLBACK")
zephr_login ana
same "$first" "$(url_value session_id "$CALLBACK")" "the same Zephr session"
before=$(calls zephr/logout)
forward "$CALLBACK"
expect_status 201 "the second login of the device replaces its session"
wait_for 10 shows 'coatcheck_revocations_total.*shared.* [1-9]'
same 0 $? "the outbox looked at the replaced session"
same "$before" "$(calls zephr/logout)" "Zephr is not told: the new session lives by the same id"
get /v1/relay/news/blaize/profile
expect_status 200 "the upstream call works"
request DELETE /v1/session
expect_status 204
wait_for 10 eval '[ "$(calls zephr/logout)" -gt "$before" ]'
same 0 $? "the last one is told of"
sandbox PUT /settings/zephr '{"signed_in":false}'
device a-phone

step "3. A session id that Zephr does not know"
zephr_login ana
forward "$(with_value session_id bs-invented "$CALLBACK")"
same 4 "${STATUS:0:1}" "refused"
same "" "$(json .handle)" "no session"

step "4. A partial registration"
partial newbie
expect_status 202 "attributes are missing"
expect_json .outcome registration_required
expect_json .identifier newbie@example.org
expect_json .fields[0].name first-name
expect_json .fields[0].required true
same "" "$(cookie coatcheck)" "no session yet"
first=$STATE_KEY
forward "$CALLBACK"
expect_status 202 "the same forward again"
same "$first" "$(json .state_key)" "the same state_key"
device a-stranger
register "$first" '{"first-name":"Mallory"}'
expect_problem 403 login_not_yours "a stranger has the state_key"
device a-phone
sandbox DELETE /requests
register "$first" '{"first-name":"Ana","newsletter":true,"birth-year":1990}'
expect_status 201 "a session"
expect_json .identity.email newbie@example.org
handle=$(json .handle)
session=$(cookie coatcheck)
sandbox GET '/requests?provider=zephr&endpoint=register'
same 1 "$(jq length "$work/control")" "Zephr received one request"
same POST "$(json '[0].method' "$work/control")" "POST"
same /zephr/blaize/register "$(json '[0].path' "$work/control")" "/blaize/register"
body=$(json '[0].body' "$work/control")
printf %s "$body" >"$work/register.json"
same "$first" "$(json .validators.token_exchange "$work/register.json")" "validators.token_exchange is the state_key"
same Ana "$(json .attributes.first-name "$work/register.json")" "the attributes"
same 1990 "$(json .attributes.birth-year "$work/register.json")" "a number stays a number"
same '{}' "$(json .identifiers "$work/register.json")" "no identifier of the app's making"

step "5. Submitted again, as the answer was lost"
register "$first" '{"newsletter":true,"first-name":"Ana","birth-year":1990}'
expect_status 201 "the same attributes, in another order"
expect_json .handle "$handle"
same "$session" "$(cookie coatcheck)" "the same cookie"
same 1 "$(calls zephr/register)" "one call"
register "$first" '{"first-name":"Other"}'
expect_problem 410 state_key_expired "other attributes with a used key"

step "6. Bad attributes: one correction"
device b-phone
partial newt
before=$(calls zephr/register)
register "$STATE_KEY" '{"newsletter":true}'
expect_problem 400 invalid_request "a required attribute is missing"
same "/attributes/first-name required" "$(json '.errors[0].pointer') $(json '.errors[0].code')" "it is named"
same "$before" "$(calls zephr/register)" "and costs neither a call nor the correction"
fault zephr '{"fault":"register-weak","times":1}'
register "$STATE_KEY" '{"first-name":"?"}'
expect_problem 400 registration_rejected "Zephr does not like it"
register "$STATE_KEY" '{"first-name":"Newt"}'
expect_status 201 "corrected"

step "7. What Zephr refuses"
device c-phone
partial taken
register "$STATE_KEY" '{"first-name":"T"}'
expect_problem 409 user_already_exists "the user exists"
partial blocked
register "$STATE_KEY" '{"first-name":"B"}'
expect_problem 403 email_domain_denied "the e-mail domain is blocked"
for pair in "register-key-unknown 410 state_key_expired" "register-key-expired 410 state_key_expired" "register-key-spent 410 state_key_expired" \
    "register-exists 409 user_already_exists" "register-domain 403 email_domain_denied" "register-weak 400 registration_rejected" "register-no-session 502 provider_error"; do
    read -r name status code <<<"$pair"
    for shape in "" html-error empty-error text-error; do
        partial "new-$name${shape:+-$shape}"
        fault zephr "{\"fault\":\"$name\",\"times\":1}"
        [ -n "$shape" ] && fault zephr "{\"fault\":\"$shape\",\"endpoint\":\"register\",\"times\":1}"
        register "$STATE_KEY" '{"first-name":"N"}'
        expect_problem "$status" "$code" "$name${shape:+ ($shape)}"
        sandbox DELETE /faults
    done
done
for name in register-body-cookie-only register-header-cookie-only; do
    partial "new-$name"
    fault zephr "{\"fault\":\"$name\",\"times\":1}"
    register "$STATE_KEY" '{"first-name":"N"}'
    expect_status 201 "$name: the session is found"
    sandbox DELETE /faults
done

step "8. Rate limited, down, lost"
device d-phone
partial new-limited
fault zephr '{"fault":"rate-limited","endpoint":"register","times":1}'
register "$STATE_KEY" '{"first-name":"N"}'
expect_problem 503 provider_unavailable "429"
register "$STATE_KEY" '{"first-name":"N"}'
expect_status 201 "and once more"
partial new-lost
sandbox DELETE /requests
fault zephr '{"fault":"drop-after","endpoint":"register","times":1}'
register "$STATE_KEY" '{"first-name":"N"}'
expect_problem 503 provider_unavailable "the answer was lost"
expect_json .retry new_login
register "$STATE_KEY" '{"first-name":"N"}'
expect_problem 409 login_required "again: nobody knows whether Zephr has the user"
same 1 "$(calls zephr/register)" "register is never repeated by itself"
sandbox DELETE /faults

step "9. The user refuses; an unknown status"
device e-phone
zephr_login denied
forward "$CALLBACK"
expect_problem 403 access_denied "the user refused"
start_login zephr ios '"social_provider":"google"'
CALLBACK="my-app:/oauthRedirect?action=login&status=pending"
forward "$CALLBACK"
expect_problem 400 invalid_callback "a status that is not documented"

step "10. The app may bring a callback that it started itself (login: both)"
device f-phone
CALLBACK=$(location "$SANDBOX/zephr/blaize/oauth/google?client_type=ios&sandbox_user=ben")
post /v1/sessions "{\"provider\":\"zephr\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK")}"
expect_status 201 "a session"
expect_json .identity.email ben@example.org
CALLBACK=$(location "$SANDBOX/zephr/blaize/oauth/google?client_type=ios&sandbox_user=ben")
forward "$CALLBACK"
same 4 "${STATUS:0:1}" "without provider and login token it is nobody's"
CALLBACK=$(location "$SANDBOX/zephr/blaize/oauth/google?client_type=ios&sandbox_user=newcomer")
key=$(url_value state_key "$CALLBACK")
register "$key" '{"first-name":"N"}' "\"login_token\":\"$(random_token)\""
expect_status 201 "a state_key that the app brings"

step "11. A callback with a session that is dead already"
device dead-phone
fault zephr '{"fault":"dead-session-callback","endpoint":"*"}'
post /v1/logins '{"provider":"zephr","social_provider":"google"}'
browser "$(json .authorization_url)" ana
forward "$CALLBACK"
expect_problem 400 code_rejected "a session that Zephr does not know any more"
sandbox DELETE /faults/zephr

finish
