#!/usr/bin/env bash
# The recipes of deploy/forward-auth in real servers, with a running broker: sessions, forged headers, ambiguous and ended
# sessions, two users at once (SEC-85, SEC-86). forward-auth-bound.sh has bound sessions, forward-auth-faults.sh a broker that is
# killed, and forward-auth-demands.py the demands for single paths. Traefik itself is not installed, so curl sends the requests
# that Traefik would send.
#   forward-auth.sh [SERVER…]
source "$(dirname "$0")/../support/lib.bash"
source "$here/forward_auth.bash"

# saw NAME EXPECTED SENTENCE: checks the values that the service got for a header, whatever its spelling
saw() { same "$2" "$(json ".fields.$1")" "$3"; }

# at_once NAME [curl options…]: sends sixty requests, fifteen at a time; failed ones are retried, as an app does
at_once() {
    local name=$1
    shift
    curl -s -m 40 -Z --parallel-max 15 --retry 2 --retry-all-errors "$@" -o "$work/$name-#1" \
        -w '%{http_code} %header{retry-after} curl %{exitcode} %{errormsg}\n' "$SITE/orders/[1-60]" >"$work/$name.outcomes" 2>/dev/null
}

# all_hers NAME SUBJECT: checks that each of the sixty answers to `at_once NAME` names this user
all_hers() {
    same "60 $2" "$(subjects "$1")" "sixty parallel requests of $2 ($1), while another user sends requests too → every answer names $2"
    grep -v '^200  curl 0' "$work/$1.outcomes" | sed 's/^/#   /'
}

# subjects NAME: prints, for each subject, its number of answers to `at_once NAME`
subjects() {
    sed -n 's/.*"x_auth_subject": \["\([^]]*\)"\].*/\1/p' "$work/$1"-* | sort | uniq -c | sed 's/^ *//'
}

