#!/usr/bin/env bash
# For backends: forward-auth, introspection (RFC 7662), token exchange (RFC 8693).
source "$(dirname "$0")/../support/lib.bash"
start_stack

orders=(-H 'Authorization: Bearer orders-credential-4f1d9c')
gateway=(-H 'X-Coatcheck-Backend: gateway-credential-4f1d9c')
exchange=(-d grant_type=urn:ietf:params:oauth:grant-type:token-exchange -d subject_token_type=urn:ietf:params:oauth:token-type:access_token)
sign_in oidc ios ana
session=$(cookie coatcheck)
handle=$(json .handle)
JAR=

step "1. Forward-auth needs a backend's credential and a session"
get /v1/forward-auth -b "coatcheck=$session"
expect_problem 401 backend_unauthorized "forward-auth without a backend's credential"
get /v1/forward-auth "${gateway[@]}"
expect_problem 401 session_required "forward-auth without a session"
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session"
expect_status 200
expect_header X-Auth-Subject user-ana
expect_header X-Auth-Provider oidc
expect_header X-Auth-Client ios
expect_header X-Auth-Session "$handle"
expect_header X-Auth-Email ana@example.org
matches '^Ana%20Example$' "$(header X-Auth-Name)" "name with a space → percent-encoded in X-Auth-Name"
same "" "$(header X-Auth-Token)" "forward-auth by default → no access token (SEC-52)"
expect_header Cache-Control no-store
get /v1/forward-auth "${gateway[@]}" -H "X-Coatcheck-Session: $session"
expect_status 200 "session in X-Coatcheck-Session → 200"
get /v1/forward-auth "${gateway[@]}" -H "Authorization: Bearer $session"
expect_status 200 "backend identified by its header, session as bearer → 200"
get /v1/forward-auth "${gateway[@]}" -H "Authorization: Bearer junk"
expect_problem 401 session_required "invented bearer token"

step "2. A client's headers about the original request change nothing (SEC-83, SEC-84, SEC-85)"
for field in 'X-Forwarded-Uri: /healthz' 'X-Original-URL: /public' 'X-Forwarded-Method: OPTIONS' 'User-Agent: GoogleHC/1.0' 'X-Auth-Subject: admin' 'X_Auth_Subject: admin'; do
    get /v1/forward-auth "${gateway[@]}" -H "$field"
    same 4 "${STATUS:0:1}" "no session, but '$field' → denied"
done
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session" -H 'X-Auth-Subject: admin'
expect_header X-Auth-Subject user-ana "forged identity header → the broker's value replaces it (SEC-86)"

step "3. Any failure denies (SEC-87)"
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session; coatcheck=$session"
same 4 "${STATUS:0:1}" "two session cookies → denied"
get /v1/forward-auth -H 'X-Coatcheck-Backend: wrong-credential' -b "coatcheck=$session"
expect_problem 401 backend_unauthorized "wrong backend credential"
get /v1/forward-auth "${orders[@]}" -b "coatcheck=$session"
expect_problem 403 backend_not_allowed "backend without the permission forward-auth"
device other
sign_in oauth2 ios ana
other=$(cookie coatcheck)
JAR=
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$other"
expect_problem 403 backend_not_allowed "session of a provider that is not on the backend's list"

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
expect_json .active true "backend's name and secret in HTTP Basic → active"
request POST /v1/introspect -u gateway:orders-credential-4f1d9c -d "token=$session"
same "401 invalid_client" "$STATUS $(json .error)" "name of another backend with this secret → invalid_client"
request POST /v1/introspect "${orders[@]}" -d "token=$(random_token)"
same '{"active":false}' "$(body)" "introspection of an unknown token → inactive"
request POST /v1/introspect "${gateway[@]}" -d "token=$session"
same "403 unauthorized_client backend_not_allowed" "$STATUS $(json .error) $(json .code)" "introspection by a backend without the permission → 403"
request POST /v1/introspect "${orders[@]}"
same 4 "${STATUS:0:1}" "introspection without a token → 4xx"
request POST /v1/introspect "${orders[@]}" -H 'Content-Type: application/json' --data-binary '{"token":"x"}'
expect_status 415 "introspection with a JSON body → 415"
get /v1/introspect "${orders[@]}"
expect_problem 405 method_not_allowed "introspection by GET"

