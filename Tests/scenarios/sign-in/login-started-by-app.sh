#!/usr/bin/env bash
# Flow B: the app makes its own state and PKCE verifier, opens the browser itself, and forwards the callback.
source "$(dirname "$0")/../support/lib.bash"
start_stack

# app_authorizes USER: acts as an app with an OAuth library: makes the request's secrets and signs the user in; sets CALLBACK
app_authorizes() {
    verifier=$(random_token)
    state=$(random_token)
    nonce=$(random_token)
    login_token=$(random_token)
    browser "$SANDBOX/oidc/authorize?response_type=code&client_id=ios-app&redirect_uri=com.example.app:/cb&scope=openid+email+profile+offline_access&state=$state&nonce=$nonce&code_challenge=$(s256 "$verifier")&code_challenge_method=S256" "$1"
    code=$(url_value code "$CALLBACK")
}

# app_forwards MEMBERS: posts flow B's forward with these JSON members
app_forwards() { post /v1/sessions "{\"provider\":\"oidc\",\"client\":\"ios\",$1}"; }

step "1. The app forwards code, verifier, redirect URI, nonce and a login token of its own"
app_authorizes ana
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$login_token\""
expect_status 201 "forward with code, verifier and nonce → a session"
expect_json .subject user-ana "forward with code, verifier and nonce → the session's subject is user-ana"
handle=$(json .handle)
session=$(cookie coatcheck)
same 1 "$(calls oidc/token)" "forward with code, verifier and nonce → one token call"

step "2. The app forwards again because the first answer was lost"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$login_token\""
expect_status 201 "app repeats a forward with code, verifier and nonce, as after a lost answer → 201"
expect_json .handle "$handle" "app repeats a forward with code, verifier and nonce, as after a lost answer → the same session handle"
same "$session" "$(cookie coatcheck)" "app repeats a forward with code, verifier and nonce, as after a lost answer → the same cookie"
same 1 "$(calls oidc/token)" "app repeats a forward with code, verifier and nonce, as after a lost answer → no further token call"

step "3. Another device has code and verifier, but not the login token"
device a-stranger
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$(random_token)\""
expect_problem 409 code_already_used "another device forwards code and verifier with another login token"
app_forwards "\"code\":\"$code\",\"redirect_uri\":\"com.example.app:/cb\""
expect_problem 400 invalid_request "another device forwards only the code"
same 1 "$(calls oidc/token)" "another device's forwards of a used code → no further token call"

step "4. If the app forwards the callback URL instead of the code, it has to send the matching state"
device a-phone
app_authorizes ben
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$state\",\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_status 201 "forward of the callback URL with the matching state → a session"
expect_json .subject user-ben "forward of the callback URL with the matching state → the session's subject is user-ben"
app_authorizes ben
before=$(calls oidc/token)
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"state\":\"$(random_token)\",\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_problem 409 login_required "forward of the callback URL with another state"
matches '^http' "$(json .login.authorization_url)" "forward of the callback URL with another state → the answer has a new login"
device c-phone
app_authorizes ben
app_forwards "\"callback_url\":$(json_text "$CALLBACK"),\"code_verifier\":\"$verifier\",\"nonce\":\"$nonce\""
expect_problem 409 login_required "forward of the callback URL without the app's state"
same "$before" "$(calls oidc/token)" "forwards of the callback URL with a wrong state and without a state → zero token calls"

step "5. The provider checks the verifier"
app_authorizes ana
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$(random_token)\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 code_rejected "forward of a code with another verifier, which the provider refuses"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"short\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 invalid_request "forward of a code with a verifier of 5 characters"

step "6. The nonce is checked against the id_token"
app_authorizes ana
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$(random_token)\""
expect_problem 502 identity_rejected "forward with a nonce that differs from the id_token's nonce"

step "7. A forward without a verifier is refused, because the client uses PKCE"
app_authorizes ana
before=$(calls oidc/token)
app_forwards "\"code\":\"$code\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\",\"login_token\":\"$login_token\""
expect_problem 400 invalid_request "forward without a verifier"
expect_json .errors[0].pointer /code_verifier "forward without a verifier → the error points to code_verifier"
same "$before" "$(calls oidc/token)" "forward without a verifier → zero token calls"

step "8. A redirect URI that is not registered"
app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.evil.app:/cb\",\"nonce\":\"$nonce\""
expect_problem 400 invalid_callback "forward with an unregistered redirect URI"
same "$before" "$(calls oidc/token)" "forward with an unregistered redirect URI → zero token calls"

step "9. A client that does not allow logins started by the app"
post /v1/sessions "{\"provider\":\"oidc\",\"client\":\"strict\",\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.strict:/cb\",\"nonce\":\"$nonce\"}"
expect_problem 403 client_not_allowed "forward for a client with login: broker"
same "$before" "$(calls oidc/token)" "forward for a client with login: broker → zero token calls"

step "10. If the token answer has no scope, the session gets the scope that the app sent with the forward"
device scope-phone
# scoped FAULT MEMBERS: a login of the app whose token answer has this fault (or none), forwarded with these members
scoped() {
    app_authorizes ana
    [ -z "$1" ] || fault oidc "{\"fault\":\"$1\",\"endpoint\":\"token\",\"times\":1}"
    app_forwards "\"code\":\"$code\",\"code_verifier\":\"$verifier\",\"redirect_uri\":\"com.example.app:/cb\",\"nonce\":\"$nonce\"$2"
}
before=$(calls oidc/token)
scoped "" ',"scope":"openid admin"'
expect_problem 400 invalid_request "forward with a scope beyond the client's"
expect_json .errors[0].pointer /scope "forward with a scope beyond the client's → the error points to scope"
same "$before" "$(calls oidc/token)" "forward with a scope beyond the client's → zero token calls"
scoped no-scope ',"scope":"openid email"'
expect_status 201 "token answer without a scope, after a forward with a scope → a session"
same '["openid","email"]' "$(jq -c .scope "$work/body")" "token answer without a scope, after a forward with a scope → the session has the forward's scope"
scoped no-scope ''
same '[]' "$(jq -c .scope "$work/body")" "neither the token answer nor the forward has a scope → the session's scope is empty"
scoped "" ',"scope":"openid email"'
same '["openid","email","profile","offline_access"]' "$(jq -c .scope "$work/body")" "token answer with a scope, after a forward with another scope → the session has the token answer's scope"

finish
