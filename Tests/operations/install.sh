#!/usr/bin/env bash
# As a new operator would: from an archive of `make dist` to a broker behind nginx on a clean Debian, by the very commands of
# docs/deployment.md. No systemd runs in a chroot: a `systemctl` of this script's own starts what the units say, by their
# ExecStartPre and ExecStart lines and as their user. As root, with debootstrap.
#   install.sh ARCHIVE
source "$(dirname "$0")/../curl/lib.bash"
archive=$(realpath "$1")
clean=$root/.build/container/debian
place=$(mktemp -d /tmp/coatcheck-install.XXXXXX)
trap 'stop_stack; for p in $(cat "$place"/run/*.pid 2>/dev/null); do kill "$p" 2>/dev/null; done; sync; umount "$place/proc" "$place/dev" 2>/dev/null; rm -rf --one-file-system "$place"' EXIT
[ -e "$root/.build/container/debian.done" ] || give_up "a clean Debian (scripts/prove-container makes it)"
cp -a "$clean/." "$place/"
chmod 755 "$place"
cp /etc/resolv.conf "$place/etc/" 2>/dev/null
[ ! -e /etc/apt/sources.list.d/debian.sources ] || cp /etc/apt/sources.list.d/debian.sources "$place/etc/apt/sources.list.d/"
mount -t proc proc "$place/proc"
mount --bind /dev "$place/dev"
printf '#!/bin/sh\nexit 101\n' >"$place/usr/sbin/policy-rc.d"
chmod 755 "$place/usr/sbin/policy-rc.d"
# Debian's minimum has no systemd; a Debian that somebody installed has.
in_place() { chroot "$place" env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive HOME=/root "$@"; }
in_place bash -c 'apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd' >"$work/prepare.log" 2>&1 || give_up "the clean Debian"
start_sandbox
NGINX_PORT=$(free_port)
BROKER_PORT=$(free_port)
MANAGEMENT_PORT=$(free_port)
cat >"$place/usr/local/sbin/systemctl" <<'TEXT'
#!/bin/bash
set -e
unit=/etc/systemd/system/coatcheck.service
value() { sed -n "s/^$1=//p" "$unit"; }
case "$1 $2" in
    "enable --now")
        as="setpriv --reuid $(value User) --regid $(value Group) --clear-groups"
        cd "$(value WorkingDirectory)"
        $as $(value ExecStartPre)
        setsid $as $(value ExecStart) </dev/null >/var/log/coatcheck.log 2>&1 &
        echo $! >/run/coatcheck.pid
        for _ in $(seq 600); do coatcheck health --config /etc/coatcheck/coatcheck.yaml >/dev/null 2>&1 && exit 0; read -rt 0.1 <> <(:) || true; done
        exit 1 ;;
    "reload nginx") nginx -t && setsid nginx </dev/null >/var/log/nginx.start 2>&1 ;;
esac
TEXT
chmod 755 "$place/usr/local/sbin/systemctl"

step "The archive"
begin=$SECONDS
tar -C "$place/root" -xf "$archive"
folder=$(basename "$(ls -d "$place"/root/coatcheck-*)")
same 2 "$(ls "$place/root/$folder/bin" | wc -l)" "has the programs"
same CycloneDX "$(jq -r .bomFormat "$place/root/$folder/sbom.cdx.json")" "and says what they were made of: $(jq '.components | length' "$place/root/$folder/sbom.cdx.json") parts"
cat >"$place/root/$folder/coatcheck.yaml" <<TEXT
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
sed -i -e "s/127.0.0.1:8080/127.0.0.1:$BROKER_PORT/" -e "s/|@LISTEN@|80|/|@LISTEN@|127.0.0.1:$NGINX_PORT|/" -e 's/auth.example.com/localhost/' "$work/commands"
cp "$work/commands" "$place/root/$folder/commands.sh"
in_place bash -exc "cd /root/$folder; rm -f /etc/nginx/sites-enabled/default; . ./commands.sh" >"$work/install.log" 2>&1
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
same "700 600" "$(stat -c %a "$place/var/lib/coatcheck" "$place/var/lib/coatcheck/keys.json" | tr '\n' ' ' | sed 's/ $//')" "nobody else reads the store and the keys"
same "$(chroot "$place" id -u coatcheck)" "$(awk '$1 == "Uid:" { print $2 }' "/proc/$(cat "$place/run/coatcheck.pid")/status")" "it runs as its user"
kill -TERM "$(cat "$place/run/coatcheck.pid")"
wait_for 40 grep -q '"message":"stopped"' "$place/var/log/coatcheck.log"
same 0 $? "SIGTERM stops it"
request GET /v1/session
expect_problem 503 shutting_down "while it is away nginx says so"
finish
