#!/usr/bin/env bash
# The Kotlin client (clients/kotlin/Coatcheck.kt). Debian's Kotlin compiles it with Debian's OkHttp. Then a program runs its flows
# against two replicas in turn.
source "$(dirname "$0")/../support/lib.bash"
java=/usr/share/java
classpath="$java/okhttp.jar:$java/okio.jar:$java/com.android.json.jar:$java/kotlinx-coroutines-core.jar:$java/atomicfu.jar"

step "1. The client compiles"
timeout 300 kotlinc "$root"/clients/kotlin/{Coatcheck,Coroutines,OkHttp3}.kt "$root"/clients/kotlin/tests/*.kt -cp "$classpath" -d "$work/client.jar" >"$work/compile.log" 2>&1
same 0 $? "compilation of the Kotlin client → exit 0"
same "" "$(grep -E 'warning: [^O]|error:' "$work/compile.log" | grep -v 'Options -Xverify')" "compilation of the Kotlin client → no warning"

step "2. The client's flows run"
start_bound_replicas
start_unsteady_network
timeout 400 java -XX:TieredStopAtLevel=1 -cp "$work/client.jar:$classpath:$java/kotlin-stdlib.jar" coatcheck.FlowsKt "$BROKER" "$SANDBOX" "$NETWORK_PORT" "$BROKER" >"$work/flows.log" 2>&1
status=$?
take_over <"$work/flows.log"
same 0 $status "tests of the Kotlin client's flows → run to their end"

step "3. The sources and the files for Android compile, the Android files against stubs of the platform"
stubs=$root/clients/kotlin/tests/android-stubs
timeout 300 kotlinc "$root"/clients/kotlin/{sources,android}/*.kt "$root/clients/kotlin/OkHttp3.kt" "$stubs" -cp "$classpath" -d "$work/android.jar" >"$work/android.log" 2>&1
same 0 $? "compilation of the Kotlin client with its files for Android → exit 0"
same "" "$(grep -E 'warning: [^O]|error:' "$work/android.log" | grep -v 'Options -Xverify')" "compilation of the Kotlin client with its files for Android → no warning"
mkdir "$work/planted"
sed 's/setIsStrongBoxBacked/setStrongBoxBacked/' "$root/clients/kotlin/android/KeystoreProofKey.kt" >"$work/planted/KeystoreProofKey.kt"
sed 's/^fun callback(intent: Intent): String?.*/fun callback(intent: Intent): String = intent.dataString/' "$root/clients/kotlin/android/CustomTabSignIn.kt" >"$work/planted/CustomTabSignIn.kt"
timeout 300 kotlinc "$work"/planted/*.kt "$stubs" -cp "$work/client.jar:$classpath" -d "$work/planted.jar" >"$work/planted.log" 2>&1
same 1 $? "compilation of Android files with two planted faults → fails"
matches 'KeystoreProofKey.kt:[0-9:]* error: unresolved reference: setStrongBoxBacked' "$(cat "$work/planted.log")" "compilation of a file that calls a misspelt Android method → an error"
matches 'CustomTabSignIn.kt:[0-9:]* error: type mismatch: inferred type is String\? but String was expected' "$(cat "$work/planted.log")" "compilation of a file that uses a nullable Android value without a check → an error"

finish
