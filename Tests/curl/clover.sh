#!/usr/bin/env bash
# Clover: both client kinds, the exact requests, the merchant confirmed by the API, dashboard launches, import of tokens.
source "$(dirname "$0")/lib.bash"
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
same 502 "$STATUS" "no merchant: 502"

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
post /v1/sessions "$import,\"login_token\":\"$secret\"}"
expect_status 201 "a session"
expect_json .subject "$(url_value merchant_id "$CALLBACK")"
handle=$(json .handle)
post /v1/sessions "$import,\"login_token\":\"$secret\"}"
expect_json .handle "$handle" "the same import again: the same session"
post /v1/sessions "$import,\"login_token\":\"$(random_token)\"}"
expect_problem 409 code_already_used "by somebody else"
post /v1/sessions "${import/\"ios\"/\"web\"}}"
expect_problem 403 client_not_allowed "a client without import_tokens"

finish
