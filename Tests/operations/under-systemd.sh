#!/usr/bin/env bash
# Runs every command of pages in docs/operate as root, next to a broker under the shipped unit, on a Debian that systemd-nspawn
# has booted. Files that root's commands make have to belong to the broker's user, and the commands' messages have to be true.
# Needs root, debootstrap and systemd-container.
source "$(dirname "$0")/../scenarios/support/lib.bash"
source "$(dirname "$0")/booted.bash"
missing=$("$root/scripts/debian-root" able) || { echo "# skipped: $missing"; ok "nothing to boot here: $missing"; finish; }
clean=$("$root/scripts/debian-root" bootable) || give_up "the Debian"
place=$(mktemp -d /tmp/coatcheck-systemd.XXXXXX)
system=$place/system
trap 'halt_system; stop_stack; rm -rf --one-file-system "$place"' EXIT
cp -a --reflink=auto "$clean" "$system"
# A debug build loads Swift's libraries, which Debian lacks. They come from the folders where the build found them.
libraries=()
while read -r folder; do libraries+=("--bind-ro=$folder"); done < <(ldd "$COATCHECK" | sed -nE 's|.*=> (/.*)/[^/]+ \(.*|\1|p' | grep -vE '^(/usr)?/lib(64)?(/|$)' | sort -u)
# The container has its own network, so it uses the documents' ports. Its own system-call filter would refuse calls that the
# unit allows.
boot "$system" --private-network --system-call-filter='adjtimex clock_adjtime' "${libraries[@]}"
same systemd "$(in_system cat /proc/1/comm)" "booted Debian → systemd is the first process"
curl() { nsenter -t "$init" -n curl "$@"; }
printf '#!/bin/sh\nexec nsenter -t %s -n %q "$@"\n' "$init" "$(realpath "$COATCHECK_SANDBOX")" >"$work/sandbox"
chmod +x "$work/sandbox"
COATCHECK_SANDBOX=$work/sandbox start_sandbox
BROKER=http://127.0.0.1:8080
MANAGEMENT=http://127.0.0.1:9090

# ---- running the documents' commands
# ---------------------------------------------------------------------------------------------------------

# documented: prints the commands in the documents' blocks, one a line, without the comments after them
pages=("$root"/docs/{operate/{keys,backups,incidents,upgrades},reference/commands}.md)
documented() { awk '/^ *```sh$/ { inside = 1; next } /^ *```$/ { inside = 0 } inside' "${pages[@]}" | sed -E 's/^ +//; s/ +#.*//' | grep -E '^(coatcheck|systemctl|install|mkdir|printf) '; }
# pasted BEGINNING [SED-EXPRESSION]: runs the document's command with this beginning; "$work/out" is its output, RUN its status
pasted() {
    local line
    line=$(documented | grep -m 1 -F -- "$1")
    [ -n "$line" ] || { not_ok "command to run → exists on a page: $1"; return; }
    printf '%s\n' "$line" >>"$work/pasted"
    as_root "$(sed -E "${2:-}" <<<"$line")"
}
as_root() { RUN=0; in_system env COATCHECK_TOKEN_FILE=/root/coatcheck.token bash -c "cd /root; $1" >"$work/out" 2>&1 || RUN=$?; }
# good SENTENCE: checks that the last command ended with status 0
good() { same 0 "$RUN" "$1"; [ "$RUN" -eq 0 ] || sed 's/^/#   /' "$work/out"; }
bad() { matches "^1 .*$1" "$RUN $(tr '\n' ' ' <"$work/out")" "$2"; }
access() { in_system stat -c '%U:%G %a' "$1"; }
ready() { [ "$(curl -s -m 5 -o /dev/null -w '%{http_code}' "$MANAGEMENT/readyz")" = 200 ]; }
stop() { in_system systemctl stop coatcheck.socket coatcheck.service; }
start() { in_system systemctl reset-failed 2>/dev/null; in_system systemctl start coatcheck.socket coatcheck.service; wait_for 60 ready; }
starts() {
    stop
    start && ok "$1" && return
    not_ok "$1" "$(in_system journalctl -u coatcheck.service -o cat -n 3)"
}
signed_in() { JAR="$work/a-phone.jar" request GET /v1/session; expect_status 200 "session that began before this step → alive"; }
first_key() { in_system coatcheck keys list --no-header --file /var/lib/coatcheck/keys.json | sed -n 1p | cut -f1; }

