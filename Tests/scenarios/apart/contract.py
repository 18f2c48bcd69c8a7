"""Checks openapi.yaml itself. It must be valid OpenAPI 3.1, in a form that client generators accept. With the strict rules of
strict.overlay.yaml, every example fits its schema, and every answer's description names its possible codes. The two closed
lists (problem codes, reasons of an ended session) equal those in the sources and in docs/problems.md.
    python contract.py
"""

import pathlib
import re
import sys

import jsonschema
from openapi_spec_validator import validate
from referencing import Registry, Resource
from referencing.jsonschema import DRAFT202012

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import strict  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402

root = pathlib.Path(__file__).resolve().parents[3]
loose = strict.plain()
contract = strict.overlaid(strict.plain())
registry = Registry().with_resource("urn:contract", Resource(contents=contract, specification=DRAFT202012))
verdicts = Verdicts()
say = verdicts.verdict


def absolute(schema):
    if isinstance(schema, dict):
        return {k: "urn:contract" + v if k == "$ref" else absolute(v) for k, v in schema.items()}
    return [absolute(item) for item in schema] if isinstance(schema, list) else schema


def resolve(node):
    while "$ref" in node:
        target = contract
        for part in node["$ref"][2:].split("/"):
            target = target[part]
        node = target
    return node


def examples_fit(content, where):
    examples = [content["example"]] if "example" in content else []
    examples += [resolve(example)["value"] for example in content.get("examples", {}).values()]
    for example in examples:
        errors = list(jsonschema.Draft202012Validator(absolute(content["schema"]), registry=registry).iter_errors(example))
        say(not errors, f"{where}, the example → fits the schema", errors[0].message[:200] if errors else "")


for name, document in (("openapi.yaml", loose), ("openapi.yaml with its strict rules", contract)):
    try:
        validate(document)
        say(True, f"{name} → valid OpenAPI 3.1")
    except Exception as error:  # noqa: BLE001 - whatever is wrong, it is wrong
        say(False, f"{name} → valid OpenAPI 3.1", str(error)[:300])


def walk(node, where=""):
    """Yields every schema keyword of a document, with its place."""
    if isinstance(node, dict):
        for name, value in node.items():
            yield where, name, value
            yield from walk(value, f"{where}/{name}")
    elif isinstance(node, list):
        for index, item in enumerate(node):
            yield from walk(item, f"{where}/{index}")


# Keywords that make generators leave out a type or invent one.
hard = [f"{where}/{name}" for where, name, _ in walk(loose) if name in ("allOf", "anyOf", "not", "if", "unevaluatedProperties")]
say(not hard, "openapi.yaml → has no construct on which generators fail", ", ".join(hard[:5]))
problems = [value["schema"] for _, name, value in walk(loose) if name == "application/problem+json"]
odd = [schema for schema in problems if schema != {"$ref": "#/components/schemas/Problem"}]
say(bool(problems) and not odd, f"openapi.yaml's {len(problems)} problem answers → are plain references", str(odd[0]) if odd else "")

operations = set()
for path, item in contract["paths"].items():
    for method, operation in item.items():
        if not isinstance(operation, dict) or "responses" not in operation:
            continue
        name = f"{method.upper()} {path}"
        say(operation["operationId"] not in operations, f"operation {name} → has a unique operationId")
        operations.add(operation["operationId"])
        for content in operation.get("requestBody", {}).get("content", {}).values():
            examples_fit(content, name)
        for status, response in operation["responses"].items():
            response = resolve(response)
            missing = "X-Request-Id" not in response.get("headers", {})
            if missing:
                say(False, f"{name} {status}, the answer → has X-Request-Id")
            for media, content in response.get("content", {}).items():
                examples_fit(content, f"{name} {status}")
                if media == "application/problem+json" and status[0] in "45" and "properties" in content["schema"]:
                    rule = content["schema"]["properties"]
                    if str(rule["status"]["const"]) != status:
                        say(False, f"{name} {status}, the answer's rule in strict.overlay.yaml → has the status {status}")
                    unnamed = [code for code in rule["code"]["enum"] if f"`{code}`" not in response["description"]]
                    if unnamed:
                        say(False, f"{name} {status}, the answer's description → names the codes that strict.overlay.yaml lists", ", ".join(unnamed))
                elif media == "application/problem+json" and not response["description"].startswith("`invalid_request`, `invalid_grant`"):
                    say(False, f"{name} {status}, the problem answer → has a list of codes in strict.overlay.yaml")


