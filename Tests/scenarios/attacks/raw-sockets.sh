#!/usr/bin/env bash
# Ambiguous, oversized and slow requests on raw sockets (SEC-101 to SEC-106), made by support/raw_sockets.py. Many of them hide a
# second request. This script passes its arguments on to raw_sockets.py. The slow clients take a minute and a half.
source "$(dirname "$0")/../support/lib.bash"
ulimit -n "$(ulimit -Hn)"

start_stack
sign_in oidc android
expect_status 201 "attacker signs in before the raw requests → a session"
session=$(json .session_token)
device another-phone
sign_in oidc android bob
expect_status 201 "victim signs in before the raw requests → a session"
victim=$(json .session_token)
# The token may begin with a hyphen, which would look like another option.
take_over < <(python3 "$here/raw_sockets.py" --broker "$BROKER" --management "$MANAGEMENT" \
    --session="$session" --victim="$victim" --backend gateway-credential-4f1d9c --pid "$broker_pid" "$@" || echo "not ok 0 - raw_sockets.py → runs to its end")

kill -0 "$broker_pid" 2>/dev/null
same 0 $? "broker after all raw requests → the process runs"
same "" "$(grep -aiE 'fatal error|precondition|assertion failed|Swift runtime failure|stack dump|program crashed' "$work/broker.log" | head -3)" "broker's log after all raw requests → shows no crash"
finish
