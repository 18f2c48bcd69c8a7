#!/usr/bin/env bash
# Clover: both client kinds, the exact requests, the merchant confirmed by the API, dashboard launches, import of tokens, recovery
# of a lost pair, log-out.
source "$(dirname "$0")/support/lib.bash"
# Its sessions refresh several times in a minute.
LIMITS="forced_refresh_pause: 0s"
start_stack

step "1. Low trust: PKCE, no secret"
start_login clover ios
expect_status 201
same "" "$(url_value scope "$AUTHORIZATION_URL")" "no scope"
same S256 "$(url_value code_challenge_method "$AUTHORIZATION_URL")" "S256"
browser "$AUTHORIZATION_URL" ana
merchant=$(url_value merchant_id "$CALLBACK")
employee=$(url_value employee_id "$CALLBACK")
forward "$CALLBACK"
expect_status 201 "a session"
expect_json .subject "$merchant" "the subject is the merchant"
expect_json .identity.unverified.employee_id "$employee" "the employee is unverified"
expect_json .tokens.refreshable true
sandbox GET '/requests?provider=clover&endpoint=token'
same /clover-api/oauth/v2/token "$(json '[0].path' "$work/control")" "the token request goes to the API's host"
json '[0].body' "$work/control" >"$work/token.json"
same '["client_id", "code", "code_verifier"]' "$(python3 -c 'import json, sys; print(json.dumps(sorted(json.load(open(sys.argv[1])))))' "$work/token.json")" "client_id, code, code_verifier and nothing else"

step "2. High trust: a secret in the body"
device a-browser
sandbox DELETE /requests
sign_in clover web ben
expect_status 201
sandbox GET '/requests?provider=clover&endpoint=token'
json '[0].body' "$work/control" >"$work/token.json"
same '["client_id", "client_secret", "code"]' "$(python3 -c 'import json, sys; print(json.dumps(sorted(json.load(open(sys.argv[1])))))' "$work/token.json")" "client_id, client_secret, code and nothing else"

step "3. A merchant id that the callback invents is not believed (SEC-16)"
device b-phone
start_login clover ios
browser "$AUTHORIZATION_URL" ana
forward "$(with_value merchant_id MFKOTHER00001 "$CALLBACK")"
expect_problem 502 identity_rejected "another merchant"
start_login clover ios
browser "$AUTHORIZATION_URL" ana
forward "$(with_value merchant_id - "$CALLBACK")"
expect_problem 400 invalid_callback "no merchant: refused before the code is spent"
forward "$CALLBACK"
expect_status 201 "the whole callback still works"

step "4. A launch from the dashboard"
device c-phone
before=$(calls clover/token)
forward "https://app.example.org/clover?merchant_id=$merchant&client_id=AFAKE0001&code=v1-code"
expect_problem 409 login_required "no state"
same "$before" "$(calls clover/token)" "no call"
browser "$(json .login.authorization_url)" ana
forward "$CALLBACK"
expect_status 201 "the login that came with it"

step "5. Import: an app that already holds Clover tokens hands them over once"
device d-phone
verifier=$(random_token)
CALLBACK=$(location "$SANDBOX/clover-web/oauth/v2/authorize?client_id=AFAKE0001&redirect_uri=https://app.example.org/clover&code_challenge=$(s256 "$verifier")&sandbox_user=cleo")
curl -s "$SANDBOX/clover-api/oauth/v2/token" -H 'Content-Type: application/json' -o "$work/tokens" \
    -d "{\"client_id\":\"AFAKE0001\",\"code\":\"$(url_value code "$CALLBACK")\",\"code_verifier\":\"$verifier\"}"
import="{\"provider\":\"clover\",\"client\":\"ios\",\"tokens\":{\"access_token\":\"$(json .access_token "$work/tokens")\",\"refresh_token\":\"$(json .refresh_token "$work/tokens")\",\"merchant_id\":\"$(url_value merchant_id "$CALLBACK")\"}"
secret=$(random_token)
sandbox DELETE /requests
post /v1/sessions "${import/\"rt-/\"rt-invented-},\"login_token\":\"$(random_token)\"}"
expect_problem 400 code_rejected "a refresh token that Clover does not know"
post /v1/sessions "$import,\"login_token\":\"$secret\"}"
expect_status 201 "a session"
sandbox GET '/requests?provider=clover'
same "refresh refresh merchant" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "after one refresh with our client id, and the merchant read with its token"
same AFAKE0001 "$(jq -r '.[1].body | fromjson.client_id' "$work/control")" "our client id"
expect_json .subject "$(url_value merchant_id "$CALLBACK")"
handle=$(json .handle)
post /v1/sessions "$import,\"login_token\":\"$secret\"}"
expect_json .handle "$handle" "the same import again: the same session"
same 2 "$(calls clover/refresh)" "without a call"
post /v1/sessions "$import,\"login_token\":\"$(random_token)\"}"
expect_problem 409 code_already_used "by somebody else"
post /v1/sessions "${import/\"ios\"/\"web\"}}"
expect_problem 403 client_not_allowed "a client without import_tokens"

