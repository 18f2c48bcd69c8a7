#!/usr/bin/env bash
# Guarantees 2 and 3 through a bad half-minute: a provider that hangs and is slow, a process killed amid a refresh, a store
# that is locked, empty refusals, 300 callers at once. See Tests/blackbox/refresh_faults.py; its options may follow.
source "$(dirname "$0")/lib.bash"
take_over < <(timeout 240 python3 "$here/../blackbox/refresh_faults.py" --work "$work" "$@" || echo "not ok 0 - refresh_faults.py ended well")
finish
