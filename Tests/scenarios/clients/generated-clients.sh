#!/usr/bin/env bash
# Clients generated from the contract that the broker serves. The Python client signs in and decodes a problem. The Kotlin, Swift
# and Dart clients are generated without an error and have the types of the central calls. The Python, Swift and TypeScript
# clients also decode answers of a later minor version, with a new member, code and reason.
source "$(dirname "$0")/../support/lib.bash"
with_packages
start_stack

step "1. The served contract is openapi.yaml with this broker's address"
request GET /openapi.yaml
expect_status 200 "GET of /openapi.yaml → 200"
cp "$work/body" "$work/served.yaml"
same "- url: '$BROKER'" "$(grep -m1 -A1 '^servers:' "$work/served.yaml" | tail -1 | sed 's/^ *//')" "served contract → its member 'servers' has the broker's public URL"
diff <(sed "s|  - url: https://auth.example.com|  - url: '$BROKER'|" "$root/openapi.yaml") "$work/served.yaml" >"$work/difference"
same 0 $? "served contract → equals openapi.yaml except for the broker's public URL"

step "2. openapi-python-client"
(cd "$work" && PATH="$(dirname "$PYTHON"):$PATH" "$PYTHON" -m openapi_python_client generate --path served.yaml --output-path generated --meta none) >"$work/python.log" 2>&1
same 0 $? "openapi-python-client generates a client from the served contract → exit 0"
same "1 1" "$(grep -c '^WARNING' "$work/python.log") $(grep -c '^WARNING parsing GET /openapi.yaml' "$work/python.log")" "openapi-python-client generates a client from the served contract → exactly one warning, about the route that returns YAML"
(cd "$work" && BROKER=$BROKER timeout 60 "$PYTHON" "$here/generated_client.py" >"$work/run.log" 2>&1)
status=$?
take_over <"$work/run.log"
same 0 $status "script that calls the broker with the generated Python client → runs to its end"

step "3. openapi-generator: Kotlin and Swift"
jar=$("$PYTHON" -c 'import openapi_generator_cli, pathlib; print(next(pathlib.Path(openapi_generator_cli.__file__).parent.glob("*.jar")))')
# generate GENERATOR [OPTIONS]: writes a client into $work/GENERATOR, and checks that there is no error
generate() {
    local name=$1
    shift
    timeout 120 java -XX:TieredStopAtLevel=1 -jar "$jar" generate -i "$work/served.yaml" -g "$name" -o "$work/$name" "$@" >"$work/$name.log" 2>&1
    same 0 $? "generator $name, run on the contract → exit 0"
    same "" "$(grep -aE ' ERROR |Exception' "$work/$name.log" | head -3)" "generator $name, run on the contract → no error in its log"
}
members="callback_url client code code_verifier device handoff id_token legacy login_token nonce provider redirect_uri scope state tokens"
generate kotlin -p serializationLibrary=gson -p generateOneOfAnyOfWrappers=true
models="$work/kotlin/src/main/kotlin/org/openapitools/client/models"
same "$members" "$(sed -nE 's/.*@SerializedName\("([a-z_]+)"\).*/\1/p' "$models/ForwardCode.kt" | sort | tr '\n' ' ' | sed 's/ $//')" "generated Kotlin client → its type ForwardCode has all members of the contract"
same 2 "$(grep -cE 'val adapter(NewSession|RegistrationRequired) ' "$models/ForwardOutcome.kt")" "generated Kotlin client → its type ForwardOutcome is a session or a registration"
grep -q 'fun forwardCode(forwardCode: ForwardCode) : ForwardOutcome' "$work/kotlin/src/main/kotlin/org/openapitools/client/apis/LoginApi.kt"
same 0 $? "generated Kotlin client → its function forwardCode returns ForwardOutcome"
generate swift6
models=$(dirname "$(find "$work/swift6" -name ForwardCode.swift)")
same "$members" "$(sed -nE '/enum CodingKeys/,/}/ s/.*case [A-Za-z]+ = "([a-z_]+)".*/\1/p; /enum CodingKeys/,/}/ s/.*case ([a-z]+)$/\1/p' "$models/ForwardCode.swift" | sort | tr '\n' ' ' | sed 's/ $//')" "generated Swift client → its type ForwardCode has all members of the contract"
same 2 "$(grep -cE 'case type(NewSession|RegistrationRequired)\(' "$models/ForwardOutcome.swift")" "generated Swift client → its type ForwardOutcome is a session or a registration"
grep -qE 'func forwardCode\(.*\) async throws.* -> ForwardOutcome' "$(find "$work/swift6" -name LoginAPI.swift)"
same 0 $? "generated Swift client → its function forwardCode returns ForwardOutcome"
same "" "$(find "$work/swift6" "$work/kotlin" -name 'InlineObject*')" "generated Swift and Kotlin clients → have no unnamed InlineObject types"
same "" "$(grep -rlE 'enum (class )?(ProblemCode|EndReason|ProviderKind)' "$work/swift6" "$work/kotlin")" "generated Swift and Kotlin clients → have no closed enums of codes, reasons or kinds"

step "4. Clients can decode the answers of a later minor version"
later="ses_3f9cT0m7bq3yqk0W8bJ1kQ device_unknown moved"
(cd "$work" && find swift6/Sources -name '*.swift' -print0 | xargs -0 timeout 300 swiftc -parse-as-library -o growth "$here/generated_growth.swift") >"$work/swiftc.log" 2>&1
same 0 $? "generated Swift types → compile"
same "$later" "$("$work/growth" "$here/generated_growth.json" 2>&1)" "generated Swift types → decode the answers of a later minor version"
generate typescript-fetch
cp "$here/generated_growth.ts" "$work/"
(cd "$work" && timeout 120 tsc --target es2020 --module commonjs --lib es2020,dom --outDir js generated_growth.ts) >"$work/tsc.log" 2>&1
same 0 $? "generated TypeScript types → compile"
same "$later" "$(cd "$work" && node -e 'console.log(require("./js/generated_growth.js").growth(require("fs").readFileSync(process.argv[1], "utf8")))' "$here/generated_growth.json" 2>&1)" "generated TypeScript types → decode the answers of a later minor version"
# By default, this generator assumes that schemas refuse additional members. The contract allows them in answers.
generate go -p disallowAdditionalPropertiesIfNotPresent=false
requests="model_begin_handover.go model_make_child.go model_redeem_handover.go"
same "$requests" "$(cd "$work/go" && grep -l DisallowUnknownFields model_*.go | tr '\n' ' ' | sed 's/ $//')" "generated Go types → refuse unknown members only in requests"

step "5. Dart, for Flutter"
generate dart-dio
same 2 "$(find "$work/dart-dio/lib/src/model" -name new_session.dart -o -name started_login.dart | wc -l)" "generated Dart client → has the types of a sign-in"

finish
