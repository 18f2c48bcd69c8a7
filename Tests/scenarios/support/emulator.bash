# The sandbox's control interface (docs/apps/sandbox.md): faults, and the requests that a provider received.

# sandbox METHOD PATH [JSON]: calls the emulator's control interface (docs/apps/sandbox.md)
sandbox() {
    if [ $# -gt 2 ]; then
        curl -s -m 20 -o "$work/control" -X "$1" "$SANDBOX/_sandbox$2" -H 'Content-Type: application/json' --data-binary "$3"
    else
        curl -s -m 20 -o "$work/control" -X "$1" "$SANDBOX/_sandbox$2"
    fi
}

# fault PROVIDER JSON: causes a fault in the provider's next requests
fault() { sandbox PUT "/faults/$1" "$2"; }

# calls PROVIDER/ENDPOINT: prints how many calls this endpoint of the provider has received
calls() {
    sandbox GET /counts
    local count
    count=$(json ".$1" "$work/control")
    printf '%s' "${count:-0}"
}

# form_names [N]: the form field names, in order, of the N-th request that `sandbox GET /requests…` listed, counted from 0
form_names() { jq -r ".[${1:-0}].body | split(\"&\") | map(split(\"=\")[0]) | join(\" \")" "$work/control"; }

# sent_header NAME [N]: a header field of the N-th of the requests that `sandbox GET /requests…` listed, counted from 0
sent_header() { jq -r --arg name "$1" ".[${2:-0}].headers[] | select((.[0] | ascii_downcase) == (\$name | ascii_downcase)) | .[1]" "$work/control"; }

# told PROVIDER/ENDPOINT N: waits until this endpoint has received N calls, checks that it received exactly N, and lists them
# in "$work/control"
told() {
    wait_for 30 eval '[ "$(calls "'"$1"'")" -ge '"$2"' ]'
    sandbox GET "/requests?provider=${1%/*}&endpoint=${1#*/}"
    same "$2" "$(jq length "$work/control")" "log-out of the session → ${1%/*} receives $2 ${1#*/} calls"
}