step "The commands of docs/operate/deployment.md"
mkdir -p "$system/root/archive/bin"
cp "$(realpath "$COATCHECK")" "$system/root/archive/bin/coatcheck"
cp -r "$root/deploy" "$system/root/archive/"
random_token >"$system/root/coatcheck.token"
chmod 600 "$system/root/coatcheck.token"
cat >"$system/root/archive/coatcheck.yaml" <<TEXT
server: {listen: "127.0.0.1:8080", public_url: "http://127.0.0.1:8080", drain_delay: 0s}
management:
  listen: 127.0.0.1:9090
  admin_tokens:
    - {name: keeper, sha256: "$("$COATCHECK" hash-secret <"$system/root/coatcheck.token")", may: [read, end, maintain, configure, export]}
store:
  url: sqlite:/var/lib/coatcheck/data/coatcheck.db
keys: {file: /var/lib/coatcheck/keys.json}
providers:
  oidc:
    kind: oidc
    issuer: $SANDBOX/oidc
    clients:
      ios: {client_id: ios-app, auth: none, redirect_uris: ["com.example.app:/cb"], scope: openid email profile offline_access}
TEXT
awk '/Tests\/operations\/install.sh runs this block/ { found = 1; next } found && /^```sh/ { inside = 1; next } inside && /^```/ { exit } inside' \
    "$root/docs/operate/deployment.md" | grep -vE '^apt-get|nginx' | sed -E '/^sed -e/,/[^\\]$/d' >"$system/root/archive/commands.sh"
as_root "cd archive; set -ex; . ./commands.sh"
good "commands of docs/operate/deployment.md except those for nginx → exit 0"
[ "$RUN" -eq 0 ] || { in_system journalctl -u coatcheck.service -o cat -n 20 | sed 's/^/#   /'; finish; }
wait_for 60 ready
same 0 $? "commands of docs/operate/deployment.md → the broker is ready"
same "coatcheck:coatcheck 600" "$(access /var/lib/coatcheck/keys.json)" "commands of docs/operate/deployment.md → only the broker can read the key ring"
device a-phone
sign_in oidc ios ana
expect_status 201 "sign-in at the installed broker → a session"
for command in 'keys list' 'sessions list'; do
    pasted "coatcheck $command" 's/google/oidc/; s/1098…/user-ana/'
    good "coatcheck $command → exit 0"
done

step "Under the unit, the kernel's clock can be read but not set"
case $(uname -m) in aarch64) numbers=(171 266) ;; *) numbers=(159 305) ;; esac
cat >"$system/usr/local/bin/clock-probe" <<TEXT
#!/usr/bin/perl
# The calls of the library's adjtimex, by both their numbers: reading, and setting the frequency.
my (\$reads, \$sets) = (0, 0);
for my \$mode (0, 2) {
    my \$one = pack('i', \$mode) . "\\0" x 252;
    my \$two = \$one;
    my \$count = (syscall(${numbers[0]}, \$one) >= 0) + (syscall(${numbers[1]}, 0, \$two) >= 0);
    \$mode ? (\$sets = \$count) : (\$reads = \$count);
}
open(my \$status, '<', '/proc/self/status');
my (\$held) = grep { /^CapEff/ } <\$status>;
print "reads \$reads sets \$sets \$held";
TEXT
chmod 755 "$system/usr/local/bin/clock-probe"
sed -E 's|^Type=.*|Type=oneshot|; s|^ExecStart=.*|ExecStart=/usr/local/bin/clock-probe|; /^(ExecStartPre|ExecReload|Restart)/d' \
    "$root/deploy/systemd/coatcheck.service" >"$system/etc/systemd/system/clock-probe.service"
