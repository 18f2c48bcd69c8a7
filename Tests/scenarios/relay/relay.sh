#!/usr/bin/env bash
# The relay: calls to an upstream API with the session's access token. The steps test allowed paths, fields, bodies, refreshes,
# and fair shares.
source "$(dirname "$0")/../support/lib.bash"
start_stack

# sent NAME: prints a header field of the request that the upstream received, from the last answer, which is the upstream's echo
sent() {
    python3 -c 'import json, sys
print("\n".join(v for n, v in json.load(open(sys.argv[2]))["headers"] if n.lower() == sys.argv[1].lower()))' "$1" "$work/body"
}

step "1. Without a session no call reaches the upstream"
get /v1/relay/api/echo
expect_problem 401 session_required "relay call without a session"
expect_header Coatcheck-Source broker "relay call without a session → the answer comes from the broker"
same 0 "$(calls api/api)" "relay call without a session → the upstream gets no call"
get /v1/relay/nobody/echo
same 4 "${STATUS:0:1}" "relay call to an unknown upstream → refused"

step "2. With a session the upstream gets the provider's token, but no cookie"
sign_in oidc ios ana
session=$(cookie coatcheck)
get "/v1/relay/api/echo?q=a%20b&list[]=1" -H 'X-Custom: 1' -H 'Authorization: Basic evil' -H 'X-Forwarded-For: 1.2.3.4' -H 'Accept-Language: eo' \
    -H 'If-None-Match: "x"' -H 'Idempotency-Key: k-1' -H 'traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01'
expect_status 200 "relay call with a session → 200"
expect_header Coatcheck-Source upstream "relay call with a session → the answer comes from the upstream"
matches '^Bearer at-|^Bearer ' "$(sent Authorization)" "relay call with a session → the upstream gets Authorization with a bearer token"
same "" "$(sent Cookie)" "relay call with a session → the upstream gets no cookie"
same "" "$(sent X-Custom)" "relay call with an unlisted field from the app → the upstream does not get this field"
same "" "$(sent X-Forwarded-For)" "relay call with X-Forwarded-For from the app → the upstream does not get this field"
same eo "$(sent Accept-Language)" "relay call with Accept-Language from the app → the upstream gets this field"
same '"x"' "$(sent If-None-Match)" "relay call with If-None-Match from the app → the upstream gets this field"
same k-1 "$(sent Idempotency-Key)" "relay call with Idempotency-Key from the app → the upstream gets this field"
matches '^req_' "$(sent X-Request-Id)" "relay call → the upstream gets the broker's X-Request-Id"
same /api/echo "$(json .path)" "relay call → the upstream gets the path below its base URL"
matches '^q=a%20b&' "$(json .query)" "relay call with an encoded query → the upstream gets the query encoded once"
matches 'no-store' "$(header Cache-Control)" "upstream answer without Cache-Control → gets no-store"
get /v1/relay/api/private/echo
expect_status 200 "relay call to an upstream's path that requires the provider's access token → 200"

step "3. A Connection field of the app cannot remove the broker's fields (SEC-76)"
get /v1/relay/api/private/echo -H 'Connection: close, Authorization, X-Request-Id'
expect_status 200 "relay call whose Connection field names the broker's fields → 200"
matches '^Bearer ' "$(sent Authorization)" "relay call whose Connection field names Authorization → the upstream still gets the token"

step "4. The upstream's allow list: method and path (SEC-71, SEC-72)"
before=$(calls api/api)
get /v1/relay/narrow/private/x/y
expect_problem 403 upstream_not_allowed "relay call to a path of two segments, and the allow list permits one segment"
request POST /v1/relay/narrow/private/x -H 'Content-Type: application/json' --data-binary '{}'
expect_problem 403 upstream_not_allowed "relay call with a method that is not on the allow list"
get /v1/relay/clever-api/v3.0/me
expect_problem 403 upstream_not_allowed "relay call to an upstream of another provider"
same "$before" "$(calls api/api)" "three relay calls that the allow list does not permit → the upstream gets no call"

