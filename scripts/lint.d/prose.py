"""Counts the words and shapes that plain English avoids (CONTRIBUTING.md, Plain English), in comments, documents, test names, and
printed texts. No count may rise above its number in prose.ratchet. `--write` writes the present counts there.

    python3 scripts/lint.d/prose.py [--table | --list RULE [WORD] | --write]

The counts are for the whole tree, so a commit that only moves files leaves them unchanged. `--table` prints the counts for each
folder. `--list` prints the sentences that a rule counts, limited to those with a given word or path.
"""

import collections
import pathlib
import re
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parents[2]
RATCHET = pathlib.Path(__file__).with_suffix(".ratchet")
# Files that scripts write, by name, in any folder.
GENERATED = {"coatcheck.ts", "Coatcheck.kt", "endpoints.md", "Package.resolved", "prose.py"}
SENTENCE, PARAGRAPH, CELL = 25, 60, 8

NEGATION = re.compile(r"\b(?:no|not|never|none|nothing|nobody|nowhere|nor|neither|without|cannot)\b|n['’]t\b", re.I)
# A pattern for each rule that counts matches. The numbers refer to the guide in CONTRIBUTING.md.
WORDS = {
    # 1. The subject is a noun.
    "clause-as-noun": re.compile(r"\b(?:what|who|whom|whoever|whatever|whichever)\b", re.I),
    "preposition-which": re.compile(
        r"\b(?:of|to|by|for|from|with|in|on|at|behind|under|over|after|before|beside|without) (?:which|whom|what|whose)\b", re.I),
    # 2. Name it again.
    "far-pronoun": re.compile(r"\b(?:one that|ones that|those that|those of|those who|that of|the same of|such a one)\b", re.I),
    # 3. Say who does what, and say it positively.
    "negation": NEGATION,
    "negative-subject": re.compile(r"\b(?:nobody|none|no one)\b|(?:^|[,;:] )nothing\b", re.I),
    # 4. Only people say or tell.
    "thing-speaks": re.compile(r"\b(?:says?|said|saying|tells?|told|telling|hears?|heard|speaks?|spoken)\b", re.I),
    # 5. A colon introduces a list or an example.
    "colon-as-reason": re.compile(r"(?<=[a-z`)X]): (?=(?:a|an|the|it|they|this|that|these|those|each|every|no|nothing|nobody|one|what|who|if|there|most|all|some|its|he|we)\b)"),
    # 6. Use the ordinary word.
    "unusual-word": re.compile(
        r"\b(?:where(?!as|by|ver)|beside|anew|stands?|goes by|lies|hears of|under way|ours|theirs|another's|others'|is none|are none|is no|"
        r"would not|would have it|as ever|as before|for want of|asks? again|lets go|gives? back|given back|takes \w+ for|comes to itself|"
        r"whoever|whatever|somebody|everybody|anybody|thereof|wherever|by itself)\b", re.I),
}
RULES = [*WORDS, "two-negations", "starts-with-pronoun", "long-sentence", "long-paragraph"]
PRONOUN = re.compile(r"(?:It|They|That|Those|These|This|One (?:that|which|is|of)|The same|Such)\b")


# ---- what is read ----------------------------------------------------------------------------------------------------


def cleaned(text):
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", text)
    # A path counts as one word, so that moving a file changes no count.
    text = re.sub(r"\b[\w.-]+(?:/[\w.-]+)+\.\w+\b", "X", re.sub(r"`[^`]*`", "X", text))
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>|\*\*|__|\*/", "", text)).strip()


def paragraphs(lines):
    """Joins lines to paragraphs. An empty line or a list item ends the paragraph before it."""
    run = []
    for line in [*lines, ""]:
        item = re.match(r"\s*(?:[-*•>]|\d+\.) +", line)
        if run and (not line.strip() or item):
            yield " ".join(run)
            run = []
        if line.strip():
            run.append(line[item.end():] if item else line.strip())


def markdown(text):
    # Code blocks and HTML comments end a paragraph.
    lines = []
    for line in re.sub(r"^ *```.*?^ *```|<!--.*?-->", "", text, flags=re.M | re.S).splitlines():
        if re.match(r"\s*\|", line):
            lines += [""] + [part for cell in line.strip().strip("|").split("|") if len(cell.split()) >= CELL for part in (cell.strip(), "")]
        else:
            lines.append("" if line.startswith("#") else line)
    return paragraphs(lines)


