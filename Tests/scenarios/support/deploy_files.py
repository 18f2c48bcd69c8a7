"""Checks the files of deploy/ that no test can run: Kubernetes manifests by their schemas, Traefik's and Envoy's files by lists
of their keys (Tests/scenarios/operators/deploy-files.sh).

  deploy_files.py FOLDER            a line for each file, `ok N - …` or `not ok N - …`; FOLDER is deploy or a copy of it
"""

import ctypes
import ctypes.util
import pathlib
import re
import sys

import kubernetes_validate
import yaml

# The minor version of Kubernetes whose schemas are used; every kind here has been stable since 1.25.
KUBERNETES = "1.31"

TRAEFIK = {
    "": {"http"},
    "http": {"routers", "services", "middlewares", "serversTransports"},
    "http.serversTransports.*": {"forwardingTimeouts"},
    "http.serversTransports.*.forwardingTimeouts": {"dialTimeout", "responseHeaderTimeout", "idleConnTimeout"},
    "http.routers.*": {"rule", "entryPoints", "tls", "service", "middlewares", "priority"},
    "http.services.*": {"loadBalancer", "failover", "weighted", "mirroring"},
    "http.services.*.failover": {"service", "fallback", "healthCheck"},
    "http.services.*.loadBalancer": {"servers", "passHostHeader", "responseForwarding", "healthCheck", "sticky", "serversTransport"},
    "http.services.*.loadBalancer.servers[]": {"url", "weight", "preservePath"},
    "http.services.*.loadBalancer.responseForwarding": {"flushInterval"},
    "http.services.*.loadBalancer.healthCheck": {"path", "port", "interval", "timeout", "scheme", "hostname", "headers", "method", "status", "mode", "followRedirects"},
    "http.middlewares.*": {"headers", "forwardAuth", "chain", "retry", "buffering"},
    "http.middlewares.*.retry": {"attempts", "initialInterval"},
    "http.middlewares.*.headers": {"customRequestHeaders", "customResponseHeaders"},
    "http.middlewares.*.forwardAuth": {"address", "trustForwardHeader", "authRequestHeaders", "authResponseHeaders", "authResponseHeadersRegex", "tls"},
}
TRAEFIK_OPEN = {"http.routers.*.tls", "http.middlewares.*.headers.customRequestHeaders", "http.middlewares.*.headers.customResponseHeaders"}