in_system systemctl daemon-reload
in_system systemctl start clock-probe.service
matches 'reads 2 sets 0 CapEff:.0+$' "$(in_system journalctl -u clock-probe.service -o cat | grep '^reads')" "program under the broker's unit reads and sets the kernel's clock → both reads succeed, both writes fail, without capabilities"

step "A stolen key ring"
old=$(first_key)
pasted "coatcheck keys rotate --now"
good "keys rotate --now as root → exit 0"
matches 'the running broker knows it' "$(cat "$work/out")" "keys rotate --now as root → the running broker knows the new key"
new=$(first_key)
same "coatcheck:coatcheck 600" "$(access /var/lib/coatcheck/keys.json)" "keys rotate --now as root → the key ring belongs to the broker"
pasted "coatcheck keys reseal"
good "keys reseal after keys rotate --now → exit 0"
matches "sealed again [1-9].* under $new" "$(cat "$work/out")" "keys reseal after keys rotate --now → values are sealed with the new key"
starts "broker is restarted after keys rotate --now and keys reseal → ready"
signed_in
pasted "coatcheck sessions end" 's/NAME/oidc/'
good "operator ends all sessions of a provider with sessions end → exit 0"
JAR="$work/a-phone.jar" request GET /v1/session
expect_problem 401 session_ended "request with a user's session after an operator ended all sessions"
device a-phone
sign_in oidc ios ana
expect_status 201 "sign-in after an operator ended all sessions → a session"
as_root "coatcheck keys generate --file /var/lib/coatcheck/other.json && chgrp root /var/lib/coatcheck/other.json && chmod 640 /var/lib/coatcheck/other.json && chown root /var/lib/coatcheck/other.json && setpriv --reuid coatcheck --regid coatcheck --clear-groups coatcheck keys rotate --file /var/lib/coatcheck/other.json"
matches 'cannot be read|root.s, who could not read' "$(cat "$work/out")" "broker's user runs keys rotate on a key file that belongs to root → refused"
as_root "chmod 644 /var/lib/coatcheck/other.json; setpriv --reuid coatcheck --regid coatcheck --clear-groups coatcheck keys rotate --file /var/lib/coatcheck/other.json; r=\$?; ls /var/lib/coatcheck; exit \$r"
bad "is root's, who could not read.*other.json *\$" "broker's user runs keys rotate on root's key file, which it can read → refused with the reason, and no other file is left"
in_system rm /var/lib/coatcheck/other.json

step "Commands report a key file that the broker can no longer read"
in_system chown root:root /var/lib/coatcheck/keys.json
as_root "coatcheck keys rotate --now --file /var/lib/coatcheck/keys.json --config /etc/coatcheck/coatcheck.yaml"
bad "running broker does not know k.*keys not reloaded" "key file belongs to root, so the broker cannot read it → keys rotate fails with the reason"
as_root "coatcheck keys reseal --config /etc/coatcheck/coatcheck.yaml"
bad "does not seal with k" "key file belongs to root, so the broker cannot read it → keys reseal fails"
as_root "coatcheck check --config /etc/coatcheck/coatcheck.yaml"
bad "keys.json cannot be read: .*; read as coatcheck, whose the store is" "key file belongs to root, so the broker cannot read it → check fails with the reason"
in_system chown coatcheck:coatcheck /var/lib/coatcheck/keys.json
as_root "coatcheck keys reseal --config /etc/coatcheck/coatcheck.yaml"
good "broker can read the key file again → keys reseal succeeds without a restart"

step "Removing the old key"
stop
# Set the stored times back, as if the new key had sealed for an hour.
python3 - "$system/var/lib/coatcheck" <<'P'
import json, sqlite3, sys
with sqlite3.connect(sys.argv[1] + "/data/coatcheck.db") as database:
    database.execute("UPDATE exchanges SET created_at = created_at - 3600000")
ring = json.load(open(sys.argv[1] + "/keys.json"))
for key in ring["keys"]:
    key.pop("seals_from", None)
    key["created"] = "2026-01-01T00:00:00Z"
