#!/usr/bin/env bash
# The broker's own TLS, on the listeners for apps and backends: TLS versions, unfinished handshakes, and certificates that SIGHUP
# replaces without dropping a connection.
source "$(dirname "$0")/../support/lib.bash"

# certificate NAME DAYS: makes a key and a certificate for auth.example.com
certificate() {
    openssl req -newkey rsa:2048 -nodes -keyout "$work/$1.key" -out "$work/$1.csr" -subj "/CN=$1" 2>/dev/null
    printf 'subjectAltName=DNS:auth.example.com,IP:127.0.0.1\n' >"$work/$1.ext"
    openssl x509 -req -in "$work/$1.csr" -signkey "$work/$1.key" -days "$2" -extfile "$work/$1.ext" -out "$work/$1.pem" 2>/dev/null
    chmod 600 "$work/$1.key"
}
certificate first 30
certificate second 30
certificate expired -1
# serve_certificate CERTIFICATE KEY: replaces the configured files by these two files
serve_certificate() {
    cp "$work/$1.pem" "$work/served.pem.next" && mv "$work/served.pem.next" "$work/served.pem"
    cp -p "$work/$2.key" "$work/served.key.next" && mv "$work/served.key.next" "$work/served.key"
}
serve_certificate first first
start_sandbox
BACKEND_PORT=$(free_port)
BREAKING_PORT=$(free_port)
python3 "$here/breaking_off.py" "$BREAKING_PORT" >"$work/breaking.log" 2>&1 &
pids+=($!)
wait_for 60 grep -q listening "$work/breaking.log"
cat >"$work/tls.yaml" <<YAML
server:
  listen: "127.0.0.1:@BROKER_PORT@"
  backend_listen: "127.0.0.1:$BACKEND_PORT"
  public_url: "https://auth.example.com:@BROKER_PORT@"
  drain_delay: 0s
  tls: {certificate: served.pem, key: served.key}
management: {listen: "127.0.0.1:@MANAGEMENT_PORT@"}
store: {url: "sqlite:@WORK@/data/coatcheck.db"}
keys: {file: "@WORK@/keys.json"}
providers:
  oidc:
    kind: oidc
    issuer: @SANDBOX@/oidc
    clients:
      ios: {client_id: ios-app, auth: none, redirect_uris: ["com.example.app:/cb"], scope: openid email}
upstreams:
  api: {base_url: "@SANDBOX@/api", provider: oidc, allow: ["GET /**", "POST /echo"]}
  broken: {base_url: "http://127.0.0.1:$BREAKING_PORT", provider: oidc, allow: ["GET /**"]}
backends:
  # gateway-credential-4f1d9c
  gateway: {sha256: 7b4049ca34849f80638caf97a214147ab8fd8ae1d76db24985866ca604819e4e, may: [forward-auth]}
YAML
start_stack "$work/tls.yaml"
BROKER="https://auth.example.com:$BROKER_PORT"
printf 'resolve = "auth.example.com:%s:127.0.0.1"\n' "$BROKER_PORT" >"$work/.curlrc"
export CURL_HOME=$work
export CURL_CA_BUNDLE="$work/first.pem"
shake() { openssl s_client -connect "127.0.0.1:$BROKER_PORT" -servername auth.example.com -CAfile "$work/first.pem" "$@" </dev/null 2>&1; }
reloads() { grep -cE '"message":"configuration (reloaded|unchanged|not reloaded)"' "$work/broker.log"; }
more_reloads() { [ "$(reloads)" -gt "$1" ]; }
hangup() {
    local before
    before=$(reloads)
    kill -HUP "$broker_pid"
    wait_for 20 more_reloads "$before"
}

