#!/usr/bin/env bash
# The cookie, byte for byte, its strict parsing, and the cross-origin rule.
source "$(dirname "$0")/support/lib.bash"
start_stack

step "1. The cookie (public_url is plain http here, so prefix and Secure are left off)"
sign_in oidc ios ana
line=$(header Set-Cookie | grep '^coatcheck=')
matches '^coatcheck=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Strict; Max-Age=[0-9]+; Expires=[A-Z][a-z]{2}, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:]{8} GMT$' "$line" "byte for byte"
age=${line##*Max-Age=}
age=${age%%;*}
if [ "$age" -gt 2500000 ] && [ "$age" -le 34560000 ]; then ok "Max-Age is the session's life, below 400 days"; else not_ok "Max-Age" "$age"; fi
if [ "${#line}" -lt 512 ]; then ok "far below 4096 bytes"; else not_ok "short"; fi
session=$(cookie coatcheck)

# with COOKIE-FIELD [options…]: sends a request with this Cookie field, without a jar
with() {
    local field=$1
    shift
    local JAR=
    request GET /v1/session -H "Cookie: $field" "$@"
}

step "2. The Cookie field is parsed strictly (SEC-38)"
with "coatcheck=$session"
expect_status 200 "alone"
with "a=b; coatcheck=$session; c=d"
expect_status 200 "among others"
with "coatcheck=$session; coatcheck=$session"
expect_problem 400 invalid_request "twice"
with "coatcheck=$session; coatcheck=$(random_token)"
expect_problem 400 invalid_request "twice with different values"
with "Coatcheck=$session"
expect_problem 401 session_required "names are case-sensitive"
with "coatcheck=\"$session\""
expect_status 200 "a value in quotes is the value"
with "x=\"; coatcheck=$session; coatcheck=\"$session\"; y=\""
expect_problem 400 invalid_request "semicolons count inside quotes, so this is a cookie twice"
with "coatcheck=\"$session"
expect_problem 400 invalid_request "a quote at one end"
with "\$Version=1; coatcheck=$session"
case $STATUS in 200 | 400 | 401) ok "\$Version is no legacy mode: $STATUS" ;; *) not_ok "\$Version" ;; esac
with "$(printf '\xe2\x80\x80')coatcheck=$session"
same 4 "${STATUS:0:1}" "a Unicode space before the name is part of the name"
with "=coatcheck=$session"
same 4 "${STATUS:0:1}" "a nameless pair"
with "coatcheck=${session}x"
expect_problem 401 session_required "a value that nobody issued"
with "coatcheck=$(head -c 4000 /dev/zero | tr '\0' x)"
same 4 "${STATUS:0:1}" "4,000 characters"

step "3. An id that the server did not issue is never adopted (SEC-35, SEC-36)"
device fresh
mine=$(random_token)
start_login oidc ios
browser "$AUTHORIZATION_URL" ana
login=$(cookie coatcheck-login)
JAR= request POST /v1/sessions -H 'Content-Type: application/json' -b "coatcheck=$mine; coatcheck-login=$login" \
    --data-binary "{\"callback_url\":$(json_text "$CALLBACK")}"
expect_status 201 "a login with a made-up session cookie"
given=$(header Set-Cookie | sed -nE 's/^coatcheck=([A-Za-z0-9_-]{43});.*/\1/p')
if [ -n "$given" ] && [ "$given" != "$mine" ]; then ok "gets another one"; else not_ok "gets another one" "$(header Set-Cookie)"; fi

