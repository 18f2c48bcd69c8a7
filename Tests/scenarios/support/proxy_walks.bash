# The checks of each proxy. `walk_NAME SERVER` makes its checks at the address SITE, with the session in `cookie`, which
# `walk_login` makes. broken-proxies.sh refers to the names of these checks.

# raw PATH-AND-QUERY [curl options…]: checks that the answer through the proxy is the same as the broker's own
raw() {
    local path=$1 direct
    shift
    request GET "http://127.0.0.1:$BROKER_PORT$path" --path-as-is -H "Host: $named" "$@"
    direct="$STATUS $(json .code) $(json .path)$(json .query)"
    request GET "$SITE$path" --path-as-is "$@"
    same "$direct" "$STATUS $(json .code) $(json .path)$(json .query)" "$path through the proxy → the same answer as at the broker itself"
}

# last_client ROUTE: prints the client's address that the broker's log has for the last request of a route
last_client() { grep -F "\"route\":\"$1\"" "$work/broker.log" | tail -1 | sed 's/.*"client":"\([^"]*\)".*/\1/'; }

under_way='^coatcheck_relay_calls_under_way\{upstream="api"\}'

# soon COMMAND…: returns whether the command succeeds within the time that a busy machine needs
soon() { wait_for "${PATIENCE:-10}" "$@"; }

walk_login() {
    step "$1: a login, by its own name"
    device "phone-$1"
    sign_in oidc ios ana
    expect_status 201 "$1: sign-in through the proxy → a session"
    cookie=$(cookie coatcheck)
    request GET /v1/session
    expect_status 200 "$1: session read through the proxy → 200"
    expect_json .provider oidc "$1: session read through the proxy → its provider is oidc"
}

walk_address() {
    step "$1: the client's address"
    JAR=
    request GET /v1/session -H "Cookie: coatcheck=$cookie" --interface 127.0.0.7 -H 'X-Forwarded-For: 203.0.113.9' \
        -H 'X-Forwarded-Proto: https' -H 'Forwarded: for=203.0.113.9' -H 'X-Real-IP: 203.0.113.9'
    expect_status 200 "$1: request with forged address headers through the proxy → 200"
    soon eval '[ "$(last_client /v1/session)" = 127.0.0.7 ]'
    same 127.0.0.7 "$(last_client /v1/session)" "$1: request with forged address headers through the proxy → the broker knows the client's real address"
    request GET /v1/session -H 'Host: evil.example'
    matches '^(421|200)$' "$STATUS" "$1: a request with another Host → 421 from the broker, or an empty answer from the proxy"
    [ "$STATUS" = 421 ] || same "" "$(body)" "$1: a request with another Host, answered by the proxy → an empty body"
}

walk_paths() {
    local path
    step "$1: paths pass unchanged"
    JAR=
    for path in '/v1/relay/api/private/echo?a=b%20c&d=%2F' '/v1/relay/api/private/x%20y' '/v1/session/' '/v1/%73ession' \
        '/v1/relay/api/private/..%2Fx' '/v1/relay/api/private/a%2Fb' '/v1//session' '/nothing'; do
        raw "$path" -H "Cookie: coatcheck=$cookie"
    done
}

walk_errors() {
    step "$1: the broker's errors pass unchanged"
    fault oidc '{"fault":"html-200","endpoint":"token","times":1}'
    device "odd-$1"
    sign_in oidc ios ben
    expect_problem 502 provider_error "$1: a sign-in at a provider that answers HTML, through the proxy"
    same "" "$(header Retry-After)" "$1: a sign-in at a provider that answers HTML, through the proxy → no Retry-After"
    fault oidc '{"fault":"status","status":503,"headers":{"Retry-After":"9"},"endpoint":"token","times":1}'
    device "busy-$1"
    sign_in oidc ios ben
    expect_problem 503 provider_unavailable "$1: a request at a busy provider, through the proxy"
    matches '^[0-9]+$' "$(header Retry-After)" "$1: a request at a busy provider, through the proxy → the broker's own Retry-After: $(header Retry-After)"
    JAR=
    request GET /v1/session -H 'Cookie: coatcheck=none'
    expect_header Cache-Control no-store "$1: a request with an unknown cookie, through the proxy → Cache-Control is no-store"
    same "$STATUS" "$(json .status)" "$1: a request with an unknown cookie, through the proxy → the problem document arrives complete"
}

