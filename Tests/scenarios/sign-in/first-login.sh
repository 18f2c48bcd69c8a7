#!/usr/bin/env bash
# The block of curl commands from docs/start/first-login.md, unchanged, which does a login.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. The page's block of commands"
awk '/^## A login by curl/ { found = 1 } found && /^```sh/ { inside = 1; next } inside && /^```/ { exit } inside' "$root/docs/start/first-login.md" |
    sed "s|^BROKER=.*|BROKER=$BROKER|" >"$work/pasted.sh"
same 4 "$(grep -c "^# [1-4]\. " "$work/pasted.sh")" "block of docs/start/first-login.md → has four steps"

step "2. The block is executed"
(cd "$work" && bash -eu pasted.sh >pasted.out 2>pasted.err)
same 0 $? "block of docs/start/first-login.md → every command succeeds"
same 2 "$(grep -c '"handle": "ses_' "$work/pasted.out")" "block of docs/start/first-login.md → prints the session twice"
same 204 "$(tail -1 "$work/pasted.out")" "block of docs/start/first-login.md → its last line is 204, from the log-out"

finish
