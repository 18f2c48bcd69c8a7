"""Checks the documents. Every link has a target. Every block of code is run, compiled or checked by a test, or is marked as not
compiled. The apps' table of failures has every problem code. (ProviderSettingsTests loads the YAML blocks.)
    python documents.py [COATCHECK]
"""

import json
import os
import pathlib
import re
import subprocess
import sys
import tempfile

import yaml

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from support import strict  # noqa: E402
from support.verdicts import Verdicts  # noqa: E402

root = pathlib.Path(__file__).resolve().parents[3]
program = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("COATCHECK")
verdicts = Verdicts()
say = verdicts.verdict


tracked = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "*.md"], cwd=root, capture_output=True, text=True).stdout.split()
pages = [root / name for name in sorted(set(tracked)) if (root / name).is_file()] or sorted(
    [*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("deploy/**/*.md"), *root.glob("clients/*/*.md")])


def prose(text):
    """The text without blocks and spans of code."""
    return re.sub(r"`[^`\n]*`", "`code`", re.sub(r"^ *```.*?^ *```", "", text, flags=re.M | re.S))


def anchors(page):
    """The anchors of a page's headings."""
    text = re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.M | re.S)
    found = set(re.findall(r'<a id="([^"]+)"', text))
    for heading in re.findall(r"^#+ +(.+?) *$", text, re.M):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower()
        found.add(re.sub(r"[^\w\- ]", "", plain).replace(" ", "-"))
    return found


# Check the links. A test must not use the internet, so a link to another site only has to begin with https and a host.
for page in pages:
    name = page.relative_to(root)
    dead = []
    text = prose(page.read_text())
    for target in re.findall(r"\]\(<?([^)\s>]+)>?\)", text) + re.findall(r'(?:src|href|srcset)="([^"]+)"', text):
        if re.match(r"https://[\w.-]+(/|$)", target) or target.startswith("mailto:"):
            continue
        path, _, fragment = target.partition("#")
        file = (page.parent / path).resolve() if path else page
        if not file.exists() or (fragment and fragment not in anchors(file)):
            dead.append(target)
    say(not dead, f"{name}, every link → has a target", ", ".join(dead))

# Blocks of code.
def squeezed(text):
    return re.sub(r"\s+", " ", text).strip()


sources = {
    "swift": squeezed("\n".join(p.read_text() for part in ("clients/swift/Tests", "clients/swift/Sources", "Tests") for p in (root / part).rglob("*.swift") if ".build" not in p.parts)),
    "kotlin": squeezed("\n".join(p.read_text() for pattern in ("*.kt", "tests/*.kt") for p in (root / "clients/kotlin").glob(pattern))),
    "typescript": squeezed("\n".join(p.read_text() for p in (root / "clients/typescript").rglob("*.ts"))),
}
# The code of all scenarios, because a scenario has to start each example by its command.
scripts = "\n".join(re.sub(r"^ *#.*", "", p.read_text(), flags=re.M) for p in (root / "Tests/scenarios").rglob("*") if p.suffix in (".sh", ".py"))
for command in sorted((root / "examples").glob("*/run")):
    folder = str(command.parent.relative_to(root))
    say(re.search(rf"\b{folder}\b", scripts), f"folder {folder} → a scenario starts the example in it")


def quoted(before):
    """Returns the file in `examples` that the text links between the last block and this one, or None."""
    links = re.findall(r"\]\(([^)#\s]*examples/[^)#\s]+)\)", before.rpartition("```")[2])
    file = (page.parent / links[-1]).resolve() if links else None
    return file if file and file.is_file() and file.suffix != ".md" else None


targets = set(re.findall(r"^([a-z-]+):", (root / "Makefile").read_text(), re.M))
helps = {}


def help_of(words):
    """Returns a command's own help, or None without the program."""
    if not program:
        return None
    if words not in helps:
        helps[words] = subprocess.run([program, *words, "--help"], capture_output=True, text=True, timeout=30).stdout
    return helps[words]


