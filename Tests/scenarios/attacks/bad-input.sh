#!/usr/bin/env bash
# Bodies in which one field is missing, too long, repeated or unknown, or has a wrong type. The broker answers each with a 4xx
# that names the field, and keeps running.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. A fault in each field of each body is refused"
# Each line of bad_input.py has four columns: the path, the fault, the pointer that the answer has to name (or -), and the body.
count=0
while IFS=$'\t' read -r path what pointer body; do
    post "$path" "$body"
    count=$((count + 1))
    if [ "$STATUS" != 400 ] || [ "$(json .code)" != invalid_request ]; then
        not_ok "POST $path, $what → 400 invalid_request" "expected 400 invalid_request"
    elif [ "$pointer" != - ] && ! grep -qF "\"$pointer\"" <<<"$(json .errors)"; then
        not_ok "POST $path, $what → the answer's errors name the faulty member" "expected $pointer among the errors"
    else
        ok "POST $path, $what → 400 invalid_request"
    fi
done < <(python3 "$here/bad_input.py")

step "2. All faults of one body are named together"
post /v1/logins '{"client":7,"colour":"red","redirect_uri":"com.evil.app:/cb"}'
expect_problem 400 invalid_request "start of a login whose body has several faults"
for pointer in /provider /client /colour; do
    if grep -qF "\"$pointer\"" <<<"$(json .errors)"; then ok "start of a login whose body has several faults → the answer names $pointer"; else not_ok "start of a login whose body has several faults → the answer names $pointer"; fi
done

step "3. Bodies that are not JSON objects"
for body in '' '{' '[]' '"text"' 'null' '{"provider":"oidc"} x' '{"provider":"oidc",}' "{'provider':'oidc'}" '{"provider":NaN}' \
    "$(printf '{"a":%.0s' $(seq 200))" "$(printf '[%.0s' $(seq 5000))" '{"provider":"\ud800"}'; do
    post /v1/logins "$body"
    same "400 invalid_request" "$STATUS $(json .code)" "start of a login with the body ${body:0:30} → invalid_request"
done
printf '{"provider":"\xff\xfe"}' >"$work/bytes"
request POST /v1/logins -H 'Content-Type: application/json' --data-binary "@$work/bytes"
expect_problem 400 invalid_request "start of a login with a body that is not UTF-8"

step "4. Size and media type"
python3 -c 'print("{\"provider\":\"" + "x" * 70000 + "\"}")' >"$work/bytes"
request POST /v1/logins -H 'Content-Type: application/json' --data-binary "@$work/bytes"
expect_problem 413 too_large "start of a login with a body of 70,000 bytes"
for type in text/plain application/x-www-form-urlencoded 'text/plain; application/json' multipart/form-data application/jsonx; do
    request POST /v1/logins -H "Content-Type: $type" --data-binary '{"provider":"oidc","client":"ios"}'
    expect_problem 415 unsupported_media_type "start of a login with the media type $type"
done
request POST /v1/logins -H 'Content-Type:' --data-binary '{"provider":"oidc","client":"ios"}'
expect_problem 415 unsupported_media_type "start of a login without a media type"
request POST /v1/logins -H 'Content-Type: Application/JSON; charset=latin1;' --data-binary '{"provider":"oidc","client":"ios"}'
expect_status 201 "start of a login with parameters after the JSON media type → 201"

step "5. Paths and methods"
for path in / /v1 /v1/ /v1/session/ //v1/session /v1//session /v1/sessions/x/y /v1/%73ession /admin/v1/sessions /metrics /livez; do
    request GET "$path" --path-as-is
    expect_problem 404 not_found "GET of the path $path"
done
request GET /v1/session/../session --path-as-is
same 4 "${STATUS:0:1}" "GET of a path with a dot segment → refused"
for pair in "GET /v1/logins" "PUT /v1/sessions" "POST /v1/session" "PATCH /v1/session" "DELETE /v1/providers" "GET /v1/session/refresh" "GET /v1/registrations" "TRACE /v1/session"; do
    request ${pair% *} "${pair#* }"
    expect_problem 405 method_not_allowed "request $pair"
    matches '[A-Z]' "$(header Allow)" "request $pair, whose path lacks this method → the answer's field Allow is $(header Allow)"
done

step "6. Header fields"
get /v1/session -H "X-Long: $(head -c 20000 /dev/zero | tr '\0' x)"
expect_problem 431 headers_too_large "session read with a header field of 20,000 bytes"
get /v1/session -H 'Authorization: Bearer'
same 4 "${STATUS:0:1}" "session read with Authorization: Bearer but without a token → refused"
get /v1/session -H 'Authorization: Basic xxx'
expect_problem 401 session_required "session read with Authorization: Basic"
get /v1/session -H 'Authorization: Bearer a' -H 'Authorization: Bearer b'
same 4 "${STATUS:0:1}" "session read with two Authorization fields → refused"

step "7. The broker still runs"
get "$MANAGEMENT/readyz"
expect_status 200 "broker after all faulty requests → ready"
same "" "$(grep -ciE 'fatal error|crash|precondition' "$work/broker.log" | grep -v '^0$')" "broker's log after all faulty requests → shows no crash"

finish
