#!/usr/bin/env bash
# The recipes of deploy/proxy in front of the broker itself, behind real servers: nginx, Caddy, HAProxy, Apache. Each gets the
# recipe file with its placeholders filled in. Logins, streams, odd paths and a broker that is away are tested through it. The
# matching walk has to notice each copy of a recipe that has lost one thing. proxy-replicas.py tests several replicas.
#   proxies.sh [SERVER…]
source "$(dirname "$0")/../support/lib.bash"
PATH="$PATH:/usr/sbin:/sbin"
recipes=$root/deploy/proxy
servers=("${@:-nginx}")
[ $# -gt 0 ] || servers=(nginx caddy haproxy apache)
for program in "${servers[@]}"; do
    command -v "${program/apache/apache2}" >/dev/null || { echo "Bail out! $program is missing: scripts/setup test"; exit 1; }
done
# Apache's workers drop root, so they need readable files: the folder is outside the run's own.
place=$(mktemp -d /tmp/coatcheck-proxies.XXXXXX)
chmod 711 "$place"
trap 'stop_stack; rm -rf "$place"' EXIT

# ---- the servers -----------------------------------------------------------------------------------------------------

declare -A site logs

# recipe FOLDER FILE…: the recipe's files with the placeholders filled in
recipe() {
    local folder=$1 file
    shift
    for file in "$@"; do
        sed -e "s|@BROKER@|127.0.0.1:$BROKER_PORT|g" -e "s|@LISTEN@|127.0.0.1:$port|g" -e "s|@NAME@|localhost|g" \
            -e "s|@SITE@|http://127.0.0.1:$port|g" -e "s|@FOLDER@|$folder|g" -e "s|@LOG@|$folder/access.log|g" \
            -e "s|@MANAGEMENT_PORT@|$MANAGEMENT_PORT|g" "$recipes/$file" >"$folder/$file"
        if grep -n '@[A-Z_]*@' "$folder/$file"; then give_up "$file has an unknown placeholder, it"; fi
    done
}

# serve SERVER: starts the server; SITE is its address
serve() {
    local folder
    folder=$(mktemp -d "$place/$1.XXXXXX")
    chmod 755 "$folder"
    : >"$folder/access.log"
    chmod 666 "$folder/access.log"
    port=$(free_port)
    SITE="http://127.0.0.1:$port"
    logs[$1]="$folder/access.log $work/$1.log"
    "serve_$1" "$folder" >"$work/$1.log" 2>&1 &
    pids+=($!)
    wait_for 20 curl -s -o /dev/null "$SITE/" || give_up "$1"
}

serve_nginx() {
    recipe "$1" nginx.conf
    cat >"$1/main.conf" <<TEXT
daemon off;
worker_processes 1;
pid $1/pid;
error_log stderr warn;
events { worker_connections 256; }
http {
    client_body_temp_path $1/body; proxy_temp_path $1/proxy; fastcgi_temp_path $1/fastcgi;
    uwsgi_temp_path $1/uwsgi; scgi_temp_path $1/scgi;
    include $1/nginx.conf;
}
TEXT
    [ "$(id -u)" -ne 0 ] || sed -i "1i user root;" "$1/main.conf"
    exec nginx -e stderr -c "$1/main.conf"
}

serve_caddy() {
    recipe "$1" Caddyfile
    sed -i '1i {\n\tadmin off\n}' "$1/Caddyfile"
    HOME=$1 XDG_DATA_HOME=$1 XDG_CONFIG_HOME=$1 exec caddy run --adapter caddyfile --config "$1/Caddyfile"
}

serve_haproxy() {
    recipe "$1" haproxy.cfg
    cp "$recipes/away.http" "$1/"
    exec haproxy -db -f "$1/haproxy.cfg"
}

serve_apache() {
    local modules=/usr/lib/apache2/modules module
    recipe "$1" apache.conf
    cp "$recipes/away.asis" "$1/"
    {
        for module in mpm_event authz_core headers alias asis slotmem_shm proxy proxy_http proxy_balancer lbmethod_byrequests; do
            echo "LoadModule ${module}_module $modules/mod_$module.so"
        done
        echo "ServerRoot $1"
        echo "ServerName localhost"
        echo "PidFile $1/pid"
        echo "DefaultRuntimeDir $1"
        echo "ErrorLog /dev/stderr"
        echo "StartServers 1"
        [ "$(id -u)" -ne 0 ] || printf 'User www-data\nGroup www-data\n'
        cat "$1/apache.conf"
    } >"$1/main.conf"
    exec apache2 -d "$1" -f "$1/main.conf" -D FOREGROUND
}

# ---- what is asked of each -------------------------------------------------------------------------------------------

# raw PATH-AND-QUERY [curl options…]: status and problem code at the broker and through the proxy
raw() {
    local path=$1 direct
    shift
    request GET "http://127.0.0.1:$BROKER_PORT$path" --path-as-is -H "Host: $named" "$@"
    direct="$STATUS $(json .code) $(json .path)$(json .query)"
    request GET "$SITE$path" --path-as-is "$@"
    same "$direct" "$STATUS $(json .code) $(json .path)$(json .query)" "$path → arrives as it is"
}

# last_client PATH: the address that the broker's log has for the last request of a route
last_client() { grep -F "\"route\":\"$1\"" "$work/broker.log" | tail -1 | sed 's/.*"client":"\([^"]*\)".*/\1/'; }

under_way='^coatcheck_relay_calls_under_way\{upstream="api"\}'

# soon COMMAND…: whether it succeeds within the time that a busy machine needs
soon() { wait_for "${PATIENCE:-10}" "$@"; }

walk_login() {
    step "$1: a login, by its own name"
    device "phone-$1"
    sign_in oidc ios ana
    expect_status 201 "login through the proxy → signed in"
    cookie=$(cookie coatcheck)
    request GET /v1/session
    expect_status 200 "session read through the proxy → 200"
    expect_json .provider oidc
}

walk_address() {
    step "$1: the client's address"
    JAR=
    request GET /v1/session -H "Cookie: coatcheck=$cookie" --interface 127.0.0.7 -H 'X-Forwarded-For: 203.0.113.9' \
        -H 'X-Forwarded-Proto: https' -H 'Forwarded: for=203.0.113.9' -H 'X-Real-IP: 203.0.113.9'
    expect_status 200 "forged address headers → the request passes"
    soon eval '[ "$(last_client /v1/session)" = 127.0.0.7 ]'
    same 127.0.0.7 "$(last_client /v1/session)" "forged address headers → the broker knows the client's real address"
    request GET /v1/session -H 'Host: evil.example'
    matches '^(421|200)$' "$STATUS" "a request with another Host → 421 from the broker, or an empty answer from the proxy"
    [ "$STATUS" = 421 ] || same "" "$(body)" "another Host, answered by the proxy → an empty body"
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
    expect_problem 502 provider_error "broken provider, the broker's own 502"
    same "" "$(header Retry-After)" "broken provider → no Retry-After from the proxy"
    fault oidc '{"fault":"status","status":503,"headers":{"Retry-After":"9"},"endpoint":"token","times":1}'
    device "busy-$1"
    sign_in oidc ios ben
    expect_problem 503 provider_unavailable "busy provider, the broker's own 503"
    matches '^[0-9]+$' "$(header Retry-After)" "busy provider → the broker's own Retry-After: $(header Retry-After)"
    JAR=
    request GET /v1/session -H 'Cookie: coatcheck=none'
    expect_header Cache-Control no-store
    same "$STATUS" "$(json .status)" "unknown cookie → the problem document arrives complete"
}

walk_streams() {
    local pid
    step "$1: streams"
    JAR=
    : >"$work/events"
    curl -s -N -m 60 -H "Cookie: coatcheck=$cookie" "$SITE/v1/session/events" >"$work/events" 2>/dev/null &
    pid=$!
    soon grep -q '^event: session' "$work/events"
    same 0 $? "new event stream → the first event arrives at once"
    request POST /v1/session/refresh -H "Cookie: coatcheck=$cookie"
    expect_status 200 "refresh while the stream is open → 200"
    soon grep -q '^event: tokens_refreshed' "$work/events"
    same 0 $? "refresh while the stream is open → its event arrives"
    kill "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
    : >"$work/events"
    # An answer of half a minute, a bit of it every tenth of a second.
    curl -s -N -m 60 -H "Cookie: coatcheck=$cookie" "$SITE/v1/relay/api/private/events/300" >"$work/events" 2>/dev/null &
    pid=$!
    soon grep -q '^data: 0' "$work/events"
    same 0 $? "streamed upstream answer → its beginning arrives before its end"
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
    same 0 $? "an upload → reaches the upstream while it is being sent"
    head -c 3000000 /dev/zero | tr '\0' x >&"$upload"
    exec {upload}>&-
    wait "$pid"
    same 3100000 "$(json .body_length "$work/up.json")" "finished upload → arrives complete"
}

walk_download() {
    local pid
    step "$1: downloads"
    JAR=
    same 2000000 "$(curl -s -m 30 -H "Cookie: coatcheck=$cookie" "$SITE/v1/relay/api/private/bytes/2000000" | wc -c)" "download → arrives complete"
    wait_for 10 shows "$under_way 0\$"
    curl -s -m 60 --limit-rate 10k -o /dev/null -H "Cookie: coatcheck=$cookie" "$SITE/v1/relay/api/private/bytes/60000000" 2>/dev/null &
    pid=$!
    wait_for 10 shows "$under_way 1\$"
    wait_for "${LONG:-1}" shows "$under_way 0\$"
    same 1 $? "slowly read download → not stored on the way"
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
    same "" "$(grep -ho "canary-$1" ${logs[$1]} | head -1)" "callback → no query string in the proxy's log"
}

walk_bound() {
    step "$1: sessions that belong to a key"
    "$PYTHON" "$root/Tests/scenarios/support/bound_app.py" front "$1" "$SITE" "$direct" >"$work/$1.bound" 2>&1 \
        || not_ok "$1: the script for bound sessions runs to its end" "$(tail -1 "$work/$1.bound")"
    take_over <"$work/$1.bound"
}

# walk_away SERVER: the broker is killed
walk_away() {
    local method
    step "$1: the broker is killed"
    JAR=
    for method in GET POST; do
        request "$method" "$SITE/v1/session" -H "Cookie: coatcheck=$cookie"
        expect_problem 503 shutting_down "broker killed, $method"
        expect_json .status 503
        expect_header Content-Type application/problem+json
        matches '^[0-9]+$' "$(header Retry-After)" "broker killed → 503 with Retry-After"
        expect_header Cache-Control no-store
        expect_header Coatcheck-Source broker
        same "" "$(header Set-Cookie)" "broker killed → the session cookie stays"
    done
}

# at SERVER: the walks go through it
at() {
    SITE=${site[$1]}
    named=${SITE#http://}
    BROKER=$SITE
    cookie=${late[$1]:-}
}

# ---- recipes that have lost something --------------------------------------------------------------------------------

# copies: the broken copies of a server, one a line: the file, the edit, the walk, and its verdict. A server with the right
# default is not listed.
copies() {
    case $1 in
        nginx) cat <<'TEXT' ;;
nginx.conf|/Host $http_host/d|login|signed in
nginx.conf|/X-Forwarded-For/d|address|the broker knows the client
nginx.conf|s,http://coatcheck;,http://coatcheck/;,|paths|arrives as it is
nginx.conf|s/proxy_connect_timeout.*/&\n    proxy_intercept_errors on;/|errors|own 502
nginx.conf|/relay\/ {/,/}/s/proxy_buffering off;//|download|not stored on the way
nginx.conf|s/proxy_request_buffering off;//|streams|an upload
nginx.conf|s/\$uri/$request_uri/|log|no query string
nginx.conf|s,http://coatcheck;,http://coatcheck/;,|bound|for the path as the app sent it
nginx.conf|s/proxy_connect_timeout.*/&\n    proxy_hide_header WWW-Authenticate;/|bound|nonce, code and challenge
nginx.conf|/error_page 502/d|away|503 shutting_down
nginx.conf|/Retry-After/d|away|with Retry-After
TEXT
        caddy) cat <<'TEXT' ;;
Caddyfile|s/flush_interval.*/&\nheader_up Host other.example/|login|signed in
Caddyfile|s/flush_interval.*/&\nheader_up X-Forwarded-For {http.request.header.X-Forwarded-For}/|address|the broker knows the client
Caddyfile|s/flush_interval.*/&\nbuffer_requests/|streams|an upload
Caddyfile|s/flush_interval.*/&\nbuffer_responses/|streams|the first event
Caddyfile|s/request_body {/log\n&/|log|no query string
Caddyfile|s/in .502, 503/in [503/|away|503 shutting_down
Caddyfile|/Retry-After/d|away|with Retry-After
TEXT
        haproxy) cat <<'TEXT' ;;
haproxy.cfg|/X-Forwarded-For/d|address|the broker knows the client
haproxy.cfg|s/http-reuse safe/&\nhttp-response return status 503 default-errorfiles if { status 502 }/|errors|own 502
haproxy.cfg|s/%HPO/%HU/|log|no query string
haproxy.cfg|/errorfiles/d|away|503 shutting_down
away.http|/Retry-After/d|away|with Retry-After
TEXT
        apache) cat <<'TEXT' ;;
apache.conf|/X-Forwarded-For/d|address|the broker knows the client
apache.conf|s/ nocanon//|paths|arrives as it is
apache.conf|/AllowEncodedSlashes/d|paths|arrives as it is
apache.conf|s/ nocanon//|bound|for the path as the app sent it
apache.conf|s/ProxyRequests Off/&\nProxyErrorOverride On/|errors|own 502
apache.conf|s/%m %U/%r/|log|no query string
apache.conf|/ErrorDocument 503/d|away|503 shutting_down
away.asis|/Retry-After/d|away|with Retry-After
TEXT
    esac
}

