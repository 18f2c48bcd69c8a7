#!/usr/bin/env bash
# Guarantee 1's failure table: the app's answer when the token call fails, and when the app forwards the same code again.
source "$(dirname "$0")/../support/lib.bash"
start_stack

# begin PROVIDER [COUNTED]: starts a login of a new device and signs the user in; COUNTED is the provider whose token calls
# `more_calls` counts (PROVIDER by default)
begin() {
    device "phone-$RANDOM$RANDOM"
    start_login "$1" ios
    browser "$AUTHORIZATION_URL" ana
    forwarded=$(calls "${2:-$1}/token")
}

more_calls() { same "$1" "$(($(calls "${2:-oidc}/token") - forwarded))" "all forwards of the login in the step before line ${BASH_LINENO[0]} → $1 token call(s) at the provider"; }

step "1. Connection refused: the claim is released, and the starter may retry"
begin distant oauth2
forward "$CALLBACK"
expect_problem 503 provider_unavailable "token endpoint refuses the connection"
matches '^[0-9]+$' "$(header Retry-After)" "token endpoint refuses the connection → Retry-After in seconds"
same "" "$(json .retry)" "token endpoint refuses the connection → the app may forward the code again"
python3 "$here/forwarder.py" "$CLOSED_PORT" "${SANDBOX##*:}" &
pids+=($!)
wait_for 30 curl -s "http://127.0.0.1:$CLOSED_PORT/_sandbox/health"
sleep "$(header Retry-After)"
forward "$CALLBACK"
expect_status 201 "token endpoint refused the connection, then begins to listen, and the app repeats the forward → a session"
more_calls 1 oauth2

step "2. Answer 429: the claim is released, and the app may forward again"
begin oidc
fault oidc '{"fault":"rate-limited","endpoint":"token","times":1}'
forward "$CALLBACK"
expect_problem 503 provider_unavailable "token endpoint answers 429"
matches '^[0-9]+$' "$(header Retry-After)" "token endpoint answers 429 → Retry-After in seconds"
forward "$CALLBACK"
expect_status 201 "token endpoint answered 429, and the app repeats the forward → a session"
more_calls 2

step "3. Answer 5xx, three times: the code is spent"
begin oidc
fault oidc '{"fault":"status","status":500,"endpoint":"token","times":3}'
forward "$CALLBACK"
expect_problem 503 provider_unavailable "token endpoint answers 500"
same "" "$(json .retry)" "token endpoint answers 500 → the app may forward the code again"
forward "$CALLBACK"
expect_problem 503 provider_unavailable "token endpoint answers 500 to the repeated forward"
forward "$CALLBACK"
expect_problem 503 provider_unavailable "token endpoint answers 500 to the third forward of a code"
expect_json .retry new_login "token endpoint answers 500 to the third forward of a code → the app has to start a new login"
forward "$CALLBACK"
expect_problem 503 provider_unavailable "app repeats the forward after the token endpoint has answered 500 three times"
expect_json .retry new_login "app repeats the forward after the token endpoint has answered 500 three times → the app has to start a new login"
more_calls 3
sandbox DELETE /faults

step "4. Answer 4xx with an OAuth error: the code is spent, and a repeated forward gets the same answer"
begin oidc
fault oidc '{"fault":"status","status":400,"body":"{\"error\":\"invalid_grant\"}","endpoint":"token","times":1}'
forward "$CALLBACK"
expect_problem 400 code_rejected "token endpoint answers invalid_grant"
forward "$CALLBACK"
expect_problem 400 code_rejected "app repeats the forward after the token endpoint has answered invalid_grant"
more_calls 1
begin oidc
fault oidc '{"fault":"status","status":403,"body":"{\"error\":\"invalid_code\"}","endpoint":"token","times":1}'
forward "$CALLBACK"
expect_problem 400 code_rejected "token endpoint answers 403 invalid_code"

for name in html-200 empty-200 array-token no-access-token empty-token crlf-token token-type-mac error-object duplicate-member huge gzip-bomb; do
    step "5. An unusable 2xx answer ($name): the code is spent, and a repeated forward gets the same answer"
    begin oidc
    fault oidc "{\"fault\":\"$name\",\"endpoint\":\"token\",\"times\":1}"
    forward "$CALLBACK"
    case $name in
        error-object) same 4 "${STATUS:0:1}" "token answer 200 with an OAuth error → 4xx" ;;
        *) expect_problem 502 provider_error "unusable token answer $name" ;;
    esac
    first=$STATUS
    forward "$CALLBACK"
    same "$first" "$STATUS" "app repeats the forward after the unusable token answer $name → the same status as before"
    more_calls 1
    sandbox DELETE /faults
done

step "6. The token endpoint answers with a redirect: the broker does not follow it"
begin oidc
hits=$(calls api/api)
fault oidc '{"fault":"redirect","status":307,"endpoint":"token","times":1}'
forward "$CALLBACK"
expect_problem 502 provider_error "token endpoint answers 307"
same "$hits" "$(calls api/api)" "token endpoint answers 307 → the redirect's target gets no call"

