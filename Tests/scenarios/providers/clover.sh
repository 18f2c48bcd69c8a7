#!/usr/bin/env bash
# Clover: low-trust and high-trust clients, the exact requests, the merchant confirmed by the API, dashboard launches, import
# of tokens, recovery of a lost token pair, log-out.
source "$(dirname "$0")/../support/lib.bash"
# The app forces several refreshes of one session within a minute, so this test turns off the pause between them.
LIMITS="forced_refresh_pause: 0s"
start_stack

step "1. A low-trust client uses PKCE and no secret"
start_login clover ios
expect_status 201 "start of a Clover login → 201"
same "" "$(url_value scope "$AUTHORIZATION_URL")" "Clover login → the authorization URL has no scope"
same S256 "$(url_value code_challenge_method "$AUTHORIZATION_URL")" "Clover login of a low-trust client → the authorization URL has code_challenge_method S256"
browser "$AUTHORIZATION_URL" ana
merchant=$(url_value merchant_id "$CALLBACK")
employee=$(url_value employee_id "$CALLBACK")
forward "$CALLBACK"
expect_status 201 "Clover callback of a low-trust client → a session"
expect_json .subject "$merchant" "Clover session → its subject is the merchant id"
expect_json .identity.unverified.employee_id "$employee" "Clover's callback has an employee id → the session lists the id as unverified"
expect_json .tokens.refreshable true "Clover session → refreshable"
sandbox GET '/requests?provider=clover&endpoint=token'
same /clover-api/oauth/v2/token "$(json '[0].path' "$work/control")" "Clover's token request → goes to the token path at Clover's API host"
json '[0].body' "$work/control" >"$work/token.json"
same '["client_id", "code", "code_verifier"]' "$(python3 -c 'import json, sys; print(json.dumps(sorted(json.load(open(sys.argv[1])))))' "$work/token.json")" "token request of a low-trust client → has exactly client_id, code and code_verifier"

step "2. A high-trust client sends its secret in the body"
device a-browser
sandbox DELETE /requests
sign_in clover web ben
expect_status 201 "callback of a high-trust client → a session"
sandbox GET '/requests?provider=clover&endpoint=token'
json '[0].body' "$work/control" >"$work/token.json"
same '["client_id", "client_secret", "code"]' "$(python3 -c 'import json, sys; print(json.dumps(sorted(json.load(open(sys.argv[1])))))' "$work/token.json")" "token request of a high-trust client → has exactly client_id, client_secret and code"

step "3. An invented merchant id in the callback is refused (SEC-16)"
device b-phone
start_login clover ios
browser "$AUTHORIZATION_URL" ana
forward "$(with_value merchant_id MFKOTHER00001 "$CALLBACK")"
expect_problem 502 identity_rejected "Clover callback with another merchant's id"
start_login clover ios
browser "$AUTHORIZATION_URL" ana
forward "$(with_value merchant_id - "$CALLBACK")"
expect_problem 400 invalid_callback "Clover callback without a merchant id"
forward "$CALLBACK"
expect_status 201 "Clover's unchanged callback, forwarded after a callback without a merchant id → a session"

step "4. A launch from the dashboard starts a login"
device c-phone
before=$(calls clover/token)
forward "https://app.example.org/clover?merchant_id=$merchant&client_id=AFAKE0001&code=v1-code"
expect_problem 409 login_required "launch from Clover's dashboard with a code but no state"
same "$before" "$(calls clover/token)" "launch from Clover's dashboard without a state → zero token calls"
browser "$(json .login.authorization_url)" ana
forward "$CALLBACK"
expect_status 201 "launch from Clover's dashboard got 409 with a new login, and the user finishes this login → a session"

step "5. Import: an app that already has Clover tokens passes them on once"
device d-phone
verifier=$(random_token)
CALLBACK=$(location "$SANDBOX/clover-web/oauth/v2/authorize?client_id=AFAKE0001&redirect_uri=https://app.example.org/clover&code_challenge=$(s256 "$verifier")&sandbox_user=cleo")
curl -s "$SANDBOX/clover-api/oauth/v2/token" -H 'Content-Type: application/json' -o "$work/tokens" \
    -d "{\"client_id\":\"AFAKE0001\",\"code\":\"$(url_value code "$CALLBACK")\",\"code_verifier\":\"$verifier\"}"
