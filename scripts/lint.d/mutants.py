"""Checks that each fault of Tests/mutants can still be planted: its text occurs exactly once in its file.

    python3 scripts/lint.d/mutants.py
"""

import pathlib
import sys
import tomllib

root = pathlib.Path(__file__).resolve().parents[2]
lists = sorted((root / "Tests/mutants").glob("*.toml"))


def faults(path):
    """Yields each change of a list whose text does not occur exactly once."""
    for mutant in tomllib.loads(path.read_text())["mutant"]:
        for change in mutant.get("change", [mutant]):
            file = root / change["file"]
            count = file.read_text().count(change["find"]) if file.is_file() else 0
            if count != 1:
                yield f"{path.name}: {mutant['name']}: its text is in {change['file']} {count} times"


wrong = [line for path in lists for line in faults(path)]
if len(lists) < 2:
    sys.exit(f"lint: only {len(lists)} lists of faults were found")
for line in wrong:
    print(line)
if wrong:
    print("lint: a fault cannot be planted, so `make mutants` would stop")
    sys.exit(1)