step "1. Refused TLS versions, renegotiation, keys and certificates"
matches 'alert|error|unsupported' "$(shake -tls1_1 -cipher 'ALL:@SECLEVEL=0' | tr '\n' ' ')" "handshake with TLS 1.1 → refused"
matches 'Cipher is \(NONE\)' "$(shake -tls1_1 -cipher 'ALL:@SECLEVEL=0' | tr '\n' ' ')" "handshake with TLS 1.1 → no cipher is agreed"
matches '^(000|52|56)' "$(curl -s -o /dev/null -w '%{http_code}' "http://127.0.0.1:$BROKER_PORT/v1/providers")" "plain HTTP on the TLS port → no answer"
same 60 "$(CURL_CA_BUNDLE="$work/second.pem" curl -s -o /dev/null "$BROKER/v1/providers"; echo $?)" "client that trusts another certificate → rejects the broker's certificate"
matches 'errno|error|no_renegotiation|NO_RENEGOTIATION|closed|write' "$( (printf 'R\n'; sleep 1) | openssl s_client -connect "127.0.0.1:$BROKER_PORT" -servername auth.example.com -tls1_2 -CAfile "$work/first.pem" 2>&1 | tail -5 | tr '\n' ' ')" "client asks for a renegotiation → refused"
"$COATCHECK" check --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "check of a configuration whose TLS key fits its certificate → exit 0"
serve_certificate first second
"$COATCHECK" check --config "$work/coatcheck.yaml" >"$work/out" 2>&1
matches '^1 .*server.tls.key.*is not the key of the first certificate' "$? $(tr '\n' ' ' <"$work/out")" "check of a configuration whose TLS key belongs to another certificate → exit 1"
serve_certificate expired expired
"$COATCHECK" check --config "$work/coatcheck.yaml" >"$work/out" 2>&1
matches '^1 .*server.tls.certificate.*has run out' "$? $(tr '\n' ' ' <"$work/out")" "check of a configuration with an expired TLS certificate → exit 1"
serve_certificate first first

step "2. Accepted TLS versions, ciphers and ALPN"
matches 'TLSv1.3' "$(shake -tls1_3 | grep -E '^ *Protocol|New, ' | tr '\n' ' ')" "handshake with TLS 1.3 → accepted"
matches 'TLSv1.2' "$(shake -tls1_2 | grep -E '^ *Protocol|New, ' | tr '\n' ' ')" "handshake with TLS 1.2 → accepted"
matches 'Cipher is ECDHE' "$(shake -tls1_2 | tr '\n' ' ')" "handshake with TLS 1.2 → a cipher with forward secrecy"
for suite in AES128-SHA AES256-GCM-SHA384 ECDHE-RSA-AES128-SHA; do
    matches 'Cipher is \(NONE\)' "$(shake -tls1_2 -cipher "$suite:@SECLEVEL=0" | tr '\n' ' ')" "handshake with only the cipher $suite → refused"
done
matches 'ALPN protocol: http/1.1' "$(shake -alpn h2,http/1.1 | tr '\n' ' ')" "handshake that offers h2 and http/1.1 by ALPN → http/1.1"

curl -s -o "$work/metrics" "$MANAGEMENT/metrics"
matches "coatcheck_tls_certificate_expires_seconds $(date -d "$(openssl x509 -in "$work/first.pem" -noout -enddate | cut -d= -f2)" +%s)" "$(cat "$work/metrics")" "metrics of a broker with TLS → contain the certificate's expiry time"

