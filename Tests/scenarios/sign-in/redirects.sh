#!/usr/bin/env bash
# Redirect URIs according to RFC 8252 and RFC 6749: loopback addresses with any port, and a registered query.
source "$(dirname "$0")/../support/lib.bash"
start_stack

step "1. Any port is accepted, but only on a literal loopback address"
for uri in http://127.0.0.1:51234/cb 'http://[::1]:50000/cb' http://127.0.0.1/cb; do
    device "desktop-$RANDOM"
    start_login oidc desktop "\"redirect_uri\":\"$uri\""
    expect_status 201 "login with redirect URI $uri → 201"
    same "$uri" "$(url_value redirect_uri "$AUTHORIZATION_URL")" "login with redirect URI $uri → the authorization URL has this redirect URI"
    browser "$AUTHORIZATION_URL" ana
    before=$(calls oidc/token)
    other=${CALLBACK/51234/51235}
    if [ "$other" != "$CALLBACK" ]; then
        forward "$other"
        expect_problem 400 invalid_callback "callback on another port than the login's"
        same "$before" "$(calls oidc/token)" "callback on another port than the login's → zero token calls"
    fi
    forward "$CALLBACK"
    expect_status 201 "callback on the login's port → a session"
done
sandbox GET '/requests?provider=oidc&endpoint=token'
same http://127.0.0.1:51234/cb "$(jq -r '.[0].body' "$work/control" | tr '&' '\n' | sed -n 's/^redirect_uri=//p' | python3 -c 'import sys, urllib.parse as u; print(u.unquote(sys.stdin.read().strip()))')" "token call of a login with a port → has the login's redirect URI with this port"
for uri in http://localhost:7778/cb http://127.0.0.1:51234/other http://127.0.0.2:51234/cb https://127.0.0.1:51234/cb 'http://127.0.0.1:51234/cb?x=1'; do
    start_login oidc desktop "\"redirect_uri\":\"$uri\""
    expect_problem 400 invalid_request "login with redirect URI $uri"
done

step "2. Loopback ports in logins that the app starts"
verifier=$(random_token)
CALLBACK=$(location "$SANDBOX/oidc/authorize?response_type=code&client_id=desktop-app&redirect_uri=http://127.0.0.1:40404/cb&scope=openid%20email&code_challenge=$(s256 "$verifier")&code_challenge_method=S256&sandbox_user=ana")
usual="\"provider\":\"oidc\",\"client\":\"desktop\",\"code_verifier\":\"$verifier\""
forward "$CALLBACK" "$usual,\"redirect_uri\":\"http://127.0.0.1:40405/cb\""
expect_problem 400 invalid_request "app-started login, forwarded with another port in redirect_uri"
post /v1/sessions "{$usual,\"redirect_uri\":\"http://127.0.0.1:40404/cb\",\"code\":\"$(url_value code "$CALLBACK")\"}"
expect_status 201 "login that the app started, whose code is forwarded with the callback's redirect URI → a session"

step "3. A redirect URI that is registered with a query"
device a-tenant
start_login oidc tenant
same 'https://app.example.org/cb?tenant=7' "$(url_value redirect_uri "$AUTHORIZATION_URL")" "login at a redirect URI with a query → the authorization URL has the registered query"
browser "$AUTHORIZATION_URL" ana
matches '^https://app\.example\.org/cb\?tenant=7&' "$CALLBACK" "login at a redirect URI with a query → the callback has the registered query"
forward "${CALLBACK/tenant=7/tenant=8}"
expect_problem 400 invalid_callback "callback whose registered query has another value"
forward "${CALLBACK/tenant=7&/}"
expect_problem 400 invalid_callback "callback without the registered query"
forward "$CALLBACK"
expect_status 201 "callback with the registered query → a session"

finish
