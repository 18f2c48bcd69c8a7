#!/usr/bin/env bash
# The commands of docs/operate/kubernetes.md, with a substitute for a cluster: each Secret is a folder, one broker on this machine
# is the pod, and `kubectl exec` runs its command on this machine. The real kubectl makes the Secrets, combines the manifests, and
# parses all other commands.
source "$(dirname "$0")/../support/lib.bash"
command -v kubectl >/dev/null || { echo "1..0 # SKIP kubectl is missing"; exit 0; }
page=$root/docs/operate/kubernetes.md
place=$work/operator
cluster=$work/cluster
mkdir -p "$place" "$work/bin" "$cluster" "$work/data"
ln -s "$root/deploy" "$place/deploy"
ln -s "$COATCHECK" "$work/bin/coatcheck"
cat >"$work/bin/kubectl" <<TEXT
#!/usr/bin/env bash
cluster=$cluster work=$work real=$(command -v kubectl)
TEXT
cat >>"$work/bin/kubectl" <<'TEXT'
set -eu
all=("$@")
echo "$*" >>"$cluster/commands"
if [ "$1" = -n ]; then [ "$2" = coatcheck ] || exit 9; shift 2; fi
stored() {
    local files=()
    for entry in "$cluster/secrets/$1"/*; do files+=("--from-file=$entry"); done
    "$real" create secret generic "$1" "${files[@]}" --dry-run=client -o "$2"
}
# store: writes a Secret's entries as files, as a pod sees them, and replaces the folder as a whole, as the kubelet does
store() {
    jq -e '.metadata.namespace == "coatcheck" and .kind == "Secret"' "$cluster/incoming" >/dev/null
    local name
    name=$(jq -r .metadata.name "$cluster/incoming")
    mkdir -p "$cluster/secrets" "$cluster/next"
    for entry in $(jq -r '.data | keys[]' "$cluster/incoming"); do
        jq -r --arg entry "$entry" '.data[$entry]' "$cluster/incoming" | base64 -d >"$cluster/next/$entry"
        chmod 0440 "$cluster/next/$entry"
    done
    rm -rf "$cluster/secrets/$name"
    mv "$cluster/next" "$cluster/secrets/$name"
}
case "$1 $2" in
    "create secret")
        case "$*" in
            *--dry-run=client*) "$real" "${all[@]}" ;;
            *) "$real" "${all[@]}" --dry-run=client -o json >"$cluster/incoming" && store ;;
        esac ;;
    "apply -f")
        if [ "$3" = - ]; then "$PYTHON" -c 'import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)' >"$cluster/incoming" && store; else [ -f "$3" ]; fi ;;
    "apply -k") "$real" kustomize "$3" >"$cluster/all.yaml" ;;
    "get secret") stored "$3" "$5" ;;
    "exec "*)
        shift
        [ "$1" != -i ] || shift
        echo "$1" >>"$cluster/pods"
        [ "$2" = -- ] || exit 9
        shift 2
        words=()
        for word in "$@"; do
            word=${word/#\/etc\/coatcheck\/coatcheck.yaml/$work/coatcheck.yaml}
            words+=("${word/#\/var\/lib\/coatcheck/$work/data}")
        done
        exec "${words[@]}" ;;
    # kubectl refuses a misspelt command or option before it connects. A good command fails only at this closed port.
    *) "$real" --server=http://127.0.0.1:1 "${all[@]}" 2>&1 | grep -q 'connection to the server 127.0.0.1:1 was refused' ;;
esac
TEXT
chmod +x "$work/bin/kubectl"
with_packages
export PYTHON
# pasted TEXT [SED-EXPRESSION]: runs the page's first block after the line TEXT, with values instead of the page's dots
pasted() {
    block_behind "$page" sh "$1" | sed -E "${2:-}; s/ +#.*//" >"$work/block.sh" || { not_ok "docs/operate/kubernetes.md, the section “${1##*# }” → has a block of commands"; return; }
    (cd "$place" && PATH=$work/bin:$PATH bash -e -u -o pipefail "$work/block.sh") >"$work/out" 2>&1 </dev/null
    local status=$?
    same 0 "$status" "docs/operate/kubernetes.md, the commands of the section “${1##*# }” → succeed"
    [ "$status" -eq 0 ] || sed 's/^/#   /' "$work/out"
}

step "The Secrets of the page, and the manifests that mount them"
secret='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'
pasted "## Before the first time" "s|google=…|google=$secret|; s|postgresql://…|postgresql://coatcheck@db/coatcheck|"
same "coatcheck-admin/sha256 coatcheck-clients/google coatcheck-keys/keys.json coatcheck-store/url" \
    "$(cd "$cluster/secrets" && find . -type f -printf '%P\n' | LC_ALL=C sort | paste -sd ' ')" "commands of the page's section “Before the first time” → make four Secrets"
same "coatcheck-admin coatcheck-clients coatcheck-keys coatcheck-store" \
    "$(grep -ohE 'secretName: [a-z-]+' "$cluster/all.yaml" | cut -d' ' -f2 | sort -u | paste -sd ' ')" "manifests of docs/operate/kubernetes.md → mount exactly the four Secrets"
same "$(sha256sum <"$place/admin.token" | cut -c 1-64)" "$(cat "$cluster/secrets/coatcheck-admin/sha256")" "Secret coatcheck-admin → contains only the digest of the admin token"
matches '^[A-Za-z0-9+/]{43}=$' "$(cat "$place/admin.token")" "admin token from the page's commands → is 32 random bytes in Base64"
same "" "$(grep -rlF "$(cat "$place/admin.token")" "$cluster")" "admin token from the page's commands → is stored only outside of the cluster"

step "A broker with these Secrets"
sed -e "s|file: @WORK@/keys.json|file: $cluster/secrets/coatcheck-keys/keys.json|" \
    -e "s|^  admin_tokens:|  admin_tokens:\n    - {name: operator, sha256: $(cat "$cluster/secrets/coatcheck-admin/sha256"), may: [read, end, maintain, configure]}|" \
    "$here/coatcheck.yaml" >"$work/template.yaml"
: >"$work/keys.json"
start_stack "$work/template.yaml"
sign_in oidc ios ana
expect_status 201 "sign-in at a broker with the page's four Secrets → a session"

step "The table of runbooks"
# The commands are in the table's last column. The section's first block defines the words that they use.
block_behind "$page" sh "## Runbooks" >"$work/words.sh"
matches 'alias broker=.*config=' "$(tr '\n' ' ' <"$work/words.sh")" "the first block of the page's section “Runbooks” → defines the alias broker of the page's commands"
sed -n '/^| to | with systemd/,/^$/p' "$page" | tail -n +3 | awk -F' *[|] *' '{ print $4 }' | grep -oE '`[^`]*`' | tr -d '`' \
    | sed -E 's/--subject …/--subject user-ana/; s/--provider …/--provider oidc/; s|kubectl apply -k …|kubectl apply -k deploy/kubernetes/example|' >"$work/cells"
matches '^([89]|[1-9][0-9])$' "$(wc -l <"$work/cells")" "the table of the page's section “Runbooks” → has at least eight commands"
while IFS= read -r line <&3; do
    { echo 'shopt -s expand_aliases'; cat "$work/words.sh"; printf '%s\n' "$line"; } >"$work/line.sh"
    (cd "$place" && PATH=$work/bin:$PATH bash -e -o pipefail "$work/line.sh") >"$work/out" 2>&1 </dev/null
    same 0 $? "page's command \`$line\` → succeeds $(head -c 200 "$work/out")"
    case $line in "broker sessions list"*) matches 'user-ana|oidc' "$(cat "$work/out")" "page's command broker sessions list → shows ana's session" ;; esac
