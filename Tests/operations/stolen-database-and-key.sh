#!/usr/bin/env bash
# Follows "A stolen database" and "A stolen key" of docs/operate/incidents.md.
source "$(dirname "$0")/../scenarios/support/lib.bash"
start_stack
printf 'admin-keeper-5d20c7f19e\n' >"$work/keeper"
printf 'admin-ender-b81c64e2f0\n' >"$work/ender"
sign_in oidc ios ana
session=$(cookie coatcheck)
sandbox GET /tokens
jq -r '.. | .token? // empty' "$work/control" | sort -u >"$work/tokens"

step "A stolen database contains no usable token"
"$COATCHECK" backup "$work/stolen.db" --config "$work/coatcheck.yaml" --token-file "$work/keeper" >"$work/out" 2>&1
same 0 $? "coatcheck backup → exit 0"
same 1 "$(grep -c . <(head -1 "$work/tokens"))" "sandbox's list of issued tokens → has at least one"
found=$(grep -acF -f "$work/tokens" "$work/stolen.db")
same 0 "$found" "stolen copy of the database → contains no provider token"
found=$(grep -acF -e "$session" "$work/stolen.db")
same 0 "$found" "stolen copy of the database → contains no session token"
"$COATCHECK" keys generate --file "$work/thief.json" >/dev/null
sed -e "s|file: $work/keys.json|file: $work/thief.json|" -e "s|data/coatcheck.db|thief/coatcheck.db|" "$work/coatcheck.yaml" >"$work/thief.yaml"
mkdir -m 700 "$work/thief"
"$COATCHECK" restore "$work/stolen.db" --config "$work/thief.yaml" --without-endings >"$work/out" 2>&1
matches '^1 .*opens 0 of' "$? $(cat "$work/out")" "thief restores the stolen database with another key ring → fails, because zero records can be opened"

step "A stolen key is replaced, and values are sealed again"
old=$("$COATCHECK" keys list --no-header --file "$work/keys.json" | cut -f1)
cp "$work/keys.json" "$work/stolen.json"
"$COATCHECK" keys rotate --file "$work/keys.json" --now >/dev/null
new=$("$COATCHECK" keys list --no-header --file "$work/keys.json" | sed -n 1p | cut -f1)
sealing() { curl -s "$MANAGEMENT/admin/v1/keys" -H "Authorization: Bearer $(cat "$work/keeper")" | jq -e --arg id "$new" '.items[] | select(.id == $id and .use == "seals")' >/dev/null; }
wait_for 15 sealing
same 0 $? "coatcheck keys rotate --now after a key was stolen → the new key seals"
"$COATCHECK" keys reseal --config "$work/coatcheck.yaml" --token-file "$work/keeper" >"$work/out" 2>&1
same 0 $? "coatcheck keys reseal → exit 0"
get /v1/session
expect_status 200 "new key seals, and all values are resealed → the session is alive"

step "A thief who also has the database has the tokens, so the sessions are ended and the tokens revoked"
sandbox DELETE /requests
"$COATCHECK" sessions end --provider oidc --all --config "$work/coatcheck.yaml" --token-file "$work/ender" >"$work/out"
same "ended 1" "$(cat "$work/out")" "coatcheck sessions end --provider oidc --all → one session ended"
JAR= get /v1/session -b "coatcheck=$session"
same "401 admin" "$STATUS $(json .reason)" "coatcheck sessions end --provider oidc --all → the session has ended with the reason admin"
revoked() { sandbox GET /tokens; [ "$(jq '[.. | objects | select(.live == true)] | length' "$work/control")" = 0 ]; }
wait_for 15 revoked
same 0 $? "coatcheck sessions end --provider oidc --all → the provider has no live token"
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
expect_status 201 "stolen key was removed from the key ring → ana signs in"
sed "s|file: $work/keys.json|file: $work/stolen.json|" "$work/coatcheck.yaml" >"$work/thief.yaml"
kill_broker TERM
rm -f "$work/later.db"
cp "$work/data/coatcheck.db" "$work/later.db"
sed -i "s|data/coatcheck.db|thief/coatcheck.db|" "$work/thief.yaml"
"$COATCHECK" restore "$work/later.db" --config "$work/thief.yaml" --without-endings >"$work/out" 2>&1
same 1 $? "thief restores a later copy of the database with the stolen key → exit 1"
finish
