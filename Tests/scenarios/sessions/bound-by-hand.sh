#!/usr/bin/env bash
# The block of curl commands from docs/apps/bound-sessions.md, unchanged, which signs in with `coatcheck-sandbox proof`. The
# script also checks the arguments that this command refuses.
source "$(dirname "$0")/../support/lib.bash"
"$root/scripts/stack" start "$work/stack" >"$work/start.log" 2>&1 || give_up "scripts/stack: $(tail -3 "$work/start.log")"
pids+=("$(cat "$work/stack/broker.pid")" "$(cat "$work/stack/sandbox.pid")")
# shellcheck disable=SC1091
BROKER=$(. "$work/stack/env" && echo "$BROKER")

step "1. coatcheck-sandbox proof refuses faulty arguments"
prove() { "$COATCHECK_SANDBOX" proof "$@" >"$work/out" 2>"$work/err"; }
prove --key "$work/key.pem" GET ftp://127.0.0.1/ && not_ok "proof for a URL that is not http or https → refused" || matches 'no http or https URL' "$(cat "$work/err")" "proof for a URL that is not http or https → refused"
echo nothing >"$work/other.pem"
prove --key "$work/other.pem" GET http://127.0.0.1/ && not_ok "proof with a file that contains no key → refused" || matches 'holds no P-256 private key' "$(cat "$work/err")" "proof with a file that contains no key → refused"
same nothing "$(cat "$work/other.pem")" "proof with a file that contains no key → the file is unchanged"
prove --key "$work/nowhere/key.pem" GET http://127.0.0.1/ && not_ok "proof with a key file in a missing folder → refused" || matches 'No such file' "$(cat "$work/err")" "proof with a key file in a missing folder → refused"

step "2. The key is made once and only its owner can read it"
prove --key "$work/key.pem" GET "http://127.0.0.1/a?b=c#d" || not_ok "proof with a new key file → prints a proof: $(cat "$work/err")"
same 600 "$(stat -c %a "$work/key.pem")" "proof with a new key file → the file has mode 0600"
part() { cut -d. -f"$1" "$work/out" | tr '_-' '/+' | sed -E 's/$/===/' | base64 -d 2>/dev/null; }
same '"http://127.0.0.1/a"' "$(part 2 | jq .htu)" "proof for a URL with query and fragment → its htu has neither"
same 'null null' "$(part 2 | jq -r '"\(.nonce) \(.ath)"')" "proof without nonce and token → has no claims nonce and ath"
first=$(part 1 | jq -c .jwk)
prove --key "$work/key.pem" --nonce n-1 --token t-1 POST http://127.0.0.1/a
same "$first" "$(part 1 | jq -c .jwk)" "second proof with the same key file → has the same key"
same "n-1 $(printf t-1 | openssl dgst -sha256 -binary | base64 | tr '/+' '_-' | tr -d =)" "$(part 2 | jq -r '"\(.nonce) \(.ath)"')" "proof with nonce and token → has the claims nonce and ath"
prove --key "$work/key.pem" --nonce -n --token -t POST http://127.0.0.1/a
same "-n $(printf %s -t | openssl dgst -sha256 -binary | base64 | tr '/+' '_-' | tr -d =)" "$(part 2 | jq -r '"\(.nonce) \(.ath)"')" "proof with nonce and token that begin with a hyphen → has the claims nonce and ath"

step "3. The block of docs/apps/bound-sessions.md"
awk '/^### By hand/ { found = 1 } found && /^```sh/ { inside = 1; next } inside && /^```/ { exit } inside' "$root/docs/apps/bound-sessions.md" |
    sed -e "s|^BROKER=.*|BROKER=$BROKER|" -e "s|^PATH=.*|coatcheck-sandbox() { \"$COATCHECK_SANDBOX\" \"\$@\"; }|" >"$work/pasted.sh"
same 4 "$(grep -c "^# [1-4]\. " "$work/pasted.sh")" "commands of docs/apps/bound-sessions.md → have four steps"
(cd "$work" && bash -u pasted.sh >pasted.out 2>pasted.err)
same "401 200 200 200 204" "$(tr '\n' ' ' <"$work/pasted.out" | sed 's/ $//')" "commands of docs/apps/bound-sessions.md → print the documented statuses $(cat "$work/pasted.err")"
finish
