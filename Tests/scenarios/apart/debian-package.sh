#!/usr/bin/env bash
# The Debian packages on a bare Debian that systemd-nspawn boots (`make prove-deb`). The script runs lintian, and times the
# commands of docs/start/without-a-compiler.md up to a sign-in. Then it upgrades under requests, tries a downgrade, removes and
# purges the packages. It prints the files on disk after each step. Needs root, debootstrap, systemd-container and lintian.
#   debian-package.sh [FOLDER WITH THE BINARIES]
source "$(dirname "$0")/../support/lib.bash"
source "$root/Tests/operations/booted.bash"
bin=${1:-$(dirname "$COATCHECK")}
page=$root/docs/start/without-a-compiler.md
missing=$("$root/scripts/debian-root" able) || { echo "Bail out! $missing: apt-get install systemd-container debootstrap"; exit 1; }
clean=$("$root/scripts/debian-root" bare) || give_up "the bare Debian"
place=$(mktemp -d /tmp/coatcheck-package.XXXXXX)
system=$place/system
trap 'halt_system; stop_stack; rm -rf --one-file-system "$place"' EXIT
version=$(sed -nE 's/.*text = "([^"]+)".*/\1/p' "$root/Sources/coatcheck/Version.swift")
# dpkg counts a version with this ending as higher.
higher=$version+upgrade

