#!/usr/bin/env bash
# Guarantees 2 and 3: all callers of a session share one refresh, and a temporary fault ends no session.
source "$(dirname "$0")/../support/lib.bash"
# The app forces several refreshes of one session within a minute, so this test turns off the pause between them.
LIMITS="forced_refresh_pause: 0s"
start_stack

refresh() { request POST /v1/session/refresh; }
refreshes() { calls oidc/refresh; }
# expired_session: makes a session of this device whose access token has just expired
expired_session() {
    device "phone-$RANDOM$RANDOM"
    sandbox PUT /settings/oidc '{"access_token_lifetime":1}'
    sign_in oidc ios ana
    sandbox PUT /settings/oidc '{"access_token_lifetime":3600}'
    sandbox DELETE /requests
    sleep 2
}

step "1. A refresh on demand"
sign_in oidc ios ana
session=$(cookie coatcheck)
sandbox DELETE /requests
refresh
expect_status 200 "app asks for a refresh → 200"
same 1 "$(refreshes)" "app asks for a refresh → one refresh call at the provider"
same "$session" "$(cookie coatcheck)" "app asks for a refresh → the session cookie is unchanged"
refresh
expect_status 200 "second refresh, with the refresh token from the first one → 200"

# One session may use an eighth of an upstream's 1,024 concurrent calls, so 120 concurrent calls are possible.
step "2. 120 relayed calls when the token expires: one refresh, no failure"
expired_session
cookie=$(cookie coatcheck)
fault oidc '{"fault":"slow","endpoint":"refresh","delay_ms":1500}'
fault oidc '{"fault":"rotate-strict","endpoint":"refresh"}'
curl -s -m 60 -Z --parallel-immediate --parallel-max 120 -o "$work/many-#1" -w '%{http_code}\n' -b "coatcheck=$cookie" \
    "$BROKER/v1/relay/api/private/echo?n=[1-120]" 2>/dev/null >"$work/statuses"
same 120 "$(grep -c '^200$' "$work/statuses")" "120 relay calls when the access token has expired → each gets 200"
same 1 "$(refreshes)" "120 relay calls when the access token has expired → one refresh call"
same 1 "$(jq -r '.headers[] | select(.[0] == "Authorization")[1]' "$work"/many-* | sort -u | wc -l)" "120 relay calls when the access token has expired → one new token for all"
sandbox DELETE /faults
JAR= request GET "$MANAGEMENT/metrics"
shared=$(sed -n 's/^coatcheck_refreshes_shared_total{provider="oidc",client="ios"} //p' "$work/body")
[ "${shared:-0}" -ge 90 ]; same 0 $? "120 relay calls when the access token has expired → the metric counts at least 90 that shared a refresh: ${shared:-0}"

step "3. Temporary faults: 503 with Retry-After, the cookie stays, and later calls succeed (SEC-58)"
for fault in '{"fault":"status","status":500}' '{"fault":"status","status":503,"headers":{"Retry-After":"1"}}' '{"fault":"rate-limited"}' \
    '{"fault":"drop-before","times":2}' '{"fault":"slow","delay_ms":20000}' \
    '{"fault":"status","status":400,"body":"<html>blocked by a firewall</html>"}' '{"fault":"status","status":401,"body":"{\"error\":\"invalid_client\"}"}' '{"fault":"html-200"}'; do
    device "phone-$RANDOM$RANDOM"
    sign_in oidc ios ana
    session=$(cookie coatcheck)
    fault oidc "$(python3 -c 'import json, sys; print(json.dumps({"times": 1} | json.loads(sys.argv[1]) | {"endpoint": "refresh"}))' "$fault")"
    refresh
    name=$(python3 -c 'import json, sys; f = json.loads(sys.argv[1]); print(f["fault"], f.get("status", ""), f.get("body", "")[:20])' "$fault")
    case $STATUS in
        503) ok "refresh at a provider with the fault $name → 503" ; matches '^[0-9]+$' "$(header Retry-After)" "refresh at a provider with the fault $name → 503 with Retry-After in seconds" ;;
        502) ok "refresh at a provider with the fault $name → 502" ;;
        200) ok "refresh at a provider with the fault $name → 200, because the broker's confirming retry succeeds" ;;
        *) not_ok "refresh at a provider with the fault $name → 503" ;;
    esac
    sandbox DELETE /faults
    get /v1/session
    expect_status 200 "refresh at a provider with the fault $name → the session is alive"
    same "$session" "$(cookie coatcheck)" "refresh at a provider with the fault $name → the session cookie is unchanged"
    get /v1/relay/api/private/echo
    expect_status 200 "refresh at a provider with the fault $name → a relayed call with the earlier access token is 200"
    wait_for 15 eval 'refresh; [ "$STATUS" = 200 ]'
    same 0 $? "provider's fault $name is over → a refresh succeeds"
done

step "4. Only a parsed invalid_grant ends a session"
device a-phone
sign_in oidc ios ana
session=$(cookie coatcheck)
sandbox POST /revoke '{"provider":"oidc","user":"ana"}'
refresh
same "401 session_ended grant_revoked" "$STATUS $(json .code) $(json .reason)" "refresh after the grant was revoked at the provider → 401, the session ended as grant_revoked"
matches 'Max-Age=0' "$(header Set-Cookie)" "refresh after the grant was revoked at the provider → the answer clears the cookie"
JAR= request GET /v1/session -b "coatcheck=$session"
same "401 grant_revoked" "$STATUS $(json .reason)" "app uses the session that ended as grant_revoked → again 401 grant_revoked"