step "6. A token from before Clover's tokens ended is traded for a pair"
device legacy-phone
sandbox POST /legacy-token/clover '{"client_id":"AFAKE0001","user":"cleo"}'
legacy=$(json .access_token "$work/control")
merchant=$(json .merchant_id "$work/control")
migrate() { post /v1/sessions "{\"provider\":\"clover\",\"client\":\"ios\",\"tokens\":{\"access_token\":\"$1\"${2:+,\"merchant_id\":\"$2\"}},\"login_token\":\"$3\"}"; }
sandbox DELETE /requests
secret=$(random_token)
migrate "$legacy" "" "$secret"
expect_problem 400 invalid_request "without the merchant"
expect_json .errors[0].pointer /tokens/merchant_id
same 0 "$(calls clover/migrate)" "and Clover was not asked"
migrate "$legacy" MOTHER0000001 "$(random_token)"
expect_problem 400 code_rejected "for another merchant"
same 0 "$(calls clover/token)" "and no code was redeemed"
sandbox DELETE /requests
migrate "$legacy" "$merchant" "$secret"
expect_status 201 "for its own: a session"
expect_json .subject "$merchant"
expect_json .tokens.refreshable true
handle=$(json .handle)
sandbox GET '/requests?provider=clover'
same "migrate token merchant" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "traded for a code, the code for a pair, the merchant read with it"
same '["app_uuid","auth_token","code_challenge","merchant_uuid"]' "$(jq -c '.[0].body | fromjson | keys' "$work/control")" "the migration's body"
same '["client_id","code","code_verifier"]' "$(jq -c '.[1].body | fromjson | keys' "$work/control")" "the token request's body"
migrate "$legacy" "$merchant" "$secret"
expect_json .handle "$handle" "the same import again: the same session"
same 1 "$(calls clover/migrate)" "without a call"
migrate "$legacy" "$merchant" "$(random_token)"
expect_problem 409 code_already_used "by somebody else"
request POST /v1/session/refresh
expect_status 200 "it refreshes as any other"
sandbox POST /legacy-token/clover '{"client_id":"AOTHER001","user":"cleo"}'
migrate "$(json .access_token "$work/control")" "$merchant" "$(random_token)"
expect_problem 400 code_rejected "another app's token"

step "7. The user refuses, strangers, invented codes"
refusals clover ios

# lose_pair CLIENT: a session whose refresh did its work and whose answer was lost; REFRESH is the refresh token it had
lose_pair() {
    device "$1-$RANDOM$RANDOM"
    sign_in clover "$1" ana
    expect_status 201
    session=$(cookie coatcheck)
    sandbox DELETE /requests
    fault clover '{"fault":"drop-after","endpoint":"refresh","times":1}'
}
# the refresh token that the N-th refresh brought
refresh_token() { sandbox GET '/requests?provider=clover&endpoint=refresh'; jq -r ".[$1].body | fromjson.refresh_token" "$work/control"; }

step "8. The pair was lost: a client with a secret recovers it"
lose_pair web
request POST /v1/session/refresh
expect_status 200 "refreshed all the same"
sandbox GET '/requests?provider=clover'
same "refresh refresh recovery" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "lost, then refused with the offer, then recovered"
same "0 401 200" "$(jq -r '[.[].status | tostring] | join(" ")' "$work/control")" "as Clover answers"
same "POST /clover-api/oauth/v2/recovery" "$(jq -r '.[2] | "\(.method) \(.path)"' "$work/control")" "at the API's host"
same '["client_id","client_secret","recovery_token"]' "$(jq -c '.[2].body | fromjson | keys' "$work/control")" "its body"
same "$(refresh_token 0)" "$(sandbox GET '/requests?provider=clover&endpoint=recovery'; jq -r '.[0].body | fromjson.recovery_token' "$work/control")" "the token just before the lost one"
get /v1/session
expect_status 200 "the session lives"
same "$session" "$(cookie coatcheck)" "with its cookie"
request POST /v1/session/refresh
expect_status 200 "and its new pair refreshes"
sandbox GET '/requests?provider=clover'
same "refresh refresh recovery refresh" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "without another recovery"

step "9. The recovery fails too: 503, and the next refresh recovers"
lose_pair web
fault clover '{"fault":"status","status":503,"endpoint":"recovery","times":1}'
request POST /v1/session/refresh
expect_problem 503 provider_unavailable "for now"
get /v1/session
expect_status 200 "the session lives"
fault clover '{"fault":"drop-after","endpoint":"recovery","times":1}'
wait_for 20 eval 'request POST /v1/session/refresh; [ "$STATUS" = 200 ]'
same 200 "$STATUS" "recovered, although that answer was lost once as well"
request POST /v1/session/refresh
expect_status 200 "and its new pair refreshes"

step "10. A client without a secret cannot: refresh_lost"
lose_pair ios
request POST /v1/session/refresh
same "401 session_ended refresh_lost" "$STATUS $(json .code) $(json .reason)" "the session ends, and says why"
matches 'Max-Age=0' "$(header Set-Cookie)" "the cookie is cleared"
same "2 0" "$(calls clover/refresh) $(calls clover/recovery)" "one confirming retry, no recovery call"
JAR= request GET /v1/session -b "coatcheck=$session"
same "401 refresh_lost" "$STATUS $(json .reason)" "it stays ended"

step "11. Log out: there is nothing to call at Clover"
device a-browser
log_out
wait_for 10 shows '^coatcheck_revocations_total.*clover.*unsupported.* [1-9]'
same 0 $? "the outbox has looked at it"
sandbox GET '/requests?provider=clover'
same 0 "$(jq length "$work/control")" "no call"

step "12. Refresh tokens of eight seconds: who refreshes stays signed in, and so does the cookie"
sandbox PUT /settings/clover '{"refresh_token_lifetime":8}'
device a-quick-one
start_login clover ios
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201
age=$(header Set-Cookie | grep '^coatcheck=')
age=${age##*Max-Age=}; if [ "${age%%;*}" -gt 2500000 ]; then ok "the cookie outlives the refresh token that came first"; else not_ok "Max-Age" "$age"; fi
begun=$(date +%s)
for second in 3 6 9 12; do
    wait_for 20 eval '[ $(($(date +%s) - begun)) -ge '"$second"' ]'
    request POST /v1/session/refresh
    expect_status 200 "refreshed after $second s"
done
get /v1/session
expect_status 200 "it lives, after the first refresh token would have ended"

finish
