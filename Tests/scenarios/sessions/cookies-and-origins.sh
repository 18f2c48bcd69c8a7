#!/usr/bin/env bash
# The session cookie's exact form, its strict parsing, the cross-origin rule, security headers, and accepted host names.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. The session cookie (public_url is plain http here, so the cookie has neither a prefix nor Secure)"
sign_in oidc ios ana
line=$(header Set-Cookie | grep '^coatcheck=')
matches '^coatcheck=[A-Za-z0-9_-]{43}; Path=/; HttpOnly; SameSite=Strict; Max-Age=[0-9]+; Expires=[A-Z][a-z]{2}, [0-9]{2}-[A-Z][a-z]{2}-[0-9]{4} [0-9:]{8} GMT$' "$line" "session cookie with an http public_url → has exactly Path, HttpOnly, SameSite=Strict, Max-Age and Expires"
age=${line##*Max-Age=}
age=${age%%;*}
if [ "$age" -gt 2500000 ] && [ "$age" -le 34560000 ]; then ok "session cookie → its Max-Age is the session's lifetime, below 400 days"; else not_ok "session cookie → its Max-Age is the session's lifetime, below 400 days" "$age"; fi
if [ "${#line}" -lt 512 ]; then ok "session cookie → shorter than 512 bytes"; else not_ok "session cookie → shorter than 512 bytes"; fi
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
expect_status 200 "session cookie alone → 200"
with "a=b; coatcheck=$session; c=d"
expect_status 200 "session cookie among others → 200"
with "coatcheck=$session; coatcheck=$session"
expect_problem 400 invalid_request "session cookie twice with the same value"
with "coatcheck=$session; coatcheck=$(random_token)"
expect_problem 400 invalid_request "session cookie twice with different values"
with "Coatcheck=$session"
expect_problem 401 session_required "session cookie whose name has another letter case"
with "coatcheck=\"$session\""
expect_status 200 "session cookie with its value in quotes → 200"
with "x=\"; coatcheck=$session; coatcheck=\"$session\"; y=\""
expect_problem 400 invalid_request "Cookie field whose quoted values contain semicolons, so the session cookie occurs twice"
with "coatcheck=\"$session"
expect_problem 400 invalid_request "session cookie whose value has a quote at one end"
with "\$Version=1; coatcheck=$session"
case $STATUS in 200 | 400 | 401) ok "\$Version in the Cookie field → no legacy mode: $STATUS" ;; *) not_ok "\$Version in the Cookie field → no legacy mode" ;; esac
with "$(printf '\xe2\x80\x80')coatcheck=$session"
same 4 "${STATUS:0:1}" "Unicode space before the session cookie's name → refused"
with "=coatcheck=$session"
same 4 "${STATUS:0:1}" "cookie without a name → refused"
with "coatcheck=${session}x"
expect_problem 401 session_required "session cookie with an invented value"
with "coatcheck=$(head -c 4000 /dev/zero | tr '\0' x)"
same 4 "${STATUS:0:1}" "session cookie with a value of 4,000 characters → refused"

step "3. The broker never takes over a session token from the client (SEC-35, SEC-36)"
device fresh
mine=$(random_token)
start_login oidc ios
browser "$AUTHORIZATION_URL" ana
login=$(cookie coatcheck-login)
JAR= request POST /v1/sessions -H 'Content-Type: application/json' -b "coatcheck=$mine; coatcheck-login=$login" \
    --data-binary "{\"callback_url\":$(json_text "$CALLBACK")}"
expect_status 201 "sign-in with an invented session cookie → a session"
given=$(header Set-Cookie | sed -nE 's/^coatcheck=([A-Za-z0-9_-]{43});.*/\1/p')
if [ -n "$given" ] && [ "$given" != "$mine" ]; then ok "sign-in with an invented session cookie → a new cookie value"; else not_ok "sign-in with an invented session cookie → a new cookie value" "$(header Set-Cookie)"; fi

step "4. The cross-origin rule (SEC-45): unsafe methods with the session cookie or without credentials"
device a-phone
# refused METHOD PATH SENTENCE [options…]: checks that the request gets 403 cross_origin; passes: that it gets a 2xx
refused() { request "$1" "$2" "${@:4}"; expect_problem 403 cross_origin "$3"; }
passes() { request "$1" "$2" "${@:4}"; same 2 "${STATUS:0:1}" "$3"; }
refused DELETE /v1/session "log-out with Sec-Fetch-Site: cross-site" -H 'Sec-Fetch-Site: cross-site'
refused DELETE /v1/session "log-out with Sec-Fetch-Site: same-site, from a sibling subdomain" -H 'Sec-Fetch-Site: same-site'
refused DELETE /v1/session "log-out with a foreign Origin" -H 'Origin: https://evil.example'
refused DELETE /v1/session "log-out with Origin: null" -H 'Origin: null'
refused DELETE /v1/session "log-out with an Origin that has the broker's name and another port" -H 'Origin: http://127.0.0.1:1'
refused POST /v1/session/refresh "refresh with Sec-Fetch-Site: cross-site" -H 'Sec-Fetch-Site: cross-site'
refused DELETE '/v1/sessions?except=current' "end of all other sessions with a foreign Origin" -H 'Origin: https://evil.example'
JAR='' refused POST /v1/logins "start of a login with a foreign Origin" -H 'Origin: https://evil.example' -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes POST /v1/logins "start of a login with the broker's own origin → 2xx" -H "Origin: $BROKER" -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes POST /v1/logins "start of a login with Sec-Fetch-Site: same-origin → 2xx" -H 'Sec-Fetch-Site: same-origin' -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes POST /v1/logins "start of a login with Sec-Fetch-Site: none → 2xx" -H 'Sec-Fetch-Site: none' -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes POST /v1/logins "start of a login with a listed origin and Sec-Fetch-Site: cross-site → 2xx" -H 'Origin: https://app.example.org' -H 'Sec-Fetch-Site: cross-site' -H 'Content-Type: application/json' --data-binary '{"provider":"oidc","client":"ios"}'
passes GET /v1/session "GET of the session with Sec-Fetch-Site: cross-site → 2xx" -H 'Sec-Fetch-Site: cross-site'
get /v1/session
expect_status 200 "cross-origin log-outs were refused → the session is alive"