def faults_of_shell(block):
    """Yields the faults of a shell block: in its syntax, and in the project's commands, files and targets that it names."""
    # Leave out lines with a command's output.
    block = "\n".join(line for line in block.splitlines() if not re.match(r"^(ses_|\{)", line))
    checked = subprocess.run(["bash", "-n"], input=block.replace("…", "x"), capture_output=True, text=True)
    if checked.returncode:
        yield checked.stderr.strip()[:200]
    for line in re.sub(r"\\\n", " ", block).splitlines():
        line = line.split("  #")[0]
        if match := re.match(r"^make ([a-z-]+)", line):
            if match.group(1) not in targets:
                yield f"no target {match.group(1)}"
        for file in re.findall(r"(?:-f |^)((?:deploy|scripts|Tests)/[\w./-]+)", line):
            if not (root / file).exists():
                yield f"no {file}"
        if match := re.match(r"^coatcheck((?: [a-z][a-z-]*)*)((?: .*)?)$", line):
            words = tuple(match.group(1).split())
            text = help_of(words[:2]) or help_of(words[:1])
            while text is not None and "USAGE: coatcheck " + " ".join(words) not in text and words:
                words = words[:-1]
                text = help_of(words)
            # This option belongs to the program itself, so the command's help does not name it.
            if not words and " --generate-completion-script" in match.group(2):
                continue
            if text is not None and not words:
                yield f"no command: {line}"
            for option in re.findall(r" (--[a-z-]+)", match.group(2)):
                if text is not None and option not in text:
                    yield f"coatcheck {' '.join(words)} has no {option}"


for page in pages:
    name = page.relative_to(root)
    text = page.read_text()
    for number, match in enumerate(re.finditer(r"^( *)```(\w*)\n(.*?)^ *```", text, re.M | re.S), 1):
        language, block = match.group(2), match.group(3)
        where = f"{name}, block {number} ({language or 'no language'})"
        uncompiled = re.search(r"not compiled here[^\n]*\n\s*$", text[: match.start()], re.I)
        if language == "sh":
            faults = list(faults_of_shell(block))
            say(not faults, f"{where}, the commands, options and files in it → exist", "; ".join(faults))
        elif language == "json":
            plain = re.sub(r"^(GET|POST|PUT|DELETE) \S+\n", "", block).replace("\n", " ")
            try:
                json.loads(plain)
                say(True, f"{where} → is valid JSON")
            except ValueError as error:
                say(False, f"{where} → is valid JSON", str(error))
        elif language == "yaml":
            try:
                yaml.safe_load(block)
                say(True, f"{where} → is valid YAML")
            except yaml.YAMLError as error:
                say(False, f"{where} → is valid YAML", str(error))
        elif language == "toml":
            say(block in (root / "Tests/mutants/list.toml").read_text(), f"{where} → is in Tests/mutants/list.toml, the list of planted faults")
        elif file := quoted(text[: match.start()]):
            say("\n" + block in "\n" + file.read_text(), f"{where} → is a part of {file.relative_to(root)}")
        elif "// swift-tools-version" in block and str(name) == "clients/swift/README.md":
            say("with this manifest" in squeezed(text[: match.start()])[-200:], f"{where} → is run by swift-package.sh")
        elif language in sources and not uncompiled:
            say(squeezed(block) in sources[language], f"{where} → is in a file that is compiled")
        elif uncompiled or language in ("text", "http", "mermaid"):
            say(True, f"{where} → the block is not code, or is marked as not compiled")
        else:
            say(False, f"{where} → is run, compiled or checked")

# A scenario finds a block of a document by a text before it.
for script in sorted(root.glob("Tests/**/*.sh")):
    for file, _, before in re.findall(r"""block_behind "\$root/([^"]+)" \w+ (["'])(.*?)\2""", script.read_text()):
        say(before in (root / file).read_text(), f"{file}, the text `{before}` that {script.name} looks for → is there")

# Check commands within sentences, and `auth_request` lines, because nginx does not treat a `?` in them as a query.
for page in pages:
    name = page.relative_to(root)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^ *```.*?^ *```", "", page.read_text(), flags=re.M | re.S))
    commands = [span for span in spans if span.startswith("coatcheck ") and "…" not in span]
    faults = [f"{span}: {fault}" for span in commands for fault in faults_of_shell(span)]
    say(not faults, f"{name}, {len(commands)} commands within sentences → exist, and so do the options", "; ".join(faults))
    if name.name != "CHANGELOG.md":
        say(not any(re.match(r"auth_request .*\?", span) for span in spans), f"{name}, text outside code blocks → no `auth_request` line in it has a query")
paths = list(yaml.safe_load((root / "openapi.yaml").read_text())["paths"])
endpoints = (root / "docs/reference/endpoints.md").read_text()
lost = [path for path in paths if f" {path}`" not in endpoints]
say(len(paths) > 30 and not lost, "docs/reference/endpoints.md → has every path of the contract in its tables", " ".join(lost))
say(len((root / "README.md").read_text().split()) <= 900, "README.md → at most 900 words")

