#!/usr/bin/env bash
# Limits for networks of IPv6 addresses (SEC-105, SEC-119): how many logins and connections a customer's /56 and a /48 may have.
# Then thousands of phones in a carrier's /48 sign in. The script runs in a network namespace of its own with these addresses.
#   PHONES   how many phones sign in (5000)
if [ -z "${NETWORKS_INSIDE:-}" ]; then
    if why=$(unshare --net true 2>&1) && command -v ip >/dev/null; then
        NETWORKS_INSIDE=1 exec unshare --net bash "$0"
    fi
    echo "skipped: no network namespace can be had here (unshare --net: ${why:-ip is missing})"
    echo "0 passed, 0 failed, 1 skipped"
    exit 0
fi
source "$(dirname "$0")/../support/lib.bash"
ip link set lo up && ip -6 route add local 2001:db8::/32 dev lo || give_up "the network"
phones=${PHONES:-5000}
host=auth.example.org
# Of 2000 pending logins, an address may have 64, a line 256, a network 500. Of 4000 connections, an address may have 128, a line
# 384, a network 896.
pending=2000
descriptors=8000

cat >"$work/networks.yaml" <<YAML
server: {listen: "[::]:@BROKER_PORT@", public_url: "https://$host", drain_delay: 0s}
management: {listen: "127.0.0.1:@MANAGEMENT_PORT@"}
store: {url: "sqlite:@WORK@/data/coatcheck.db"}
keys: {file: "@WORK@/keys.json"}
log: {level: notice}
limits: {pending_logins: $pending}
providers:
  oidc:
    kind: oidc
    issuer: @SANDBOX@/oidc
    clients:
      android: {client_id: android-app, auth: none, redirect_uris: ["com.example.android:/cb"], scope: openid email, transport: bearer, login: both}
YAML
client() { python3 "$here/networks.py" "$1" --port "$BROKER_PORT" --host "$host" "${@:2}"; }
pending_rows() {
    python3 - "$work/data/coatcheck.db" <<'PY'
import sqlite3, sys
with sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True, timeout=10) as database:
    print(database.execute("SELECT count(*) FROM logins WHERE status = 0").fetchone()[0])
PY
}
# signs_in ADDRESS SENTENCE: checks that a user signs in from this address
signs_in() {
    client user --address "$1" >"$work/user"
    same 201 "$(jq .status "$work/user")" "$2 ($(jq .seconds "$work/user") s)"
}
# fresh: restarts the broker without charges and with an empty store
fresh() {
    kill_broker TERM
    rm -rf "$work/data"
    mkdir -m 700 "$work/data"
    start_broker
}
ulimit -n 20000 2>/dev/null
start_broker() {
    prlimit --nofile="$descriptors" "$COATCHECK" serve --config "$work/coatcheck.yaml" >>"$work/broker.log" 2>&1 &
    broker_pid=$!
    wait_for 60 curl -sf "$MANAGEMENT/readyz" || give_up "broker"
}

step "Logins: one customer's /56"
start_stack "$work/networks.yaml"
client logins --networks 2001:db8:1::/56 --each 8 >"$work/out"
echo "#   $(cat "$work/out")"
same 256 "$(pending_rows)" "more logins are started from one /56 than its limit allows → 256 are pending"
signs_in 2001:db8:2::1 "user of another network, while a /56 has as many pending logins as its limit allows → signs in at once"
signs_in 2001:db8:1:100::1 "user of the next /56, while a /56 has as many pending logins as its limit allows → signs in at once"

step "Logins: one /48 after the other"
fresh
for site in 1 2 3; do
    client logins --networks "2001:db8:$site::/56,2001:db8:$site:100::/56,2001:db8:$site:200::/56" --each 2 >"$work/out"
    echo "#   2001:db8:$site::/48: $(cat "$work/out")"
    same $((500 * site)) "$(pending_rows)" "too many logins are started from a /48 network, and $site such networks do this → 500 logins are pending for each network"
    signs_in 2001:db8:99::1 "user of another network, while $site /48 network(s) have as many pending logins as their limit allows → signs in at once"
done
same 429 "$(client user --address 2001:db8:1:300::1 | jq .status)" "start of a login from another /56 of a /48 that has as many pending logins as its limit allows → 429"

step "Connections: one /56, then one /48, then three"
fresh
# occupy NAME NETWORKS EACH: opens silent connections and keeps them until the end of the script
occupy() {
    mkfifo "$work/$1.in"
    client connections --networks "$2" --each "$3" <"$work/$1.in" >"$work/$1" &
    pids+=($!)
    exec {input}>"$work/$1.in"
    wait_for 120 test -s "$work/$1"
    echo "#   $2: $(cat "$work/$1")"
}
occupy line 2001:db8:1::/57 16
same 384 "$(jq .standing "$work/line")" "more connections are opened from one /56 than its limit allows → 384 stay open"
signs_in 2001:db8:2::1 "user of another network, while a /56 has as many connections as its limit allows → signs in"
occupy network 2001:db8:1:100::/57,2001:db8:1:200::/57 8
same 512 "$(jq .standing "$work/network")" "a /56 has as many connections as its limit allows, and many more come from two other /56 of its /48 → 512 of these stay open"
signs_in 2001:db8:2::1 "user of another network, while a /48 has as many connections as its limit allows → signs in"
occupy second 2001:db8:5::/57,2001:db8:5:100::/57,2001:db8:5:200::/57 8
occupy third 2001:db8:6::/57,2001:db8:6:100::/57,2001:db8:6:200::/57 8
same "896 896" "$(jq .standing "$work/second") $(jq .standing "$work/third")" "one /48 has as many connections as its limit allows, and many more come from two other /48 → 896 of each stay open"
signs_in 2001:db8:2::1 "user of another network, while three /48 have as many connections as their limits allow → signs in"
curl -s "$MANAGEMENT/metrics" >"$work/metrics"
same 1 "$(grep -c '^coatcheck_connections 2688$' "$work/metrics")" "metrics while three /48 have as many connections as their limits allow → count 2688: $(grep '^coatcheck_connections ' "$work/metrics")"
same 1 "$(grep -c '^coatcheck_connections_max 4000$' "$work/metrics")" "metrics while three /48 have as many connections as their limits allow → coatcheck_connections_max is 4000"
for reason in customer network; do
    matches "^coatcheck_connections_refused_total.*\} [1-9]" "$(grep "refused_total{reason=\"$reason\"}" "$work/metrics")" "metrics while three /48 have as many connections as their limits allow → count refused connections with the reason $reason"
done
in_log '"message":"connections are turned away","reason":"network","client":"2001:db8:5::/48"' 1 "connections of a /48 are refused → one log line names this network"

step "$phones phones of one carrier's /48, each with its own /64"
sed -i 's/^limits: .*/limits: {}/' "$work/coatcheck.yaml"
fresh
client phones --networks 2001:db8:7::/48 --count "$phones" >"$work/phones"
echo "#   $(cat "$work/phones")"
same "$phones $phones {}" "$(jq -r '"\(.started) \(.signed_in) \(.others | tojson)"' "$work/phones")" "$phones phones in one /48, each with its own /64 → all sign in"
same 0 "$(curl -s "$MANAGEMENT/metrics" | grep -cE '^coatcheck_http_requests_total.*status="429"\} [1-9]')" "metrics after $phones phones have signed in → no answer was 429"
finish
