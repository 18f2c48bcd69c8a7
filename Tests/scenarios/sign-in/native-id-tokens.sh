#!/usr/bin/env bash
# ID tokens that the native SDKs of Google, Apple and Facebook give to apps: refusals, the single use of an ID token, and the
# session that it makes, which has no provider tokens.
source "$(dirname "$0")/../support/lib.bash"
start_stack

nonce=$(random_token)
hashed=$(printf %s "$nonce" | sha256sum | cut -d' ' -f1)
secret=$(random_token)
# sdk PROVIDER CLIENT_ID [MEMBERS]: acts as the provider's SDK; sets TOKEN to the ID token that the app gets
sdk() {
    sandbox POST "/native-id-token/$1" "{\"client_id\":\"$2\",\"user\":\"ana\",\"nonce\":\"$hashed\"${3:+,$3}}"
    TOKEN=$(json .id_token "$work/control")
}
# give PROVIDER CLIENT TOKEN [LOGIN_TOKEN] [NONCE]: the app forwards an ID token to the broker
give() {
    post /v1/sessions "{\"provider\":\"$1\",\"client\":\"$2\",\"id_token\":\"$3\",\"nonce\":\"${5:-$nonce}\",\"login_token\":\"${4:-$secret}\"}"
}

step "1. Refused ID tokens"
device a-phone
sdk google google-app
give oidc ios "$TOKEN"
expect_problem 403 client_not_allowed "app forwards an ID token for a client without native_code"
give clever ios "$TOKEN"
expect_problem 403 client_not_allowed "app forwards an ID token for Clever, whose kind has no ID tokens of an SDK"
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"id_token\":\"$TOKEN\",\"login_token\":\"$secret\"}"
expect_problem 400 invalid_request "app forwards an ID token without a nonce"
expect_json .errors[0].pointer /nonce "app forwards an ID token without a nonce → the error points to nonce"
give google web "$TOKEN" "" "$(random_token)"
expect_problem 400 code_rejected "app forwards an ID token with another nonce"
give google web "${TOKEN%?????}AAAAA"
expect_problem 400 code_rejected "app forwards an ID token with a changed signature"
give google web junk
expect_problem 400 code_rejected "app forwards a text that is not a JWT as an ID token"
sdk apple com.example.app
give google web "$TOKEN"
expect_problem 400 code_rejected "app forwards an ID token of another provider"
sdk google google-other
give google web "$TOKEN"
expect_problem 400 code_rejected "app forwards an ID token of another client"
for wrong in expired old-iat invalid-iss foreign-key idtoken-sig-none nonce-missing wrong-azp; do
    fault google "{\"fault\":\"$wrong\",\"endpoint\":\"native-id-token\",\"times\":1}"
    sdk google google-app
    give google web "$TOKEN"
    expect_problem 400 code_rejected "app forwards an ID token with the fault $wrong"
done
same "" "$(cookie coatcheck)" "all refused ID tokens → no session cookie"

step "2. Google: a session without tokens, and calls only for keys"
sdk google google-app
sandbox DELETE /requests
give google web "$TOKEN"
expect_status 201 "Google's ID token → a session"
expect_json .subject user-ana "session from Google's ID token → its subject is user-ana"
expect_json .identity.email ana@example.org "session from Google's ID token → its identity has the e-mail address"
expect_json .tokens.expires_at null "session from Google's ID token → has no token expiry, because it has no tokens"
expect_json .tokens.refreshable false "session from Google's ID token → not refreshable"
same '[]' "$(jq -c .scope "$work/body")" "session from Google's ID token → its scope is empty"
sandbox GET '/requests?provider=google'
same 0 "$(jq '[.[] | select(.endpoint != "jwks" and .endpoint != "discovery")] | length' "$work/control")" "Google's ID token is forwarded → the broker calls Google only for keys and metadata"
handle=$(json .handle)
session=$(cookie coatcheck)

step "3. An ID token can be used once"
give google web "$TOKEN"
expect_status 201 "app forwards an ID token twice with the same login token → 201"
expect_json .handle "$handle" "app forwards an ID token twice with the same login token → the same session"
same "$session" "$(cookie coatcheck)" "app forwards an ID token twice with the same login token → the same cookie"
device a-thief
give google web "$TOKEN" "$(random_token)"
expect_problem 409 code_already_used "another device forwards a used ID token with another login token"
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"id_token\":\"$TOKEN\",\"nonce\":\"$nonce\"}"
expect_problem 409 code_already_used "another device forwards a used ID token without a login token"
device a-phone
get /v1/session
expect_status 200 "another device's forwards of the ID token were refused → the session is alive"

step "4. A session without provider tokens cannot be refreshed, and gives out no access token"
request POST /v1/session/refresh
expect_problem 409 not_refreshable "refresh of a session from an ID token"
request POST /v1/session/token
expect_problem 403 client_not_allowed "app asks for the access token of a session from an ID token"
request POST "/v1/token" -H 'X-Coatcheck-Backend: orders-credential-4f1d9c' \
    --data-urlencode grant_type=urn:ietf:params:oauth:grant-type:token-exchange \
    --data-urlencode subject_token_type=urn:ietf:params:oauth:token-type:access_token --data-urlencode "subject_token=$session"
same "400 invalid_target" "$STATUS $(json .error)" "token exchange for a session from an ID token → invalid_target"
get /v1/session
expect_status 200 "session from an ID token, after three calls that need a provider token were refused → alive"

step "5. Android's Credential Manager: ID tokens of another registration"
sdk google google-app '"azp":"google-android"'
give google web "$TOKEN" "$(random_token)"
expect_status 201 "ID token with a trusted azp → a session"
sdk google google-android
give google web "$TOKEN" "$(random_token)"
expect_status 201 "ID token with a trusted audience → a session"

step "6. Apple and Facebook"
device b-phone
sdk apple com.example.app
give apple ios "$TOKEN" "$(random_token)"
expect_status 201 "ID token of Apple's sheet → a session"
expect_json .subject user-ana "session from Apple's ID token → its subject is user-ana"
sign_in facebook web ana
expect_status 201 "user signs in at Facebook with the Graph API → a session"
subject=$(json .subject)
sdk facebook facebook-app
give facebook web "$TOKEN" "$(random_token)"
expect_status 201 "ID token of Facebook's Limited Login → a session"
expect_json .subject "$subject" "ID token of Facebook's Limited Login → the same subject as with the Graph API"

step "7. Log-out makes no call to the provider"
sandbox DELETE /requests
request DELETE /v1/session
expect_status 204 "log-out of a session from an ID token → 204"
get /v1/session
expect_problem 401 session_required "session from an ID token, read after its log-out"
same 0 "$(calls facebook/token)" "log-out of a session from an ID token → zero token calls"

finish
