#!/usr/bin/env bash
# The recipes of deploy/forward-auth in real servers, with bound sessions. For each broken copy of a recipe, a check must fail.
#   forward-auth-bound.sh [SERVER…]
source "$(dirname "$0")/../support/lib.bash"
source "$here/forward_auth.bash"

# walk_bound SERVER: runs the checks with bound sessions (bound_app.py)
walk_bound() {
    step "$1: sessions that belong to a key"
    "$PYTHON" "$root/Tests/scenarios/support/bound_app.py" gate "$1" "${site[$1]}" "$BROKER" https://app.example.com \
        "http://127.0.0.1:$upstream_port" >"$work/$1.bound" 2>&1 || not_ok "$1, the script for bound sessions → runs to its end" "$(tail -1 "$work/$1.bound")"
    take_over <"$work/$1.bound"
}

# copies SERVER: prints the broken copies of its recipe, one a line: the edit, and a part of the name of the check that must fail
copies() {
    case $1 in
        nginx) cat <<'TEXT' ;;
/DPoP \$http_dpop/d|a proof without a nonce → 401
/Coatcheck-Pass \$http/d|DPoP with Coatcheck-Pass
/X-Original-URL/d|a proof sent with the request that it names
s/X-Original-Method .*/X-Original-Method GET;/|by another method → 401
s/X-Original-URL .*/X-Original-URL $http_x_original_url;/|with forged X- fields that match the proof
/proxy_set_header DPoP "";/d|sees no dpop
/proxy_set_header Coatcheck-Pass "";/d|the service sees neither
s/coatcheck-pass=\[/coatcheck-none=[/|as a cookie → the service does not see it
/add_header Coatcheck-Code/d|alone → nonce, code and challenge
/add_header DPoP-Nonce/d|alone → nonce, code and challenge
/"~^401 .*coatcheck_challenge/d|alone → nonce, code and challenge
/<coatcheck_named>/d|a copied cookie alone → 401
/Set-Cookie \$coatcheck_clear_pass/d|both cookies are cleared
TEXT
        caddy) cat <<'TEXT' ;;
/X-Original-URL/d|a proof sent with the request that it names
s/X-Original-Method .*/X-Original-Method GET/|by another method → 401
/header_up X-Original-/d|with forged X- fields that match the proof
/header_up -X-Forwarded-Uri/d|a proof sent with the request that it names
/header_up -X-Forwarded-Method/d|by another method, with forged X- fields
/request_header -DPoP/d|sees no dpop
/request_header -Coatcheck-Pass/d|the service sees neither
s/|-pass//|as a cookie → the service does not see it
TEXT
        haproxy) cat <<'TEXT' ;;
/\["dpop"\]/d|a proof without a nonce → 401
/\["coatcheck-pass"\]/d|DPoP with Coatcheck-Pass
/\["x-original-url"\]/d|a proof sent with the request that it names
s/txn.sf:method()/"GET"/|by another method → 401
s/origin .. txn.sf:pathq()/first(fields["x-original-url"])/|with forged X- fields that match the proof
/del-header DPoP$/d|sees no dpop
/del-header .coatcheck/d|the service sees neither
s/coatcheck-pass=\[/coatcheck-none=[/|as a cookie → the service does not see it
s/"coatcheck-code", //|alone → nonce, code and challenge
s/"dpop-nonce",$//|alone → nonce, code and challenge
TEXT
        apache) cat <<'TEXT' ;;
/\["DPoP"\]/d|a proof without a nonce → 401
/\["Coatcheck-Pass"\]/d|DPoP with Coatcheck-Pass
/\["X-Original-URL"\]/d|a proof sent with the request that it names
s/= r.method,/= "GET",/|by another method → 401
s/origin .. r.unparsed_uri.*/r.headers_in["X-Original-URL"],/|with forged X- fields that match the proof
s/:gsub("^%a.*/,/|GET http:
/RequestHeader unset DPoP/d|sees no dpop
/RequestHeader unset Coatcheck-Pass/d|the service sees neither
s/|-pass//|as a cookie → the service does not see it
s/"Coatcheck-Code", //|alone → nonce, code and challenge
s/, "DPoP-Nonce" }/ }/|alone → nonce, code and challenge
s/kept\["Set-Cookie"\] = cookie or/kept["Set-Cookie"] =/|both cookies are cleared
TEXT
    esac
}

# walk_copies SERVER: checks that the right check fails for each broken copy
walk_copies() {
    local change sentence recipe=${site[$1]}
    step "$1: each broken copy of the recipe makes a check fail"
    while IFS=$'\t' read -r change sentence; do
        BREAK=$change serve "$1" gateway-credential-4f1d9c
        site[$1]=$SITE
        (failed=0; walk_bound "$1") >"$work/$1.red" 2>&1
        same "not ok" "$(grep -aE "^not ok .*$sentence" "$work/$1.red" | head -1 | cut -c1-6)" "recipe of $1 with the edit \`$change\` → the check \`$sentence\` fails"
    done < <(copies "$1" | sed -E 's/\|([^|]*)$/\t\1/')
    site[$1]=$recipe
}

start_gates
for server in "${servers[@]}"; do walk_bound "$server"; done
for server in "${servers[@]}"; do walk_copies "$server"; done
finish