step "Two packages of this version, and two of a higher one"
begin=$SECONDS
OUT=$place/packages "$root/scripts/deb" "$bin" >"$work/deb.log" 2>&1 || give_up "scripts/deb"
echo "# $((SECONDS - begin)) s; $(cd "$place/packages" && ls -sh --block-size=M -- *.deb | tr '\n' ' ')"
for folder in higher again; do VERSION=$higher OUT=$place/$folder COMPRESSION=none "$root/scripts/deb" "$bin" >"$work/deb.log" 2>&1 || give_up "scripts/deb"; done
same "$(cd "$place/higher" && sha256sum -- *.deb)" "$(cd "$place/again" && sha256sum -- *.deb)" "Debian packages are built twice → both builds have the same bytes"
lintian --display-info "$place"/packages/*.deb >"$work/lintian" 2>&1
same "" "$(grep '^E:' "$work/lintian")" "lintian checks both packages → no error"
grep -vE '^(E|N):' "$work/lintian" | sed 's/^/# /'

step "A bare Debian"
cp -a --reflink=auto "$clean" "$system"
rm "$system/etc/dpkg/dpkg.cfg.d/slim"
cp "$place"/packages/*.deb "$system/root/"
mkdir "$system/higher"
cp "$place"/higher/*.deb "$system/higher/"
sed -n '/Tests\/scenarios\/apart\/debian-package.sh runs this block/,$p' "$page" >"$work/page.md"
block_behind "$work/page.md" sh 'runs this block' >"$system/root/install.sh" || give_up "the page's block"
block_behind "$root/docs/start/first-login.md" sh '## A login by curl' >"$system/root/login.sh" || give_up "the block of the login"
# The page uses fixed ports, so the booted system has its own network and cannot download. The script therefore fetches the
# libraries before the boot, and adds the time for this.
begin=$SECONDS
chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive sh -c "apt-get update -qq && cd /root && $(grep '^apt-get install' "$system/root/install.sh") -qq --download-only" >"$work/download.log" 2>&1
same 0 $? "apt-get with --download-only → fetches the broker's libraries and curl"
fetched=$((SECONDS - begin))
boot "$system" --private-network --system-call-filter='adjtimex clock_adjtime'
same systemd "$(in_system cat /proc/1/comm)" "booted Debian → systemd is the first process"
# disk MOMENT: prints the packages' files, with the user names of the booted system
disk() {
    echo "# on disk $1:"
    # shellcheck disable=SC2016
    in_system bash -c 'find /etc/coatcheck /var/lib/coatcheck /etc/systemd/system \( -name "*coatcheck*" -o -path "*coatcheck/*" \) -printf "#   %M %u:%g %p\n" 2>/dev/null
        find /usr /lib/systemd -path "*coatcheck*" -type f 2>/dev/null | sed -E "s|(/doc/[^/]+)/.*|\1/…|; s|^|#   |" | sort -u'
}
# kept: prints the broker's lasting files with their rights, except files that SQLite makes for its connections
kept() { in_system find /etc/coatcheck /var/lib/coatcheck -type f -not -name '*.db-*' -not -name '*.lock' -printf '%m %u:%g %p\n' | LC_ALL=C sort -k3; }
# installed: prints the packages' own files
installed() { in_system find /usr /lib/systemd -path '*coatcheck*' -type f; }
shown() { in_system systemctl show -P "$2" "coatcheck.$1"; }
in_shell() { in_system bash -ec "cd /root; $1" >"$work/out" 2>&1 </dev/null; }
good() { local status=$?; same 0 "$status" "$1"; [ "$status" -eq 0 ] || sed 's/^/#   /' "$work/out"; }
# asked PATH [OPTIONS]: prints the status of a request of the signed-in user
asked() { in_system curl -s -m 60 -o /dev/null -w '%{http_code}' -b /root/kept "http://127.0.0.1:8080$1"; }

step "The commands of the page, up to the first sign-in"
begin=$SECONDS
in_shell '. ./install.sh'
good "commands of docs/start/without-a-compiler.md → exit 0"
cp "$work/out" "$work/installed"
in_shell '. ./login.sh; cat jar >/root/after'
good "commands of docs/start/first-login.md → exit 0"
took=$((SECONDS - begin + fetched))
echo "# $took s to the first sign-in and log-out, $fetched s of them apt's download"
same 1 $((took < 120)) "installation and first sign-in → take less than two minutes"
matches '"provider": "oidc".*204' "$(tr '\n' ' ' <"$work/out")" "commands of docs/start/first-login.md → a user is signed in and out"
matches 'editor /etc/coatcheck/coatcheck.yaml.*systemctl enable --now' "$(tr '\n' ' ' <"$work/installed")" "installation of the package → prints the next two commands"
same "active active enabled" "$(shown service ActiveState) $(shown socket ActiveState) $(shown service UnitFileState)" "operator has enabled the package's units → the broker runs"
same "inactive" "$(shown service ActiveState | sed s/active/inactive/; in_system systemctl is-enabled coatcheck-sandbox | grep -v disabled)" "installation of the sandbox's package → the sandbox's unit stays disabled"
disk "after the installation and a sign-in"

step "An upgrade under requests"
in_shell "sed 's/^curl.*DELETE.*//; s/ jar/ kept/g' login.sh >signed-in.sh; . ./signed-in.sh"
good "commands of a sign-in before the upgrade → exit 0"
same 200 "$(asked /v1/session)" "session read before the upgrade → 200"
socket=$(shown socket ActiveEnterTimestampMonotonic)
starts() { in_system journalctl -u coatcheck.service -o cat | grep -c '^Started coatcheck.service'; }
before=$(starts)
: >"$work/codes"
while [ ! -e "$work/enough" ]; do asked /v1/session >>"$work/codes"; echo >>"$work/codes"; done &
asking=$!
in_shell 'dpkg -i /higher/coatcheck_*.deb'
good "package is upgraded while requests arrive → dpkg succeeds"
touch "$work/enough"
wait "$asking"
same 200 "$(sort -u "$work/codes" | tr '\n' ' ' | sed 's/ $//')" "package is upgraded while requests arrive → each of $(wc -l <"$work/codes") requests gets 200"
same "$((before + 1)) $socket" "$(starts) $(shown socket ActiveEnterTimestampMonotonic)" "package is upgraded while requests arrive → the broker starts once, and the socket unit stays active"
same 1 "$(ls "$system"/var/lib/coatcheck/backups/coatcheck-before-"$higher"-*.db | wc -l)" "package is upgraded while requests arrive → one backup of the database is made"
same "600" "$(stat -c %a "$system"/var/lib/coatcheck/backups/*.db)" "backup that an upgrade makes → only the broker can read the file"
disk "after the upgrade"

step "A stopped broker stays stopped"
in_system systemctl stop coatcheck.socket coatcheck.service
in_shell 'dpkg -i /higher/coatcheck_*.deb'
good "package installed while the broker is stopped → dpkg succeeds"
same "inactive inactive" "$(shown service ActiveState) $(shown socket ActiveState)" "package installed while the broker is stopped → the units stay stopped"

