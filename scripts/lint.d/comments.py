"""Checks that a doc comment begins with a noun or a verb of the domain ("The result of a claim", "Seals a record"). Question
words such as What, How or Where are refused, alone or after a preposition ("Until when").

    python3 scripts/lint.d/comments.py [FOLDER…]
"""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["Sources", "Plugins", "Tests", "Fuzz", "Benchmarks", "clients/swift"]
WORD = "what|how|where|why|who|when|which|whose|whom|whatever|whoever"
BEGINS = re.compile(rf"///\s+(?:-\s+\w+(?:\s+\w+)?:\s+)?(?:those|(?:(?:about|after|at|before|behind|by|for|from|in|of|on|over|since|to|under|until|with)\s+)?(?:{WORD}))\b", re.I)


def faults(file):
    """Yields the places of doc comments with such a beginning. The first line of a comment and its list items are checked."""
    before = ""
    for number, line in enumerate(file.read_text().splitlines(), 1):
        line = line.strip()
        if BEGINS.match(line) and (not before.startswith("///") or re.match(r"///\s+-", line)):
            yield f"{file.relative_to(root)}:{number}: {line}"
        before = line


files = sorted(file for folder in sys.argv[1:] or FOLDERS for file in (root / folder).rglob("*.swift") if ".build" not in file.parts)
places = [place for file in files for place in faults(file)]
if len(files) < 300 and not sys.argv[1:]:
    sys.exit(f"lint: only {len(files)} Swift files were found")
if places:
    print("lint: a doc comment begins with a noun or a verb of the domain (CONTRIBUTING.md)")
    print("\n".join(f"  {place}" for place in places))
sys.exit(bool(places))
