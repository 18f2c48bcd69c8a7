#!/usr/bin/env bash
# The app association files in the form that Apple and Google require (SEC-93), the page at an app's callback path, and the served
# contract.
source "$(dirname "$0")/../support/lib.bash"
start_stack

for path in /.well-known/apple-app-site-association /.well-known/assetlinks.json; do
    step "The association file at $path"
    get "$path"
    expect_status 200 "GET of the association file → 200"
    expect_header Content-Type application/json "GET of the association file → its media type is JSON"
    same "" "$(header Set-Cookie)" "GET of the association file → no cookie"
    cp "$work/body" "$work/first"
    sign_in oidc ios ana
    get "$path"
    if cmp -s "$work/body" "$work/first"; then ok "GET of the association file with a session → the same bytes as without a session"; else not_ok "GET of the association file with a session → the same bytes as without a session"; fi
    request HEAD "$path" -I
    expect_status 200 "HEAD of the association file → 200"
done
get /.well-known/apple-app-site-association
expect_json .applinks.details[0].appIDs[0] TEAMID1234.com.example.app "Apple's association file → has the app's id"
expect_json '.applinks.details[0].components[0]./' '/oauth/*' "Apple's association file → has the path /oauth/*"
get /.well-known/assetlinks.json
expect_json '[0].target.package_name' com.example.app "Google's association file → has the app's package"
expect_json '[0].relation[0]' delegate_permission/common.handle_all_urls "Google's association file → has the relation handle_all_urls"

step "A browser that opens the app's callback path gets the page Open the app"
get '/oauth/cb?code=c-canary&state=s-canary'
expect_status 200 "browser opens the app's callback path → 200"
expect_header Content-Type 'text/html; charset=utf-8' "browser opens the app's callback path → an HTML page"
expect_header Content-Security-Policy "default-src 'none'; frame-ancestors 'none'" "browser opens the app's callback path → the page's Content-Security-Policy allows no resources"
expect_header Referrer-Policy no-referrer "browser opens the app's callback path → Referrer-Policy is no-referrer"
expect_header Cache-Control no-store "browser opens the app's callback path → Cache-Control is no-store"
same "" "$(header Set-Cookie)" "browser opens the app's callback path → no cookie"
matches 'Open the app' "$(body)" "browser opens the app's callback path → the page has the text Open the app"
same 0 "$(grep -ciE 'canary|<script|src=|href=' "$work/body")" "browser opens the app's callback path → the page has no script, link or query value"
request HEAD '/oauth/cb?code=c' -I
expect_status 200 "HEAD of the app's callback path → 200"
post '/oauth/cb?code=c' '{}'
expect_problem 405 method_not_allowed "POST to the app's callback path"
get /oauthx
expect_problem 404 not_found "GET of a path outside the app links"

step "The served contract"
get /openapi.yaml
expect_status 200 "GET of /openapi.yaml → 200"
served=$(sed "s#  - url: https://auth.example.com#  - url: '$BROKER'#" "$root/openapi.yaml")
if [ "$(cat "$work/body")" = "$served" ]; then ok "served contract → equals openapi.yaml, with the broker's address as server"; else not_ok "served contract → equals openapi.yaml, with the broker's address as server"; fi

finish
