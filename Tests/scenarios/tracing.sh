#!/usr/bin/env bash
# Traces as a collector gets them, whose sampling decisions are believed, and a collector that is not there: see
# Tests/scenarios/tracing.py; its options may follow.
source "$(dirname "$0")/support/lib.bash"
python=python3
[ -x "$root/.venv/bin/python" ] && python="$root/.venv/bin/python"
take_over < <(timeout 400 "$python" "$here/../tracing.py" --work "$work" "$@" || echo "not ok 0 - tracing.py ended well")
finish
