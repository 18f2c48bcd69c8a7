#!/usr/bin/env bash
# Restarts under load. If systemd's socket units hand the sockets over, every connection is accepted. Otherwise, requests get 503
# `shutting_down` while the former process drains, and then connections are refused for a moment.
source "$(dirname "$0")/../support/lib.bash"
sed 's|^  drain_delay: .*|  drain_delay: 500ms|' "$here/coatcheck.yaml" >"$work/stack.yaml"
start_stack "$work/stack.yaml"
device phone
sign_in oidc ios ana
expect_status 201 "sign-in before the restarts → a session"
session="coatcheck=$(cookie coatcheck)"

# serve_with VARIABLE…: runs `serve`, which must refuse to start; SAID is the last line of its log
serve_with() {
    local status
    timeout 60 env "$@" >"$work/serve.out" 2>&1
    status=$?
    SAID=$(tail -1 "$work/serve.out")
    [ "$status" -eq 1 ] || SAID="status $status: $SAID"
}
# says TEXT SENTENCE: checks that the start was refused, with this text in SAID
says() { matches "^\{.*\"cannot start\".*$1" "$SAID" "$2"; }

step "1. The broker refuses to start if sockets are handed over wrongly, and logs the reason"
serve="$COATCHECK serve --config $work/coatcheck.yaml"
as_me='export LISTEN_PID=$$; exec "$@"'
serve_with LISTEN_FDS=1 LISTEN_PID=1 $serve
says 'LISTEN_PID is 1, and this process is' "start with LISTEN_PID of another process → refused"
serve_with LISTEN_FDS=1 $serve
says 'LISTEN_PID is not' "start with LISTEN_FDS but without LISTEN_PID → refused"
serve_with LISTEN_PID=1 $serve
says 'LISTEN_FDS is not' "start with LISTEN_PID but without LISTEN_FDS → refused"
serve_with LISTEN_FDS=-1 bash -c "$as_me" _ $serve
says 'LISTEN_FDS is no number: `-1`' "start with LISTEN_FDS that is not a number → refused"
serve_with LISTEN_FDS=4 bash -c "$as_me" _ $serve
says 'LISTEN_FDS is 4: there are 3 listeners' "start with more passed sockets than listeners → refused"
serve_with LISTEN_FDS=1 LISTEN_FDNAMES=metrics bash -c "$as_me" _ $serve
says 'metrics` is no listener' "start with an unknown name in LISTEN_FDNAMES → refused"
serve_with LISTEN_FDS=2 LISTEN_FDNAMES=public bash -c "$as_me" _ $serve
says 'LISTEN_FDNAMES has 1 names' "start with fewer names in LISTEN_FDNAMES than sockets → refused"
serve_with LISTEN_FDS=2 bash -c "$as_me" _ $serve
says 'two sockets for the public listener' "start with two passed sockets without names → refused"
serve_with LISTEN_FDS=1 bash -c "exec 3<&-; $as_me" _ $serve
says 'descriptor 3 is not (open|a socket)' "start with a closed descriptor in place of a passed socket → refused"
serve_with LISTEN_FDS=1 bash -c "exec 3</dev/null; $as_me" _ $serve
says 'descriptor 3 is not a socket' "start with the descriptor of a file in place of a passed socket → refused"
cat >"$work/bound.py" <<'PYTHON'
import os, socket, sys
kind = {"udp": socket.SOCK_DGRAM}.get(sys.argv[1], socket.SOCK_STREAM)
made = socket.socket(socket.AF_UNIX if sys.argv[1] == "unix" else socket.AF_INET, kind)
if sys.argv[1] == "unix":
    made.bind(sys.argv[2] + "/socket")
    made.listen()
else:
    made.bind(("127.0.0.1", 0))
if sys.argv[1] == "listening":
    made.listen()
os.dup2(os.dup2(made.fileno(), 200), 3, inheritable=True)
os.environ["LISTEN_PID"] = str(os.getpid())
os.execv(sys.argv[3], sys.argv[3:])
PYTHON
serve_with LISTEN_FDS=1 python3 "$work/bound.py" udp "$work" $serve
says 'descriptor 3 is not a TCP socket' "start with a passed UDP socket → refused"
serve_with LISTEN_FDS=1 python3 "$work/bound.py" unix "$work" $serve
says 'descriptor 3 is not a TCP socket' "start with a passed Unix socket → refused"
serve_with LISTEN_FDS=1 python3 "$work/bound.py" bound "$work" $serve
says 'descriptor 3 does not listen' "start with a passed socket that does not listen → refused"

