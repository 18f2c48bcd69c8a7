"""Checks that each fault of Tests/mutants can still be planted: its text occurs exactly once in its file.

Each suite of a fault is a part of a test type's name, and its script exists.

    python3 scripts/lint.d/mutants.py
"""

import pathlib
import re
import sys
import tomllib

root = pathlib.Path(__file__).resolve().parents[2]
lists = sorted((root / "Tests/mutants").glob("*.toml"))
tests = "\n".join(path.read_text() for path in sorted((root / "Tests").glob("*Tests/**/*.swift")))
types = " ".join(re.findall(r"\b(?:struct|enum|class|actor) (\w+)", tests))


def faults(path):
    """Yields each fault of a list that cannot be planted or seen."""
    for mutant in tomllib.loads(path.read_text())["mutant"]:
        for change in mutant.get("change", [mutant]):
            file = root / change["file"]
            count = file.read_text().count(change["find"]) if file.is_file() else 0
            if count != 1:
                yield f"{path.name}: {mutant['name']}: its text is in {change['file']} {count} times"
        for suite in filter(None, mutant.get("suites", "").split("|")):
            if suite not in types:
                yield f"{path.name}: {mutant['name']}: no test type has {suite} in its name"
        if "script" in mutant and not (root / "Tests/scenarios" / mutant["script"]).is_file():
            yield f"{path.name}: {mutant['name']}: {mutant['script']} is missing"


wrong = [line for path in lists for line in faults(path)]
if len(lists) < 2:
    sys.exit(f"lint: only {len(lists)} lists of faults were found")
for line in wrong:
    print(line)
if wrong:
    print("lint: a fault cannot be planted or seen, so `make mutants` would stop")
    sys.exit(1)
