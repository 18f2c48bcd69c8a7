#!/usr/bin/env bash
# deploy/compose.yaml without containers: the broker and the sandbox run with its commands and files, on free ports. The
# playground's phone signs in with every provider that it offers, and the examples of apps work. The examples also work with the
# configuration of the Debian packages.
source "$(dirname "$0")/../support/lib.bash"
python=$root/.venv/bin/python
BROKER_PORT=$(free_port)
MANAGEMENT_PORT=$(free_port)
sandbox_port=$(free_port)
BROKER="http://127.0.0.1:$BROKER_PORT"
MANAGEMENT="http://127.0.0.1:$MANAGEMENT_PORT"
SANDBOX="http://127.0.0.1:$sandbox_port"

# service NAME KEY: prints a service's values of this key in compose.yaml, one a line, with the ports and folders of this run
service() {
    "$python" -c 'import sys, yaml
print("\n".join(yaml.safe_load(open(sys.argv[1]))["services"][sys.argv[2]].get(sys.argv[3]) or []))' \
        "$root/deploy/compose.yaml" "$1" "$2" | here
}
here() {
    sed -e "s|/etc/coatcheck/|$work/etc/|" -e "s|/var/lib/coatcheck|$work/state|" -e "s|127.0.0.1:8080|127.0.0.1:$BROKER_PORT|" -e "s|0.0.0.0:8080|127.0.0.1:$BROKER_PORT|" \
        -e "s|0.0.0.0:9090|127.0.0.1:$MANAGEMENT_PORT|" -e "s|127.0.0.1:8089|127.0.0.1:$sandbox_port|" -e "s|0.0.0.0:8089|127.0.0.1:$sandbox_port|"
}
mkdir -m 700 "$work/etc" "$work/state"
for name in coatcheck sandbox; do
    while IFS=: read -r from to _; do
        case $from in ./*) here <"$root/deploy/$from" >"$to"; chmod 600 "$to" ;; esac
    done < <(service "$name" volumes)
done

step "1. The broker and the sandbox, as compose starts them"
"$COATCHECK" keys generate --file "$work/state/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
mapfile -t command < <(service sandbox command)
"$COATCHECK_SANDBOX" "${command[@]}" >"$work/sandbox.log" 2>&1 &
pids+=($!)
wait_for 60 curl -sf "$SANDBOX/_sandbox/health" || give_up "sandbox"
mapfile -t command < <(service coatcheck command)
"$COATCHECK" "${command[@]}" >>"$work/broker.log" 2>&1 &
broker_pid=$!
wait_for 60 curl -sf "$MANAGEMENT/readyz" || give_up "broker"
ok "broker and sandbox with compose's commands → start"

step "2. The sandbox's playground"
page=$(curl -s -m 20 "$SANDBOX/playground/")
token=$(sed -nE 's/.*name="playground-token" content="([^"]*)".*/\1/p' <<<"$page")
# play ACTION JSON: presses a button; the answer goes to "$work/played"
play() { curl -s -m 60 -o "$work/played" "$SANDBOX/playground/$1" -H 'Content-Type: application/json' -H "Playground-Token: $token" --data-binary "$2"; }
# screen PATH: prints a part of the phone's screen, when the phone has no more work
screen() {
    for _ in $(seq 600); do
        play wait '{}'
        [ "$(jq -r .screen.busy "$work/played")" = "" ] && break
        read -rt 0.1 <> <(:) || true
    done
    jq -r ".screen$1" "$work/played"
}
play wait '{}'
mapfile -t providers < <(jq -r '.providers[].name' "$work/played")
same 7 "${#providers[@]}" "playground's phone → offers seven providers: ${providers[*]}"
"$python" "$here/page_key.py" "$SANDBOX" "$token" >"$work/page.log" 2>&1 &
pids+=($!)
wait_for 20 grep -q shown "$work/page.log" || give_up "the page's key"
for name in "${providers[@]}"; do
    play sign-in "{\"provider\":\"$name\"}"
    same consent "$(screen .view)" "playground, provider $name: sign-in → the provider's page opens $(screen .message)"
    play choose '{"as":"ana"}'
    same session "$(screen .view)" "playground, provider $name: Ana consents on the provider's page → she is signed in $(screen .message)"
    play call '{}'
    matches '200' "$(screen .relay)" "playground, provider $name: relay call → the API answers with 200"
    if [ "$name" = oidc ]; then
        play shop '{}'
        matches 'Ana|user-ana' "$(screen .shop)" "playground, provider $name: button for the shop → the shop's page opens in the web view, signed in as Ana"
        play pay '{"amount":20}'
        same consent "$(screen .view)" "playground, provider $name: payment of 20 EUR → the provider's page opens again"
        play choose '{"as":"ana"}'
        matches '20 EUR' "$(screen .paid)" "playground, provider $name: Ana signs in again for the payment → the payment is made"
    fi
    play sign-out '{}'
    same home "$(screen .view)" "playground, provider $name: sign-out → the phone shows its start page"
done

# A copy, because another scenario may build the example at the same time.
mkdir -p "$work/copy/examples" "$work/copy/clients/typescript"
cp -r "$root"/examples/{make-run,token,expo} "$work/copy/examples/"
cp "$root/clients/typescript/coatcheck.ts" "$work/copy/clients/typescript/"
# app NAME: checks that the example for Expo signs in, prints the user's name, and calls the API
app() {
    COATCHECK_URL=$BROKER timeout 60 "$work/copy/examples/expo/run" >"$work/app.log" 2>&1
    same 0 $? "broker with the configuration of $1: examples/expo → succeeds"
    matches 'after the sign-in: .*Ana Example.*the API answers 200: .*Bearer at-' "$(tr '\n' ' ' <"$work/app.log")" "broker with the configuration of $1: examples/expo → prints Ana's name and an answer of the API"
    matches '^[A-Za-z0-9_-]{43}$' "$(COATCHECK_URL=$BROKER "$work/copy/examples/token" 2>&1)" "broker with the configuration of $1: examples/token → prints a session token"
}

step "3. The examples of apps"
app "compose"

step "4. The packages' configuration, with the block of docs/start/without-a-compiler.md"
kill_broker TERM
mkdir -m 700 "$work/packages"
cp "$work/state/keys.json" "$work/packages/"
(cat "$root/deploy/debian/coatcheck.yaml" && sed -n "/<<'YAML'/,/^YAML\$/{//d;p}" "$root/docs/start/without-a-compiler.md") | here \
    | sed -e "s|$work/state|$work/packages|" -e "s|127.0.0.1:9090|127.0.0.1:$MANAGEMENT_PORT|" >"$work/coatcheck.yaml"
chmod 600 "$work/coatcheck.yaml"
start_broker
app "packages"
finish
