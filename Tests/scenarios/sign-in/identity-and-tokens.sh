#!/usr/bin/env bash
# The parts that a sign-in needs, the optional parts of a token answer, and the effect of an unusable answer.
source "$(dirname "$0")/../support/lib.bash"
start_stack
counted() { curl -s "$MANAGEMENT/metrics" | sed -n "s/^$1 //p"; }
claims() { fault oidc "{\"fault\":\"claims\",\"value\":$1,\"times\":1}"; }

step "1. Requested max_age, acr_values and essential claims are checked"
device a-user
claims '{"auth_time":1000000000}'
sign_in oidc aged
expect_problem 502 identity_rejected "sign-in from the year 2001, and the configuration has max_age 300"
sign_in oidc aged
expect_status 201 "recent sign-in with max_age 300 → a session"
ask() { start_login oidc silent "\"parameters\":$1"; browser "$AUTHORIZATION_URL" ana; forward "$CALLBACK"; }
sandbox PUT /settings/oidc '{"step_up":"ignores"}'
ask '{"acr_values":"urn:mfa"}'
expect_problem 502 identity_rejected "id_token without the requested acr"
claims '{"acr":"urn:mfa"}'
ask '{"acr_values":"urn:pwd urn:mfa"}'
expect_status 201 "id_token with one of two requested acr → a session"
essential=$(json_text '{"id_token":{"email":{"essential":true},"acr":{"essential":true,"value":"urn:hwk"}}}')
ask "{\"claims\":$essential}"
expect_problem 502 identity_rejected "id_token without an essential claim"
claims '{"acr":"urn:hwk"}'
ask "{\"claims\":$essential}"
expect_status 201 "id_token with all essential claims → a session"
start_login oidc silent '"parameters":{"claims":"{"}'
expect_problem 400 invalid_request "claims parameter that is not JSON"

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
expect_problem 502 identity_rejected "id_token with a nonce, forward without one"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "forward without the nonce → the tokens are revoked"
app_authorizes "&nonce=n-4711"
forward "$CALLBACK" "$usual,\"nonce\":\"n-4711\""
expect_status 201 "id_token with a nonce, forward with it → a session"
app_authorizes ""
forward "$CALLBACK" "$usual"
expect_status 201 "id_token without a nonce, forward without one → a session"

step "3. A refresh returns a signed id_token of another user: the session ends. An unsigned one is only logged"
for name in refresh-invalid-issuer invalid-aud nonce-invalid refresh-invalid-sub; do
    device "refresh-$name"
    sign_in oidc ios
    fault oidc "{\"fault\":\"$name\",\"endpoint\":\"refresh\",\"times\":1}"
    post /v1/session/refresh ''
    same "401 subject_changed" "$STATUS $(json .reason)" "refresh with the id_token fault $name → subject_changed"
done
device refresh-unsigned
sign_in oidc ios
fault oidc '{"fault":"idtoken-sig-none","endpoint":"refresh","times":1}'
post /v1/session/refresh ''
expect_status 200 "refreshed id_token with alg none → the session is alive"
same 1 "$(counted 'coatcheck_refreshed_id_tokens_unverified_total{provider="oidc",client="ios"}')" "refreshed id_token with alg none → counted"
in_log 'a refreshed id_token does not verify' 1 "refreshed id_token with alg none → logged"

step "4. Without a scope in the answer the requested scope counts, but a required scope counts as missing"
device c-user
fault oidc '{"fault":"no-scope","times":1}'
sign_in oidc ios
expect_status 201
same openid "$(json '.scope[0]')" "token answer without a scope → the requested scope"
before=$(calls oidc/revoke)
fault oidc '{"fault":"no-scope","times":1}'
sign_in oidc choosy
expect_problem 502 provider_error "token answer without a scope, client with a required scope"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "required scope missing → the tokens are revoked"
before=$(calls oidc/revoke)
fault oidc '{"fault":"token-type-mac","times":1}'
sign_in oidc ios
expect_problem 502 provider_error "token answer with another token_type"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "another token_type → the tokens are revoked"

step "5. A read of the identity fails once: it is retried"
device d-user
fault clever '{"fault":"status","endpoint":"me","status":503,"times":1}'
sign_in clever web
expect_status 201 "one 503 of Clever's /me → a session"
device e-user
fault github '{"fault":"status","endpoint":"userinfo","status":503,"times":1}'
sign_in github web
expect_status 201 "one 503 of GitHub's user → a session"

step "6. A pushed request expires before its login"
start_login cloudentity service
same 1 "$(python3 -c 'import sys, datetime as d
left = d.datetime.fromisoformat(sys.argv[1].replace("Z", "+00:00")) - d.datetime.now(d.timezone.utc)
print(int(left.total_seconds() <= 91))' "$(json .open_by)")" "pushed request → open_by within 91 seconds"
same 1 "$(python3 -c 'import sys, datetime as d
left = d.datetime.fromisoformat(sys.argv[1].replace("Z", "+00:00")) - d.datetime.now(d.timezone.utc)
print(int(left.total_seconds() > 500))' "$(json .expires_at)")" "pushed request → expires_at after more than 500 seconds"

step "7. A client secret may sign an assertion"
sign_in oidc signing
expect_status 201 "login with client_secret_jwt → a session"
sandbox GET '/requests?provider=oidc&endpoint=token'
matches 'client_assertion=eyJ' "$(jq -r '.[-1].body' "$work/control")" "client_secret_jwt → the token request has a signed assertion"
same "" "$(jq -r '.[-1].body' "$work/control" | grep -o wq8ZrT5nLk2)" "client_secret_jwt → the secret is not sent"

finish