walk_live() {
    local cookie handle secret other sign forged=()
    SITE=${site[$1]}

    step "$1: no session"
    device "nobody-$1"
    denied "$1: request without a session" 401 GET
    expect_header Content-Type application/problem+json "$1: request without a session → the answer's media type is application/problem+json"
    matches '^Bearer realm="coatcheck"$' "$(header WWW-Authenticate)" "$1: request without a session → the answer has only the challenge Bearer"
    expect_json .code session_required "$1: request without a session → the code session_required"
    expect_json .status 401 "$1: request without a session → the problem's status is 401"
    same "" "$(header Location)" "$1: request without a session → no redirect (SEC-89)"
    denied "$1: request with forged identity headers, without a session" 401 GET -H 'X-Auth-Subject: mallory' -H 'X-Auth-Session: ses_0000000000000000000000'
    denied "$1: POST without a session" 401 POST --data-binary 'name=value'
    denied "$1: OPTIONS without a session (SEC-85)" 401 OPTIONS -H 'User-Agent: GoogleHC/1.0'
    denied "$1: HEAD without a session" 401 HEAD
    denied "$1: a header that names a public path, without a session" 401 GET -H 'X-Original-URI: /healthz' -H 'X-Forwarded-Uri: /healthz'
    denied "$1: request with an invented session cookie" '4..' GET -H 'Cookie: coatcheck=nonsense'
    denied "$1: the client sends a backend's credential itself" 401 GET -H 'X-Coatcheck-Backend: gateway-credential-4f1d9c' -H 'X-Coatcheck-Session: x'

    step "$1: a live session"
    device "device-$1"
    sign_in oidc ios ana
    expect_status 201 "$1: ana signs in at the broker → a session"
    cookie=$(cookie coatcheck)
    handle=$(json .handle)
    secret=$(json .subject)
    JAR= # cookies are named by hand from here
    request GET "$SITE/orders?a=b%20c" -H "Cookie: theme=dark; coatcheck=$cookie; lang=en"
    expect_status 200 "$1: request with a live session → served"
    expect_json .path '/orders?a=b%20c' "$1: request with a live session → the service gets the path unchanged"
    same "" "$(header DPoP-Nonce)" "$1: request with a live cookie session → the answer contains no DPoP-Nonce"
    saw x_auth_subject "[\"$secret\"]" "$1: request with a live session → the service gets the user's subject"
    saw x_auth_session "[\"$handle\"]" "$1: request with a live session → the service gets the session's handle"
    saw x_auth_provider '["oidc"]' "$1: request with a live session → the service gets the provider"
    saw x_auth_client '["ios"]' "$1: request with a live session → the service gets the client"
    matches 'openid' "$(json .fields.x_auth_scope)" "$1: request with a live session → the service gets the scope"
    saw cookie '["theme=dark; lang=en"]' "$1: request with the session cookie among others → the service gets only the others"
    saw x_coatcheck_backend "" "$1: request with a live session → the service does not get the backend's credential"
    request GET "$SITE/orders" -H "Cookie: coatcheck=$cookie"
    expect_status 200 "$1: request with only the session cookie → served"
    matches '^(|\[""\])$' "$(json .fields.cookie)" "$1: request with only the session cookie → the service gets no cookie"
    request GET "$SITE/orders" -H "Cookie: coatcheck-login=xyz; a=1; coatcheck=$cookie; coatcheck-theme=1"
    saw cookie '["a=1; coatcheck-theme=1"]' "$1: request with session and login cookie among others → the service gets only the others"
    request GET "$SITE/orders" \
        -H "Cookie: coatcheck-web=w; a=1; coatcheck=$cookie; coatcheck-webs=2; coatcheck-handover=h"
    saw cookie '["a=1; coatcheck-webs=2"]' "$1: request with the web view's and the hand-over's cookies among others → the service gets only the others"
    request GET "$SITE/orders" -H "Cookie: coatcheck=$cookie" -H 'Coatcheck-Presence: a.b.c' -H 'Coatcheck_Presence: a.b.c'
    expect_status 200 "$1: request with a presence proof that was not demanded → served"
    saw coatcheck_presence "" "$1: request with a presence proof that was not demanded → the service does not get the proof"
    request POST "$SITE/orders" -H "Cookie: coatcheck=$cookie" -H 'Content-Type: text/plain' --data-binary 'two coats'
    expect_status 200 "$1: POST with a live session → served"
    expect_json .method POST "$1: POST with a live session → the service gets the method"
    expect_json .body 'two coats' "$1: POST with a live session → the service gets the body"
    head -c 300000 /dev/zero | tr '\0' x >"$work/large"
    request PUT "$SITE/orders" -H "Cookie: coatcheck=$cookie" -H 'Expect: 100-continue' --data-binary "@$work/large"
    expect_status 200 "$1: PUT with a large body → served"
    same 300000 "$(json .body | tr -d '\n' | wc -c)" "$1: PUT with a large body → arrives complete"

    step "$1: a live session with forged headers (SEC-86)"
    # Every character that a header's name may contain (RFC 9110) and that CGI writes as an underscore.
    for sign in _ . '!' '#' '$' '%' '&' "'" '*' '+' '^' '`' '|' '~'; do
        forged+=(-H "X${sign}Auth${sign}Subject: mallory" -H "x${sign}auth-email: mallory" -H "X-Auth${sign}Token: mallory" \
            -H "X${sign}Coatcheck${sign}Session: mallory")
    done
    request GET "$SITE/orders" -H "Cookie: coatcheck=$cookie" \
        -H 'X-Auth-Subject: mallory' -H 'X_Auth_Subject: mallory' -H 'X-Auth_Subject: mallory' -H 'X_Auth-Subject: mallory' \
        -H 'x_auth_subject: mallory' -H 'X.Auth.Subject: mallory' -H 'X-AUTH-EMAIL: mallory@example.org' \
        -H 'X_Auth_Token: mallory' -H 'X-Auth-Token: mallory' -H 'X-Auth-Roles: mallory' -H 'X_Auth_Roles: mallory' \
        -H 'X-Coatcheck-Backend: mallory' -H 'X_Coatcheck_Backend: mallory' -H 'X-Coatcheck-Session: mallory' \
        -H 'X_Coatcheck_Session: mallory' -H 'X-Coatcheck-Anything: mallory' "${forged[@]}"
    expect_status 200 "$1: request with a live session and forged headers → served"
    saw x_auth_subject "[\"$secret\"]" "$1: request with forged headers → the service sees only the broker's subject"
    same "" "$(grep -o mallory "$work/body" | head -1)" "$1: request with forged headers → no forged value reaches the service"
    for other in 'X-Auth-Subject' 'close, x-auth-subject, x-auth-session' 'keep-alive, X_Auth_Subject'; do
        request GET "$SITE/orders" -H "Cookie: coatcheck=$cookie" -H "Connection: $other" -H 'X-Auth-Subject: mallory'
        if [ "$STATUS" = 400 ]; then ok "$1: request with Connection: $other → refused"; else
            saw x_auth_subject "[\"$secret\"]" "$1: request with Connection: $other → the service still gets the identity header"
        fi
    done

    step "$1: ambiguous sessions, and sessions this backend may not use"
    denied "$1: request with two session cookies" 400 GET -H "Cookie: coatcheck=$cookie; coatcheck=mallory"
    device "clever-$1"
    sign_in oauth2 ios ben
    expect_status 201 "$1: sign-in at another provider → a session"
    denied "$1: request with a session of a provider outside the backend's list" 403 GET
    expect_json .code backend_not_allowed "$1: request with a session of a provider outside the backend's list → the code backend_not_allowed"

    step "$1: a bearer client"
    device "bearer-$1"
    sign_in oidc android eva
    expect_status 201 "$1: bearer client signs in → a session"
    other=$(json .session_token)
    secret=$(json .subject)
    request GET "$SITE/orders" -H "Authorization: Bearer $other"
    expect_status 200 "$1: request with a bearer session → served"
    saw x_auth_subject "[\"$secret\"]" "$1: request with a bearer session → the service gets the subject"
    saw authorization "" "$1: request with a bearer session → the service does not get the session token"
    denied "$1: request with an unknown bearer token" 401 GET -H "Authorization: Bearer $(tr "A-Za-z" "B-ZAb-za" <<<"$other")"

    step "$1: two users at once"
    at_once "ana-$1" -H "Cookie: coatcheck=$cookie" &
    at_once "eva-$1" -H "Authorization: Bearer $other"
    wait $!
    all_hers "ana-$1" user-ana
    all_hers "eva-$1" user-eva

    step "$1: the server's own backend credential is wrong"
    SITE=${stranger[$1]}
    denied "$1: the server sends an unknown backend's credential" 503 GET -H "Cookie: coatcheck=$cookie"
    same "" "$(header Set-Cookie)" "$1: the server sends an unknown backend's credential → the session cookie stays"

    step "$1: the session has ended"
    SITE=${site[$1]}
    device "nobody-$1"
    request DELETE /v1/session -H "Cookie: coatcheck=$cookie"
    expect_status 204 "$1: cookie session logs out → 204"
    denied "$1: request with a cookie session that has ended" 401 GET -H "Cookie: coatcheck=$cookie"
    expect_json .code session_ended "$1: request with a cookie session that has ended → the answer has the code session_ended"
    expect_json .reason logged_out "$1: request with a cookie session that has ended → the answer has the reason logged_out"
    matches 'Max-Age=0' "$(header Set-Cookie)" "$1: request with a cookie session that has ended → the answer clears the cookie"
    request DELETE /v1/session -H "Authorization: Bearer $other"
    expect_status 204 "$1: bearer client logs out → 204"
    denied "$1: request with a bearer session that has ended" 401 GET -H "Authorization: Bearer $other"
    same "session_ended logged_out" "$(json .code) $(json .reason)" "$1: request with a bearer session that has ended → session_ended with the reason logged_out"
}

