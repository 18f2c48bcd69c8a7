#!/usr/bin/env bash
# The recipes of deploy/proxy in real servers (nginx, Caddy, HAProxy, Apache) in front of one broker: logins, streams, unusual
# paths, and a broker that is killed. broken-proxies.sh breaks the recipes. proxy-replicas.py and proxy-restarts.py have several
# replicas.
#   proxies.sh [SERVER…]
source "$(dirname "$0")/../support/lib.bash"
source "$here/proxies.bash"
source "$here/proxy_walks.bash"

# two_servers SED-EXPRESSION: starts HAProxy with the recipe's commented lines for several replicas; SITE is its address. Its
# servers are the broker and a program that is not ready and answers every request with 418.
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

# answers: prints the different statuses of twenty requests
answers() { for _ in {1..20}; do curl -s -m 10 -o /dev/null -w '%{http_code}\n' -H "Cookie: coatcheck=$cookie" "$SITE/v1/session"; done | sort -u | tr '\n' ' '; }

start_proxies
for server in "${servers[@]}"; do
    for walk in login address paths errors streams download log bound; do
        at "$server"
        "walk_$walk" "$server"
        late[$server]=$cookie
    done
done
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
    same 0 $? "HAProxy has two servers, and one is not ready → the health check removes this server"
    same "200 " "$(answers)" "HAProxy's health check has removed one of two servers → the other server answers every request"
    same 0 "$(grep -c 'coatcheck/coatcheck1 is DOWN' "$work/two.log")" "HAProxy's health check has removed one of two servers → the ready server stays in use"
    two_servers 's/ inter 2s/ inter 200ms/; s|option httpchk GET /readyz|option httpchk|'
    wait_for 20 grep -q 'coatcheck/coatcheck1 is DOWN' "$work/two.log"
    same 0 $? "HAProxy's health check asks for another path than /readyz → HAProxy removes the ready server as well"
fi
kill_broker KILL
for server in "${servers[@]}"; do
    at "$server"
    walk_away "$server"
done
step "The broker runs again"
BROKER=$direct
JAR=
start_broker
for server in "${servers[@]}"; do
    request GET "${site[$server]}/v1/session" -H "Cookie: coatcheck=${late[$server]}"
    expect_status 200 "$server: the broker runs again after a kill → a session from before the kill is served"
done
finish
