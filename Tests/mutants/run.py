#!/usr/bin/env python3
"""Plants the faults of a list, one build for all, and prints which tests see each (`make mutants`).

Every fault is a piece of text in a file and its replacement. `MUTANT` in it is true while the fault is planted. The runner
plants all of them in a scratch clone, builds once, and runs the suites of each fault with that fault alone.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
FLAGS = ["--explicit-target-dependency-import-check", "error"]
SWITCH = "COATCHECK_MUTANT"
# A test that hangs has seen the fault.
PATIENCE = 300

SOURCE = """\
import Glibc

/// The fault that is planted in this run, by the environment; none otherwise.
package enum Mutant {
    private static let planted = getenv("%s").map { String(cString: $0) }

    package static func isOn(_ name: String) -> Bool { planted == name }
}
""" % SWITCH


def read(path):
    """Returns the faults of a list; exits with the first that is not whole."""
    mutants = tomllib.loads(path.read_text())["mutant"]
    names = set()
    for mutant in mutants:
        if mutant["name"] in names:
            sys.exit(f"{path.name}: {mutant['name']} is listed twice")
        names.add(mutant["name"])
        if "change" not in mutant:
            mutant["change"] = [{key: mutant[key] for key in ("file", "find", "replace")}]
        if not any(key in mutant for key in ("suites", "scenario", "script")):
            sys.exit(f"{path.name}: {mutant['name']} names neither suites nor a scenario nor a script")
    return mutants


def core(find, replacement):
    """Returns the numbers of characters that a text and its replacement have in common, at the front and at the end."""
    front = 0
    while front < min(len(find), len(replacement)) and find[front] == replacement[front]:
        front += 1
    end = 0
    while end < min(len(find), len(replacement)) - front and find[-1 - end] == replacement[-1 - end]:
        end += 1
    return front, end


def plant(tree, mutants):
    """Writes all faults into a clone, each behind the switch."""
    edits = {}
    wrong = []
    for mutant in mutants:
        for change in mutant["change"]:
            path = tree / change["file"]
            text = path.read_text()
            count = text.count(change["find"])
            if count != 1:
                wrong.append(f"{mutant['name']}: its text is in {change['file']} {count} times")
                continue
            replacement = change["replace"].replace("MUTANT", f'Mutant.isOn("{mutant["name"]}")')
            # Only the difference is replaced, so that faults near each other stay apart.
            front, end = core(change["find"], replacement)
            start = text.index(change["find"]) + front
            stop = start + len(change["find"]) - front - end
            edits.setdefault(path, []).append((start, stop, replacement[front:len(replacement) - end], mutant["name"]))
    texts = {tree / "Sources/Broker/Mutant.swift": SOURCE}
    for path, list in edits.items():
        text, last = path.read_text(), None
        for start, stop, made, name in sorted(list, reverse=True):
            if last and stop > last[0]:
                wrong.append(f"{name} and {last[1]} change the same text")
            text, last = text[:start] + made + text[stop:], (start, name)
        texts[path] = text
    if wrong:
        sys.exit("\n".join(wrong))
    for path, text in texts.items():
        # Unchanged files keep their time, so that the build skips them.
        if not path.exists() or path.read_text() != text:
            path.write_text(text)


def scratch(tree):
    """Brings a clone to this repository's last commit."""
    if not (tree / ".git").exists():
        subprocess.run(["git", "clone", "--quiet", "--shared", ROOT, tree], check=True)
    commit = subprocess.run(["git", "-C", ROOT, "rev-parse", "HEAD"], check=True, capture_output=True, text=True)
    subprocess.run(["git", "-C", tree, "fetch", "--quiet", ROOT, "HEAD"], check=True)
    subprocess.run(["git", "-C", tree, "checkout", "--quiet", "--force", "--detach", commit.stdout.strip()], check=True)
    resolved = ROOT / "Package.resolved"
    if resolved.exists():
        (tree / "Package.resolved").write_bytes(resolved.read_bytes())


