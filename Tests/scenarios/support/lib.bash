# Helpers of the shell scenarios: start a broker and a provider emulator, send requests, and check the results. Needs bash,
# curl, jq, openssl and python3. These helpers know only the broker's HTTP interface.
#
#   COATCHECK, COATCHECK_SANDBOX   the two programs (default: those of .build/dist, else of .build/debug)
#   VERBOSE=1                      print every request and answer
#   KEEP=1                         keep the run's folder

set -u -o pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(cd "$here/../../.." && pwd)
builds="$root/.build/dist"
[ -x "$builds/coatcheck" ] || builds="$root/.build/debug"
export COATCHECK=${COATCHECK:-$builds/coatcheck}
export COATCHECK_SANDBOX=${COATCHECK_SANDBOX:-$builds/coatcheck-sandbox}
work=$(mktemp -d "${TMPDIR:-/tmp}/coatcheck-curl.XXXXXX")
chmod 700 "$work"
pids=()
passed=0
failed=0

# ---- saying what is expected -----------------------------------------------------------------------------------------

step() { printf '\n# %s\n' "$*"; }

ok() { passed=$((passed + 1)); printf 'ok %d - %s\n' "$((passed + failed))" "$*"; }

not_ok() {
    failed=$((failed + 1))
    printf 'not ok %d - %s\n' "$((passed + failed))" "$1"
    printf '#   %s\n' "${2:-}"
    [ -n "${STATUS:-}" ] && printf '#   last answer: %s %s\n' "$STATUS" "$(head -c 600 "$work/body" 2>/dev/null)"
    return 0
}

# same EXPECTED ACTUAL SENTENCE
same() { if [ "$1" = "$2" ]; then ok "$3"; else not_ok "$3" "expected <$1>, got <$2>"; fi; }

# matches REGULAR-EXPRESSION ACTUAL SENTENCE
matches() { if [[ $2 =~ $1 ]]; then ok "$3"; else not_ok "$3" "expected something like <$1>, got <$2>"; fi; }

# expect_status 201 "the code makes a session"
expect_status() { same "$1" "$STATUS" "${2:-the status is $1}"; }

# expect_json .code login_not_yours ["sentence"]     .a.b[0] walks the last answer's body
expect_json() { same "$2" "$(json "$1")" "${3:-$1 is $2}"; }

# expect_problem 403 login_not_yours "sentence"
expect_problem() { same "$1 $2" "$STATUS $(json .code)" "$3 → $1 $2"; }

# expect_header Cache-Control no-store ["sentence"]
expect_header() { same "$2" "$(header "$1")" "${3:-$1 is $2}"; }

# take_over: counts a program's lines, `ok N - …` and `not ok N - …`, like those of this script
take_over() {
    while IFS= read -r line; do
        case $line in
            "ok "*) ok "${line#*- }" ;;
            "not ok "*) failed=$((failed + 1)); printf 'not ok %d - %s\n' "$((passed + failed))" "${line#*- }" ;;
            *) printf '%s\n' "$line" ;;
        esac
    done
}

finish() {
    [ -z "${SCENARIOS_RUN:-}" ] || realpath --relative-to="$root" "$0" >>"$SCENARIOS_RUN"
    printf '\n%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}

# ---- requests --------------------------------------------------------------------------------------------------------

# Every device has its own cookie jar.
device() { JAR="$work/$1.jar"; touch "$JAR"; }

# request METHOD URL-OR-PATH [curl options…]: STATUS, the headers and the body of the answer are kept.
request() {
    local method=$1 url=$2
    shift 2
    case $url in /*) url="$BROKER$url" ;; esac
    STATUS=$(curl -s -m 40 -X "$method" -o "$work/body" -D "$work/headers" -w '%{http_code}' \
        ${JAR:+-b "$JAR" -c "$JAR"} "$@" "$url") || true
    [ -n "${RECORD:-}" ] && cat "$work/headers" "$work/body" >>"$RECORD"
    [ -n "${VERBOSE:-}" ] && printf '#   %s %s -> %s %s\n' "$method" "$url" "$STATUS" "$(head -c 400 "$work/body")"
    return 0
}

get() { request GET "$@"; }

# post PATH JSON [curl options…]
post() {
    local path=$1 body=$2
    shift 2
    request POST "$path" -H 'Content-Type: application/json' --data-binary "$body" "$@"
}

body() { cat "$work/body"; }

# header NAME: the last answer's field, one line a value
header() {
    awk -v name="$(printf %s "$1" | tr 'A-Z' 'a-z')" 'BEGIN { FS = ":" }
        tolower($1) == name { sub(/^[^:]*:[ \t]*/, ""); sub(/\r$/, ""); print }' "$work/headers"
}

