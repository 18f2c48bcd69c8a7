#!/usr/bin/env bash
# For backends: forward-auth, introspection (RFC 7662), token exchange (RFC 8693).
source "$(dirname "$0")/lib.bash"
start_stack

orders=(-H 'Authorization: Bearer orders-credential-4f1d9c')
gateway=(-H 'X-Coatcheck-Backend: gateway-credential-4f1d9c')
exchange=(-d grant_type=urn:ietf:params:oauth:grant-type:token-exchange -d subject_token_type=urn:ietf:params:oauth:token-type:access_token)
sign_in oidc ios ana
session=$(cookie coatcheck)
handle=$(json .handle)
JAR=

step "1. Forward-auth: the caller proves itself, the session decides"
get /v1/forward-auth -b "coatcheck=$session"
expect_problem 401 backend_unauthorized "without a backend's credential"
get /v1/forward-auth "${gateway[@]}"
expect_problem 401 session_required "without a session"
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session"
expect_status 200
expect_header X-Auth-Subject user-ana
expect_header X-Auth-Provider oidc
expect_header X-Auth-Client ios
expect_header X-Auth-Session "$handle"
expect_header X-Auth-Email ana@example.org
matches '^Ana%20Example$' "$(header X-Auth-Name)" "the name, percent-encoded"
same "" "$(header X-Auth-Token)" "no token, unless asked for (SEC-52)"
expect_header Cache-Control no-store
get /v1/forward-auth "${gateway[@]}" -H "X-Coatcheck-Session: $session"
expect_status 200 "the session by its header"
get /v1/forward-auth "${gateway[@]}" -H "Authorization: Bearer $session"
expect_status 200 "the session by the bearer, as the caller proved itself by a header"
get /v1/forward-auth "${gateway[@]}" -H "Authorization: Bearer junk"
expect_problem 401 session_required "a made-up bearer"

step "2. What the client sends about the original request changes nothing (SEC-83, SEC-84, SEC-85)"
for field in 'X-Forwarded-Uri: /healthz' 'X-Original-URL: /public' 'X-Forwarded-Method: OPTIONS' 'User-Agent: GoogleHC/1.0' 'X-Auth-Subject: admin' 'X_Auth_Subject: admin'; do
    get /v1/forward-auth "${gateway[@]}" -H "$field"
    same 4 "${STATUS:0:1}" "no session and '$field': denied"
done
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session" -H 'X-Auth-Subject: admin'
expect_header X-Auth-Subject user-ana "a forged identity header is overwritten (SEC-86)"

step "3. Any failure denies (SEC-87)"
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session; coatcheck=$session"
same 4 "${STATUS:0:1}" "two cookies"
get /v1/forward-auth -H 'X-Coatcheck-Backend: wrong-credential' -b "coatcheck=$session"
expect_problem 401 backend_unauthorized "a wrong credential"
get /v1/forward-auth "${orders[@]}" -b "coatcheck=$session"
expect_problem 403 backend_not_allowed "a backend without forward-auth"
device other
sign_in oauth2 ios ana
other=$(cookie coatcheck)
JAR=
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$other"
expect_problem 403 backend_not_allowed "a session of a provider that is not on the backend's list"

step "4. Introspection"
request POST /v1/introspect "${orders[@]}" -d "token=$session"
expect_status 200
expect_json .active true
expect_json .sub user-ana
expect_json .client_id oidc/ios
expect_json .sid "$handle"
expect_json .iss "$SANDBOX/oidc"
expect_header Cache-Control no-store
request POST /v1/introspect -u orders:orders-credential-4f1d9c -d "token=$session"
expect_json .active true "by HTTP Basic with the backend's name"
request POST /v1/introspect -u gateway:orders-credential-4f1d9c -d "token=$session"
same "401 invalid_client" "$STATUS $(json .error)" "another's name: invalid_client"
request POST /v1/introspect "${orders[@]}" -d "token=$(random_token)"
same '{"active":false}' "$(body)" "an unknown token"
request POST /v1/introspect "${gateway[@]}" -d "token=$session"
same "403 unauthorized_client backend_not_allowed" "$STATUS $(json .error) $(json .code)" "a backend without the permission"
request POST /v1/introspect "${orders[@]}"
same 4 "${STATUS:0:1}" "without a token"
request POST /v1/introspect "${orders[@]}" -H 'Content-Type: application/json' --data-binary '{"token":"x"}'
expect_status 415 "JSON"
get /v1/introspect "${orders[@]}"
expect_problem 405 method_not_allowed "GET"

step "5. Token exchange"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$session"
expect_status 200
expect_json .token_type Bearer
expect_json .issued_token_type urn:ietf:params:oauth:token-type:access_token
token=$(json .access_token)
same 200 "$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $token" "$SANDBOX/api/private/echo")" "the provider's API takes it"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$(random_token)"
same "400 invalid_grant" "$STATUS $(json .error)" "an unknown session: invalid_grant"
request POST /v1/token "${orders[@]}" -d grant_type=password -d "subject_token=$session"
same "400 unsupported_grant_type" "$STATUS $(json .error)" "another grant"
request POST /v1/token "${exchange[@]}" -d "subject_token=$session"
same "401 invalid_client" "$STATUS $(json .error)" "without a credential"
device zephr
start_login zephr ios '"social_provider":"google"'
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
zephr=$(cookie coatcheck)
JAR=
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$zephr"
same "400 invalid_target" "$STATUS $(json .error)" "a Zephr session has no access token"

step "6. The provider is down: 503 temporarily_unavailable, and the session lives"
device short
sandbox PUT /settings/oidc '{"access_token_lifetime":1}'
sign_in oidc ios ben
short=$(cookie coatcheck)
JAR=
sleep 2
fault oidc '{"fault":"status","status":503,"endpoint":"refresh","times":1}'
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$short"
same "503 temporarily_unavailable" "$STATUS $(json .error)" "503"
matches '^[0-9]+$' "$(header Retry-After)" "with Retry-After"
sandbox DELETE /faults
sandbox DELETE /settings/oidc

step "7. An ended session is denied at once everywhere (SEC-88)"
request DELETE /v1/session -b "coatcheck=$session"
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session"
expect_problem 401 session_ended "forward-auth"
request POST /v1/introspect "${orders[@]}" -d "token=$session"
same '{"active":false}' "$(body)" "introspection"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$session"
same "400 invalid_grant session_ended" "$STATUS $(json .error) $(json .code)" "token exchange"

finish