step "5. Path tricks (SEC-73) reach only paths that the list names"
for path in private/../echo private/%2e%2e/echo private/.%2e/echo private%2f..%2fecho 'private/..;/echo' private//x 'private/x;y' 'private/\x' \
    private/%5cx private/x%00 private/%c0%ae%c0%ae/echo private/%252e%252e/echo private/x%23/ok private/x%ff ./private/x private/. '%2e/private/x'; do
    request GET "/v1/relay/narrow/$path" --path-as-is
    case $STATUS in
        400 | 403 | 404) ok "relay path $path → refused with $STATUS" ;;
        200)
            # A path that is passed on must arrive as one segment below /api/private.
            matches '^/api/private/[^/]+$' "$(json .path)" "relay path $path → arrives as $(json .path)"
            ;;
        401) matches 'upstream' "$(header Coatcheck-Source)" "relay path $path → the upstream's own 401" ;;
        *) not_ok "relay path $path → refused, or arrives below /api/private" "$STATUS" ;;
    esac
done

step "6. Headers that an upstream must not set (SEC-77)"
get /v1/relay/api/nasty-headers
expect_status 200 "relay call to an upstream that sets forbidden fields → 200"
for name in Set-Cookie WWW-Authenticate Clear-Site-Data Alt-Svc Access-Control-Allow-Origin Server X-Auth-Subject X-Hop Proxy-Authenticate Upgrade \
    NEL Report-To Reporting-Endpoints Content-Security-Policy-Report-Only Accept-CH X-Forwarded-Host X-Coatcheck-Session; do
    same "" "$(header $name)" "upstream's answer has $name → the app does not get this field"
done
expect_header Coatcheck-Source upstream "upstream's answer has Coatcheck-Source → the app gets the broker's value"
expect_header X-Fine kept "upstream's answer has a harmless field → the app gets this field"
expect_header Cache-Control "private, max-age=300" "upstream's answer allows shared caches → the app gets Cache-Control private"
matches '^Cookie, Authorization' "$(header Vary)" "upstream's answer allows shared caches → the app gets Vary with Cookie and Authorization"
same "$session" "$(cookie coatcheck)" "upstream's answer has Set-Cookie → the session cookie is unchanged"

step "7. Redirects, statuses and bodies pass unchanged"
get '/v1/relay/api/redirect/302?to=http://169.254.169.254/'
expect_status 302 "upstream redirect → passed to the app"
for status in 204 304 404 418 429 500 503; do
    get "/v1/relay/api/status/$status"
    expect_status "$status" "upstream answers $status → the app gets this status"
    expect_header Coatcheck-Source upstream "upstream answers $status → the answer comes from the upstream"
done
get /v1/relay/api/gzip/100000
expect_header Content-Encoding gzip "compressed upstream body → stays compressed"
request HEAD /v1/relay/api/echo -I
expect_status 200 "relay call with the method HEAD → 200"

step "8. 100 MiB in each direction, with constant memory (SEC-81)"
# kib NAME: prints a value of the broker's memory; VmHWM is the highest value since the last `mark`
kib() { awk -v name="$1:" '$1 == name { print $2 }' "/proc/$broker_pid/status"; }
grew() { echo $((($(kib VmHWM) - before) / 1024)); }
mark() { echo 5 >"/proc/$broker_pid/clear_refs"; before=$(kib VmRSS); }
head -c 104857600 /dev/urandom >"$work/upload"
# The first upload warms the broker up, so that one-time costs are not in the later figures.
request POST /v1/relay/api/echo -H 'Content-Type: application/octet-stream' --data-binary "@$work/upload"
mark
request POST /v1/relay/api/echo -H 'Content-Type: application/octet-stream' --data-binary "@$work/upload"
expect_status 200 "relayed upload of 100 MiB → 200"
same "$(sha256sum "$work/upload" | cut -d' ' -f1)" "$(json .body_sha256)" "relayed upload of 100 MiB → arrives byte for byte"
request POST /v1/relay/api/echo -H 'Content-Type: application/octet-stream' -H 'Transfer-Encoding: chunked' --data-binary "@$work/upload"
same 104857600 "$(json .body_length)" "relayed chunked upload of 100 MiB → arrives completely"
get /v1/relay/api/bytes/104857600
same 104857600 "$(stat -c %s "$work/body")" "relayed download of 100 MiB → arrives completely"
grown=$(grew)
[ "$grown" -le 16 ]; same 0 $? "relayed uploads and a download of 100 MiB each → the broker's memory grew by $grown MiB, at most 16"
get /v1/relay/api/trailers
same "with trailers 200 chunked" "$(body) $STATUS $(header Transfer-Encoding)" "upstream answer with trailers → the body arrives"
same "" "$(header X-Trailer)$(header Trailer)" "upstream answer with trailers → the trailers are removed"
curl -s -m 40 -o /dev/null -v --expect100-timeout 20 -b "coatcheck=$session" -H 'Expect: 100-continue' --data-binary '{}' "$BROKER/v1/relay/api/echo" 2>"$work/verbose"
matches 'HTTP/1.1 100 Continue' "$(cat "$work/verbose")" "relayed upload with Expect: 100-continue → 100 Continue"
matches 'HTTP/1.1 200 OK' "$(cat "$work/verbose")" "relayed upload with Expect: 100-continue → 200 after the 100 Continue"

