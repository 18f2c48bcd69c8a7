#!/usr/bin/env bash
# Compares the contract with the running broker. Then schemathesis makes requests from the contract, and must not find a fault.
# (The event stream and the relay are left out: a stream does not end, and the relay passes on the upstream's answers.)
source "$(dirname "$0")/../support/lib.bash"
with_packages
start_stack
export BROKER SANDBOX PYTHONPATH="$here" SCHEMATHESIS_HOOKS=hooks

step "1. The contract itself"
"$PYTHON" "$root/Tests/scenarios/apart/contract.py" | grep -v '^ok '
same 0 "${PIPESTATUS[0]}" "contract.py checks openapi.yaml → the contract is valid, and the examples and lists fit"

"$PYTHON" "$root/Tests/scenarios/support/strict.py" >"$work/strict.yaml"
same 0 $? "strict.overlay.yaml → fits the contract (openapi.yaml)"

step "2. The broker has exactly the documented paths and methods"
"$PYTHON" "$root/Tests/scenarios/support/routes.py" "$BROKER" "$MANAGEMENT" admin-ender-b81c64e2f0
same 0 $? "broker's routes → equal those of the contract (openapi.yaml)"

# drive LISTENER URL FILTER…: runs schemathesis with these filters, and checks that it finds no fault
drive() {
    local name=$1 url=$2
    shift 2
    (cd "$work" && "$(dirname "$PYTHON")/schemathesis" --config-file "$root/Tests/scenarios/support/schemathesis.toml" run "$work/strict.yaml" \
        --url "$url" --checks all --max-examples "${EXAMPLES:-30}" --seed "${SEED:-1}" --max-redirects 0 --request-timeout 20 \
        --suppress-health-check all --warnings off --no-color "$@")
    same 0 $? "schemathesis sends requests to the $name listener → no finding"
}

step "3. The public listener"
drive public "$BROKER" --exclude-tag management --exclude-tag relay --exclude-tag events ${EXCLUDE:+--exclude-tag $EXCLUDE}

step "4. The management listener"
drive management "$MANAGEMENT" --include-tag management -H "Authorization: Bearer admin-ender-b81c64e2f0"

step "5. The broker still runs"
get "$MANAGEMENT/readyz"
expect_status 200 "all requests of schemathesis were sent → the broker is ready"

finish
