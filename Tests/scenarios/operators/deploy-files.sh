#!/usr/bin/env bash
# Checks the files of deploy/ that other scripts do not run. The tools are systemd-analyze, the schemas of Kubernetes, lists of
# Traefik's and Envoy's keys, and `coatcheck check`. For each broken copy of a file, a check must fail.
source "$(dirname "$0")/../support/lib.bash"
python=$root/.venv/bin/python
units=$root/deploy/systemd
command -v systemd-analyze >/dev/null || { echo "Bail out! systemd-analyze is missing: scripts/setup test"; exit 1; }

step "The systemd units pass systemd-analyze"
# A root that contains only the files that the units name.
place=$work/system
mkdir -p "$place/etc/systemd/system" "$place/usr/local/bin" "$place/bin" "$place/usr/lib/systemd"
cp -r /lib/systemd/system "$place/usr/lib/systemd/"
ln -s usr/lib "$place/lib"
for program in usr/local/bin/coatcheck bin/sh; do install -m 0755 /bin/true "$place/$program"; done
# verified FOLDER: prints systemd's report about the units there
verified() {
    cp "$1"/coatcheck.service "$1"/coatcheck.socket "$place/etc/systemd/system/"
    systemd-analyze --root="$place" verify "$place/etc/systemd/system/coatcheck.service" "$place/etc/systemd/system/coatcheck.socket" 2>&1
}
same "" "$(verified "$units")" "shipped units → systemd-analyze verify has no complaint"
exposure() { systemd-analyze security --offline=true "$1/coatcheck.service" 2>/dev/null | sed -nE 's/.*exposure level for [^:]*: ([0-9.]+) .*/\1/p'; }
same 1 "$(awk -v level="$(exposure "$units")" 'BEGIN { print level != "" && level <= 3.0 }')" "shipped units → exposure $(exposure "$units") of 10, at most 3.0"
setting() { sed -nE "s/^$1=(.*)/\1/p" "$units/coatcheck.service" | tail -1; }
drain=$(($(sed -nE 's/^ *(drain_delay|shutdown_timeout): ([0-9]+)s.*/\2/p' "$root/deploy/coatcheck.reference.yaml" | paste -sd+)))
same 1 "$(($(setting TimeoutStopSec | tr -d s) > drain))" "service unit's TimeoutStopSec, $(setting TimeoutStopSec) → is longer than a drain ($drain s)"
mkdir "$work/units"
# broken_unit NAME SED-EXPRESSION: checks that systemd-analyze complains about a copy of the unit with this edit
broken_unit() {
    cp "$units"/* "$work/units/"
    sed -i "$2" "$work/units/$1"
    ! cmp -s "$units/$1" "$work/units/$1"
    same 0 $? "copy of the systemd unit $1 with one edit → differs from the shipped unit: $2"
    matches . "$(verified "$work/units")" "copy of the systemd unit $1 with one edit → systemd-analyze complains: $2"
}
broken_unit coatcheck.service 's/^ProtectSystem=strict/ProtectSystem=strickt/'
broken_unit coatcheck.service 's/^ExecStart=.*/ExecStart=coatchek serve/'
broken_unit coatcheck.socket 's/^ListenStream=.*/ListenStream=127.0.0.1:eighty/'
sed 's/^\(Protect\|Private\|Restrict\|System\|Capab\).*//' "$units/coatcheck.service" >"$work/units/coatcheck.service"
same 1 "$(awk -v level="$(exposure "$work/units")" 'BEGIN { print (level > 3.0) }')" "unit without its protections → exposure above 3.0: $(exposure "$work/units")"

# enrolled FILE: prints the users that systemd-sysusers would make from the file, in an empty root
enrolled() { mkdir -p "$work/empty/etc" && systemd-sysusers --root="$work/empty" --dry-run "$1" 2>&1; }
same "coatcheck coatcheck" "$(setting User) $(setting Group)" "service unit → runs as user and group coatcheck"
matches "Creating user 'coatcheck'" "$(enrolled "$units/coatcheck.sysusers")" "shipped sysusers file → makes the user coatcheck"
sed 's/^u coatcheck/u cloakroom/' "$units/coatcheck.sysusers" >"$work/units/coatcheck.sysusers"
same "" "$(enrolled "$work/units/coatcheck.sysusers" | grep "'coatcheck'")" "sysusers file with another user's name → does not make the user coatcheck"

step "The broker uses only system calls on the unit's list"
start_stack
kill_broker TERM
allowed() {
    systemd-analyze syscall-filter "$1" | sed '1d' | tr -d ' ' | while read -r name; do
        case $name in "" | \#*) ;; @*) allowed "$name" ;; *) echo "$name" ;; esac
    done
}
allowed @system-service | sort -u >"$work/allowed"
# This broker runs as root, so SQLite gives its files to the owner of the database, with fchown.
allowed @privileged | grep -vx fchown | sort -u >"$work/forbidden"
strace -f -qq -e trace=all -o "$work/calls" "$COATCHECK" serve --config "$work/coatcheck.yaml" >>"$work/broker.log" 2>&1 &
tracer=$!
pids+=("$tracer")
wait_for 60 curl -sf "$MANAGEMENT/readyz" || give_up "the broker"
device traced
sign_in oidc ios ana
expect_status 201 "sign-in at a broker under strace → a session"
request GET /v1/relay/api/private/echo
broker_of() { pgrep -P "$tracer" | head -1; }
kill -HUP "$(broker_of)"
request DELETE /v1/session
kill -TERM "$(broker_of)"
wait "$tracer"
sed -nE 's/^[0-9]+ +([a-z0-9_]+)\(.*/\1/p' "$work/calls" | sort -u >"$work/called"
same "" "$(comm -23 "$work/called" <(comm -23 "$work/allowed" "$work/forbidden") | tr '\n' ' ')" "traced broker → $(wc -l <"$work/called") different calls, and all of them on the unit's SystemCallFilter"
same "" "$(sed -nE 's/.*socket\((AF_[A-Z0-9]+).*/\1/p' "$work/calls" | sort -u | grep -vxE 'AF_(INET|INET6|UNIX|NETLINK)' | tr '\n' ' ')" "traced broker → uses only the allowed address families"
same 0 "$(grep -cE 'm(map|protect)\(.*PROT_WRITE\|PROT_EXEC' "$work/calls")" "traced broker → has no memory that is both writable and executable"

step "Kubernetes, Traefik and Envoy"
"$python" "$root/Tests/scenarios/support/deploy_files.py" "$root/deploy" >"$work/files.out" 2>"$work/files.err"
take_over <"$work/files.out"
# broken_file FILE SED-EXPRESSION: checks that a check names the file if its copy has this edit
broken_file() {
    rm -rf "$work/deploy"
    cp -r "$root/deploy" "$work/deploy"
    sed -i "$2" "$work/deploy/$1"
    ! cmp -s "$root/deploy/$1" "$work/deploy/$1" || not_ok "edit of a copy of $1 → changes the copy: $2"
    same "$1" "$("$python" "$root/Tests/scenarios/support/deploy_files.py" "$work/deploy" 2>/dev/null | sed -nE 's/^not ok [0-9]+ - ([^:]*):.*/\1/p' | head -1)" "copy of $1 with one edit → the check of the files names this file: $2"
}
broken_file kubernetes/postgresql/deployment.yaml 's/readinessProbe:/readynessProbe:/'
broken_file kubernetes/postgresql/deployment.yaml 's/terminationGracePeriodSeconds: .*/terminationGracePeriodSeconds: 20/'
broken_file kubernetes/postgresql/migrate.yaml 's/backoffLimit: 6/backoffLimit: six/'
broken_file kubernetes/postgresql/horizontalpodautoscaler.yaml 's/minReplicas: 2/minReplicas: two/'
broken_file kubernetes/postgresql/poddisruptionbudget.yaml 's/maxUnavailable:/maxUnavailabel:/'
broken_file kubernetes/postgresql/kustomization.yaml 's/deployment.yaml/deploiment.yaml/'
broken_file kubernetes/sqlite/statefulset.yaml 's/replicas: 1/replicas: 3/'
broken_file kubernetes/sqlite/kustomization.yaml '/statefulset.yaml/d'
broken_file kubernetes/sqlite/kustomization.yaml 's/kubectl -n coatcheck create/kubectl create/'
broken_file kubernetes/postgresql/kustomization.yaml '/base.namespace.yaml/d'
broken_file kubernetes/postgresql/kustomization.yaml '/create secret generic coatcheck-admin/d'
broken_file kubernetes/example/podmonitor.yaml 's/replacement: coatcheck/replacement: pods/'
broken_file kubernetes/example/ingress.yaml 's/pathType:/pathKind:/'
broken_file kubernetes/base/networkpolicy.yaml 's/policyTypes: .*/policyTypes: Ingress/'
broken_file kubernetes/base/service.yaml 's/targetPort:/targetport:/'
broken_file kubernetes/base/serviceaccount.yaml 's/automountServiceAccountToken: false/automountServiceAccountToken: never/'
broken_file proxy/traefik.yaml 's/passHostHeader/passHostHeaders/'
broken_file proxy/envoy.yaml 's/merge_slashes/merges_slashes/'
broken_file forward-auth/traefik.yaml 's/authRequestHeaders/authRequestHeader/'
broken_file forward-auth/traefik.yaml 's/, DPoP, Coatcheck-Pass, /, DPoP, /'
broken_file forward-auth/traefik.yaml 's/?acr=mfa&max_age=300//'
broken_file forward-auth/traefik.yaml '/priority: 1000/d'
broken_file forward-auth/traefik.yaml 's/(auth|coatcheck)/(auths|coatcheck)/'
broken_file forward-auth/traefik.yaml 's/\[^a-z0-9\]/[-_.]/g'
broken_file forward-auth/envoy.yaml 's/\[^a-z0-9\]/[-_.]/g'
broken_file proxy/traefik.yaml 's/dialTimeout/dialTimeouts/'
broken_file proxy/envoy.yaml 's/num_retries/retries/'
broken_file forward-auth/traefik.yaml 's/trustForwardHeader: false/trustForwardHeader: true/'
broken_file forward-auth/traefik.yaml 's/coatcheck, coatcheck-evidence\]/coatcheck]/'
broken_file forward-auth/envoy.yaml 's/failure_mode_allow/failure_mode_allowed/'
broken_file forward-auth/envoy.yaml 's/{exact: dpop}, //'
broken_file forward-auth/envoy.yaml 's/, coatcheck-pass, dpop\]/, coatcheck-pass]/'
broken_file forward-auth/envoy.yaml '/"x-original-url"/d'
broken_file forward-auth/envoy.yaml 's/"?acr=mfa&max_age=300"/""/'
broken_file forward-auth/envoy.yaml 's/ \.\. demand)/)/'
broken_file forward-auth/envoy.yaml 's/{exact: coatcheck-pass}, {exact: coatcheck-presence}/{exact: coatcheck-pass}/'
broken_file forward-auth/envoy.yaml 's/prefix: x-auth-}/prefix: x-auth-s}/'
broken_file forward-auth/envoy.yaml 's/ coatcheck-presence,//'
broken_file forward-auth/traefik.yaml '/Coatcheck-Presence/d'

same "coatcheck management" "$("$python" -c 'import sys, yaml
job = yaml.safe_load(open(sys.argv[1]))["scrape_configs"][0]
print(job["job_name"], next(r["regex"] for r in job["relabel_configs"] if "port_name" in r.get("source_labels", [""])[0]))' "$root/deploy/prometheus/kubernetes.yaml")" "Prometheus configuration → finds pods by the management port, with the job coatcheck"
same 2 "$(grep -l 'name: management, containerPort' "$root"/deploy/kubernetes/*/*.yaml | wc -l)" "Kubernetes manifests → both kinds of pod have the management port"
if command -v kubectl >/dev/null; then
    for kind in postgresql sqlite example; do
        kubectl kustomize "$root/deploy/kubernetes/$kind" >"$work/all.yaml" 2>"$work/kustomize.err"
        same 0 $? "kubectl kustomize $kind → exit 0 $(head -1 "$work/kustomize.err")"
        same "coatcheck" "$("$python" -c 'import sys, yaml
print(" ".join(sorted({d["metadata"]["name"] if d["kind"] == "Namespace" else d["metadata"].get("namespace", "none") for d in yaml.safe_load_all(open(sys.argv[1]))})))' "$work/all.yaml")" "kustomize build of $kind → all objects are in the namespace coatcheck"
        same 1 "$(grep -c '^kind: Namespace' "$work/all.yaml")" "kustomize build of $kind → makes its namespace once"
        "$python" "$root/Tests/scenarios/support/kustomized.py" "$kind" "$work/all.yaml" >"$work/kustomized.out" 2>&1
        same 0 $? "kustomize build of $kind → the combined manifests pass the checks of kustomized.py"
        take_over < <(grep -E '^(ok|not ok) ' "$work/kustomized.out")
    done
else
    echo "# no kubectl here: the manifests are not put together"
fi

step "The manifests' configurations, with mounted Secrets"
# secret NAME FILE CONTENT: makes a folder as Kubernetes mounts a Secret: links into a folder whose files have mode 0440
secret() {
    mkdir -p "$work/secrets/$1/..data.1"
    ln -sfn ..data.1 "$work/secrets/$1/..data"
    printf %s "$3" >"$work/secrets/$1/..data.1/$2"
    chmod 0440 "$work/secrets/$1/..data.1/$2"
    ln -sfn "..data/$2" "$work/secrets/$1/$2"
}
secret keys keys.json "$(cat "$work/keys.json")"
secret clients google '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'
secret admin sha256 "$(openssl rand -base64 32 | tr -d '\n' | sha256sum | cut -c 1-64)"
secret store url 'postgresql://coatcheck@127.0.0.1/coatcheck'
for kind in postgresql sqlite example; do
    sed "s|/run/secrets/coatcheck|$work/secrets|" "$root/deploy/kubernetes/$kind/coatcheck.yaml" >"$work/manifest.yaml"
    "$COATCHECK" check --config "$work/manifest.yaml" >"$work/check.out" 2>&1
    matches '^1 .*sha256: has to be a SHA-256' "$? $(tr '\n' ' ' <"$work/check.out")" "configuration of $kind without the digest of an admin token → check fails"
    # The command of the pod's init container writes the digest into the configuration.
    mkdir -p "$work/pod"
    "$python" -c 'import sys, yaml
component = yaml.safe_load(open(sys.argv[1]))
print(yaml.safe_load(component["patches"][0]["patch"])[-1]["value"][0]["args"][0])' "$root/deploy/kubernetes/admin-token/kustomization.yaml" \
        | sed "s|/run/secrets/coatcheck/admin|$work/secrets/admin|; s|/written/coatcheck.yaml|$work/manifest.yaml|; s|/etc/coatcheck/|$work/pod/|" >"$work/pod.sh"
    sh -ec "$(cat "$work/pod.sh")" 2>"$work/check.out"
    mv "$work/pod/coatcheck.yaml" "$work/manifest.yaml"
    "$COATCHECK" check --config "$work/manifest.yaml" >"$work/check.out" 2>&1
    same 0 $? "configuration of $kind with the digest of an admin token → check succeeds: $(tail -1 "$work/check.out")"
    sed -i 's/public_url/publc_url/' "$work/manifest.yaml"
    "$COATCHECK" check --config "$work/manifest.yaml" >"$work/check.out" 2>&1
    same 1 $? "configuration of $kind with a misspelt key → check fails"
done
finish