step "3. A sign-in, relayed calls and forward-auth over TLS"
sign_in oidc ios
expect_status 201 "sign-in over TLS → a session"
matches '__Host-coatcheck=.*Secure' "$(header Set-Cookie)" "sign-in over TLS → a Secure cookie with the __Host- prefix"
expect_header Strict-Transport-Security "max-age=31536000; includeSubDomains" "sign-in over TLS → the answer has Strict-Transport-Security"
get /v1/relay/api/bytes/3000000
same "200 3000000" "$STATUS $(stat -c %s "$work/body")" "relayed download over TLS → arrives completely"
head -c 300000 /dev/urandom >"$work/upload"
request POST /v1/relay/api/echo --data-binary "@$work/upload" -H 'Content-Type: application/octet-stream'
expect_status 200 "relayed upload over TLS → 200"
session=$(cookie __Host-coatcheck)
STATUS=$(curl -s -o "$work/body" -w '%{http_code}' -H 'Authorization: Bearer gateway-credential-4f1d9c' -H "X-Coatcheck-Session: $session" "https://127.0.0.1:$BACKEND_PORT/v1/forward-auth")
expect_status 200 "forward-auth on the backends' listener over TLS → 200"
STATUS=$(curl -s -o "$work/body" -w '%{http_code}' -H "X-Forwarded-For: 203.0.113.9" -H 'X-Forwarded-Proto: http' "$BROKER/v1/providers")
expect_status 200 "request with forwarding headers from an untrusted client → 200, because the broker ignores these headers"

step "4. If an upstream breaks its answer off, the client sees an error"
for version in --http1.0 --http1.1; do
    curl -s "$version" -b "$JAR" -o "$work/body" "$BROKER/v1/relay/broken/whole"
    same "0 [{\"id\":1,\"last\":1}]" "$? $(cat "$work/body")" "$version, a complete answer of the upstream → curl reports no error"
    for tls in 1.2 1.3; do
        curl -s "$version" --tls-max "$tls" -b "$JAR" -o "$work/body" "$BROKER/v1/relay/broken/cut"
        matches '^(18|56)$' "$?" "$version over TLS $tls, an upstream answer that is broken off → curl reports an error"
    done
done

step "5. SIGHUP replaces the certificate without dropping connections"
served() { shake | openssl x509 -noout -subject 2>/dev/null; }
same "subject=CN = first" "$(served)" "handshake before any SIGHUP → the broker shows the first certificate"
curl -sN -b "$JAR" "$BROKER/v1/session/events" >"$work/events" &
listener=$!
wait_for 10 grep -q '^event: session' "$work/events"
serve_certificate second first
hangup
matches 'server.tls.key.*is not the key' "$(tail -5 "$work/broker.log")" "SIGHUP with a key that does not fit its certificate → refused"
same "subject=CN = first" "$(served)" "SIGHUP with a key that does not fit its certificate → the first certificate is still served"
serve_certificate expired expired
hangup
matches 'server.tls.certificate.*has run out' "$(tail -5 "$work/broker.log")" "SIGHUP with an expired certificate → refused"
same "subject=CN = first" "$(served)" "SIGHUP with an expired certificate → the first certificate is still served"
serve_certificate second second
hangup
same "subject=CN = second" "$(served)" "SIGHUP with a good certificate → the new certificate is served"
kill -0 "$listener"
same 0 $? "SIGHUP has replaced the certificate → an open event stream stays open"
export CURL_CA_BUNDLE="$work/second.pem"
request POST /v1/session/refresh
wait_for 10 grep -q '^event: tokens_refreshed' "$work/events"
same 0 $? "SIGHUP has replaced the certificate → an open event stream still gets events"
kill "$listener"
sed -i '/^  tls:/d' "$work/coatcheck.yaml"
hangup
matches 'server.tls: has changed, which takes a restart' "$(tail -5 "$work/broker.log")" "SIGHUP after server.tls was removed → refused, because this change needs a restart"

step "6. Unfinished handshakes"
matches '"ok": true' "$(python3 "$here/half_open.py" "$BROKER_PORT" "$broker_pid" 1000 | tee "$work/half")" "a thousand TLS handshakes stay unfinished → the broker limits the number, memory and time of such handshakes"
sed 's/^/# /' "$work/half"
get /v1/session
expect_status 200 "session read after a thousand unfinished handshakes → 200"
kill_broker TERM
same "" "$(grep -iE 'PRIVATE KEY|fatal' "$work/broker.log")" "broker's log after all steps over TLS → has no private key and no fatal error"
finish