step "4. The cross-origin rule (SEC-45): unsafe methods with our cookie or without a credential"
device a-phone
# refused / passes METHOD PATH SENTENCE [options…]
refused() { request "$1" "$2" "${@:4}"; expect_problem 403 cross_origin "$3"; }
passes() { request "$1" "$2" "${@:4}"; same 2 "${STATUS:0:1}" "$3"; }
refused DELETE /v1/session "Sec-Fetch-Site: cross-site" -H 'Sec-Fetch-Site: cross-site'
refused DELETE /v1/session "Sec-Fetch-Site: same-site (a sibling subdomain)" -H 'Sec-Fetch-Site: same-site'
refused DELETE /v1/session "a foreign Origin" -H 'Origin: https://evil.example'
refused DELETE /v1/session "Origin: null" -H 'Origin: null'
refused DELETE /v1/session "our own name on another port" -H 'Origin: http://127.0.0.1:1'
refused POST /v1/session/refresh "refresh too" -H 'Sec-Fetch-Site: cross-site'
refused DELETE '/v1/sessions?except=current' "ending others too" -H 'Origin: https://evil.example'
JAR='' refused POST /v1/logins "a login start from a foreign page" -H 'Origin: https://evil.example' -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes POST /v1/logins "our own origin" -H "Origin: $BROKER" -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes POST /v1/logins "same-origin" -H 'Sec-Fetch-Site: same-origin' -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes POST /v1/logins "none" -H 'Sec-Fetch-Site: none' -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes POST /v1/logins "a listed origin, whatever Sec-Fetch-Site says" -H 'Origin: https://app.example.org' -H 'Sec-Fetch-Site: cross-site' -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes GET /v1/session "a safe method" -H 'Sec-Fetch-Site: cross-site'
get /v1/session
expect_status 200 "nothing was logged out meanwhile"

step "5. CORS is answered for listed origins only (SEC-46)"
get /v1/session -H 'Origin: https://app.example.org'
expect_header Access-Control-Allow-Origin https://app.example.org
expect_header Access-Control-Allow-Credentials true
matches '[Oo]rigin' "$(header Vary)" "Vary: Origin"
get /v1/session -H 'Origin: https://evil.example'
same "" "$(header Access-Control-Allow-Origin)" "nothing for others"
request OPTIONS /v1/session -H 'Origin: https://app.example.org' -H 'Access-Control-Request-Method: DELETE'
same 2 "${STATUS:0:1}" "a preflight from a listed origin"
matches 'DELETE' "$(header Access-Control-Allow-Methods)" "with the methods"
request OPTIONS /v1/session -H 'Origin: https://evil.example' -H 'Access-Control-Request-Method: DELETE'
same "" "$(header Access-Control-Allow-Origin)" "a preflight from elsewhere gets nothing"

step "6. Safe methods change nothing (SEC-44)"
for path in /v1/logins /v1/session/refresh /v1/registrations; do
    get "$path"
    expect_problem 405 method_not_allowed "GET $path"
done

step "7. Security headers on every answer (SEC-108)"
for path in /v1/session /v1/providers /nowhere /openapi.yaml; do
    get "$path"
    expect_header X-Content-Type-Options nosniff "$path: nosniff"
    expect_header Referrer-Policy no-referrer "$path: no-referrer"
    matches "default-src 'none'" "$(header Content-Security-Policy)" "$path: default-src 'none'"
    matches "frame-ancestors 'none'" "$(header Content-Security-Policy)" "$path: frame-ancestors 'none'"
    matches '.' "$(header X-Request-Id)" "$path: X-Request-Id"
    same "" "$(header Server)" "$path: no Server"
    same "" "$(header Strict-Transport-Security)" "$path: on plain http nobody is told to stay with https"
done

step "8. The management listener is called by an address, a loopback name or a listed one (SEC-103)"
for path in /livez /readyz /metrics /admin/v1/sessions; do
    for host in evil.example "evil.example:$MANAGEMENT_PORT" localhost.evil.example 127.0.0.1.evil.example; do
        request GET "$MANAGEMENT$path" -H "Host: $host"
        expect_problem 421 wrong_host "$host: $path"
    done
done
for host in 127.0.0.1 "localhost:$MANAGEMENT_PORT" 10.0.0.5:9090 '[::1]:9090' ops.example.org; do
    request GET "$MANAGEMENT/metrics" -H "Host: $host"
    expect_status 200 "$host"
    same "" "$(header Strict-Transport-Security)" "$host: no word of https"
done

step "9. Where public_url is https, browsers are told to stay with it; operators are not"
kill_broker TERM
sed -i -e 's|^  public_url: .*|  public_url: https://auth.example.org|' -e 's|"http://[^"]*/callback/|"https://auth.example.org/callback/|' "$work/coatcheck.yaml"
start_broker
for path in /v1/session /nowhere /openapi.yaml; do
    get "$path" -H 'Host: auth.example.org'
    matches '^max-age=' "$(header Strict-Transport-Security)" "$path"
done
get /v1/session -H 'Host: evil.example'
matches '^max-age=' "$(header Strict-Transport-Security)" "421, too"
request GET "$MANAGEMENT/livez"
same "200 " "$STATUS $(header Strict-Transport-Security)" "not on the management listener"

finish