for name in userinfo-invalid-sub userinfo-missing-sub userinfo-not-object; do
    step "7. The identity fails ($name): the code is spent and the tokens are revoked"
    begin oauth2
    revoked=$(calls oauth2/revoke)
    fault oauth2 "{\"fault\":\"$name\",\"times\":1}"
    forward "$CALLBACK"
    case $name in
        userinfo-invalid-sub) expect_status 201 "userinfo answer with a wrong sub, and there is no id_token to compare → a session" && continue ;;
        *) same 502 "$STATUS" "unusable userinfo answer $name → 502" ;;
    esac
    forward "$CALLBACK"
    same 502 "$STATUS" "app repeats the forward after the unusable userinfo answer $name → 502"
    more_calls 1 oauth2
    wait_for 10 eval '[ "$(calls oauth2/revoke)" -gt "$revoked" ]'
    same 0 $? "unusable userinfo answer $name → the broker revokes the tokens of this login"
done
begin oidc
fault oidc '{"fault":"userinfo-invalid-sub","times":1}'
fault oidc '{"fault":"invalid-sig-es256","endpoint":"token","times":1}'
revoked=$(calls oidc/revoke)
forward "$CALLBACK"
expect_problem 502 identity_rejected "id_token with a wrong signature"
forward "$CALLBACK"
expect_problem 502 identity_rejected "app repeats the forward after an id_token with a wrong signature"
more_calls 1
wait_for 10 eval '[ "$(calls oidc/revoke)" -gt "$revoked" ]'
same 0 $? "id_token with a wrong signature → the broker revokes the tokens of this login"
sandbox DELETE /faults

for name in drop-after truncate drop-before; do
    step "8. No complete token answer ($name): the broker cannot know whether the code is spent, and never sends it again"
    begin oidc
    fault oidc "{\"fault\":\"$name\",\"endpoint\":\"token\",\"times\":1}"
    forward "$CALLBACK"
    expect_problem 503 provider_unavailable "token answer is lost by the fault $name"
    expect_json .retry new_login "token answer is lost by the fault $name → the app has to start a new login"
    forward "$CALLBACK"
    expect_problem 409 login_required "starter repeats the forward after the token answer was lost by the fault $name"
    url=$(json .login.authorization_url)
    more_calls 1
    browser "$url" ana
    forward "$CALLBACK"
    expect_status 201 "repeated forward got 409 with a new login, and the user finishes this login → a session"
    sandbox DELETE /faults
done

step "9. The provider hangs: the broker gives up after 15 seconds"
begin oidc
fault oidc '{"fault":"hang","endpoint":"token","times":1}'
SECONDS=0
forward "$CALLBACK"
expect_problem 503 provider_unavailable "token endpoint hangs"
expect_json .retry new_login "token endpoint hangs → the app has to start a new login"
# The broker's limit is fifteen seconds. On a busy machine, its answer comes some seconds later.
if [ "$SECONDS" -ge 14 ] && [ "$SECONDS" -le 22 ]; then ok "token endpoint hangs → the app gets the answer after $SECONDS seconds"; else not_ok "token endpoint hangs → the app gets the answer after 14 to 22 seconds" "$SECONDS"; fi

step "Memory stays constant under answers that are too large (SEC-122)"
resident() { ps -o rss= -p "$broker_pid" | tr -d ' '; }
# large N: makes N logins whose answer has 5 MiB, or expands to 64 MiB
large() {
    for _ in $(seq "$1"); do
        for name in huge gzip-bomb; do
            begin oidc
            fault oidc "{\"fault\":\"$name\",\"endpoint\":\"token\",\"times\":1}"
            forward "$CALLBACK"
        done
    done
}
large 5
before=$(resident)
large 25
grown=$((($(resident) - before) / 1024))
same 1 "$((grown < 16))" "fifty oversized token answers (1.7 GiB) → the broker's memory grows by $grown MiB, fewer than 16"

step "10. Repeated failures open the breaker, and successful calls close it"
breaker() { curl -s "$MANAGEMENT/metrics" | sed -n 's/^coatcheck_provider_breaker{provider="slack"} //p'; }
same 0 "$(breaker)" "no sign-in has failed → the provider's breaker is closed"
fault slack '{"fault":"status","status":503,"endpoint":"token"}'
sandbox DELETE /requests
for attempt in 1 2 3 4 5 6 7 8 9 10; do
    device "breaker-$attempt"
    sign_in slack web "user$attempt"
done
expect_problem 503 provider_unavailable "tenth sign-in while the token endpoint answers 503"
same 8 "$(calls slack/token)" "ten sign-ins while the token endpoint answers 503 → only eight token calls"
same 2 "$(breaker)" "ten sign-ins while the token endpoint answers 503 → metrics show an open breaker"
sandbox DELETE /faults
wait_for 30 eval 'device "breaker-$RANDOM$RANDOM"; sign_in slack web ana; [ "$STATUS" = 201 ]'
same 0 $? "token endpoint works again → a sign-in succeeds within 30 s"
same 0 "$(breaker)" "token endpoint works again → the breaker is closed"

finish
