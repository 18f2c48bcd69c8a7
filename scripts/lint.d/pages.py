"""Checks four properties of the documents. Each page of docs is in an index. The index of decisions explains its missing numbers.
Each file and folder that a page under docs/internals names exists. If a row of where-to-change-what.md or a-refresh.md names an
identifier together with a file, the file contains this identifier.

    python3 scripts/lint.d/pages.py
"""

import os
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
tracked = [
    name for name in subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "docs"], cwd=root, capture_output=True, text=True).stdout.splitlines()
    if name.endswith(".md") and (root / name).is_file()]
# The first line of a page whose text has moved, and which only links to the new place.
MOVED = "<!-- moved -->"
INDEXES = {"docs/providers": "docs/providers/README.md", "docs/decisions": "docs/decisions/README.md"}
TOP = "Sources|Plugins|Tests|Benchmarks|Fuzz|scripts|deploy|clients|docs"
NAMED = re.compile(rf"`((?:{TOP})/[\w./+-]+)`")


def links_of(page, text):
    """Returns the pages that a page links to, as paths in the repository."""
    return {os.path.normpath(os.path.join(os.path.dirname(page), target.partition("#")[0])) for target in re.findall(r"\]\(([^)\s]+)\)", text)}


def unlisted(pages, links):
    """Returns the pages without a link from an index."""
    for page in pages:
        index = INDEXES.get(os.path.dirname(page), "docs/README.md")
        if page != index and page not in links[index]:
            yield page, index


def wrong_gaps(text, numbers):
    """Returns the numbers that have a record, although the index of decisions lists them as missing."""
    said = re.search(r"^## Numbers without a record\n+([\d, and]+)", text, re.M)
    return [number for number in map(int, re.findall(r"\d+", said[1])) if number in numbers]


def absent(text, exists):
    """Returns the files and folders that a page names but that do not exist."""
    return [name for name in NAMED.findall(text) if not exists(name)]


# `a`, `b` (words) and `c` in `FILE`: the identifiers before the file.
FILE = r"`[\w./+-]+\.\w+`"
WORD = r"`[\w.]+`(?: \([^()|]*\))?"
BEFORE = re.compile(rf"((?:{WORD}(?:, | and |, and ))*{WORD}) in ({FILE})")
BEFORE_IN_WORDS = re.compile(rf"\(([^()|]*)\) in ({FILE})")
# `FILE` (`a`, words): the identifiers after the file.
AFTER = re.compile(rf"({FILE}) \(([^()|]*)\)")
# `FILE`: `a`, `b` (words): the identifiers after the colon.
AFTER_COLON = re.compile(rf"({FILE}): ((?:{WORD}(?:, | and |, and ))*{WORD})(?! in )")
# Words of these forms are names of settings, fields or codes, and the code may write them in another way.
IDENTIFIER = re.compile(r"`((?:[A-Za-z]\w*\.)?[a-z]+[A-Z]\w*|[a-z]+|[A-Z]\w+(?:\.\w+)?)`")


def named_in(row):
    """Returns the pairs of an identifier and the file that a row of a table names it with."""
    pairs = [(words, file) for pattern in (BEFORE, BEFORE_IN_WORDS) for words, file in pattern.findall(row)]
    pairs += [(words, file) for pattern in (AFTER, AFTER_COLON) for file, words in pattern.findall(row)]
    return {(word, file.strip("`")) for words, file in pairs for word in IDENTIFIER.findall(words)}


def misplaced(text, source):
    """Returns the pairs of an identifier and a file that lacks this identifier; `source` returns a file's text."""
    return [
        (word, file) for line in text.splitlines() if line.startswith("| ") for word, file in sorted(named_in(line))
        if (content := source(file)) is not None and not all(re.search(rf"\b{part}\b", content) for part in word.split("."))]


# The check has to find each of these faults.
if not list(unlisted(["docs/" + "a.md", "docs/README.md"], {"docs/README.md": set()})) or list(unlisted(["docs/" + "a.md"], {"docs/README.md": {"docs/" + "a.md"}})):
    sys.exit("lint: pages.py does not find a page that no index lists")
if wrong_gaps("## Numbers without a record\n\n3, 5 and 7 were", {3, 4}) != [3] or absent("`Sources/Nowhere`", lambda name: False) != ["Sources/Nowhere"]:
    sys.exit("lint: pages.py does not find a number or a file")
for row in ("| x | `here` and `gone` in `A.swift` |", "| x | y (`here`, `gone`) in `A.swift` |", "| x | `A.swift` (`here`, `gone`: z) |", "| x | `gone` (y) and `here` (z) in `A.swift` |", "| x | `A.swift`: `here`, `gone` (z) |"):
    if misplaced(row, {"A.swift": "func here() {}"}.get) != [("gone", "A.swift")]:
        sys.exit(f"lint: pages.py does not find an identifier that its file lacks: {row}")

texts = {name: (root / name).read_text() for name in tracked}
pages = [name for name, text in texts.items() if not text.startswith(MOVED)]
links = {index: links_of(index, texts[index]) for index in {"docs/README.md", *INDEXES.values()}}
faults = [f"{page}: add its line to {index}" for page, index in unlisted(pages, links)]
faults += [f"{index}: docs/README.md does not link to it" for index in INDEXES.values() if index not in links["docs/README.md"]]
numbers = {int(found[1]) for name in tracked if (found := re.match(r"docs/decisions/(\d+)-", name))}
faults += [f"{INDEXES['docs/decisions']}: number {number} has a record" for number in wrong_gaps(texts[INDEXES["docs/decisions"]], numbers)]
for name in pages:
    if name.startswith("docs/internals/"):
        faults += [f"{name}: names {missing}, which is not here" for missing in absent(texts[name], lambda path: (root / path).exists())]
places = {}
for path in subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True).stdout.splitlines():
    places.setdefault(path.rpartition("/")[2], []).append(root / path)


def source_of(file):
    """Returns the text of a file, named by its path or its unique name, or None."""
    found = [root / file] if "/" in file else places.get(file, [])
    return found[0].read_text() if len(found) == 1 and found[0].is_file() else None


for name in ("docs/internals/where-to-change-what.md", "docs/internals/a-refresh.md"):
    faults += [f"{name}: `{word}` is not in {file}" for word, file in misplaced(texts[name], source_of)]
if faults:
    print("lint: the indexes of docs, and the files and identifiers that docs/internals names")
    print("\n".join(f"  {fault}" for fault in faults))
sys.exit(bool(faults))
