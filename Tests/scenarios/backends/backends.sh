#!/usr/bin/env bash
# The routes for backends: forward-auth, introspection (RFC 7662) and token exchange (RFC 8693).
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
expect_status 200 "forward-auth with a live session → 200"
expect_header X-Auth-Subject user-ana "forward-auth with a live session → X-Auth-Subject is user-ana"
expect_header X-Auth-Provider oidc "forward-auth with a live session → X-Auth-Provider is oidc"
expect_header X-Auth-Client ios "forward-auth with a live session → X-Auth-Client is ios"
expect_header X-Auth-Session "$handle" "forward-auth with a live session → X-Auth-Session is the session's handle"
expect_header X-Auth-Email ana@example.org "forward-auth with a live session → X-Auth-Email is the user's address"
matches '^Ana%20Example$' "$(header X-Auth-Name)" "forward-auth for a user whose name has a space → X-Auth-Name is percent-encoded"
same "" "$(header X-Auth-Token)" "forward-auth by a backend without forward_access_token → no access token (SEC-52)"
expect_header Cache-Control no-store "forward-auth with a live session → its answer is not cached (Cache-Control: no-store)"
get /v1/forward-auth "${gateway[@]}" -H "X-Coatcheck-Session: $session"
expect_status 200 "forward-auth with the session in X-Coatcheck-Session → 200"
get /v1/forward-auth "${gateway[@]}" -H "Authorization: Bearer $session"
expect_status 200 "forward-auth with the credential in X-Coatcheck-Backend and the session as bearer token → 200"
get /v1/forward-auth "${gateway[@]}" -H "Authorization: Bearer junk"
expect_problem 401 session_required "forward-auth with an invented bearer token"

step "2. A client's headers about the original request change nothing (SEC-83, SEC-84, SEC-85)"
for field in 'X-Forwarded-Uri: /healthz' 'X-Original-URL: /public' 'X-Forwarded-Method: OPTIONS' 'User-Agent: GoogleHC/1.0' 'X-Auth-Subject: admin' 'X_Auth_Subject: admin'; do
    get /v1/forward-auth "${gateway[@]}" -H "$field"
    same 4 "${STATUS:0:1}" "forward-auth without a session, but with '$field' → denied"
done
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session" -H 'X-Auth-Subject: admin'
expect_header X-Auth-Subject user-ana "forward-auth with a forged identity header → the answer has the broker's value (SEC-86)"

step "3. Any failure denies (SEC-87)"
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session; coatcheck=$session"
same 4 "${STATUS:0:1}" "forward-auth with two session cookies → denied"
get /v1/forward-auth -H 'X-Coatcheck-Backend: wrong-credential' -b "coatcheck=$session"
expect_problem 401 backend_unauthorized "forward-auth with a wrong backend credential"
get /v1/forward-auth "${orders[@]}" -b "coatcheck=$session"
expect_problem 403 backend_not_allowed "forward-auth by a backend without the permission for forward-auth"
device other
sign_in oauth2 ios ana
other=$(cookie coatcheck)
JAR=
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$other"
expect_problem 403 backend_not_allowed "forward-auth with a session of a provider that is not on the backend's list"

step "4. Introspection"
request POST /v1/introspect "${orders[@]}" -d "token=$session"
expect_status 200 "introspection of a live session → 200"
expect_json .active true "introspection of a live session → active"
expect_json .sub user-ana "introspection of a live session → sub is user-ana"
expect_json .client_id oidc/ios "introspection of a live session → client_id is oidc/ios"
expect_json .sid "$handle" "introspection of a live session → sid is the session's handle"
expect_json .iss "$SANDBOX/oidc" "introspection of a live session → iss is the provider's issuer"
expect_header Cache-Control no-store "introspection of a live session → its answer is not cached (Cache-Control: no-store)"
request POST /v1/introspect -u orders:orders-credential-4f1d9c -d "token=$session"
expect_json .active true "introspection with the backend's name and secret in HTTP Basic → active"
request POST /v1/introspect -u gateway:orders-credential-4f1d9c -d "token=$session"
same "401 invalid_client" "$STATUS $(json .error)" "introspection with another backend's name and this backend's secret → invalid_client"
request POST /v1/introspect "${orders[@]}" -d "token=$(random_token)"
same '{"active":false}' "$(body)" "introspection of an unknown token → inactive"
request POST /v1/introspect "${gateway[@]}" -d "token=$session"
same "403 unauthorized_client backend_not_allowed" "$STATUS $(json .error) $(json .code)" "introspection by a backend without the permission for introspection → 403"
request POST /v1/introspect "${orders[@]}"
same 4 "${STATUS:0:1}" "introspection without a token → 4xx"
request POST /v1/introspect "${orders[@]}" -H 'Content-Type: application/json' --data-binary '{"token":"x"}'
expect_status 415 "introspection with a JSON body → 415"
get /v1/introspect "${orders[@]}"
expect_problem 405 method_not_allowed "introspection by GET"