def run(command, tree, name=None, **more):
    """Runs a command with at most one fault, and with more environment; returns its code and its output."""
    environment = {**os.environ, **more}
    environment.pop(SWITCH, None)
    if name:
        environment[SWITCH] = name
    try:
        done = subprocess.run(
            command, cwd=tree, env=environment, timeout=PATIENCE, encoding="utf-8", errors="replace",
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    except subprocess.TimeoutExpired:
        return None, ""
    # The colours go.
    return done.returncode, re.sub(r"\x1b\[[0-9;]*m", "", done.stdout)


def tests(tree, suites, name=None):
    """Runs suites; returns the names of the failed tests."""
    # Directly: `swift test` plans the whole package before each run.
    program = next(iter(sorted((tree / ".build/debug").glob("*PackageTests.xctest"))))
    code, text = run([program, "--filter", suites, "--testing-library", "swift-testing"], tree, name)
    if code is None:
        return ["(hangs)"]
    if re.search(r"Test run with 0 tests", text):
        sys.exit(f"no test has the name {suites}")
    failed = re.findall(r'✘ Test "?(.+?)"? (?:with \d+ test cases? )?failed after', text)
    failed += re.findall(r'✘ Test "?(.+?)"? recorded an issue', text)
    failed = [re.sub(r" with \d+ argument.*", "", each) for each in failed if not each.startswith("run with ")]
    failed = list(dict.fromkeys(failed))
    return failed or ([] if code == 0 else ["(crashes)"])


def simulation(tree, scenario, seeds, name=None):
    """Simulates a scenario; returns the first fault that the judge found."""
    program = ".build/debug/simulate"
    isMixed = scenario == "mixed"
    code, text = run([program, *([] if isMixed else ["scenario", scenario]), str(seeds)], tree, name)
    if code == 0:
        return []
    found = re.search(r"^seed (\d+):", text, re.M)
    if code is None or not found:
        return ["(hangs)" if code is None else "(crashes)"]
    seed = found.group(1)
    _, story = run([program, "seed", seed, *([] if isMixed else [scenario])], tree, name)
    fault = re.search(r"FAULT: (.*)", story)
    return [f"seed {seed}: {fault.group(1) if fault else 'its verdict'}"]


def traceChanges(tree, scenario, seed, name):
    """Says whether the fault changes the calls through the broker's ports in this seed."""
    command = [".build/debug/simulate", "trace", seed, *([] if scenario == "mixed" else [scenario])]
    return run(command, tree)[1] != run(command, tree, name)[1]


def traces(tree, mutants, seeds):
    """Prints for each fault that the judge finds whether the recorder of the ports sees it in the same seed."""
    found, unrecorded = 0, 0
    for mutant in mutants:
        faults = simulation(tree, mutant["scenario"], seeds, mutant["name"]) if "scenario" in mutant else []
        if seed := re.match(r"seed (\d+)", faults[0] if faults else ""):
            isRecorded = traceChanges(tree, mutant["scenario"], seed.group(1), mutant["name"])
            found, unrecorded = found + 1, unrecorded + (not isRecorded)
            print(f"{mutant['name']}: {faults[0]}: {'changes the trace' if isRecorded else '**same trace**'}", flush=True)
    print(f"{found} faults found by the judge, {unrecorded} of them change no trace")
    return 1 if unrecorded or not found else 0


def script(tree, path, name=None):
    """Runs a script of Tests/scenarios with the tree's programs; returns the names of the failed checks."""
    programs = tree / ".build/debug"
    python = ROOT / ".venv/bin/python"
    code, text = run(
        ["scripts/scenarios", f"Tests/scenarios/{path}"], tree, name, COATCHECK=str(programs / "coatcheck"),
        COATCHECK_SANDBOX=str(programs / "coatcheck-sandbox"), PYTHON=str(python) if python.exists() else "python3")
    if code is None:
        return ["(hangs)"]
    failed = re.findall(r"^ *not ok \d+ - (.*)", text, re.M)
    return failed or ([] if code == 0 else ["(breaks off)"])


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--list", type=pathlib.Path, default=HERE / "list.toml", help="the list of faults")
    parser.add_argument("--only", metavar="WORD", help="the faults whose names match this expression")
    parser.add_argument("--seeds", type=int, default=60, help="the seeds of each fault's scenario")
    parser.add_argument("--scratch", type=pathlib.Path, help="the clone to plant in; it is kept for the next run")
    parser.add_argument("--tests-only", action="store_true", help="simulate nothing, and run no scripts")
    parser.add_argument("--until-seen", action="store_true", help="simulate only the faults that no test sees")
    parser.add_argument(
        "--traces", action="store_true", help="for each fault that the judge finds: does it change the trace of its seed?")
    parser.add_argument("--planted", type=pathlib.Path, help="a tree that is planted and built already")
    parser.add_argument("--plant", type=pathlib.Path, help="plant in this tree and stop")
    given = parser.parse_args()

    mutants = read(given.list)
    if given.plant:
        return plant(given.plant, mutants)
    tree = given.planted
    if not tree:
        tree = given.scratch or pathlib.Path(tempfile.gettempdir()) / "coatcheck-mutants"
        scratch(tree)
        plant(tree, mutants)
        subprocess.run(["swift", "build", "--build-tests", *FLAGS], cwd=tree, check=True)
    if given.tests_only:
        for mutant in mutants:
            mutant.pop("scenario", None)
            mutant.pop("script", None)
    chosen = [each for each in mutants if not given.only or re.search(given.only, each["name"])]
    if given.traces:
        return traces(tree, chosen, given.seeds)

    for suites in sorted({each["suites"] for each in chosen if "suites" in each}):
        if failed := tests(tree, suites):
            sys.exit(f"without a fault: {'; '.join(failed)}")
    for scenario in sorted({each["scenario"] for each in chosen if "scenario" in each}):
        if failed := simulation(tree, scenario, given.seeds):
            sys.exit(f"without a fault: {scenario}: {failed[0]}")
    for path in sorted({each["script"] for each in chosen if "script" in each}):
        if failed := script(tree, path):
            sys.exit(f"without a fault: {path}: {failed[0]}")

    unseen = 0
    print("| fault | tests and scripts | simulation |\n| --- | --- | --- |")
    for mutant in chosen:
        name = mutant["name"]
        failed = tests(tree, mutant["suites"], name) if "suites" in mutant else []
        if "script" in mutant and not (failed and given.until_seen):
            failed += script(tree, mutant["script"], name)
        found = []
        if "scenario" in mutant and not (failed and given.until_seen):
            found = simulation(tree, mutant["scenario"], given.seeds, name)
        seen = "; ".join(failed[:2]) + (f" and {len(failed) - 2} more" if len(failed) > 2 else "")
        if not failed and not found:
            seen = f"**equivalent**: {mutant['equivalent']}" if "equivalent" in mutant else "**nothing**"
            unseen += "equivalent" not in mutant
        print(f"| {name}: {mutant['says']} | {seen} | {'; '.join(found)} |", flush=True)
    print(f"{len(chosen)} faults, {unseen} seen by nothing")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
