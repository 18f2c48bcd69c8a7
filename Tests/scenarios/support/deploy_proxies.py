"""Checks of Traefik's and Envoy's files by lists of their keys."""

import re

import yaml

from deploy_evidence import envoy_evidence, traefik_evidence

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
# The keys of each message. A message is identified by its type, or else by the member that contains it.
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
        # In a matcher of statuses, `value` is a message. In a header, it is a text without members.
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
