#!/usr/bin/env bash
# Checks of the id_token that a login or its configuration demands, a token answer without a scope, retried reads of the
# identity, and client_secret_jwt.
source "$(dirname "$0")/../support/lib.bash"
start_stack
counted() { curl -s "$MANAGEMENT/metrics" | sed -n "s/^$1 //p"; }
claims() { fault oidc "{\"fault\":\"claims\",\"value\":$1,\"times\":1}"; }

step "1. The id_token has to match the requested max_age, acr_values and essential claims"
device a-user
claims '{"auth_time":1000000000}'
sign_in oidc aged
expect_problem 502 identity_rejected "id_token whose auth_time is in 2001, at a client with max_age 300"
sign_in oidc aged
expect_status 201 "id_token with a recent auth_time, at a client with max_age 300 → a session"
ask() { start_login oidc silent "\"parameters\":$1"; browser "$AUTHORIZATION_URL" ana; forward "$CALLBACK"; }
sandbox PUT /settings/oidc '{"step_up":"ignores"}'
ask '{"acr_values":"urn:mfa"}'
expect_problem 502 identity_rejected "id_token without the requested acr"
claims '{"acr":"urn:mfa"}'
ask '{"acr_values":"urn:pwd urn:mfa"}'
expect_status 201 "id_token with one of two requested acr values → a session"
essential=$(json_text '{"id_token":{"email":{"essential":true},"acr":{"essential":true,"value":"urn:hwk"}}}')
ask "{\"claims\":$essential}"
expect_problem 502 identity_rejected "id_token without an essential claim"
claims '{"acr":"urn:hwk"}'
ask "{\"claims\":$essential}"
expect_status 201 "id_token with all essential claims → a session"
start_login oidc silent '"parameters":{"claims":"{"}'
expect_problem 400 invalid_request "start of a login whose claims parameter is not JSON"

step "2. Flow B: the app does not send its nonce"
app_authorizes() {
    verifier=$(random_token)
    CALLBACK=$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid%20email%20offline_access&code_challenge=$(s256 "$verifier")&code_challenge_method=S256&sandbox_user=ana$1")
    usual="\"provider\":\"oidc\",\"client\":\"ios\",\"code_verifier\":\"$verifier\""
}
device b-user
app_authorizes "&nonce=n-4711"
before=$(calls oidc/revoke)
forward "$CALLBACK" "$usual"
expect_problem 502 identity_rejected "login that the app started, whose id_token has a nonce, forwarded without a nonce"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "login that the app started, and the forward lacks the id_token's nonce → the tokens are revoked"
app_authorizes "&nonce=n-4711"
forward "$CALLBACK" "$usual,\"nonce\":\"n-4711\""
expect_status 201 "login that the app started, and the forward has the id_token's nonce → a session"
app_authorizes ""
forward "$CALLBACK" "$usual"
expect_status 201 "login that the app started, and neither the id_token nor the forward has a nonce → a session"

step "3. A refresh returns a signed id_token with another identity: the session ends. An unsigned one is only logged"
for name in refresh-invalid-issuer invalid-aud nonce-invalid refresh-invalid-sub; do
    device "refresh-$name"
    sign_in oidc ios
    fault oidc "{\"fault\":\"$name\",\"endpoint\":\"refresh\",\"times\":1}"
    post /v1/session/refresh ''
    same "401 subject_changed" "$STATUS $(json .reason)" "refresh whose new id_token has the fault $name → 401 subject_changed"
done
device refresh-unsigned
sign_in oidc ios
fault oidc '{"fault":"idtoken-sig-none","endpoint":"refresh","times":1}'
post /v1/session/refresh ''
expect_status 200 "refresh whose new id_token has alg none → the session is alive"
same 1 "$(counted 'coatcheck_refreshed_id_tokens_unverified_total{provider="oidc",client="ios"}')" "refresh whose new id_token has alg none → the metrics count the id_token"
in_log 'a refreshed id_token does not verify' 1 "refresh whose new id_token has alg none → one log line"

step "4. A token answer without a scope: the session gets the requested scope, but a required scope counts as missing"
device c-user
fault oidc '{"fault":"no-scope","times":1}'
sign_in oidc ios
expect_status 201 "token answer without a scope → a session"
same openid "$(json '.scope[0]')" "token answer without a scope → the session has the requested scope"
before=$(calls oidc/revoke)
fault oidc '{"fault":"no-scope","times":1}'
sign_in oidc choosy
expect_problem 502 provider_error "token answer without a scope, at a client with a required scope"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "token answer without a scope, at a client with a required scope → the tokens are revoked"
before=$(calls oidc/revoke)
fault oidc '{"fault":"token-type-mac","times":1}'
sign_in oidc ios
expect_problem 502 provider_error "token answer with the token_type mac"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "token answer with the token_type mac → the tokens are revoked"

step "5. A read of the identity fails once, and the broker retries it"
device d-user
fault clever '{"fault":"status","endpoint":"me","status":503,"times":1}'
sign_in clever web
expect_status 201 "sign-in, and Clever's /me answers 503 once → a session"
device e-user
fault github '{"fault":"status","endpoint":"userinfo","status":503,"times":1}'
sign_in github web
expect_status 201 "sign-in, and GitHub's user endpoint answers 503 once → a session"

step "6. A pushed request expires before its login"
start_login cloudentity service
same 1 "$(python3 -c 'import sys, datetime as d
left = d.datetime.fromisoformat(sys.argv[1].replace("Z", "+00:00")) - d.datetime.now(d.timezone.utc)
print(int(left.total_seconds() <= 91))' "$(json .open_by)")" "login with a pushed request → its open_by is within 91 seconds"
same 1 "$(python3 -c 'import sys, datetime as d
left = d.datetime.fromisoformat(sys.argv[1].replace("Z", "+00:00")) - d.datetime.now(d.timezone.utc)
print(int(left.total_seconds() > 500))' "$(json .expires_at)")" "login with a pushed request → its expires_at is more than 500 seconds away"

step "7. client_secret_jwt: the client secret signs an assertion"
sign_in oidc signing
expect_status 201 "sign-in of a client with client_secret_jwt → a session"
sandbox GET '/requests?provider=oidc&endpoint=token'
matches 'client_assertion=eyJ' "$(jq -r '.[-1].body' "$work/control")" "token request of a client with client_secret_jwt → has a signed assertion"
same "" "$(jq -r '.[-1].body' "$work/control" | grep -o wq8ZrT5nLk2)" "token request of a client with client_secret_jwt → does not have the secret"

finish
