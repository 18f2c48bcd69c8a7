#!/usr/bin/env bash
# clients/kotlin/Coatcheck.kt: Debian's Kotlin compiles it with its OkHttp. A program then drives it through the flows, in turn
# against two replicas.
source "$(dirname "$0")/support/lib.bash"
java=/usr/share/java
classpath="$java/okhttp.jar:$java/okio.jar:$java/com.android.json.jar:$java/kotlinx-coroutines-core.jar:$java/atomicfu.jar"

step "1. The client compiles"
timeout 300 kotlinc "$root"/clients/kotlin/{Coatcheck,Coroutines,OkHttp3}.kt "$root"/clients/kotlin/tests/*.kt -cp "$classpath" -d "$work/client.jar" >"$work/compile.log" 2>&1
same 0 $? "compilation → exit 0"
same "" "$(grep -E 'warning: [^O]|error:' "$work/compile.log" | grep -v 'Options -Xverify')" "compilation → no warning"

step "2. The flows"
start_bound_replicas
start_unsteady_network
timeout 400 java -XX:TieredStopAtLevel=1 -cp "$work/client.jar:$classpath:$java/kotlin-stdlib.jar" coatcheck.FlowsKt "$BROKER" "$SANDBOX" "$NETWORK_PORT" "$BROKER" >"$work/flows.log" 2>&1
status=$?
take_over <"$work/flows.log"
same 0 $status "tests of the flows → run to their end"

step "3. The first sign-in of the README"
block_behind "$root/clients/kotlin/README.md" kotlin "**A first sign-in**" | sed -e "s|http://127.0.0.1:8080|$BROKER|" -e '/HttpUrl\.Companion\.toHttpUrl/d' >"$work/First.kt" || give_up "the program in the README"
timeout 300 kotlinc "$work/First.kt" -cp "$work/client.jar:$classpath" -d "$work/first.jar" >"$work/first.compile.log" 2>&1
same 0 $? "program of the README → compiles"
timeout 60 java -XX:TieredStopAtLevel=1 -cp "$work/first.jar:$work/client.jar:$classpath:$java/kotlin-stdlib.jar" FirstKt >"$work/first.log" 2>&1
same "signed in: user-ana, the API: 200, and out: true" "$(grep -v warning "$work/first.log" | paste -sd, | sed 's/,/, /g')" "program of the README → signs in, calls the API, signs out"

step "4. Files that are not compiled here say so in their first line"
for file in CustomTabSignIn KeystoreProofKey KeystorePresenceKey; do
    same "// Not compiled here" "$(head -1 "$root/clients/kotlin/android/$file.kt" | cut -d: -f1)" "android/$file.kt → says in its first line that it is not compiled here"
done

finish
