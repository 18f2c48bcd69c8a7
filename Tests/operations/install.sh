#!/usr/bin/env bash
# Runs the commands of docs/operate/deployment.md as a new operator would: from an archive of `make dist` to a broker behind nginx
# under systemd, on a clean Debian. systemd-nspawn boots the Debian on this machine's network. Run it as root, with debootstrap
# and Debian's systemd-container.
#   install.sh ARCHIVE
source "$(dirname "$0")/../scenarios/support/lib.bash"
source "$(dirname "$0")/booted.bash"
archive=$(realpath "$1")
missing=$("$root/scripts/debian-root" able) || { echo "Bail out! $missing: apt-get install systemd-container debootstrap"; exit 1; }
clean=$("$root/scripts/debian-root" bootable) || give_up "the clean Debian"
place=$(mktemp -d /tmp/coatcheck-install.XXXXXX)
system=$place/system
trap 'halt_system; stop_stack; rm -rf --one-file-system "$place"' EXIT
cp -a --reflink=auto "$clean" "$system"
# The booted Debian shares this machine's network, so its default nginx site must not use port 80.
mkdir -p "$system/etc/nginx/sites-enabled"
: >"$system/etc/nginx/sites-enabled/default"
boot "$system"
same systemd "$(in_system cat /proc/1/comm)" "booted Debian → systemd is the first process"
start_sandbox
NGINX_PORT=$(free_port)
BROKER_PORT=$(free_port)
MANAGEMENT_PORT=$(free_port)

step "The archive"
begin=$SECONDS
tar -C "$system/root" -xf "$archive"
folder=$(basename "$(ls -d "$system"/root/coatcheck-*)")
same 2 "$(ls "$system/root/$folder/bin" | wc -l)" "release archive → contains both programs"
same CycloneDX "$(jq -r .bomFormat "$system/root/$folder/sbom.cdx.json")" "release archive → has a bill of materials with $(jq '.components | length' "$system/root/$folder/sbom.cdx.json") parts"
(umask 077 && random_token >"$system/root/coatcheck.token")
cat >"$system/root/$folder/coatcheck.yaml" <<TEXT
server:
  listen: 127.0.0.1:$BROKER_PORT
  public_url: http://localhost:$NGINX_PORT
  trusted_proxies: [127.0.0.1]
management:
  listen: 127.0.0.1:$MANAGEMENT_PORT
  admin_tokens:
    - {name: keeper, sha256: "$("$COATCHECK" hash-secret <"$system/root/coatcheck.token")", may: [maintain]}
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
    "$root/docs/operate/deployment.md" >"$work/commands"
same 1 "$(($(wc -l <"$work/commands") > 10))" "block of commands in docs/operate/deployment.md → has more than ten lines"
# Use free ports, and let nginx listen only on its own port.
sed -i "s/127.0.0.1:8080/127.0.0.1:$BROKER_PORT/" "$system/root/$folder/deploy/systemd/coatcheck.socket"
sed -i -e "s/127.0.0.1:8080/127.0.0.1:$BROKER_PORT/" -e "s/|@LISTEN@|80|/|@LISTEN@|127.0.0.1:$NGINX_PORT|/" -e 's/auth.example.com/localhost/' "$work/commands"
cp "$work/commands" "$system/root/$folder/commands.sh"
in_system bash -exc "cd /root/$folder; . ./commands.sh" >"$work/install.log" 2>&1
same 0 $? "commands of docs/operate/deployment.md → exit 0, $((SECONDS - begin)) s from the archive to an answer"
[ "$failed" -eq 0 ] || tail -20 "$work/install.log" | sed 's/^/# /'
BROKER="http://localhost:$NGINX_PORT"
device phone
wait_for 20 curl -s -o /dev/null "$BROKER/"
sign_in oidc ios ana
expect_status 201 "sign-in through nginx → a session"
echo "# $((SECONDS - begin)) s from the archive to the first login"
request GET /v1/session
expect_status 200 "session read through nginx → 200"
same "700 600" "$(stat -c %a "$system/var/lib/coatcheck" "$system/var/lib/coatcheck/keys.json" | tr '\n' ' ' | sed 's/ $//')" "installed store and keys → only the broker can read them"

step "Under systemd"
main() { in_system systemctl show -P MainPID coatcheck.service; }
field() { in_system sed -n "s/^$1:[[:space:]]*//p" "/proc/$(main)/status"; }
user=$(in_system id -u coatcheck)
same "$user $user $user $user" "$(field Uid | tr '\t' ' ')" "broker's process → runs as the user coatcheck"
same "0000000000000000 1 2" "$(field CapEff) $(field NoNewPrivs) $(field Seccomp)" "broker's process → has no capabilities, no new privileges, and a seccomp filter"
in_system nsenter -t "$(main)" -m touch /usr/local/x 2>/dev/null
same 1 "$(($? != 0))" "broker's process → sees the system as read-only"
in_system systemctl reload coatcheck.service || in_system journalctl -u coatcheck.service -o cat -n 5 | sed "s/^/# /"
wait_for 30 journal_says "configuration unchanged"
same 0 $? "systemctl reload → the broker reads its configuration"
in_system install -d -m 0700 -o coatcheck -g coatcheck /backups
in_system mkdir -p /etc/systemd/system/coatcheck.service.d
printf '[Service]\nReadWritePaths=/backups\n' >"$system/etc/systemd/system/coatcheck.service.d/backups.conf"
in_system systemctl daemon-reload
before=$(main)
: >"$work/codes"
while [ ! -e "$work/enough" ]; do curl -s -m 60 -o /dev/null -w '%{http_code}\n' -b "$JAR" "$BROKER/v1/session" >>"$work/codes"; done &
asking=$!
in_system systemctl restart coatcheck.service
wait_for 60 eval '[ "$(main)" != "$before" ] && in_system coatcheck health --config /etc/coatcheck/coatcheck.yaml'
touch "$work/enough"
wait "$asking"
same "200" "$(sort -u "$work/codes" | tr '\n' ' ' | sed 's/ $//')" "systemctl restart while requests arrive → each of $(wc -l <"$work/codes") requests gets 200"
in_system coatcheck backup /backups/coatcheck.db --config /etc/coatcheck/coatcheck.yaml --token-file /root/coatcheck.token >"$work/backup.out" 2>&1
same "0 coatcheck 600" "$? $(in_system stat -c '%U %a' /backups/coatcheck.db 2>/dev/null)" "backup into a folder that a drop-in opened → a private file"
in_system systemctl stop coatcheck.socket coatcheck.service
same "success" "$(in_system systemctl show -P Result coatcheck.service)" "systemctl stop of the broker's units → the service's result is success"
journal_says stopped
same 0 $? "systemctl stop of the broker's units → the journal has the broker's message “stopped”"
request GET /v1/session
expect_problem 503 shutting_down "request through nginx while the broker is stopped"
finish
