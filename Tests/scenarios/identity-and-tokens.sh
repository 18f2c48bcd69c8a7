#!/usr/bin/env bash
# The required parts of a sign-in, the optional parts of a token answer, and the fate of an unusable answer.
source "$(dirname "$0")/support/lib.bash"
start_stack
counted() { curl -s "$MANAGEMENT/metrics" | sed -n "s/^$1 //p"; }
claims() { fault oidc "{\"fault\":\"claims\",\"value\":$1,\"times\":1}"; }

step "1. max_age, acr_values and essential claims are checked wherever they were asked for"
device a-user
claims '{"auth_time":1000000000}'
sign_in oidc aged
expect_problem 502 identity_rejected "a sign-in of the year 2001, where the file asks for max_age 300"
sign_in oidc aged
expect_status 201 "a fresh one"
ask() { start_login oidc silent "\"parameters\":$1"; browser "$AUTHORIZATION_URL" ana; forward "$CALLBACK"; }
sandbox PUT /settings/oidc '{"step_up":"ignores"}'
ask '{"acr_values":"urn:mfa"}'
expect_problem 502 identity_rejected "an acr that was asked for and is not there"
claims '{"acr":"urn:mfa"}'
ask '{"acr_values":"urn:pwd urn:mfa"}'
expect_status 201 "one of those that were asked for"
essential=$(json_text '{"id_token":{"email":{"essential":true},"acr":{"essential":true,"value":"urn:hwk"}}}')
ask "{\"claims\":$essential}"
expect_problem 502 identity_rejected "an essential claim that is not there"
claims '{"acr":"urn:hwk"}'
ask "{\"claims\":$essential}"
expect_status 201 "all of them"
start_login oidc silent '"parameters":{"claims":"{"}'
expect_problem 400 invalid_request "claims that cannot be read"

step "2. Flow B: a nonce that nobody handed over"
app_authorizes() {
    verifier=$(random_token)
    CALLBACK=$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid%20email%20offline_access&code_challenge=$(s256 "$verifier")&code_challenge_method=S256&sandbox_user=ana$1")
    usual="\"provider\":\"oidc\",\"client\":\"ios\",\"code_verifier\":\"$verifier\""
}
device b-user
app_authorizes "&nonce=n-4711"
before=$(calls oidc/revoke)
forward "$CALLBACK" "$usual"
expect_problem 502 identity_rejected "the token has one"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "its tokens are revoked"
app_authorizes "&nonce=n-4711"
forward "$CALLBACK" "$usual,\"nonce\":\"n-4711\""
expect_status 201 "handed over"
app_authorizes ""
forward "$CALLBACK" "$usual"
expect_status 201 "none at all"

step "3. A refreshed id_token that is signed and is another's ends the session; an unsigned one is told of"
for name in refresh-invalid-issuer invalid-aud nonce-invalid refresh-invalid-sub; do
    device "refresh-$name"
    sign_in oidc ios
    fault oidc "{\"fault\":\"$name\",\"endpoint\":\"refresh\",\"times\":1}"
    post /v1/session/refresh ''
    same "401 subject_changed" "$STATUS $(json .reason)" "$name"
done
device refresh-unsigned
sign_in oidc ios
fault oidc '{"fault":"idtoken-sig-none","endpoint":"refresh","times":1}'
post /v1/session/refresh ''
expect_status 200 "alg none: the claims are dropped, the session goes on"
same 1 "$(counted 'coatcheck_refreshed_id_tokens_unverified_total{provider="oidc",client="ios"}')" "counted"
in_log 'a refreshed id_token does not verify' 1 "and said"

step "4. A scope that is left out is the one that was asked for, and grants nothing that has to be granted"
device c-user
fault oidc '{"fault":"no-scope","times":1}'
sign_in oidc ios
expect_status 201
same openid "$(json '.scope[0]')" "as requested"
before=$(calls oidc/revoke)
fault oidc '{"fault":"no-scope","times":1}'
sign_in oidc choosy
expect_problem 502 provider_error "a required scope that nobody granted"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "the tokens of an answer that cannot be used are revoked"
before=$(calls oidc/revoke)
fault oidc '{"fault":"token-type-mac","times":1}'
sign_in oidc ios
expect_problem 502 provider_error "no Bearer token"
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$before" ]'
same 0 $? "revoked too"

step "5. A read that fails in passing costs no login"
device d-user
fault clever '{"fault":"status","endpoint":"me","status":503,"times":1}'
sign_in clever web
expect_status 201 "one 503 of /me"
device e-user
fault github '{"fault":"status","endpoint":"userinfo","status":503,"times":1}'
sign_in github web
expect_status 201 "one 503 of GitHub's user"

step "6. A pushed request that is good for a minute is to be opened in it; the login has its ten minutes"
start_login cloudentity service
same 1 "$(python3 -c 'import sys, datetime as d
left = d.datetime.fromisoformat(sys.argv[1].replace("Z", "+00:00")) - d.datetime.now(d.timezone.utc)
print(int(left.total_seconds() <= 91))' "$(json .open_by)")" "open_by is the request's"
same 1 "$(python3 -c 'import sys, datetime as d
left = d.datetime.fromisoformat(sys.argv[1].replace("Z", "+00:00")) - d.datetime.now(d.timezone.utc)
print(int(left.total_seconds() > 500))' "$(json .expires_at)")" "expires_at is the login's"

step "7. Metadata that promises only plain starts nothing; a secret may sign"
sign_in oidc signing
expect_status 201 "client_secret_jwt"
sandbox GET '/requests?provider=oidc&endpoint=token'
matches 'client_assertion=eyJ' "$(jq -r '.[-1].body' "$work/control")" "a signed assertion is sent"
same "" "$(jq -r '.[-1].body' "$work/control" | grep -o wq8ZrT5nLk2)" "the secret itself is not"

finish