# json PATH [FILE]: a member of a JSON file, `.a.b[0]`; empty if it is missing
json() {
    local path
    path=$(sed -E 's/\.([^].[]+)/"\1",/g; s/\[([0-9]+)\]/\1,/g; s/,$//' <<<"$1")
    jq -r --argjson path "[$path]" '
        reduce $path[] as $name ([.]; if length == 1 and (.[0] | type) == (if $name | type == "string" then "object" else "array" end)
            and (.[0] | has($name)) then [.[0][$name]] else [] end)
        | .[] | if type == "string" then . else tojson end' "${2:-$work/body}" 2>/dev/null
}

# json_text TEXT: the text as a JSON string
json_text() { jq -n --arg text "$1" '$text'; }

# cookie NAME: its value in the device's jar
cookie() { awk -v name="$1" '$6 == name { print $7 }' "$JAR"; }

# url_value NAME URL: a query parameter, decoded
url_value() {
    python3 -c 'import sys, urllib.parse as u
print(dict(u.parse_qsl(u.urlsplit(sys.argv[2]).query, keep_blank_values=True)).get(sys.argv[1], ""))' "$1" "$2"
}

# with_value NAME VALUE URL: the URL with that query parameter set (or removed, for the value -)
with_value() {
    python3 -c 'import sys, urllib.parse as u
name, value, url = sys.argv[1:]
head, _, query = url.partition("?")
pairs = [p for p in u.parse_qsl(query, keep_blank_values=True) if p[0] != name]
if value != "-": pairs.append((name, value))
print(head + "?" + u.urlencode(pairs))' "$@"
}

random_token() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'; }

# s256 VERIFIER: its PKCE challenge
s256() { printf %s "$1" | openssl dgst -sha256 -binary | base64 | tr '+/' '-_' | tr -d '=\n'; }

# ---- the stack -------------------------------------------------------------------------------------------------------

free_port() {
    if [ -x "$root/scripts/free-port" ]; then "$root/scripts/free-port"; else
        python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
    fi
}

# with_packages: PYTHON becomes an interpreter with the packages of requirements.txt
with_packages() {
    [ -z "${PYTHON:-}" ] || return 0
    "$here/setup" || give_up "the set-up of .venv"
    PYTHON="$root/.venv/bin/python"
}

# wait_for SECONDS COMMAND…: waits until the command succeeds; longer if the command itself is slow
wait_for() {
    local tries=$(($1 * 20))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -le 0 ] && return 1
        sleep 0.05
    done
}

# start_stack [CONFIGURATION]: starts sandbox and broker on free ports, the broker with coatcheck.yaml; LIMITS are its limits,
# if set
start_stack() {
    [ -n "${SANDBOX:-}" ] || start_sandbox
    BROKER_PORT=$(free_port)
    MANAGEMENT_PORT=$(free_port)
    CLOSED_PORT=$(free_port)
    BROKER="http://127.0.0.1:$BROKER_PORT"
    MANAGEMENT="http://127.0.0.1:$MANAGEMENT_PORT"
    configure "${1:-$here/coatcheck.yaml}"
    mkdir -m 700 -p "$work/data"
    [ -e "$work/keys.json" ] || "$COATCHECK" keys generate --file "$work/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
    start_broker
    device a-phone
}

# configure TEMPLATE: fills in the values of this run
configure() {
    sed -e "s|@SANDBOX@|$SANDBOX|g" -e "s|@BROKER@|$BROKER|g" -e "s|@BROKER_PORT@|$BROKER_PORT|g" \
        -e "s|@MANAGEMENT_PORT@|$MANAGEMENT_PORT|g" -e "s|@CLOSED_PORT@|$CLOSED_PORT|g" -e "s|@WORK@|$work|g" \
        -e "s|@OPENID_PROVIDER@|${OPENID_PROVIDER:-http://127.0.0.1:$CLOSED_PORT}|g" "$1" >"$work/coatcheck.yaml"
    [ -z "${LIMITS:-}" ] || printf 'limits: {%s}\n' "$LIMITS" >>"$work/coatcheck.yaml"
    chmod 600 "$work/coatcheck.yaml"
}

