# The stack of `make run`, the apps of `examples`, and the blocks of code in documents.

# start_run: starts the broker and the sandbox of `make run`; also sets ADMIN_TOKEN and BACKEND_TOKEN
start_run() {
    "$root/scripts/stack" start "$work/run" >"$work/run.log" 2>&1 || give_up "the stack of make run"
    # shellcheck disable=SC1091
    . "$work/run/env"
    broker_pid=$(cat "$work/run/broker.pid")
    pids+=("$(cat "$work/run/sandbox.pid")")
    device a-phone
}

# app_example NAME: checks the lines of an app of `examples`, in "$work/app.log", and that its session has ended
app_example() {
    matches 'signedOut|user(=|: )null' "$(grep '^at the start:' "$work/app.log")" "$1: at the start → signed out"
    matches 'user(=|: .?)(user-ana|.Ana Example)' "$(grep '^after the sign-in:' "$work/app.log")" "$1: sign-in → Ana is signed in"
    matches '^the API answers 200: .*/api/private/orders.*Bearer at-' "$(grep '^the API' "$work/app.log")" \
        "$1: relayed call → the API answers, and got an access token"
    matches 'signedOut|user(=|: )null' "$(grep '^after the sign-out:' "$work/app.log")" "$1: sign-out → signed out"
    request GET "$MANAGEMENT/admin/v1/sessions" -H "Authorization: Bearer $ADMIN_TOKEN"
    same "200 0" "$STATUS $(jq '.items | length' "$work/body")" "$1: sign-out → the broker has no session"
}

# block_behind FILE LANGUAGE TEXT: prints a document's first block in a language after the line with this text; fails if there
# is none
block_behind() {
    awk -v fence="\`\`\`$2" -v text="$3" 'index($0, text) { found = 1 } found && $0 == fence { inside = 1; next }
        inside && $0 == "```" { exit } inside { lines++; print } END { exit !lines }' "$1"
}