def answers(document):
    """Yields every schema node that an answer can reach in a document, with its place."""
    todo = []
    for path, item in document["paths"].items():
        for method, operation in item.items():
            for status, response in operation.get("responses", {}).items() if isinstance(operation, dict) else ():
                response = found(document, response)
                for part in list(response.get("content", {}).values()) + list(response.get("headers", {}).values()):
                    todo.append((f"{method.upper()} {path} {status}", found(document, part).get("schema", {})))
    seen = set()
    while todo:
        where, node = todo.pop()
        if "$ref" in node:
            where, node = node["$ref"].rpartition("/")[2], found(document, node)
        if id(node) in seen:
            continue
        seen.add(id(node))
        yield where, node
        for name, child in node.get("properties", {}).items():
            todo.append((f"{where}.{name}", child))
        todo += [(where, child) for child in node.get("oneOf", [])]
        todo += [(f"{where}.{name}", node[name]) for name in ("items", "additionalProperties") if isinstance(node.get(name), dict)]


def found(document, node):
    """Returns the node, or the target of its reference."""
    while "$ref" in node:
        reference, node = node["$ref"], document
        for part in reference[2:].split("/"):
            node = node[part]
    return node


# /v1 may get more members and values later, so a generated client has to accept new ones in an answer. There are two exceptions:
# `outcome` distinguishes two answers of one call, and /livez has only one value.
apart = {"RegistrationRequired.outcome", "GET /livez 200.status"}
shut = [where for where, node in answers(loose) if node.get("additionalProperties") is False]
say(not shut, "every answer in openapi.yaml → allows members that a later version adds", ", ".join(shut))
shut = [where for where, node in answers(loose) if ("enum" in node or "const" in node) and where not in apart]
say(not shut, "every text in an answer of openapi.yaml → allows values that a later version adds", ", ".join(shut))
# The strict rules list every value, and the contract's descriptions have to name it.
open_words = {where: node for where, node in answers(loose)}
words = {where: node for where, node in answers(contract) if "enum" in node and where in open_words}
unsaid = [f"{where}: {word}" for where, node in words.items() for word in node["enum"] if f"`{word}`" not in node.get("description", "")]
say(len(words) >= 15 and not unsaid, f"{len(words)} texts whose values strict.overlay.yaml lists → the descriptions name all values", ", ".join(unsaid[:8]))
session = dict(contract["components"]["examples"]["Session"]["value"], more={"of": "it"})
problem = {"type": "urn:coatcheck:problem:device_unknown", "title": "t", "status": 401, "code": "device_unknown", "detail": "d",
           "request_id": "req_AAAAAAAAAAA", "reason": "moved", "more": 1}
for name, value in (("Session", session), ("Problem", problem)):
    for document, fits in ((loose, True), (contract, False)):
        schema = {"$ref": f"urn:contract#/components/schemas/{name}"}
        resource = Resource(contents={"components": absolute(document["components"])}, specification=DRAFT202012)
        rules = Registry().with_resource("urn:contract", resource)
        good = not list(jsonschema.Draft202012Validator(schema, registry=rules).iter_errors(value))
        say(good == fits, f"a {name} with an additional member, code and reason → {'fits openapi.yaml' if fits else 'does not fit strict.overlay.yaml'}")


def swift_cases(path):
    """The raw values of a Swift string enum."""
    values = []
    for line in (root / path).read_text().splitlines():
        if match := re.match(r"\s*case (.+)$", line):
            for case in match.group(1).split(","):
                named = re.match(r'\s*(\w+)(?:\s*=\s*"([^"]+)")?', case)
                values.append(named.group(2) or named.group(1))
    return values


