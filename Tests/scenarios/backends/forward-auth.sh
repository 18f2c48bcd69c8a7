#!/usr/bin/env bash
# The forward-auth recipes of deploy/forward-auth behind real servers: nginx, Caddy, HAProxy, Apache. Each gets the recipe file
# with its placeholders filled in, and a protected service that shows the received headers (SEC-85, SEC-86, SEC-87).
# forward-auth-demands.py tests the demands for single paths. The recipes ask on the backends' own listener. curl sends the
# requests of Traefik, a peer without a credential.
#   forward-auth.sh [SERVER…]
source "$(dirname "$0")/../support/lib.bash"
PATH="$PATH:/usr/sbin:/sbin"
recipes=$root/deploy/forward-auth
servers=("${@:-nginx}")
[ $# -gt 0 ] || servers=(nginx caddy haproxy apache)
for program in "${servers[@]}"; do
    command -v "${program/apache/apache2}" >/dev/null || { echo "Bail out! $program is missing: scripts/setup test"; exit 1; }
done

# Apache's workers drop root, so they need readable files: the folder is outside the run's own.
place=$(mktemp -d /tmp/coatcheck-forward-auth.XXXXXX)
chmod 711 "$place"
trap 'stop_stack; rm -rf "$place"' EXIT

# ---- the servers -----------------------------------------------------------------------------------------------------

declare -A site stranger

# recipe FOLDER FILE…: the recipe's files with the placeholders filled in
recipe() {
    local folder=$1 file
    shift
    for file in "$@"; do
        sed -e "s|@BROKER@|127.0.0.1:$BACKENDS_PORT|g" -e "s|@BROKER_NAME@|127.0.0.1:$BROKER_PORT|g" \
            -e "s|@UPSTREAM@|127.0.0.1:$upstream_port|g" -e "s|@LISTEN@|127.0.0.1:$port|g" -e "s|@NAME@|localhost|g" \
            -e "s|@SITE@|http://127.0.0.1:$port|g" -e "s|@TIMEOUT@|2|g" -e "s|@FOLDER@|$folder|g" \
            -e "s|@CREDENTIAL_FILE@|$folder/credential|g" -e "s|@ORIGIN@|https://app.example.com|g" -e "${BREAK:-}" "$recipes/$file" >"$folder/$file"
        if grep -n '@[A-Z_]*@' "$folder/$file"; then give_up "$file has an unknown placeholder, it"; fi
    done
}

# serve SERVER CREDENTIAL: starts the server; SITE is its address
serve() {
    local server=$1 credential=$2 folder
    folder=$(mktemp -d "$place/$server.XXXXXX")
    chmod 755 "$folder"
    port=$(free_port)
    SITE="http://127.0.0.1:$port"
    printf '%s\n' "$credential" >"$folder/credential"
    "serve_$server" "$folder" "$credential" >"$work/$server-$port.log" 2>&1 &
    pids+=($!)
    wait_for 15 curl -s -o /dev/null "$SITE/" || give_up "$server"
}

serve_nginx() {
    recipe "$1" nginx.conf nginx-http.conf nginx-gate.conf nginx-service.conf
    printf 'proxy_set_header X-Coatcheck-Backend "%s";\n' "$2" >"$1/credential"
    cat >"$1/main.conf" <<TEXT
load_module /usr/lib/nginx/modules/ngx_http_headers_more_filter_module.so;
daemon off;
worker_processes 1;
pid $1/pid;
error_log stderr info;
events { worker_connections 256; }
http {
    access_log off;
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
    COATCHECK_CREDENTIAL=$2 HOME=$1 XDG_DATA_HOME=$1 XDG_CONFIG_HOME=$1 \
        exec caddy run --adapter caddyfile --config "$1/Caddyfile"
}

serve_haproxy() {
    recipe "$1" haproxy.cfg haproxy.lua
    exec haproxy -db -f "$1/haproxy.cfg"
}

serve_apache() {
    local modules=/usr/lib/apache2/modules module
    recipe "$1" apache.conf apache.lua
    {
        for module in mpm_event authz_core headers lua setenvif proxy proxy_http; do
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

served() { curl -s -m 10 "http://127.0.0.1:$upstream_port/count"; }

# denied SENTENCE STATUS-EXPRESSION METHOD [curl options…]: the answer has that status, and the service was not reached
denied() {
    local sentence=$1 expected=$2 method=$3 before
    shift 3
    before=$(served)
    if [ "$method" = HEAD ]; then
        STATUS=$(curl -s -m 20 -I -o "$work/headers" -w '%{http_code}' "$@" "$SITE/orders") || true
        : >"$work/body"
    else
        request "$method" "$SITE/orders" "$@"
    fi
    matches "^($expected)\$" "$STATUS" "$sentence → $expected"
    same "$before" "$(served)" "$sentence → the service is not reached"
    if grep -q protected "$work/body"; then not_ok "$sentence → no content of the service"; fi
}

# saw NAME EXPECTED SENTENCE: the values that the service got for a header in any spelling
saw() { same "$2" "$(json ".fields.$1")" "$3"; }

# at_once NAME [curl options…]: sends sixty requests, fifteen at a time; failed ones are retried, as an app does
at_once() {
    local name=$1
    shift
    curl -s -m 40 -Z --parallel-max 15 --retry 2 --retry-all-errors "$@" -o "$work/$name-#1" \
        -w '%{http_code} %header{retry-after} curl %{exitcode} %{errormsg}\n' "$SITE/orders/[1-60]" >"$work/$name.outcomes" 2>/dev/null
}

# all_hers NAME SUBJECT: each of the sixty names this user
all_hers() {
    same "60 $2" "$(subjects "$1")" "parallel requests of one user → every answer names that user"
    grep -v '^200  curl 0' "$work/$1.outcomes" | sed 's/^/#   /'
}

# subjects NAME: the number of its answers for each subject
subjects() {
    sed -n 's/.*"x_auth_subject": \["\([^]]*\)"\].*/\1/p' "$work/$1"-* | sort | uniq -c | sed 's/^ *//'
}

walk_live() {
    local cookie handle secret other sign forged=()
    SITE=${site[$1]}

    step "$1: no session"
    device "nobody-$1"
    denied "no session" 401 GET
    expect_header Content-Type application/problem+json
    matches '^Bearer realm="coatcheck"$' "$(header WWW-Authenticate)" "no session → one challenge, for the session"
    expect_json .code session_required
    expect_json .status 401
    same "" "$(header Location)" "no session → no redirect (SEC-89)"
    denied "forged identity headers without a session" 401 GET -H 'X-Auth-Subject: mallory' -H 'X-Auth-Session: ses_0000000000000000000000'
    denied "POST without a session" 401 POST --data-binary 'name=value'
    denied "OPTIONS without a session (SEC-85)" 401 OPTIONS -H 'User-Agent: GoogleHC/1.0'
    denied "HEAD without a session" 401 HEAD
    denied "a header that names a public path, without a session" 401 GET -H 'X-Original-URI: /healthz' -H 'X-Forwarded-Uri: /healthz'
    denied "a cookie without a session behind it" '4..' GET -H 'Cookie: coatcheck=nonsense'
    denied "the client sends a backend's credential itself" 401 GET -H 'X-Coatcheck-Backend: gateway-credential-4f1d9c' -H 'X-Coatcheck-Session: x'

    step "$1: a live session"
    device "device-$1"
    sign_in oidc ios ana
    expect_status 201 "first device signs in → a session"
    cookie=$(cookie coatcheck)
    handle=$(json .handle)
    secret=$(json .subject)
    JAR= # cookies are named by hand from here
    request GET "$SITE/orders?a=b%20c" -H "Cookie: theme=dark; coatcheck=$cookie; lang=en"
    expect_status 200 "live session → the request passes"
    expect_json .path '/orders?a=b%20c'
    same "" "$(header DPoP-Nonce)" "cookie session → the answer contains no DPoP-Nonce"
    saw x_auth_subject "[\"$secret\"]" "live session → the service gets the subject"
    saw x_auth_session "[\"$handle\"]" "live session → the service gets the session's handle"
    saw x_auth_provider '["oidc"]' "live session → the service gets the provider"
    saw x_auth_client '["ios"]' "live session → the service gets the client"
    matches 'openid' "$(json .fields.x_auth_scope)" "live session → the service gets the scope"
    saw cookie '["theme=dark; lang=en"]' "session cookie among others → the service gets only the others"
    saw x_coatcheck_backend "" "live session → the service does not get the backend's credential"
    request GET "$SITE/orders" -H "Cookie: coatcheck=$cookie"
    expect_status 200 "only the session cookie → the request passes"
    matches '^(|\[""\])$' "$(json .fields.cookie)" "only the session cookie → the service gets no cookie"
    request GET "$SITE/orders" -H "Cookie: coatcheck-login=xyz; a=1; coatcheck=$cookie; coatcheck-theme=1"
    saw cookie '["a=1; coatcheck-theme=1"]' "session and login cookie among others → only these two are removed"
    request GET "$SITE/orders" \
        -H "Cookie: coatcheck-web=w; a=1; coatcheck=$cookie; coatcheck-webs=2; coatcheck-handover=h"
    saw cookie '["a=1; coatcheck-webs=2"]' "web view's and hand-over's cookies → removed too"
    request GET "$SITE/orders" -H "Cookie: coatcheck=$cookie" -H 'Coatcheck-Presence: a.b.c' -H 'Coatcheck_Presence: a.b.c'
    expect_status 200 "unrequested proof of presence → the request passes"
    saw coatcheck_presence "" "unrequested proof of presence → the service does not get it"
    request POST "$SITE/orders" -H "Cookie: coatcheck=$cookie" -H 'Content-Type: text/plain' --data-binary 'two coats'
    expect_status 200 "POST with a live session → passes"
    expect_json .method POST
    expect_json .body 'two coats' "POST with a live session → its body arrives"
    head -c 300000 /dev/zero | tr '\0' x >"$work/large"
    request PUT "$SITE/orders" -H "Cookie: coatcheck=$cookie" -H 'Expect: 100-continue' --data-binary "@$work/large"
    expect_status 200 "PUT with a large body → passes"
    same 300000 "$(json .body | tr -d '\n' | wc -c)" "PUT with a large body → arrives complete"

    step "$1: a live session with forged headers (SEC-86)"
    # Every sign of a header's name (RFC 9110) that CGI writes as an underscore.
    for sign in _ . '!' '#' '$' '%' '&' "'" '*' '+' '^' '`' '|' '~'; do
        forged+=(-H "X${sign}Auth${sign}Subject: mallory" -H "x${sign}auth-email: mallory" -H "X-Auth${sign}Token: mallory" \
            -H "X${sign}Coatcheck${sign}Session: mallory")
    done
    request GET "$SITE/orders" -H "Cookie: coatcheck=$cookie" \
        -H 'X-Auth-Subject: mallory' -H 'X_Auth_Subject: mallory' -H 'X-Auth_Subject: mallory' -H 'X_Auth-Subject: mallory' \
        -H 'x_auth_subject: mallory' -H 'X.Auth.Subject: mallory' -H 'X-AUTH-EMAIL: mallory@example.org' \
        -H 'X_Auth_Token: mallory' -H 'X-Auth-Token: mallory' -H 'X-Auth-Roles: mallory' -H 'X_Auth_Roles: mallory' \
        -H 'X-Coatcheck-Backend: mallory' -H 'X_Coatcheck_Backend: mallory' -H 'X-Coatcheck-Session: mallory' \
        -H 'X_Coatcheck_Session: mallory' -H 'X-Coatcheck-Anything: mallory' "${forged[@]}"
    expect_status 200 "live session with forged headers → passes"
    saw x_auth_subject "[\"$secret\"]" "forged headers → the service sees only the broker's subject"
    same "" "$(grep -o mallory "$work/body" | head -1)" "forged headers → no forged value reaches the service"
    for other in 'X-Auth-Subject' 'close, x-auth-subject, x-auth-session' 'keep-alive, X_Auth_Subject'; do
        request GET "$SITE/orders" -H "Cookie: coatcheck=$cookie" -H "Connection: $other" -H 'X-Auth-Subject: mallory'
        if [ "$STATUS" = 400 ]; then ok "Connection: $other → refused"; else
            saw x_auth_subject "[\"$secret\"]" "Connection: $other → the identity header stays"
        fi
    done

    step "$1: ambiguous sessions, and sessions this backend may not use"
    denied "two session cookies" 400 GET -H "Cookie: coatcheck=$cookie; coatcheck=mallory"
    device "clever-$1"
    sign_in oauth2 ios ben
    expect_status 201 "sign-in at another provider → a session"
    denied "a session of a provider outside the backend's list" 403 GET
    expect_json .code backend_not_allowed

    step "$1: a bearer client"
    device "bearer-$1"
    sign_in oidc android eva
    expect_status 201 "bearer client signs in → a session"
    other=$(json .session_token)
    secret=$(json .subject)
    request GET "$SITE/orders" -H "Authorization: Bearer $other"
    expect_status 200 "bearer session → the request passes"
    saw x_auth_subject "[\"$secret\"]" "bearer session → the service gets the subject"
    saw authorization "" "bearer session → the service does not get the session token"
    denied "an unknown bearer token" 401 GET -H "Authorization: Bearer $(tr "A-Za-z" "B-ZAb-za" <<<"$other")"

    step "$1: two users at once"
    at_once "ana-$1" -H "Cookie: coatcheck=$cookie" &
    at_once "eva-$1" -H "Authorization: Bearer $other"
    wait $!
    all_hers "ana-$1" user-ana
    all_hers "eva-$1" user-eva

    step "$1: the server's own backend credential is wrong"
    SITE=${stranger[$1]}
    denied "the server sends an unknown credential" 503 GET -H "Cookie: coatcheck=$cookie"
    same "" "$(header Set-Cookie)" "wrong backend credential → the session cookie stays"

    step "$1: the session has ended"
    SITE=${site[$1]}
    device "nobody-$1"
    request DELETE /v1/session -H "Cookie: coatcheck=$cookie"
    expect_status 204 "cookie session logs out → 204"
    denied "the ended cookie session" 401 GET -H "Cookie: coatcheck=$cookie"
    expect_json .code session_ended
    expect_json .reason logged_out "ended cookie session → the reason logged_out"
    matches 'Max-Age=0' "$(header Set-Cookie)" "ended cookie session → the answer clears the cookie"
    request DELETE /v1/session -H "Authorization: Bearer $other"
    expect_status 204 "bearer client logs out → 204"
    denied "the ended bearer session" 401 GET -H "Authorization: Bearer $other"
    same "session_ended logged_out" "$(json .code) $(json .reason)" "ended bearer session → session_ended with the reason logged_out"
}

# walk_bound SERVER: sessions that belong to a key
walk_bound() {
    step "$1: sessions that belong to a key"
    "$PYTHON" "$root/Tests/scenarios/support/bound_app.py" gate "$1" "${site[$1]}" "$BROKER" https://app.example.com \
        "http://127.0.0.1:$upstream_port" >"$work/$1.bound" 2>&1 || not_ok "$1: the script for bound sessions runs to its end" "$(tail -1 "$work/$1.bound")"
    take_over <"$work/$1.bound"
}

# copies SERVER: copies of its recipe that have lost one thing, one a line: the edit, and the verdict that notices it
copies() {
    case $1 in
        nginx) cat <<'TEXT' ;;
/DPoP \$http_dpop/d|a proof without a nonce → 401
/Coatcheck-Pass \$http/d|DPoP with Coatcheck-Pass
/X-Original-URL/d|the proof at its own request
s/X-Original-Method .*/X-Original-Method GET;/|by another method → 401
s/X-Original-URL .*/X-Original-URL $http_x_original_url;/|with the fields of its own request
/proxy_set_header DPoP "";/d|sees no dpop
/proxy_set_header Coatcheck-Pass "";/d|the service sees it nowhere
s/coatcheck-pass=\[/coatcheck-none=[/|as a cookie → the service does not see it
/add_header Coatcheck-Code/d|alone → nonce, code and challenge
/add_header DPoP-Nonce/d|alone → nonce, code and challenge
/"~^401 .*coatcheck_challenge/d|alone → nonce, code and challenge
/<coatcheck_named>/d|a copied cookie alone → 401
/Set-Cookie \$coatcheck_clear_pass/d|both cookies are cleared
TEXT
        caddy) cat <<'TEXT' ;;
/X-Original-URL/d|the proof at its own request
s/X-Original-Method .*/X-Original-Method GET/|by another method → 401
/header_up X-Original-/d|with the fields of its own request
/header_up -X-Forwarded-Uri/d|the proof at its own request
/header_up -X-Forwarded-Method/d|by another method, with the fields
/request_header -DPoP/d|sees no dpop
/request_header -Coatcheck-Pass/d|the service sees it nowhere
s/|-pass//|as a cookie → the service does not see it
TEXT
        haproxy) cat <<'TEXT' ;;
/\["dpop"\]/d|a proof without a nonce → 401
/\["coatcheck-pass"\]/d|DPoP with Coatcheck-Pass
/\["x-original-url"\]/d|the proof at its own request
s/txn.sf:method()/"GET"/|by another method → 401
s/origin .. txn.sf:pathq()/first(fields["x-original-url"])/|with the fields of its own request
/del-header DPoP$/d|sees no dpop
/del-header .coatcheck/d|the service sees it nowhere
s/coatcheck-pass=\[/coatcheck-none=[/|as a cookie → the service does not see it
s/"coatcheck-code", //|alone → nonce, code and challenge
s/"dpop-nonce",$//|alone → nonce, code and challenge
TEXT
        apache) cat <<'TEXT' ;;
/\["DPoP"\]/d|a proof without a nonce → 401
/\["Coatcheck-Pass"\]/d|DPoP with Coatcheck-Pass
/\["X-Original-URL"\]/d|the proof at its own request
s/= r.method,/= "GET",/|by another method → 401
s/origin .. r.unparsed_uri.*/r.headers_in["X-Original-URL"],/|with the fields of its own request
s/:gsub("^%a.*/,/|GET http:
/RequestHeader unset DPoP/d|sees no dpop
/RequestHeader unset Coatcheck-Pass/d|the service sees it nowhere
s/|-pass//|as a cookie → the service does not see it
s/"Coatcheck-Code", //|alone → nonce, code and challenge
s/, "DPoP-Nonce" }/ }/|alone → nonce, code and challenge
s/kept\["Set-Cookie"\] = cookie or/kept["Set-Cookie"] =/|both cookies are cleared
TEXT
    esac
}

# walk_copies SERVER: the walk fails for each copy, with the right verdict
walk_copies() {
    local change sentence recipe=${site[$1]}
    step "$1: each broken copy of the recipe makes a check fail"
    while IFS=$'\t' read -r change sentence; do
        BREAK=$change serve "$1" gateway-credential-4f1d9c
        site[$1]=$SITE
        (failed=0; walk_bound "$1") >"$work/$1.red" 2>&1
        same "not ok" "$(grep -aE "^not ok .*$sentence" "$work/$1.red" | head -1 | cut -c1-6)" "broken recipe → a check fails: $change"
    done < <(copies "$1" | sed -E 's/\|([^|]*)$/\t\1/')
    site[$1]=$recipe
}

# walk_broken SERVER: the recipe's script fails
walk_broken() {
    case $1 in haproxy | apache) ;; *) return ;; esac
    step "$1: the server's script for forward-auth fails"
    # The called function is nil, and the script does not catch that.
    BREAK='s/pcall(/nothing_of_this_name(/' serve "$1" gateway-credential-4f1d9c
    denied "a failing script" '50[03]' GET -H "Cookie: coatcheck=$late"
}

# walk_dead SERVER: with a cookie and without
walk_dead() {
    SITE=${site[$1]}
    step "$1: the broker is killed (SEC-87)"
    denied "broker killed, live session" 503 GET -H "Cookie: coatcheck=$late"
    expect_json .status 503
    matches '^[0-9]+$' "$(header Retry-After)" "broker killed → Retry-After in seconds"
    same "" "$(header Set-Cookie)" "broker killed → the session cookie stays"
    denied "broker killed, no session" 503 GET -H 'X-Auth-Subject: mallory'
    denied "broker killed, POST with a live session" 503 POST --data-binary x -H "Cookie: coatcheck=$late"
}

# walk_faults SERVER: another server answers in the broker's place
walk_faults() {
    local answer
    SITE=${site[$1]}
    step "$1: the broker's answers other than yes"
    become busy
    denied "broker answers 503" 503 GET -H "Cookie: coatcheck=$late"
    expect_header Retry-After 7 "broker answers 503 → its own Retry-After passes"
    become limited
    denied "broker answers 429" 429 GET -H "Cookie: coatcheck=$late"
    expect_header Retry-After 7 "broker answers 429 → its own Retry-After passes"
    become ambiguous
    denied "broker answers 400" 400 GET -H "Cookie: coatcheck=$late"
    become forbidden
    denied "broker answers 403" 403 GET -H "Cookie: coatcheck=$late"
    for answer in broken bad-gateway misdirected redirect not-modified html nothing slow; do
        become "$answer"
        denied "broker's answer is $answer" 503 GET -H "Cookie: coatcheck=$late"
        matches '^[0-9]+$' "$(header Retry-After)" "broker's answer is $answer → Retry-After in seconds"
    done
    step "$1: a live session needs a step-up or a proof of presence"
    for answer in 'step-up step_up_required Step-up required' 'presence presence_required Presence required' \
        'presence-nonce presence_invalid Invalid proof of presence'; do
        become "${answer%% *}"
        answer=${answer#* }
        denied "${answer%% *}" 401 GET -H "Cookie: coatcheck=$late"
        same "$answer" "$(json .code) $(json .title)" "demand for more evidence → its code and title"
        expect_header Coatcheck-Code "${answer%% *}" "demand for more evidence → Coatcheck-Code repeats the code"
        matches "error=\"(${answer%% *}|insufficient_user_authentication)\"" "$(header WWW-Authenticate)" "demand for more evidence → its error in WWW-Authenticate"
        same "" "$(header Set-Cookie)" "demand for more evidence → the session cookie stays"
    done
    expect_json .reason nonce "proof of presence with an old nonce → reason nonce"
    expect_header DPoP-Nonce the-next-nonce-0 "proof of presence with an old nonce → the next nonce"
    step "$1: the broker's yes contains a nonce for the next proof"
    become aging
    request GET "$SITE/orders" -H "Cookie: coatcheck=$late"
    expect_status 200 "broker's yes with a nonce → the request passes"
    expect_header DPoP-Nonce the-next-nonce-0 "broker's yes with a nonce → the app gets the broker's nonce"
}

# walk_traefik: the requests of Traefik's forwardAuth, from its address and without a credential
walk_traefik() {
    local cookie from
    step "traefik: accepted by its address, only on the backends' own listener"
    device traefik
    sign_in oidc ios ana
    cookie=$(cookie coatcheck)
    JAR=
    # ask PORT FROM [curl options…]
    ask() {
        local port=$1 from=$2
        shift 2
        request GET "http://127.0.0.1:$port/v1/forward-auth" --interface "$from" -H 'X-Forwarded-For: 198.51.100.7' \
            -H 'X-Forwarded-Method: GET' -H 'X-Forwarded-Proto: https' -H 'X-Forwarded-Host: app.example.org' \
            -H 'X-Forwarded-Uri: /orders' "$@"
    }
    ask "$BACKENDS_PORT" 127.0.0.2 -H "Cookie: coatcheck=$cookie"
    same "200 user-ana" "$STATUS $(header X-Auth-Subject)" "Traefik's address, live session → passes"
    ask "$BACKENDS_PORT" 127.0.0.2
    expect_problem 401 session_required "Traefik's address, no session"
    ask "$BACKENDS_PORT" 127.0.0.1 -H "Cookie: coatcheck=$cookie"
    expect_problem 401 backend_unauthorized "another address without a credential"
    for from in 127.0.0.1 127.0.0.2; do
        ask "$BROKER_PORT" "$from" -H "Cookie: coatcheck=$cookie"
        expect_problem 404 not_found "forward-auth on the public listener, from $from"
    done
}

become() { curl -s -f -o /dev/null -X PUT --data "$1" "http://127.0.0.1:$BACKENDS_PORT/mode" || not_ok "mode $1"; }

# ---- the run ---------------------------------------------------------------------------------------------------------

with_packages
BACKENDS_PORT=$(free_port)
sed -e "s|^  public_url:.*|&\n  backend_listen: 127.0.0.1:$BACKENDS_PORT\n  trusted_proxies: [127.0.0.2]|" \
    -e 's|^backends:|&\n  traefik: {peers: [127.0.0.2], may: [forward-auth], allow: [{provider: oidc}], original_request: true, origins: ["https://app.example.com"]}|' \
    -e 's|^  gateway: {|&original_request: true, origins: ["https://app.example.com"], |' \
    -e 's|client_id: strict-app, |&binding: {mode: enforce}, |; s|client_id: silent-app, |&transport: bearer, binding: {mode: enforce}, |' \
    "$here/coatcheck.yaml" >"$work/stack.yaml"
start_stack "$work/stack.yaml"
upstream_port=$(free_port)
python3 "$root/Tests/scenarios/support/forward_auth.py" upstream "$upstream_port" >"$work/upstream.log" 2>&1 &
pids+=($!)
wait_for 10 served || give_up "the protected service"
for server in "${servers[@]}"; do
    serve "$server" gateway-credential-4f1d9c
    site[$server]=$SITE
    serve "$server" gateway-credential-wrong
    stranger[$server]=$SITE
done

for server in "${servers[@]}"; do walk_live "$server"; done
for server in "${servers[@]}"; do walk_bound "$server"; done
for server in "${servers[@]}"; do walk_copies "$server"; done
walk_traefik

device a-late-phone
sign_in oidc ios ana
late=$(cookie coatcheck)
for server in "${servers[@]}"; do
    request GET "${site[$server]}/orders"
    expect_status 200 "$server: broker alive → the request passes"
done
JAR=
for server in "${servers[@]}"; do walk_broken "$server"; done
kill_broker KILL
for server in "${servers[@]}"; do walk_dead "$server"; done

python3 "$root/Tests/scenarios/support/forward_auth.py" broker "$BACKENDS_PORT" >"$work/fake.log" 2>&1 &
fake=$!
pids+=("$fake")
wait_for 10 curl -s -f -o /dev/null -X PUT --data busy "http://127.0.0.1:$BACKENDS_PORT/mode" || give_up "the stand-in"
for server in "${servers[@]}"; do walk_faults "$server"; done
kill "$fake"
wait "$fake" 2>/dev/null

step "The broker runs again"
start_broker
for server in "${servers[@]}"; do
    request GET "${site[$server]}/orders" -H "Cookie: coatcheck=$late"
    expect_status 200 "$server: broker restarted → the same session passes"
    matches '^[0-9]+$' "$(served)" "$server: broker restarted → the service counts requests"
done

finish
