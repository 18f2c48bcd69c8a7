# PostgreSQL as a process, and two replicas on it.

# start_postgresql [OPTIONS]: starts a PostgreSQL for this run (Tests/scenarios/support/postgresql); POSTGRESQL is its URL
start_postgresql() {
    rm -f "$work/postgresql.in" "$work/postgresql.out"
    mkfifo "$work/postgresql.in"
    "$root/Tests/scenarios/support/postgresql" "$@" <"$work/postgresql.in" >"$work/postgresql.out" 2>"$work/postgresql.log" &
    pids+=($!)
    exec {postgresql_input}>"$work/postgresql.in"
    wait_for 180 grep -q '^ready ' "$work/postgresql.out" || give_up "PostgreSQL"
    local word port standby_port
    read -r word port POSTGRESQL_PID POSTGRESQL_FOLDER POOLER_PORT standby_port <"$work/postgresql.out"
    POSTGRESQL="postgresql://coatcheck@127.0.0.1:$port/postgres"
    [ -z "$standby_port" ] || POSTGRESQL="postgresql://coatcheck@127.0.0.1:$port,127.0.0.1:$standby_port/postgres"
    POOLER="postgresql://coatcheck@127.0.0.1:${POOLER_PORT:-0}/postgres"
}

# postgresql COMMAND: sends a command to the server that was started last (Tests/scenarios/support/postgresql lists them)
postgresql() {
    local before
    before=$(wc -l <"$work/postgresql.out")
    echo "$1" >&"$postgresql_input"
    wait_for 60 eval '[ "$(wc -l <"$work/postgresql.out")" -gt '"$before"' ]'
    [[ $(tail -1 "$work/postgresql.out") == "done $1 "* ]] || give_up "PostgreSQL's $1"
}

# start_bound_replicas: starts two replicas on one PostgreSQL, with clients whose sessions belong to a key of the device. Apps
# call them in turn at BROKER, through the proxy that records requests and their evidence (evidence_proxy.py). BROKER_PORT is
# the first replica's.
start_bound_replicas() {
    local ports=("$(free_port)" "$(free_port)") proxy
    proxy=$(free_port)
    start_sandbox
    start_postgresql
    CLOSED_PORT=$(free_port)
    BROKER="http://127.0.0.1:$proxy"
    sed -f "$here/bound-clients.sed" "$here/coatcheck.yaml" | sed "s|url: sqlite:.*|url: $POSTGRESQL|" >"$work/template.yaml"
    "$COATCHECK" keys generate --file "$work/keys.json" >"$work/keys.log" 2>&1 || give_up "keys generate"
    local port
    for port in "${ports[@]}"; do
        BROKER_PORT=$port MANAGEMENT_PORT=$(free_port)
        MANAGEMENT="http://127.0.0.1:$MANAGEMENT_PORT"
        configure "$work/template.yaml"
        mv "$work/coatcheck.yaml" "$work/replica-$port.yaml"
        "$COATCHECK" serve --config "$work/replica-$port.yaml" >>"$work/broker-$port.log" 2>&1 &
        pids+=($!)
        wait_for 60 curl -sf "$MANAGEMENT/readyz" || give_up "a replica"
    done
    BROKER_PORT=${ports[0]}
    mkfifo "$work/evidence.input"
    python3 "$here/evidence_proxy.py" "${ports[@]}" --port "$proxy" <>"$work/evidence.input" >"$work/evidence.port" 2>"$work/evidence.log" &
    pids+=($!)
    wait_for 20 test -s "$work/evidence.port" || give_up "the network before the replicas"
    device a-phone
}
