#!/usr/bin/env bash
# PostgreSQL over TLS. The server's certificate needs a known authority and the host's name. A URL without TLS options means
# verify-full, unless the host is this machine. The broker also compares the database's clock with its own.
source "$(dirname "$0")/../support/lib.bash"
start_postgresql --tls
"$COATCHECK" keys generate --file "$work/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
port=${POSTGRESQL##*:}
port=${port%%/*}
ca="$POSTGRESQL_FOLDER/ca.crt"
other="$POSTGRESQL_FOLDER/other-ca.crt"
# This host name leads to this machine, but the broker does not treat it as local, so only the URL's TLS options matter.
named="postgresql://coatcheck@db.example.test:$port/postgres?hostaddr=127.0.0.1&sslmode=verify-full"
# This address leads to this machine, but is not a loopback address.
address="postgresql://coatcheck@0.0.0.0:$port/postgres?"

# try URL: runs `check --online` for a store at this URL; STORE is the line about the store
try() {
    cat >"$work/coatcheck.yaml" <<TEXT
server: {listen: "127.0.0.1:0", public_url: "http://127.0.0.1:8080"}
store: {url: "$1"}
keys: {file: $work/keys.json}
providers:
  id:
    kind: oauth2
    endpoints: {authorization: "http://127.0.0.1:1/authorize", token: "http://127.0.0.1:1/token", api: "http://127.0.0.1:1/api"}
    identity: {source: api, url: "http://127.0.0.1:1/api/me", subject: /id}
    clients:
      ios: {client_id: ios-app, auth: none, redirect_uris: ["com.example.app:/cb"]}
TEXT
    ${CLOCK:+env $CLOCK} "$COATCHECK" check --online --config "$work/coatcheck.yaml" >"$work/body" 2>&1
    STORE=$(grep -E '^(ok +|FAULT +)store:' "$work/body")
}
# encrypted: prints how many of the broker's connections are encrypted, according to PostgreSQL
encrypted() {
    "$(ls -d /usr/lib/postgresql/*/bin | sort -V | tail -1)/psql" -X -A -t -h 127.0.0.1 -p "$port" -U coatcheck -d postgres -c \
        "SELECT count(*) FILTER (WHERE ssl) || ' of ' || count(*) FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE application_name = 'coatcheck'"
}

step "1. Refused: a certificate for another name or of another authority, and a missing authority file"
try "postgresql://coatcheck@db.other.test:$port/postgres?hostaddr=127.0.0.1&sslmode=verify-full&sslrootcert=$ca"
matches '^FAULT +store: .*db\.other\.test' "$STORE" "PostgreSQL's certificate lacks the host's name → check fails"
try "postgresql://coatcheck@127.0.0.1:$port/postgres?sslmode=verify-full&sslrootcert=$ca"
matches '^FAULT +store: .*127\.0\.0\.1' "$STORE" "PostgreSQL's certificate lacks the host's address → check fails"
try "$named&sslrootcert=$other"
matches '^FAULT +store: .*certificate verify failed' "$STORE" "PostgreSQL's certificate is of another authority → check fails"
try "$named&sslrootcert=/nowhere/ca.crt"
matches '^FAULT +store: .*root certificate' "$STORE" "store URL names an authority file that is missing → check fails"
try "${address}"
matches '^FAULT +store: .*(certificate verify failed|root certificate)' "$STORE" "store URL with a remote address and no TLS options → check fails, because the system lacks the authority of the certificate"
try "${address}sslrootcert=$other"
matches '^FAULT +store: .*certificate verify failed' "$STORE" "store URL with a remote address and the wrong authority file → check fails"
printf '[far]\nhost=0.0.0.0\nport=%s\n[verified]\nhost=0.0.0.0\nport=%s\nsslrootcert=%s\n' "$port" "$port" "$ca" >"$work/services"
CLOCK="PGHOSTADDR=0.0.0.0" try "postgresql://coatcheck@localhost:$port/postgres"
matches '^FAULT +store: .*(certificate verify failed|root certificate)' "$STORE" "environment's PGHOSTADDR is a remote address → the certificate is verified, and check fails"
CLOCK="PGHOST=0.0.0.0" try "postgresql://coatcheck@:$port/postgres"
matches '^FAULT +store: .*(certificate verify failed|root certificate)' "$STORE" "environment's PGHOST is a remote address → the certificate is verified, and check fails"
CLOCK="PGSERVICEFILE=$work/services" try "postgresql://coatcheck@/postgres?service=far"
matches '^FAULT +store: .*(certificate verify failed|root certificate)' "$STORE" "store URL names a service of the service file, which has a remote address → the certificate is verified, and check fails"
CLOCK="PGSERVICEFILE=$work/services PGSERVICE=far" try "postgresql://coatcheck@/postgres"
matches '^FAULT +store: .*(certificate verify failed|root certificate)' "$STORE" "environment's PGSERVICE names a service with a remote address → the certificate is verified, and check fails"

