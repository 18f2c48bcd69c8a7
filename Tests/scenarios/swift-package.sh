#!/usr/bin/env bash
# An app adds this repository as a Swift package: it gets the client library, without the programs' dependencies. Its manifest
# and its first sign-in come from the client's README.
source "$(dirname "$0")/support/lib.bash"
readme=$root/clients/swift/README.md

step "1. A package that depends on a clone"
git clone -q "$root" "$work/coatcheck" || give_up "the clone"
git -C "$work/coatcheck" branch -f given HEAD
mkdir -p "$work/app/Sources/App"
start_stack
block_behind "$readme" swift "an executable of this manifest" | sed "s|https://git.example.com/you/coatcheck|file://$work/coatcheck|; s|from: \"[0-9.]*\"|branch: \"given\"|" >"$work/app/Package.swift" || give_up "the manifest in the README"
block_behind "$readme" swift 'this `main.swift`' | sed "s|http://127.0.0.1:8080|$BROKER|" >"$work/app/Sources/App/main.swift" || give_up "the program in the README"
timeout 400 swift build --package-path "$work/app" >"$work/build.log" 2>&1
same 0 $? "app that depends on the package → builds"
same coatcheck "$(ls "$work/app/.build/checkouts")" "app's checkouts → only coatcheck"

step "2. A first sign-in"
mkfifo "$work/typed"
exec 9<>"$work/typed"   # so that opening it waits for nobody
timeout 60 stdbuf -oL "$work/app/.build/debug/App" <"$work/typed" >"$work/said" 2>&1 &
app=$!
pids+=("$app")
wait_for 30 grep -q 'leads back to' "$work/said" || give_up "the app's first line"
(cd "$work" && sed -nE 's/^(curl .*)   leads back to:$/\1/p' said | bash >callback)
printf '%s\n' "$(cat "$work/callback")" >&9
wait "$app"
same 0 $? "app → exit status 0"
same "signed in: user-ana, the API: 200, and out: signedOut(reason: nil)" "$(tail -n +2 "$work/said" | paste -sd, | sed 's/,/, /g')" "program of the README → signs in, calls the API, signs out"

finish
