"""Checks that each citation in comments, tests, scripts and documents has its target in this repository. Citations are guarantees,
library notes, decisions, items of the checklist, file names, and the numbers of migrations in CHANGELOG.md.

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
TEXT = re.compile(r"\.(swift|md|py|sh|bash|yaml|yml|c|h|js|ts|kt|html|css|json|toml|lua|conf|cfg|sed)$|^Makefile$|^Dockerfile$|^scripts/[^.]*$|^\.ci/")
# The script itself contains faulty citations as samples.
LEFT_OUT = {"scripts/lint.d/papers.py"}
# Names of papers that were never in this repository.
ABSENT = re.compile(r"\bDESIGN\b|[Ee]ngineering[ -]notes?\b|\bgeneric-oauth\b|\(P\d+\)|\b[Ff]indings? \d+\b|\bthe (?:design document|brief|review)\b|\bshared/reviews\b")


def headings(page, pattern):
    return set(re.findall(pattern, (root / page).read_text(), re.M))


guarantees = headings("docs/guarantees.md", r"^## (\d+)\. ")
notes = headings("docs/internals/library-notes.md", r"^## (\d+)\. ")
items = headings("docs/reference/checklist.md", r"^### ((?:SEC-|W)\d+)$")
decisions = {re.match(r"docs/decisions/0*(\d+)-", name).group(1) for name in tracked if re.match(r"docs/decisions/\d", name)}
paths = set(tracked)
basenames = {pathlib.PurePath(name).name for name in tracked}


def numbers(text):
    """Returns the numbers of "1 to 4 and 6", "2 and 3", "7"."""
    found = [str(number) for first, last in re.findall(r"(\d+) to (\d+)", text) for number in range(int(first), int(last) + 1)]
    return found + re.findall(r"\d+", text)


# The words of a citation may be on two lines of a comment.
GAP = r"(?:[ \t]+|[ \t]*\n[ \t]*(?:///?|#|\*|--)?[ \t]*)"
LIST = rf"\d+(?:(?:,|{GAP}to|{GAP}and|,{GAP}and){GAP}\d+)*"
CITED = [
    (re.compile(rf"\b[Gg]uarantees?{GAP}({LIST})"), guarantees, "guarantee {}: docs/guarantees.md has none"),
    (re.compile(rf"\b[Ll]ibrary{GAP}notes?{GAP}({LIST})"), notes, "library note {}: docs/internals/library-notes.md has none"),
    (re.compile(rf"\b[Dd]ecisions?{GAP}({LIST})"), decisions, "decision {}: docs/decisions has none"),
    (re.compile(r"\bdecisions/(\d{4})\b"), decisions, "decision {}: docs/decisions has none"),
]
ITEM = re.compile(r"\b(?:SEC-\d+|W\d{1,2})\b")


def faults_of(content):
    """Yields the place and the fault of each citation without a target."""
    for match in ABSENT.finditer(content):
        yield match.start(), f"cites a paper that is not here: {match.group(0)}"
    for pattern, known, words in CITED:
        for match in pattern.finditer(content):
            for number in numbers(match.group(1)):
                if str(int(number)) not in known:
                    yield match.start(), words.format(number)
    for match in re.finditer(rf"\b[Nn]otes?{GAP}\d+", content):
        if not re.search(rf"\b[Ll]ibrary{GAP}$", content[max(0, match.start() - 40):match.start()]):
            yield match.start(), f"{match.group(0)}: of which page? \"library note\" is that of docs/internals/library-notes.md"
    for match in ITEM.finditer(content):
        if match.group(0) not in items:
            yield match.start(), f"{match.group(0)}: docs/reference/checklist.md has none"
    for match in re.finditer(r"(?<![\w/.-])docs/[\w./-]+\.md\b", content):
        if match.group(0) not in paths and "NAME" not in match.group(0):
            yield match.start(), f"{match.group(0)} is not here"


ENDINGS = "swift|py|sh|bash|lua|cfg|conf|ts|kt|c|sed|asis|http|service|socket|yaml|yml|json|toml"
NAMED = re.compile(rf"`((?:[\w.+@-]+/)*[\w+-]+\.(?:{ENDINGS}))(?::\d+)?`")
MENTIONED = re.compile(r"(?<![\w/.$*-])((?:[\w.+@-]+/)*[\w+-]+\.(?:swift|py|sh|bash|lua|md))\b")
# Test suites: the form of their names in documents, and in the sources.
SUITE = re.compile(r"(?<![\w/.])([A-Z]\w*(?:Tests|Contract))\b(?!/)")
suites = {part.removesuffix(".swift") for name in tracked for part in pathlib.PurePath(name).parts}
for name in tracked:
    if name.endswith(".swift") and "Tests" in name:
        suites |= set(re.findall(r"\b(?:struct|class|enum|protocol) (\w+)", (root / name).read_text()))
# Names of files that readers have in their own projects, and names of files that programs write.
THEIRS = {"main.swift", "app.ts", "app.json", "keys.json", "org.json", "NAME.swift"}


def is_here(name):
    if pathlib.PurePath(name).name in THEIRS:
        return True
    if "/" in name:
        return any(path == name or path.endswith("/" + name) for path in tracked)
    return name in basenames


def faults_of_names(name, content):
    """Yields the names of files that do not exist. In documents, names in backticks outside of code blocks count. In sources,
    names in comments count."""
    if name.endswith(".md"):
        for match in SUITE.finditer(content):
            if match.group(1) not in suites:
                yield match.start(), f"names the suite {match.group(1)}, which is not here"
        plain = re.sub(r"^ *```.*?^ *```", lambda found: "\n" * found.group(0).count("\n"), content, flags=re.M | re.S)
        for match in NAMED.finditer(plain):
            if not is_here(match.group(1)):
                yield content.find(match.group(0)), f"names {match.group(0)}, which is not here"
        return
    for comment in re.finditer(r"^[ \t]*(?://+|#|\*|--)[ \t]+(.*)$", content, re.M):
        for match in MENTIONED.finditer(comment.group(1)):
            if not is_here(match.group(1)):
                yield comment.start(), f"names {match.group(1)}, which is not here"


def faults_of_migrations():
    """Yields the faults of the newest section: its upgrade line must name the newest migrations, and each named migration must
    exist."""
    newest = {
        engine: max(int(number) for number in re.findall(r"Migration\(version: (\d+)", (root / page).read_text()))
        for engine, page in (("SQLite", "Sources/BrokerStore/SQLite/Schema.swift"), ("PostgreSQL", "Sources/BrokerStore/PostgreSQL/Schema/PostgreSQLSchema.swift"))}
    content = (root / "CHANGELOG.md").read_text()
    section = re.search(r"^## \d.*?(?=^## |\Z)", content[content.index("\n## "):], re.M | re.S).group(0)
    said = re.search(r"\(PostgreSQL (\d+), SQLite (\d+)\)", section)
    right = (newest["PostgreSQL"], newest["SQLite"])
    if not said or (int(said[1]), int(said[2])) != right:
        yield content.find(said[0] if said else "## "), "the newest migrations are (PostgreSQL {}, SQLite {})".format(*right)
    for match in re.finditer(r"\b(SQLite|PostgreSQL)'s migrations? (\d+)|(?:migrations? \d+ and )(SQLite|PostgreSQL)'s (\d+)", section):
        engine, number = match[1] or match[3], int(match[2] or match[4])
        if number > newest[engine]:
            yield content.find(match[0]), f"{match[0]}: {engine}'s newest is {newest[engine]}"


# The check has to find each of these faults.
for sample in (
        "(note 9)", "library note 99", "library\n/// note 99", "guarantee 99", "decisions 1 to 999", "decisions/0999", "SEC-999", "W18",
        "docs/nowhere.md", "the brief"):
    if not list(faults_of(sample)):
        sys.exit(f"lint: papers.py finds nothing in: {sample}")
for page, sample in (("a.md", "`nowhere.py`"), ("a.md", "NowhereTests"), ("a.swift", "    /// As Nowhere.swift does.")):
    if not list(faults_of_names(page, sample)):
        sys.exit(f"lint: papers.py finds nothing in: {sample}")

count = 0
for name in tracked:
    if not TEXT.search(name) or name in LEFT_OUT:
        continue
    content = (root / name).read_text(errors="replace")
    found = list(faults_of(content))
    if name != "CHANGELOG.md":
        found += faults_of_names(name, content)
    else:
        found += faults_of_migrations()
    for place, fault in sorted(found):
        if not count:
            print("lint: what is cited has to stand in this repository")
        count += 1
        print(f"  {name}:{content[:place].count(chr(10)) + 1}: {fault}")
sys.exit(bool(count))
