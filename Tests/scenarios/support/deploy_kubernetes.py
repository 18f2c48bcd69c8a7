"""Checks of the Kubernetes manifests: their schemas, and the parts of a pod that must match each other."""

import re

import kubernetes_validate
import yaml

# The version of Kubernetes whose schemas are used. All kinds that are used here are stable since 1.25.
KUBERNETES = "1.31"


def kubernetes_faults(path):
    faults = []
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] == "Kustomization":
            faults += kustomization_faults(path.parent, document)
            continue
        # Components and monitors have no schema here. The output of kustomize shows the components.
        if document["kind"] == "Component":
            continue
        if document["kind"] == "PodMonitor":
            faults += monitor_faults(document)
            continue
        try:
            kubernetes_validate.validate(document, KUBERNETES, strict=True)
        except (kubernetes_validate.ValidationError, kubernetes_validate.InvalidSchemaError, kubernetes_validate.SchemaNotFoundError) as error:
            faults.append(str(error).splitlines()[0])
        faults += pod_faults(document)
    return faults


def kustomization_faults(folder, document):
    known = {"apiVersion", "kind", "namespace", "resources", "components", "patches", "labels", "configMapGenerator", "images"}
    faults = [f"kustomization: {key}" for key in document if key not in known]
    files = [*document.get("resources", []), *document.get("components", [])]
    files += [name for generator in document.get("configMapGenerator", []) for name in generator["files"]]
    faults += [f"no {name}" for name in files if not (folder / name).exists()]
    # The commands in the file's comment have to use the namespace that the file names, and to make it first.
    if space := document.get("namespace"):
        typed = re.findall(r"^#   kubectl (.*)", (folder / "kustomization.yaml").read_text(), re.M)
        faults += [f"no namespace: kubectl {line}" for line in typed if not line.startswith(("-n " + space + " ", "apply -f "))]
        secrets = {name for other in folder.glob("*.yaml") for name in re.findall(r"secretName: (coatcheck-\S+?)[,} ]", other.read_text())}
        if folder.name != "example":
            faults += [f"nothing says how the Secret {name} is made" for name in secrets | {"coatcheck-admin"} if not any(f" {name} " in line for line in typed)]
        base = yaml.safe_load((folder / "../base/namespace.yaml").read_text())
        if base["metadata"]["name"] != space or not any("base/namespace.yaml" in line for line in typed):
            faults.append(f"nothing makes the namespace {space}")
    listed = {name for name in files if name.endswith(".yaml")} | {"kustomization.yaml"}
    return faults + [f"{path.name} is not listed" for path in folder.glob("*.yaml") if path.name not in listed]


def monitor_faults(document):
    """Returns a fault if Prometheus would not find the pods with the job that the rules use."""
    endpoint, = document["spec"]["podMetricsEndpoints"]
    job = {"targetLabel": "job", "replacement": "coatcheck"}
    right = endpoint["port"] == "management" and job in endpoint["relabelings"] and document["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/name": "coatcheck"}
    return [] if right else ["finds no pods, or under another job"]


def pod_faults(document):
    """Checks a pod in addition to its schema: its mounts match its volumes, its probes use its ports, and it has no needless
    rights.
    """
    template = document.get("spec", {}).get("template") if document["kind"] in ("Deployment", "StatefulSet", "Job") else None
    if not template:
        return []
    spec = template["spec"]
    volumes = {volume["name"] for volume in spec["volumes"]} | {c["metadata"]["name"] for c in document["spec"].get("volumeClaimTemplates", [])}
    faults = []
    if not spec["securityContext"].get("runAsNonRoot") or spec["securityContext"].get("runAsUser") != 10001:
        faults.append("runs as root, or as another user than the image's")
    for container in spec["containers"]:
        mounted = {mount["name"] for mount in container["volumeMounts"]}
        faults += [f"mounts {name}, which is no volume" for name in mounted - volumes] + [f"{name} is mounted nowhere" for name in volumes - mounted]
        ports = {port["name"] for port in container.get("ports", [])}
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            if document["kind"] != "Job" and container.get(probe, {}).get("httpGet", {}).get("port") not in ports:
                faults.append(f"{probe} asks no port of the container")
        security = container["securityContext"]
        if security != {"allowPrivilegeEscalation": False, "readOnlyRootFilesystem": True, "capabilities": {"drop": ["ALL"]}}:
            faults.append("the container may more than it needs")
    if document["kind"] != "Job":
        # The folder's configuration sets the length of a drain.
        if spec["terminationGracePeriodSeconds"] < 5 + 30 + 10:
            faults.append("the grace period is shorter than the drain")
    if document["kind"] == "StatefulSet" and document["spec"]["replicas"] != 1:
        faults.append("SQLite is one process")
    return faults