# The keys of each message: by its type if it has one, else by the member that holds it.
ENVOY = {
    "": {"static_resources", "admin"},
    "static_resources": {"listeners", "clusters"},
    "listeners": {"name", "address", "filter_chains"},
    "address": {"socket_address"},
    "socket_address": {"address", "port_value", "protocol"},
    "filter_chains": {"filters", "transport_socket"},
    "filters": {"name", "typed_config", "response_flag_filter", "status_code_filter"},
    "http_filters": {"name", "typed_config"},
    "HttpConnectionManager": {
        "@type", "stat_prefix", "use_remote_address", "normalize_path", "merge_slashes", "path_with_escaped_slashes_action",
        "common_http_protocol_options", "stream_idle_timeout", "local_reply_config", "route_config", "http_filters", "access_log",
    },
    "common_http_protocol_options": {"headers_with_underscores_action", "idle_timeout"},
    "local_reply_config": {"mappers", "body_format"},
    "mappers": {"filter", "status_code", "headers_to_add", "body_format_override", "body"},
    "filter": {"response_flag_filter", "status_code_filter", "and_filter"},
    "and_filter": {"filters"},
    "response_flag_filter": {"flags"},
    "status_code_filter": {"comparison"},
    "comparison": {"op", "value"},
    "value": {"default_value", "runtime_key"},
    "headers_to_add": {"header", "append_action", "key", "value"},
    "header": {"key", "value"},
    "body_format_override": {"content_type", "json_format", "text_format"},
    "route_config": {"virtual_hosts", "name"},
    "virtual_hosts": {"name", "domains", "routes", "request_headers_to_remove"},
    "routes": {"match", "route"},
    "match": {"prefix", "path"},
    "route": {"cluster", "timeout", "host_rewrite_literal", "retry_policy"},
    "retry_policy": {"retry_on", "num_retries", "retry_host_predicate", "host_selection_retry_max_attempts"},
    "retry_host_predicate": {"name", "typed_config"},
    "PreviousHostsPredicate": {"@type"},
    "Router": {"@type"},
    "clusters": {"name", "connect_timeout", "load_assignment", "type", "lb_policy"},
    "load_assignment": {"cluster_name", "endpoints"},
    "endpoints": {"lb_endpoints"},
    "lb_endpoints": {"endpoint"},
    "endpoint": {"address"},
    "HeaderMutation": {"@type", "mutations"},
    "mutations": {"request_mutations"},
    "request_mutations": {"remove_on_match"},
    "remove_on_match": {"key_matcher"},
    "key_matcher": {"safe_regex"},
    "safe_regex": {"regex"},
    "ExtAuthz": {"@type", "failure_mode_allow", "status_on_error", "allowed_headers", "http_service"},
    "status_on_error": {"code"},
    "allowed_headers": {"patterns"},
    "patterns": {"exact", "prefix"},
    "http_service": {"server_uri", "authorization_request", "authorization_response"},
    "server_uri": {"uri", "cluster", "timeout"},
    "authorization_request": {"headers_to_add"},
    "authorization_response": {"allowed_upstream_headers", "allowed_client_headers_on_success"},
    "allowed_upstream_headers": {"patterns"},
    "allowed_client_headers_on_success": {"patterns"},
    "Lua": {"@type", "default_source_code"},
    "default_source_code": {"inline_string"},
}
FLAGS = {"UF", "UH", "UC", "UT", "UR", "UO", "LH", "NR", "DC", "UAEX"}


def filled(path):
    """A recipe with its placeholders filled in, because YAML does not allow an at sign everywhere."""
    return re.sub(r"@[A-Z_]+@", "10.0.0.5", path.read_text())


# The fields that a recipe of forward-auth sends to the broker, and the fields that it hides from the service.
ASKED_WITH = {"cookie", "authorization", "dpop", "coatcheck-pass", "coatcheck-presence"}
KEPT_BACK = {"dpop", "coatcheck-pass", "coatcheck-presence"}
# The demands for single paths, in each recipe.
DEMANDS = {"acr=mfa&max_age=300", "presence=1"}
CONTRACT = yaml.safe_load((pathlib.Path(__file__).resolve().parents[3] / "openapi.yaml").read_text())
IDENTITY = [
    name for name in CONTRACT["paths"]["/v1/forward-auth"]["get"]["responses"]["200"]["headers"] if name.startswith("X-Auth-")]

# These names with any other sign for the first two dashes, because CGI makes the same variable from them.
FORGED = [name.replace("-", sign, 2) for name in IDENTITY for sign in "-_.!#$%&'*+^`|~"]


# The question that Envoy has to ask the broker, by the path of the app's request.
QUESTIONS = {
    "/orders": "/v1/forward-auth", "/orders?next=/payments/": "/v1/forward-auth", "/payments/7": "/v1/forward-auth?acr=mfa&max_age=300",
    "/Payments/7?acr=pwd": "/v1/forward-auth?acr=mfa&max_age=300", "/payments/confirm": "/v1/forward-auth?presence=1"}
# Runs Envoy's script with a request, and returns the resulting request.
CALLER = """
%s
local fields = {[":method"] = "POST", [":path"] = "%s"}
local headers = {get = function(_, name) return fields[name] end, replace = function(_, name, value) fields[name] = value end}
envoy_on_request({headers = function() return headers end})
return fields[":method"] .. " " .. fields[":path"] .. " " .. fields["x-original-method"] .. " " .. fields["x-original-url"]
"""


