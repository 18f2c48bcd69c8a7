"""The contract that the tests use: openapi.yaml with strict.overlay.yaml applied to it.
    python strict.py > strict.yaml
"""

import pathlib
import re
import sys

import yaml

root = pathlib.Path(__file__).resolve().parents[3]


class Untouched(Exception):
    """Raised if the contract lacks a target of the overlay."""


def steps(target):
    """The names on the way to a target, `$.a.b['c']`."""
    found = re.findall(r"\.([\w-]+)|\['([^']+)'\]", target)
    if "".join(f".{plain}" if plain else f"['{quoted}']" for plain, quoted in found) != target[1:]:
        raise Untouched(f"{target} is no path of names")
    return [plain or quoted for plain, quoted in found]


def merge(node, update):
    """Merges according to the Overlay Specification: objects member by member, lists by appending. All other values are
    replaced."""
    for name, value in update.items():
        if isinstance(value, dict) and isinstance(node.get(name), dict):
            merge(node[name], value)
        elif isinstance(value, list) and isinstance(node.get(name), list):
            node[name] = node[name] + value
        else:
            node[name] = value


def overlaid(contract):
    """Applies the overlay to a parsed contract, and returns it."""
    overlay = yaml.safe_load((root / "Tests/scenarios/support/strict.overlay.yaml").read_text())
    for action in overlay["actions"]:
        node = contract
        for name in steps(action["target"]):
            if not isinstance(node, dict) or name not in node:
                raise Untouched(f"{action['target']}: no {name}")
            node = node[name]
        merge(node, action["update"])
    return contract


def plain():
    return yaml.safe_load((root / "openapi.yaml").read_text())


if __name__ == "__main__":
    yaml.Dumper.ignore_aliases = lambda *_: True
    yaml.dump(overlaid(plain()), sys.stdout, sort_keys=False, allow_unicode=True)
