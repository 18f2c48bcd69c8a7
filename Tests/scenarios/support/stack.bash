# A sandbox and a broker as processes, which end with the script.

free_port() {
    if [ -x "$root/scripts/free-port" ]; then "$root/scripts/free-port"; else
        python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
    fi
}

# with_packages: sets PYTHON to an interpreter with the packages of requirements.txt
with_packages() {
    [ -z "${PYTHON:-}" ] || return 0
    "$here/setup" || give_up "the set-up of .venv"
    PYTHON="$root/.venv/bin/python"
}

# wait_for SECONDS COMMAND…: waits until the command succeeds; takes longer if the command itself is slow
wait_for() {
    local tries=$(($1 * 20))
    shift
    while ! "$@" >/dev/null 2>&1; do
        tries=$((tries - 1))
        [ "$tries" -le 0 ] && return 1
        sleep 0.05
    done
}

# start_stack [CONFIGURATION]: starts sandbox and broker on free ports; the default configuration is coatcheck.yaml; LIMITS may
# set its limits
start_stack() {
    [ -n "${SANDBOX:-}" ] || start_sandbox
    BROKER_PORT=$(free_port)
    MANAGEMENT_PORT=$(free_port)
    CLOSED_PORT=$(free_port)
    BROKER="http://127.0.0.1:$BROKER_PORT"
    MANAGEMENT="http://127.0.0.1:$MANAGEMENT_PORT"
    configure "${1:-$here/coatcheck.yaml}"
    mkdir -m 700 -p "$work/data"
    [ -e "$work/keys.json" ] || "$COATCHECK" keys generate --file "$work/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
    start_broker
    device a-phone
}

# configure TEMPLATE: fills in the values of this run
configure() {
    sed -e "s|@SANDBOX@|$SANDBOX|g" -e "s|@BROKER@|$BROKER|g" -e "s|@BROKER_PORT@|$BROKER_PORT|g" \
        -e "s|@MANAGEMENT_PORT@|$MANAGEMENT_PORT|g" -e "s|@CLOSED_PORT@|$CLOSED_PORT|g" -e "s|@WORK@|$work|g" \
        -e "s|@OPENID_PROVIDER@|${OPENID_PROVIDER:-http://127.0.0.1:$CLOSED_PORT}|g" "$1" >"$work/coatcheck.yaml"
    [ -z "${LIMITS:-}" ] || printf 'limits: {%s}\n' "$LIMITS" >>"$work/coatcheck.yaml"
    chmod 600 "$work/coatcheck.yaml"
}

start_sandbox() {
    local port
    port=$(free_port)
    SANDBOX="http://127.0.0.1:$port"
    "$COATCHECK_SANDBOX" --listen "127.0.0.1:$port" >"$work/sandbox.log" 2>&1 &
    pids+=($!)
    wait_for 60 curl -sf "$SANDBOX/_sandbox/health" || give_up "sandbox"
    # Clients whose secrets do not look like placeholders.
    sandbox PUT /clients/oidc/web-client '{"secret":"wq8ZrT5nLk2YvB7x:c/d+e&f","auth":"client_secret_basic"}'
    sandbox PUT /clients/oidc/signing-client '{"secret":"wq8ZrT5nLk2YvB7xHs0dPq4mJc6t9RfA","auth":"client_secret_jwt"}'
    sandbox PUT /clients/clever/web-0001 '{"secret":"wq8ZrT5nLk2YvB7xHs0d","auth":"client_secret_basic"}'
    sandbox PUT /clients/github/github-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'
    sandbox PUT /clients/google/google-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'
    sandbox PUT /clients/slack/slack-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'
    sandbox GET /client-key.pem && (umask 077 && cp "$work/control" "$work/client-key.pem")
    for id in facebook-app facebook-hosted; do sandbox PUT "/clients/facebook/$id" '{"secret":"wq8ZrT5nLk2YvB7xHs0d","auth":"client_secret_post"}'; done
    sandbox PUT /clients/linkedin/linkedin-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d","auth":"client_secret_post"}'
    sandbox PUT /clients/clover/clover-app '{"secret":"wq8ZrT5nLk2YvB7xHs0d"}'
}

start_broker() {
    "$COATCHECK" serve --config "$work/coatcheck.yaml" >>"$work/broker.log" 2>&1 &
    broker_pid=$!
    wait_for 60 curl -sf "$MANAGEMENT/readyz" || give_up "broker"
}

# start_unsteady_network: starts a proxy that plays a phone's bad network in front of the broker; sets NETWORK_PORT
start_unsteady_network() {
    mkfifo "$work/network.input"
    python3 "$root/Tests/scenarios/support/unsteady_proxy.py" "$BROKER_PORT" 1 <>"$work/network.input" >"$work/network.port" 2>"$work/network.log" &
    pids+=($!)
    wait_for 20 test -s "$work/network.port" || give_up "the bad network"
    NETWORK_PORT=$(cat "$work/network.port")
}

# shows REGULAR-EXPRESSION: returns whether the broker's metrics have such a line (without a pipe, because curl fails if grep
# ends early)
shows() { curl -s -m 10 -o "$work/shown" "$MANAGEMENT/metrics" && grep -qE "$1" "$work/shown"; }

# in_log TEXT N SENTENCE: the broker's log has N lines with this text. A separate thread writes it, a moment after the answer.
in_log() {
    wait_for 10 eval '[ "$(grep -cF -e '"$(printf %q "$1")"' "$work/broker.log")" -ge '"$2"' ]'
    same "$2" "$(grep -cF -e "$1" "$work/broker.log")" "$3"
}

# listens PORT: returns whether the port has a listener
listens() { (exec 3<>"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# kill_broker SIGNAL
kill_broker() {
    kill "-$1" "$broker_pid" 2>/dev/null
    wait "$broker_pid" 2>/dev/null
    broker_pid=
}

give_up() {
    echo "Bail out! $1 did not start; its log:"
    tail -n 20 "$work"/*.log
    exit 1
}

stop_stack() {
    for pid in ${broker_pid:-} ${pids[@]+"${pids[@]}"}; do kill "$pid" 2>/dev/null; done
    for pid in ${broker_pid:-} ${pids[@]+"${pids[@]}"}; do wait "$pid" 2>/dev/null; done
    if [ -n "${KEEP:-}" ]; then echo "# kept: $work"; else rm -rf "$work"; fi
}
trap stop_stack EXIT