# hammer_begin: starts clients that send requests until hammer_end; hammer_end leaves their results in $work/seen
hammer_begin() {
    rm -f "$work/enough" "$work/hammering"
    python3 "$here/hammer.py" "$BROKER_PORT" /v1/session "$session" "$work" >"$work/seen" &
    hammer=$!
    wait_for 60 test -e "$work/hammering"
}
hammer_end() {
    touch "$work/enough"
    wait "$hammer"
    echo "# $(cat "$work/seen")"
}
seen() { jq -r ".$1 // 0" "$work/seen"; }
under_way() { shows '^coatcheck_relay_calls_under_way\{upstream="api"\} 1$'; }
slow_call() {
    curl -s -m 30 -o /dev/null -w '%{http_code}' -b "$session" "$BROKER/v1/relay/api/slow?ms=5000" >"$work/slow.status" &
    slow=$!
    wait_for 4 under_way
    same 0 $? "relay call of five seconds → in progress"
}
serves() { curl -sf -m 2 -o /dev/null -b "$session" "$BROKER/v1/session"; }

step "2. The broker opens its sockets itself: the next process waits for the lock while the former one drains"
hammer_begin
first=$broker_pid
"$COATCHECK" serve --config "$work/coatcheck.yaml" >"$work/second.log" 2>&1 &
broker_pid=$!
wait_for 60 grep -q '"waiting","detail":"another process has' "$work/second.log"
same 0 $? "second process starts while the first one runs → the second logs that it waits for the lock"
slow_call
kill -TERM "$first"
wait "$first"
same 0 $? "TERM to the first process while the second one waits → exit status 0"
wait "$slow"
same 200 "$(cat "$work/slow.status")" "relay call in progress when the first process gets TERM → 200"
wait_for 60 serves
same 0 $? "first process has ended → the second process serves"
hammer_end
[ "$(seen 'answers["503"]')" -gt 0 ]; same 0 $? "requests while the first of two processes drained → 503 shutting_down ($(seen 'answers["503"]') times)"
same "200 503" "$(jq -r '.answers | keys | map(select(test("^[0-9]"))) | join(" ")' "$work/seen")" "requests during the restart of a broker that opens its own sockets → get only 200 and 503"
[ "$(seen refused_ms)" -le 2000 ]; same 0 $? "requests during a restart, while the second process waits for the lock → refused or reset for $(seen refused_ms) ms, at most 2000 (0.2 s on a quiet machine)"

step "3. The broker opens its sockets itself: it is stopped and then started, as a service manager does"
hammer_begin
kill_broker TERM
start_broker
wait_for 60 serves
hammer_end
[ "$(seen refused_ms)" -le 3000 ]; same 0 $? "requests while the broker is stopped and then started again → refused or reset for $(seen refused_ms) ms, at most 3000 (0.2 s on a quiet machine)"

step "4. Handed-over sockets: every connection is accepted"
kill_broker TERM
mkfifo "$work/manager.in"
python3 "$here/hand_over.py" "public:$BROKER_PORT" "management:$MANAGEMENT_PORT" -- "$COATCHECK" serve --config "$work/coatcheck.yaml" \
    <"$work/manager.in" >"$work/manager.out" 2>"$work/handed.log" &
pids+=($!)
exec {manager}>"$work/manager.in"
# manager_does WORD: sends a command to the parent; SAID is its output
manager_does() {
    local before
    before=$(wc -l <"$work/manager.out")
    echo "$1" >&"$manager"
    wait_for 60 eval '[ "$(wc -l <"$work/manager.out")" -gt '"$before"' ]'
    SAID=$(tail -1 "$work/manager.out")
}
manager_does start
first=$SAID
wait_for 60 serves
same 0 $? "service manager passes its sockets at the start → the broker serves on these sockets"
wait_for 10 grep -qF '"listening","listener":"public","port":'"$BROKER_PORT"',"from":"handed over"' "$work/handed.log"
same 0 $? "service manager passes its sockets at the start → the broker logs “handed over”"
for round in 1 2; do
    hammer_begin
    slow_call
    kill -TERM "$first"
    manager_does wait
    same 0 "$SAID" "TERM to a process with passed sockets → exit status 0"
    manager_does start
    first=$SAID
    wait_for 60 serves
    same 0 $? "restart with passed sockets → the next process serves requests"
    wait "$slow"
    same 200 "$(cat "$work/slow.status")" "relay call in progress at a restart with passed sockets → 200"
    hammer_end
    same "0 0" "$(seen refused) $(seen broken)" "requests during a restart with passed sockets → no refused or broken connection"
    same 200 "$(jq -r '.answers | keys | join(" ")' "$work/seen")" "requests during a restart with passed sockets → all get 200, the slowest after $(seen slowest_ms) ms"
done

step "5. The next process is started while the former one drains"
hammer_begin
kill -TERM "$first"
before=$first
manager_does start
first=$SAID
ended() { ! kill -0 "$before" 2>/dev/null || [ "$(ps -o stat= -p "$before" | cut -c1)" = Z ]; }
wait_for 60 ended
wait_for 60 serves
hammer_end
same "0 0" "$(seen refused) $(seen broken)" "requests at a restart with passed sockets, while the former and the next process overlap → no refused or broken connection"
kill -TERM "$first"
manager_does wait

finish
