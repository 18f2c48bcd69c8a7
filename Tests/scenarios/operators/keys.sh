#!/usr/bin/env bash
# Keys under traffic: a rotation in two steps, a key file that is replaced by new links, resealing, refused removals, and a key
# ring that does not fit the store.
source "$(dirname "$0")/../support/lib.bash"
# The key file has the layout of a Secret in Kubernetes: a link to a link to a folder, readable for the group.
mkdir -m 700 "$work/secret"
mkdir "$work/secret/..1"
"$COATCHECK" keys generate --file "$work/secret/..1/keys.json" >/dev/null
chmod 440 "$work/secret/..1/keys.json"
ln -s ..1 "$work/secret/..data"
ln -s ..data/keys.json "$work/secret/keys.json"
ln -s secret/keys.json "$work/keys.json"
start_stack
printf 'admin-keeper-5d20c7f19e\n' >"$work/keeper"
printf 'admin-reader-7f3d2a9c51\n' >"$work/reader"
chmod 600 "$work/keeper" "$work/reader"
keeper=(--management "$MANAGEMENT" --token-file "$work/keeper")
draft="$work/draft.json"

# run COMMAND…: runs the command; "$work/out" is its output, RUN its status
run() { RUN=0; "$COATCHECK" "$@" >"$work/out" 2>&1 || RUN=$?; }
admin() { JAR= request "$1" "$MANAGEMENT$2" -H "Authorization: Bearer admin-keeper-5d20c7f19e"; }
sealing() { admin GET /admin/v1/keys; jq -r '.items[] | select(.use == "seals") | .id' "$work/body"; }
values() { admin GET /admin/v1/keys; jq -r --arg id "$1" '[.items[] | select(.id == $id) | .values] | add // 0' "$work/body"; }
known() { admin GET /admin/v1/keys; jq -e --arg id "$1" '.items[] | select(.id == $id and .use != "missing")' "$work/body" >/dev/null; }
seals() { [ "$(sealing)" = "$1" ]; }
first() { sed -n 1p < <("$COATCHECK" keys list --no-header --file "$1") | cut -f1; }
generation=1
# publish: makes the draft the mounted key file, by replacing links as Kubernetes does
publish() {
    generation=$((generation + 1))
    mkdir "$work/secret/..$generation"
    cp "$draft" "$work/secret/..$generation/keys.json"
    chmod 440 "$work/secret/..$generation/keys.json"
    ln -s "..$generation" "$work/secret/..data_tmp"
    mv -T "$work/secret/..data_tmp" "$work/secret/..data"
}
take_draft() { cp "$work/secret/keys.json" "$draft" && chmod 600 "$draft"; }

step "Commands that are refused"
sign_in oidc ios
session=$(cookie coatcheck)
old=$(sealing)
take_draft
run keys remove "$old" --file "$draft" "${keeper[@]}"
matches '^1 .*seals: rotate first' "$RUN $(cat "$work/out")" "keys remove of the key that seals → refused"
run keys remove kNobody --file "$draft" "${keeper[@]}"
matches '^1 .*no key' "$RUN $(cat "$work/out")" "keys remove of an unknown key → refused"
run keys remove "$old" --file "$draft"
same 64 "$RUN" "keys remove without --management → usage error"
run keys rotate --file "$draft" --after soon
same 64 "$RUN" "keys rotate with an invalid time → usage error"
run keys reseal --management "$MANAGEMENT" --token-file "$work/reader"
matches '^1 .*403' "$RUN $(cat "$work/out")" "keys reseal with an admin token without the right \`maintain\` → refused with 403"
JAR= request POST "$MANAGEMENT/admin/v1/keys/reseal"
expect_problem 401 backend_unauthorized "request for a reseal without an admin token"

step "rotation in two steps: the new key first opens, then seals"
run keys rotate --file "$draft" --after 15s
new=$(first "$draft")
run keys rotate --file "$draft" --now
matches '^1 .*waits until' "$RUN $(cat "$work/out")" "second keys rotate, before the new key seals → refused"
publish
wait_for 10 known "$new"
same 0 $? "key file is replaced → the broker reads the new file without a signal"
same "$old" "$(sealing)" "a key is made by keys rotate --after 15s, and the 15 s are still running → the old key still seals"
run keys remove "$new" --file "$draft" "${keeper[@]}"
matches '^1 .*waits until' "$RUN $(cat "$work/out")" "keys remove of a new key, before this key seals → refused"
wait_for 30 seals "$new"
same 0 $? "a key is made by keys rotate --after 15s, and the 15 s are over → this key seals"
get /v1/session
expect_status 200 "session that the old key sealed, read when the new key seals → alive"
# sealed_anew: signs in on another device, and returns whether the new key seals any values (the broker checks the file every 2 s)
sealed_anew() {
    device "another-$RANDOM"
    sign_in oidc ios
    [[ $(values "$new") =~ ^[1-9] ]]
}
wait_for 10 sealed_anew
expect_status 201 "sign-in when the new key seals → a session"
matches '^[1-9]' "$(values "$new")" "sign-in when the new key seals → at least one stored value is sealed with the new key"

step "a half-written file changes nothing"
cp "$draft" "$work/whole.json"
head -c 80 "$work/whole.json" >"$draft"
publish
wait_for 10 grep -q 'keys not reloaded' "$work/broker.log"
same 0 $? "key file is replaced by a half-written file → the broker logs the failed reload of the keys"
seals "$new"
same 0 $? "key file is replaced by a half-written file → the present key ring stays in use"
cp "$work/whole.json" "$draft"
publish