# walk_traefik: sends the requests of Traefik's forwardAuth, from its address and without a credential
walk_traefik() {
    local cookie from
    step "traefik: accepted because of its address, only on the backends' own listener"
    device traefik
    sign_in oidc ios ana
    cookie=$(cookie coatcheck)
    JAR=
    # ask PORT FROM [curl options…]
    ask() {
        local port=$1 from=$2
        shift 2
        request GET "http://127.0.0.1:$port/v1/forward-auth" --interface "$from" -H 'X-Forwarded-For: 198.51.100.7' \
            -H 'X-Forwarded-Method: GET' -H 'X-Forwarded-Proto: https' -H 'X-Forwarded-Host: app.example.org' \
            -H 'X-Forwarded-Uri: /orders' "$@"
    }
    ask "$BACKENDS_PORT" 127.0.0.2 -H "Cookie: coatcheck=$cookie"
    same "200 user-ana" "$STATUS $(header X-Auth-Subject)" "forward-auth from Traefik's address, with a live session → 200"
    ask "$BACKENDS_PORT" 127.0.0.2
    expect_problem 401 session_required "forward-auth from Traefik's address, without a session"
    ask "$BACKENDS_PORT" 127.0.0.1 -H "Cookie: coatcheck=$cookie"
    expect_problem 401 backend_unauthorized "forward-auth from an address that the broker's list lacks, without a credential"
    for from in 127.0.0.1 127.0.0.2; do
        ask "$BROKER_PORT" "$from" -H "Cookie: coatcheck=$cookie"
        expect_problem 404 not_found "forward-auth on the public listener, from $from"
    done
}

start_gates
for server in "${servers[@]}"; do
    serve "$server" gateway-credential-wrong
    stranger[$server]=$SITE
done
for server in "${servers[@]}"; do walk_live "$server"; done
walk_traefik
finish
