#!/usr/bin/env bash
# Guarantees 2 and 3 through a bad half-minute: a provider that hangs and is slow, a process killed amid a refresh, a store
# that is locked, empty refusals, 300 callers at once. See Tests/scenarios/refresh-faults.py; its options may follow.
source "$(dirname "$0")/support/lib.bash"
take_over < <(timeout 240 python3 "$here/../refresh-faults.py" --work "$work" "$@" || echo "not ok 0 - refresh_faults.py ended well")
finish
