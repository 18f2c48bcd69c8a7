"""Compares each target's imports with its dependencies in `Package.swift`. Every import must be declared, and every declared
dependency must be imported. This is stricter than SwiftPM's own check, which also accepts indirect dependencies.

    python3 scripts/lint.d/manifest.py
"""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
text = re.sub(r"(?m)(^|\s)//.*$", "", (root / "Package.swift").read_text())
# Modules of the toolchain and the system.
ALWAYS = {"Swift", "Synchronization", "Foundation", "FoundationEssentials", "FoundationNetworking", "Dispatch", "Glibc", "Darwin", "Testing", "XCTest", "PackagePlugin"}
# The folder of a target without `path`, for each kind.
ROOTS = {"testTarget": "Tests", "plugin": "Plugins"}
IMPORT = re.compile(
    r"^ *(?:(?:@\w+(?:\([^)]*\))?|package|public|internal|private|fileprivate) +)*import +(?:(?:struct|class|enum|protocol|func|typealias|var|let) +)?(\w+)", re.M)
TARGET = re.compile(r"\.(target|executableTarget|testTarget|plugin|macro|systemLibrary|binaryTarget)\(")


def inside(start):
    """Returns the text from the opening parenthesis before `start` to its closing one."""
    depth = 1
    for end in range(start, len(text)):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(text[end], 0)
        if depth == 0:
            return text[start:end]
    sys.exit("lint: Package.swift has a parenthesis without its end")


products = re.findall(r"^let (\w+): Target\.Dependency = \.product\(name: \"(\w+)\", package: \"([^\"]+)\"\)", text, re.M)
constants = {constant: product for constant, product, _ in products}


def declared(body, name):
    """Returns the names of the modules that a target depends on. Each product here has its module's name."""
    found = re.search(r"\bdependencies:\s*\[((?:[^\[\]]|\[[^\]]*\])*)\]", body)
    names = set()
    for item in re.findall(r"\.product\([^)]*\)|\"\w+\"|\w+", found.group(1) if found else ""):
        if item.startswith(".product"):
            names.add(re.search(r'name: "(\w+)"', item).group(1))
        elif item.startswith('"'):
            names.add(item.strip('"'))
        elif item in constants:
            names.add(constants[item])
        else:
            sys.exit(f"lint: Package.swift: {name} depends on {item}, which scripts/lint.d/manifest.py cannot read")
    return names


def imported(folder):
    """Returns each imported module with the first file that imports it. Conditional imports (`canImport`) are left out."""
    found = {}
    for file in sorted(folder.rglob("*.swift")):
        content = file.read_text()
        optional = set(re.findall(r"canImport\((\w+)\)", content))
        for module in IMPORT.findall(content):
            if module not in optional:
                found.setdefault(module, file.relative_to(root))
    return found


def faults():
    targets = 0
    for match in TARGET.finditer(text):
        kind, body = match.group(1), inside(match.end())
        name = re.search(r'name: "([\w-]+)"', body).group(1)
        if kind == "systemLibrary":
            continue
        targets += 1
        path = re.search(r'\bpath: "([^"]+)"', body)
        folder = root / (path.group(1) if path else f"{ROOTS.get(kind, 'Sources')}/{name}")
        wants, has = declared(body, name), imported(folder)
        for module in sorted(set(has) - wants - ALWAYS - {name}):
            yield f"{has[module]}: imports {module}, which {name} does not declare"
        for module in sorted(wants - set(has)):
            yield f"Package.swift: {name} declares {module} and imports it nowhere"
    for constant in re.findall(r"^let (\w+)\b", text, re.M):
        if len(re.findall(rf"\b{constant}\b", text)) == 1:
            yield f"Package.swift: {constant} is used nowhere"
    for package in re.findall(r"\.package\(url: \"[^\"]*/([^/\"]+)\"", text):
        if f'package: "{package}"' not in text:
            yield f"Package.swift: no target takes a product of {package}"
    if targets < 10:
        yield f"Package.swift: only {targets} targets were found"


found = list(faults())
if found:
    print("lint: imports and Package.swift disagree")
    print("\n".join(f"  {fault}" for fault in found))
sys.exit(bool(found))