with open(sys.argv[1] + "/keys.json", "r+") as file:
    file.truncate()
    json.dump(ring, file)
P
in_system chown -R coatcheck:coatcheck /var/lib/coatcheck/data
start
pasted "coatcheck keys remove" "s/kOld/$old/"
good "keys remove of the old key while the broker runs → exit 0"
same "coatcheck:coatcheck 600" "$(access /var/lib/coatcheck/keys.json)" "keys remove of the old key → the key ring belongs to the broker"
pasted "coatcheck keys rotate --file"
good "keys rotate without --now, which adds a waiting key → exit 0"
starts "broker is restarted while a new key waits → ready"
signed_in

step "Backups"
as_root "coatcheck backup /tmp/lost.db --config /etc/coatcheck/coatcheck.yaml"
bad "/tmp/lost.db is not here.*PrivateTmp" "backup into the broker's private /tmp → refused"
in_system install -d -m 0700 -o coatcheck -g coatcheck /backups
as_root "coatcheck backup /backups/early.db --config /etc/coatcheck/coatcheck.yaml"
bad "Read-only file system" "backup into a folder outside the unit's paths → refused"
for command in "install -d -m 0700" "mkdir -p" "printf" "systemctl daemon-reload" "systemctl restart"; do pasted "$command"; good "command of the pages before a backup, $command → exit 0"; done
wait_for 60 ready
pasted "coatcheck backup"
good "coatcheck backup into a folder that a drop-in opened → exit 0"
backup=$(in_system sh -c 'ls /backups/coatcheck-*.db')
same "coatcheck:coatcheck 600" "$(access "$backup")" "coatcheck backup into a folder that a drop-in opened → the file belongs to the broker"
in_system cp "$backup" /root/coatcheck.db
in_system chmod 600 /root/coatcheck.db

step "Later log-outs survive a restore: store.endings_file on its own volume"
in_system install -d -m 0700 -o coatcheck -g coatcheck /var/lib/coatcheck-endings
sed -i "s|^  url: sqlite.*|&\n  endings_file: /var/lib/coatcheck-endings/endings|" "$system/etc/coatcheck/coatcheck.yaml"
sed -i 's|ReadWritePaths=.*|& /var/lib/coatcheck-endings|' "$system/etc/systemd/system/coatcheck.service.d/backups.conf"
in_system systemctl daemon-reload
starts "broker is restarted with a configured endings file → ready"
device ben
sign_in oidc ios ben
pasted "coatcheck backup" 's|/backups/.*[.]db|/backups/second.db|'
request DELETE /v1/session
expect_status 204 "ben logs out after the backup → 204"

step "The machine is lost, and the backup is restored"
stop
in_system rm -rf /var/lib/coatcheck/data /root/coatcheck.db
in_system mv /backups/second.db /root/coatcheck.db
in_system chown root:root /root/coatcheck.db
pasted "systemctl stop coatcheck.socket"
good "command of the pages that stops the broker before a restore → exit 0"
pasted "coatcheck restore /root"
good "root restores a backup file that belongs to root → exit 0"
matches "1 of them had ended since" "$(cat "$work/out")" "restore with an endings file → reports one session that has ended since the backup"
same "coatcheck:coatcheck 700 coatcheck:coatcheck 600" "$(access /var/lib/coatcheck/data) $(access /var/lib/coatcheck/data/coatcheck.db)" "root restores a backup → the database belongs to the broker"
pasted "systemctl start coatcheck.socket"
wait_for 60 ready
same 0 $? "broker is started after a restore → ready"
signed_in
stop
pasted "coatcheck restore /backups" 's|/backups/.*[.]db|/root/coatcheck.db|'
good "root restores a backup while a database exists → exit 0"
starts "broker is started after a second restore → ready"
signed_in