def run_lua(text):
    """Runs a program in the Lua that HAProxy brings along, and returns its result or its error."""
    lua = ctypes.CDLL(ctypes.util.find_library("lua5.3"))
    lua.luaL_newstate.restype = ctypes.c_void_p
    lua.lua_tolstring.restype = ctypes.c_char_p
    state = ctypes.c_void_p(lua.luaL_newstate())
    try:
        lua.luaL_openlibs(state)
        if lua.luaL_loadstring(state, text.encode()) == 0:
            lua.lua_pcallk(state, 0, 1, 0, ctypes.c_void_p(0), None)
        return (lua.lua_tolstring(state, -1, None) or b"nothing").decode()
    finally:
        lua.lua_close(state)


def envoy_evidence(document):
    """The parts of a bound session's evidence that get lost, or through, between app, broker and service."""
    listeners = {listener["name"]: listener["filter_chains"][0]["filters"][0]["typed_config"] for listener in document["static_resources"]["listeners"]}
    filters = {item["name"].rpartition(".")[2]: item["typed_config"] for listener in listeners.values() for item in listener["http_filters"]}
    asked = {pattern["exact"] for pattern in filters["ext_authz"]["allowed_headers"]["patterns"]}
    faults = [f"asks with {name}, or without" for name in asked ^ ASKED_WITH]
    removed = set(listeners["protected"]["route_config"]["virtual_hosts"][0]["request_headers_to_remove"])
    faults += [f"the service sees {name}" for name in KEPT_BACK - removed]
    script = filters["lua"]["default_source_code"]["inline_string"]
    for path, question in QUESTIONS.items():
        made = run_lua(CALLER % (script, path))
        # By then the placeholder of the origin has its value.
        if made != f"GET {question} POST 10.0.0.5{path}":
            faults.append(f"{path} becomes {made}")
    passed = filters["ext_authz"]["http_service"]["authorization_response"]["allowed_upstream_headers"]["patterns"]
    faults += [f"does not pass {name}" for name in IDENTITY if not any(name.lower().startswith(pattern["prefix"]) for pattern in passed)]
    stripped = filters["header_mutation"]["mutations"]["request_mutations"][0]["remove_on_match"]["key_matcher"]["safe_regex"]["regex"]
    faults += [f"lets the client's {name} through" for name in FORGED if not re.fullmatch(stripped, name.lower())]
    return faults


def traefik_evidence(document):
    middlewares, routers = document["http"]["middlewares"], document["http"]["routers"]
    faults, demanded = [], set()
    for router in routers.values():
        order = router["middlewares"]
        asking = next(name for name in order if "forwardAuth" in middlewares[name])
        settings = middlewares[asking]["forwardAuth"]
        path, _, query = settings["address"].partition("?")
        if not path.endswith("/v1/forward-auth") or (query and "priority" not in router):
            faults.append(f"{asking} asks {path}, or is not asked first")
        demanded.add(query)
        asked = {name.lower() for name in settings["authRequestHeaders"]}
        faults += [f"{asking} asks with {name}, or without" for name in asked ^ ASKED_WITH]
        if settings["trustForwardHeader"] is not False:
            faults.append(f"{asking}: the original request is the client's word")
        matches = re.compile(settings["authResponseHeadersRegex"]).search
        faults += [f"does not pass {name}" for name in IDENTITY if not matches(name)]
        faults += [f"lets the client's {name} through" for name in FORGED if not matches(name)]
        after = [middlewares[name]["headers"] for name in order[order.index(asking) + 1:]]
        removed = {name.lower() for headers in after for name, value in headers["customRequestHeaders"].items() if value == ""}
        faults += [f"the service sees {name}" for name in KEPT_BACK - removed]
    return faults + [f"demands no {demand}" for demand in DEMANDS - demanded]


