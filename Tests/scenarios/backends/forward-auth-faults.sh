#!/usr/bin/env bash
# The recipes of deploy/forward-auth in real servers, with one fault at a time (SEC-87): the broker is killed, another program
# answers in its place, or a recipe's own script fails.
#   forward-auth-faults.sh [SERVER…]
source "$(dirname "$0")/../support/lib.bash"
source "$here/forward_auth.bash"

# walk_broken SERVER: checks a request while the recipe's script fails
walk_broken() {
    case $1 in haproxy | apache) ;; *) return ;; esac
    step "$1: the server's script for forward-auth fails"
    # After this edit, the script calls an unknown function, and does not handle the error.
    BREAK='s/pcall(/nothing_of_this_name(/' serve "$1" gateway-credential-4f1d9c
    denied "$1: the server's script for forward-auth fails" '50[03]' GET -H "Cookie: coatcheck=$late"
}

# walk_dead SERVER: checks requests with and without a cookie, after the broker was killed
walk_dead() {
    SITE=${site[$1]}
    step "$1: the broker is killed (SEC-87)"
    denied "$1: request with a live session while the broker is killed" 503 GET -H "Cookie: coatcheck=$late"
    expect_json .status 503 "$1: request with a live session while the broker is killed → the problem's status is 503"
    matches '^[0-9]+$' "$(header Retry-After)" "$1: request with a live session while the broker is killed → Retry-After in seconds"
    same "" "$(header Set-Cookie)" "$1: request with a live session while the broker is killed → the session cookie stays"
    denied "$1: request without a session while the broker is killed" 503 GET -H 'X-Auth-Subject: mallory'
    denied "$1: POST with a live session while the broker is killed" 503 POST --data-binary x -H "Cookie: coatcheck=$late"
}

# walk_faults SERVER: checks requests while another program gives the broker's answers (forward_auth.py)
walk_faults() {
    local answer
    SITE=${site[$1]}
    step "$1: the broker's refusals and errors"
    become busy
    denied "$1: broker answers forward-auth with 503" 503 GET -H "Cookie: coatcheck=$late"
    expect_header Retry-After 7 "$1: broker answers forward-auth with 503 → the app gets the broker's own Retry-After"
    become limited
    denied "$1: broker answers forward-auth with 429" 429 GET -H "Cookie: coatcheck=$late"
    expect_header Retry-After 7 "$1: broker answers forward-auth with 429 → the app gets the broker's own Retry-After"
    become ambiguous
    denied "$1: broker answers forward-auth with 400" 400 GET -H "Cookie: coatcheck=$late"
    become forbidden
    denied "$1: broker answers forward-auth with 403" 403 GET -H "Cookie: coatcheck=$late"
    for answer in broken bad-gateway misdirected redirect not-modified html nothing slow; do
        become "$answer"
        denied "$1: broker's answer to forward-auth is $answer" 503 GET -H "Cookie: coatcheck=$late"
        matches '^[0-9]+$' "$(header Retry-After)" "$1: broker's answer to forward-auth is $answer → the app gets Retry-After in seconds"
    done
    step "$1: a live session needs a step-up or a proof of presence"
    for answer in 'step-up step_up_required Step-up required' 'presence presence_required Presence required' \
        'presence-nonce presence_invalid Invalid proof of presence'; do
        become "${answer%% *}"
        answer=${answer#* }
        denied "$1: broker answers forward-auth with ${answer%% *}" 401 GET -H "Cookie: coatcheck=$late"
        same "$answer" "$(json .code) $(json .title)" "$1: broker answers forward-auth with ${answer%% *} → the app gets the code and title of this problem"
        expect_header Coatcheck-Code "${answer%% *}" "$1: broker answers forward-auth with ${answer%% *} → Coatcheck-Code repeats the code"
        matches "error=\"(${answer%% *}|insufficient_user_authentication)\"" "$(header WWW-Authenticate)" "$1: broker answers forward-auth with ${answer%% *} → WWW-Authenticate contains the matching error"
        same "" "$(header Set-Cookie)" "$1: broker answers forward-auth with ${answer%% *} → the session cookie stays"
    done
    expect_json .reason nonce "$1: proof of presence with an old nonce → the app gets the reason nonce"
    expect_header DPoP-Nonce the-next-nonce-0 "$1: proof of presence with an old nonce → the app gets the next nonce"
    step "$1: the broker's 200 contains a nonce for the next proof"
    become aging
    request GET "$SITE/orders" -H "Cookie: coatcheck=$late"
    expect_status 200 "$1: broker answers forward-auth with 200 and a nonce → the request reaches the service"
    expect_header DPoP-Nonce the-next-nonce-0 "$1: broker answers forward-auth with 200 and a nonce → the app gets the nonce"
}

become() { curl -s -f -o /dev/null -X PUT --data "$1" "http://127.0.0.1:$BACKENDS_PORT/mode" || not_ok "mode $1"; }

start_gates
device a-late-phone
sign_in oidc ios ana
late=$(cookie coatcheck)
for server in "${servers[@]}"; do
    request GET "${site[$server]}/orders"
    expect_status 200 "$server: broker runs → a request with a live session is served"
done
JAR=
for server in "${servers[@]}"; do walk_broken "$server"; done
kill_broker KILL
for server in "${servers[@]}"; do walk_dead "$server"; done

python3 "$root/Tests/scenarios/support/forward_auth.py" broker "$BACKENDS_PORT" >"$work/fake.log" 2>&1 &
fake=$!
pids+=("$fake")
wait_for 10 curl -s -f -o /dev/null -X PUT --data busy "http://127.0.0.1:$BACKENDS_PORT/mode" || give_up "the stand-in"
for server in "${servers[@]}"; do walk_faults "$server"; done
kill "$fake"
wait "$fake" 2>/dev/null

step "The broker runs again"
start_broker
for server in "${servers[@]}"; do
    request GET "${site[$server]}/orders" -H "Cookie: coatcheck=$late"
    expect_status 200 "$server: broker runs again → a request with the same session is served"
    matches '^[0-9]+$' "$(served)" "$server: broker runs again → the service answers with its number of requests"
done

finish
