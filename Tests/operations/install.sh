#!/usr/bin/env bash
# As a new operator would: from an archive of `make dist` to a broker behind nginx under systemd on a clean Debian, by the very
# commands of docs/deployment.md. The Debian is booted by systemd-nspawn on this machine's network, with the cgroups of version
# two that systemd wants. As root, with debootstrap and Debian's systemd-container.
#   install.sh ARCHIVE
source "$(dirname "$0")/../curl/lib.bash"
archive=$(realpath "$1")
clean=$root/.build/container/debian
for program in systemd-nspawn nsenter; do
    command -v "$program" >/dev/null || { echo "Bail out! $program is missing: apt-get install systemd-container"; exit 1; }
done
[ -e "$root/.build/container/debian.done" ] || { echo "Bail out! A clean Debian is missing: scripts/prove-container build makes it"; exit 1; }
place=$(mktemp -d /tmp/coatcheck-install.XXXXXX)
system=$place/system
halt() {
    [ -z "${init:-}" ] || kill -s RTMIN+4 "$init"
    wait "${nspawn:-}" 2>/dev/null
    stop_stack
    rm -rf --one-file-system "$place"
}
trap halt EXIT
mkdir "$system"
cp -a "$clean/." "$system"
cp /etc/resolv.conf "$system/etc/" 2>/dev/null
[ ! -e /etc/apt/sources.list.d/debian.sources ] || cp /etc/apt/sources.list.d/debian.sources "$system/etc/apt/sources.list.d/"
# Debian's minimum has no systemd; a Debian that somebody installed has.
printf '#!/bin/sh\nexit 101\n' >"$system/usr/sbin/policy-rc.d"
chmod 755 "$system/usr/sbin/policy-rc.d"
chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive sh -c \
    'apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd systemd-sysv dbus' >"$work/prepare.log" 2>&1 || give_up "the clean Debian"
rm "$system/usr/sbin/policy-rc.d"
# The network is this machine's: Debian's own page shall not want port 80.
mkdir -p "$system/etc/nginx/sites-enabled"
: >"$system/etc/nginx/sites-enabled/default"
# shellcheck disable=SC2016
unshare -m bash -c '
    if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; fi
    exec systemd-nspawn --quiet --boot --register=no --keep-unit --link-journal=no --resolv-conf=off --console=pipe --machine="$1" --directory="$2"' \
    _ "coatcheck-$$" "$system" </dev/null >"$work/nspawn.log" 2>&1 &
nspawn=$!
booted() { init=$(pgrep -P "$nspawn" -x systemd) && in_system systemctl is-system-running 2>/dev/null | grep -qE 'running|degraded'; }
in_system() { nsenter -t "$init" -a env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root "$@"; }
wait_for 60 booted || give_up "systemd"
same systemd "$(in_system cat /proc/1/comm)" "systemd is the first process"
start_sandbox
NGINX_PORT=$(free_port)
BROKER_PORT=$(free_port)
MANAGEMENT_PORT=$(free_port)

step "The archive"
begin=$SECONDS
tar -C "$system/root" -xf "$archive"
folder=$(basename "$(ls -d "$system"/root/coatcheck-*)")
same 2 "$(ls "$system/root/$folder/bin" | wc -l)" "has the programs"
same CycloneDX "$(jq -r .bomFormat "$system/root/$folder/sbom.cdx.json")" "and says what they were made of: $(jq '.components | length' "$system/root/$folder/sbom.cdx.json") parts"
cat >"$system/root/$folder/coatcheck.yaml" <<TEXT
server:
  listen: 127.0.0.1:$BROKER_PORT
  public_url: http://localhost:$NGINX_PORT
  trusted_proxies: [127.0.0.1]
management:
  listen: 127.0.0.1:$MANAGEMENT_PORT
store:
  url: sqlite:/var/lib/coatcheck/data/coatcheck.db
keys:
  file: /var/lib/coatcheck/keys.json
