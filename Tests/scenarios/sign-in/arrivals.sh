#!/usr/bin/env bash
# Callbacks from providers: their issuer, each form of an error, and callbacks that belong to no login.
source "$(dirname "$0")/../support/lib.bash"
start_stack

# back CLIENT QUERY [MORE]: starts a login at `oidc`, and forwards a callback with this query instead of the provider's
back() {
    device "phone-$RANDOM$RANDOM"
    start_login oidc "$1" ${3:+"$3"}
    forward "$(redirect_of "$1")?$2&state=$STATE&iss=$(issuer)"
}
redirect_of() { case $1 in ios) echo com.example.app:/cb ;; *) echo "com.example.$1:/cb" ;; esac; }
issuer() { jq -rn --arg text "$SANDBOX/oidc" '$text | @uri'; }
counted() { curl -s "$MANAGEMENT/metrics" | sed -n "s/^$1 //p"; }

step "1. GitHub names its issuer in every callback, but publishes no metadata"
device a-developer
sign_in github web
expect_status 201 "GitHub's callback with GitHub's own issuer → a session"
expect_json .scope '["read:user","user:email"]' "GitHub's token answer has two scopes with a comma between them → the session has two scopes"
start_login github web
browser "$AUTHORIZATION_URL" ana
forward "$(with_value iss https://evil.example "$CALLBACK")"
expect_problem 400 issuer_mismatch "GitHub's callback with another server's issuer"
start_login github web
browser "$AUTHORIZATION_URL" ana
forward "$(with_value iss - "$CALLBACK")"
expect_status 201 "GitHub's callback without an issuer → a session"

step "2. A provider whose issuer is unknown: any iss is accepted, counted, and logged once"
device a-user
for round in 1 2; do
    start_login oauth2 ios
    browser "$AUTHORIZATION_URL" ana
    forward "$(with_value iss https://as.example "$CALLBACK")"
    expect_status 201 "callback with an iss, from a provider whose issuer is unknown to the broker → a session ($round)"
done
same 2 "$(counted 'coatcheck_issuers_unchecked_total{provider="oauth2"}')" "two callbacks with an iss, from a provider whose issuer is unknown to the broker → counted twice"
in_log 'callbacks name an issuer' 1 "two callbacks with an iss, from a provider whose issuer is unknown to the broker → logged once"
start_login oauth2 ios
browser "$AUTHORIZATION_URL" ana
forward "$(with_value iss "$SANDBOX/oidc" "$CALLBACK")"
expect_problem 400 issuer_mismatch "callback whose iss is the issuer of another configured provider"

step "3. Errors that prompt=none may cause ask the app to involve the user; they are not the provider's fault"
for error in login_required interaction_required account_selection_required; do
    back silent "error=$error"
    expect_problem 409 interaction_required "callback with error $error after prompt=none"
    expect_json .provider_error "$error" "callback with error $error after prompt=none → the answer's provider_error is this error"
done
back silent "error=consent_required" '"parameters":{"prompt":"none"}'
expect_problem 409 interaction_required "callback with consent_required after prompt=none"
back ios "error=consent_required"
expect_problem 403 access_denied "callback with consent_required after a login without prompt=none"
back ios "error=invalid_scope"
expect_problem 502 provider_error "callback with error invalid_scope"
expect_json .provider_error invalid_scope "callback with error invalid_scope → the answer's provider_error is invalid_scope"
callback_error() { [[ $(grep 'callback error' "$work/broker.log" | tail -1) == *invalid_scope* ]]; }
wait_for 10 callback_error
same 0 $? "callback with error invalid_scope → the broker logs the error"
back ios "error=%3Cscript%3E"
same "502 " "$STATUS $(json .provider_error)" "callback with an unknown error → 502, and the answer omits provider_error"
same 0 "$(grep -c 'finished by somebody else' "$work/broker.log")" "callbacks forwarded by the logins' own devices → no log line about another party"
device a-stranger
start_login oidc ios
browser "$AUTHORIZATION_URL" ana
device another
forward "$CALLBACK"
expect_problem 403 login_not_yours "callback forwarded by another device"
in_log 'finished by somebody else' 1 "callback forwarded by another device → logged"