import="{\"provider\":\"clover\",\"client\":\"ios\",\"tokens\":{\"access_token\":\"$(json .access_token "$work/tokens")\",\"refresh_token\":\"$(json .refresh_token "$work/tokens")\",\"merchant_id\":\"$(url_value merchant_id "$CALLBACK")\"}"
secret=$(random_token)
sandbox DELETE /requests
post /v1/sessions "${import/\"rt-/\"rt-invented-},\"login_token\":\"$(random_token)\"}"
expect_problem 502 provider_error "import of an invented refresh token, before the first granted import"
post /v1/sessions "$import,\"login_token\":\"$secret\"}"
expect_status 201 "an app imports the tokens that it got from Clover → a session"
sandbox GET '/requests?provider=clover'
same "refresh refresh merchant" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "an import of Clover tokens is refused, and then another one succeeds → two refresh calls and one call for the merchant at Clover in all"
same AFAKE0001 "$(jq -r '.[1].body | fromjson.client_id' "$work/control")" "import of Clover tokens → the broker's refresh call has the client id of the configuration"
expect_json .subject "$(url_value merchant_id "$CALLBACK")" "session from imported tokens → its subject is the merchant id"
handle=$(json .handle)
post /v1/sessions "${import/\"rt-/\"rt-unknown-},\"login_token\":\"$(random_token)\"}"
expect_problem 409 login_required "import of an unknown refresh token, after a granted import"
same "grant_revoked null" "$(json .reason) $(jq -c .login "$work/body")" "import of an unknown Clover token → the reason grant_revoked, and a null login"
post /v1/sessions "$import,\"login_token\":\"$secret\"}"
expect_json .handle "$handle" "import of Clover tokens, repeated with the same login_token → the same session"
same 3 "$(calls clover/refresh)" "import of Clover tokens, repeated with the same login_token → still three refresh calls"
post /v1/sessions "$import,\"login_token\":\"$(random_token)\"}"
expect_json .handle "$handle" "import of Clover tokens, repeated with another login_token and with the cookie of its session → the same session"
device another-phone
post /v1/sessions "$import,\"login_token\":\"$(random_token)\"}"
expect_problem 409 code_already_used "import of Clover tokens that were already imported with another login_token"
device d-phone
post /v1/sessions "${import/\"ios\"/\"web\"}}"
expect_problem 409 code_already_used "import of Clover tokens that were already imported, by a client whose configuration lacks import_tokens"
import="${import/\"rt-/\"rt-other-}"
post /v1/sessions "${import/\"ios\"/\"web\"}}"
expect_problem 403 client_not_allowed "import of Clover tokens by a client whose configuration lacks import_tokens"

# clover_tokens: sets `import` to the beginning of an import's body, with new tokens that the app fetched itself
clover_tokens() {
    verifier=$(random_token)
    CALLBACK=$(location "$SANDBOX/clover-web/oauth/v2/authorize?client_id=AFAKE0001&redirect_uri=https://app.example.org/clover&code_challenge=$(s256 "$verifier")&sandbox_user=cleo")
    curl -s "$SANDBOX/clover-api/oauth/v2/token" -H 'Content-Type: application/json' -o "$work/tokens" \
        -d "{\"client_id\":\"AFAKE0001\",\"code\":\"$(url_value code "$CALLBACK")\",\"code_verifier\":\"$verifier\"}"
    import="{\"provider\":\"clover\",\"client\":\"ios\",\"tokens\":{\"access_token\":\"$(json .access_token "$work/tokens")\",\"refresh_token\":\"$(json .refresh_token "$work/tokens")\",\"merchant_id\":\"$(url_value merchant_id "$CALLBACK")\"},\"login_token\":\"$(random_token)\"}"
}

step "5a. An import during faults of Clover: the app's token stays good"
device e-phone
clover_tokens
fault clover '{"fault":"status","status":503,"endpoint":"refresh","times":5}'
for _ in 1 2 3 4 5; do
    post /v1/sessions "$import"
    expect_problem 503 provider_unavailable "import of Clover tokens while Clover answers 503"
    same "" "$(json .retry)" "import of Clover tokens while Clover answers 503 → the app may repeat the post"
done
fault clover '{"fault":"status","status":403,"body":"<html>firewall</html>","endpoint":"refresh","times":1}'
post /v1/sessions "$import"
expect_problem 503 provider_unavailable "import of Clover tokens while a firewall answers for Clover"
fault clover '{"fault":"drop-before","endpoint":"refresh","times":1}'
post /v1/sessions "$import"
expect_status 201 "Clover restarts during the import of tokens, and the confirming call is granted → a session"
clover_tokens
before=$(calls clover/refresh)
fault clover '{"fault":"drop-after","endpoint":"refresh","times":1}'
post /v1/sessions "$import"
expect_problem 409 login_required "import of Clover tokens whose answer is lost"
expect_json .reason refresh_lost "Clover spends the token, its answer is lost, and it refuses the confirming call → refresh_lost"
same "$((before + 2))" "$(calls clover/refresh)" "import of Clover tokens whose answer is lost → one confirming call"
post /v1/sessions "$import"
expect_json .reason refresh_lost "repeated import whose answer was lost → the same answer"
same "$((before + 2))" "$(calls clover/refresh)" "repeated import whose answer was lost → two calls in all"

