#!/usr/bin/env bash
# The costs that one address can cause (SEC-119, SEC-121). Without a session, it sends at full speed each kind of request that
# makes a row or a provider call. The script counts rows in the database and calls in the emulator. Both stay within the address's
# share, and a user at another address signs in at once.
#   CHARGE_SECONDS   how long each of the two floods lasts (5)
source "$(dirname "$0")/../support/lib.bash"
start_stack
seconds=${CHARGE_SECONDS:-5}
host=auth.example.org
attacker=127.0.0.2
another=127.0.0.3
per_minute=60
share=64

# With a loopback public_url, the limits do not apply to loopback clients, so restart the broker with another public_url.
kill_broker TERM
sed -i -e "s|^  public_url: .*|  public_url: https://$host|" -e "s|\"http://[^\"]*/callback/|\"https://$host/callback/|" \
    -e 's|^log: .*|log: {level: notice}|' "$work/coatcheck.yaml"
# flood_limits LOGINS-PER-MINUTE: sets a small cap, so that an address fills its share quickly
flood_limits() {
    sed -i '/^limits: /d' "$work/coatcheck.yaml"
    printf 'limits: {logins_per_minute: %d, wrong_tokens_per_minute: %d, pending_logins: 1000}\n' "$1" "$1" >>"$work/coatcheck.yaml"
}

