#!/usr/bin/env bash
# The broker verifies the TLS certificates of providers (SEC-111). A provider gets no code if its certificate's authority is not
# trusted. `outbound.ca_file` adds a trusted authority. (The emulator uses plain HTTP, so a TLS terminator is in front of its
# token endpoint.)
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
certificate wrong DNS:other.example

RIGHT_PORT=$(free_port)
WRONG_PORT=$(free_port)
start_sandbox
for name in right wrong; do
    port=RIGHT_PORT; [ "$name" = wrong ] && port=WRONG_PORT
    python3 "$here/forwarder.py" "${!port}" "${SANDBOX##*:}" "$work/$name.pem" "$work/$name.key" &
    pids+=($!)
    wait_for 30 listens "${!port}" || give_up "the terminator"
done
cat >"$work/tls.yaml" <<YAML
server: {listen: "127.0.0.1:@BROKER_PORT@", public_url: "@BROKER@"}
management: {listen: "127.0.0.1:@MANAGEMENT_PORT@"}
store: {url: "sqlite:@WORK@/data/coatcheck.db"}
keys: {file: "@WORK@/keys.json"}
providers:
$(for name in right wrong; do
    port=RIGHT_PORT; [ "$name" = wrong ] && port=WRONG_PORT
    cat <<CLIENT
  $name:
    kind: oauth2
    endpoints: {authorization: "@SANDBOX@/oauth2/authorize", token: "https://localhost:${!port}/oauth2/token"}
    identity: {source: api, url: "@SANDBOX@/oauth2/api/me", subject: /id}
    clients:
      ios: {client_id: $name-app, auth: none, redirect_uris: ["com.example.$name:/cb"], scope: profile}
CLIENT
done)
YAML
start_stack "$work/tls.yaml"

step "1. The certificate's issuer is not trusted (SEC-111)"
start_login right ios
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_problem 503 provider_unavailable "forward of a code, and the broker distrusts the token endpoint's certificate"
same "" "$(json .retry)" "forward of a code, and the broker distrusts the token endpoint's certificate → the app may forward the code again"
same 0 "$(calls oauth2/token)" "forward of a code, and the broker distrusts the token endpoint's certificate → zero token calls arrive"

step "2. outbound.ca_file trusts the authority"
kill_broker TERM
printf 'outbound: {ca_file: "%s/authority.pem"}\n' "$work" >>"$work/coatcheck.yaml"
start_broker
forward "$CALLBACK"
expect_status 201 "forward of the same code, after ca_file names the certificate's authority → a session"

step "3. A certificate for another name"
start_login wrong ios
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_problem 503 provider_unavailable "forward of a code, and the token endpoint has another host's certificate"
same 1 "$(calls oauth2/token)" "forward of a code, and the token endpoint has another host's certificate → no further token call"

finish