step "5. Token exchange"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$session"
expect_status 200
expect_json .token_type Bearer
expect_json .issued_token_type urn:ietf:params:oauth:token-type:access_token
token=$(json .access_token)
same 200 "$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $token" "$SANDBOX/api/private/echo")" "exchanged token → the provider's API accepts it"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$(random_token)"
same "400 invalid_grant" "$STATUS $(json .error)" "exchange for an unknown session → invalid_grant"
request POST /v1/token "${orders[@]}" -d grant_type=password -d "subject_token=$session"
same "400 unsupported_grant_type" "$STATUS $(json .error)" "another grant type → unsupported_grant_type"
request POST /v1/token "${exchange[@]}" -d "subject_token=$session"
same "401 invalid_client" "$STATUS $(json .error)" "exchange without a credential → invalid_client"
device zephr
start_login zephr ios '"social_provider":"google"'
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
zephr=$(cookie coatcheck)
JAR=
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$zephr"
same "400 invalid_target" "$STATUS $(json .error)" "exchange for a Zephr session → invalid_target"

step "6. The provider is down: 503 temporarily_unavailable, and the session lives"
device short
sandbox PUT /settings/oidc '{"access_token_lifetime":1}'
sign_in oidc ios ben
short=$(cookie coatcheck)
JAR=
sleep 2
fault oidc '{"fault":"status","status":503,"endpoint":"refresh","times":1}'
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$short"
same "503 temporarily_unavailable" "$STATUS $(json .error)" "exchange during the outage → 503 temporarily_unavailable"
matches '^[0-9]+$' "$(header Retry-After)" "exchange during the outage → Retry-After in seconds"
sandbox DELETE /faults
sandbox DELETE /settings/oidc

step "7. An ended session is denied at once everywhere (SEC-88)"
request DELETE /v1/session -b "coatcheck=$session"
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session"
expect_problem 401 session_ended "ended session at forward-auth"
request POST /v1/introspect "${orders[@]}" -d "token=$session"
same '{"active":false}' "$(body)" "ended session at introspection → inactive"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$session"
same "400 invalid_grant session_ended" "$STATUS $(json .error) $(json .code)" "ended session at token exchange → invalid_grant"

step "8. The backends' listener has only the backends' endpoints, and the public listener no longer has them"
BACKENDS_PORT=$(free_port)
BACKENDS="http://127.0.0.1:$BACKENDS_PORT"
kill_broker TERM
own=$work/coatcheck.yaml
sed -i 's|^backends:|&\n  traefik: {peers: [127.0.0.2], may: [forward-auth, token], forward_access_token: true}|' "$own"
"$COATCHECK" check --config "$own" >"$work/check" 2>&1
same 1 $? "peers without backend_listen → check fails"
matches 'backends.traefik.peers.*write `server: \{backend_listen:' "$(cat "$work/check")" "peers without backend_listen → check names the missing setting"
sed -i "s|^  public_url:.*|&\n  backend_listen: 127.0.0.1:$BACKENDS_PORT|" "$own"
"$COATCHECK" check --config "$own" >"$work/check" 2>&1
same 0 $? "peers with backend_listen → check succeeds"
matches 'server.trusted_proxies.*is empty' "$(cat "$work/check")" "no trusted_proxies → check warns about shared limits"
start_broker
device own
sign_in oidc ios ana
expect_status 201 "sign-in on the public listener → a session"
session=$(cookie coatcheck)
JAR=
peer=(--interface 127.0.0.2)
for address in "$BROKER" "$BACKENDS"; do
    for from in 127.0.0.1 127.0.0.2; do
        for client in 198.51.100.7 127.0.0.2; do
            request GET "$address/v1/forward-auth" --interface "$from" -H "X-Forwarded-For: $client" -b "coatcheck=$session"
            case "$address $from" in
                "$BACKENDS 127.0.0.2") same "200 user-ana" "$STATUS $(header X-Auth-Subject)" "listed peer on the backends' listener → 200" ;;
                "$BACKENDS 127.0.0.1") expect_problem 401 backend_unauthorized "another peer on the backends' listener, X-Forwarded-For $client" ;;
                *) expect_problem 404 not_found "forward-auth on the public listener, from $from, X-Forwarded-For $client" ;;
            esac
            case "$address $from" in "$BACKENDS 127.0.0.2") ;; *) same "" "$(header X-Auth-Token)" "refused forward-auth → no access token" ;; esac
        done
    done
