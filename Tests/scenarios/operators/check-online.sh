#!/usr/bin/env bash
# `coatcheck check --online` checks discovery, keys, clock, redirect URIs, store and key ring. It prints one line for each, with
# the remedy.
source "$(dirname "$0")/../support/lib.bash"
start_sandbox
mkdir -m 700 "$work/data"
"$COATCHECK" keys generate --file "$work/keys.json" >/dev/null

# write ISSUER [REDIRECT-URI]: writes the configuration to check
write() {
    cat >"$work/coatcheck.yaml" <<TEXT
server: {listen: "127.0.0.1:0", public_url: "http://127.0.0.1:8080"}
store: {url: "sqlite:$work/data/coatcheck.db"}
keys: {file: ${KEYS:-$work/keys.json}}
providers:
  id:
    kind: oidc
    issuer: $1
    clients:
      ios: {client_id: ios-app, auth: none, redirect_uris: ["com.example.app:/cb"]}
  clover:
    kind: clover
    environment: sandbox
    site_url: https://app.example.org/
    endpoints: {authorization: "$SANDBOX/clover-web/oauth/v2/authorize", token: "$SANDBOX/clover-api/oauth/v2/token", api: "$SANDBOX/clover-api"}
    clients:
      ios: {client_id: AFAKE0001, auth: none, redirect_uris: ["${2:-https://app.example.org/clover}"]}
TEXT
}

# check STATUS: runs `check --online`, and checks its exit status
check() {
    local status=0
    "$COATCHECK" check --config "$work/coatcheck.yaml" --online >"$work/body" 2>&1 || status=$?
    STATUS=$status
    same "$1" "$status" "check --online → exit status $1"
}

# says REGULAR-EXPRESSION SENTENCE: checks that the command has printed such a line
says() { matches "(^|"$'\n'")$1($|"$'\n'")" "$(body)" "$2"; }

step "1. A configuration without faults"
write "$SANDBOX/oidc"
check 0
says 'ok     keys: 1 in the ring' "valid configuration → check --online reports the key ring as ok, with the number of its keys"
says 'ok     store: will be made at the first start' "valid configuration without a store → check --online reports that the first start will make the store"
says 'ok     providers\.id discovery: is in order' "valid configuration → check --online reports the provider's metadata as ok"
says 'ok     providers\.id keys: are in order: 4' "valid configuration → check --online reports the provider's keys as ok, with their number"
says 'ok     providers\.id reach: answers with 400' "valid configuration → check --online reports that the token endpoint answers"
says 'ok     providers\.id clock: agrees within 30 s' "valid configuration → check --online reports that the clocks agree within 30 s"
says 'ok     providers\.clover redirect_uris: all 1 lie under `site_url`, https://app\.example\.org/?' "valid configuration → check --online reports that Clover's redirect URIs are below site_url"
if grep -q FAULT "$work/body"; then not_ok "valid configuration → check --online reports no fault"; else ok "valid configuration → check --online reports no fault"; fi

step "2. Faults of the discovery document"
write "$SANDBOX/oidc/"
check 1
says 'FAULT  providers\.id discovery: .*; check `issuer`, .*' "configured issuer with one slash too many → check --online reports a fault"
write "$SANDBOX/oidc"
fault oidc '{"fault":"discovery-issuer-mismatch"}'
check 1
says 'FAULT  providers\.id discovery: .*; check `issuer`, .*' "metadata with another issuer → check --online reports a fault"
sandbox DELETE /faults
fault oidc '{"fault":"discovery-no-token-endpoint"}'
check 1
says 'FAULT  providers\.id discovery: names no token endpoint; set `endpoints\.token`' "metadata without a token endpoint → check --online reports a fault with the remedy"
sandbox DELETE /faults

step "3. Faults of the provider's keys"
fault oidc '{"fault":"jwks-empty"}'
check 1
says 'FAULT  providers\.id keys: none can be used; check `endpoints\.jwks`' "provider's key set is empty → check --online reports a fault with the remedy"
sandbox DELETE /faults
fault oidc '{"fault":"html-200","endpoint":"jwks"}'
check 1
says 'FAULT  providers\.id keys: .*; check `endpoints\.jwks`, .*' "provider answers HTML instead of a key set → check --online reports a fault with the remedy"
sandbox DELETE /faults