start_sandbox() {
    local port
    port=$(free_port)
    SANDBOX="http://127.0.0.1:$port"
    "$COATCHECK_SANDBOX" --listen "127.0.0.1:$port" >"$work/sandbox.log" 2>&1 &
    pids+=($!)
    wait_for 60 curl -sf "$SANDBOX/_sandbox/health" || give_up "sandbox"
    # Clients whose secrets do not look like placeholders.
    sandbox PUT /clients/oidc/web-client '{"secret":"wq8ZrT5nLk2YvB7x:c/d+e&f","auth":"client_secret_basic"}'
    sandbox PUT /clients/oidc/signing-client '{"secret":"wq8ZrT5nLk2YvB7xHs0dPq4mJc6t9RfA","auth":"client_secret_jwt"}'
    sandbox PUT /clients/clever/web-0001 '{"secret":"wq8ZrT5nLk2YvB7xHs0d","auth":"client_secret_basic"}'
    sandbox PUT /clients/github/github-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'
    sandbox PUT /clients/google/google-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'
    sandbox PUT /clients/slack/slack-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'
    sandbox GET /client-key.pem && (umask 077 && cp "$work/control" "$work/client-key.pem")
    for id in facebook-app facebook-hosted; do sandbox PUT "/clients/facebook/$id" '{"secret":"wq8ZrT5nLk2YvB7xHs0d","auth":"client_secret_post"}'; done
    sandbox PUT /clients/linkedin/linkedin-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d","auth":"client_secret_post"}'
    sandbox PUT /clients/clover/clover-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'
}

start_broker() {
    "$COATCHECK" serve --config "$work/coatcheck.yaml" >>"$work/broker.log" 2>&1 &
    broker_pid=$!
    wait_for 60 curl -sf "$MANAGEMENT/readyz" || give_up "broker"
}

# start_postgresql [OPTIONS]: starts a PostgreSQL for this run (Tests/scenarios/support/postgresql); POSTGRESQL is its URL
start_postgresql() {
    rm -f "$work/postgresql.in" "$work/postgresql.out"
    mkfifo "$work/postgresql.in"
    "$root/Tests/scenarios/support/postgresql" "$@" <"$work/postgresql.in" >"$work/postgresql.out" 2>"$work/postgresql.log" &
    pids+=($!)
    exec {postgresql_input}>"$work/postgresql.in"
    wait_for 180 grep -q '^ready ' "$work/postgresql.out" || give_up "PostgreSQL"
    local word port standby_port
    read -r word port POSTGRESQL_PID POSTGRESQL_FOLDER POOLER_PORT standby_port <"$work/postgresql.out"
    POSTGRESQL="postgresql://coatcheck@127.0.0.1:$port/postgres"
    [ -z "$standby_port" ] || POSTGRESQL="postgresql://coatcheck@127.0.0.1:$port,127.0.0.1:$standby_port/postgres"
    POOLER="postgresql://coatcheck@127.0.0.1:${POOLER_PORT:-0}/postgres"
}

# postgresql COMMAND: sends a command to the server that was started last (Tests/scenarios/support/postgresql lists them)
postgresql() {
    local before
    before=$(wc -l <"$work/postgresql.out")
    echo "$1" >&"$postgresql_input"
    wait_for 60 eval '[ "$(wc -l <"$work/postgresql.out")" -gt '"$before"' ]'
    [[ $(tail -1 "$work/postgresql.out") == "done $1 "* ]] || give_up "PostgreSQL's $1"
}

# shows REGULAR-EXPRESSION: whether the broker's metrics have such a line (without a pipe, because curl fails if grep ends
# early)
shows() { curl -s -m 10 -o "$work/shown" "$MANAGEMENT/metrics" && grep -qE "$1" "$work/shown"; }

# in_log TEXT N SENTENCE: the broker's log has N lines with this text. A separate thread writes it, a moment after the answer.
in_log() {
    wait_for 10 eval '[ "$(grep -cF -e '"$(printf %q "$1")"' "$work/broker.log")" -ge '"$2"' ]'
    same "$2" "$(grep -cF -e "$1" "$work/broker.log")" "$3"
}

