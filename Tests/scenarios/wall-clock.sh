#!/usr/bin/env bash
# A wall clock that jumps: 91 days ahead for some seconds, half a minute amid a refresh, an hour back. Needs a C compiler: the
# broker's clock is moved by a preloaded library. See Tests/scenarios/wall-clock.py; its options may follow.
source "$(dirname "$0")/support/lib.bash"
take_over < <(timeout 180 python3 "$here/../wall-clock.py" --work "$work" "$@" || echo "not ok 0 - wall_clock.py ended well")
finish
