#!/usr/bin/env bash
# The Debian packages in a chroot: contents, files and owners after each step of dpkg, the refused downgrade, and the backup before
# a new version. `make prove-deb` does the same on a booted Debian. Needs root and debootstrap, and release binaries.
source "$(dirname "$0")/../scenarios/support/lib.bash"
skip() { echo "# skipped: $1"; ok "no package here: $1"; finish; }
missing=$("$root/scripts/debian-root" able) || skip "$missing"
ldd "$COATCHECK" | grep -q libswift && skip "these are debug builds"
clean=$("$root/scripts/debian-root" bootable) || give_up "the Debian"
place=$(mktemp -d /tmp/coatcheck-package.XXXXXX)
system=$place/system
trap 'umount "$system/var/lib/coatcheck" "$system/proc" 2>/dev/null; stop_stack; rm -rf --one-file-system "$place"' EXIT
mkdir "$place/bin"
ln -s "$(realpath "$COATCHECK")" "$place/bin/coatcheck"
ln -s "$(realpath "$COATCHECK_SANDBOX")" "$place/bin/coatcheck-sandbox"

step "Two packages"
VERSION=1.0.0 OUT=$place/old COMPRESSION=none "$root/scripts/deb" "$place/bin" >"$work/deb.log" 2>&1 || give_up "scripts/deb"
old=$(ls "$place"/old/coatcheck_*.deb) emulator=$(ls "$place"/old/coatcheck-sandbox_*.deb)
# A higher version of this tree.
dpkg-deb -R "$old" "$place/raised"
sed -i 's/1\.0\.0/1.0.1/' "$place/raised/DEBIAN/control" "$place/raised/DEBIAN/preinst" "$place/raised/usr/lib/coatcheck/before-start"
new=$place/${old##*/}
new=${new/1.0.0/1.0.1}
dpkg-deb --root-owner-group -Znone -b "$place/raised" "$new" >"$work/deb.log"
control() { dpkg-deb -f "$1" "$2"; }
matches 'libc6.*libpq5.*libsqlite3-0.*libssl3.*, ca-certificates, sqlite3, systemd' "$(control "$new" Depends)" "the dependencies have the libraries of dpkg-shlibdeps"
same "" "$(control "$new" Recommends)$(control "$new" Suggests)$(control "$new" Depends | grep -o sandbox)" "the dependencies leave the sandbox out"
dpkg-deb -e "$new" "$place/control"
dpkg-deb -x "$new" "$place/tree"
dpkg-deb -x "$emulator" "$place/emulator"
same "/etc/coatcheck/coatcheck.yaml" "$(cat "$place/control/conffiles")" "the configuration is the only conffile"
same "" "$(find "$place/tree" "$place/emulator" -name '*keys.json' -o -path '*/var/lib/*' | head -3)" "the packages are free of key rings and data"
same "" "$(grep -lis sandbox "$place"/control/{control,conffiles,p*}; grep -rlis sandbox "$place/tree/etc" "$place/tree/lib" "$place/tree/usr/lib")" "the broker's scripts, units and configuration leave the sandbox unnamed"
for name in coatcheck coatcheck-sandbox; do
    tree=$place/tree
    [ "$name" = coatcheck ] || tree=$place/emulator
    documents=$tree/usr/share/doc/$name
    same CycloneDX "$(jq -r .bomFormat "$documents/sbom.cdx.json")" "$name: a bill of materials"
    same "$(jq '.pins | length' "${RESOLVED:-$root/Package.resolved}")" "$(find "$documents/licenses" -mindepth 1 -maxdepth 1 | wc -l)" "$name: a licence for each Swift package"
    same "" "$(zcat "$tree/usr/share/man/man1/$name.1.gz" | man -l --warnings=w -E UTF-8 - 2>&1 >"$work/page")" "$name: groff accepts its manual page"
    bash -n "$tree/usr/share/bash-completion/completions/$name"
    same 0 $? "$name: completions for bash"
    same "#compdef $name" "$(head -1 "$tree/usr/share/zsh/vendor-completions/_$name")" "$name: for zsh"
    matches "complete -c '?$name" "$(cat "$tree/usr/share/fish/vendor_completions.d/$name.fish")" "$name: and for fish"
done
for words in $("$COATCHECK" --help | sed -nE 's/^  ([a-z][a-z-]*)  +.*/\1/p'); do grep -qE "coatcheck $words" <(zcat "$place/tree/usr/share/man/man1/coatcheck.1.gz" | tr -d '\\') || echo "$words"; done >"$work/absent"
same "" "$(cat "$work/absent")" "every command is on the manual page"

step "Installed"
cp -a --reflink=auto "$clean" "$system"
mkdir "$system/packages"
# The programs read their arguments there.
mount -t proc proc "$system/proc"
cp "$place"/old/*.deb "$new" "$system/packages/"
inside() { chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@" </dev/null; }
# dpkg_says STATUS SENTENCE ARGUMENT…: dpkg ends with this status; its words go to "$work/out"
dpkg_says() {
    local expected=$1 sentence=$2 status=0
    shift 2
    inside dpkg "$@" >"$work/out" 2>&1 || status=$?
    same "$expected" "$status" "$sentence"
    [ "$status" = "$expected" ] || sed 's/^/#   /' "$work/out"
}
broker() { inside setpriv --reuid coatcheck --regid coatcheck --clear-groups "$@"; }
access() { inside stat -c '%U:%G %a' "$@" | tr '\n' ' ' | sed 's/ $//'; }
version() { inside dpkg-query -W -f '${Version} ${db:Status-Status}' "$1"; }
file() { echo "/packages/$(basename "$1")"; }
dpkg_says 0 "dpkg installs it" -i "$(file "$old")"
same "  editor /etc/coatcheck/coatcheck.yaml   systemctl enable --now coatcheck.socket coatcheck.service" "$(grep '^  ' "$work/out" | tr '\n' ' ' | sed 's/ $//')" "and prints the two next commands"
same "root:coatcheck 750 root:coatcheck 640" "$(access /etc/coatcheck /etc/coatcheck/coatcheck.yaml)" "the broker alone reads its configuration"
same "coatcheck:coatcheck 700 coatcheck:coatcheck 600" "$(access /var/lib/coatcheck /var/lib/coatcheck/keys.json)" "the key ring is the broker's alone"
same "" "$(inside find /etc/systemd -name 'coatcheck*')" "the installation enables nothing"
broker coatcheck check --config /etc/coatcheck/coatcheck.yaml >"$work/out" 2>&1
same "1 1 error" "$? $(tail -1 "$work/out")" "the configuration has one fault"
matches "providers: needs at least one provider" "$(cat "$work/out")" "the missing provider"
ring=$(sha256sum <"$system/var/lib/coatcheck/keys.json")
cat >>"$system/etc/coatcheck/coatcheck.yaml" <<TEXT
providers:
  any: {kind: oidc, issuer: "https://id.example.com", clients: {ios: {client_id: any, auth: none, redirect_uris: ["com.example.app:/cb"]}}}
TEXT
broker coatcheck check --config /etc/coatcheck/coatcheck.yaml >"$work/out" 2>&1
same 0 $? "with a provider it is in order"

step "A new version backs up before it starts, once"
before_start() { broker /usr/lib/coatcheck/before-start "$@" >"$work/out" 2>&1; }
backups() { inside find /var/lib/coatcheck/backups -type f 2>/dev/null | sort; }
before_start
same "0 " "$? $(backups)" "a start before the first database succeeds"
broker coatcheck migrate --config /etc/coatcheck/coatcheck.yaml >"$work/out" 2>&1
same 0 $? "the broker makes its database"
dpkg_says 0 "dpkg upgrades" -i "$(file "$new")"
same "1.0.1 installed" "$(version coatcheck)" "to the new version"
same "$ring" "$(sha256sum <"$system/var/lib/coatcheck/keys.json")" "the key ring stays"
matches 'any: .kind: oidc' "$(tail -1 "$system/etc/coatcheck/coatcheck.yaml")" "so does the configuration"
database=$system/var/lib/coatcheck/data/coatcheck.db
mv "$system/etc/coatcheck/coatcheck.yaml" "$place/kept.yaml"
sed 's|^  url: sqlite.*|  url: \&here sqlite:/var/lib/coatcheck/data/coatcheck.db|' "$place/kept.yaml" >"$system/etc/coatcheck/coatcheck.yaml"
chmod 644 "$system/etc/coatcheck/coatcheck.yaml"
before_start
matches '^1 .*Write it as one line' "$? $(cat "$work/out")" "an anchor in store.url stops the start"
mv "$place/kept.yaml" "$system/etc/coatcheck/coatcheck.yaml"
before_start
same 0 $? "the new version's first start"
backup=$(backups)
matches '^/var/lib/coatcheck/backups/coatcheck-before-1.0.1-[0-9TZ]+.db$' "$backup" "leaves a backup"
same "coatcheck:coatcheck 600" "$(access "$backup")" "which is the broker's alone"
before_start
same "$backup" "$(backups)" "the next start adds none"
for day in 1 2 3 4; do touch -d "2026-01-0$day" "$system/var/lib/coatcheck/backups/coatcheck-before-0.$day.db"; done
rm "$system/var/lib/coatcheck/last-version"
before_start
same 3 "$(backups | wc -l)" "three backups are kept, the newest"
inside mv /var/lib/coatcheck/data /var/lib/coatcheck/lost
broker coatcheck restore "$backup" --config /etc/coatcheck/coatcheck.yaml --without-endings >"$work/out" 2>&1
matches '^0 .*schema version' "$? $(tr '\n' ' ' <"$work/out")" "coatcheck restore takes it"

step "A version older than the schema is refused"
# newer READABLE-FROM: a later release has migrated
newer() { python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database:
    newest = database.execute("SELECT max(version) FROM schema_version").fetchone()[0]
    database.execute("INSERT INTO schema_version VALUES (?, ?)", (newest + 1, newest + int(sys.argv[2])))' "$database" "$1"; }
newer 0
dpkg_says 0 "back to the old one, whose schema suffices" -i "$(file "$old")"
dpkg_says 0 "and forth" -i "$(file "$new")"
newer 1
dpkg_says 1 "back to the old one, after a later schema" -i "$(file "$old")"
matches 'needs a program that knows its schema .*restore' "$(tr '\n' ' ' <"$work/out")" "dpkg says why, and how to go back"
same "1.0.1 installed" "$(version coatcheck)" "and the installed version stays"
python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database: database.execute("DELETE FROM schema_version WHERE readable_from > 1")' "$database"

step "An upgrade whose backup has no room is refused"
inside mv /var/lib/coatcheck/data /elsewhere
sed -i 's|sqlite:/var/lib/coatcheck/data|sqlite:/elsewhere|' "$system/etc/coatcheck/coatcheck.yaml"
mount -t tmpfs -o size=64k,mode=0700 small "$system/var/lib/coatcheck"
dpkg_says 1 "dpkg does not begin" -i "$(file "$new")"
matches 'has [0-9]+ bytes left' "$(cat "$work/out")" "and says how much is left"
umount "$system/var/lib/coatcheck"
inside mv /elsewhere /var/lib/coatcheck/data
sed -i 's|sqlite:/elsewhere|sqlite:/var/lib/coatcheck/data|' "$system/etc/coatcheck/coatcheck.yaml"

step "Removed, installed again, purged"
kept() { (cd "$system" && find etc/coatcheck var/lib/coatcheck -type f | LC_ALL=C sort && cat etc/coatcheck/coatcheck.yaml var/lib/coatcheck/keys.json | sha256sum); }
before=$(kept)
dpkg_says 0 "dpkg removes it" -r coatcheck
same "$before" "$(kept)" "configuration, key ring, data and backups stay"
same "" "$(inside find /usr /lib/systemd -name 'coatcheck*' -not -path '*/doc/*' 2>/dev/null)" "dpkg removes the rest"
dpkg_says 0 "dpkg installs it again" -i "$(file "$new")"
same "$before" "$(kept)" "with the former files"
dpkg_says 0 "dpkg purges it silently" -P coatcheck
matches 'Kept.*/var/lib/coatcheck .*/var/lib/coatcheck/keys.json' "$(tr '\n' ' ' <"$work/out")" "it prints what it keeps"
same "" "$(ls "$system/etc/coatcheck" 2>/dev/null)" "the configuration is gone"
same "$ring coatcheck:coatcheck 600" "$(sha256sum <"$system/var/lib/coatcheck/keys.json") $(access /var/lib/coatcheck/keys.json)" "the key ring stays"
same 3 "$(backups | wc -l)" "and the backups"
dpkg_says 0 "a later installation" -i "$(file "$new")"
same "$ring" "$(sha256sum <"$system/var/lib/coatcheck/keys.json")" "takes up the old ring"
rm "$system/var/lib/coatcheck/keys.json"
dpkg_says 0 "an installation next to a database that lost its ring" -i "$(file "$new")"
same "" "$(ls "$system/var/lib/coatcheck/keys.json" 2>/dev/null)" "leaves the ring out"

step "The sandbox"
dpkg_says 0 "dpkg installs it alone" -i "$(file "$emulator")"
same "" "$(inside find /etc/systemd -name 'coatcheck*')" "the installation enables nothing"
same "127.0.0.1:8089" "$(sed -nE 's/^ExecStart=.* --listen ([^ ]+) .*/\1/p' "$system/lib/systemd/system/coatcheck-sandbox.service")" "it listens on loopback"
dpkg_says 0 "dpkg purges it" -P coatcheck-sandbox
same "" "$(inside find / -xdev -name 'coatcheck-sandbox*' -not -path '/packages/*' -not -path '/var/lib/coatcheck/*' -not -path '/var/log/*' -not -path '*/doc/coatcheck/*')" "and leaves the disk clean"
finish