step "2. Accepted: a certificate of the configured authority for the right name"
CLOCK="PGSERVICEFILE=$work/services" try "postgresql://coatcheck@/postgres?service=verified"
matches '^ok +store: will be migrated' "$STORE" "service file has a remote address and the right authority file → check accepts the store"
try "${address}sslrootcert=$ca"
matches '^ok +store: will be migrated' "$STORE" "store URL with a remote address and the right authority file → check accepts the store"
try "$named&sslrootcert=$ca"
matches '^ok +store: will be migrated' "$STORE" "store URL with verify-full, the right name and the right authority file → check accepts the store"
"$COATCHECK" migrate --config "$work/coatcheck.yaml" >"$work/migrate.log" 2>&1
same 0 $? "migrate over TLS → exit 0: $(cat "$work/migrate.log")"
try "$named&sslrootcert=$ca"
matches '^ok +store: answers and is up to date' "$STORE" "migrated store → check reports that PostgreSQL answers"
matches '^ok +store clock: agrees within 5 s' "$(grep 'store clock' "$work/body")" "migrated store → check reports that PostgreSQL's clock agrees within 5 s"
matches 'failing over to one loses what was answered last' "$STORE" "PostgreSQL has no synchronous standby → check warns of the possible loss at a failover"

step "3. All connections of a broker are encrypted"
start_sandbox
CLOSED_PORT=$(free_port)
sed -e "s|url: sqlite:.*|url: \"${named//&/\\&}\\&sslrootcert=$ca\"|" "$here/coatcheck.yaml" >"$work/template.yaml"
start_stack "$work/template.yaml"
sign_in oidc ios ana
expect_status 201 "sign-in over an encrypted store connection → a session"
get /v1/session
expect_status 200 "session read over an encrypted store connection → 200"
all_encrypted() { [[ $(encrypted) =~ ^([0-9]+)\ of\ ([0-9]+)$ ]] && [ "${BASH_REMATCH[1]}" = "${BASH_REMATCH[2]}" ] && [ "${BASH_REMATCH[1]}" -ge 9 ]; }
wait_for 20 all_encrypted
same 0 $? "broker with a verify-full URL → all connections of the broker are encrypted: $(encrypted)"
get "$MANAGEMENT/readyz"
matches '^-?[01]$' "$(json .clock_ahead_seconds)" "readiness with PostgreSQL → shows how many seconds the clock is ahead of PostgreSQL's"
get "$MANAGEMENT/metrics"
matches 'coatcheck_clock_ahead_seconds -?[0-9.e-]+' "$(body)" "metrics with PostgreSQL → show how many seconds the clock is ahead of PostgreSQL's"

step "4. A server without TLS"
start_postgresql
port=${POSTGRESQL##*:}
port=${port%%/*}
try "postgresql://coatcheck@0.0.0.0:$port/postgres?sslrootcert=$ca"
matches '^FAULT +store: .*does not support SSL' "$STORE" "remote PostgreSQL without TLS → check fails"
finish