step "An upgrade"
pasted "coatcheck check --config /etc/coatcheck/coatcheck.yaml --online"
good "check --online while the broker runs → exit 0"
stop
as_root "coatcheck check --config /etc/coatcheck/coatcheck.yaml --online"
good "root runs check --online while the broker is stopped → exit 0"
same "" "$(in_system find /var/lib/coatcheck -user root)" "root runs check --online while the broker is stopped → all files still belong to the broker"
in_system mv /var/lib/coatcheck/data /root/data
pasted "coatcheck migrate"
good "root runs migrate without a database → exit 0"
same "" "$(in_system find /var/lib/coatcheck -user root)" "root runs migrate without a database → all files belong to the broker"
starts "broker is started with the store that migrate made → ready"
stop
in_system rm -rf /var/lib/coatcheck/data
in_system mv /root/data /var/lib/coatcheck/data
pasted "coatcheck store copy" 's|postgresql://[^ ]*|sqlite:/var/lib/coatcheck/copied/coatcheck.db|'
good "root runs store copy → exit 0"
same "" "$(in_system find /var/lib/coatcheck -user root)" "root runs store copy → all files belong to the broker"
start
signed_in

step "Sessions for another system"
openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out "$system/root/theirs.private.pem" 2>/dev/null
openssl pkey -in "$system/root/theirs.private.pem" -pubout -out "$system/root/theirs.pem"
pasted "coatcheck store export" 's/NAME/olga --keep/'
good "root runs store export --keep next to a running broker → exit 0"
same "root:root 600" "$(access /root/sessions.jwe)" "file of an export by root → belongs to root, and is private"
stop
pasted "coatcheck store import" 's/NAME/ivan/'
good "root runs store import into the store that has these sessions → exit 0"
same "" "$(in_system find /var/lib/coatcheck -user root)" "root runs store import → all files belong to the broker"
start
signed_in

step "A new client secret: check and reload"
pasted "coatcheck check --config /etc/coatcheck/coatcheck.yaml"
good "coatcheck check before a reload → exit 0"
sed -i 's/scope: openid email profile/scope: openid email/' "$system/etc/coatcheck/coatcheck.yaml"
pasted "systemctl reload"
good "systemctl reload after a change of settings → exit 0"
wait_for 30 journal_says "configuration reloaded"
same 0 $? "systemctl reload after a change of settings → the configuration is reloaded"
as_root "coatcheck config diff --config /etc/coatcheck/coatcheck.yaml"
good "config diff after a reload → exit 0, because the broker runs with this configuration"

step "A wrong key ring is replaced without a restart"
stop
in_system cp -a /var/lib/coatcheck/keys.json /root/right.json
in_system rm /var/lib/coatcheck/keys.json
as_root "coatcheck keys generate --file /var/lib/coatcheck/keys.json"
same "coatcheck:coatcheck 600" "$(access /var/lib/coatcheck/keys.json)" "root runs keys generate → the key ring belongs to the broker"
in_system systemctl start coatcheck.socket coatcheck.service
red() { [ "$(curl -s "$MANAGEMENT/readyz" | jq -r .status)" = keys_do_not_fit ]; }
wait_for 60 red
same 0 $? "broker with a wrong key ring → readiness is keys_do_not_fit"
device cleo
start_login oidc ios
expect_problem 503 store_unavailable "start of a login at a broker with a wrong key ring"
in_system cp -a /root/right.json /var/lib/coatcheck/keys.json
wait_for 30 ready
same 0 $? "right key ring is put back while the broker runs → ready without a restart"
signed_in
sign_in oidc ios cleo
expect_status 201 "right key ring is put back while the broker runs → a sign-in succeeds"

step "The journal contains only the broker's lines"
in_system journalctl --sync
same "" "$(in_system journalctl -u coatcheck.service -o cat | grep -F 'thread priority' | head -3)" "journal of the broker's unit → contains no line of libdispatch"

step "Completions"
pasted "coatcheck --generate-completion-script" 's|> .*|>/root/completion|'
good "coatcheck --generate-completion-script → exit 0"

documented | sort -u >"$work/documented"
sort -u "$work/pasted" >"$work/pasted.sorted"
same "" "$(comm -23 "$work/documented" "$work/pasted.sorted")" "commands of the operators' pages → this script has run every command"
finish