walk_streams() {
    local pid
    step "$1: streams through the proxy"
    JAR=
    : >"$work/events"
    curl -s -N -m 60 -H "Cookie: coatcheck=$cookie" "$SITE/v1/session/events" >"$work/events" 2>/dev/null &
    pid=$!
    soon grep -q '^event: session' "$work/events"
    same 0 $? "$1: new event stream through the proxy → the first event arrives at once"
    request POST /v1/session/refresh -H "Cookie: coatcheck=$cookie"
    expect_status 200 "$1: refresh while an event stream is open through the proxy → 200"
    soon grep -q '^event: tokens_refreshed' "$work/events"
    same 0 $? "$1: refresh while an event stream is open through the proxy → the refresh's event arrives"
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    : >"$work/events"
    # This answer takes half a minute; a part of it comes every tenth of a second.
    curl -s -N -m 60 -H "Cookie: coatcheck=$cookie" "$SITE/v1/relay/api/private/events/300" >"$work/events" 2>/dev/null &
    pid=$!
    soon grep -q '^data: 0' "$work/events"
    same 0 $? "$1: streamed upstream answer through the proxy → the beginning arrives before the upstream sends the end"
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    wait_for 10 shows "$under_way 0\$"
    mkfifo "$work/up-$1"
    curl -s -m 60 -o "$work/up.json" -X PUT -T - -H 'Content-Type: text/plain' -H "Cookie: coatcheck=$cookie" \
        "$SITE/v1/relay/api/private/echo" <"$work/up-$1" 2>/dev/null &
    pid=$!
    exec {upload}>"$work/up-$1"
    head -c 100000 /dev/zero | tr '\0' x >&"$upload"
    soon shows "$under_way 1\$"
    same 0 $? "$1: an upload through the proxy → reaches the upstream while it is being sent"
    head -c 3000000 /dev/zero | tr '\0' x >&"$upload"
    exec {upload}>&-
    wait "$pid"
    same 3100000 "$(json .body_length "$work/up.json")" "$1: an upload through the proxy → arrives complete"
}

walk_download() {
    local pid
    step "$1: downloads through the proxy"
    JAR=
    same 2000000 "$(curl -s -m 30 -H "Cookie: coatcheck=$cookie" "$SITE/v1/relay/api/private/bytes/2000000" | wc -c)" "$1: download through the proxy → arrives complete"
    wait_for 10 shows "$under_way 0\$"
    curl -s -m 60 --limit-rate 10k -o /dev/null -H "Cookie: coatcheck=$cookie" "$SITE/v1/relay/api/private/bytes/60000000" 2>/dev/null &
    pid=$!
    wait_for 10 shows "$under_way 1\$"
    wait_for "${LONG:-1}" shows "$under_way 0\$"
    same 1 $? "$1: download through the proxy, which the client reads slowly → not stored on the way to the client"
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
}

walk_log() {
    step "$1: the proxy's log contains no secret"
    JAR=
    request GET "/callback/oidc?code=canary-$1&state=canary-$1"
    # shellcheck disable=SC2086
    wait_for 5 grep -qs callback ${logs[$1]}
    # shellcheck disable=SC2086
    same "" "$(grep -ho "canary-$1" ${logs[$1]} | head -1)" "$1: hosted callback through the proxy → no query string in the proxy's log"
}

walk_bound() {
    step "$1: sessions that belong to a key"
    "$PYTHON" "$root/Tests/scenarios/support/bound_app.py" front "$1" "$SITE" "$direct" >"$work/$1.bound" 2>&1 \
        || not_ok "$1, the script for bound sessions → runs to its end" "$(tail -1 "$work/$1.bound")"
    take_over <"$work/$1.bound"
}

# walk_away SERVER: checks the proxy's answers while the broker is killed
walk_away() {
    local method
    step "$1: the broker is killed"
    JAR=
    for method in GET POST; do
        request "$method" "$SITE/v1/session" -H "Cookie: coatcheck=$cookie"
        expect_problem 503 shutting_down "$1: $method through the proxy while the broker is killed"
        expect_json .status 503 "$1: $method through the proxy while the broker is killed → the problem's status is 503"
        expect_header Content-Type application/problem+json "$1: $method through the proxy while the broker is killed → a problem document"
        matches '^[0-9]+$' "$(header Retry-After)" "$1: $method through the proxy while the broker is killed → 503 with Retry-After"
        expect_header Cache-Control no-store "$1: $method through the proxy while the broker is killed → Cache-Control is no-store"
        expect_header Coatcheck-Source broker "$1: $method through the proxy while the broker is killed → Coatcheck-Source is broker"
        same "" "$(header Set-Cookie)" "$1: $method through the proxy while the broker is killed → the session cookie stays"
    done
}
