"""Counts the doc comments that begin with What, How, Where, Why or Who instead of a noun or a verb of the domain. Those that are
left in a folder are its ceiling: it may be lowered, never raised.

    python3 scripts/lint.d/comments.py [FOLDER]     with FOLDER lists its own
"""

import pathlib
import re
import sys

root = pathlib.Path(__file__).resolve().parents[2]
CEILINGS = {
    "Sources/Broker": 90,
    "Sources/BrokerHTTP": 5,
    "Sources/BrokerRelay": 2,
    "Sources/BrokerStore": 57,
    "Sources/BrokerWire": 32,
    "Sources/Sandbox": 58,
    "Sources/coatcheck": 71,
    "Tests/BrokerSimulation": 34,
    "Tests/BrokerStoreTests": 14,
    "Tests/BrokerTests": 24,
    "clients/swift": 40,
}
BEGINS = re.compile(r"/// (?:What|How|Where|Why|Who|Whose|Whatever|Whoever|Those)\b")


def found(folder):
    """Places of doc comments that begin so; a line that goes on with the one before begins nothing."""
    for file in sorted((root / folder).rglob("*.swift")):
        if ".build" in file.parts:
            continue
        before = ""
        for number, line in enumerate(file.read_text().splitlines(), 1):
            line = line.strip()
            if BEGINS.match(line) and not before.startswith("///"):
                yield f"{file.relative_to(root)}:{number}: {line}"
            before = line


if len(sys.argv) > 1:
    print("\n".join(found(sys.argv[1])))
    sys.exit()
folders = [f"{top}/{path.name}" for top in ("Sources", "Tests") for path in sorted((root / top).iterdir()) if path.is_dir()]
folders.append("clients/swift")
faults = 0
for folder in folders:
    places, ceiling = list(found(folder)), CEILINGS.get(folder, 0)
    if len(places) > ceiling:
        faults += 1
        print(f"lint: {len(places)} doc comments of {folder} begin with What, How, Where, Why or Who; {ceiling} may")
        print("\n".join(f"  {place}" for place in places[:10]))
    elif len(places) < ceiling:
        print(f"lint: {folder} has only {len(places)} such comments left; lower its ceiling in scripts/lint.d/comments.py")
sys.exit(bool(faults))