step "5. Only listed origins get CORS headers (SEC-46)"
get /v1/session -H 'Origin: https://app.example.org'
expect_header Access-Control-Allow-Origin https://app.example.org "answer to a listed origin → Access-Control-Allow-Origin is this origin"
expect_header Access-Control-Allow-Credentials true "answer to a listed origin → Access-Control-Allow-Credentials is true"
matches '[Oo]rigin' "$(header Vary)" "answer to a listed origin → Vary contains Origin"
get /v1/session -H 'Origin: https://evil.example'
same "" "$(header Access-Control-Allow-Origin)" "answer to a foreign origin → no CORS header"
request OPTIONS /v1/session -H 'Origin: https://app.example.org' -H 'Access-Control-Request-Method: DELETE'
same 2 "${STATUS:0:1}" "preflight from a listed origin → 2xx"
matches 'DELETE' "$(header Access-Control-Allow-Methods)" "preflight from a listed origin → Allow-Methods contains DELETE"
request OPTIONS /v1/session -H 'Origin: https://evil.example' -H 'Access-Control-Request-Method: DELETE'
same "" "$(header Access-Control-Allow-Origin)" "preflight from a foreign origin → no CORS header"

step "6. Routes that change something refuse GET (SEC-44)"
for path in /v1/logins /v1/session/refresh /v1/registrations; do
    get "$path"
    expect_problem 405 method_not_allowed "GET of $path, which needs POST"
done

step "7. Security headers on every answer (SEC-108)"
for path in /v1/session /v1/providers /nowhere /openapi.yaml; do
    get "$path"
    expect_header X-Content-Type-Options nosniff "GET $path → X-Content-Type-Options is nosniff"
    expect_header Referrer-Policy no-referrer "GET $path → Referrer-Policy is no-referrer"
    matches "default-src 'none'" "$(header Content-Security-Policy)" "GET $path → its Content-Security-Policy has default-src 'none'"
    matches "frame-ancestors 'none'" "$(header Content-Security-Policy)" "GET $path → its Content-Security-Policy has frame-ancestors 'none'"
    matches '.' "$(header X-Request-Id)" "GET $path → has an X-Request-Id"
    same "" "$(header Server)" "GET $path → no Server field"
    same "" "$(header Strict-Transport-Security)" "GET $path with an http public_url → no Strict-Transport-Security"
done

step "8. The management listener accepts an address, a loopback name or a listed name (SEC-103)"
for path in /livez /readyz /metrics /admin/v1/sessions; do
    for host in evil.example "evil.example:$MANAGEMENT_PORT" localhost.evil.example 127.0.0.1.evil.example; do
        request GET "$MANAGEMENT$path" -H "Host: $host"
        expect_problem 421 wrong_host "management request for $path with the host name $host"
    done
done
for host in 127.0.0.1 "localhost:$MANAGEMENT_PORT" 10.0.0.5:9090 '[::1]:9090' ops.example.org; do
    request GET "$MANAGEMENT/metrics" -H "Host: $host"
    expect_status 200 "GET of the metrics on the management listener with the host name $host → 200"
    same "" "$(header Strict-Transport-Security)" "GET of the metrics on the management listener with the host name $host → no Strict-Transport-Security"
done

step "9. With an https public_url, only public answers have Strict-Transport-Security"
kill_broker TERM
sed -i -e 's|^  public_url: .*|  public_url: https://auth.example.org|' -e 's|"http://[^"]*/callback/|"https://auth.example.org/callback/|' "$work/coatcheck.yaml"
start_broker
for path in /v1/session /nowhere /openapi.yaml; do
    get "$path" -H 'Host: auth.example.org'
    matches '^max-age=' "$(header Strict-Transport-Security)" "GET $path with an https public_url → Strict-Transport-Security"
done
get /v1/session -H 'Host: evil.example'
matches '^max-age=' "$(header Strict-Transport-Security)" "request with a wrong host name and an https public_url → Strict-Transport-Security"
request GET "$MANAGEMENT/livez"
same "200 " "$STATUS $(header Strict-Transport-Security)" "request to the management listener of a broker with an https public_url → 200, without Strict-Transport-Security"

finish