# break_recipe SERVER NAME FILE CHANGE: starts the server with the recipe's copy under that name
break_recipe() {
    recipes=$work/recipes
    rm -rf "$recipes"
    cp -r "$root/deploy/proxy" "$recipes"
    sed -i "$4" "$recipes/$3"
    ! cmp -s "$root/deploy/proxy/$3" "$recipes/$3" || not_ok "the expression changes nothing: $4"
    serve "$1"
    site[$2]=$SITE
    logs[$2]=${logs[$1]}
    late[$2]=${late[$1]}
    recipes=$root/deploy/proxy
}

# notices NAME WALK SENTENCE CHANGE: the walk fails, with the right verdict
notices() {
    at "$1"
    (PATIENCE=1 LONG=30 failed=0; "walk_$2" "$1") >"$work/$1.red" 2>&1
    matches "$3" "$(grep '^not ok' "$work/$1.red")" "broken recipe → a check fails: $4"
}

# ---- the run ---------------------------------------------------------------------------------------------------------

declare -A late
away=()
with_packages
sed -e 's|^  public_url:.*|&\n  trusted_proxies: [127.0.0.1]|' -e 's|client_id: strict-app, |&binding: {mode: enforce}, |' \
    "$here/coatcheck.yaml" >"$work/stack.yaml"
