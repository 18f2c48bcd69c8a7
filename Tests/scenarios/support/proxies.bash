# The recipes of deploy/proxy behind real servers: nginx, Caddy, HAProxy, Apache. Each gets the recipe file with its
# placeholders filled in. A script sources this file after lib.bash, with its own arguments, and calls start_proxies.

PATH="$PATH:/usr/sbin:/sbin"
recipes=$root/deploy/proxy
servers=("${@:-nginx}")
[ $# -gt 0 ] || servers=(nginx caddy haproxy apache)
for program in "${servers[@]}"; do
    command -v "${program/apache/apache2}" >/dev/null || { echo "Bail out! $program is missing: scripts/setup test"; exit 1; }
done
# Apache's workers give up root, but must be able to read these files. So this folder is outside the run's own folder.
place=$(mktemp -d /tmp/coatcheck-proxies.XXXXXX)
chmod 711 "$place"
trap 'stop_stack; rm -rf "$place"' EXIT

declare -A site logs late

# recipe FOLDER FILE…: writes the recipe's files into the folder, with the placeholders filled in
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

# start_proxies: starts the stack, and each server with its recipe; `site` has their addresses, and `direct` is the broker's
start_proxies() {
    local server
    with_packages
    sed -e 's|^  public_url:.*|&\n  trusted_proxies: [127.0.0.1]|' -e 's|client_id: strict-app, |&binding: {mode: enforce}, |' \
        "$here/coatcheck.yaml" >"$work/stack.yaml"
    start_stack "$work/stack.yaml"
    direct=$BROKER
    for server in "${servers[@]}"; do
        serve "$server"
        site[$server]=$SITE
    done
}

# at SERVER: sets the variables so that the walks send their requests through this server
at() {
    SITE=${site[$1]}
    named=${SITE#http://}
    BROKER=$SITE
    cookie=${late[$1]:-}
}
