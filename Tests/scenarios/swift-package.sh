#!/usr/bin/env bash
# An app adds this repository as a Swift package, and gets only the client library. Its manifest comes from the client's README,
# and its sources from examples/swiftui. Then examples/swiftui starts by its one command.
source "$(dirname "$0")/support/lib.bash"

step "1. A package that depends on a clone"
git clone -q "$root" "$work/coatcheck" || give_up "the clone"
git -C "$work/coatcheck" branch -f given HEAD
mkdir -p "$work/app/Sources"
cp -r "$root/examples/swiftui/Sources/Shop" "$work/app/Sources/Shop"
start_run
block_behind "$root/clients/swift/README.md" swift "with this manifest" | sed "s|https://git.example.com/you/coatcheck|file://$work/coatcheck|; s|from: \"[0-9.]*\"|branch: \"given\"|" >"$work/app/Package.swift" || give_up "the manifest in the README"
timeout 400 swift build --package-path "$work/app" -Xswiftc -warnings-as-errors >"$work/build.log" 2>&1
same 0 $? "app that depends on the package → builds"
same coatcheck "$(ls "$work/app/.build/checkouts")" "app's checkouts → only coatcheck"

step "2. A first sign-in"
COATCHECK_URL=$BROKER timeout 60 "$work/app/.build/debug/Shop" >"$work/app.log" 2>"$work/app.err"
same 0 $? "app → ends well"
app_example "app"

step "3. examples/swiftui by its one command"
COATCHECK_URL=$BROKER timeout 400 "$root/examples/swiftui/run" >"$work/app.log" 2>"$work/app.err"
same 0 $? "examples/swiftui → ends well"
[ -s "$work/app.log" ] || tail -5 "$work/app.err"
app_example "examples/swiftui"

finish