step "4. The clock"
# A provider whose Date field is an hour ahead of this machine's clock.
late=$(free_port)
python3 -c 'import http.server, sys, time
class Late(http.server.BaseHTTPRequestHandler):
    def date_time_string(self, timestamp=None): return super().date_time_string(time.time() + 3600)
    def do_GET(self): self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *arguments): pass
http.server.HTTPServer(("127.0.0.1", int(sys.argv[1])), Late).serve_forever()' "$late" &
pids+=($!)
wait_for 10 curl -sf "http://127.0.0.1:$late/"
cat >>"$work/coatcheck.yaml" <<TEXT
  late:
    kind: oauth2
    endpoints: {authorization: "http://127.0.0.1:$late/authorize", token: "http://127.0.0.1:$late/token"}
    identity: {source: api, url: "http://127.0.0.1:$late/me"}
    clients:
      ios: {client_id: late-app, auth: none, redirect_uris: ["com.example.late:/cb"]}
TEXT
check 1
says 'FAULT  providers\.late clock: this machine is 3(59[0-9]|600) s behind: set it by NTP' "one provider's clock is an hour ahead → check --online reports a fault"
says 'ok     providers\.id clock: .*' "one provider's clock is an hour ahead → the other provider's clock is reported as ok"

step "5. A provider that does not answer"
write "http://127.0.0.1:$(free_port)/oidc"
check 1
says 'FAULT  providers\.id discovery: .*' "provider refuses the connection → check --online reports a fault"
says 'ok     providers\.clover reach: .*' "provider refuses the connection → the other provider is still checked"

step "6. A redirect URI outside the Site URL"
write "$SANDBOX/oidc" https://app.example.com/clover
check 1
matches 'providers\.clover\.clients\.ios\.redirect_uris' "$(body)" "Clover's redirect URI is outside site_url → check --online names the setting with the error"
matches 'outside `site_url`' "$(body)" "Clover's redirect URI is outside site_url → check --online names the reason"

step "7. Key ring and store"
KEYS=$work/nowhere.json write "$SANDBOX/oidc"
check 1
says 'error: line 3: keys\.file: names a file that cannot be read: .*/nowhere.json does not exist; `coatcheck keys generate --file` makes one' "key file is missing → check --online prints an error with the remedy"
(umask 077 && echo '{}' >"$work/empty.json")
KEYS=$work/empty.json write "$SANDBOX/oidc"
check 1
says 'keys: .*/empty\.json: .*' "key file has no keys → check --online prints an error"
write "$SANDBOX/oidc"
echo "not a database, and longer than one: $(random_token)$(random_token)$(random_token)" >"$work/data/coatcheck.db"
check 1
says 'FAULT  store: .*' "store's file is not a database → check --online reports a fault"
rm "$work/data/coatcheck.db"
"$COATCHECK" migrate --config "$work/coatcheck.yaml" >/dev/null
check 0
says 'ok     store: opens and is up to date' "migrated store → check --online reports that the store is up to date"

step "8. An incomplete provider, with and without --online"
cat >>"$work/coatcheck.yaml" <<TEXT
  plain:
    kind: oauth2
    endpoints: {authorization: "$SANDBOX/oauth/authorize", token: "$SANDBOX/oauth/token"}
    clients:
      ios: {client_id: ios-app, auth: none, redirect_uris: ["com.example.app:/plain"]}
TEXT
check 1
says 'providers\.plain: oauth2 needs identity\.url or endpoints\.userinfo' "provider without a source of identity → check --online prints an error"
status=0
"$COATCHECK" check --config "$work/coatcheck.yaml" >"$work/body" 2>&1 || status=$?
same 1 "$status" "provider without a source of identity → check without --online exits 1"
says 'providers\.plain: oauth2 needs identity\.url or endpoints\.userinfo' "provider without a source of identity → check without --online prints the same error"

finish
