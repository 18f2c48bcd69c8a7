#!/usr/bin/env bash
# The archive of the images, with the commands of docs/start/without-a-compiler.md: podman loads and runs the images, up to a
# sign-in with curl (`make prove-images`). Everything runs in its own namespaces, because the page has fixed ports. Needs root and
# podman.
#   image-archive.sh FOLDER    the folder with both archives of scripts/dist
source "$(dirname "$0")/../support/lib.bash"
folder=$(realpath "$1")
page=$root/docs/start/without-a-compiler.md
[ "$(id -u)" -eq 0 ] || { echo "Bail out! not root"; exit 1; }
command -v podman >/dev/null || { echo "Bail out! podman is missing: apt-get install podman crun"; exit 1; }
archive=$(ls "$folder"/coatcheck-*-images-*.tar.xz) || give_up "scripts/dist"

step "The archive"
members=$(tar -tf "$archive")
tar -xf "$archive" -C "$work" manifest.json
version=$(sed -nE 's/.*text = "([^"]+)".*/\1/p' "$root/Sources/coatcheck/Version.swift")
same "coatcheck:local coatcheck:$version coatcheck-sandbox:local coatcheck-sandbox:$version" "$(jq -r '[.[].RepoTags[]] | join(" ")' "$work/manifest.json")" "archive of the images → has both images, with compose.yaml's tags"
same 3 "$(jq -r '.[].Layers[]' "$work/manifest.json" | sort -u | wc -l)" "archive of the images → has three layers, of which the images share one"
same "$(jq -r '.[] | .Config, .Layers[]' "$work/manifest.json" | sort -u)" "$(grep -vx manifest.json <<<"$members" | sort)" "archive of the images → has only manifest, configurations and layers"
echo "# $(($(stat -c %s "$archive") / 1048576)) MiB"

step "The commands of the page, up to the first sign-in"
mkdir "$work/here"
ln "$archive" "$folder"/coatcheck-*.tar.gz "$work/here/" 2>/dev/null || cp "$archive" "$folder"/coatcheck-*.tar.gz "$work/here/"
sed -n '/Tests\/scenarios\/apart\/image-archive.sh runs this block/,$p' "$page" >"$work/page.md"
block_behind "$work/page.md" sh 'runs this block' >"$work/here/images.sh" || give_up "the page's block"
block_behind "$root/docs/start/first-login.md" sh '## A login by curl' >"$work/here/login.sh" || give_up "the block of the login"
# A container in a virtual machine may lack the rights to raise limits.
cat >"$work/containers.conf" <<TEXT
[containers]
cgroups = "disabled"
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
TEXT
cat >"$work/inside.sh" <<'TEXT'
set -eu
cd "$1/here"
export CONTAINERS_CONF=$1/containers.conf
if [ "$(stat -f -c %T /sys/fs/cgroup)" != cgroup2fs ]; then umount -l /sys/fs/cgroup && mount -t cgroup2 none /sys/fs/cgroup; fi
ip link set lo up
place=$1
docker() { podman --root "$place/root" --runroot "$place/runroot" "$@"; }
trap 'docker rm -f coatcheck-sandbox >/dev/null 2>&1 || true; docker rm -f coatcheck >/dev/null 2>&1 || true' EXIT
. ./images.sh
for try in $(seq 300); do curl -sf -o /dev/null http://127.0.0.1:8089/_sandbox/health && curl -sf -o /dev/null http://127.0.0.1:8080/v1/providers && break; sleep 0.2; done
. ./login.sh
docker exec coatcheck coatcheck health --config /etc/coatcheck/coatcheck.yaml
echo "uid $(docker exec coatcheck id -u)"
docker stop coatcheck >/dev/null
echo "exit $(docker inspect --format '{{.State.ExitCode}}' coatcheck)"
docker rm -f coatcheck-sandbox >/dev/null
docker rm -f coatcheck >/dev/null
docker volume rm coatcheck
echo "left: $(docker ps --all --quiet)$(docker volume ls --quiet)."
TEXT
begin=$SECONDS
unshare --mount --net --pid --fork --mount-proc --kill-child bash "$work/inside.sh" "$work" >"$work/out" 2>&1 </dev/null
status=$?
same 0 "$status" "commands of docs/start/without-a-compiler.md and docs/start/first-login.md → exit 0"
[ "$status" -eq 0 ] || sed 's/^/#   /' "$work/out"
took=$((SECONDS - begin))
echo "# $took s from the archives to the first sign-in and a stop"
same 1 $((took < 120)) "commands of without-a-compiler.md and first-login.md, from the load of the images to the broker's stop → take less than two minutes"
matches '"provider": "oidc".*204' "$(tr '\n' ' ' <"$work/out")" "commands of docs/start/first-login.md → a user is signed in and out"
matches 'ready .*uid 10001 .*exit 0' "$(tr '\n' ' ' <"$work/out")" "broker's container → is ready, runs as the image's user, and stops with status 0"
matches 'left: \.' "$(cat "$work/out")" "containers and volume are removed → podman's lists are empty"

step "A second archive"
OUT=$work/again "$root/scripts/prove-container" archive "$(dirname "$COATCHECK")" >"$work/again.log" 2>&1 || give_up "scripts/prove-container archive"
same "$(sha256sum <"$archive")" "$(sha256sum <"$work/again/$(basename "$archive")")" "second build of the archive of the images → has the same bytes"
finish