providers:
  oidc:
    kind: oidc
    issuer: $SANDBOX/oidc
    clients:
      ios: {client_id: ios-app, auth: none, redirect_uris: ["com.example.app:/cb"], scope: openid email profile offline_access}
TEXT

step "The commands of the document"
awk '/Tests\/operations\/install.sh runs this block/ { found = 1; next } found && /^```sh/ { inside = 1; next } inside && /^```/ { exit } inside' \
    "$root/docs/deployment.md" >"$work/commands"
same 1 "$(($(wc -l <"$work/commands") > 10))" "there are some"
# Free ports, and an nginx that listens on nothing else.
sed -i "s/127.0.0.1:8080/127.0.0.1:$BROKER_PORT/" "$system/root/$folder/deploy/systemd/coatcheck.socket"
sed -i -e "s/127.0.0.1:8080/127.0.0.1:$BROKER_PORT/" -e "s/|@LISTEN@|80|/|@LISTEN@|127.0.0.1:$NGINX_PORT|/" -e 's/auth.example.com/localhost/' "$work/commands"
cp "$work/commands" "$system/root/$folder/commands.sh"
in_system bash -exc "cd /root/$folder; . ./commands.sh" >"$work/install.log" 2>&1
same 0 $? "all of them work: $((SECONDS - begin)) s from the archive to an answer"
[ "$failed" -eq 0 ] || tail -20 "$work/install.log" | sed 's/^/# /'
BROKER="http://localhost:$NGINX_PORT"
device phone
wait_for 20 curl -s -o /dev/null "$BROKER/"
sign_in oidc ios ana
expect_status 201 "a login through nginx"
echo "# $((SECONDS - begin)) s from the archive to the first login"
request GET /v1/session
expect_status 200 "and its session"
same "700 600" "$(stat -c %a "$system/var/lib/coatcheck" "$system/var/lib/coatcheck/keys.json" | tr '\n' ' ' | sed 's/ $//')" "nobody else reads the store and the keys"

step "Under systemd"
main() { in_system systemctl show -P MainPID coatcheck.service; }
field() { in_system sed -n "s/^$1:[[:space:]]*//p" "/proc/$(main)/status"; }
user=$(in_system id -u coatcheck)
same "$user $user $user $user" "$(field Uid | tr '\t' ' ')" "it runs as its user"
same "0000000000000000 1 2" "$(field CapEff) $(field NoNewPrivs) $(field Seccomp)" "without capabilities, without new ones, with its list of system calls"
in_system nsenter -t "$(main)" -m touch /usr/local/x 2>/dev/null
same 1 "$(($? != 0))" "the system is read-only to it"
in_system systemctl reload coatcheck.service || in_system journalctl -u coatcheck.service -o cat -n 5 | sed "s/^/# /"
said() { in_system journalctl -u coatcheck.service -o cat | grep -qF "\"message\":\"$1\""; }
wait_for 30 said "configuration unchanged"
same 0 $? "reload is a HUP that it hears"
before=$(main)
: >"$work/codes"
while [ ! -e "$work/enough" ]; do curl -s -m 60 -o /dev/null -w '%{http_code}\n' -b "$JAR" "$BROKER/v1/session" >>"$work/codes"; done &
asking=$!
in_system systemctl restart coatcheck.service
wait_for 60 eval '[ "$(main)" != "$before" ] && in_system coatcheck health --config /etc/coatcheck/coatcheck.yaml'
touch "$work/enough"
wait "$asking"
same "200" "$(sort -u "$work/codes" | tr '\n' ' ' | sed 's/ $//')" "over a restart each of $(wc -l <"$work/codes") requests is answered"
in_system systemctl stop coatcheck.socket coatcheck.service
same "success" "$(in_system systemctl show -P Result coatcheck.service)" "it stops by itself in time"
said stopped
same 0 $? "and says so in the journal"
request GET /v1/session
expect_problem 503 shutting_down "while it is away nginx says so"
finish
