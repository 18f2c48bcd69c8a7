#!/usr/bin/env bash
# The login with curl from docs/start/first-login.md, unchanged.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. The page's block of commands"
awk '/^## A login by curl/ { found = 1 } found && /^```sh/ { inside = 1; next } inside && /^```/ { exit } inside' "$root/docs/start/first-login.md" |
    sed "s|^BROKER=.*|BROKER=$BROKER|" >"$work/pasted.sh"
same 4 "$(grep -c "^# [1-4]\. " "$work/pasted.sh")" "page's block → has four steps"

step "2. The block is executed"
(cd "$work" && bash -eu pasted.sh >pasted.out 2>pasted.err)
same 0 $? "page's block → every command succeeds"
same 2 "$(grep -c '"handle": "ses_' "$work/pasted.out")" "page's block → prints the session twice"
same 204 "$(tail -1 "$work/pasted.out")" "page's block → ends with 204"

finish
