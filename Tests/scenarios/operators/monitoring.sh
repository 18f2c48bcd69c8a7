#!/usr/bin/env bash
# promtool checks the alert rules of deploy/, and a script compares rules and dashboard with the broker's /metrics. Then a real
# Prometheus uses the rules, while first the provider fails, then the store, then the broker. The rules' waiting times (`for:`)
# are left out here, because promtool's unit tests cover them.
source "$(dirname "$0")/../support/lib.bash"
PATH="$PATH:/usr/sbin:/sbin"
for program in prometheus promtool; do
    command -v "$program" >/dev/null || { echo "Bail out! $program is missing: scripts/setup test"; exit 1; }
done
python=$root/.venv/bin/python
[ -x "$python" ] || python=python3
monitoring() { "$python" "$root/Tests/scenarios/support/monitoring.py" "$@"; }

step "Rules and configuration"
promtool check rules "$root/deploy/prometheus/rules.yaml" >"$work/rules.out" 2>&1
same 0 $? "promtool check rules → accepted: $(grep -o '[0-9]* rules found' "$work/rules.out")"
promtool check config "$root/deploy/prometheus/prometheus.yaml" >"$work/config.out" 2>&1
same 0 $? "promtool check config → accepted"
promtool test rules "$root/Tests/scenarios/support/prometheus/rules.test.yaml" >"$work/unit.out" 2>&1
same 0 $? "promtool test rules → every rule fires and waits as written: $(tail -3 "$work/unit.out" | tr '\n' ' ')"
sed 's/process_open_fds{job="coatcheck"} > 0.4/process_open_fds{job="coatcheck"} > 0.8/' "$root/deploy/prometheus/rules.yaml" >"$work/broken.yaml"
sed "s|rule_files:.*|rule_files: [$work/broken.yaml]|" "$root/Tests/scenarios/support/prometheus/rules.test.yaml" >"$work/broken.test.yaml"
promtool test rules "$work/broken.test.yaml" >"$work/unit.out" 2>&1
same 1 $? "alert rule whose limit is doubled → promtool's tests fail"
sed 's/ and predict_linear(.*\[2h\].*//' "$root/deploy/prometheus/rules.yaml" >"$work/broken.yaml"
promtool test rules "$work/broken.test.yaml" >"$work/unit.out" 2>&1
same 1 $? "alert rule without its two-hour trend → promtool's tests fail"

step "The metrics of an unused broker"
{ cat "$here/coatcheck.yaml"; echo 'tracing: {otlp: "http://127.0.0.1:4318", sample: 0}'; } >"$work/stack.yaml"
start_stack "$work/stack.yaml"
shown() { curl -s "$MANAGEMENT/metrics" | grep -E "^$1" | tail -1; }
wait_for 10 shows '^coatcheck_store_free_bytes [1-9]'
same 0 $? "metrics of an unused broker → report the free bytes of the disk"
curl -s "$MANAGEMENT/metrics" >"$work/metrics"
promtool check metrics <"$work/metrics" >"$work/lint.out" 2>&1
same 0 $? "promtool check metrics → no complaint: $(head -3 "$work/lint.out" | tr '\n' ' ')"
monitoring names "$work/metrics" >"$work/names.out"
take_over <"$work/names.out"
# broken FILE SED-EXPRESSION: checks that a check fails for a copy of the file with this edit
broken() {
    rm -rf "$work/tree"
    mkdir -p "$work/tree/Tests"
    cp -r "$root/deploy" "$root/docs" "$work/tree/"
    cp -r "$root/Tests/scenarios" "$work/tree/Tests/"
    sed -i "$2" "$work/tree/$1"
    "$python" "$work/tree/Tests/scenarios/support/monitoring.py" names "$work/metrics" >"$work/broken.out" 2>&1
    same 1 $? "broken copy of $1 → a check fails: $2 ($(grep -m 1 '^not ok' "$work/broken.out" | cut -d' ' -f 4-))"
}
broken deploy/grafana/coatcheck.json 's/coatcheck_sessions_live/coatcheck_sessions_alive/'
broken deploy/grafana/coatcheck.json 's/Why are people logged out?/Log-outs/'
broken deploy/grafana/coatcheck.json 's/coatcheck_old_system_answers_total/coatcheck_moved_total/'
broken deploy/prometheus/rules.yaml 's/coatcheck_keys_fit/coatcheck_keys_fitting/'
broken docs/reference/metrics-and-logs.md 's/`keys_fit`/`keys_fits`/'
for zero in 'sessions_ended_total{reason="refresh_lost"}' 'logins_total{provider="oidc",client="ios",result="succeeded"}' \
    'store_failures_total{operation="commitRefresh"}' 'sessions_live' 'logout_tokens_total{provider="oidc",result="accepted"}' \
    'http_requests_total{listener="public",method="POST",route="/v1/logins",status="503"}' \
    'moved_total{provider="clever",client="ios",way="tokens",result="moved"}' \
    'refreshes_total{provider="oidc",client="ios",result="ended",reason="refresh_lost"}' 'relay_answers_total{upstream="api",result="none"}'; do
    same 1 "$(grep -cF "coatcheck_$zero 0" "$work/metrics")" "metrics of an unused broker → $zero is 0"
