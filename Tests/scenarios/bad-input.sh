#!/usr/bin/env bash
# Every field of every body: missing, of the wrong type, too long, repeated, unknown. The answer is a 4xx that names it, and the
# process lives.
source "$(dirname "$0")/support/lib.bash"
start_stack

step "1. Every field of every body"
# bad_input.py prints: PATH, the fault, the pointer that the answer has to name (or -), the body.
count=0
while IFS=$'\t' read -r path what pointer body; do
    post "$path" "$body"
    count=$((count + 1))
    if [ "$STATUS" != 400 ] || [ "$(json .code)" != invalid_request ]; then
        not_ok "$path: $what" "expected 400 invalid_request"
    elif [ "$pointer" != - ] && ! grep -qF "\"$pointer\"" <<<"$(json .errors)"; then
        not_ok "$path: $what" "expected $pointer among the errors"
    else
        ok "$path: $what"
    fi
done < <(python3 "$here/bad_input.py")

step "2. All faults of one body are named together"
post /v1/logins '{"client":7,"colour":"red","redirect_uri":"com.evil.app:/cb"}'
expect_problem 400 invalid_request "three faults and more"
for pointer in /provider /client /colour; do
    if grep -qF "\"$pointer\"" <<<"$(json .errors)"; then ok "$pointer is named"; else not_ok "$pointer is named"; fi
done

step "3. Bodies that are no JSON objects"
for body in '' '{' '[]' '"text"' 'null' '{"provider":"oidc"} x' '{"provider":"oidc",}' "{'provider':'oidc'}" '{"provider":NaN}' \
    "$(printf '{"a":%.0s' $(seq 200))" "$(printf '[%.0s' $(seq 5000))" '{"provider":"\ud800"}'; do
    post /v1/logins "$body"
    same "400 invalid_request" "$STATUS $(json .code)" "${body:0:30}"
done
printf '{"provider":"\xff\xfe"}' >"$work/bytes"
request POST /v1/logins -H 'Content-Type: application/json' --data-binary "@$work/bytes"
expect_problem 400 invalid_request "bytes that are no UTF-8"

step "4. Size and media type"
python3 -c 'print("{\"provider\":\"" + "x" * 70000 + "\"}")' >"$work/bytes"
request POST /v1/logins -H 'Content-Type: application/json' --data-binary "@$work/bytes"
expect_problem 413 too_large "70,000 bytes"
for type in text/plain application/x-www-form-urlencoded 'text/plain; application/json' multipart/form-data application/jsonx; do
    request POST /v1/logins -H "Content-Type: $type" --data-binary '{"provider":"oidc","client":"ios"}'
    expect_problem 415 unsupported_media_type "$type"
done
request POST /v1/logins -H 'Content-Type:' --data-binary '{"provider":"oidc","client":"ios"}'
expect_problem 415 unsupported_media_type "no media type"
request POST /v1/logins -H 'Content-Type: Application/JSON; charset=latin1;' --data-binary '{"provider":"oidc","client":"ios"}'
expect_status 201 "parameters are ignored"

step "5. Paths and methods"
for path in / /v1 /v1/ /v1/session/ //v1/session /v1//session /v1/sessions/x/y /v1/%73ession /admin/v1/sessions /metrics /livez; do
    request GET "$path" --path-as-is
    expect_problem 404 not_found "$path"
done
request GET /v1/session/../session --path-as-is
same 4 "${STATUS:0:1}" "a dot segment: refused"
for pair in "GET /v1/logins" "PUT /v1/sessions" "POST /v1/session" "PATCH /v1/session" "DELETE /v1/providers" "GET /v1/session/refresh" "GET /v1/registrations" "TRACE /v1/session"; do
    request ${pair% *} "${pair#* }"
    expect_problem 405 method_not_allowed "$pair"
    matches '[A-Z]' "$(header Allow)" "with Allow: $(header Allow)"
done

step "6. Header fields"
get /v1/session -H "X-Long: $(head -c 20000 /dev/zero | tr '\0' x)"
expect_problem 431 headers_too_large "a field of 20,000 bytes"
get /v1/session -H 'Authorization: Bearer'
same 4 "${STATUS:0:1}" "a bearer without a token"
get /v1/session -H 'Authorization: Basic xxx'
expect_problem 401 session_required "Basic"
get /v1/session -H 'Authorization: Bearer a' -H 'Authorization: Bearer b'
same 4 "${STATUS:0:1}" "two Authorization fields"

step "7. The process lives"
get "$MANAGEMENT/readyz"
expect_status 200 "ready"
same "" "$(grep -ciE 'fatal error|crash|precondition' "$work/broker.log" | grep -v '^0$')" "no trap in the log"

finish
