#!/usr/bin/env bash
# Checks the images that scripts/prove-container has built, and runs them with their own user, entry point and command. Only the
# volume is writable. Instead of a container, there is a chroot in a mount namespace, so that only the image's files exist.
#   container.sh FOLDER-OF-PROVE-CONTAINER FOLDER-WITH-THE-BINARIES
source "$(dirname "$0")/../support/lib.bash"
place=$1
bin=$2
export BUILDAH_ISOLATION=chroot
bh() { buildah --storage-driver "$DRIVER" --root "$place/storage" --runroot "$place/runroot" "$@"; }
containers=()
trap 'stop_stack; for c in "${containers[@]}"; do bh rm "$c" >/dev/null 2>&1; done' EXIT

step "The images"
declare -A tree
for name in coatcheck sandbox; do
    container=$(bh from --pull-never "coatcheck-$name") || give_up "the image of $name"
    containers+=("$container")
    tree[$name]=$(bh mount "$container")
    bh inspect --type image "coatcheck-$name" >"$work/$name.json"
    same 10001 "$(jq -r .Docker.config.User "$work/$name.json")" "image of $name → runs as the unprivileged user 10001"
    kib=$(du -skx "${tree[$name]}" | cut -f1)
    packed=$(tar -C "${tree[$name]}" -c . | gzip -6 | wc -c)
    echo "# $name: $((kib / 1024)) MiB unpacked, $((packed / 1048576)) MiB as a compressed archive; the largest parts (MiB):"
    (cd "${tree[$name]}" && du -mx --max-depth=4 . | sort -rn | grep -E '/(coatcheck[a-z-]*|x86_64-linux-gnu|dpkg|locale|zoneinfo|perl-base|doc|info)$' | head -6; du -m usr/local/bin/*) | sed 's/^/#   /'
    same 1 "$((packed < 150 * 1000000))" "image of $name → its compressed archive has less than 150 MB"
done
bin_name() { [ "$1" = sandbox ] && echo coatcheck-sandbox || echo coatcheck; }
for name in coatcheck sandbox; do
    cmp -s "$bin/$(bin_name "$name")" "${tree[$name]}/usr/local/bin/$(bin_name "$name")"
    same 0 $? "image of $name → contains the tested binary"
    same "" "$(chroot "${tree[$name]}" ldd "/usr/local/bin/$(bin_name "$name")" | grep 'not found')" "image of $name → has every library that the binary needs"
    same "" "$(cd "${tree[$name]}" && ls usr/bin/curl usr/bin/swift src 2>/dev/null)" "image of $name → contains no curl, toolchain or sources"
done
same 1 "$(chroot "${tree[coatcheck]}" dpkg-query -W libpq5 2>/dev/null | wc -l)" "broker's image → contains libpq5"

step "The images run with their own entry point and command"
group=$(awk -F: '$1 == "coatcheck" { print $4 }' "${tree[coatcheck]}/etc/passwd")
mkdir -p "$work/etc" "$work/volume"
chmod 755 "$work" "$work/etc"
chown "10001:$group" "$work/volume"
chmod 700 "$work/volume"
# inside NAME VOLUME COMMAND…: runs the command in the image as its user; only the volume and /tmp are writable
inside() {
    local root=${tree[$1]} volume=$2
    shift 2
    unshare -m bash -ec '
        root=$1 volume=$2 config=$3 group=$4
        shift 4
        mount --bind "$root" "$root"
        mount --bind "$volume" "$root/var/lib/coatcheck"
        mount --bind "$config" "$root/etc/coatcheck"
        mount -t proc proc "$root/proc"
        mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
        mount -o remount,ro,bind "$root/etc/coatcheck"
        mount -o remount,ro,bind "$root"
        exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
            setpriv --bounding-set=-all,+setuid,+setgid,+sys_chroot,+setpcap --no-new-privs \
            chroot --userspec="10001:$group" --groups= "$root" sh -c "cd /var/lib/coatcheck && exec \"\$@\"" sh "$@"' \
        _ "$root" "$volume" "$work/etc" "$group" "$@"
}
entry() { jq -r '.Docker.config | ((.Entrypoint // []) + (.Cmd // []))[]' "$work/$1.json"; }
same "coatcheck serve --config /etc/coatcheck/coatcheck.yaml" "$(entry coatcheck | tr '\n' ' ' | sed 's/ $//')" "broker's image → has the broker's entry point and command"
same "coatcheck-sandbox --listen 127.0.0.1:8089" "$(entry sandbox | tr '\n' ' ' | sed 's/ $//')" "sandbox's image → has the sandbox's entry point and command"
inside coatcheck "$work/volume" sh -c 'touch /usr/local/bin/x' 2>/dev/null
same 1 "$(($? != 0))" "image's user writes to a folder outside the volume → refused"
sandbox_port=$(free_port)
SANDBOX="http://127.0.0.1:$sandbox_port"
mkdir "$work/none"
inside sandbox "$work/none" coatcheck-sandbox --listen "127.0.0.1:$sandbox_port" >"$work/sandbox.log" 2>&1 &
pids+=($!)
wait_for 30 curl -sf "$SANDBOX/_sandbox/health" || give_up "the sandbox's image"
ok "sandbox's image runs its command → the sandbox answers"
BROKER_PORT=$(free_port)
MANAGEMENT_PORT=$(free_port)
BROKER="http://127.0.0.1:$BROKER_PORT"
MANAGEMENT="http://127.0.0.1:$MANAGEMENT_PORT"
# The configuration of deploy/compose.yaml, on free ports.
sed -e "s|0.0.0.0:8080|0.0.0.0:$BROKER_PORT|" -e "s|0.0.0.0:9090|0.0.0.0:$MANAGEMENT_PORT|" -e "s|http://127.0.0.1:8089|$SANDBOX|" \
    -e "s|http://127.0.0.1:8080|$BROKER|" "$root/deploy/compose.coatcheck.yaml" >"$work/etc/coatcheck.yaml"
chmod 644 "$work/etc/coatcheck.yaml"
inside coatcheck "$work/volume" coatcheck keys generate --file keys.json >"$work/keys.log" 2>&1
same "600 10001" "$(stat -c '%a %u' "$work/volume/keys.json")" "keys generate in the broker's image → a private file in the volume"
health() { (eval "inside coatcheck \"$work/volume\" $(jq -r '.Docker.config.Healthcheck.Test[1:] | map(@sh) | join(" ")' "$work/coatcheck.json")"); }
health >"$work/health.log" 2>&1
same 1 $? "image's health check runs before the broker has started → exit 1: $(cat "$work/health.log")"
mapfile -t command < <(entry coatcheck)
inside coatcheck "$work/volume" "${command[@]}" >"$work/broker.log" 2>&1 &
broker_pid=$!
wait_for 40 curl -sf "$MANAGEMENT/readyz" || give_up "the broker's image"
health >"$work/health.log" 2>&1
same "0 ready" "$? $(cat "$work/health.log")" "broker runs in its container → the image's health check reports ready"
served=$(pgrep -P "$broker_pid" | head -1)
served=${served:-$broker_pid}
same "10001 10001 10001 10001" "$(awk '$1 == "Uid:" { print $2, $3, $4, $5 }' "/proc/$served/status")" "broker's process in its container → runs as the image's user"
same 0000000000000000 "$(awk '$1 == "CapEff:" { print $2 }' "/proc/$served/status")" "broker's process in its container → has no capabilities"
device phone
start_login oidc ios
browser "$AUTHORIZATION_URL" ana
forward "$CALLBACK"
expect_status 201 "sign-in at a broker in its container → a session"
request GET /v1/session
expect_status 200 "session read at a broker in its container → 200"
request GET /v1/relay/api/private/echo
expect_status 200 "relay call at a broker in its container → 200"
kill -TERM "$served"
wait "$broker_pid"
same 0 $? "SIGTERM to a broker in its container → exit status 0"
broker_pid=
matches '"message":"stopped"' "$(tail -1 "$work/broker.log")" "SIGTERM to a broker in its container → the message of the last log line is “stopped”"
mapfile -t command < <(entry coatcheck)
inside coatcheck "$work/volume" "${command[@]}" >>"$work/broker.log" 2>&1 &
broker_pid=$!
wait_for 40 curl -sf "$MANAGEMENT/readyz" || give_up "the broker's image again"
request GET /v1/session
expect_status 200 "broker's image is started again with the same volume → the session is alive"
served=$(pgrep -P "$broker_pid" | head -1)
kill -TERM "${served:-$broker_pid}"
wait "$broker_pid"
broker_pid=
finish