def comments(text, sign):
    """Returns whole-line comments and comments behind code."""
    lines = []
    for line in text.splitlines():
        found = sign.match(line)
        if found:
            body = found[1] or ""
            lines.append("" if re.match(r" *(?:[-=#*/ ]*$|!|swift-|noqa|shellcheck|----)", body) else body)
        else:
            mark = "# " if sign is HASH else "// "
            before, _, behind = line.rpartition(" " + mark)
            lines += ["", behind, ""] if behind[:1].isupper() and before.strip() and before.count('"') % 2 == 0 else [""]
    return paragraphs(lines)


def strings(text):
    """Yields sentences in a program's string literals: problems, log lines, and the output of commands."""
    text = re.sub(r'"""(.*?)"""', "", text, flags=re.S)
    for line in text.splitlines():
        if line.lstrip().startswith("//"):
            continue
        for body in re.findall(r'"((?:[^"\\]|\\.)*)"', line):
            # Interpolations: \(…) in Swift, {…} in Python.
            plain = re.sub(r"\\\((?:[^()]|\([^()]*\))*\)|\{[^{}]*\}", "X", body)
            if len(re.findall(r"[A-Za-z]{2,}", plain)) >= 4 and " " in plain and not re.search(r"\b(?:SELECT|INSERT|UPDATE|DELETE|WHERE|FROM|SET)\b|[{}<>=]", plain):
                yield plain


def descriptions(text):
    """Returns the descriptions of openapi.yaml."""
    lines, inside = [], None
    for line in text.splitlines():
        indent = len(line) - len(line.lstrip())
        if inside is not None and (indent > inside or not line.strip()):
            lines.append(line.strip())
            continue
        inside = None
        found = re.search(r"\b(?:description|summary): *(.*)$", line)
        if found and found[1] in ("|", ">", "|-", ">-"):
            inside = indent
        lines += ["", found[1].strip("'\"}") if found and inside is None else ""]
    return paragraphs(lines)


SLASHES, HASH, DASHES = (re.compile(rf"\s*{sign}(?: (.*)|$)") for sign in (r"(?:///?|/?\*+/?)", "#+", "--+"))
SIGNS = {
    **dict.fromkeys((".swift", ".kt", ".ts", ".js", ".c", ".h", ".css"), SLASHES), ".lua": DASHES,
    **dict.fromkeys((".py", ".sh", ".bash", ".yaml", ".yml", ".conf", ".cfg", ".service", ".socket", ".toml", ".sed", ""), HASH)}
SHELL_NAME = re.compile(r'^ *(?:step|same|matches|expect_\w+|denied|saw)\b.*"([^"$]* [^"$]* [^"$]*)"$', re.M)
DOCSTRING = re.compile(r'^( *)"""(.*?)"""', re.M | re.S)
TEST_NAME = re.compile(r'@(?:Test|Suite)\(\s*"((?:[^"\\]|\\.)*)"|func `([^`]+)`')


def texts(name, content):
    """Returns the paragraphs of a file, each with its kind."""
    suffix = pathlib.PurePath(name).suffix
    if suffix == ".md":
        return [("documents", text) for text in markdown(content)]
    if name.endswith("openapi.yaml"):
        return [("documents", text) for text in descriptions(content)]
    if suffix not in SIGNS and not content.startswith("#!"):
        return []
    found = []
    if suffix == ".py":
        for margin, doc in DOCSTRING.findall(content):
            found += [("comments", text) for text in paragraphs("" if line.startswith(margin + "  ") else line for line in doc.splitlines())]
        content = DOCSTRING.sub("", content)
        # The sentences of a scenario's verdicts.
        if re.search(r"\.(?:same|verdict)\(", content):
            found += [("test names", text) for text in strings(content)]
    found += [("comments", text) for text in comments(content, SIGNS.get(suffix, HASH))]
    if suffix in (".swift", ".kt"):
        found += [("test names", first or second) for first, second in TEST_NAME.findall(content)]
    if suffix in (".sh", ".bash"):
        found += [("test names", text) for text in SHELL_NAME.findall(content)]
    # The program's own texts. Strings of tests are mostly data.
    if suffix == ".swift" and "import Testing" not in content:
        found += [("texts", text) for text in strings(content)]
    return found


# ---- what is counted -------------------------------------------------------------------------------------------------


def sentences(paragraph):
    return [part for part in re.split(r"(?<=[.!?])[\"')]* +(?=[A-Z\"'(\[X])", paragraph) if part]


def length(text):
    return len(re.findall(r"[A-Za-z0-9][\w'’.-]*", text))


