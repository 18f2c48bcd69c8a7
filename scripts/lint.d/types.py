"""Checks that each type that another folder of Sources names is in a file with its own name (decision 98).

    python3 scripts/lint.d/types.py            # the types in other files; nothing if there are none
    python3 scripts/lint.d/types.py --count    # the number of types that other folders name
"""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
WORDS = r"(?:@\w+(?:\([^)]*\))? +)*(?:(?:package|public|internal|final|indirect|nonisolated) +)*"
DECLARED = re.compile(rf"^{WORDS}(?:struct|enum|class|actor|protocol|typealias) +(\w+)", re.M)
NAMED = re.compile(r"\b[A-Z]\w+")
# Comments and one-line strings name no type.
IGNORED = re.compile(r'//.*$|"(?:\\.|[^"\\])*"', re.M)


def types(files):
    """Returns each type that a folder other than its own names, with the type's file."""
    named = {}
    for path, text in files.items():
        named.setdefault(path.parent, set()).update(NAMED.findall(IGNORED.sub("", text)))
    for path, text in files.items():
        for name in DECLARED.findall(text):
            if any(name in names for folder, names in named.items() if folder != path.parent):
                yield name, path


def example():
    """Checks the check: a type of another file is found, and a type in a file of its own is not."""
    one, two, three = (pathlib.Path(name) for name in ("a/One.swift", "a/Two.swift", "b/Three.swift"))
    found = types({one: "struct One {}\npackage enum Other {}\nstruct Unnamed {}\n", two: "struct Two {}", three: "let x: Other = One.y // Two"})
    return sorted(name for name, path in found if path.stem != name) == ["Other"]


found = list(types({path: path.read_text() for path in sorted((root / "Sources").rglob("*.swift"))}))
if not example() or len(found) < 300:
    sys.exit(f"lint: types.py finds only {len(found)} types, or does not find its example")
if "--count" in sys.argv:
    print(len(found))
wrong = [(name, path) for name, path in found if path.stem != name]
for name, path in wrong:
    print(f"{path.relative_to(root)}: {name}")
if wrong:
    print("lint: another folder names these types, so each needs a file with its own name (decision 98)")
    sys.exit(1)
