"""Checks that what comments, tests, scripts and documents cite stands in this repository: guarantees, library notes, decisions,
items of the checklist, and source files that documents name in backticks.

    python3 scripts/lint.d/papers.py
"""

import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
tracked = [
    name for name in subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True).stdout.splitlines()
    if (root / name).is_file()]
TEXT = re.compile(r"\.(swift|md|py|sh|bash|yaml|yml|c|h|js|ts|kt|html|css|json|toml)$|^Makefile$|^Dockerfile$|^scripts/[^.]*$|^\.ci/")
# Written by scripts, or about this check.
LEFT_OUT = {"Sources/coatcheck/Contract.swift", "scripts/lint.d/papers.py"}
# Papers that are not here.
ABSENT = re.compile(r"\bDESIGN\b|[Ee]ngineering[ -]notes?\b|\bgeneric-oauth\b|\(P\d+\)|\b[Ff]indings? \d+\b|\bthe (?:design document|brief|review)\b|\bshared/reviews\b")


def headings(page, pattern):
    return set(re.findall(pattern, (root / page).read_text(), re.M))


guarantees = headings("docs/guarantees.md", r"^## (\d+)\. ")
notes = headings("docs/library-notes.md", r"^## (\d+)\. ")
items = headings("docs/checklist.md", r"^### (SEC-\d+)$")
decisions = {re.match(r"docs/decisions/0*(\d+)-", name).group(1) for name in tracked if re.match(r"docs/decisions/\d", name)}
paths = set(tracked)
basenames = {pathlib.PurePath(name).name for name in tracked}


def numbers(text):
    """The numbers of "1 to 4 and 6", "2 and 3", "7"."""
    found = [str(number) for first, last in re.findall(r"(\d+) to (\d+)", text) for number in range(int(first), int(last) + 1)]
    return found + re.findall(r"\d+", text)


LIST = r"\d+(?:(?:,| to| and|, and) \d+)*"
CITED = [
    (re.compile(rf"\b[Gg]uarantees? ({LIST})"), guarantees, "guarantee {}: docs/guarantees.md has none"),
    (re.compile(rf"\b[Ll]ibrary notes? ({LIST})"), notes, "library note {}: docs/library-notes.md has none"),
    (re.compile(rf"\b[Dd]ecisions? ({LIST})"), decisions, "decision {}: docs/decisions has none"),
]


def faults_of_line(line):
    for match in ABSENT.finditer(line):
        yield f"cites a paper that is not here: {match.group(0)}"
    for pattern, known, words in CITED:
        for match in pattern.finditer(line):
            for number in numbers(match.group(1)):
                if str(int(number)) not in known:
                    yield words.format(number)
    for item in re.findall(r"\bSEC-\d+\b", line):
        if item not in items:
            yield f"{item}: docs/checklist.md has none"
    for page in re.findall(r"(?<![\w/.-])docs/[\w./-]+\.md\b", line):
        if page not in paths and "NAME" not in page:
            yield f"{page} is not here"


NAMED = re.compile(r"`((?:[\w.+@-]+/)*[\w+-]+\.(?:swift|py|sh|bash))(?::\d+)?`")


def faults_of_names(text):
    """Source files in backticks that are nowhere; blocks of code are their readers' files."""
    for name in NAMED.findall(re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S)):
        if "/" in name:
            if not any(path == name or path.endswith("/" + name) for path in tracked):
                yield name
        # A program's first file has this name in every package, a reader's own, too.
        elif name not in basenames | {"main.swift"}:
            yield name


count = 0
for name in tracked:
    if not TEXT.search(name) or name in LEFT_OUT:
        continue
    content = (root / name).read_text(errors="replace")
    found = [(number, fault) for number, line in enumerate(content.splitlines(), 1) for fault in faults_of_line(line)]
    if name.endswith(".md") and name != "CHANGELOG.md":
        found += [(content[:content.index(f"`{file}")].count("\n") + 1, f"names `{file}`, which is not here") for file in faults_of_names(content)]
    for number, fault in found:
        if not count:
            print("lint: what is cited has to stand in this repository")
        count += 1
        print(f"  {name}:{number}: {fault}")
sys.exit(bool(count))
