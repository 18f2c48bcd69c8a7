# The verdicts of a shell scenario: one line `ok` or `not ok` for each check, and their count at the end.

step() { printf '\n# %s\n' "$*"; }

ok() { passed=$((passed + 1)); printf 'ok %d - %s\n' "$((passed + failed))" "$*"; }

not_ok() {
    failed=$((failed + 1))
    printf 'not ok %d - %s\n' "$((passed + failed))" "$1"
    printf '#   %s\n' "${2:-}"
    [ -n "${STATUS:-}" ] && printf '#   last answer: %s %s\n' "$STATUS" "$(head -c 600 "$work/body" 2>/dev/null)"
    return 0
}

# same EXPECTED ACTUAL SENTENCE
same() { if [ "$1" = "$2" ]; then ok "$3"; else not_ok "$3" "expected <$1>, got <$2>"; fi; }

# matches REGULAR-EXPRESSION ACTUAL SENTENCE
matches() { if [[ $2 =~ $1 ]]; then ok "$3"; else not_ok "$3" "expected something like <$1>, got <$2>"; fi; }

# expect_status 201 "the code makes a session"
expect_status() { same "$1" "$STATUS" "${2:-the last request → $1}"; }

# expect_json .code login_not_yours ["sentence"]     .a.b[0] walks the last answer's body
expect_json() { same "$2" "$(json "$1")" "${3:-the last answer → $1 is $2}"; }

# expect_problem 403 login_not_yours "sentence"
expect_problem() { same "$1 $2" "$STATUS $(json .code)" "$3 → $1 $2"; }

# expect_header Cache-Control no-store ["sentence"]
expect_header() { same "$2" "$(header "$1")" "${3:-the last answer → its field $1 is $2}"; }

# take_over: counts the lines `ok N - …` and `not ok N - …` of a program like those of this script
take_over() {
    while IFS= read -r line; do
        case $line in
            "ok "*) ok "${line#*- }" ;;
            "not ok "*) failed=$((failed + 1)); printf 'not ok %d - %s\n' "$((passed + failed))" "${line#*- }" ;;
            *) printf '%s\n' "$line" ;;
        esac
    done
}

finish() {
    [ -z "${SCENARIOS_RUN:-}" ] || realpath --relative-to="$root" "$0" >>"$SCENARIOS_RUN"
    printf '\n%d passed, %d failed\n' "$passed" "$failed"
    [ "$failed" -eq 0 ]
    exit
}