# Only the broker itself sees these reasons. In answers, `EndReason.shown` replaces them by others.
inside = {"logged_out_in_browser", "exported"}
for schema, path in (("ProblemCode", "Sources/Broker/Basics/ProblemCode.swift"), ("EndReason", "Sources/Broker/Sessions/EndReason.swift")):
    documented, written = contract["components"]["schemas"][schema]["enum"], [case for case in swift_cases(path) if case not in inside]
    say(sorted(documented) == sorted(written), f"{schema} → has the same values in the contract and in {path}",
        ", ".join(sorted(set(documented) ^ set(written))))

described = set(re.findall(r"^### `(\w+)`", (root / "docs/problems.md").read_text(), re.M))
codes = set(contract["components"]["schemas"]["ProblemCode"]["enum"])
say(described == codes, "docs/problems.md → has a paragraph for every code", ", ".join(sorted(described ^ codes)))

# The reasons of an ended session are in several places. Each of them has to have every reason.
reasons = set(contract["components"]["schemas"]["EndReason"]["enum"])
section = re.search(r"^### `session_ended`\n(.*?)^### ", (root / "docs/problems.md").read_text(), re.M | re.S)[1]
tabled = set(re.findall(r"^\| `(\w+)` \|", section, re.M))
say(tabled == reasons, "docs/problems.md, the table of reasons → has exactly the reasons of EndReason", ", ".join(sorted(tabled ^ reasons)))
described = set(re.findall(r"`(\w+)`", loose["components"]["schemas"]["EndReason"]["description"]))
say(described == reasons, "EndReason's description in openapi.yaml → names exactly the reasons that strict.overlay.yaml lists", ", ".join(sorted(described ^ reasons)))
listed = set(contract["components"]["schemas"]["Problem"]["properties"]["reason"]["enum"])
say(reasons <= listed, "Problem.reason in strict.overlay.yaml → has every reason of EndReason", ", ".join(sorted(reasons - listed)))
fields = {"tokens", "legacy"}
described = set(re.findall(r"`(\w+)`", loose["components"]["schemas"]["Problem"]["properties"]["reason"]["description"])) - codes - fields - {"EndReason"}
say(described == listed, "the description of Problem.reason in openapi.yaml → names exactly the reasons that strict.overlay.yaml lists", ", ".join(sorted(described ^ listed)))
for path in ("Sources/Broker/SignIn/ImportEnd.swift", "Sources/Broker/SignIn/ImportRefusal.swift"):
    written = set(swift_cases(path))
    say(written and written <= listed, f"Problem.reason in strict.overlay.yaml → has every reason in {path}", ", ".join(sorted(written - listed)))
# After these reasons, the broker also ends the provider's session.
function = re.search(r"func endsProvidersSession.*?: true\n", (root / "Sources/Broker/Upkeep/Revocations.swift").read_text(), re.S)[0]
values = dict(re.findall(r'case (\w+) = "(\w+)"', (root / "Sources/Broker/Sessions/EndReason.swift").read_text()))
ending = {values.get(case, case) for case in re.findall(r"\.(\w+)(?=[,:])", function)}
sentence = re.search(r"makes the call only for the reasons ([^.]+)\.", (root / "docs/decisions/0013-end-session.md").read_text())[1]
decided = set(re.findall(r"`(\w+)`", sentence))
say(decided == ending, "decision 13, the reasons to end the provider's session → are exactly those of Revocations.swift", ", ".join(sorted(decided ^ ending)))

sources = {path.name for path in (root / "Sources").rglob("*.swift")}
for page in ("a-login-step-by-step.md", "providers/adding-a-provider.md"):
    named = set(re.findall(r"[A-Za-z]+(?:\+[A-Za-z]+)?\.swift", (root / "docs" / page).read_text()))
    say(named <= sources, f"docs/{page} → names files that exist", ", ".join(sorted(named - sources)))

verdicts.finish()