# listens PORT: whether the port has a listener
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# kill_broker SIGNAL
kill_broker() {
    kill "-$1" "$broker_pid" 2>/dev/null
    wait "$broker_pid" 2>/dev/null
    broker_pid=
}

give_up() {
    echo "Bail out! $1 did not start; its log:"
    tail -n 20 "$work"/*.log
    exit 1
}

stop_stack() {
    for pid in ${broker_pid:-} ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null; done
    for pid in ${broker_pid:-} ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null; done
    if [ -n "${KEEP:-}" ]; then echo "# kept: $work"; else rm -rf "$work"; fi
}
trap stop_stack EXIT

# start_unsteady_network: starts a phone's bad network in front of the broker; sets NETWORK_PORT
start_unsteady_network() {
    mkfifo "$work/network.input"
    python3 "$root/Tests/scenarios/support/unsteady_proxy.py" "$BROKER_PORT" 1 <>"$work/network.input" >"$work/network.port" 2>"$work/network.log" &
    pids+=($!)
    wait_for 20 test -s "$work/network.port" || give_up "the bad network"
    NETWORK_PORT=$(cat "$work/network.port")
}

# start_bound_replicas: starts two replicas on one PostgreSQL, with clients whose sessions belong to a key of the device. Apps
# reach them in turn at BROKER, through the proxy that reports requests and their evidence (evidence_proxy.py). BROKER_PORT is
# the first replica's.
start_bound_replicas() {
    local ports=("$(free_port)" "$(free_port)") proxy
    proxy=$(free_port)
    start_sandbox
    start_postgresql
    CLOSED_PORT=$(free_port)
    BROKER="http://127.0.0.1:$proxy"
    sed -f "$here/bound-clients.sed" "$here/coatcheck.yaml" | sed "s|url: sqlite:.*|url: $POSTGRESQL|" >"$work/template.yaml"
    "$COATCHECK" keys generate --file "$work/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
    local port
    for port in "${ports[@]}"; do
        BROKER_PORT=$port MANAGEMENT_PORT=$(free_port)
        MANAGEMENT="http://127.0.0.1:$MANAGEMENT_PORT"
        configure "$work/template.yaml"
        mv "$work/coatcheck.yaml" "$work/replica-$port.yaml"
        "$COATCHECK" serve --config "$work/replica-$port.yaml" >>"$work/broker-$port.log" 2>&1 &
        pids+=($!)
        wait_for 60 curl -sf "$MANAGEMENT/readyz" || give_up "a replica"
    done
    BROKER_PORT=${ports[0]}
    mkfifo "$work/evidence.input"
    python3 "$here/evidence_proxy.py" "${ports[@]}" --port "$proxy" <>"$work/evidence.input" >"$work/evidence.port" 2>"$work/evidence.log" &
    pids+=($!)
    wait_for 20 test -s "$work/evidence.port" || give_up "the network before the replicas"
    device a-phone
}

# sandbox METHOD PATH [JSON]: the emulator's control interface (docs/apps/sandbox.md)
sandbox() {
    if [ $# -gt 2 ]; then
        curl -s -m 20 -o "$work/control" -X "$1" "$SANDBOX/_sandbox$2" -H 'Content-Type: application/json' --data-binary "$3"
    else
        curl -s -m 20 -o "$work/control" -X "$1" "$SANDBOX/_sandbox$2"
    fi
}

# fault PROVIDER JSON: the provider's next requests go wrong
fault() { sandbox PUT "/faults/$1" "$2"; }

# calls PROVIDER/ENDPOINT: how often the provider was called there
calls() {
    sandbox GET /counts
    local count
    count=$(json ".$1" "$work/control")
    printf '%s' "${count:-0}"
}

# form_names [N]: the names of the form fields of the N-th of the requests that `sandbox GET /requests…` listed, in order
form_names() { jq -r ".[${1:-0}].body | split(\"&\") | map(split(\"=\")[0]) | join(\" \")" "$work/control"; }

# sent_header NAME [N]: a header field of that request
sent_header() { jq -r --arg name "$1" ".[${2:-0}].headers[] | select((.[0] | ascii_downcase) == (\$name | ascii_downcase)) | .[1]" "$work/control"; }

# start_run: starts the broker and the sandbox of `make run`; also sets ADMIN_TOKEN and BACKEND_TOKEN
start_run() {
    "$root/scripts/stack" start "$work/run" >"$work/run.log" 2>&1 || give_up "the stack of make run"
    # shellcheck disable=SC1091
    . "$work/run/env"
    broker_pid=$(cat "$work/run/broker.pid")
    pids+=("$(cat "$work/run/sandbox.pid")")
    device a-phone
}

# app_example NAME: checks the lines of an app of `examples`, in "$work/app.log", and that its session has ended
app_example() {
    matches 'signedOut|user(=|: )null' "$(grep '^at the start:' "$work/app.log")" "$1: at the start → signed out"
    matches 'user(=|: .?)(user-ana|.Ana Example)' "$(grep '^after the sign-in:' "$work/app.log")" "$1: sign-in → Ana is signed in"
    matches '^the API answers 200: .*/api/private/orders.*Bearer at-' "$(grep '^the API' "$work/app.log")" \
        "$1: relayed call → the API answers, and got an access token"
    matches 'signedOut|user(=|: )null' "$(grep '^after the sign-out:' "$work/app.log")" "$1: sign-out → signed out"
    request GET "$MANAGEMENT/admin/v1/sessions" -H "Authorization: Bearer $ADMIN_TOKEN"
    same "200 0" "$STATUS $(jq '.items | length' "$work/body")" "$1: sign-out → the broker has no session"
}

