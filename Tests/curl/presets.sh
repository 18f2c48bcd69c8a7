#!/usr/bin/env bash
# The presets: Cloudentity, Google, GitHub, Slack, Apple; sign-in, native codes, log-out.
source "$(dirname "$0")/lib.bash"
start_stack

step "1. Cloudentity: an issuer with path segments, a public client"
sign_in cloudentity ios ana
expect_status 201
expect_json .subject user-ana
expect_json .tokens.refreshable true
sandbox GET '/requests?provider=cloudentity&endpoint=token'
matches 'X-Idempotency-Key' "$(cat "$work/control")" "an idempotency key on the token call"
if grep -qi '"authorization"' "$work/control"; then not_ok "no Authorization from a public client"; else ok "no Authorization from a public client"; fi

step "2. Google"
device b-phone
start_login google web
same offline "$(url_value access_type "$AUTHORIZATION_URL")" "access_type=offline"
same consent "$(url_value prompt "$AUTHORIZATION_URL")" "prompt=consent"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201
expect_json .provider google

step "3. Google's serverAuthCode: an empty redirect_uri, and the nonce is demanded"
device c-phone
nonce=$(random_token)
secret=$(random_token)
sandbox POST /native-code/google "{\"client_id\":\"google-app\",\"user\":\"ben\",\"nonce\":\"$nonce\"}"
code=$(json .code "$work/control")
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$code\",\"login_token\":\"$secret\"}"
expect_problem 400 invalid_request "without a nonce"
sandbox DELETE /requests
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$code\",\"login_token\":\"$secret\",\"nonce\":\"$nonce\"}"
expect_status 201 "with it"
sandbox GET '/requests?provider=google&endpoint=token'
matches 'redirect_uri=(&|$)' "$(json '[0].body' "$work/control")" "redirect_uri is empty"
sandbox POST /native-code/google "{\"client_id\":\"google-app\",\"user\":\"ben\",\"nonce\":\"another\"}"
post /v1/sessions "{\"provider\":\"google\",\"client\":\"web\",\"code\":\"$(json .code "$work/control")\",\"login_token\":\"$secret\",\"nonce\":\"$nonce\"}"
expect_problem 502 identity_rejected "another nonce"

step "4. Apple's authorizationCode: no redirect_uri, the nonce may be hashed"
device d-phone
hashed=$(printf %s "$nonce" | sha256sum | cut -d' ' -f1)
sandbox POST /native-code/apple "{\"client_id\":\"com.example.app\",\"user\":\"ana\",\"nonce\":\"$hashed\",\"scope\":\"openid email\"}"
sandbox_code=$(json .code "$work/control")
sandbox DELETE /requests
post /v1/sessions "{\"provider\":\"apple\",\"client\":\"ios\",\"code\":\"$sandbox_code\",\"login_token\":\"$secret\",\"nonce\":\"$nonce\"}"
expect_status 201 "a session"
sandbox GET '/requests?provider=apple&endpoint=token'
if json '[0].body' "$work/control" | grep -q redirect_uri; then not_ok "no redirect_uri"; else ok "no redirect_uri"; fi
request DELETE /v1/session
wait_for 10 eval '[ "$(calls apple/revoke)" -ge 1 ]'
same 0 $? "logging out revokes at Apple"

step "5. GitHub: errors with status 200, a numeric id, the e-mail by a second call"
device e-phone
sign_in github web ana
expect_status 201
matches '^[0-9]+$' "$(json .subject)" "the id as text"
start_login github web
browser "$AUTHORIZATION_URL" ana
forward "$(with_value code invented "$CALLBACK")"
expect_problem 400 code_rejected "an invented code (200 with an error)"

step "6. Slack: the user's token under authed_user, user_scope"
device f-phone
start_login slack web
matches 'identity.basic' "$(url_value user_scope "$AUTHORIZATION_URL")" "user_scope"
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201

finish
