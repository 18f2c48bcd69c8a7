#!/usr/bin/env bash
# Starts the services examples/node, examples/python, examples/go and examples/java, each with its one command. Then runs the curl
# line of docs/backends/check-a-session.md, unchanged from the page.
source "$(dirname "$0")/../support/lib.bash"
with_packages
sed 's|client_id: silent-app, |&transport: bearer, binding: {mode: enforce}, |' "$here/coatcheck.yaml" >"$work/stack.yaml"
start_stack "$work/stack.yaml"
page="$root/docs/backends/check-a-session.md"

# block LANGUAGE: the page's block in that language
block() { awk -v mark="\`\`\`$1" '$0 == mark { inside = 1; next } inside && /^```/ { exit } inside' "$page"; }

export ORIGIN=https://orders.example.com COATCHECK_URL=$BROKER CREDENTIAL=orders-credential-4f1d9c
TOKEN=$("$root/examples/token")
export TOKEN
JAR=

# service FOLDER: starts the example with its one command, and checks the requests that it refuses and accepts
service() {
    local name=${1#*/} other
    PORT=$(free_port)
    PORT=$PORT "$root/$1/run" >"$work/$name.log" 2>&1 &
    pids+=($!)
    step "$1"
    wait_for 60 curl -s -o "$work/none" "http://127.0.0.1:$PORT/"
    same 0 $? "$name: the script 'run' of the example → starts the service"
    request GET "http://127.0.0.1:$PORT/"
    expect_status 401 "$name: request without a token → 401"
    request GET "http://127.0.0.1:$PORT/" -H "Authorization: Bearer $(random_token)"
    expect_status 401 "$name: request with an unknown token → 401"
    request GET "http://127.0.0.1:$PORT/" -H "Authorization: Bearer $TOKEN"
    same "200 user-ana" "$STATUS $(body)" "$name: request with a session → the service names the user"
    other=$("$root/examples/token")
    request GET "http://127.0.0.1:$PORT/" -H "Authorization: Bearer $other"
    expect_status 200 "$name: request with a second session → 200"
    request DELETE /v1/session -H "Authorization: Bearer $other"
    request GET "http://127.0.0.1:$PORT/" -H "Authorization: Bearer $other"
    expect_status 401 "$name: request with a session that has logged out → 401"
    "$PYTHON" "$root/Tests/scenarios/support/bound_app.py" service "$name" "http://127.0.0.1:$PORT" "$BROKER" "$ORIGIN" >"$work/bound" 2>&1 \
        || not_ok "$name, the script for bound sessions → runs to its end" "$(tail -1 "$work/bound")"
    take_over <"$work/bound"
    ports+=("$PORT")
}

ports=()
for example in examples/node examples/python examples/go examples/java; do service "$example"; done

step "The token exchange"
block sh >"$work/exchange.sh"
bash -eu "$work/exchange.sh" >"$work/body" 2>"$work/exchange.log"
same 0 $? "token exchange with the curl line of docs/backends/check-a-session.md → exit 0"
matches '.' "$(json .access_token)" "token exchange with the curl line of docs/backends/check-a-session.md → an access token"

step "The page's configuration block is valid"
sed -n '1,/^backends:/p' "$work/coatcheck.yaml" | sed '$d' >"$work/with-block.yaml"
block yaml >>"$work/with-block.yaml"
chmod 600 "$work/with-block.yaml"
"$COATCHECK" check --config "$work/with-block.yaml" >"$work/check" 2>&1
same 0 $? "configuration with the block of docs/backends/check-a-session.md → check succeeds"

step "With a killed broker the services answer 503"
kill_broker KILL
for port in "${ports[@]}"; do
    request GET "http://127.0.0.1:$port/" -H "Authorization: Bearer $TOKEN"
    same "503 5" "$STATUS $(header Retry-After)" "request to an example service after the broker was killed → 503 with Retry-After"
done

step "Introspection moves a session's idle end only for backends with \`slides\`"
sed -i 's/^  orders: {/&slides: true, /; s|^  gateway: |  auditor: {sha256: e04936a5a3bdd4bd02ff3efb2fdb4d2ba6aa1ee2ba7ef0b4be2cd3fc2bb7ab01, may: [introspect]}\n&|' "$work/coatcheck.yaml"
digest=$(printf %s auditor-credential-77b1 | openssl dgst -sha256 -r | cut -d' ' -f1)
sed -i "s/e04936a5a3bdd4bd02ff3efb2fdb4d2ba6aa1ee2ba7ef0b4be2cd3fc2bb7ab01/$digest/" "$work/coatcheck.yaml"
start_broker
# ask_on CREDENTIAL: introspects a new session for seven seconds. Its client `brief` has an idle time of four seconds. Sets ACTIVE
# to the last answer, and LONGEST to the longest pause between two requests in seconds. If LONGEST is 2 or more, the machine was
# too busy for a valid result.
ask_on() {
    local backend=$1 begin last=$SECONDS
    LONGEST=0
    device "$backend-$RANDOM"
    sign_in oidc brief ana
    session=$(cookie coatcheck)
    begin=$SECONDS
    JAR=
    while [ $((SECONDS - begin)) -lt 7 ]; do
        request POST /v1/introspect -H "X-Coatcheck-Backend: $backend" -d "token=$session"
        [ "$(json .active)" = true ] || break
        [ $((SECONDS - last)) -le "$LONGEST" ] || LONGEST=$((SECONDS - last))
        last=$SECONDS
        sleep 0.3
    done
    ACTIVE=$(json .active)
    [ $((SECONDS - last)) -le "$LONGEST" ] || LONGEST=$((SECONDS - last))
}
for _ in 1 2 3; do
    ask_on orders-credential-4f1d9c
    [ "$ACTIVE" = false ] && [ "$LONGEST" -ge 2 ] || break
done
same true "$ACTIVE" "backend with the setting slides introspects a session repeatedly → the session outlives its idle time"
ask_on auditor-credential-77b1
same false "$ACTIVE" "backend without the setting slides introspects a session repeatedly → the session ends after its idle time"

finish
