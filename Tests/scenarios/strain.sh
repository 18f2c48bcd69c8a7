#!/usr/bin/env bash
# Session checks beside an operator's scan, logins beside a long read, memory that is given back: see Tests/scenarios/strain.py;
# its options may follow. In full: TOMBSTONES=600000 SESSIONS=60000 Tests/scenarios/strain.sh
source "$(dirname "$0")/support/lib.bash"
take_over < <(timeout 3600 python3 "$here/../strain.py" --work "$work" "$@" || echo "not ok 0 - strain.py ended well")
finish
