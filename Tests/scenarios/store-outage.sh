#!/usr/bin/env bash
# Guarantees 2 and 3 where PostgreSQL is away, or one replica is cut off from it, for longer than a claim stands, while new
# tokens are in hand; and a replica that stands still. See Tests/scenarios/store-outage.py; its options may follow.
source "$(dirname "$0")/support/lib.bash"
take_over < <(timeout "${OUTAGE_SECONDS:-280}" python3 "$here/../store-outage.py" --work "$work" "$@" || echo "not ok 0 - store_outage.py ended well")
finish
