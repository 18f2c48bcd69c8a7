"""Checks of the forward-auth recipes for Envoy and Traefik: fields of a session's evidence that are lost, or that reach the
service."""

import ctypes
import ctypes.util
import pathlib
import re

import yaml

# The fields that a recipe of forward-auth sends to the broker, and the fields that it hides from the service.
ASKED_WITH = {"cookie", "authorization", "dpop", "coatcheck-pass", "coatcheck-presence"}
KEPT_BACK = {"dpop", "coatcheck-pass", "coatcheck-presence"}
# The conditions that each recipe has for single paths.
DEMANDS = {"acr=mfa&max_age=300", "presence=1"}
CONTRACT = yaml.safe_load((pathlib.Path(__file__).resolve().parents[3] / "openapi.yaml").read_text())
IDENTITY = [
    name for name in CONTRACT["paths"]["/v1/forward-auth"]["get"]["responses"]["200"]["headers"] if name.startswith("X-Auth-")]
# These names with each possible character for the first two dashes, because CGI makes the same variable of all of them.
FORGED = [name.replace("-", sign, 2) for name in IDENTITY for sign in "-_.!#$%&'*+^`|~"]
# The question that Envoy has to ask the broker, for each path of the app's request.
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
    """Runs a program in the Lua of HAProxy, and returns its result or its error."""
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
    """The parts of a bound session's evidence that are lost between app, broker and service, or that reach the service."""
    listeners = {listener["name"]: listener["filter_chains"][0]["filters"][0]["typed_config"] for listener in document["static_resources"]["listeners"]}
    filters = {item["name"].rpartition(".")[2]: item["typed_config"] for listener in listeners.values() for item in listener["http_filters"]}
    asked = {pattern["exact"] for pattern in filters["ext_authz"]["allowed_headers"]["patterns"]}
    faults = [f"asks with {name}, or without" for name in asked ^ ASKED_WITH]
    removed = set(listeners["protected"]["route_config"]["virtual_hosts"][0]["request_headers_to_remove"])
    faults += [f"the service sees {name}" for name in KEPT_BACK - removed]
    script = filters["lua"]["default_source_code"]["inline_string"]
    for path, question in QUESTIONS.items():
        made = run_lua(CALLER % (script, path))
        # At this point, the placeholder of the origin has its value.
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
