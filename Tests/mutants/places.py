#!/usr/bin/env python3
"""Lists the places where a fault can be planted in the newest features, and draws some of them by a seed.

`places.py` prints all places. `places.py --draw SEED COUNT` prints a list of faults for `run.py --list`. The same seed draws
the same places from the same sources. The kinds of places:

- condition: a clause of `guard` always holds, or a clause of `if` never holds
- comparison: `<` becomes `<=`, `==` always holds, and so on
- bound: a number or a time is doubled, or a limit by `min` or `max` is missing
- order: two statements in a row change places
- removed: a statement is missing
"""

import argparse
import pathlib
import random
import re

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent

# The sources of each feature, with the suites that are to notice a fault there.
AREAS = {
    "bound sessions": {
        "files": [
            "Sources/Broker/Evidence/*.swift", "Sources/BrokerHTTP/Credentials/SessionCredentials.swift",
        ],
        "suites": "ProofVerifierTests|ProofAddressTests|ProofNonceTests|ProofKeyTests|ProofChargeTests|TakenProofsTests|"
        "SignInProofTests|BoundRouteTests|SpoiledProofTests|RelayProofTests|PresenceTakingTests|OriginalRequestTests|"
        "SessionRouteTests|BackendRouteTests|CrossOriginTests|WebChildRouteTests|PresenceRouteTests|EvidenceCheckTests",
    },
    "sender-constrained tokens": {
        "files": [
            "Sources/Broker/Providers/*.swift", "Sources/BrokerProviders/Engine/OAuthEngine+Proof.swift",
            "Sources/BrokerRelay/RelayCertificate.swift",
        ],
        "suites": "ProofMakerTests|ProofNoncesTests|NonceExchangeTests|ProvenCallTests|BoundTokensTests|"
        "CertificateBoundTests|RelayCertificateTests|ClientProofTests|RelayProofTests|"
        "ProofKeyTests|BackendRouteTests",
        "scenario": "noncesChange",
    },
    "children and hand-over": {
        "files": ["Sources/Broker/Sessions/*.swift", "Sources/BrokerHTTP/Routes/BrokerAPI+Handover.swift"],
        "suites": "FamilyTests|FamilyRoomTests|FamilyBoundsTests|FamilyRouteTests|HandoverRouteTests|WebChildRouteTests|"
        "HandOverTests",
        "scenario": "pagesAreHandedOver",
    },
    "step-up": {
        "files": ["Sources/Broker/Sessions/*.swift"],
        "suites": "StepUpTests|StepUpOrderTests|StepUpSeamTests|StepUpSettlementTests|StepUpRouteTests|SignInCheckTests|"
        "StepUpEffectTests",
        "scenario": "stepUpsRepeatTheToken",
    },
    "presence": {
        "files": ["Sources/Broker/Evidence/*.swift"],
        "suites": "PresenceTakingTests|PresenceRouteTests|RelayPresenceTests|FamilyBoundsTests|PresenceBoundsTests",
    },
    "tokens for each API": {
        "files": ["Sources/Broker/Tokens/*.swift", "Sources/Broker/Tokens/*Target*.swift"],
        "suites": "AudienceTokensTests|TargetMachineTests|BoundTokensTests|TargetConfigurationTests|TargetMemoryTests|"
        "AudienceUseTests|CertificateBoundTests",
        "scenario": "audiencesShareOneGrant",
    },
}


def blank(text):
    """Returns the text with comments and the insides of strings replaced by spaces."""
    out, i = list(text), 0
    while i < len(text):
        if text.startswith("//", i):
            end = text.find("\n", i)
            end = len(text) if end < 0 else end
        elif text.startswith('"""', i):
            end = text.find('"""', i + 3) + 3
        elif text.startswith('#"', i):
            end = text.find('"#', i + 2) + 2
        elif text[i] == '"':
            end = i + 1
            while text[end] != '"':
                end += 2 if text[end] == "\\" else 1
            end += 1
        else:
            i += 1
            continue
        for j in range(i, end):
            if out[j] != "\n":
                out[j] = " " if text[i] == "/" else "§"
        i = end
    return "".join(out)


