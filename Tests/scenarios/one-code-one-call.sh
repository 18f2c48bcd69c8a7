#!/usr/bin/env bash
# Guarantee 1: one code, one token call. Fifty identical forwards at once make one call and one session.
source "$(dirname "$0")/support/lib.bash"
start_stack

step "1. Fifty identical forwards at once, of a login that the broker started"
start_login oidc ios
browser "$AUTHORIZATION_URL" ana
login_cookie=$(cookie coatcheck-login)
fault oidc '{"fault":"slow","endpoint":"token","delay_ms":300}'
for n in $(seq 50); do
    curl -s -m 40 -o "$work/answer.$n" -D "$work/answer.$n.headers" -w '%{http_code}\n' "$BROKER/v1/sessions" \
        -b "coatcheck-login=$login_cookie" -H 'Content-Type: application/json' \
        --data-binary "{\"callback_url\":$(json_text "$CALLBACK")}" >"$work/status.$n" &
    waiting[n]=$!
done
wait "${waiting[@]}"
same 50 "$(cat "$work"/status.* | grep -c '^201$')" "fifty answers 201"
same 1 "$(calls oidc/token)" "one call at the provider's token endpoint"
same 1 "$(for n in $(seq 50); do json .handle "$work/answer.$n"; done | sort -u | wc -l)" "one handle"
same 1 "$(grep -hio 'set-cookie: coatcheck=[^;]*' "$work"/answer.*.headers | sort -u | wc -l)" "one cookie"

step "2. A stranger with the same code: no session, no call"
device a-stranger
forward "$CALLBACK"
expect_problem 409 code_already_used "another starter"
same 1 "$(calls oidc/token)" "still one call"

step "3. The same from the app's own login, fifty times, with a login token"
sandbox DELETE /faults
sandbox DELETE /requests
verifier=$(random_token)
state=$(random_token)
secret=$(random_token)
browser "$SANDBOX/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid&state=$state&code_challenge=$(s256 "$verifier")&code_challenge_method=S256" ben
members="{\"provider\":\"oidc\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$verifier\",\"login_token\":\"$secret\"}"
rm -f "$work"/answer.* "$work"/status.*
for n in $(seq 50); do
    curl -s -m 40 -o "$work/answer.$n" -w '%{http_code}\n' "$BROKER/v1/sessions" -H 'Content-Type: application/json' \
        --data-binary "$members" >"$work/status.$n" &
    waiting[n]=$!
done
wait "${waiting[@]}"
same 50 "$(cat "$work"/status.* | grep -c '^201$')" "fifty answers 201"
same 1 "$(calls oidc/token)" "one call"
same 1 "$(for n in $(seq 50); do json .handle "$work/answer.$n"; done | sort -u | wc -l)" "one handle"
post /v1/sessions "${members/$secret/$(random_token)}"
expect_problem 409 code_already_used "another login token with the same code"
same 1 "$(calls oidc/token)" "still one call"

step "4. After a log-out the code gives nothing any more"
device a-phone
sign_in oidc ios ana
callback=$CALLBACK
request DELETE /v1/session
before=$(calls oidc/token)
forward "$callback"
expect_problem 409 code_already_used "the ended session's code"
same "$before" "$(calls oidc/token)" "no call"

step "5. One Clever code, fifty times, from an app that started its login itself (it has no PKCE: the state is its own)"
sandbox DELETE /requests
state=$(random_token)
secret=$(random_token)
browser "$SANDBOX/clever/oauth/authorize?response_type=code&client_id=ios-0001&redirect_uri=clever-ios-0001://oauth&state=$state" cleo
members="{\"provider\":\"clever\",\"client\":\"ios\",\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"login_token\":\"$secret\"}"
rm -f "$work"/answer.* "$work"/status.*
for n in $(seq 50); do
    curl -s -m 40 -o "$work/answer.$n" -w '%{http_code}\n' "$BROKER/v1/sessions" -H 'Content-Type: application/json' \
        --data-binary "$members" >"$work/status.$n" &
    waiting[n]=$!
done
wait "${waiting[@]}"
same 50 "$(cat "$work"/status.* | grep -c '^201$')" "fifty answers 201"
same 1 "$(calls clever/token)" "one call"
same 1 "$(for n in $(seq 50); do json .handle "$work/answer.$n"; done | sort -u | wc -l)" "one handle"
post /v1/sessions "${members/$secret/$(random_token)}"
expect_problem 409 code_already_used "a stranger with the same callback URL"
same 1 "$(calls clever/token)" "still one call"

finish
