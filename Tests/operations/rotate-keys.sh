#!/usr/bin/env bash
# Follows "Keys" of docs/operate/keys.md: rotate, reseal, remove. Every session stays.
source "$(dirname "$0")/../scenarios/support/lib.bash"
start_stack
printf 'admin-keeper-5d20c7f19e\n' >"$work/keeper"
asking=(--config "$work/coatcheck.yaml" --token-file "$work/keeper")
sign_in oidc ios ana
expect_status 201 "sign-in before the rotation → ana has a session"
id() { "$COATCHECK" keys list --no-header --file "$work/keys.json" | sed -n "$1p" | cut -f1; }
seals() { curl -s "$MANAGEMENT/admin/v1/keys" -H "Authorization: Bearer $(cat "$work/keeper")" | jq -e --arg id "$1" '.items[] | select(.id == $id and .use == "seals")' >/dev/null; }
old=$(id 1)

step "1. The running broker begins to seal with a new key"
"$COATCHECK" keys rotate --file "$work/keys.json" --now >"$work/out"
same 0 $? "coatcheck keys rotate --now → exit 0"
new=$(id 1)
wait_for 15 seals "$new"
same 0 $? "coatcheck keys rotate --now while the broker runs → the new key seals within seconds"
same "ID CREATED_AT USE" "$("$COATCHECK" keys list --file "$work/keys.json" | sed -n 1p | tr '\t' ' ')" "coatcheck keys list → prints the column names first"

step "2. All values are sealed with the new key"
"$COATCHECK" keys reseal "${asking[@]}" >"$work/out" 2>&1
same 0 $? "coatcheck keys reseal → exit 0"
matches 'sealed again [1-9]' "$(cat "$work/out")" "coatcheck keys reseal → prints the number of values that were sealed again"

step "3. The old key is removed when no value needs it"
kill_broker TERM
# Set the stored times back, as if the new key had sealed for an hour.
python3 - "$work" <<'P'
import json, sqlite3, sys
with sqlite3.connect(sys.argv[1] + "/data/coatcheck.db") as database:
    database.execute("UPDATE exchanges SET created_at = created_at - 3600000")
path = sys.argv[1] + "/keys.json"
ring = json.load(open(path))
for key in ring["keys"]:
    key.pop("seals_from", None)
    key["created"] = "2026-01-01T00:00:00Z"
json.dump(ring, open(path, "w"))
P
"$COATCHECK" keys remove "$old" --file "$work/keys.json" --config "$work/coatcheck.yaml" >"$work/out" 2>&1
same 0 $? "coatcheck keys remove while the broker is stopped → exit 0"
start_broker
get /v1/session
expect_status 200 "old key was removed, and the broker was started → ana is signed in"
request POST /v1/session/refresh
expect_status 200 "old key was removed, and the broker was started → ana's session is refreshed"
finish
