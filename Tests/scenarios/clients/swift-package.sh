#!/usr/bin/env bash
# An app that uses this repository as a Swift package gets only the client library. The app's manifest is from the client's
# README, and its sources are from examples/swiftui. Then examples/swiftui is started with its one command.
source "$(dirname "$0")/../support/lib.bash"

step "1. A package that depends on a clone"
git clone -q "$root" "$work/coatcheck" || give_up "the clone"
git -C "$work/coatcheck" branch -f given HEAD
mkdir -p "$work/app/Sources"
cp -r "$root/examples/swiftui/Sources/Shop" "$work/app/Sources/Shop"
start_run
block_behind "$root/clients/swift/README.md" swift "with this manifest" | sed "s|https://git.example.com/you/coatcheck|file://$work/coatcheck|; s|branch: \"main\"|branch: \"given\"|" >"$work/app/Package.swift" || give_up "the manifest in the README"
timeout 400 swift build --package-path "$work/app" -Xswiftc -warnings-as-errors >"$work/build.log" 2>&1
same 0 $? "app that depends on the Swift package → builds"
same coatcheck "$(ls "$work/app/.build/checkouts")" "app that depends on the Swift package → its only checkout is coatcheck"

step "2. A first sign-in"
COATCHECK_URL=$BROKER timeout 60 "$work/app/.build/debug/Shop" >"$work/app.log" 2>"$work/app.err"
same 0 $? "app that depends on the Swift package → runs, signs in and exits with 0"
app_example "app"

step "3. examples/swiftui with its one command"
COATCHECK_URL=$BROKER timeout 400 "$root/examples/swiftui/run" >"$work/app.log" 2>"$work/app.err"
same 0 $? "examples/swiftui is run with its one command → the command succeeds"
[ -s "$work/app.log" ] || tail -5 "$work/app.err"
app_example "examples/swiftui"
follows_app examples/swiftui "$root/examples/swiftui/run" "$root/clients/swift/README.md"
refuses_app examples/swiftui "$root/examples/swiftui/run"

step "4. The files for Apple's platforms compile against stubs of the frameworks"
stubs=$root/clients/swift/Tests/AppleStubs
sources=$root/clients/swift/Sources/Coatcheck
compile() { timeout 120 swiftc -wmo -swift-version 6 -warnings-as-errors -parse-as-library "$@" 2>&1; }
for platform in ios macos; do
    modules=$work/stubs/$platform
    mkdir -p "$modules"
    window=$([ "$platform" = ios ] && echo UIKit || echo AppKit)
    for module in Security LocalAuthentication CryptoKit "$window" AuthenticationServices WebKit; do
        compile -emit-module -module-name "$module" -I "$modules" -emit-module-path "$modules/$module.swiftmodule" "$stubs/$module.swift" || not_ok "compilation of the stub of Apple's module $module → succeeds"
    done
    compile -typecheck -module-name Coatcheck -I "$modules" "$sources"/*.swift "$sources"/Apple/*.swift >"$work/$platform.log"
    same "0 " "$? $(cat "$work/$platform.log")" "compilation of the Swift library with stubs of $window → no error and no warning"
done
mkdir "$work/planted"
cp "$sources"/Apple/*.swift "$work/planted/"
sed -i 's/biometryCurrentSet/biometryCurentSet/' "$work/planted/SecureEnclavePresenceKey.swift"
sed -i 's/return scene?.keyWindow ?? ASPresentationAnchor()/return scene.keyWindow ?? ASPresentationAnchor()/' "$work/planted/SystemBrowser.swift"
compile -typecheck -module-name Coatcheck -I "$work/stubs/ios" "$sources"/*.swift "$work"/planted/*.swift >"$work/planted.log"
same 1 $? "compilation of Apple files with two planted faults → fails"
matches "SecureEnclavePresenceKey.swift:[0-9:]* error: .*biometryCurentSet" "$(cat "$work/planted.log")" "compilation of a file with a misspelt name of Apple's frameworks → an error"
matches "SystemBrowser.swift:[0-9:]* error: value of optional type" "$(cat "$work/planted.log")" "compilation of a file that uses an optional Apple value without a check → an error"

finish