start_stack "$work/stack.yaml"
direct=$BROKER
for server in "${servers[@]}"; do
    serve "$server"
    site[$server]=$SITE
done
for server in "${servers[@]}"; do
    for walk in login address paths errors streams download log bound; do
        at "$server"
        "walk_$walk" "$server"
        late[$server]=$cookie
    done
done
for server in "${servers[@]}"; do
    step "$server: each broken copy of the recipe makes a check fail"
    while IFS='|' read -r file change walk sentence; do
        name=$server-$((${count:=0} + 1))
        count=$((count + 1))
        break_recipe "$server" "$name" "$file" "$change"
        if [ "$walk" = away ]; then away+=("$name|$sentence|$change"); else notices "$name" "$walk" "$sentence" "$change"; fi
    done < <(copies "$server")
done

# two_servers SED-EXPRESSION: starts HAProxy with the recipe's commented lines for several replicas; SITE is its address. Behind
# it are the broker and a server that is not ready and answers all apps wrongly.
two_servers() {
    local folder
    folder=$(mktemp -d "$place/two.XXXXXX")
    port=$(free_port)
    recipe "$folder" haproxy.cfg
    sed -i -E -e 's/^    # (option httpchk|default-server )/    \1/' \
        -e "s|^    server coatcheck1.*|&\n    server coatcheck2 127.0.0.1:$unready_port port $unready_port|" -e "$1" "$folder/haproxy.cfg"
    cp "$recipes/away.http" "$folder/"
    haproxy -db -f "$folder/haproxy.cfg" >"$work/two.log" 2>&1 &
    pids+=($!)
    SITE="http://127.0.0.1:$port"
    wait_for 20 curl -s -o /dev/null "$SITE/" || give_up "HAProxy with two servers"
}
# answers: the different statuses of twenty requests
answers() { for _ in {1..20}; do curl -s -m 10 -o /dev/null -w '%{http_code}\n' -H "Cookie: coatcheck=$cookie" "$SITE/v1/session"; done | sort -u | tr '\n' ' '; }
if [[ " ${servers[*]} " == *" haproxy "* ]]; then
    step "haproxy: one of two servers is not ready"
    at haproxy
    unready_port=$(free_port)
    python3 -c 'import http.server, sys
