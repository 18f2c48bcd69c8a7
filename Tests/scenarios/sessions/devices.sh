#!/usr/bin/env bash
# A shop's cash registers list and end only their own sessions, although they share one merchant. Employees' PINs are not relayed, and
# only clients with `hand_out_access_token` get the provider's access token.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. Two cash registers of one merchant"
device till-1
sign_in clover ios ana
expect_status 201 "first cash register signs in as a merchant → a session"
first=$(json .handle)
device till-2
sign_in clover ios ana
expect_status 201 "second cash register signs in as the same merchant → a session"
get /v1/sessions
same 1 "$(jq '.items | length' "$work/body")" "cash register lists its sessions while the merchant's other cash register is signed in → only this register's session"
request DELETE "/v1/sessions/$first"
expect_problem 404 not_found "cash register ends another register's session by the session's handle"
request DELETE '/v1/sessions?except=current'
expect_status 204 "cash register ends all its other sessions → 204"
device till-1
get /v1/session
expect_status 200 "cash register has ended all its other sessions → the merchant's other cash register keeps its session"

step "2. Employees' PINs are not relayed, even if allow permits their path"
merchant=$(json .subject)
get "/v1/relay/clover-api/v3/merchants/$merchant"
expect_status 200 "relay call for the merchant → 200"
before=$(calls clover/employee)
for path in "/employees" "/employees/E1" "?expand=employees" "?expand=orders,employee.pin" "?%65xpand=employees"; do
    get "/v1/relay/clover-api/v3/merchants/$merchant$path"
    expect_problem 403 upstream_not_allowed "relay call for employees with the path or query $path"
done

step "3. Only clients with hand_out_access_token get the provider's access token"
device sdk-phone
sign_in oidc ios
post /v1/session/token ''
expect_problem 403 client_not_allowed "app of a client without hand_out_access_token asks for the access token"
sign_in oidc sdk
post /v1/session/token ''
expect_status 200 "app of a client with hand_out_access_token asks for the access token → 200"
expect_json .token_type Bearer "access token for a client with hand_out_access_token → its token_type is Bearer"
expect_header Cache-Control no-store "access token for a client with hand_out_access_token → its answer is not cached (Cache-Control: no-store)"
same "" "$(json .refresh_token)" "access token for a client with hand_out_access_token → the answer has no refresh token"
same 200 "$(curl -s -o /dev/null -w '%{http_code}' "$SANDBOX/oidc/userinfo" -H "Authorization: Bearer $(json .access_token)")" "access token for a client with hand_out_access_token, used at the provider → 200"
same 1 "$(curl -s "$MANAGEMENT/metrics" | sed -n 's/^coatcheck_access_tokens_handed_out_total{provider="oidc",client="sdk"} //p')" "access token for a client with hand_out_access_token → counted in the metrics"
token=$(json .access_token)
request POST /v1/session/token -H 'Sec-Fetch-Site: cross-site'
expect_problem 403 cross_origin "access token requested with Sec-Fetch-Site: cross-site"
request DELETE /v1/session
wait_for 10 eval '[ "$(curl -s -o /dev/null -w "%{http_code}" "$SANDBOX/oidc/userinfo" -H "Authorization: Bearer '"$token"'")" = 401 ]'
same 0 $? "log-out after the app got the provider's access token → the provider no longer accepts this token"
post /v1/session/token ''
same 401 "$STATUS" "access token requested after the log-out → 401"

finish
