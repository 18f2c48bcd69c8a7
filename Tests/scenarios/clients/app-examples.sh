#!/usr/bin/env bash
# Starts examples/compose and examples/expo, each with its one command, next to the broker and the sandbox of `make run`. Each app
# signs in, calls an API and signs out, or shows why its session has ended. A copy of the service in examples/node is started,
# too. Without a broker, each example prints a hint. (swift-package.sh starts examples/swiftui.)
source "$(dirname "$0")/../support/lib.bash"

step "1. The broker is missing"
for example in examples/compose examples/expo examples/swiftui examples/node; do
    COATCHECK_URL="http://127.0.0.1:$(free_port)" timeout 20 "$root/$example/run" >"$work/refused.log" 2>&1
    same "1 make run" "$? $(grep -o 'make run' "$work/refused.log")" "$example is started without a broker → it fails with the hint to start make run"
done

step "2. With the broker of make run"
start_run
COATCHECK_URL=$BROKER CREDENTIAL='' timeout 20 "$root/examples/node/run" >"$work/refused.log" 2>&1
same "1 CREDENTIAL" "$? $(grep -o CREDENTIAL "$work/refused.log")" "examples/node is started without its credential → it fails with a hint that names CREDENTIAL"
for example in examples/expo examples/compose; do
    COATCHECK_URL=$BROKER timeout 300 "$root/$example/run" >"$work/app.log" 2>"$work/app.err"
    same 0 $? "$example is run with its one command → the command succeeds"
    [ -s "$work/app.log" ] || tail -5 "$work/app.err"
    app_example "$example"
done
follows_app examples/expo "$root/examples/expo/run" "$root/clients/typescript/README.md"
refuses_app examples/expo "$root/examples/expo/run"
follows_app examples/compose "$root/examples/compose/run" "$root/clients/kotlin/README.md"
refuses_app examples/compose "$root/examples/compose/run"
mkdir "$work/copy"
cp "$root/examples/node/service.mjs" "$work/copy/"
block_behind "$root/examples/README.md" sh "app-examples.sh runs this block" | sed "s|http://127.0.0.1:8080|$BROKER|; s|\.run/|$work/run/|; s|3000|$(free_port)|g; s|^node|exec &|" >"$work/copy/run.sh" || give_up "the block for a copy in examples/README.md"
(cd "$work/copy" && . ./run.sh) >"$work/copy.log" 2>&1 &
pids+=($!)
port=$(sed -nE 's/.*PORT=([0-9]+).*/\1/p' "$work/copy/run.sh")
wait_for 20 curl -s -o "$work/none" "http://127.0.0.1:$port/" || give_up "the copy of examples/node"
request GET "http://127.0.0.1:$port/" -H "Authorization: Bearer $(COATCHECK_URL=$BROKER "$root/examples/token")"
same "200 user-ana" "$STATUS $(body)" "copy of an example service, started with the lines of examples/README.md → a request with a session gets the user's name"

step "3. The files with views are marked as not compiled"
for file in compose/ShopActivity.kt expo/App.tsx swiftui/Sources/Shop/ShopApp.swift; do
    same "// Not compiled here" "$(head -1 "$root/examples/$file" | cut -d, -f1)" "examples/$file → its first line marks it as not compiled"
done
finish