class Unready(http.server.BaseHTTPRequestHandler):
    def do_GET(self): self.send_response(503 if self.path == "/readyz" else 418); self.send_header("Content-Length", "0"); self.end_headers()
    do_OPTIONS = do_GET
    def log_message(self, *arguments): pass
http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Unready).serve_forever()' "$unready_port" &
    pids+=($!)
    wait_for 10 listens "$unready_port"
    two_servers 's/ inter 2s/ inter 200ms/'
    wait_for 20 grep -q 'coatcheck/coatcheck2 is DOWN' "$work/two.log"
    same 0 $? "one server not ready → the health check removes it"
    same "200 " "$(answers)" "one server removed → the other answers every request"
    same 0 "$(grep -c 'coatcheck/coatcheck1 is DOWN' "$work/two.log")" "one server removed → the ready one stays"
    two_servers 's/ inter 2s/ inter 200ms/; s|option httpchk GET /readyz|option httpchk|'
    wait_for 20 grep -q 'coatcheck/coatcheck1 is DOWN' "$work/two.log"
    same 0 $? "health check without a path → removes the ready server too"
fi
kill_broker KILL
for server in "${servers[@]}"; do
    at "$server"
    walk_away "$server"
done
step "Recipes broken for a killed broker make a check fail"
for copy in "${away[@]}"; do
    IFS='|' read -r name sentence change <<<"$copy"
    notices "$name" away "$sentence" "${name%-*}: $change"
done

step "The broker runs again"
BROKER=$direct
JAR=
start_broker
for server in "${servers[@]}"; do
    request GET "${site[$server]}/v1/session" -H "Cookie: coatcheck=${late[$server]}"
    expect_status 200 "$server: broker restarted → the same session passes"
done
finish
