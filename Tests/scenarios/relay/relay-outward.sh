#!/usr/bin/env bash
# The relay's outgoing calls: the broker verifies TLS certificates of upstreams (SEC-111), and calls addresses outside this
# machine through `outbound.proxy`. (The emulator uses plain HTTP, so TLS terminators and a proxy are in front of it.)
source "$(dirname "$0")/../support/lib.bash"

openssl req -x509 -newkey rsa:2048 -nodes -keyout "$work/authority.key" -out "$work/authority.pem" -days 2 -subj '/CN=test authority' 2>/dev/null
# certificate NAME SUBJECT-ALTERNATIVE-NAME: makes NAME.key, and NAME.pem, which the authority has signed
certificate() {
    openssl req -newkey rsa:2048 -nodes -keyout "$work/$1.key" -out "$work/$1.csr" -subj "/CN=$1" 2>/dev/null
    printf 'subjectAltName=%s\n' "$2" >"$work/$1.ext"
    openssl x509 -req -in "$work/$1.csr" -CA "$work/authority.pem" -CAkey "$work/authority.key" -CAcreateserial -days 2 \
        -extfile "$work/$1.ext" -out "$work/$1.pem" 2>/dev/null
}
certificate right DNS:localhost
certificate named DNS:api.example.test
start_sandbox
declare -A ports
for name in right named; do
    ports[$name]=$(free_port)
    python3 "$here/forwarder.py" "${ports[$name]}" "${SANDBOX##*:}" "$work/$name.pem" "$work/$name.key" &
    pids+=($!)
done
PROXY_PORT=$(free_port)
export PROXY_CREDENTIALS=broker:secret-of-the-proxy
: >"$work/proxy.log"
python3 "$here/connect_proxy.py" "$PROXY_PORT" "${ports[named]}" "$work/proxy.log" "$PROXY_CREDENTIALS" &
pids+=($!)
for port in "${ports[@]}" "$PROXY_PORT"; do wait_for 30 listens "$port" || give_up "a way out"; done
sed -e "/^upstreams:/a\\
  direct: {base_url: \"https://localhost:${ports[right]}/api\", provider: oidc, allow: [\"ANY /**\"]}\\
  wrong: {base_url: \"https://localhost:${ports[named]}/api\", provider: oidc, allow: [\"ANY /**\"]}\\
  named: {base_url: \"https://api.example.test/api\", provider: oidc, allow: [\"ANY /**\"]}\\
  other: {base_url: \"https://other.example.test:8443/api\", provider: oidc, allow: [\"ANY /**\"]}\\
  refused: {base_url: \"https://refuse.example.test/api\", provider: oidc, allow: [\"ANY /**\"]}\\
  silent: {base_url: \"https://silent.example.test/api\", provider: oidc, allow: [\"ANY /**\"]}" \
    "$here/coatcheck.yaml" >"$work/template.yaml"
cat >>"$work/template.yaml" <<YAML
outbound:
  ca_file: "$work/authority.pem"
  proxy: "http://127.0.0.1:$PROXY_PORT"
  proxy_credentials: {env: PROXY_CREDENTIALS}
  connect_timeout: 3s
YAML
start_stack "$work/template.yaml"
sign_in oidc ios ana
head -c 10485760 /dev/urandom >"$work/upload"
sum=$(sha256sum "$work/upload" | cut -d' ' -f1)

# whole UPSTREAM: checks small calls, and an upload and a download of 10 MiB
whole() {
    for _ in 1 2 3; do get "/v1/relay/$1/echo"; done
    expect_status 200 "relay to the upstream $1, a small call → 200"
    expect_header Coatcheck-Source upstream "relay to the upstream $1, a small call → the answer comes from the upstream"
    request POST "/v1/relay/$1/echo" -H 'Content-Type: application/octet-stream' --data-binary "@$work/upload"
    same "$sum" "$(json .body_sha256)" "relay to the upstream $1, an upload of 10 MiB → arrives byte for byte"
    get "/v1/relay/$1/bytes/10485760"
    same 10485760 "$(stat -c %s "$work/body")" "relay to the upstream $1, a download of 10 MiB → arrives completely"
    request HEAD "/v1/relay/$1/echo" -I
    expect_status 200 "relay to the upstream $1, a HEAD request → 200"
}

step "1. Relay calls over TLS"
whole direct
same "" "$(cat "$work/proxy.log")" "relay to an upstream on this machine, with a proxy configured → the proxy gets no connection"

step "2. A certificate for another name"
before=$(calls api/api)
get /v1/relay/wrong/echo
expect_problem 502 upstream_error "relay to an upstream with another host's certificate"
same "$before" "$(calls api/api)" "relay to an upstream with another host's certificate → the upstream gets no call"

step "3. Relay calls through the proxy, which gets the upstream's name"
whole named
same "CONNECT api.example.test:443 right ['host', 'proxy-authorization']" "$(sort -u "$work/proxy.log")" "relay through the proxy → the CONNECT request has only the host and the proxy's credentials"
# The broker needs at most three tunnels: one for the calls before HEAD, one for HEAD, and one more.
[ "$(wc -l <"$work/proxy.log")" -le 3 ]; same 0 $? "six relayed calls to one upstream through the proxy → $(wc -l <"$work/proxy.log") tunnels, at most three"

step "4. The broker also verifies the upstream's certificate through the proxy"
before=$(calls api/api)
get /v1/relay/other/echo
expect_problem 502 upstream_error "relay through the proxy to an upstream with another host's certificate"
same "$before" "$(calls api/api)" "relay through the proxy to an upstream with another host's certificate → the upstream gets no call"
matches 'CONNECT other.example.test:8443 right' "$(cat "$work/proxy.log")" "relay through the proxy to an upstream whose base URL has a port → the CONNECT request has this port"

step "5. A proxy that refuses, and a proxy that does not answer"
get /v1/relay/refused/echo
expect_problem 502 upstream_error "relay call while the proxy refuses the connection"
get /v1/relay/silent/echo
expect_problem 504 upstream_timeout "relay call while the proxy does not answer"
same 0 "$(grep -c secret-of-the-proxy "$work/broker.log")" "relay calls through the proxy → the broker's log has no credentials of the proxy"

finish