def counts(kind, paragraph):
    """Yields rule and sentence for each breach."""
    for rule, pattern in WORDS.items():
        for found in pattern.finditer(paragraph):
            yield rule, paragraph, found.start()
    parts = sentences(paragraph)
    for part in parts:
        if len(NEGATION.findall(part)) > 1:
            yield "two-negations", part, 0
        if length(part) > SENTENCE:
            yield "long-sentence", part, 0
    # A pronoun at the beginning of a paragraph lacks its noun.
    if kind != "texts" and PRONOUN.match(paragraph):
        yield "starts-with-pronoun", parts[0], 0
    if length(paragraph) > PARAGRAPH:
        yield "long-paragraph", paragraph, 0


# Each rule must find its sample, and the last sample must be free of findings.
SAMPLES = {
    "clause-as-noun": "Counts what waits.", "preposition-which": "The session of which the key is.", "far-pronoun": "Takes the one that came.",
    "negation": "A row that isn't there.", "negative-subject": "Here nobody waits.", "thing-speaks": "The row says so.",
    "colon-as-reason": "Poll faster: the ring is being replaced.", "unusual-word": "Nil where the row is old.",
    "two-negations": "No key is not good.", "starts-with-pronoun": "It was for another API.",
    "long-sentence": "One " + "more " * 25 + "word.", "long-paragraph": "Six words are in this sentence. " * 11,
    "": "Returns the secret if it matches the ticket."}


def tried():
    for rule, text in SAMPLES.items():
        found = {rule for rule, *_ in counts("comments", text)}
        if (rule not in found) if rule else found:
            sys.exit(f"lint: prose.py does not find {rule or 'nothing'} in: {text} ({found})")


def main(arguments):
    tried()
    listed = arguments[1] if arguments[:1] == ["--list"] else None
    totals, words, folders = collections.Counter(), collections.Counter(), collections.defaultdict(collections.Counter)
    tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard"], cwd=root, capture_output=True, text=True).stdout.splitlines()
    files = 0
    for name in tracked:
        path = root / name
        if path.name in GENERATED or path.suffix not in (*SIGNS, ".md") or not path.is_file():
            continue
        content = path.read_text(errors="replace")
        # The text of a moved page is counted at its new place.
        if content.startswith("<!-- moved -->"):
            continue
        files += 1
        folder = "/".join(name.split("/")[:2]) if name.count("/") > 1 or name.startswith(("docs/", "deploy/")) else name.split("/")[0] if "/" in name else "."
        for kind, text in texts(name, content):
            text = cleaned(text)
            size = length(text)
            words[kind] += size
            folders[folder]["words"] += size
            for rule, where, at in counts(kind, text):
                totals[rule] += 1
                folders[folder][rule] += 1
                if rule == listed and all(word in f"{name} {where}" for word in arguments[2:]):
                    print(f"{name}: {'…' if at > 60 else ''}{where[max(0, at - 60):at + 160]}")
    if files < 300:
        sys.exit(f"lint: only {files} files were found")
    if listed:
        return 0
    if "--table" in arguments:
        print(f"{'':28}{'words':>8}" + "".join(f"{rule[:12]:>13}" for rule in RULES))
        for folder, found in sorted(folders.items(), key=lambda item: -item[1]["words"]):
            print(f"{folder[:27]:28}{found['words']:8}" + "".join(f"{found[rule]:13}" for rule in RULES))
        size = sum(words.values())
        print(f"{'all':28}{size:8}" + "".join(f"{totals[rule]:13}" for rule in RULES))
        print(f"{'for each 1,000 words':36}" + "".join(f"{1000 * totals[rule] / size:13.1f}" for rule in RULES))
        print("words: " + ", ".join(f"{kind} {count}" for kind, count in words.most_common()))
        return 0
    if "--write" in arguments:
        RATCHET.write_text("# Written by prose.py --write. No number may rise.\n" + "".join(f"{rule} {totals[rule]}\n" for rule in RULES))
        return 0
    if not RATCHET.exists():
        return 0
    allowed = {rule: int(number) for rule, number in re.findall(r"^([\w-]+) (\d+)$", RATCHET.read_text(), re.M)}
    risen = [f"{rule}: {totals[rule]}, and {allowed.get(rule, 0)} are allowed" for rule in RULES if totals[rule] > allowed.get(rule, 0)]
    if risen:
        print("lint: plain English (CONTRIBUTING.md); `scripts/lint.d/prose.py --list RULE [PATH]` shows the sentences")
        print("\n".join(f"  {line}" for line in risen))
    return bool(risen)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