step "A downgrade"
database=$system/var/lib/coatcheck/data/coatcheck.db
schema() { python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database: database.execute(sys.argv[2])' "$database" "$1"; chown --reference="$system/var/lib/coatcheck" "$database"*; }
schema "INSERT INTO schema_version SELECT max(version) + 1, max(version) + 1 FROM schema_version"
in_shell 'dpkg -i coatcheck_*.deb'
same 1 $? "downgrade to a version that cannot read the database's schema → dpkg fails"
same "$higher installed" "$(in_system dpkg-query -W -f '${Version} ${db:Status-Status}' coatcheck)" "downgrade to a version that cannot read the database's schema → the higher version stays installed"
schema "DELETE FROM schema_version WHERE readable_from > 1"
in_shell 'dpkg -i coatcheck_*.deb; systemctl start coatcheck.socket coatcheck.service'
good "downgrade to a version that can read the database's schema → dpkg succeeds"
same 200 "$(asked /v1/session)" "downgrade to a version that can read the database's schema → the session is alive"

step "A faulty configuration"
in_system cp -p /etc/coatcheck/coatcheck.yaml /root/good.yaml
in_system sed -i 's/^management:/managment:/' /etc/coatcheck/coatcheck.yaml
in_shell 'dpkg -i /higher/coatcheck_*.deb'
same 1 $? "package installed with a faulty configuration → dpkg fails"
matches 'journalctl -u coatcheck.service' "$(cat "$work/out")" "package installed with a faulty configuration → dpkg names the command for the journal"
in_system cp -p /root/good.yaml /etc/coatcheck/coatcheck.yaml
in_system systemctl reset-failed coatcheck.service coatcheck.socket
in_shell 'systemctl start coatcheck.socket coatcheck.service; dpkg --configure -a'
good "faulty configuration is repaired after an installation → dpkg --configure succeeds"
same 200 "$(asked /v1/session)" "faulty configuration is repaired after an installation → the session is alive"

step "Removal"
before=$(kept)
matches '^640 root:coatcheck /etc/coatcheck/coatcheck.yaml.600 coatcheck:coatcheck /var/lib/coatcheck/backups/[^ ]*.db.*600 coatcheck:coatcheck /var/lib/coatcheck/data/coatcheck.db.*600 coatcheck:coatcheck /var/lib/coatcheck/keys.json' \
    "$(tr '\n' ' ' <<<"$before")" "files before the removal → configuration, backups, database and key ring exist"
in_shell 'dpkg -r coatcheck coatcheck-sandbox'
good "removal of both packages → dpkg succeeds"
same "000" "$(asked /v1/session)" "removal of both packages → the broker's port is closed"
same "0" "$(in_system systemctl list-units --all 'coatcheck*' --no-legend | grep -vc 'not-found')" "removal of both packages → the units are gone"
same "$before" "$(kept)" "removal of both packages → configuration, backups, database and key ring stay"
same "" "$(installed)" "removal of both packages → the packages' own files are gone"
disk "after the removal"

step "Purge"
in_shell 'dpkg -P coatcheck coatcheck-sandbox'
good "purge of both packages → dpkg succeeds without a question"
matches 'Kept.*/var/lib/coatcheck.*Kept: /var/lib/coatcheck/keys.json' "$(tr '\n' ' ' <"$work/out")" "purge of both packages → dpkg prints the kept paths"
same "" "$(ls -d "$system"/etc/coatcheck "$system"/etc/systemd/system/*/coatcheck* 2>/dev/null)" "purge of both packages → configuration and unit links are gone"
same "keys.json" "$(ls "$system/var/lib/coatcheck" | grep keys)" "purge of both packages → the key ring stays"
same "$(grep -v ' /etc/' <<<"$before")" "$(kept 2>/dev/null)" "purge of both packages → backups, database and key ring stay"
same "" "$(installed)" "purge of both packages → the packages' own files are gone"
disk "after the purge"
in_shell '. ./install.sh; . ./signed-in.sh'
good "installation after a purge → the broker works with the kept key ring"
finish
