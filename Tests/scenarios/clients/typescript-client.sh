#!/usr/bin/env bash
# The TypeScript client (clients/typescript/coatcheck.ts). TypeScript compiles it in strict mode. Then Node's own test runner runs
# its flows against two replicas in turn.
source "$(dirname "$0")/../support/lib.bash"

step "1. The client compiles"
timeout 120 tsc --strict --target es2020 --module es2020 --lib es2020,dom --outDir "$work/client" "$root"/clients/typescript/{coatcheck,tests/shown}.ts >"$work/tsc.log" 2>&1
same 0 $? "strict compilation of the TypeScript client → exit 0"
same "" "$(cat "$work/tsc.log")" "strict compilation of the TypeScript client → no output"
timeout 120 tsc --strict --target es2020 --module es2020 --lib es2020 --outDir "$work/bare" "$root/clients/typescript/coatcheck.ts" >"$work/bare.log" 2>&1
same 0 $? "compilation of the TypeScript client without the DOM library → exit 0"
same "" "$(cat "$work/bare.log")" "compilation of the TypeScript client without the DOM library → no output"
timeout 120 tsc --strict --target es2020 --module es2020 --lib es2020 --outDir "$work/bare" "$here/react_native.d.ts" "$root/clients/typescript/coatcheck.ts" >"$work/native.log" 2>&1
same 0 $? "compilation of the TypeScript client with React Native's types → exit 0"
same "" "$(cat "$work/native.log")" "compilation of the TypeScript client with React Native's types → no output"
timeout 120 tsc --strict --noUnusedLocals --noUnusedParameters --noEmit --target es2020 --module es2020 --lib es2020 "$root"/clients/typescript/sources/*.ts >"$work/sources.log" 2>&1
same 0 $? "compilation of the TypeScript client's sources, each with its own imports → exit 0"
same "" "$(cat "$work/sources.log")" "compilation of the TypeScript client's sources, each with its own imports → no output"
echo '{"type": "module"}' >"$work/client/package.json"

step "2. The client's flows run"
start_bound_replicas
start_unsteady_network
CLIENT="$work/client/coatcheck.js" BROKER=$BROKER SANDBOX=$SANDBOX NETWORK_PORT=$NETWORK_PORT \
    timeout 500 node --test-reporter=tap "$root/clients/typescript/tests/coatcheck.test.mjs" >"$work/flows.log" 2>&1
status=$?
[ "$status" -eq 0 ] || cat "$work/flows.log"
grep -aE '^(not )?ok ' "$work/flows.log" >"$work/verdicts"
take_over <"$work/verdicts"
same 0 $status "tests of the TypeScript client's flows → run to their end"

step "3. Sessions that belong to a key"
CLIENT="$work/client/coatcheck.js" NETWORK=$BROKER BROKER="http://127.0.0.1:$BROKER_PORT" \
    timeout 300 node --test-reporter=tap "$root/clients/typescript/tests/bound.test.mjs" >"$work/bound.log" 2>&1
status=$?
[ "$status" -eq 0 ] || cat "$work/bound.log"
grep -aE '^(not )?ok ' "$work/bound.log" >"$work/verdicts"
take_over <"$work/verdicts"
same 0 $status "tests of the TypeScript client's bound sessions → run to their end"

step "4. Step-ups, the user's presence, and the move from an old cookie"
for part in step-up presence move-in; do
    CLIENT="$work/client/coatcheck.js" NETWORK=$BROKER BROKER="http://127.0.0.1:$BROKER_PORT" \
        timeout 300 node --test-reporter=tap "$root/clients/typescript/tests/$part.test.mjs" >"$work/$part.log" 2>&1
    status=$?
    [ "$status" -eq 0 ] || cat "$work/$part.log"
    grep -aE '^(not )?ok ' "$work/$part.log" >"$work/verdicts"
    take_over <"$work/verdicts"
    same 0 $status "tests of the TypeScript client's $part → run to their end"
done

step "5. A key in a browser"
if command -v chromium >/dev/null; then
    timeout 120 python3 "$here/browser_key.py" "$work/client" >"$work/browser.log" 2>&1
    status=$?
    [ "$status" -eq 0 ] || cat "$work/browser.log"
    grep -aE '^(not )?ok ' "$work/browser.log" >"$work/verdicts"
    take_over <"$work/verdicts"
    same 0 $status "tests of the TypeScript client's key in a browser → run to their end"
else
    echo "# skipped: there is no chromium"
fi

finish