# The page of problems and the apps' table of failures have to have every code.
contract = strict.overlaid(strict.plain())
codes = set(contract["components"]["schemas"]["ProblemCode"]["enum"])
native = (root / "docs/apps/native-apps.md").read_text()
table = native[native.index("## When something fails"):]
named = set(re.findall(r"`([a-z_]+)`", " ".join(row.split("|")[2] for row in table.splitlines() if row.startswith("|") and row.count("|") > 3)))
say(named == codes | {"code"} or named == codes, "docs/apps/native-apps.md, the table of failures → has exactly the codes of the contract", ", ".join(sorted(named ^ codes)))
say(codes <= anchors(root / "docs/problems.md"), "docs/problems.md → has every code as an anchor")
statuses = {}
overlay = yaml.safe_load((root / "Tests/scenarios/support/strict.overlay.yaml").read_text())
for action in overlay["actions"]:
    rule = action["update"].get("properties", {}) if isinstance(action["update"], dict) else {}
    if isinstance(rule.get("status"), dict) and "const" in rule["status"]:
        for code in rule["code"]["enum"]:
            statuses.setdefault(code, set()).add(str(rule["status"]["const"]))
for row in table.splitlines():
    cells = row.split("|")
    if row.startswith("|") and len(cells) > 4 and re.match(r" *[\d]", cells[1]):
        said = set(re.findall(r"\d{3}", cells[1]))
        wrong = [code for code in re.findall(r"`([a-z_]+)`", cells[2]) if code in statuses and not statuses[code] & said]
        say(not wrong, f"docs/apps/native-apps.md, the statuses of {cells[2].strip()[:60]} → as in the contract", ", ".join(wrong))

# The pages for React Native and Flutter have every member of `ProofKey`, and the platform calls of the Kotlin and Swift
# clients.
keys = (root / "clients/typescript/sources/keys.ts").read_text()
interface = re.search(r"^export interface ProofKey \{\n(.*?)^\}", keys, re.M | re.S).group(1)
members = {f"{name}({'bytes' if arguments else ''})" for name, arguments in re.findall(r"^    (\w+)\((.*?)\):", interface, re.M)}
say(len(members) == 3, "clients/typescript, the interface ProofKey → has three members", str(members))
calls_of = {
    1: "\n".join(file.read_text() for file in [*(root / "clients/kotlin/android").glob("*.kt"), root / "clients/kotlin/sources/Keys.kt"]),
    2: "\n".join(file.read_text() for file in (root / "clients/swift/Sources/Coatcheck/Apple").glob("*.swift"))}
for page in ("react-native", "flutter"):
    rows = [[cell.strip() for cell in row.strip("|").split("|")] for row in re.findall(r"^\| `\w+\(\w*\)` .*\|$", (root / f"docs/apps/{page}.md").read_text(), re.M)]
    say({row[0].strip("`") for row in rows} == members, f"docs/apps/{page}.md, the table of keys → has exactly the members of ProofKey", str(rows))
    for row in rows:
        for column, code in calls_of.items():
            words = {word for span in re.findall(r"`([^`]+)`", row[column]) for word in re.findall(r"\w+", span)}
            lost = [word for word in words if not re.search(rf"\b{word}\b", code)]
            say(words and not lost, f"docs/apps/{page}.md, the calls of {row[0]} in column {column} → exist in that platform's client", ", ".join(lost))