done
matches '^coatcheck_build_info\{version="[0-9.]+",store="sqlite"\} 1$' "$(shown coatcheck_build_info)" "metrics of an unused broker → have version and store"
matches '^coatcheck_key_age_seconds\{key="k[^"]+",use="seals"\} [0-9]+$' "$(shown coatcheck_key_age_seconds)" "metrics of an unused broker → have a key and its age"
free=$(df -B1 --output=avail "$work/data" | tail -1)
near=$("$python" -c 'import sys; a, b = map(float, sys.argv[1:]); print(abs(a - b) < 0.2 * b)' "$(shown coatcheck_store_free_bytes | cut -d' ' -f2)" "$free")
same True "$near" "metrics of an unused broker → have nearly the free bytes that df reports"
"$COATCHECK" keys rotate --file "$work/keys.json" --now >/dev/null
wait_for 20 shows '^coatcheck_key_age_seconds\{key="k[^"]+",use="opens"\}'
same "2" "$(curl -s "$MANAGEMENT/metrics" | grep -c '^coatcheck_key_age_seconds{')" "metrics after a key rotation → have two keys"

step "coatcheck health replaces curl"
same "ready" "$("$COATCHECK" health --config "$work/coatcheck.yaml" 2>&1)" "coatcheck health with --config → prints ready"
same "live" "$("$COATCHECK" health --live --management "$MANAGEMENT" 2>&1)" "coatcheck health with --live and --management → prints live"
"$COATCHECK" health --management "http://127.0.0.1:$CLOSED_PORT" >"$work/health" 2>&1
same "1 http://127.0.0.1:$CLOSED_PORT does not answer" "$? $(cat "$work/health")" "coatcheck health at a port without a broker → exit 1, and the message names the address"

step "Prometheus scrapes the broker"
monitoring impatient "$root/deploy/prometheus" "$work/prometheus" "127.0.0.1:$MANAGEMENT_PORT"
PROMETHEUS_PORT=$(free_port)
PROMETHEUS="http://127.0.0.1:$PROMETHEUS_PORT"
prometheus --config.file="$work/prometheus/prometheus.yaml" --storage.tsdb.path="$work/tsdb" \
    --web.listen-address="127.0.0.1:$PROMETHEUS_PORT" >"$work/prometheus.log" 2>&1 &
