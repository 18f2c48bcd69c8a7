#!/usr/bin/env bash
# Flow B: the app makes its own state and PKCE verifier, opens the browser itself, and forwards the callback.
source "$(dirname "$0")/../support/lib.bash"
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
expect_status 201 "forward with code, verifier and nonce → a session"
expect_json .subject user-ana
handle=$(json .handle)
session=$(cookie coatcheck)
same 1 "$(calls oidc/token)" "first forward → one token call"

step "2. The app forwards again because the first answer was lost"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$login_token\""
expect_status 201 "a repeated forward → 201"
expect_json .handle "$handle"
same "$session" "$(cookie coatcheck)" "a repeated forward → the same cookie"
same 1 "$(calls oidc/token)" "a repeated forward → no further token call"

step "3. A stranger has code and verifier, but not the login token"
device a-stranger
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$(random_token)\""
expect_problem 409 code_already_used "code and verifier with another login token"
app_forwards "\"code\":\"$code\",\"redirect_uri\":\"com.example.app:/cb\""
expect_problem 400 invalid_request "forward with only the code"
same 1 "$(calls oidc/token)" "stranger's forwards → no further token call"

step "4. The whole callback URL instead of the code needs the matching state"
device a-phone
app_authorizes ben
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_status 201 "callback URL with its state → a session"
expect_json .subject user-ben
app_authorizes ben
before=$(calls oidc/token)
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$(random_token)\",\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_problem 409 login_required "callback URL with another state"
matches '^http' "$(json .login.authorization_url)" "callback URL with another state → a new login to open"
device c-phone
app_authorizes ben
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_problem 409 login_required "callback URL with a state, but no state from the app"
same "$before" "$(calls oidc/token)" "both refused forwards → no token call"

step "5. The provider checks the verifier"
app_authorizes ana
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$(random_token)\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 code_rejected "code with another verifier, refused by the provider"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"short\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 invalid_request "code with a verifier of 5 characters"

step "6. The nonce is checked against the id_token"
app_authorizes ana
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$(random_token)\""
expect_problem 502 identity_rejected "forward with another nonce"

step "7. A client with PKCE is refused without a verifier"
app_authorizes ana
before=$(calls oidc/token)
app_forwards "\"code\":\"$code\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$login_token\""
expect_problem 400 invalid_request "forward without a verifier"
expect_json .errors[0].pointer /code_verifier
same "$before" "$(calls oidc/token)" "forward without a verifier → no token call"

step "8. A redirect URI that is not registered"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.evil.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 invalid_callback "forward with an unregistered redirect URI"
same "$before" "$(calls oidc/token)" "unregistered redirect URI → no token call"

step "9. A client that does not allow logins started by the app"
post /v1/sessions "{\"provider\":\"oidc\",\"client\":\"strict\",\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.strict:/cb\",\"nonce\":\"$nonce\"}"
expect_problem 403 client_not_allowed "forward for a client with login: broker"
same "$before" "$(calls oidc/token)" "client with login: broker → no token call"

step "The requested scope counts if the token answer has no scope"
device scope-phone
# scoped ANSWERED-FAULT MEMBERS
scoped() {
    app_authorizes ana
    [ -z "$1" ] || fault oidc "{\"fault\":\"$1\",\"endpoint\":\"token\",\"times\":1}"
    app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\"$2"
}
before=$(calls oidc/token)
scoped "" ',"scope":"openid admin"'
expect_problem 400 invalid_request "forward with a scope beyond the client's"
expect_json .errors[0].pointer /scope
same "$before" "$(calls oidc/token)" "scope beyond the client's → no token call"
scoped no-scope ',"scope":"openid email"'
expect_status 201
same '["openid","email"]' "$(jq -c .scope "$work/body")" "token answer without a scope → the requested scope"
scoped no-scope ''
same '[]' "$(jq -c .scope "$work/body")" "no scope from app or answer → an empty scope"
scoped "" ',"scope":"openid email"'
same '["openid","email","profile","offline_access"]' "$(jq -c .scope "$work/body")" "token answer with a scope → the scope in the answer"

finish
