#!/usr/bin/env bash
# An app adds this repository as a Swift package: it gets the client library, and none of the programs' dependencies.
source "$(dirname "$0")/support/lib.bash"

step "1. A package that depends on a clone"
git clone -q "$root" "$work/coatcheck-clone" || give_up "the clone"
git -C "$work/coatcheck-clone" branch -f given HEAD
mkdir -p "$work/app/Sources/App"
cat >"$work/app/Package.swift" <<TEXT
// swift-tools-version: 6.0
import PackageDescription

let package = Package(
    name: "App", platforms: [.iOS(.v16), .macOS(.v15)],
    dependencies: [.package(url: "file://$work/coatcheck-clone", branch: "given")],
    targets: [.executableTarget(name: "App", dependencies: [.product(name: "Coatcheck", package: "coatcheck-clone")])])
TEXT
cat >"$work/app/Sources/App/main.swift" <<'TEXT'
import Coatcheck
import Foundation

guard let broker = URL(string: "http://127.0.0.1:1") else { exit(1) }
print(await Coatcheck(broker: broker, storage: MemoryStorage()).standing())
TEXT
timeout 400 swift build --package-path "$work/app" >"$work/build.log" 2>&1
same 0 $? "it builds"
same "signedOut(reason: nil)" "$("$work/app/.build/debug/App")" "and runs"
same coatcheck-clone "$(ls "$work/app/.build/checkouts")" "nothing else was fetched"

finish
