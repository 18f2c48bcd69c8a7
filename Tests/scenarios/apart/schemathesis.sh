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

# The contract's example has invented tokens. Before a client's first granted import, its answer would be 502. After it, the answer
# is 409, because the provider's invalid_grant now means that the app's token is dead.
verifier=$(random_token)
CALLBACK=$(location "$SANDBOX/clover-web/oauth/v2/authorize?client_id=AFAKE0001&redirect_uri=https://app.example.org/clover&code_challenge=$(s256 "$verifier")&sandbox_user=cleo")
curl -s "$SANDBOX/clover-api/oauth/v2/token" -H 'Content-Type: application/json' -o "$work/tokens" \
    -d "{\"client_id\":\"AFAKE0001\",\"code\":\"$(url_value code "$CALLBACK")\",\"code_verifier\":\"$verifier\"}"
post /v1/sessions "$(jq -c --arg merchant "$(url_value merchant_id "$CALLBACK")" --arg secret "$(random_token)" \
    '{provider: "clover", client: "ios", login_token: $secret, tokens: {access_token, refresh_token, merchant_id: $merchant}}' "$work/tokens")"
expect_status 201 "an app imports tokens of Clover → a session"

step "3. The public listener"
drive public "$BROKER" --exclude-tag management --exclude-tag relay --exclude-tag events ${EXCLUDE:+--exclude-tag $EXCLUDE}

step "4. The management listener"
drive management "$MANAGEMENT" --include-tag management -H "Authorization: Bearer admin-ender-b81c64e2f0"

step "5. The broker still runs"
get "$MANAGEMENT/readyz"
expect_status 200 "all requests of schemathesis were sent → the broker is ready"

finish
