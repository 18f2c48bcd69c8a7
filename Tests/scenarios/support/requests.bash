# Requests with curl, and the parts of an answer.

# Every device has its own cookie jar.
device() { JAR="$work/$1.jar"; touch "$JAR"; }

# request METHOD URL-OR-PATH [curl options…]: sends a request; sets STATUS, and keeps the headers and the body of the answer
request() {
    local method=$1 url=$2
    shift 2
    case $url in /*) url="$BROKER$url" ;; esac
    STATUS=$(curl -s -m 40 -X "$method" -o "$work/body" -D "$work/headers" -w '%{http_code}' \
        ${JAR:+-b "$JAR" -c "$JAR"} "$@" "$url") || true
    [ -n "${RECORD:-}" ] && cat "$work/headers" "$work/body" >>"$RECORD"
    [ -n "${VERBOSE:-}" ] && printf '#   %s %s -> %s %s\n' "$method" "$url" "$STATUS" "$(head -c 400 "$work/body")"
    return 0
}

get() { request GET "$@"; }

# post PATH JSON [curl options…]: posts a JSON body
post() {
    local path=$1 body=$2
    shift 2
    request POST "$path" -H 'Content-Type: application/json' --data-binary "$body" "$@"
}

body() { cat "$work/body"; }

# header NAME: the last answer's field, one line a value
header() {
    awk -v name="$(printf %s "$1" | tr 'A-Z' 'a-z')" 'BEGIN { FS = ":" }
        tolower($1) == name { sub(/^[^:]*:[ \t]*/, ""); sub(/\r$/, ""); print }' "$work/headers"
}

# json PATH [FILE]: a member of a JSON file, `.a.b[0]`; empty if it is missing
json() {
    local path
    path=$(sed -E 's/\.([^].[]+)/"\1",/g; s/\[([0-9]+)\]/\1,/g; s/,$//' <<<"$1")
    jq -r --argjson path "[$path]" '
        reduce $path[] as $name ([.]; if length == 1 and (.[0] | type) == (if $name | type == "string" then "object" else "array" end)
            and (.[0] | has($name)) then [.[0][$name]] else [] end)
        | .[] | if type == "string" then . else tojson end' "${2:-$work/body}" 2>/dev/null
}

# json_text TEXT: the text as a JSON string
json_text() { jq -n --arg text "$1" '$text'; }

# cookie NAME: prints its value in the device's jar
cookie() { awk -v name="$1" '$6 == name { print $7 }' "$JAR"; }

# url_value NAME URL: prints a decoded query parameter
url_value() {
    python3 -c 'import sys, urllib.parse as u
print(dict(u.parse_qsl(u.urlsplit(sys.argv[2]).query, keep_blank_values=True)).get(sys.argv[1], ""))' "$1" "$2"
}

# with_value NAME VALUE URL: prints the URL with that query parameter set (the value - removes it)
with_value() {
    python3 -c 'import sys, urllib.parse as u
name, value, url = sys.argv[1:]
head, _, query = url.partition("?")
pairs = [p for p in u.parse_qsl(query, keep_blank_values=True) if p[0] != name]
if value != "-": pairs.append((name, value))
print(head + "?" + u.urlencode(pairs))' "$@"
}

random_token() { head -c 32 /dev/urandom | base64 | tr '+/' '-_' | tr -d '=\n'; }

# s256 VERIFIER: prints its PKCE challenge
s256() { printf %s "$1" | openssl dgst -sha256 -binary | base64 | tr '+/' '-_' | tr -d '=\n'; }
