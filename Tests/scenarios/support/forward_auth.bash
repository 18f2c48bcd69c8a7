# The recipes of deploy/forward-auth in real servers: nginx, Caddy, HAProxy, Apache. Each server gets the recipe file with its
# placeholders filled in, and protects a service that returns the received headers. The servers call the broker on the backends'
# own listener. A script sources this file after lib.bash, with its own arguments, and calls start_gates.

PATH="$PATH:/usr/sbin:/sbin"
recipes=$root/deploy/forward-auth
servers=("${@:-nginx}")
[ $# -gt 0 ] || servers=(nginx caddy haproxy apache)
for program in "${servers[@]}"; do
    command -v "${program/apache/apache2}" >/dev/null || { echo "Bail out! $program is missing: scripts/setup test"; exit 1; }
done

# Apache's workers give up root, but must be able to read these files. So this folder is outside the run's own folder.
place=$(mktemp -d /tmp/coatcheck-forward-auth.XXXXXX)
chmod 711 "$place"
trap 'stop_stack; rm -rf "$place"' EXIT

# ---- the servers -----------------------------------------------------------------------------------------------------

declare -A site stranger

# recipe FOLDER FILE…: writes the recipe's files into the folder, with the placeholders filled in
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

# serve SERVER CREDENTIAL: starts the server; SITE is the server's address
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

# start_gates: starts the stack, the protected service, and each server with its recipe; `site` has their addresses
start_gates() {
    local server
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
    done
}

# ---- the checks of each server ---------------------------------------------------------------------------------------

served() { curl -s -m 10 "http://127.0.0.1:$upstream_port/count"; }

# denied SENTENCE STATUS-EXPRESSION METHOD [curl options…]: checks that the answer has this status, and that the request does not
# reach the service
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