done 3<"$work/cells"
get /v1/session
same "401 admin" "$STATUS $(json .reason)" "page's command broker sessions end → ana's session is ended"
same "deploy/coatcheck" "$(sort -u "$cluster/pods")" "the commands in the table of the page's section “Runbooks” → run in the Deployment's pod"

step "Upgrade"
pasted "### Upgrade"
same 1 "$(grep -c '^kind: Deployment' "$cluster/all.yaml")" "commands of the page's section “Upgrade” → apply the manifests"

step "Rotate the key ring"
sign_in oidc ios ana
ring() { jq -r '.keys | length' "$cluster/secrets/coatcheck-keys/keys.json"; }
keys() { curl -s "$MANAGEMENT/admin/v1/keys" -H "Authorization: Bearer $(cat "$place/admin.token")" | jq -r '.items | length'; }
before=$(ring)
pasted "### Rotate the key ring"
same "$((before + 1))" "$(ring)" "commands of the page's section “Rotate the key ring” → the Secret has one more key"
has_key() { [ "$(keys)" = $((before + 1)) ]; }
wait_for 15 has_key
same 0 $? "commands of the page's section “Rotate the key ring” → the running broker has the new key"
get /v1/session
expect_status 200 "commands of the page's section “Rotate the key ring” → a session from before the rotation is alive"

step "A stolen client secret"
pasted "### A stolen client secret" "s|google=…|google=${secret}2|"
same "${secret}2" "$(cat "$cluster/secrets/coatcheck-clients/google")" "commands of the page's section “A stolen client secret” → the Secret has the new value"
matches 'rollout restart deploy/coatcheck$' "$(tail -1 "$cluster/commands")" "commands of the page's section “A stolen client secret” → the pods restart"

step "Back up SQLite"
pasted "### Back up and restore SQLite"
same "SQLite format 3" "$(head -c 15 "$place/nightly.db" | tr -d '\0')" "commands of the page's section “Back up and restore SQLite” → the copy is a database"
same "" "$(ls "$work/data" | grep nightly)" "commands of the page's section “Back up and restore SQLite” → the volume's copy is removed"
matches 'coatcheck-0' "$(tail -1 "$cluster/pods")" "commands of the page's section “Back up and restore SQLite” → run in the StatefulSet's pod"

step "Broken commands are noticed"
for broken in 's/--dry-run=client/--dry-run=clinet/' 's/-n coatcheck rollout restart/-n coatcheck rollout restrat/' 's/generic coatcheck-clients/coatcheck-clients/' 's/kubectl apply -f -/kubectl apply -f x/'; do
    block_behind "$page" sh "### A stolen client secret" | sed -E "$broken" >"$work/block.sh"
    (cd "$place" && PATH=$work/bin:$PATH bash -e -u -o pipefail "$work/block.sh") >"$work/out" 2>&1 </dev/null
    same 1 "$(($? != 0))" "page's commands with the edit \`$broken\` → fail"
done
finish