def close(code, start):
    """Returns the place behind the bracket that closes the one at `start`."""
    depth = 0
    for i in range(start, len(code)):
        depth += (code[i] in "([{") - (code[i] in ")]}")
        if depth == 0:
            return i + 1
    return len(code)


def clauses(code, start, end):
    """Splits a condition at its commas."""
    at, i = start, start
    while i < end:
        if code[i] in "([{":
            i = close(code, i)
            continue
        if code[i] == ",":
            yield at, i
            at = i + 1
        i += 1
    yield at, end


def trim(code, start, end):
    while start < end and code[start].isspace():
        start += 1
    while end > start and code[end - 1].isspace():
        end -= 1
    return start, end


class Source:
    def __init__(self, area, path):
        self.area, self.path = area, path
        self.text = (ROOT / path).read_text()
        self.code = blank(self.text)
        self.found = []
        self.conditions = set()

    def add(self, kind, start, end, replacement, says):
        line = self.text.count("\n", 0, start) + 1
        self.found.append((line, kind, start, end, replacement, says, self))

    def isWaiting(self, start, end):
        return re.search(r"\b(await|try)\b", self.code[start:end]) is not None

    def scan(self):
        self.scanConditions()
        self.scanComparisons()
        self.scanBounds()
        self.scanStatements()
        return sorted(self.found, key=lambda each: (each[0], each[1], each[2]))

    def scanConditions(self):
        for match in re.finditer(r"\b(guard|if|while) ", self.code):
            i = match.end()
            # The body's brace follows at the same depth; a closure's brace belongs to a call.
            while i < len(self.code):
                if self.code[i] in "([":
                    i = close(self.code, i)
                    continue
                if self.code[i] == "{":
                    before = self.code[:i].rstrip()
                    if match[1] == "guard" and not before.endswith("else"):
                        i = close(self.code, i)
                        continue
                    # A trailing closure is followed by the body on the same condition.
                    after = self.code[close(self.code, i):].lstrip(" ")
                    if match[1] != "guard" and after.startswith("{"):
                        i = close(self.code, i)
                        continue
                    break
                i += 1
            end = i
            if match[1] == "guard":
                end = self.code.rfind("else", match.end(), i)
            for start, stop in clauses(self.code, match.end(), end):
                start, stop = trim(self.code, start, stop)
                clause = self.text[start:stop]
                if not clause or clause == "true" or re.match(r"(let|var|case|#)", clause) or self.isWaiting(start, stop):
                    continue
                self.conditions.add((start, stop))
                if match[1] == "guard":
                    self.add("condition", start, stop, f"(MUTANT || ({clause}))", "always holds")
                else:
                    self.add("condition", start, stop, f"(!MUTANT && ({clause}))", "never holds")

    def scanComparisons(self):
        swap = {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}
        for match in re.finditer(r" (<|<=|>|>=|==|!=) ", self.code):
            left, right = self.operand(match.start(), -1), self.operand(match.end(), 1)
            start, stop = trim(self.code, left, right)
            if (start, stop) in self.conditions and match[1] in ("==", "!="):
                continue
            expression = self.text[start:stop]
            if self.isWaiting(start, stop) or "{" in self.code[start:stop] or "static func" in self.line(start):
                continue
            if match[1] == "==":
                replacement, says = f"(MUTANT || {expression})", "always holds"
            elif match[1] == "!=":
                replacement, says = f"(!MUTANT && {expression})", "never holds"
            else:
                middle = match.start() - start
                other = f"{expression[:middle]} {swap[match[1]]} {expression[middle + len(match[0]):]}"
                replacement, says = f"(MUTANT ? {other} : {expression})", f"{match[1]} becomes {swap[match[1]]}"
            self.add("comparison", start, stop, replacement, says)

    def line(self, at):
        return self.code[self.code.rfind("\n", 0, at) + 1:self.code.find("\n", at)]

    def operand(self, at, step):
        """Returns the end of an operand, from the operator on."""
        i = at if step > 0 else at - 1
        while 0 <= i < len(self.code):
            char = self.code[i]
            if char in ("([{" if step > 0 else ")]}"):
                if step > 0:
                    if char == "{":
                        return i
                    i = close(self.code, i)
                    continue
                depth = 0
                while True:
                    depth += (self.code[i] in ")]}") - (self.code[i] in "([{")
                    if depth == 0:
                        break
                    i -= 1
                i -= 1
                continue
            if char in ")]},([{;":
                break
            if step > 0:
                if re.match(r" (&&|\|\||\?|:|\?\?|else|where|in) ", self.code[i:]) or char == "\n" and not re.match(
                        r"\n\s*[.+]", self.code[i:]):
                    return i
            else:
                before = self.code[:i + 1]
                if re.search(r"(&&|\|\||\?|:|=|\?\?|\breturn|\bguard|\bif|\bwhile|\bwhere|\bin) $", before) or (
                        char == "\n" and not re.match(r"\s*[.+]", self.code[i + 1:])):
                    return i + 1
            i += step
        return i if step > 0 else i + 1

    def scanBounds(self):
        for match in re.finditer(r"\.(seconds|milliseconds|minutes|hours)\((\d[\d_]*)\)", self.code):
            self.double(match.start(2), match.end(2))
        for match in re.finditer(r"static let \w+(?:: \w+)? = (\d[\d_]*)\n", self.code):
            self.double(match.start(1), match.end(1))
        for match in re.finditer(r"\b(\d+)\.\.\.(\d+)\b", self.code):
            self.add("bound", match.start(1), match.end(1), f"(MUTANT ? {int(match[1]) // 2} : {match[1]})", "is halved")
            self.add("bound", match.start(2), match.end(2), f"(MUTANT ? {int(match[2]) * 2} : {match[2]})", "is doubled")
        for match in re.finditer(r"(?<![.\w])(min|max)\(", self.code):
            end = close(self.code, match.end() - 1)
            first = next(iter(clauses(self.code, match.end(), end - 1)))
            whole = self.text[match.start():end]
            if not self.isWaiting(match.start(), end):
                self.add(
                    "bound", match.start(), end, f"(MUTANT ? {self.text[first[0]:first[1]]} : {whole})", "has no limit")

    def double(self, start, end):
        number = int(self.text[start:end].replace("_", ""))
        if number > 0:
            self.add("bound", start, end, f"(MUTANT ? {number * 2} : {self.text[start:end]})", "is doubled")

    def scanStatements(self):
        lines, last = [], None
        for match in re.finditer(r"^( {8,})(\S.*)$", self.code, re.M):
            start = match.start(2)
            text = match[2]
            isCall = re.match(r"(_ = )?(try )?(await )?[A-Za-z_][\w.?]*(\[[^\]]*\])?[\w.?]*(\(|\[| [+|-]?= | \{$)", text)
            if not isCall or re.match(
                    r"(guard|if|for|while|switch|return|throw|let|var|case|do|else|func|init|defer|private|static|package|"
                    r"catch|default|self\.\w+ = |super|async|some|any|struct|extension)\b", text):
                last = None
                continue
            previous = self.code[:match.start()].rstrip()
            if not previous or previous[-1] in ",([&|?:=+" or previous.endswith(("return", "throws", "->", " in")) \
                    or text.startswith((".", "?", ":")):
                if not previous.endswith(" in"):
                    last = None
                    continue
            end = start
            while end < len(self.code):
                if self.code[end] in "([{":
                    end = close(self.code, end)
                elif self.code[end] == "\n" and not re.match(r"\n\s*[.?:&|]", self.code[end:]):
                    break
                elif self.code[end] in ")]}":
                    break
                else:
                    end += 1
            # The only expression of a function or a closure may be its result.
            opener = previous.rsplit("\n", 1)[-1].strip()
            isPlain = re.match(r"(if|guard|for|while|do|defer|\} else|\} catch|(\w+ )*(func|init))\b(?!.*-> )", opener)
            isOnly = previous.endswith(("{", " in")) and self.code[end:].lstrip().startswith("}")
            isResult = isOnly and not (isPlain and previous.endswith("{"))
            # A constant without its one value does not compile.
            target = re.match(r"(\w+) = ", text)
            isFirst = target and re.search(rf"\b(let|var)\b[^=\n{{]*\b{target[1]}\b[^=\n{{]*$", self.code, re.M)
            if isResult or isFirst or text.startswith("self.init"):
                last = None
                continue
            statement = self.text[start:end].rstrip()
            if self.code[start:end].count("\n") > 12 or self.code[end - 1] in ",([":
                last = None
                continue
            self.add("removed", start, start + len(statement), "if !MUTANT { " + statement + " }", "is missing")
            first = self.text[last[0]:last[1]] if last else ""
            isAssignment = [re.match(r"[\w.]+(\[[^\]]*\])?[\w.]* [+-]?= (?!try)", each) for each in (first, statement)]
            if last and last[2] == match[1] and self.code[last[1]:start].strip() == "" and not all(isAssignment):
                self.add(
                    "order", last[0], start + len(statement),
                    f"if MUTANT {{\n{statement}\n{first}\n}} else {{\n{first}\n{statement}\n}}", "change places")
            last = (start, start + len(statement), match[1])