step "a key cannot be removed while rows need it"
# aged: sets the times in the draft back, because the present key must have sealed for a minute before another may be removed
aged() { python3 - "$draft" <<'P'
import json, sys
ring = json.load(open(sys.argv[1]))
for key in ring["keys"]: key.pop("seals_from", None); key["created"] = "2026-01-01T00:00:00Z"
json.dump(ring, open(sys.argv[1], "w"))
P
}
run keys remove "$old" --file "$draft" "${keeper[@]}"
matches '^1 .*just now' "$RUN $(cat "$work/out")" "keys remove of the old key, just after the new key began to seal → refused"
aged
count=$(values "$old")
run keys remove "$old" --file "$draft" "${keeper[@]}"
matches "^1 .* $count stored values" "$RUN $(cat "$work/out")" "keys remove while stored values need the key → refused with the count $count"
matches '^[1-9]' "$count" "stored values that need the old key, before the reseal → more than zero"

step "resealing under traffic"
for n in 1 2 3 4 5 6 7 8; do device "phone-$n"; sign_in oidc ios; done >/dev/null
(for n in 1 2 3 4 5 6 7 8; do
    JAR="$work/phone-$n.jar"
    request POST /v1/session/refresh
    echo "$STATUS"
done >"$work/refreshes") &
refreshes=$!
run keys reseal "${keeper[@]}"
same 0 "$RUN" "keys reseal under traffic → exit 0"
matches 'sealed again [1-9]' "$(cat "$work/out")" "keys reseal under traffic → prints the number of values"
wait "$refreshes"
same 8 "$(grep -c 200 "$work/refreshes")" "refreshes during the reseal → all succeed"
admin GET /admin/v1/keys/reseal
expect_json .state done "keys reseal has ended → the management listener reports the reseal as done"
for n in 1 2 3 4 5 6 7 8; do JAR="$work/phone-$n.jar"; request POST /v1/session/refresh; echo "$STATUS"; done >"$work/refreshes"
same 8 "$(grep -c 200 "$work/refreshes")" "refreshes after the reseal → all succeed"
# The broker can repeat the answer of a code exchange for ten minutes, and needs the old key for this. So date it back.
python3 - "$work/data/coatcheck.db" <<'P'
import sqlite3, sys
with sqlite3.connect(sys.argv[1], timeout=20) as d: d.execute("UPDATE exchanges SET created_at = created_at - 3600000")
P
same 0 "$(values "$old")" "stored values that need the old key, after the reseal → zero"
cp "$draft" "$work/before.json"
run keys remove "$old" --file "$draft" "${keeper[@]}"
matches "^1 .*still has $old" "$RUN $(cat "$work/out")" "keys remove while a running broker still has the key → refused"
cp "$work/before.json" "$draft"
run keys remove "$old" --file "$draft" --copy "${keeper[@]}"
same 0 "$RUN" "keys remove from a copy of the key file → exit 0"
publish
unknown() { ! known "$old"; }
wait_for 10 unknown
JAR="$work/a-phone.jar" get /v1/session
expect_status 200 "session from before the rotation, after the old key was removed → alive"
JAR="$work/a-phone.jar" request POST /v1/session/refresh
expect_status 200 "refresh of a session from before the rotation, after the old key was removed → 200"

step "a key ring that does not fit the store"
kill_broker TERM
run check --config "$work/coatcheck.yaml" --online
matches 'ok +keys and store: the key ring opens' "$(cat "$work/out")" "key ring that fits the store → check --online reports ok"
cp "$work/coatcheck.yaml" "$work/right.yaml"
"$COATCHECK" keys generate --file "$work/stranger.json" >/dev/null
sed -i "s|file: $work/keys.json|file: $work/stranger.json|" "$work/coatcheck.yaml"
run check --config "$work/coatcheck.yaml" --online
matches 'FAULT +keys and store: the key ring opens 0 of' "$(cat "$work/out")" "key ring that does not fit the store → check --online reports a fault"
"$COATCHECK" serve --config "$work/coatcheck.yaml" >"$work/stranger.log" 2>&1 &
broker_pid=$!
wait_for 20 curl -sf "$MANAGEMENT/livez"
JAR= get "$MANAGEMENT/readyz"
same "503 keys_do_not_fit" "$STATUS $(json .status)" "broker with a key ring that does not fit the store → readiness is 503 keys_do_not_fit"
grep -q 'key ring is not the store' "$work/stranger.log"
same 0 $? "broker with a key ring that does not fit the store → the broker logs this at the start"
kill_broker TERM

step "keys from the environment"
sed "s|file: $work/keys.json|env: COATCHECK_KEYS|" "$work/right.yaml" >"$work/coatcheck.yaml"
run check --config "$work/coatcheck.yaml"
matches '^1 .*not set' "$RUN $(cat "$work/out")" "configured environment variable for the keys is not set → check fails"
COATCHECK_KEYS=nonsense run check --config "$work/coatcheck.yaml"
same 1 "$RUN" "configured environment variable for the keys has no key ring → check fails"
COATCHECK_KEYS=$(cat "$work/keys.json")
export COATCHECK_KEYS
start_broker
JAR="$work/a-phone.jar" get /v1/session
expect_status 200 "broker restarts with its keys from an environment variable → the session is alive"
same 0 "$(grep -cF -e "$(jq -r '.keys[0].key' "$work/keys.json")" "$work"/*.log | awk -F: '{n += $2} END {print n}')" "logs of all steps of this script → contain the key zero times"
finish
