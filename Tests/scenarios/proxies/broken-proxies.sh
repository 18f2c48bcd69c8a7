#!/usr/bin/env bash
# Copies of the recipes of deploy/proxy, each with one faulty edit, in real servers. For each copy, a check of the right walk has
# to fail.
#   broken-proxies.sh [SERVER…]
source "$(dirname "$0")/../support/lib.bash"
source "$here/proxies.bash"
source "$here/proxy_walks.bash"

# copies SERVER: prints the broken copies of its recipe, one a line: the file, the edit, the walk, and the part of the name of the
# check that must fail. If a server's default is right without a line of the recipe, no copy lacks this line.
copies() {
    case $1 in
        nginx) cat <<'TEXT' ;;
nginx.conf|/Host $http_host/d|login|sign-in through the proxy → a session
nginx.conf|/X-Forwarded-For/d|address|the broker knows the client
nginx.conf|s,http://coatcheck;,http://coatcheck/;,|paths|the same answer as at the broker
nginx.conf|s/proxy_connect_timeout.*/&\n    proxy_intercept_errors on;/|errors|a provider that answers HTML, through the proxy
nginx.conf|/relay\/ {/,/}/s/proxy_buffering off;//|download|not stored on the way
nginx.conf|s/proxy_request_buffering off;//|streams|an upload
nginx.conf|s/\$uri/$request_uri/|log|no query string
nginx.conf|s,http://coatcheck;,http://coatcheck/;,|bound|for the path as the app sent it
nginx.conf|s/proxy_connect_timeout.*/&\n    proxy_hide_header WWW-Authenticate;/|bound|nonce, code and challenge
nginx.conf|/error_page 502/d|away|503 shutting_down
nginx.conf|/Retry-After/d|away|with Retry-After
TEXT
        caddy) cat <<'TEXT' ;;
Caddyfile|s/flush_interval.*/&\nheader_up Host other.example/|login|sign-in through the proxy → a session
Caddyfile|s/flush_interval.*/&\nheader_up X-Forwarded-For {http.request.header.X-Forwarded-For}/|address|the broker knows the client
Caddyfile|s/flush_interval.*/&\nbuffer_requests/|streams|an upload
Caddyfile|s/flush_interval.*/&\nbuffer_responses/|streams|the first event
Caddyfile|s/request_body {/log\n&/|log|no query string
Caddyfile|s/in .502, 503/in [503/|away|503 shutting_down
Caddyfile|/Retry-After/d|away|with Retry-After
TEXT
        haproxy) cat <<'TEXT' ;;
haproxy.cfg|/X-Forwarded-For/d|address|the broker knows the client
haproxy.cfg|s/http-reuse safe/&\nhttp-response return status 503 default-errorfiles if { status 502 }/|errors|a provider that answers HTML, through the proxy
haproxy.cfg|s/%HPO/%HU/|log|no query string
haproxy.cfg|/errorfiles/d|away|503 shutting_down
away.http|/Retry-After/d|away|with Retry-After
TEXT
        apache) cat <<'TEXT' ;;
apache.conf|/X-Forwarded-For/d|address|the broker knows the client
apache.conf|s/ nocanon//|paths|the same answer as at the broker
apache.conf|/AllowEncodedSlashes/d|paths|the same answer as at the broker
apache.conf|s/ nocanon//|bound|for the path as the app sent it
apache.conf|s/ProxyRequests Off/&\nProxyErrorOverride On/|errors|a provider that answers HTML, through the proxy
apache.conf|s/%m %U/%r/|log|no query string
apache.conf|/ErrorDocument 503/d|away|503 shutting_down
away.asis|/Retry-After/d|away|with Retry-After
TEXT
    esac
}

# break_recipe SERVER NAME FILE CHANGE: starts the server with a broken copy of its recipe; the copy is called NAME
break_recipe() {
    recipes=$work/recipes
    rm -rf "$recipes"
    cp -r "$root/deploy/proxy" "$recipes"
    sed -i "$4" "$recipes/$3"
    ! cmp -s "$root/deploy/proxy/$3" "$recipes/$3" || not_ok "edit \`$4\` of a recipe → changes the recipe's file"
    serve "$1"
    site[$2]=$SITE
    logs[$2]=${logs[$1]}
    late[$2]=${late[$1]}
    recipes=$root/deploy/proxy
}

# notices NAME WALK SENTENCE CHANGE: checks that the walk fails in the check whose name contains SENTENCE
notices() {
    at "$1"
    (PATIENCE=1 LONG=30 failed=0; "walk_$2" "$1") >"$work/$1.red" 2>&1
    matches "$3" "$(grep '^not ok' "$work/$1.red")" "proxy runs on a recipe with the fault \`$4\` → the check \`$3\` fails"
}

away=()
start_proxies
for server in "${servers[@]}"; do
    at "$server"
    walk_login "$server"
    late[$server]=$cookie
done
for server in "${servers[@]}"; do
    step "$server: each broken copy of the recipe makes a check fail"
    while IFS='|' read -r file change walk sentence; do
        name=$server-$((${count:=0} + 1))
        count=$((count + 1))
        break_recipe "$server" "$name" "$file" "$change"
        if [ "$walk" = away ]; then away+=("$name|$sentence|$change"); else notices "$name" "$walk" "$sentence" "$change"; fi
    done < <(copies "$server")
done
kill_broker KILL
step "Broken copies whose fault shows only while the broker is killed"
for copy in "${away[@]}"; do
    IFS='|' read -r name sentence change <<<"$copy"
    notices "$name" away "$sentence" "${name%-*}: $change"
done
finish
