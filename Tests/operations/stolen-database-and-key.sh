#!/usr/bin/env bash
# Walks "A stolen database" and "A stolen key" of docs/operate/incidents.md.
source "$(dirname "$0")/../scenarios/support/lib.bash"
start_stack
printf 'admin-keeper-5d20c7f19e\n' >"$work/keeper"
printf 'admin-ender-b81c64e2f0\n' >"$work/ender"
sign_in oidc ios ana
session=$(cookie coatcheck)
sandbox GET /tokens
jq -r '.. | .token? // empty' "$work/control" | sort -u >"$work/tokens"

step "A stolen database: there is nothing in it to present anywhere"
"$COATCHECK" backup "$work/stolen.db" --config "$work/coatcheck.yaml" --token-file "$work/keeper" >"$work/out" 2>&1
same 0 $? "a copy"
same 1 "$(grep -c . <(head -1 "$work/tokens"))" "the provider has given tokens out"
found=$(grep -acF -f "$work/tokens" "$work/stolen.db")
same 0 "$found" "no token of the provider's is in it"
found=$(grep -acF -e "$session" "$work/stolen.db")
same 0 "$found" "nor is the session's"
"$COATCHECK" keys generate --file "$work/thief.json" >/dev/null
sed -e "s|file: $work/keys.json|file: $work/thief.json|" -e "s|data/coatcheck.db|thief/coatcheck.db|" "$work/coatcheck.yaml" >"$work/thief.yaml"
mkdir -m 700 "$work/thief"
"$COATCHECK" restore "$work/stolen.db" --config "$work/thief.yaml" --without-endings >"$work/out" 2>&1
matches '^1 .*opens 0 of' "$? $(cat "$work/out")" "without the key ring nothing opens"

step "A stolen key: a new one, everything under it, and the old one goes"
old=$("$COATCHECK" keys list --no-header --file "$work/keys.json" | cut -f1)
cp "$work/keys.json" "$work/stolen.json"
"$COATCHECK" keys rotate --file "$work/keys.json" --now >/dev/null
new=$("$COATCHECK" keys list --no-header --file "$work/keys.json" | sed -n 1p | cut -f1)
sealing() { curl -s "$MANAGEMENT/admin/v1/keys" -H "Authorization: Bearer $(cat "$work/keeper")" | jq -e --arg id "$new" '.items[] | select(.id == $id and .use == "seals")' >/dev/null; }
wait_for 15 sealing
same 0 $? "the new key seals"
"$COATCHECK" keys reseal --config "$work/coatcheck.yaml" --token-file "$work/keeper" >"$work/out" 2>&1
same 0 $? "coatcheck keys reseal"
get /v1/session
expect_status 200 "nobody was logged out so far"

step "With a copy of the database the thief has the tokens: end the sessions, which revokes them at the provider"
sandbox DELETE /requests
"$COATCHECK" sessions end --provider oidc --all --config "$work/coatcheck.yaml" --token-file "$work/ender" >"$work/out"
same "ended 1" "$(cat "$work/out")" "coatcheck sessions end --provider oidc --all"
JAR= get /v1/session -b "coatcheck=$session"
same "401 admin" "$STATUS $(json .reason)" "the session is over"
revoked() { sandbox GET /tokens; [ "$(jq '[.. | objects | select(.live == true)] | length' "$work/control")" = 0 ]; }
wait_for 15 revoked
same 0 $? "and no token lives at the provider"
kill_broker TERM
python3 - "$work" "$old" <<'P'
import json, sys
path = sys.argv[1] + "/keys.json"
ring = json.load(open(path))
ring["keys"] = [key for key in ring["keys"] if key["id"] != sys.argv[2]]
json.dump(ring, open(path, "w"))
P
start_broker
device ana-again
sign_in oidc ios ana
expect_status 201 "ana signs in under the new key alone"
sed "s|file: $work/keys.json|file: $work/stolen.json|" "$work/coatcheck.yaml" >"$work/thief.yaml"
kill_broker TERM
rm -f "$work/later.db"
cp "$work/data/coatcheck.db" "$work/later.db"
sed -i "s|data/coatcheck.db|thief/coatcheck.db|" "$work/thief.yaml"
"$COATCHECK" restore "$work/later.db" --config "$work/thief.yaml" --without-endings >"$work/out" 2>&1
same 1 $? "the stolen key opens too little of what is stored now to be taken for the store's"
finish
