#!/usr/bin/env bash
# Checks 12 providers in flows A, B and C: the issuer of the callback, the scope of the session, and each form of an error.
# The table is in every_provider.py, which sends the requests itself, because there are several thousand of them.
source "$(dirname "$0")/../support/lib.bash"
start_sandbox
for id in slack-app slack-hosted; do sandbox PUT "/clients/slack/$id" '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'; done
for id in linkedin-app linkedin-hosted; do sandbox PUT "/clients/linkedin/$id" '{"secret":"wq8ZrT5nLk2YvB7xHs0d","auth":"client_secret_post"}'; done
start_stack "$here/every-provider.yaml"
while IFS= read -r line; do
    case $line in
    "ok "*) ok "${line#ok }" ;;
    "not ok "*) STATUS= not_ok "${line#not ok }" "see the line" ;;
    *) printf '%s\n' "$line" ;;
    esac
done < <(python3 "$here/every_provider.py" "$BROKER" "$SANDBOX" 2>&1)
[ "$passed" -ge 600 ] || not_ok "twelve providers, each in flows A, B and C → at least 600 checks pass" "$passed pass"
finish
