"""Checks the output of kustomize: the digest of the admin token in each pod, and the ten changes of deploy/kubernetes/example.

  kustomized.py KIND FILE      KIND is sqlite, postgresql or example; a line for each verdict, `ok N - …` or `not ok N - …`
"""

import pathlib
import sys

import kubernetes_validate
import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support.deploy_kubernetes import KUBERNETES, pod_faults  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402

kind, path = sys.argv[1:3]
verdicts = Verdicts()
documents = {(document["kind"], document["metadata"]["name"]): document for document in yaml.safe_load_all(pathlib.Path(path).read_text())}
pods = {name: document["spec"]["template"] for (what, name), document in documents.items() if what in ("Deployment", "StatefulSet", "Job")}
faults = []
for (what, name), document in documents.items():
    if what != "PodMonitor":
        try:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
        except kubernetes_validate.ValidationError as error:
            faults.append(f"{what} {name}: {str(error).splitlines()[0]}")
verdicts.verdict(not faults, f"kustomize build of {kind}, every object → fits its Kubernetes schema", "; ".join(faults))

for name, pod in pods.items():
    spec = pod["spec"]
    volumes = {volume["name"]: volume for volume in spec["volumes"]}
    first, main = spec["initContainers"][0], spec["containers"][0]
    verdicts.verdict(
        volumes["admin"]["secret"]["secretName"] == "coatcheck-admin" and "optional" not in volumes["admin"]["secret"],
        f"kustomize build of {kind}, the pod of {name} → starts only with the Secret of the admin token")
    verdicts.verdict(
        first["image"] == main["image"] and first["securityContext"] == main["securityContext"],
        f"kustomize build of {kind}, the first init container of {name} → has the image and rights of the main container")
    mounted = {mount["name"]: mount["mountPath"] for mount in first["volumeMounts"]}
    generated = [other for what, other in documents if what == "ConfigMap"]
    verdicts.verdict(
        mounted == {"written": "/written", "config": "/etc/coatcheck", "admin": "/run/secrets/coatcheck/admin"}
        and volumes["written"]["configMap"]["name"] in generated and "emptyDir" in volumes["config"],
        f"kustomize build of {kind}, the first init container of {name} → mounts the configuration and the admin token", f"{mounted} {generated}")
configuration = next(document["data"]["coatcheck.yaml"] for (what, _), document in documents.items() if what == "ConfigMap")
verdicts.verdict('sha256: "@ADMIN_SHA256@"' in configuration, f"kustomize build of {kind}, the configuration in the ConfigMap → has a placeholder for the admin token's digest")

if kind == "example":
    broker = documents["Deployment", "coatcheck"]["spec"]["template"]
    container, = broker["spec"]["containers"]
    migrator = pods["coatcheck-migrate"]
    scaler = documents["HorizontalPodAutoscaler", "coatcheck"]["spec"]
    policy = documents["NetworkPolicy", "coatcheck"]["spec"]
    backend = documents["Ingress", "coatcheck"]["spec"]["rules"][0]["http"]["paths"][0]["backend"]["service"]
    volumes = [{volume["name"]: volume for volume in pod["spec"]["volumes"]} for pod in (broker, migrator)]
    images = {other["image"] for pod in pods.values() for other in [*pod["spec"]["initContainers"], *pod["spec"]["containers"]]}
    changes = {
        "1. the image, of all containers": images == {"registry.example.org/mirror/coatcheck:0.2.0"},
        "2. the number of replicas": (scaler["minReplicas"], scaler["maxReplicas"]) == (3, 12),
        "3. resources": container["resources"]["limits"] == {"memory": "1Gi"},
        "4. a Secret of another name": all(found["clients"]["secret"]["secretName"] == "oauth-clients" for found in volumes),
        "5. an Ingress to the Service's port": ("Service", backend["name"]) in documents and backend["port"]["name"] == documents["Service", "coatcheck"]["spec"]["ports"][0]["name"],
        "6. the database's URL, for broker and migration": all(found["store"]["secret"]["items"] == [{"key": "uri", "path": "url"}] for found in volumes),
        "7. the configuration": "10.42.0.0/16" in configuration and len([1 for what, _ in documents if what == "ConfigMap"]) == 1,
        "8. annotations of the pods": broker["metadata"]["annotations"] == {"example.com/team": "sign-in"},
        "9. a PodMonitor": ("PodMonitor", "coatcheck") in documents,
        "10. the network policy": len(policy["ingress"]) == 3 and policy["ingress"][2]["ports"] == [{"port": 8080, "protocol": "TCP"}],
    }
    for change, is_done in changes.items():
        verdicts.verdict(is_done, f"kustomize build of example, the change “{change}” → is made")

# The pods are also checked by the rules for the files of the repository, without the two volumes that these lack.
for (what, name), document in documents.items():
    if what in ("Deployment", "StatefulSet", "Job"):
        document["spec"]["template"]["spec"]["volumes"] = [v for v in document["spec"]["template"]["spec"]["volumes"] if v["name"] not in ("written", "admin")]
        found = pod_faults(document)
        verdicts.verdict(not found, f"kustomize build of {kind}, the pod of {name} → mounts its volumes, and has only the rights that it needs", "; ".join(found))
verdicts.finish()