step "5. Token exchange"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$session"
expect_status 200 "token exchange for a live session → 200"
expect_json .token_type Bearer "token exchange for a live session → token_type is Bearer"
expect_json .issued_token_type urn:ietf:params:oauth:token-type:access_token "token exchange for a live session → issued_token_type is access_token"
token=$(json .access_token)
same 200 "$(curl -s -o /dev/null -w '%{http_code}' -H "Authorization: Bearer $token" "$SANDBOX/api/private/echo")" "access token from a token exchange → the provider's API accepts it"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$(random_token)"
same "400 invalid_grant" "$STATUS $(json .error)" "token exchange for an unknown session → invalid_grant"
request POST /v1/token "${orders[@]}" -d grant_type=password -d "subject_token=$session"
same "400 unsupported_grant_type" "$STATUS $(json .error)" "token request with another grant type → unsupported_grant_type"
request POST /v1/token "${exchange[@]}" -d "subject_token=$session"
same "401 invalid_client" "$STATUS $(json .error)" "token exchange without a backend's credential → invalid_client"
device zephr
start_login zephr ios '"social_provider":"google"'
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
zephr=$(cookie coatcheck)
JAR=
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$zephr"
same "400 invalid_target" "$STATUS $(json .error)" "token exchange for a Zephr session → invalid_target"

step "6. Token exchange while the provider is down: 503 temporarily_unavailable"
device short
sandbox PUT /settings/oidc '{"access_token_lifetime":1}'
sign_in oidc ios ben
short=$(cookie coatcheck)
JAR=
sleep 2
fault oidc '{"fault":"status","status":503,"endpoint":"refresh","times":1}'
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$short"
same "503 temporarily_unavailable" "$STATUS $(json .error)" "token exchange while the provider answers 503 → temporarily_unavailable"
matches '^[0-9]+$' "$(header Retry-After)" "token exchange while the provider answers 503 → Retry-After in seconds"
sandbox DELETE /faults
sandbox DELETE /settings/oidc

step "7. An ended session is denied at once everywhere (SEC-88)"
request DELETE /v1/session -b "coatcheck=$session"
get /v1/forward-auth "${gateway[@]}" -b "coatcheck=$session"
expect_problem 401 session_ended "forward-auth with an ended session"
request POST /v1/introspect "${orders[@]}" -d "token=$session"
same '{"active":false}' "$(body)" "introspection of an ended session → inactive"
request POST /v1/token "${orders[@]}" "${exchange[@]}" -d "subject_token=$session"
same "400 invalid_grant session_ended" "$STATUS $(json .error) $(json .code)" "token exchange for an ended session → invalid_grant"

step "8. The backends' listener has only the backends' endpoints, and the public listener no longer has them"
BACKENDS_PORT=$(free_port)
BACKENDS="http://127.0.0.1:$BACKENDS_PORT"
kill_broker TERM
own=$work/coatcheck.yaml
sed -i 's|^backends:|&\n  traefik: {peers: [127.0.0.2], may: [forward-auth, token], forward_access_token: true}|' "$own"
"$COATCHECK" check --config "$own" >"$work/check" 2>&1
same 1 $? "configuration with a backend's peers but without backend_listen → check fails"
matches 'backends.traefik.peers.*write `server: \{backend_listen:' "$(cat "$work/check")" "configuration with a backend's peers but without backend_listen → check names the missing setting"
sed -i "s|^  public_url:.*|&\n  backend_listen: 127.0.0.1:$BACKENDS_PORT|" "$own"
"$COATCHECK" check --config "$own" >"$work/check" 2>&1
same 0 $? "configuration with a backend's peers and backend_listen → check succeeds"
matches 'server.trusted_proxies.*is empty' "$(cat "$work/check")" "configuration with backend_listen but without trusted_proxies → check warns that trusted_proxies is empty"
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
                "$BACKENDS 127.0.0.2") same "200 user-ana" "$STATUS $(header X-Auth-Subject)" "forward-auth on the backends' listener, by a listed peer → 200" ;;
                "$BACKENDS 127.0.0.1") expect_problem 401 backend_unauthorized "forward-auth on the backends' listener, by an unlisted peer, with X-Forwarded-For $client" ;;
                *) expect_problem 404 not_found "forward-auth on $address, from $from, with X-Forwarded-For $client" ;;
            esac
            case "$address $from" in "$BACKENDS 127.0.0.2") ;; *) same "" "$(header X-Auth-Token)" "refused forward-auth on $address, from $from → no access token" ;; esac
        done
    done
