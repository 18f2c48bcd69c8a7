#!/usr/bin/env bash
# Guarantees 5 and 7: the database, its log files and the broker's own log (at trace level) contain no codes, states, verifiers,
# tokens, cookies or secrets.
source "$(dirname "$0")/../support/lib.bash"
start_stack
RECORD="$work/answers"

canaries="$work/canaries"
# remember KIND VALUE: records the value as a secret of this kind, if it is not empty
remember() { [ -n "$2" ] && printf '%s %s\n' "$1" "$2" >>"$canaries"; }

step "1. Logins of every kind, and a record of every secret"
for provider in oidc oauth2; do
    device "phone-$provider"
    start_login "$provider" ios
    remember state "$STATE"
    remember login-token "$(cookie coatcheck-login)"
    browser "$AUTHORIZATION_URL" ana
    remember code "$(url_value code "$CALLBACK")"
    forward "$CALLBACK"
    same 201 "$STATUS" "callback at $provider forwarded → a session"
    remember session-token "$(cookie coatcheck)"
done
verifier=$(random_token)
start_login oidc ios "\"code_challenge\":\"$(s256 "$verifier")\",\"code_challenge_method\":\"S256\""
remember verifier "$verifier"
remember state "$STATE"
browser "$AUTHORIZATION_URL" ana
remember code "$(url_value code "$CALLBACK")"
forward "$CALLBACK" "\"code_verifier\":\"$verifier\""
remember session-token "$(cookie coatcheck)"
device bearer-phone
sign_in oidc android ana
remember login-token "$LOGIN_TOKEN"
remember session-token "$(json .session_token)"
device clever
start_login clever ios
browser "$AUTHORIZATION_URL" ana
remember code "$(url_value code "$CALLBACK")"
forward "$CALLBACK"
device zephr
start_login zephr ios '"social_provider":"google"'
browser "$AUTHORIZATION_URL" newcomer
remember state-key "$(url_value state_key "$CALLBACK")"
forward "$CALLBACK"
post /v1/registrations "{\"provider\":\"zephr\",\"client\":\"ios\",\"state_key\":$(json_text "$(json .state_key)"),\"attributes\":{\"first-name\":\"Ana\"}}"
remember session-token "$(cookie coatcheck)"
device failing
for broken in html-200 crlf-token invalid-sig-es256 drop-after status; do
    start_login oidc ios
    browser "$AUTHORIZATION_URL" ana
    remember code "$(url_value code "$CALLBACK")"
    remember state "$STATE"
    fault oidc "{\"fault\":\"$broken\",\"endpoint\":\"token\",\"times\":1,\"status\":500}"
    forward "$CALLBACK"
    sandbox DELETE /faults
done
planted="canary-$(random_token)"
remember planted "$planted"
post /v1/sessions "{\"callback_url\":\"com.example.app:/cb?code=$planted&state=$planted\"}"
post /v1/sessions "{\"provider\":\"oidc\",\"code\":\"$planted\",\"unknown_member\":\"$planted\"}"
post /v1/sessions "{\"$planted\":1}"
if grep -qF -e "$planted" "$work/body"; then ok "body whose member has a planted name → the answer to the sender contains this name"; else ok "body whose member has a planted name → the answer does not contain this name"; fi
JAR= request GET "/v1/session?session=$planted" -b "coatcheck=$planted" -H "Authorization: Bearer $planted" -H "User-Agent: ua-$(random_token)"
request GET "/$planted"
# Also record every token that the providers have issued.
sandbox GET /tokens
python3 -c 'import json, sys
for entry in json.load(open(sys.argv[1])): print(entry["kind"], entry["token"])' "$work/control" >>"$canaries"
cut -d' ' -f1 "$canaries" | sort | uniq -c | sed 's/^/#  /'
# The searches below mean something only if secrets of each kind were recorded.
for kind in state code verifier login-token session-token state-key access_token refresh_token; do
    matches '^[1-9]' "$(grep -c "^$kind [^ ]" "$canaries")" "recorded secrets → at least one of each kind: $kind"
done

step "2. No answer contains a provider's token (SEC-52)"
get /v1/session
get /v1/sessions
get /v1/providers
found=$(grep -E '^(access|refresh)_token ' "$canaries" | cut -d' ' -f2 | grep -aohFf - "$work/answers" | head -1)
count=$(grep -ao 'HTTP/1\.1 [0-9]' "$work/answers" | wc -l)
if [ -z "$found" ] && [ "$count" -ge 20 ]; then ok "$count answers → contain no provider token"; else not_ok "at least 20 answers → no provider token" "$count answers"; fi

step "3. No value from the database opens a session (SEC-39)"
# Try each value of each row as the session cookie: a text as it is, bytes in hexadecimal and in base64url.
python3 - "$work/data/coatcheck.db" >"$work/values" <<'PY'
import base64, sqlite3, sys
database = sqlite3.connect(f"file:{sys.argv[1]}?mode=ro", uri=True)
seen = set()
for (table,) in database.execute("select name from sqlite_master where type = 'table'").fetchall():
    for row in database.execute(f'select * from "{table}"'):
        for value in row:
            if isinstance(value, bytes) and 16 <= len(value) <= 64:
                seen |= {base64.urlsafe_b64encode(value).rstrip(b"=").decode(), value.hex()}
            elif isinstance(value, str) and len(value) >= 16:
                seen.add(value)
print("\n".join(v for v in sorted(seen) if v.isascii() and v.isprintable() and not set(v) & set(" ;,\"")))
PY
opened=0
while read -r value; do
    JAR= RECORD= request GET /v1/session -b "coatcheck=$value"
    [ "$STATUS" = 401 ] || opened=$((opened + 1))
done < <(head -300 "$work/values")
matches '^[1-9]' "$(grep -c . "$work/values")" "values of the database → at least one to try as a cookie"
same 0 "$opened" "$(wc -l <"$work/values") values of the database, each sent as the session cookie → no value opens a session"

step "4. No recorded secret is in the database, its log files or the broker's log"
sleep 1
# look WHAT FILE…: checks that the files contain no recorded secret
look() {
    local what=$1 found
    shift
    found=$(cut -d' ' -f2 "$canaries" | grep -v '^$' | grep -aohFf - "$@" 2>/dev/null | sort -u | head -3)
    if [ -z "$found" ]; then ok "$what → contains no recorded secret"; else not_ok "$what → contains no recorded secret" "$(grep -F -e "${found%%$'\n'*}" "$canaries" | head -1 | cut -c1-40)…"; fi
}
look "the database and its log" "$work"/data/*
look "the broker's log at trace level" "$work/broker.log"
if [ -s "$work/broker.log" ]; then ok "broker's log → not empty"; else not_ok "broker's log → not empty"; fi
get "$MANAGEMENT/metrics"
look "the metrics" "$work/body"
kill_broker TERM
look "the files after a shutdown" "$work"/data/* "$work/broker.log"

step "5. Only the owner can read the files"
same 700 "$(stat -c %a "$work/data")" "data folder → mode 0700"
for file in "$work"/data/*; do same 600 "$(stat -c %a "$file")" "$(basename "$file") in the data folder → has the mode 0600"; done

finish
