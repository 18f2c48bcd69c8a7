#!/usr/bin/env bash
# Ambiguous, oversized and slow requests on raw sockets (SEC-101 to SEC-106), each with a smuggled second one: see
# Tests/scenarios/support/raw_sockets.py. Its options may follow; the slow clients take a minute and a half.
# Then what a stranger can make the broker take (Tests/scenarios/support/resources.py): not with RESOURCES=off, and nothing else
# with RESOURCES=only, when the options are that one's. Its figures are those of a release build.
source "$(dirname "$0")/support/lib.bash"
ulimit -n "$(ulimit -Hn)"

if [ "${RESOURCES:-}" != only ]; then
    start_stack
    sign_in oidc android
    expect_status 201 "a session"
    session=$(json .session_token)
    device another-phone
    sign_in oidc android bob
    expect_status 201 "a victim's session"
    victim=$(json .session_token)
    # A token may begin with a hyphen, which would be another option.
    take_over < <(python3 "$here/raw_sockets.py" --broker "$BROKER" --management "$MANAGEMENT" \
        --session="$session" --victim="$victim" --backend gateway-credential-4f1d9c --pid "$broker_pid" "$@" || echo "not ok 0 - raw_sockets.py ended well")

    kill -0 "$broker_pid" 2>/dev/null
    same 0 $? "the broker still runs"
    same "" "$(grep -aiE 'fatal error|precondition|Swift runtime failure|stack dump' "$work/broker.log" | head -3)" "no trap in its log"
fi

RESOURCES=${RESOURCES:-on}
if [ "$RESOURCES" != off ]; then
    step "What a stranger can make the broker take (SEC-102, SEC-105)"
    [ -n "${SANDBOX:-}" ] || start_sandbox
    [ "$RESOURCES" = only ] || set --
    take_over < <(python3 "$here/resources.py" --coatcheck "$COATCHECK" --sandbox "$SANDBOX" --work "$work" \
        "$@" || echo "not ok 0 - resources.py ended well")
    same "" "$(grep -aiE 'fatal error|precondition|Swift runtime failure|stack dump' "$work"/resources-*/broker.log | head -3)" "no trap in its brokers' logs"
fi
finish