step "5b. Reading the merchant fails after an import was granted: the next post only reads the merchant"
device f-phone
clover_tokens
before=$(calls clover/refresh)
fault clover '{"fault":"status","status":503,"endpoint":"merchant"}'
post /v1/sessions "$import"
expect_problem 503 provider_unavailable "import of Clover tokens while reading the merchant fails"
sandbox DELETE /faults
post /v1/sessions "$import"
expect_status 201 "repeated import after the merchant's address is back → a session"
same "$((before + 1))" "$(calls clover/refresh)" "import of Clover tokens while reading the merchant fails, and its repetition → one refresh call"
clover_tokens
before=$(calls clover/refresh)
for _ in 1 2; do
    post /v1/sessions "$(jq -c '.tokens.merchant_id = "MFKOTHER00001"' <<<"$import")"
    expect_problem 502 identity_rejected "import of Clover tokens with another merchant's id"
done
same "$((before + 1))" "$(calls clover/refresh)" "import of Clover tokens with another merchant's id, twice → one refresh call"

step "6. Migration: a legacy token without an expiry is exchanged for a token pair"
device legacy-phone
sandbox POST /legacy-token/clover '{"client_id":"AFAKE0001","user":"cleo"}'
legacy=$(json .access_token "$work/control")
merchant=$(json .merchant_id "$work/control")
migrate() { post /v1/sessions "{\"provider\":\"clover\",\"client\":\"ios\",\"tokens\":{\"access_token\":\"$1\"${2:+,\"merchant_id\":\"$2\"}},\"login_token\":\"$3\"}"; }
sandbox DELETE /requests
secret=$(random_token)
migrate "$legacy" "" "$secret"
expect_problem 400 invalid_request "migration request without the merchant id"
expect_json .errors[0].pointer /tokens/merchant_id "migration request without the merchant id → the error points to this member"
same 0 "$(calls clover/migrate)" "migration request without the merchant id → no migrate call at Clover"
migrate "$legacy" MOTHER0000001 "$(random_token)"
expect_problem 409 login_required "migration with another merchant's id"
same 0 "$(calls clover/token)" "migration with another merchant's id → zero token calls"
sandbox DELETE /requests
migrate "$legacy" "$merchant" "$secret"
expect_status 201 "migration with the merchant of the legacy token → a session"
expect_json .subject "$merchant" "session from a migrated legacy token → its subject is the merchant id"
expect_json .tokens.refreshable true "session from a migrated legacy token → refreshable"
handle=$(json .handle)
sandbox GET '/requests?provider=clover'
same "migrate token merchant" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "migration of a legacy token → calls to migrate, token and merchant in this order"
same '["app_uuid","auth_token","code_challenge","merchant_uuid"]' "$(jq -c '.[0].body | fromjson | keys' "$work/control")" "Clover's migrate call → has exactly app_uuid, auth_token, code_challenge and merchant_uuid"
same '["client_id","code","code_verifier"]' "$(jq -c '.[1].body | fromjson | keys' "$work/control")" "token call of a migration → has exactly client_id, code and code_verifier"
migrate "$legacy" "$merchant" "$secret"
expect_json .handle "$handle" "migration repeated with the same login_token → the same session"
same 1 "$(calls clover/migrate)" "migration repeated with the same login_token → no further migrate call"
phone=$JAR
device another-phone
migrate "$legacy" "$merchant" "$(random_token)"
JAR=$phone
expect_problem 409 code_already_used "migration of a legacy token that was already migrated with another login_token"
request POST /v1/session/refresh
expect_status 200 "refresh of a session from a migrated legacy token → 200"
sandbox POST /legacy-token/clover '{"client_id":"AOTHER001","user":"cleo"}'
migrate "$(json .access_token "$work/control")" "$merchant" "$(random_token)"
expect_problem 409 login_required "migration of another app's legacy token"
expect_json .reason grant_revoked "migration of another app's legacy token → the reason grant_revoked"

step "7. The user refuses, another device forwards the callback, or the code is invented"
refusals clover ios

# lose_pair CLIENT: makes a session; Clover will carry out its next refresh call, but the answer will be lost
lose_pair() {
    device "$1-$RANDOM$RANDOM"
    sign_in clover "$1" ana
    expect_status 201 "$1 client signs in at Clover → a session"
    session=$(cookie coatcheck)
    sandbox DELETE /requests
    fault clover '{"fault":"drop-after","endpoint":"refresh","times":1}'
}
# refresh_token N: prints the refresh token that the N-th refresh call sent, counted from 0
refresh_token() { sandbox GET '/requests?provider=clover&endpoint=refresh'; jq -r ".[$1].body | fromjson.refresh_token" "$work/control"; }

