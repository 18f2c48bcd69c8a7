"""Runs a program under callgrind, and reads its counts between two moments."""

import os
import re
import subprocess
import time

import processes

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


class Window:
    """The window between two moments: callgrind's file of executed instructions, and the length in seconds."""

    def __init__(self, path, seconds):
        self.path, self.seconds = path, seconds

    @property
    def instructions(self):
        with open(self.path) as file:
            for line in file:
                if line.startswith("summary:"):
                    return int(line.split()[1])
        raise SystemExit(f"callgrind: {self.path} has no summary")

    def costs(self):
        """Yields a tuple for each cost record: the object, the function, the address (if known), and the instructions that the
        function executed itself."""
        names, binary, function, called = {}, "", "", False
        with open(self.path) as file:
            for line in file:
                if line[0] in "0123456789":
                    # The line after `calls=` has the instructions of the called function.
                    if not called:
                        fields = line.split()
                        yield binary, function, int(fields[0], 0), int(fields[-1])
                    called = False
                elif line.startswith("calls="):
                    called = True
                elif match := NAME.match(line):
                    kind, number, name = match.groups()
                    space = kind.removeprefix("c")
                    if name:
                        names[space, number] = name
                    if kind == "ob":
                        binary = names[space, number]
                    elif kind == "fn":
                        function = names[space, number]


NAME = re.compile(r"(c?(?:ob|fn))=\((\d+)\)(?: (.*))?$")


class Program(processes.Server):
    """A server under callgrind, with one event loop and hashes that are the same in each run."""

    def __init__(self, name, binary, arguments, port, directory, by_address=False):
        self.directory, self.binary = directory, without_debug_information(binary, directory)
        self.output = os.path.join(directory, f"{name}.callgrind")
        environment = dict(os.environ, SWIFT_DETERMINISTIC_HASHING="1", NIO_SINGLETON_GROUP_LOOP_COUNT="1",
                           LD_PRELOAD=sigsuspend(directory))
        options = ["--demangle=no", "--compress-pos=no", f"--callgrind-out-file={self.output}"]
        if by_address:
            options.append("--dump-instr=yes")
        super().__init__(name, ["valgrind", "--tool=callgrind", *options, self.binary, *arguments], port, directory,
                         environment, seconds=180)
        self.begin, self.dumps = time.monotonic(), 0

    def window(self):
        """Ends a window, begins the next one, and returns the window that ended."""
        seconds = time.monotonic() - self.begin
        subprocess.run(["vgdb", f"--pid={self.pid}", "dump"], check=True, capture_output=True, timeout=120)
        self.begin, self.dumps = time.monotonic(), self.dumps + 1
        path = f"{self.output}.{self.dumps}"
        if not os.path.exists(path):
            raise SystemExit(f"callgrind: {self.name} wrote no {path}")
        return Window(path, seconds)

    def idle(self, seconds):
        """Returns a window of this length without requests."""
        self.window()
        time.sleep(seconds)
        return self.window()


def without_debug_information(binary, directory):
    """Copies a program with its symbols but without its DWARF 5 data, because Debian's valgrind cannot read the compiler's
    DWARF 5."""
    copy = os.path.join(directory, os.path.basename(binary))
    if not os.path.exists(copy):
        subprocess.run(["objcopy", "--strip-debug", binary, copy], check=True)
    return copy


def sigsuspend(directory):
    """Compiles the library that every program here needs at its start; sigsuspend.c explains the reason."""
    library = os.path.join(directory, "sigsuspend.so")
    if not os.path.exists(library):
        subprocess.run(["clang", "-shared", "-fPIC", "-O1", "-o", library, f"{ROOT}/Benchmarks/sigsuspend.c"], check=True)
    return library