def envoy_faults(value, place):
    if isinstance(value, list):
        return [fault for item in value for fault in envoy_faults(item, place)]
    if not isinstance(value, dict) or place in ("json_format",):
        return []
    kind = value.get("@type", "").rpartition(".")[2] or place
    faults = [f"{kind}.{key}" for key in value if key not in ENVOY.get(kind, ())]
    if kind == "response_flag_filter":
        faults += [f"flag {flag}" for flag in value.get("flags", []) if flag not in FLAGS]
    for key, member in value.items():
        inner = place if key == "typed_config" else key
        # In a matcher of statuses `value` is a message; in a header it is text, without members.
        faults += envoy_faults(member, inner)
    return faults


def traefik_faults(value, place=""):
    if isinstance(value, list):
        return [fault for item in value for fault in traefik_faults(item, place + "[]")]
    if not isinstance(value, dict) or place in TRAEFIK_OPEN:
        return []
    named = place in ("http.routers", "http.services", "http.middlewares", "http.serversTransports")
    faults = [] if named else [f"{place}.{key}" for key in value if key not in TRAEFIK.get(place, ())]
    for key, member in value.items():
        faults += traefik_faults(member, f"{place}.{'*' if named else key}".lstrip("."))
    return faults


def proxy_faults(path):
    document = yaml.safe_load(filled(path))
    if "static_resources" in document:
        faults = envoy_faults(document, "")
        clusters = {cluster["name"] for cluster in document["static_resources"]["clusters"]}
        used = set(re.findall(r"\bcluster: ([a-z-]+)", path.read_text()))
        faults += envoy_evidence(document) if path.parent.name == "forward-auth" else []
        return faults + [f"no cluster {name}" for name in used - clusters]
    faults = traefik_faults(document) + (traefik_evidence(document) if path.parent.name == "forward-auth" else [])
    services = document["http"]["services"]
    wanted = [router["service"] for router in document["http"]["routers"].values()]
    for service in services.values():
        wanted += [service["failover"][key] for key in ("service", "fallback")] if "failover" in service else []
    return faults + [f"no service {name}" for name in wanted if name not in services]


def kubernetes_faults(path):
    faults = []
    for document in yaml.safe_load_all(path.read_text()):
        if document["kind"] == "Kustomization":
            faults += kustomization_faults(path.parent, document)
            continue
        # Components and monitors have no schema here; kustomize's output shows a component.
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
    # The commands in its comment have to use the namespace that the file names, and to make it first.
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
    """Checks that Prometheus finds the pods, under the job that the rules use."""
    endpoint, = document["spec"]["podMetricsEndpoints"]
    job = {"targetLabel": "job", "replacement": "coatcheck"}
    right = endpoint["port"] == "management" and job in endpoint["relabelings"] and document["spec"]["selector"]["matchLabels"] == {"app.kubernetes.io/name": "coatcheck"}
    return [] if right else ["finds no pods, or under another job"]


def pod_faults(document):
    """Checks a pod beyond its schema: each mount has its volume, each port its name, and no container runs as root."""
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


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    files = [(path, kubernetes_faults) for path in sorted(folder.glob("kubernetes/*/*.yaml")) if path.name != "coatcheck.yaml"]
    files += [(path, proxy_faults) for name in ("proxy", "forward-auth") for path in sorted(folder.glob(f"{name}/*.yaml"))]
    bad = 0
    for number, (path, look) in enumerate(files, 1):
        try:
            faults = look(path)
        except (yaml.YAMLError, KeyError, TypeError, AttributeError) as error:
            faults = [f"{type(error).__name__}: {error}".splitlines()[0]]
        text = path.read_text()
        if path.parent.name == "proxy" and "NOT RUN HERE" not in text:
            faults.append("it is not said that it was not run")
        bad += bool(faults)
        print(f"{'not ok' if faults else 'ok'} {number} - {path.relative_to(folder)}" + (f": {'; '.join(faults)}" if faults else " is in order"))
    sys.exit(bad > 0 or len(files) < 12)