# block_behind FILE LANGUAGE TEXT: a document's first block in a language after the line with this text; fails if there is none
block_behind() {
    awk -v fence="\`\`\`$2" -v text="$3" 'index($0, text) { found = 1 } found && $0 == fence { inside = 1; next }
        inside && $0 == "```" { exit } inside { lines++; print } END { exit !lines }' "$1"
}

# ---- signing in ------------------------------------------------------------------------------------------------------

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

# forward URL [MORE-MEMBERS]: the app hands the callback URL to the broker
forward() { post /v1/sessions "{\"callback_url\":$(json_text "$1")${2:+,$2}}"; }

# sign_in PROVIDER CLIENT [USER]: a whole login of this device
sign_in() {
    start_login "$1" "$2"
    browser "$AUTHORIZATION_URL" "${3:-ana}"
    forward "$CALLBACK" ${LOGIN_TOKEN:+"\"login_token\":\"$LOGIN_TOKEN\""}
}

# refusals PROVIDER CLIENT: values that a login must refuse at every provider; the last answer is that for an invented code
refusals() {
    local before
    before=$(calls "$1/token")
    device "refused-$RANDOM$RANDOM"
    start_login "$1" "$2"
    browser "$AUTHORIZATION_URL" denied
    forward "$CALLBACK"
    expect_problem 403 access_denied "user refuses the sign-in"
    start_login "$1" "$2"
    browser "$AUTHORIZATION_URL" ana
    forward "$(with_value state "$(random_token)" "$CALLBACK")"
    expect_problem 400 state_mismatch "callback with an unknown state"
    device "stranger-$RANDOM$RANDOM"
    forward "$CALLBACK"
    expect_problem 403 login_not_yours "a stranger forwards the callback"
    same "$before" "$(calls "$1/token")" "three refused callbacks → no token call at the provider"
    start_login "$1" "$2"
    browser "$AUTHORIZATION_URL" ana
    forward "$(with_value code invented "$CALLBACK")"
    expect_problem 400 code_rejected "callback with an invented code"
    forward "$CALLBACK"
    same 4 "${STATUS:0:1}" "whole callback after the invented code → refused"
    forward "$(with_value code invented "$CALLBACK")"
    same "$((before + 1))" "$(calls "$1/token")" "callback with an invented code, twice → one token call"
}

# log_out: ends this device's session, and looks that it is gone here at once
log_out() {
    local session
    session=$(cookie coatcheck)
    sandbox DELETE /requests
    request DELETE /v1/session
    expect_status 204 "log-out → 204"
    JAR= request GET /v1/session -b "coatcheck=$session"
    same "401 logged_out" "$STATUS $(json .reason)" "log-out → the session is gone at once"
}

# told PROVIDER/ENDPOINT N: waits until the provider has N such calls; they are listed in "$work/control"
told() {
    wait_for 30 eval '[ "$(calls "'"$1"'")" -ge '"$2"' ]'
    sandbox GET "/requests?provider=${1%/*}&endpoint=${1#*/}"
    same "$2" "$(jq length "$work/control")" "log-out → the expected number of calls: ${1#*/}"
}
