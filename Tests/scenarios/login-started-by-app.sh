#!/usr/bin/env bash
# Flow B: the app makes its own state and PKCE verifier, opens the browser itself, and forwards the callback.
source "$(dirname "$0")/support/lib.bash"
start_stack

# app_authorizes USER: plays an app with its own OAuth library
app_authorizes() {
    verifier=$(random_token)
    state=$(random_token)
    nonce=$(random_token)
    login_token=$(random_token)
    browser "$SANDBOX/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid+email+profile+offline_access&state=$state&nonce=$nonce&code_challenge=$(s256 "$verifier")&code_challenge_method=S256" "$1"
    code=$(url_value code "$CALLBACK")
}

# app_forwards MEMBERS: flow B's body without braces
app_forwards() { post /v1/sessions "{\"provider\":\"oidc\",\"client\":\"ios\",$1}"; }

step "1. The app forwards code, verifier, redirect URI, nonce and a login token of its own"
app_authorizes ana
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$login_token\""
expect_status 201 "a session"
expect_json .subject user-ana
handle=$(json .handle)
session=$(cookie coatcheck)
same 1 "$(calls oidc/token)" "one call"

step "2. Again, as the answer was lost"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$login_token\""
expect_status 201 "the same forward"
expect_json .handle "$handle"
same "$session" "$(cookie coatcheck)" "the same cookie"
same 1 "$(calls oidc/token)" "still one call"

step "3. A stranger has code and verifier, but not the login token"
device a-stranger
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$(random_token)\""
expect_problem 409 code_already_used "another login token"
app_forwards "\"code\":\"$code\",\"redirect_uri\":\"com.example.app:/cb\""
expect_problem 400 invalid_request "with the code alone"
same 1 "$(calls oidc/token)" "still one call"

step "4. The whole callback URL instead of the code: the state must come with it, and fit"
device a-phone
app_authorizes ben
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_status 201 "with its state"
expect_json .subject user-ben
app_authorizes ben
before=$(calls oidc/token)
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$(random_token)\",\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_problem 409 login_required "another state"
matches '^http' "$(json .login.authorization_url)" "with a fresh login to open"
device c-phone
app_authorizes ben
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_problem 409 login_required "a state in the callback that the app does not vouch for"
same "$before" "$(calls oidc/token)" "no call for these"

step "5. The provider checks the verifier"
app_authorizes ana
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$(random_token)\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 code_rejected "another verifier: the provider refuses the code"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"short\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 invalid_request "a verifier of 5 characters"

step "6. The nonce is checked against the id_token"
app_authorizes ana
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$(random_token)\""
expect_problem 502 identity_rejected "another nonce"

step "7. Without a verifier, a client that has PKCE is refused"
app_authorizes ana
before=$(calls oidc/token)
app_forwards "\"code\":\"$code\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$login_token\""
expect_problem 400 invalid_request "no verifier"
expect_json .errors[0].pointer /code_verifier
same "$before" "$(calls oidc/token)" "no call"

step "8. A redirect URI that is not registered"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.evil.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 invalid_callback "not this client's redirect URI"
same "$before" "$(calls oidc/token)" "no call"

step "9. A client that did not opt in"
post /v1/sessions "{\"provider\":\"oidc\",\"client\":\"strict\",\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.strict:/cb\",\"nonce\":\"$nonce\"}"
expect_problem 403 client_not_allowed "login: broker"
same "$before" "$(calls oidc/token)" "no call"

step "The scope that the app asked for counts where the answer names none"
device scope-phone
# scoped ANSWERED-FAULT MEMBERS
scoped() {
    app_authorizes ana
    [ -z "$1" ] || fault oidc "{\"fault\":\"$1\",\"endpoint\":\"token\",\"times\":1}"
    app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\"$2"
}
before=$(calls oidc/token)
scoped "" ',"scope":"openid admin"'
expect_problem 400 invalid_request "more than the client may ask"
expect_json .errors[0].pointer /scope
same "$before" "$(calls oidc/token)" "and the code is still good"
scoped no-scope ',"scope":"openid email"'
expect_status 201
same '["openid","email"]' "$(jq -c .scope "$work/body")" "as it asked"
scoped no-scope ''
same '[]' "$(jq -c .scope "$work/body")" "without its word: unknown"
scoped "" ',"scope":"openid email"'
same '["openid","email","profile","offline_access"]' "$(jq -c .scope "$work/body")" "an answer that names its scope goes before it"

finish