# rows TABLE [CONDITION]: counts rows in the database; 0 if the table does not exist
rows() {
    python3 - "$work/data/coatcheck.db" "$1" "${2:-1}" <<'PY'
import sqlite3, sys
path, table, condition = sys.argv[1:]
with sqlite3.connect(f"file:{path}?mode=ro", uri=True, timeout=10) as database:
    names = [name for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
    print(database.execute(f"SELECT count(*) FROM {table} WHERE {condition}").fetchone()[0] if table in names else 0)
PY
}
bytes_kept() { cat "$work"/data/* 2>/dev/null | wc -c; }
# calls_made: prints the number of calls in the emulator's record, with those for shared documents
calls_made() { sandbox GET /counts; jq '[.[]] | add // 0' "$work/control"; }
at_most() { if [ "$1" -le "$2" ]; then ok "$3: $1 (at most $2)"; else not_ok "$3" "$1, and $2 is the most"; fi; }
at_least() { if [ "$1" -ge "$2" ]; then ok "$3: $1 (at least $2)"; else not_ok "$3" "$1, and $2 is the least"; fi; }

# flood ADDRESS: sends the requests; "$work/flood" has the number of answers for each kind and status; SPENT is the time in
# seconds
flood() {
    local began=$SECONDS
    sandbox DELETE /requests
    before_logins=$(rows logins) before_exchanges=$(rows exchanges)
    before_registrations=$(rows registrations) before_handoffs=$(rows handoffs)
    before_bytes=$(bytes_kept)
    python3 "$here/charges.py" --broker "$BROKER" --host "$host" --from "$1" --seconds "$seconds" \
        --issuer "$SANDBOX/oidc" >"$work/flood" || not_ok "the script of the flood → runs to its end" "it broke off"
    SPENT=$((SECONDS - began + 1))
    jq -r 'to_entries[] | "#   \(.key): \(.value | to_entries | map("\(.value) x \(.key)") | join(", "))"' "$work/flood"
    sent=$(jq '[.[] | add] | add' "$work/flood")
    logins=$(($(rows logins) - before_logins))
    exchanges=$(($(rows exchanges) - before_exchanges))
    registrations=$(($(rows registrations) - before_registrations))
    handoffs=$(($(rows handoffs) - before_handoffs))
    made=$(calls_made)
    echo "#   $sent requests in $SPENT s: $logins logins, $exchanges exchanges, $registrations registrations, $handoffs handoffs, $made calls, $((($(bytes_kept) - before_bytes) / 1024)) KiB"
}

# sign_in_from ADDRESS: does a whole login of a bearer client from this address
sign_in_from() {
    JAR= post /v1/logins '{"provider":"oidc","client":"android"}' --interface "$1" -H "Host: $host"
    AUTHORIZATION_URL=$(json .authorization_url)
    LOGIN_TOKEN=$(json .login_token)
    browser "$AUTHORIZATION_URL" ana
    JAR= post /v1/sessions "{\"callback_url\":$(json_text "$CALLBACK"),\"login_token\":\"$LOGIN_TOKEN\"}" --interface "$1" -H "Host: $host"
}

step "1. Limits for each minute: $per_minute logins, $per_minute callbacks and $per_minute wrong tokens"
flood_limits "$per_minute"
start_broker
sign_in_from "$attacker"
expect_status 201 "before the flood, a sign-in from the attacker's address → a session"
session=$(json .session_token)
sandbox POST /backchannel-logout '{"provider":"oidc","client_id":"ios-app","user":"nobody","sid":"sid-none"}'
logout_token=$(json .token "$work/control")
flood "$attacker"
# The address may use the tokens for one minute at once, and those that are added during the flood.
allowed=$((per_minute + SPENT + 1))
at_least "$sent" 200 "flood from one address → enough requests are sent"
at_most "$((logins + exchanges + registrations))" "$((2 * allowed))" "flood from one address → limited number of rows of logins, exchanges and registrations in all"
at_most "$logins" "$allowed" "flood from one address → limited number of rows of logins"
at_most "$exchanges" "$allowed" "flood from one address → limited number of rows of exchanges"
at_most "$registrations" "$share" "flood from one address → limited number of rows of registrations"
at_most "$handoffs" "$allowed" "flood from one address → limited number of rows of handoffs"
# Each rejected code costs one call. Another 20 calls are allowed for metadata and keys of five providers, which all requests
# share.
at_most "$made" "$((allowed + 20))" "flood from one address → limited number of provider calls"
for kind in "logins" "provider-started arrivals" "invented codes" "guessed state keys" "imported tokens" "invented sessions"; do
    at_least "$(jq --arg kind "$kind" '.[$kind]["429"] // 0' "$work/flood")" 1 "flood from one address, requests of the kind “$kind” → at least one answer is 429"
done
# Until the first granted import of a client, a refused token is answered 502, because the client id may be wrong (decision 102).
same 0 "$(jq 'del(."imported tokens"["502"]) | [.[] | to_entries[] | select(.key | test("^5|broken")) | .value] | add // 0' "$work/flood")" "flood from one address → zero answers with 5xx and zero broken connections, except 502 to refused imports"
request GET /v1/session --interface "$attacker" -H "Host: $host" -H "Authorization: Bearer $session"
expect_status 200 "after a flood, a session read from the flood's address, with a live session's token → 200"
request POST /v1/backchannel-logout/oidc --interface "$attacker" -H "Host: $host" -d "logout_token=$logout_token"
expect_status 200 "after a flood, a valid logout token from the flood's address → 200"
began=$SECONDS
sign_in_from "$another"
expect_status 201 "after a flood, a sign-in from another address → a session"
at_most "$((SECONDS - began))" 5 "after a flood, a sign-in from another address → done within seconds"

step "2. Limits for each address: $share of a cap of 1000, without a limit for each minute"
kill_broker TERM
rm -rf "$work/data"
mkdir -m 700 "$work/data"
flood_limits 1000000
start_broker
flood "$attacker"
at_most "$(rows logins 'status = 0')" "$share" "flood while the limits per minute are off → limited number of pending logins"
at_most "$registrations" "$share" "flood while the limits per minute are off → limited number of rows of registrations"
at_most "$handoffs" "$share" "flood while the limits per minute are off → limited number of rows of handoffs"
began=$SECONDS
sign_in_from "$another"
expect_status 201 "after a flood while the limits per minute are off, a sign-in from another address → a session"
at_most "$((SECONDS - began))" 5 "after a flood while the limits per minute are off, a sign-in from another address → done within seconds"

kill -0 "$broker_pid" 2>/dev/null
same 0 $? "both floods → the broker keeps running"
finish