# docs/reference/commands.md lists the exit codes. For each code, run a command that exits with it.
commands = (root / "docs/reference/commands.md").read_text()
listed = re.findall(r"^\| (\d+) \|", commands[commands.index("A command exits with one of these codes:"):commands.index("Completions for the shell:")], re.M)
say(listed == ["0", "1", "2", "64"], "docs/reference/commands.md, the exit codes → 0, 1, 2 and 64", listed)
# docs/reference/commands.md has exactly the program's commands and options.
if program:
    def subcommands(words):
        return re.findall(r"^  ([a-z-]+)  +\S", (help_of(words) or "").partition("SUBCOMMANDS:")[2], re.M)

    leaves = [words for first in subcommands(()) for words in ([(first, second) for second in subcommands((first,))] or [(first,)])]
    rows = {tuple(name.split()): options for name, options in re.findall(r"^\| `coatcheck ([a-z -]+)` \| [^|]+ \| ([^|]+) \|", commands, re.M)}
    say(len(leaves) > 15 and set(leaves) == set(rows), "docs/reference/commands.md → has exactly the commands of the program", str(set(leaves) ^ set(rows)))
    for words in leaves:
        shown = set(re.findall(r"^  (--[a-z-]+)", help_of(words), re.M)) - {"--version"}
        named = set(re.findall(r"`(--[a-z-]+)", rows.get(words, "")))
        say(shown == named, f"docs/reference/commands.md, the options of {' '.join(words)} → as in the command's help", str(shown ^ named))
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "coatcheck.yaml")
        file.write_text(
            "server: {public_url: 'http://127.0.0.1:1'}\nkeys: {file: keys.json}\nproviders: {a: {kind: oidc, issuer: 'https://id.example.com', "
            "clients: {ios: {client_id: a, auth: none, redirect_uris: ['com.example.app:/cb']}}}}\n")
        token = pathlib.Path(folder, "token")
        token.write_text("a-token-for-nobody-5d20c7f19e")
        token.chmod(0o600)
        for status, arguments in (
                ("0", ["keys", "generate", "--file", folder + "/keys.json"]), ("1", ["check", "--config", folder + "/none.yaml"]),
                ("2", ["config", "diff", "--config", file, "--management", "http://127.0.0.1:1", "--token-file", token]), ("64", ["check", "--no-such-option"])):
            done = subprocess.run([program, *arguments], capture_output=True, text=True, timeout=30)
            say(str(done.returncode) == status, f"`coatcheck {' '.join(map(str, arguments[:2]))}`, which exits with {status} according to commands.md → exits with {status}", f"{done.returncode}: {done.stderr[:200]}")

# Compare the figures in SECURITY.md with a new count.
attacks = re.findall(r"^\| (?!attack \||---).*\|.*\|.*\| .*(?:`|Tests|Contract).* \|$", (root / "docs/known-attacks.md").read_text(), re.M)
counted = {
    "rows of published attacks": len(attacks),
    "security requirements": len(re.findall(r"^### (?:SEC-|W)\d+$", (root / "docs/reference/checklist.md").read_text(), re.M)),
    "parsers that are fuzzed": len([*(root / "Fuzz/targets").glob("*.swift")]),
    "modules of the OpenID Foundation's FAPI 2.0 plan": int(re.search(r"plan's (\d+) modules", (root / "Tests/scenarios/providers/fapi-modules.py").read_text())[1]),
    "scenarios and runbooks": sum(
        file.suffix in (".sh", ".py") and file.name != "install.sh" and not {"support", "apart"} & set(file.parts)
        for place in ("scenarios", "operations") for file in (root / "Tests" / place).rglob("*")),
    "seeds of the simulation": int(re.search(r"scripts/simulate (\d+)", (root / "scripts/test").read_text())[1]),
}
security = (root / "SECURITY.md").read_text()
for what, number in counted.items():
    shown = re.search(rf"^\| {re.escape(what)}.*? \| (over )?([\d,]+) \|", security, re.M)
    figure = int(shown[2].replace(",", "")) if shown else 0
    say(shown and (figure < number if shown[1] else figure == number), f"SECURITY.md, the number of {what} → equals the number in the repository", f"{shown and shown[0]}, counted {number}")

# Each figure of the comparison is in its own row of docs/internals/performance.md.
compared, measured = (root / "docs/start/compare.md").read_text(), (root / "docs/internals/performance.md").read_text()
figures = re.findall(r"^\| ([^|]+) \| ([^|]+) \| `make bench", compared, re.M)
ratios = dict(re.findall(r"^\| ([^|]+ \| [^|]+) \| ([\d.]+ ×) \|", measured, re.M))
rows = [
    "session check | mod_auth_openidc, static file", "relay of a small GET | mod_auth_openidc, reverse proxy",
    "relay of a small GET | nginx proxy_pass"]
say(len(figures) == len(rows), "the table of docs/start/compare.md → has three figures")
for (what, figure), row in zip(figures, rows):
    say(figure.strip() == ratios.get(row), f"docs/start/compare.md, {what.strip()} → equals the measured figure", f"{figure}, measured {ratios.get(row)}")
version = re.search(r'"(\d+\.\d+\.\d+)"', (root / "Sources/coatcheck/Version.swift").read_text()).group(1)
say(f"## {version}" in (root / "CHANGELOG.md").read_text(), "the headings of CHANGELOG.md → include the program's version", version)

verdicts.finish()