def places():
    found = []
    for area, parts in AREAS.items():
        for pattern in parts["files"]:
            for path in sorted(ROOT.glob(pattern)):
                found += Source(area, path.relative_to(ROOT)).scan()
    return found


def short(text):
    text = re.sub(r"\s+", " ", text)
    return text if len(text) <= 70 else text[:67] + "..."


def overlaps(one, other):
    def ends(place):
        return place[0], place[0] + place[6].text.count("\n", place[2], place[3])
    (first, last), (start, stop) = ends(one), ends(other)
    return one[6].path == other[6].path and first <= stop and start <= last


def name(place):
    line, kind, start, _, _, _, source = place
    return f"{source.path.stem.replace('+', '-')}-{line}-{kind}-{start}"


def entry(place):
    """Returns the entry of a fault for `run.py`."""
    line, kind, start, end, replacement, says, source = place
    text = source.text
    # A text that occurs once, with whole lines around it where that is necessary.
    first, last = start, end
    while text.count(text[first:last]) != 1:
        first = text.rfind("\n", 0, max(first - 1, 0)) + 1
        if text.count(text[first:last]) != 1 and first == 0:
            break
    find = text[first:last]
    made = text[first:start] + replacement + text[end:last]
    parts = AREAS[source.area]
    lines = [
        "[[mutant]]", f'name = "{name(place)}"',
        f"says = {quoted(f'{source.area}: `{short(text[start:end])}` {says}')}", f'file = "{source.path}"',
        f"find = {literal(find)}", f"replace = {literal(made)}", f'suites = "{parts["suites"]}"',
    ]
    if "scenario" in parts:
        lines.append(f'scenario = "{parts["scenario"]}"')
    return "\n".join(lines) + "\n"


def quoted(text):
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def literal(text):
    # A literal string that begins with a line break loses it.
    return "'''\n" + text + "'''"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draw", nargs=2, metavar=("SEED", "COUNT"), help="print so many faults, drawn by a seed")
    parser.add_argument("--without", type=pathlib.Path, help="a file with the names of places that do not compile")
    given = parser.parse_args()
    found = places()
    if not given.draw:
        for place in found:
            line, kind, start, end, _, says, source = place
            print(f"{source.path}:{line}: {kind}: {short(source.text[start:end])} {says}")
        print(f"{len(found)} places")
        return
    excluded = set(given.without.read_text().split()) if given.without else set()
    random.Random(given.draw[0]).shuffle(found)
    drawn = []
    for place in found:
        # Faults that share a line would change each other's text.
        if name(place) in excluded or any(overlaps(place, other) for other in drawn):
            continue
        drawn.append(place)
        if len(drawn) == int(given.draw[1]):
            break
    print(f"# {len(drawn)} of {len(found)} places, drawn by the seed {given.draw[0]!r}.\n")
    for place in sorted(drawn, key=lambda each: (str(each[6].path), each[0])):
        print(entry(place))


if __name__ == "__main__":
    main()