done
request GET "$BACKENDS/v1/forward-auth" "${peer[@]}" -b "coatcheck=$session"
matches '.' "$(header X-Auth-Token)" "forward-auth by a listed peer whose backend has forward_access_token → the answer contains the access token"
request GET "$BACKENDS/v1/forward-auth" "${peer[@]}" -H 'X-Coatcheck-Backend: wrong' -b "coatcheck=$session"
expect_problem 401 backend_unauthorized "forward-auth by a listed peer with a wrong credential"
request POST "$BACKENDS/v1/token" "${peer[@]}" "${exchange[@]}" -d "subject_token=$session"
expect_status 200 "token exchange by a listed peer → 200"
request POST "$BACKENDS/v1/introspect" "${peer[@]}" -d "token=$session"
same "403 unauthorized_client" "$STATUS $(json .error)" "introspection by a listed peer without the permission for introspection → 403"
request POST "$BACKENDS/v1/introspect" "${orders[@]}" -d "token=$session"
expect_json .active true "introspection on the backends' listener with a credential → active"
for path in /v1/introspect /v1/token; do
    request POST "$path" "${orders[@]}" "${exchange[@]}" -d "subject_token=$session" -d "token=$session"
    expect_problem 404 not_found "request for $path on the public listener, with a backend's valid credential"
done
for path in /v1/session /v1/sessions /v1/session/events /v1/providers /v1/relay/api/echo /openapi.yaml /callback/oidc \
    /metrics /livez /readyz /admin/v1/sessions /v1/forward-auth/ /; do
    request GET "$BACKENDS$path" "${orders[@]}" -b "coatcheck=$session"
    expect_problem 404 not_found "GET $path on the backends' listener"
done
request POST "$BACKENDS/v1/logins" -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
expect_problem 404 not_found "start of a login on the backends' listener"
request DELETE "$BACKENDS/v1/session" -b "coatcheck=$session"
expect_problem 404 not_found "log-out on the backends' listener"
request OPTIONS "$BACKENDS/v1/token" -H 'Origin: https://app.example.org' -H 'Access-Control-Request-Method: POST'
same "405 " "$STATUS $(header Access-Control-Allow-Origin)" "CORS preflight on the backends' listener → refused"
for host in "127.0.0.1:$BACKENDS_PORT" "localhost:$BACKENDS_PORT" "127.0.0.1:$BROKER_PORT"; do
    request GET "$BACKENDS/v1/forward-auth" "${peer[@]}" -H "Host: $host" -b "coatcheck=$session"
    expect_status 200 "forward-auth on the backends' listener with the host name $host → 200"
done
for host in evil.example "evil.example:$BACKENDS_PORT" "10.0.0.1:$BACKENDS_PORT"; do
    request GET "$BACKENDS/v1/forward-auth" "${peer[@]}" -H "Host: $host" -b "coatcheck=$session"
    expect_problem 421 wrong_host "forward-auth on the backends' listener with the host name $host"
done

step "9. Invented sessions of users do not count against a backend, but invented credentials do"
kill_broker TERM
# With a loopback public_url, the limits do not apply to loopback clients, so set another public_url.
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
    same " 401 401 401 401 401 401 401" "$seen" "seven calls of forward-auth, each with an invented session in $name → 401 each time"
done
request GET "$BACKENDS/v1/forward-auth" "${gateway[@]}" -b "__Host-coatcheck=$session"
expect_status 200 "forward-auth with a live session, after fourteen calls with invented sessions → 200"
seen=
for _ in 1 2 3 4 5 6 7; do
    request GET "$BACKENDS/v1/forward-auth" -H "X-Coatcheck-Backend: $(random_token)" -b "__Host-coatcheck=$session"
    seen="$seen $STATUS"
done
same " 401 401 401 401 401 429 429" "$seen" "seven calls of forward-auth with invented credentials, of which five a minute are allowed → the last two get 429"

finish
