# Logins and log-outs of a device, and the refused callbacks that are checked for every provider.

# start_login PROVIDER CLIENT [MORE-MEMBERS]: starts a login of this device; AUTHORIZATION_URL is the page for its browser
start_login() {
    post /v1/logins "{\"provider\":\"$1\",\"client\":\"$2\"${3:+,$3}}"
    AUTHORIZATION_URL=$(json .authorization_url)
    STATE=$(json .state)
    LOGIN_TOKEN=$(json .login_token)
}

# browser URL USER: the user opens the URL and consents; CALLBACK is the provider's redirect
browser() {
    local url=$1
    case $url in *\?*) url="$url&sandbox_user=$2" ;; *) url="$url?sandbox_user=$2" ;; esac
    local hops=0
    while :; do
        CALLBACK=$(location "$url")
        hops=$((hops + 1))
        case $CALLBACK in "$SANDBOX"/*) [ "$hops" -lt 5 ] && url=$CALLBACK && continue ;; esac
        break
    done
}

# location URL [curl options…]: the address of a redirect, byte for byte
location() { curl -s -m 20 -o /dev/null -D - "$@" | sed -n 's/^[Ll]ocation: *//p' | tr -d '\r' | tail -1; }

# forward URL [MORE-MEMBERS]: the app forwards the callback URL to the broker
forward() { post /v1/sessions "{\"callback_url\":$(json_text "$1")${2:+,$2}}"; }

# sign_in PROVIDER CLIENT [USER]: a whole login of this device
sign_in() {
    start_login "$1" "$2"
    browser "$AUTHORIZATION_URL" "${3:-ana}"
    forward "$CALLBACK" ${LOGIN_TOKEN:+"\"login_token\":\"$LOGIN_TOKEN\""}
}

# refusals PROVIDER CLIENT: checks callbacks that the broker must refuse at every provider. When it returns, the last answer is
# the one for an invented code, forwarded a second time.
refusals() {
    local before
    before=$(calls "$1/token")
    device "refused-$RANDOM$RANDOM"
    start_login "$1" "$2"
    browser "$AUTHORIZATION_URL" denied
    forward "$CALLBACK"
    expect_problem 403 access_denied "user refuses the sign-in at $1"
    start_login "$1" "$2"
    browser "$AUTHORIZATION_URL" ana
    forward "$(with_value state "$(random_token)" "$CALLBACK")"
    expect_problem 400 state_mismatch "$1's callback with an unknown state"
    device "stranger-$RANDOM$RANDOM"
    forward "$CALLBACK"
    expect_problem 403 login_not_yours "another device forwards $1's callback"
    same "$before" "$(calls "$1/token")" "three refused callbacks → no token call at $1"
    start_login "$1" "$2"
    browser "$AUTHORIZATION_URL" ana
    forward "$(with_value code invented "$CALLBACK")"
    expect_problem 400 code_rejected "$1's callback with an invented code"
    forward "$CALLBACK"
    same 4 "${STATUS:0:1}" "$1's unchanged callback, forwarded after one with an invented code → refused"
    forward "$(with_value code invented "$CALLBACK")"
    same "$((before + 1))" "$(calls "$1/token")" "callback with an invented code, forwarded twice → one token call at $1"
}

# log_out: ends this device's session, and checks that the broker refuses its token at once
log_out() {
    local session
    session=$(cookie coatcheck)
    sandbox DELETE /requests
    request DELETE /v1/session
    expect_status 204 "log-out of this device's session → 204"
    JAR= request GET /v1/session -b "coatcheck=$session"
    same "401 logged_out" "$STATUS $(json .reason)" "request with a session right after this session's log-out → 401 logged_out"
}
