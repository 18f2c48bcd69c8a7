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
    matches 'signedOut|user(=|":)null' "$(grep '^at the start:' "$work/app.log")" "$1: the app starts → it shows no user"
    matches 'user(=|: "|":")Ana Example' "$(grep '^after the sign-in:' "$work/app.log")" "$1: the user signs in → the app shows Ana Example"
    matches '^the API answers 200: .*/api/private/orders.*Bearer at-' "$(grep '^the API' "$work/app.log")" \
        "$1: the app calls the API through the relay → the API got an access token, and answers"
    matches 'signedOut|user(=|":)null' "$(grep '^after the sign-out:' "$work/app.log")" "$1: the user signs out → the app shows no user"
    request GET "$MANAGEMENT/admin/v1/sessions" -H "Authorization: Bearer $ADMIN_TOKEN"
    same "200 0" "$STATUS $(jq '.items | length' "$work/body")" "$1: the user signs out → the broker lists no session"
}

# refuses_app NAME RUN: starts an app of `examples` against a broker without its client
refuses_app() {
    if [ -z "${OTHER:-}" ]; then
        sed 's/^      \(ios\|android\):/      other-\1:/' "$root/deploy/sandbox.yaml" >"$work/other.yaml"
        "$root/scripts/stack" start "$work/other" "$work/other.yaml" >"$work/other.log" 2>&1 || give_up "the other broker"
        pids+=("$(cat "$work/other/broker.pid")" "$(cat "$work/other/sandbox.pid")")
        OTHER=$(sed -n 's/^BROKER=//p' "$work/other/env")
    fi
    COATCHECK_URL=$OTHER timeout 300 "$2" >"$work/app.log" 2>&1
    same "1 1" "$? $(grep -c '^failed:' "$work/app.log")" "$1: the app runs against a broker that lacks the app's client → exit 1, and the app prints the failure"
    matches '/client' "$(cat "$work/app.log")" "$1: the app runs against a broker that lacks the app's client → the app prints the detail and the faulty member"
}

# follows_app NAME RUN README: an app of `examples` follows its session, and the curl line of the client's README ends the session
follows_app() {
    # Empty the file here. The shell below empties it a moment later, and until then it has the lines of the former run.
    : >"$work/app.log"
    COATCHECK_URL=$BROKER timeout 300 "$2" follow >"$work/app.log" 2>&1 &
    local followed=$!
    wait_for 200 grep -q '^the API answers' "$work/app.log"
    block_behind "$3" sh '**The end of a session.**' | sed "s|\.run/|$work/run/|; s|http://127.0.0.1:9090|$MANAGEMENT|" >"$work/end.sh"
    bash "$work/end.sh" >"$work/end.log" 2>&1
    wait "$followed"
    local status=$?
    [ "$status" -eq 0 ] || sed 's/^/# /' "$work/app.log" "$work/end.log"
    same "0 the session's end: admin" "$status $(grep "^the session's end:" "$work/app.log")" "$1: an operator ends the session with the README's curl line → the app shows the reason admin"
}

# block_behind FILE LANGUAGE TEXT: prints a document's first block in a language after the line with this text; fails if there
# is none
block_behind() {
    awk -v fence="\`\`\`$2" -v text="$3" 'index($0, text) { found = 1 } found && $0 == fence { inside = 1; next }
        inside && $0 == "```" { exit } inside { lines++; print } END { exit !lines }' "$1"
}