step "4. Facebook's error_code and Twitter's denied instead of error, in flows A, B and C"
back ios "error_code=200&error_message=no"
expect_problem 502 provider_error "login that the broker started (flow A), callback with error_code"
back ios "denied=t0ken"
expect_problem 403 access_denied "login that the broker started (flow A), callback with denied"
forward "com.example.app:/cb?denied=t0ken&state=own&iss=$(issuer)" '"provider":"oidc","client":"ios","state":"own","code_verifier":"'"$(random_token)"'"'
expect_problem 403 access_denied "login that the app started (flow B), callback with denied"
forward "com.example.app:/cb?error_code=200&state=own&iss=$(issuer)" '"provider":"oidc","client":"ios","state":"own","code_verifier":"'"$(random_token)"'"'
expect_problem 502 provider_error "login that the app started (flow B), callback with error_code"
for query in "denied=t0ken access_denied" "error_code=200 provider_error" "error=login_required interaction_required"; do
    start_login oidc hosted
    matches "error=${query#* }&" "$(location "$BROKER/callback/oidc?${query% *}&state=$STATE&iss=$(issuer)")" "login with a hosted callback (flow C), callback with ${query% *} → the app gets the error ${query#* }"
done

step "5. Callbacks without a state or a code belong to no login (flow D)"
device a-guest
forward "com.example.app:/cb?error=access_denied"
expect_problem 403 access_denied "callback with an error but without a state"
forward "com.example.app:/cb?code=portal" '"provider":"oidc","client":"ios"'
expect_problem 409 login_required "forward of a code without a state, with provider and client in the body"
forward "com.example.app:/cb?code=portal" '"provider":"oidc","client":"ios"'
expect_problem 400 invalid_callback "app forwards a code without a state for the second time in a row"
device a-second-guest
start_login oidc ios
forward "com.example.app:/cb?state=$STATE"
expect_problem 409 login_required "callback with a state, but with neither a code nor an error"
device a-third-guest
forward "com.example.self:/cb"
expect_problem 409 login_required "callback without parameters, for a client whose app starts its logins"
browser "$(json .login.authorization_url)" ana
forward "$CALLBACK" '"provider":"oidc","client":"self","code_verifier":"'"$(random_token)"'"'
expect_status 201 "callback without parameters got 409 with a new login, and the user finishes this login → a session"
forward "com.example.app:/cb?code=portal" '"provider":"oidc","client":"strict"'
expect_problem 400 invalid_callback "forward of a code at another client's redirect URI"

step "6. A form post's parameters are read only from its body"
start_login apple web
request POST "/callback/apple?state=$STATE" -d "code=c&state=$STATE"
expect_problem 400 invalid_callback "form post with a state in both query and body"

step "7. A provider that misbehaves in its callback"
# misplaced FAULT STATUS CODE SENTENCE [MEMBERS]: makes one login of a new device whose callback has this fault
misplaced() {
    device "misplaced-$RANDOM$RANDOM"
    fault oidc "{\"fault\":\"$1\",\"times\":1${5:+,$5}}"
    start_login oidc ios
    browser "$AUTHORIZATION_URL" ana
    forward "$CALLBACK"
    if [ "$2" = 201 ]; then expect_status 201 "$4"; else expect_problem "$2" "$3" "$4"; fi
}
before=$(calls oidc/token)
misplaced wrong-iss-callback 400 issuer_mismatch "provider's callback with a wrong iss"
misplaced no-iss-callback 400 issuer_mismatch "callback without iss, although the metadata promises one"
misplaced wrong-state-callback 400 state_mismatch "provider's callback with another state"
misplaced no-state-callback 409 login_required "provider's callback without a state"
misplaced duplicate-code-callback 400 invalid_callback "provider's callback with two codes"
same "$before" "$(calls oidc/token)" "five faulty callbacks from the provider → zero token calls"
misplaced extra-callback 201 "" "provider's callback with extra parameters → a session" '"value":{"utm_source":"x","hint":"y"}'

finish