step "9. An upstream's 401 causes one refresh and one repeat, and never ends the session (SEC-60, SEC-82)"
sandbox DELETE /requests
get /v1/relay/api/401-until-refreshed
expect_status 200 "upstream answers 401 to the first access token → the broker refreshes and repeats the call, and the app gets 200"
same 1 "$(calls oidc/refresh)" "upstream answers 401 to the first access token → the broker makes one refresh call"
get /v1/relay/api/401-always
expect_status 401 "upstream answers 401 to every call → the app gets the 401"
expect_header Coatcheck-Source upstream "upstream answers 401 to every call → the answer comes from the upstream"
get /v1/session
expect_status 200 "upstream answers 401 to every call → the session is alive"
same "$session" "$(cookie coatcheck)" "upstream answers 401 to every call → the session cookie is unchanged"

step "10. The upstream is slow"
get '/v1/relay/api/slow?ms=1500'
expect_status 200 "upstream answers after 1500 ms → 200"

step "11. Cross-site requests are refused, even GET"
get /v1/relay/api/echo -H 'Sec-Fetch-Site: cross-site'
expect_problem 403 cross_origin "relayed cross-site GET with the session cookie"

step "12. Upgrades and unusual methods (SEC-80)"
get /v1/relay/api/echo -H 'Connection: Upgrade' -H 'Upgrade: websocket'
same 4 "${STATUS:0:1}" "relay call with a websocket upgrade → refused"
get /v1/relay/api/echo -H 'Connection: Upgrade, HTTP2-Settings' -H 'Upgrade: h2c' -H 'HTTP2-Settings: AAMAAABkAAQAAP__'
expect_status 200 "relay call with an offer of h2c → the offer is ignored, 200"
request TRACE /v1/relay/api/echo
same 4 "${STATUS:0:1}" "relayed TRACE → refused"

step "13. One user cannot use all eight concurrent calls of an upstream"
# uploads LENGTH: this device's user begins eight uploads that stop after one byte; a file gets the status lines of the answers
uploads() {
    python3 - "$BROKER_PORT" "$(cookie coatcheck)" "$1" >"$work/uploads" 2>&1 <<'PYTHON' &
import select, socket, sys, time
port, session, length = sys.argv[1:]
sockets = []
for _ in range(8):
    s = socket.create_connection(("127.0.0.1", int(port)))
    s.sendall((f"POST /v1/relay/small/echo HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nCookie: coatcheck={session}\r\n"
               f"Content-Type: text/plain\r\nContent-Length: {length}\r\n\r\nx").encode())
    sockets.append(s)
end = time.time() + 30
while time.time() < end:
    for s in select.select(sockets, [], [], 0.2)[0]:
        print(s.recv(4096).decode("latin-1").split("\r\n")[0], flush=True)
        sockets.remove(s)
PYTHON
    pids+=($!)
    uploader=$!
}
device a-second-phone
sign_in oidc ios ben
for length in 60000 600000; do
    device a-phone
    uploads "$length"
    # Six refusals show that all eight uploads have arrived, because two of them get a place.
    wait_for 1 eval '[ "$(wc -l <"$work/uploads")" -ge 6 ]'
    device a-second-phone
    begun=$(date +%s%N)
    get /v1/relay/small/echo
    same 200 "$STATUS" "one user begins eight uploads of $length bytes → another user is served after $((($(date +%s%N) - begun) / 1000000)) ms"
    if [ "$length" = 600000 ]; then
        wait_for 20 eval '[ "$(wc -l <"$work/uploads")" -ge 6 ]'
        same "6 HTTP/1.1 429 Too Many Requests" "$(sort "$work/uploads" | uniq -c | sed 's/^ *//')" "one user begins eight large uploads → two go on, six get 429"
    else
        same "" "$(cat "$work/uploads")" "one user begins eight small uploads and sends only their first byte → all eight wait for the rest"
    fi
    kill "$uploader" 2>/dev/null
    wait "$uploader" 2>/dev/null
done

finish