step "5. A refresh returns an id_token of another user"
device b-phone
sign_in oidc ios ben
fault oidc '{"fault":"refresh-invalid-sub","times":1}'
refresh
same "401 subject_changed" "$STATUS $(json .reason)" "refresh returns another user's id_token → the session ends as subject_changed (SEC-59)"

step "6. A refresh answer without a refresh token: the session keeps its present one (SEC-57)"
device c-phone
sign_in oidc ios cleo
sandbox PUT /settings/oidc '{"refresh_mode":"keep"}'
refresh
expect_status 200 "refresh whose answer has no refresh token → 200"
refresh
expect_status 200 "refresh after an answer without a refresh token → 200 with the earlier refresh token"
sandbox DELETE /settings/oidc

step "7. A session without a refresh token"
device d-phone
sign_in clever ios ana
refresh
expect_problem 409 not_refreshable "refresh of a Clever session"

step "8. A refresh answer is lost, and the provider does not replay it: refresh_lost after one confirming retry"
device e-phone
sign_in oidc ios ana
fault oidc '{"fault":"drop-after","endpoint":"refresh","times":1}'
refresh
case "$STATUS $(json .code) $(json .reason)" in
    "401 session_ended refresh_lost") ok "provider's answer with the rotated refresh token is lost → the session ends as refresh_lost" ;;
    "503 provider_unavailable "*)
        ok "provider's answer with the rotated refresh token is lost → the app first gets 503"
        sandbox DELETE /faults
        sleep 1
        wait_for 40 eval 'refresh; [ "$STATUS" = 401 ]'
        same "session_ended refresh_lost" "$(json .code) $(json .reason)" "provider's answer with the rotated refresh token is lost, and the app retries → the session ends as refresh_lost"
        ;;
    *) not_ok "provider's answer with the rotated refresh token is lost → the session ends as refresh_lost" ;;
esac
sandbox DELETE /faults

step "9. Cloudentity replays a lost answer by its idempotency key"
device f-phone
sign_in cloudentity ios ana
fault cloudentity '{"fault":"drop-after","endpoint":"refresh","times":1}'
refresh
case $STATUS in
    200) ok "Cloudentity's answer to a refresh is lost → Cloudentity replays the answer, and the app's first request gets 200" ;;
    503) ok "Cloudentity's answer to a refresh is lost → the app first gets 503"; sleep "$(header Retry-After)"; refresh; expect_status 200 "Cloudentity's answer to a refresh is lost, and the app retries → 200, because Cloudentity replays the answer" ;;
    *) not_ok "Cloudentity's answer to a refresh is lost → Cloudentity replays the answer" ;;
esac

step "10. Clover: single-use refresh tokens at a separate endpoint"
device g-phone
sign_in clover ios ana
refresh
expect_status 200 "refresh of a low-trust Clover session → 200"
refresh
expect_status 200 "refresh of a Clover session with its new refresh token → 200"
sandbox GET '/requests?provider=clover&endpoint=refresh'
json '[0].body' "$work/control" >"$work/refresh.json"
same '["client_id", "refresh_token"]' "$(python3 -c 'import json, sys; print(json.dumps(sorted(json.load(open(sys.argv[1])))))' "$work/refresh.json")" "refresh request of a low-trust Clover client → has exactly client_id and refresh_token"

step "11. The caller that began a refresh disconnects; a second caller is served"
expired_session
cookie=$(cookie coatcheck)
fault oidc '{"fault":"slow","endpoint":"refresh","delay_ms":1500,"times":1}'
curl -s -m 0.4 -o /dev/null -b "coatcheck=$cookie" "$BROKER/v1/relay/api/private/echo"
get /v1/relay/api/private/echo
expect_status 200 "caller that began a refresh has disconnected → a second caller gets 200"
same 1 "$(refreshes)" "caller that began a refresh has disconnected, and a second caller waits → one refresh call"

step "12. The store cannot save the new token pair: callers get 503, and the pair is saved later (SEC-56)"
expired_session
cookie=$(cookie coatcheck)
database() { python3 -c 'import sqlite3, sys; sqlite3.connect(sys.argv[1], isolation_level=None).execute(sys.argv[2])' "$work/data/coatcheck.db" "$1"; }
database "CREATE TRIGGER no_commit BEFORE UPDATE OF token_version ON sessions BEGIN SELECT RAISE(ABORT, 'no'); END"
curl -s -m 30 -o /dev/null -w '%{http_code}' -b "coatcheck=$cookie" "$BROKER/v1/relay/api/private/echo" >"$work/late-status" &
waiting=$!
wait_for 10 eval '[ "$(refreshes)" -ge 1 ] && grep -q commitRefresh "$work/broker.log"'
database "DROP TRIGGER no_commit"
wait "$waiting"
same 503 "$(cat "$work/late-status")" "store cannot save a refreshed token pair → the caller that waits for the refresh gets 503"
wait_for 10 eval 'get /v1/relay/api/private/echo; [ "$STATUS" = 200 ]'
same 0 $? "store can save a refreshed token pair again → a relayed call is 200"
same 1 "$(refreshes)" "store could not save a refreshed token pair for a while → one refresh call at the provider"
refresh
expect_status 200 "store could not save a refreshed token pair for a while → the next refresh, with the new refresh token, is 200"

finish