step "8. A client with a secret recovers a lost token pair"
lose_pair web
request POST /v1/session/refresh
expect_status 200 "client with a secret refreshes, and Clover's first answer is lost → 200"
sandbox GET '/requests?provider=clover'
same "refresh refresh recovery" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "client with a secret refreshes, and Clover's first answer is lost → the broker calls refresh twice, then recovery"
same "0 401 200" "$(jq -r '[.[].status | tostring] | join(" ")' "$work/control")" "client with a secret refreshes, and Clover's first answer is lost → Clover's next answers are 401 and 200"
same "POST /clover-api/oauth/v2/recovery" "$(jq -r '.[2] | "\(.method) \(.path)"' "$work/control")" "a refresh's answer is lost → the recovery call is POST /oauth/v2/recovery at Clover's API host"
same '["client_id","client_secret","recovery_token"]' "$(jq -c '.[2].body | fromjson | keys' "$work/control")" "Clover's recovery call → has exactly client_id, client_secret and recovery_token"
same "$(refresh_token 0)" "$(sandbox GET '/requests?provider=clover&endpoint=recovery'; jq -r '.[0].body | fromjson.recovery_token' "$work/control")" "Clover's recovery call → its recovery_token is the refresh token of the lost call"
get /v1/session
expect_status 200 "lost token pair is recovered → the session is alive"
same "$session" "$(cookie coatcheck)" "lost token pair is recovered → the session cookie is unchanged"
request POST /v1/session/refresh
expect_status 200 "refresh with the recovered token pair → 200"
sandbox GET '/requests?provider=clover'
same "refresh refresh recovery refresh" "$(jq -r '[.[].endpoint] | join(" ")' "$work/control")" "refresh with the recovered token pair → no second recovery call"

step "9. The recovery call fails, too; a later refresh recovers the lost token pair"
lose_pair web
fault clover '{"fault":"status","status":503,"endpoint":"recovery","times":1}'
request POST /v1/session/refresh
expect_problem 503 provider_unavailable "refresh whose answer is lost, and Clover answers 503 to the recovery call"
get /v1/session
expect_status 200 "refresh whose answer is lost, and Clover answers 503 to the recovery call → the session is alive"
fault clover '{"fault":"drop-after","endpoint":"recovery","times":1}'
wait_for 20 eval 'request POST /v1/session/refresh; [ "$STATUS" = 200 ]'
same 200 "$STATUS" "answer to the recovery call is lost once → a later refresh recovers the token pair"
request POST /v1/session/refresh
expect_status 200 "next refresh, with the token pair that was recovered late → 200"

step "10. A client without a secret cannot recover a lost token pair; its session ends as refresh_lost"
lose_pair ios
request POST /v1/session/refresh
same "401 session_ended refresh_lost" "$STATUS $(json .code) $(json .reason)" "a client without a secret refreshes, and Clover's answer is lost → 401, the session ended as refresh_lost"
matches 'Max-Age=0' "$(header Set-Cookie)" "a client without a secret refreshes, and Clover's answer is lost → the answer clears the session cookie"
same "2 0" "$(calls clover/refresh) $(calls clover/recovery)" "a client without a secret refreshes, and Clover's answer is lost → two refresh calls, no recovery call"
JAR= request GET /v1/session -b "coatcheck=$session"
same "401 refresh_lost" "$STATUS $(json .reason)" "app uses the session that ended as refresh_lost → again 401 refresh_lost"

step "11. Log-out makes no call to Clover"
device a-browser
log_out
wait_for 10 shows '^coatcheck_revocations_total.*clover.*unsupported.* [1-9]'
same 0 $? "log-out of a Clover session → the outbox counts the revocation as unsupported"
sandbox GET '/requests?provider=clover'
same 0 "$(jq length "$work/control")" "log-out of a Clover session → zero calls to Clover"

step "12. Each refresh token lives eight seconds; a refresh every three seconds keeps session and cookie alive"
sandbox PUT /settings/clover '{"refresh_token_lifetime":8}'
device a-quick-one
start_login clover ios
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201 "sign-in with a refresh token that lives eight seconds → a session"
age=$(header Set-Cookie | grep '^coatcheck=')
age=${age##*Max-Age=}; if [ "${age%%;*}" -gt 2500000 ]; then ok "refresh token lives eight seconds → the session cookie lives longer"; else not_ok "refresh token lives eight seconds → the session cookie lives longer" "$age"; fi
begun=$(date +%s)
for second in 3 6 9 12; do
    wait_for 20 eval '[ $(($(date +%s) - begun)) -ge '"$second"' ]'
    request POST /v1/session/refresh
    expect_status 200 "each refresh token lives eight seconds, and the app refreshes $second s after the sign-in → 200"
done
get /v1/session
expect_status 200 "first refresh token's lifetime is over, but each refresh brought a new token → the session is alive"

finish