done
request GET "$BACKENDS/v1/forward-auth" "${peer[@]}" -b "coatcheck=$session"
matches '.' "$(header X-Auth-Token)" "listed peer with forward_access_token → gets the access token"
request GET "$BACKENDS/v1/forward-auth" "${peer[@]}" -H 'X-Coatcheck-Backend: wrong' -b "coatcheck=$session"
expect_problem 401 backend_unauthorized "listed peer with a wrong credential"
request POST "$BACKENDS/v1/token" "${peer[@]}" "${exchange[@]}" -d "subject_token=$session"
expect_status 200 "token exchange by the listed peer → 200"
request POST "$BACKENDS/v1/introspect" "${peer[@]}" -d "token=$session"
same "403 unauthorized_client" "$STATUS $(json .error)" "introspection by a peer without the permission → 403"
request POST "$BACKENDS/v1/introspect" "${orders[@]}" -d "token=$session"
expect_json .active true "backend with a credential on the backends' listener → active"
for path in /v1/introspect /v1/token; do
    request POST "$path" "${orders[@]}" "${exchange[@]}" -d "subject_token=$session" -d "token=$session"
    expect_problem 404 not_found "public listener, $path with a good credential"
done
for path in /v1/session /v1/sessions /v1/session/events /v1/providers /v1/relay/api/echo /openapi.yaml /callback/oidc \
    /metrics /livez /readyz /admin/v1/sessions /v1/forward-auth/ /; do
    request GET "$BACKENDS$path" "${orders[@]}" -b "coatcheck=$session"
    expect_problem 404 not_found "backends' listener, $path"
done
request POST "$BACKENDS/v1/logins" -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
expect_problem 404 not_found "backends' listener, a login"
request DELETE "$BACKENDS/v1/session" -b "coatcheck=$session"
expect_problem 404 not_found "backends' listener, a log-out"
request OPTIONS "$BACKENDS/v1/token" -H 'Origin: https://app.example.org' -H 'Access-Control-Request-Method: POST'
same "405 " "$STATUS $(header Access-Control-Allow-Origin)" "backends' listener, CORS preflight → refused"
for host in "127.0.0.1:$BACKENDS_PORT" "localhost:$BACKENDS_PORT" "127.0.0.1:$BROKER_PORT"; do
    request GET "$BACKENDS/v1/forward-auth" "${peer[@]}" -H "Host: $host" -b "coatcheck=$session"
    expect_status 200 "listener called with the name $host → 200"
done
for host in evil.example "evil.example:$BACKENDS_PORT" "10.0.0.1:$BACKENDS_PORT"; do
    request GET "$BACKENDS/v1/forward-auth" "${peer[@]}" -H "Host: $host" -b "coatcheck=$session"
    expect_problem 421 wrong_host "listener called with the name $host"
done

step "9. A backend is not limited because of its users' bad sessions"
kill_broker TERM
# If public_url is a loopback address, the limits exempt loopback clients, so set another public_url.
sed -i -e 's|^  public_url: .*|  public_url: https://auth.example.org|' -e 's|"http://[^"]*/callback/|"https://auth.example.org/callback/|' "$own"
printf 'limits: {wrong_tokens_per_minute: 5}\n' >>"$own"
start_broker
for name in __Host-coatcheck X-Coatcheck-Session; do
    seen=
    for _ in 1 2 3 4 5 6 7; do
        bogus=$(random_token)
        case $name in
            X-*) request GET "$BACKENDS/v1/forward-auth" "${gateway[@]}" -H "$name: $bogus" ;;
            *) request GET "$BACKENDS/v1/forward-auth" "${gateway[@]}" -b "$name=$bogus" ;;
        esac
        seen="$seen $STATUS"
    done
    same " 401 401 401 401 401 401 401" "$seen" "seven invented sessions from $name → 401 each time"
done
request GET "$BACKENDS/v1/forward-auth" "${gateway[@]}" -b "__Host-coatcheck=$session"
expect_status 200 "live session after seven bad ones → passes"
seen=
for _ in 1 2 3 4 5 6 7; do
    request GET "$BACKENDS/v1/forward-auth" -H "X-Coatcheck-Backend: $(random_token)" -b "__Host-coatcheck=$session"
    seen="$seen $STATUS"
done
same " 401 401 401 401 401 429 429" "$seen" "seven invented credentials → the last two get 429"

finish
