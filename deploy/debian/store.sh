# Finds the SQLite database of a configuration. scripts/deb puts these functions into the scripts of the package.

# store_url CONFIG: prints store.url, a reference as `file:PATH` or `env:NAME`; status 1 if the file writes it in another form
store_url() {
    awk '
        { sub(/(^|[ \t])#.*/, "") }
        /^(<<|\{|---.)/ { other = 1 }
        /^"?store"?[ \t]*:/ { inside = 1; sub(/^[^:]*:[ \t]*/, ""); text = $0; next }
        /^[^ \t]/ { inside = 0 }
        inside { text = text "\n" $0 }
        END {
            flow = text ~ /^\{/
            # A reference has its own braces, or lines of its own.
            if (!match("\n" text, /[\n{, \t]"?url"?[ \t]*:[ \t\n]+/)) exit other || text ~ /<<|^[&*!]/
            value = substr("\n" text, RSTART + RLENGTH)
            if (match(value, /^\{?[ \t]*(file|env)[ \t]*:[ \t]+/)) {
                kind = substr(value, 1, RLENGTH)
                gsub(/[{ \t:]/, "", kind)
                flow = flow || value ~ /^\{/
                value = substr(value, RLENGTH + 1)
                kind = kind ":"
            }
            if (match(value, /^"[^"\\]*"/) || match(value, /^\047[^\047]*\047/)) value = substr(value, 2, RLENGTH - 2)
            else if (value ~ /^[&*!|>{["\047]/) exit 1
            else {
                sub(/\n.*/, "", value)
                if (flow) sub(/[,}].*/, "", value)
                sub(/[ \t\r]+$/, "", value)
            }
            if (value == "") exit 1
            print kind value
        }' "$1"
}

# sqlite_of CONFIG: prints the path of the database, or an empty line for PostgreSQL; status 1 if store.url cannot be read
sqlite_of() {
    url=$(store_url "$1") || return 1
    case $url in
        file:/*) url=$(head -n 1 "${url#file:}") || return 1 ;;
        file:*) url=$(head -n 1 "${1%/*}/${url#file:}") || return 1 ;;
        env:*) url=$(printenv "${url#env:}") || return 1 ;;
        "") url=sqlite:coatcheck.db ;;
    esac
    case $url in
        postgres:* | postgresql:*) echo ;;
        sqlite:///*) echo "/${url#sqlite:///}" ;;
        sqlite:/*) echo "${url#sqlite:}" ;;
        sqlite:?*) echo "${1%/*}/${url#sqlite:}" ;;
        *) return 1 ;;
    esac
}
