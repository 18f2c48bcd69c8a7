#!/usr/bin/env bash
# Endings that are interrupted: kill -9 between the steps of a back-channel logout (ROUNDS=50 times), log-outs on a full disk.
# See Tests/scenarios/endings.py; its options may follow. The full disk is a tmpfs in a mount namespace of its own.
source "$(dirname "$0")/support/lib.bash"
namespace=(unshare --mount)
"${namespace[@]}" true 2>/dev/null || namespace=(unshare --user --map-root-user --mount)
take_over < <(timeout 300 "${namespace[@]}" python3 "$here/../endings.py" --work "$work" "$@" || echo "not ok 0 - endings.py ended well")
finish