pids+=($!)
wait_for 30 curl -sf "$PROMETHEUS/-/ready" || give_up "Prometheus"
# value QUERY: prints Prometheus's present value of the query
value() { curl -s -G --data-urlencode "query=$1" "$PROMETHEUS/api/v1/query" | jq -r '.data.result[0].value[1] // empty'; }
is() { [ "$(value "$1")" = "$2" ]; }
wait_for 30 is 'up{job="coatcheck"}' 1
same 0 $? "Prometheus scrapes the broker → the target is up"
wait_for 30 is 'count_over_time(coatcheck_logins_total{provider="oidc",client="ios",result="succeeded"}[1m]) > bool 3' 1
same 0 $? "Prometheus scrapes a broker before the first login → Prometheus already has the counter of logins"
device first
sign_in oidc ios ana
expect_status 201 "first sign-in → a session"
wait_for 30 is 'increase(coatcheck_logins_total{provider="oidc",client="ios",result="succeeded"}[1m]) > bool 0' 1
same 0 $? "first sign-in → Prometheus computes an increase of the counter of logins"
request GET /v1/relay/api/private/echo
wait_for 30 is 'increase(coatcheck_relay_answers_total{upstream="api",result="2xx"}[1m]) > bool 0' 1
device old-app
post /v1/sessions '{"provider": "clever", "client": "ios", "tokens": {"access_token": "dead"}}'
expect_problem 409 login_required "an app posts a dead token"
# panel_shows TITLE LEGEND: checks that this panel of the dashboard has a value with this legend
panel_shows() { monitoring panel "$PROMETHEUS" "$1" | grep -qxF "$2"; }
wait_for 30 panel_shows "Do imported users stay signed in?" "clever/ios grant_revoked"
same 0 $? "an app posts a dead token → the dashboard's row Moving in shows grant_revoked"
monitoring dashboard "$PROMETHEUS" >"$work/dashboard.out"
take_over <"$work/dashboard.out"
# Without their waiting times, StoreSlow and StoreFillsUp may fire on a busy machine, where the store is slow and other programs
# fill its disk.
monitoring firing "$PROMETHEUS" >"$work/firing"
same "0 " "$? $(grep -vE '^Coatcheck(StoreSlow|StoreFillsUp)$' "$work/firing")" "healthy broker → no alert fires"

step "Faults make their alerts fire"
fired() { monitoring firing "$PROMETHEUS" >"$work/firing" && grep -qxF "$1" "$work/firing"; }
# fires ALERT-AND-LABELS SECONDS SENTENCE: checks that this alert fires within this time
fires() {
    wait_for "$2" fired "$1"
    same 0 $? "$3: $1"
}
device second
sign_in oidc ios ben
fault oidc '{"fault":"refresh-invalid-sub","times":1}'
request POST /v1/session/refresh
same "401 subject_changed" "$STATUS $(json .reason)" "refresh returns another user's id_token → the session ends"
fires "CoatcheckLoggedOutByFault reason=subject_changed" 30 "session ended by a fault → this alert fires"
fault slack '{"fault":"status","status":503,"endpoint":"token"}'
for attempt in 1 2 3 4 5 6 7 8 9; do
    device "slack-$attempt"
    sign_in slack web "user$attempt"
done
expect_problem 503 provider_unavailable "sign-ins at a provider that answers 503"
fires "CoatcheckProviderDown provider=slack" 30 "nine sign-ins fail because the provider answers 503 → this alert about calls to the provider fires"
fires "CoatcheckProviderFailing provider=slack" 30 "nine sign-ins fail because the provider answers 503 → this alert about the provider's answers fires"
fires "CoatcheckLoginsFail provider=slack" 30 "nine sign-ins fail because the provider answers 503 → this alert about failed sign-ins fires"
monitoring firing "$PROMETHEUS" >"$work/firing"
same "0 " "$? $(grep -E 'CoatcheckStoreFails|CoatcheckDown|provider=oidc' "$work/firing")" "one provider answers 503 → no alert fires for another provider, the store or the broker"
"$python" - "$work/data/coatcheck.db" <<'TEXT'
import sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None, timeout=20)
database.execute("CREATE TRIGGER no_commit BEFORE UPDATE OF token_version ON sessions BEGIN SELECT RAISE(ABORT, 'no'); END")
TEXT
device first
request POST /v1/session/refresh
expect_problem 503 store_unavailable "refresh while the store fails to commit"
fires "CoatcheckStoreFails operation=commitRefresh" 30 "store fails to commit a refresh → this alert fires"
kill_broker KILL
fires "CoatcheckDown" 30 "broker is killed → this alert fires"
finish
