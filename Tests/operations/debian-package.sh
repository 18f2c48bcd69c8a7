#!/usr/bin/env bash
# The Debian packages in a chroot: contents, files and owners after each step of dpkg, the refused downgrade, and the backup
# before a new version. `make prove-deb` does the same on a booted Debian. Needs root and debootstrap, and release binaries.
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

step "The contents of two packages"
VERSION=1.0.0 OUT=$place/old COMPRESSION=none "$root/scripts/deb" "$place/bin" >"$work/deb.log" 2>&1 || give_up "scripts/deb"
old=$(ls "$place"/old/coatcheck_*.deb) emulator=$(ls "$place"/old/coatcheck-sandbox_*.deb)
# The same package with a higher version.
dpkg-deb -R "$old" "$place/raised"
sed -i 's/1\.0\.0/1.0.1/' "$place/raised/DEBIAN/control" "$place/raised/DEBIAN/preinst" "$place/raised/usr/lib/coatcheck/before-start"
new=$place/${old##*/}
new=${new/1.0.0/1.0.1}
dpkg-deb --root-owner-group -Znone -b "$place/raised" "$new" >"$work/deb.log"
control() { dpkg-deb -f "$1" "$2"; }
matches 'libc6.*libpq5.*libsqlite3-0.*libssl3.*, ca-certificates, sqlite3, systemd' "$(control "$new" Depends)" "package's dependencies → contain the libraries that dpkg-shlibdeps finds"
same "" "$(control "$new" Recommends)$(control "$new" Suggests)$(control "$new" Depends | grep -o sandbox)" "package's dependencies → do not contain the sandbox"
dpkg-deb -e "$new" "$place/control"
dpkg-deb -x "$new" "$place/tree"
dpkg-deb -x "$emulator" "$place/emulator"
same "/etc/coatcheck/coatcheck.yaml" "$(cat "$place/control/conffiles")" "conffiles of the package → only the configuration"
same "" "$(find "$place/tree" "$place/emulator" -name '*keys.json' -o -path '*/var/lib/*' | head -3)" "both packages → contain no key ring and no data"
same "" "$(grep -lis sandbox "$place"/control/{control,conffiles,p*}; grep -rlis sandbox "$place/tree/etc" "$place/tree/lib" "$place/tree/usr/lib")" "broker's scripts, units and configuration → do not name the sandbox"
for name in coatcheck coatcheck-sandbox; do
    tree=$place/tree
    [ "$name" = coatcheck ] || tree=$place/emulator
    documents=$tree/usr/share/doc/$name
    same CycloneDX "$(jq -r .bomFormat "$documents/sbom.cdx.json")" "package $name → contains a bill of materials"
    same "$(jq '.pins | length' "${RESOLVED:-$root/Package.resolved}")" "$(find "$documents/licenses" -mindepth 1 -maxdepth 1 | wc -l)" "package $name → contains a licence for each Swift package"
    same "" "$(zcat "$tree/usr/share/man/man1/$name.1.gz" | man -l --warnings=w -E UTF-8 - 2>&1 >"$work/page")" "package $name → groff accepts the package's manual page"
    bash -n "$tree/usr/share/bash-completion/completions/$name"
    same 0 $? "package $name → contains completions for bash"
    same "#compdef $name" "$(head -1 "$tree/usr/share/zsh/vendor-completions/_$name")" "package $name → contains completions for zsh"
    matches "complete -c '?$name" "$(cat "$tree/usr/share/fish/vendor_completions.d/$name.fish")" "package $name → contains completions for fish"
done
for words in $("$COATCHECK" --help | sed -nE 's/^  ([a-z][a-z-]*)  +.*/\1/p'); do grep -qE "coatcheck $words" <(zcat "$place/tree/usr/share/man/man1/coatcheck.1.gz" | tr -d '\\') || echo "$words"; done >"$work/absent"
same "" "$(cat "$work/absent")" "manual page → contains every command"

step "Installation"
cp -a --reflink=auto "$clean" "$system"
mkdir "$system/packages"
# The programs read their arguments from /proc.
mount -t proc proc "$system/proc"
cp "$place"/old/*.deb "$new" "$system/packages/"
inside() { chroot "$system" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive "$@" </dev/null; }
# dpkg_says STATUS SENTENCE ARGUMENT…: checks that dpkg ends with this status; "$work/out" is its output
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
dpkg_says 0 "first installation → dpkg succeeds" -i "$(file "$old")"
same "  editor /etc/coatcheck/coatcheck.yaml   systemctl enable --now coatcheck.socket coatcheck.service" "$(grep '^  ' "$work/out" | tr '\n' ' ' | sed 's/ $//')" "first installation → dpkg prints the next two commands"
same "root:coatcheck 750 root:coatcheck 640" "$(access /etc/coatcheck /etc/coatcheck/coatcheck.yaml)" "first installation → only root and the broker can read the configuration"
same "coatcheck:coatcheck 700 coatcheck:coatcheck 600" "$(access /var/lib/coatcheck /var/lib/coatcheck/keys.json)" "first installation → only the broker can read the key ring"
same "" "$(inside find /etc/systemd -name 'coatcheck*')" "first installation → no unit is enabled"
broker coatcheck check --config /etc/coatcheck/coatcheck.yaml >"$work/out" 2>&1
same "1 1 error" "$? $(tail -1 "$work/out")" "shipped configuration → check finds exactly one fault"
matches "providers: needs at least one provider" "$(cat "$work/out")" "shipped configuration → the fault that check finds is the missing provider"
ring=$(sha256sum <"$system/var/lib/coatcheck/keys.json")
cat >>"$system/etc/coatcheck/coatcheck.yaml" <<TEXT
providers:
  any: {kind: oidc, issuer: "https://id.example.com", clients: {ios: {client_id: any, auth: none, redirect_uris: ["com.example.app:/cb"]}}}
TEXT
broker coatcheck check --config /etc/coatcheck/coatcheck.yaml >"$work/out" 2>&1
same 0 $? "configuration with a provider → check succeeds"

step "A new version makes one backup before its first start"
before_start() { broker /usr/lib/coatcheck/before-start "$@" >"$work/out" 2>&1; }
backups() { inside find /var/lib/coatcheck/backups -type f 2>/dev/null | sort; }
before_start
same "0 " "$? $(backups)" "before-start script without a database → exit 0, and no backup"
broker coatcheck migrate --config /etc/coatcheck/coatcheck.yaml >"$work/out" 2>&1
same 0 $? "coatcheck migrate without a database → exit 0"
dpkg_says 0 "new version of the package is installed → dpkg succeeds" -i "$(file "$new")"
same "1.0.1 installed" "$(version coatcheck)" "upgrade of the package → the new version is installed"
same "$ring" "$(sha256sum <"$system/var/lib/coatcheck/keys.json")" "upgrade of the package → the key ring is unchanged"
matches 'any: .kind: oidc' "$(tail -1 "$system/etc/coatcheck/coatcheck.yaml")" "upgrade of the package → the configuration is unchanged"
database=$system/var/lib/coatcheck/data/coatcheck.db
mv "$system/etc/coatcheck/coatcheck.yaml" "$place/kept.yaml"
sed 's|^  url: sqlite.*|  url: \&here sqlite:/var/lib/coatcheck/data/coatcheck.db|' "$place/kept.yaml" >"$system/etc/coatcheck/coatcheck.yaml"
chmod 644 "$system/etc/coatcheck/coatcheck.yaml"
before_start
matches '^1 .*Write it as one line' "$? $(cat "$work/out")" "before-start script reads a configuration whose store.url has a YAML anchor → fails with advice"
mv "$place/kept.yaml" "$system/etc/coatcheck/coatcheck.yaml"
before_start
same 0 $? "before-start script of the new version → exit 0"
backup=$(backups)
matches '^/var/lib/coatcheck/backups/coatcheck-before-1.0.1-[0-9TZ]+.db$' "$backup" "before-start script of the new version → one backup"
same "coatcheck:coatcheck 600" "$(access "$backup")" "backup by the before-start script → only the broker can read the file"
before_start
same "$backup" "$(backups)" "before-start script of the same version runs a second time → no further backup"
for day in 1 2 3 4; do touch -d "2026-01-0$day" "$system/var/lib/coatcheck/backups/coatcheck-before-0.$day.db"; done
rm "$system/var/lib/coatcheck/last-version"
before_start
same 3 "$(backups | wc -l)" "before-start script of another version runs while five backups exist → three backups are left"
inside mv /var/lib/coatcheck/data /var/lib/coatcheck/lost
broker coatcheck restore "$backup" --config /etc/coatcheck/coatcheck.yaml --without-endings >"$work/out" 2>&1
matches '^0 .*schema version' "$? $(tr '\n' ' ' <"$work/out")" "coatcheck restore with the backup of the before-start script → exit 0"

step "A version older than the schema is refused"
# newer OFFSET: changes the schema as a later release would; programs that know the version newest + OFFSET can read it
newer() { python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database:
    newest = database.execute("SELECT max(version) FROM schema_version").fetchone()[0]
    database.execute("INSERT INTO schema_version VALUES (?, ?)", (newest + 1, newest + int(sys.argv[2])))' "$database" "$1"; }
newer 0
dpkg_says 0 "downgrade to a version that can read the schema → dpkg succeeds" -i "$(file "$old")"
dpkg_says 0 "package is upgraded again after a downgrade → dpkg succeeds" -i "$(file "$new")"
newer 1
dpkg_says 1 "downgrade to a version that cannot read the schema → dpkg fails" -i "$(file "$old")"
matches 'needs a program that knows its schema .*restore' "$(tr '\n' ' ' <"$work/out")" "refused downgrade → dpkg prints the reason and names restore"
same "1.0.1 installed" "$(version coatcheck)" "refused downgrade → the installed version stays"
python3 -c 'import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as database: database.execute("DELETE FROM schema_version WHERE readable_from > 1")' "$database"

step "An upgrade is refused without space for its backup"
inside mv /var/lib/coatcheck/data /elsewhere
sed -i 's|sqlite:/var/lib/coatcheck/data|sqlite:/elsewhere|' "$system/etc/coatcheck/coatcheck.yaml"
mount -t tmpfs -o size=64k,mode=0700 small "$system/var/lib/coatcheck"
dpkg_says 1 "upgrade without disk space for the backup → dpkg fails" -i "$(file "$new")"
matches 'has [0-9]+ bytes left' "$(cat "$work/out")" "upgrade without disk space for the backup → dpkg prints the free bytes"
umount "$system/var/lib/coatcheck"
inside mv /elsewhere /var/lib/coatcheck/data
sed -i 's|sqlite:/elsewhere|sqlite:/var/lib/coatcheck/data|' "$system/etc/coatcheck/coatcheck.yaml"

step "Removal, second installation, purge"
kept() { (cd "$system" && find etc/coatcheck var/lib/coatcheck -type f | LC_ALL=C sort && cat etc/coatcheck/coatcheck.yaml var/lib/coatcheck/keys.json | sha256sum); }
before=$(kept)
dpkg_says 0 "removal of the package → dpkg succeeds" -r coatcheck
same "$before" "$(kept)" "removal of the package → configuration, key ring, data and backups stay"
same "" "$(inside find /usr /lib/systemd -name 'coatcheck*' -not -path '*/doc/*' 2>/dev/null)" "removal of the package → the package's own files are gone"
dpkg_says 0 "package is installed again after a removal → dpkg succeeds" -i "$(file "$new")"
same "$before" "$(kept)" "package is installed again after a removal → configuration, key ring, data and backups are unchanged"
dpkg_says 0 "purge of the package → dpkg succeeds without a question" -P coatcheck
matches 'Kept.*/var/lib/coatcheck .*/var/lib/coatcheck/keys.json' "$(tr '\n' ' ' <"$work/out")" "purge of the package → dpkg prints the kept paths"
same "" "$(ls "$system/etc/coatcheck" 2>/dev/null)" "purge of the package → the configuration is gone"
same "$ring coatcheck:coatcheck 600" "$(sha256sum <"$system/var/lib/coatcheck/keys.json") $(access /var/lib/coatcheck/keys.json)" "purge of the package → the key ring is unchanged"
same 3 "$(backups | wc -l)" "purge of the package → the backups stay"
dpkg_says 0 "installation after a purge → dpkg succeeds" -i "$(file "$new")"
same "$ring" "$(sha256sum <"$system/var/lib/coatcheck/keys.json")" "installation after a purge → uses the old key ring"
rm "$system/var/lib/coatcheck/keys.json"
dpkg_says 0 "installation while the database exists, but the key ring is missing → dpkg succeeds" -i "$(file "$new")"
same "" "$(ls "$system/var/lib/coatcheck/keys.json" 2>/dev/null)" "installation while the database exists, but the key ring is missing → makes no key ring"

step "The sandbox's package"
dpkg_says 0 "installation of the sandbox's package → dpkg succeeds" -i "$(file "$emulator")"
same "" "$(inside find /etc/systemd -name 'coatcheck*')" "installation of the sandbox's package → no unit is enabled"
same "127.0.0.1:8089" "$(sed -nE 's/^ExecStart=.* --listen ([^ ]+) .*/\1/p' "$system/lib/systemd/system/coatcheck-sandbox.service")" "sandbox's unit → starts the sandbox on loopback"
dpkg_says 0 "purge of the sandbox's package → dpkg succeeds" -P coatcheck-sandbox
same "" "$(inside find / -xdev -name 'coatcheck-sandbox*' -not -path '/packages/*' -not -path '/var/lib/coatcheck/*' -not -path '/var/log/*' -not -path '*/doc/coatcheck/*')" "purge of the sandbox's package → no file of the sandbox is left"
finish
