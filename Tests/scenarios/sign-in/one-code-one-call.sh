#!/usr/bin/env bash
# Guarantee 1: one code, one token call. Fifty identical forwards at the same time cause one call and one session.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. Fifty identical forwards at the same time, for a login that the broker started"
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
same 50 "$(cat "$work"/status.* | grep -c '^201$')" "fifty identical forwards at the same time → each gets 201"
same 1 "$(calls oidc/token)" "fifty identical forwards at the same time → one token call"
same 1 "$(for n in $(seq 50); do json .handle "$work/answer.$n"; done | sort -u | wc -l)" "fifty identical forwards at the same time → one session handle"
same 1 "$(grep -hio 'set-cookie: coatcheck=[^;]*' "$work"/answer.*.headers | sort -u | wc -l)" "fifty identical forwards at the same time → one session cookie"

step "2. Another device with the same code gets no session, and causes no call"
device a-stranger
forward "$CALLBACK"
expect_problem 409 code_already_used "another device forwards a used code"
same 1 "$(calls oidc/token)" "another device forwards a used code → no further token call"

step "3. Fifty identical forwards of the app's own login, with a login token"
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
same 50 "$(cat "$work"/status.* | grep -c '^201$')" "fifty identical forwards of a login that the app started → each gets 201"
same 1 "$(calls oidc/token)" "fifty identical forwards of a login that the app started → one token call"
same 1 "$(for n in $(seq 50); do json .handle "$work/answer.$n"; done | sort -u | wc -l)" "fifty identical forwards of a login that the app started → one session handle"
post /v1/sessions "${members/$secret/$(random_token)}"
expect_problem 409 code_already_used "used code of a login that the app started, forwarded with another login token"
same 1 "$(calls oidc/token)" "used code of a login that the app started, forwarded with another login token → no further token call"

step "4. After a log-out the code is refused"
device a-phone
sign_in oidc ios ana
callback=$CALLBACK
request DELETE /v1/session
before=$(calls oidc/token)
forward "$callback"
expect_problem 409 code_already_used "app forwards a code again after the session from this code was logged out"
same "$before" "$(calls oidc/token)" "app forwards a code again after the session from this code was logged out → zero token calls"

step "5. Fifty forwards of one Clever code from a login that the app started without PKCE"
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
same 50 "$(cat "$work"/status.* | grep -c '^201$')" "fifty forwards of one Clever code → each gets 201"
same 1 "$(calls clever/token)" "fifty forwards of one Clever code → one token call"
same 1 "$(for n in $(seq 50); do json .handle "$work/answer.$n"; done | sort -u | wc -l)" "fifty forwards of one Clever code → one session handle"
post /v1/sessions "${members/$secret/$(random_token)}"
expect_problem 409 code_already_used "used Clever code, forwarded with another login token"
same 1 "$(calls clever/token)" "used Clever code, forwarded with another login token → no further token call"

finish
