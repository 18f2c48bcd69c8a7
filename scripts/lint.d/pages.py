"""Checks three properties of the documents. Each page of docs is in an index. The index of decisions explains its missing numbers.
Each file and folder that a page under docs/internals names exists.

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


# The check has to find each of these faults.
if not list(unlisted(["docs/" + "a.md", "docs/README.md"], {"docs/README.md": set()})) or list(unlisted(["docs/" + "a.md"], {"docs/README.md": {"docs/" + "a.md"}})):
    sys.exit("lint: pages.py does not find a page that no index lists")
if wrong_gaps("## Numbers without a record\n\n3, 5 and 7 were", {3, 4}) != [3] or absent("`Sources/Nowhere`", lambda name: False) != ["Sources/Nowhere"]:
    sys.exit("lint: pages.py does not find a number or a file")

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
if faults:
    print("lint: the indexes of docs, and the files that docs/internals names")
    print("\n".join(f"  {fault}" for fault in faults))
sys.exit(bool(faults))
