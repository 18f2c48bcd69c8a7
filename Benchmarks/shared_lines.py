"""Counts the cache lines that two event loops share in session checks. Both loops touch such a line, and at least one of them
writes it.

    Benchmarks/shared_lines.py [--checks N] [--places]

The broker runs with two event loops. The script finds a connection on each loop, and sends checks over the two connections in
turn. Meanwhile it executes the loop's thread one instruction at a time (ptrace), and records every memory operand. It leaves
out stacks, and memory that the check itself allocates.

A line counts as shared if both loops touch it in at least half of their checks, and one loop writes it in at least half of its
checks. A visit begins with a touch that is more than 100 instructions after the last touch of the line. The script does not see
the writes of other threads. The checks are so slow that each is the first of its second, so each one formats the time texts
again.

Needs Linux on x86-64, capstone (`pip install capstone`), nm and swift-demangle. With --places, which prints the places in the
sources, it also needs llvm-symbolizer. COATCHECK_UNSTRIPPED and COATCHECK_SANDBOX name the programs.
"""

import argparse
import bisect
import collections
import ctypes
import os
import re
import select
import signal
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import urllib.parse

import capstone
import capstone.x86 as x86

import load
import scale

LINE = 64
ALL = 0x40000000
VISIT = 100
CONT, SINGLESTEP, GETREGS, DETACH, SEIZE, INTERRUPT = 7, 9, 12, 17, 0x4206, 0x4207
# The registers are in the order of user_regs_struct.
REGISTERS = ("r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi orig_rax rip cs eflags rsp ss fs_base gs_base ds es "
             "fs gs").split()
PLACE = {name: place for place, name in enumerate(REGISTERS)}
for wide, narrow in (("rax", "eax"), ("rcx", "ecx"), ("rdx", "edx"), ("rsi", "esi"), ("rdi", "edi"), ("rbp", "ebp"),
                     ("rbx", "ebx"), ("rsp", "esp")):
    PLACE[narrow] = PLACE[wide]
RIP, RSP, RAX, RDI, RSI = (PLACE[name] for name in ("rip", "rsp", "rax", "rdi", "rsi"))
EPOLL = {232, 281, 441}
MASK = (1 << 64) - 1
libc = ctypes.CDLL(None, use_errno=True)
libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
libc.ptrace.restype = ctypes.c_long


def ptrace(request, thread, data=None):
    if libc.ptrace(request, thread, None, data) < 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request} of {thread}")


class Instruction:
    """The memory operands of one instruction, and its effect on the call stack."""

    __slots__ = ("operands", "kind")

    def __init__(self, code):
        self.operands, self.kind = [], ""
        if code.id == x86.X86_INS_CALL:
            self.kind = "call"
        elif code.id == x86.X86_INS_SYSCALL:
            self.kind = "syscall"
        if code.id in (x86.X86_INS_LEA, x86.X86_INS_NOP) or code.mnemonic.startswith("prefetch"):
            return
        for operand in code.operands:
            if operand.type != x86.X86_OP_MEM:
                continue
            memory = operand.mem
            base = code.reg_name(memory.base) if memory.base else None
            displacement = memory.disp
            if base == "rip":
                base, displacement = None, displacement + code.address + code.size
            if memory.segment == x86.X86_REG_FS:
                continue  # the thread's own
            index = code.reg_name(memory.index) if memory.index else None
            if base not in (None, *PLACE) or index not in (None, *PLACE):
                continue
            writes = bool(operand.access & capstone.CS_AC_WRITE)
            atomic = code.prefix[0] == 0xF0 or (code.id == x86.X86_INS_XCHG)
            self.operands.append((PLACE.get(base, -1), PLACE.get(index, -1), memory.scale, displacement, operand.size,
                                  "atomic" if atomic else "write" if writes else "read"))


class Program:
    """The memory and the symbols of the broker."""

    def __init__(self, pid):
        self.pid = pid
        self.memory = open(f"/proc/{pid}/mem", "rb", buffering=0)
        self.decoder = capstone.Cs(capstone.CS_ARCH_X86, capstone.CS_MODE_64)
        self.decoder.detail = True
        self.known, self.files, self.names = {}, [], {}
        bases = {}
        with open(f"/proc/{pid}/maps") as maps:
            for line in maps:
                fields = line.split()
                if len(fields) > 5 and fields[5].startswith("/"):
                    begin, end = (int(part, 16) for part in fields[0].split("-"))
                    base = bases.setdefault(fields[5], begin)
                    self.files.append((begin, end, fields[5], base))
        self.tables = {path: symbols(path) for path in bases}
        # The number of requested bytes, by function.
        sizes = {"malloc": lambda r: r[RDI], "calloc": lambda r: r[RDI] * r[RSI], "realloc": lambda r: r[RSI],
                 "aligned_alloc": lambda r: r[RSI]}
        self.allocators = {}
        for path, (addresses, names) in self.tables.items():
            if os.path.basename(path).startswith("libc."):
                for address, name in zip(addresses, names):
                    if name in sizes:
                        self.allocators[bases[path] + address] = sizes[name]

    def read(self, address, size):
        try:
            self.memory.seek(address)
            return self.memory.read(size)
        except (OSError, ValueError, OverflowError):
            return b""

    def instruction(self, address):
        found = self.known.get(address)
        if found is None:
            code = next(self.decoder.disasm(self.read(address, 16), address, 1), None)
            found = self.known[address] = Instruction(code) if code else None
        return found

    def file(self, address):
        return next(((path, base) for begin, end, path, base in self.files if begin <= address < end), (None, 0))

    def symbol(self, address):
        """Returns the name of the function or datum at an address."""
        if address not in self.names:
            self.names[address] = None
            path, base = self.file(address)
            if path:
                addresses, names = self.tables[path]
                place = bisect.bisect_right(addresses, address - base) - 1
                if place >= 0:
                    self.names[address] = names[place]
        return self.names[address]

    def type_of(self, thing):
        """Returns the type's name of a Swift object."""
        words = self.read(thing, 8)
        if len(words) < 8:
            return None
        metadata, = struct.unpack("<Q", words)
        if self.file(metadata)[0]:
            return self.symbol(metadata)
        # For a class that is created at run time, use the description in the sixth word of its metadata.
        words = self.read(metadata, 48)
        return self.symbol(struct.unpack("<Q", words[40:])[0]) if len(words) == 48 else None


def symbols(path):
    """Returns the addresses and names in a file, sorted by address."""
    found = []
    for more in ([], ["-D"]):
        text = subprocess.run(["nm", "--defined-only", *more, path], capture_output=True, text=True).stdout
        found += [(int(line[:16], 16), line[19:].split("@")[0]) for line in text.splitlines() if line[17:18] not in "aAN"]
    found.sort(key=lambda entry: (entry[0], not entry[1].startswith("$s")))
    return [address for address, _ in found], [name for _, name in found]


class Check:
    """The record of one check's execution."""

    def __init__(self):
        self.steps, self.lines = 0, collections.defaultdict(Touches)
        self.totals, self.types = collections.Counter(), {}
        # For each cache line: kind of access, address of the code, and its callers.
        self.places = collections.defaultdict(collections.Counter)

    def take(self, events, fresh):
        """Counts a touched address, unless this check has allocated the memory itself."""
        for step, kind, address, size, place in events:
            if address // 8 in fresh:
                continue
            self.totals[kind] += 1
            for line in range(address // LINE, (address + max(size, 1) - 1) // LINE + 1):
                touches = self.lines[line]
                setattr(touches, kind, getattr(touches, kind) + 1)
                if step - touches.last > VISIT:
                    touches.visits += 1
                touches.last = step
                touches.words.add(address // 8)
                if kind != "read":
                    touches.written.add(address // 8)
                self.places[line][kind, *place] += 1


class Touches:
    """One check's accesses to one cache line."""

    def __init__(self):
        self.read = self.write = self.atomic = self.visits = 0
        self.last = -VISIT - 1
        self.words, self.written = set(), set()


class Loop:
    """An event loop's thread and a connection on it."""

    def __init__(self, program, thread, connection, request):
        self.program, self.thread, self.connection, self.request = program, thread, connection, request
        self.registers = (ctypes.c_uint64 * 27)()
        # Move the thread to the tracer's core. The two threads take turns, and waking a thread on another core would take
        # longer than a step.
        os.sched_setaffinity(thread, os.sched_getaffinity(0))
        ptrace(SEIZE, thread)
        self.stop()
        ptrace(GETREGS, thread, ctypes.addressof(self.registers))
        with open(f"/proc/{program.pid}/maps") as maps:
            self.stack = next((begin, end) for begin, end in (
                (int(part, 16) for part in line.split()[0].split("-")) for line in maps) if begin <= self.registers[RSP] < end)

    def stop(self):
        ptrace(INTERRUPT, self.thread)
        os.waitpid(self.thread, ALL)

    def prepare(self):
        """Makes the broker read the session before the next check. Then the session is in the cache, as it is under load."""
        ptrace(CONT, self.thread)
        plain(self.connection, self.request, 2)
        self.stop()

    def release(self):
        ptrace(DETACH, self.thread)

    def check(self):
        """Sends a check and executes it instruction by instruction."""
        check, steps, calls, answered = Check(), 0, [], False
        events, fresh, allocating, allocators = [], set(), [], self.program.allocators
        registers, pointer, program = self.registers, ctypes.addressof(self.registers), self.program
        known, thread = program.known, self.thread
        low, high = self.stack
        self.connection.sendall(self.request)
        while True:
            if libc.ptrace(GETREGS, thread, None, pointer) < 0:
                raise OSError("a thread is gone")
            rip, rsp = registers[RIP], registers[RSP]
            instruction = known.get(rip) or program.instruction(rip)
            while calls and calls[-1][0] < rsp:
                calls.pop()
            while allocating and allocating[-1][0] < rsp:
                # An allocating function has returned. Its result is the address, and the size was noted at the call.
                thing, size = registers[RAX], allocating.pop()[1]
                fresh.update(range(thing // 8 - 1, (thing + size + 7) // 8))
            if rip in allocators:
                allocating.append((rsp, allocators[rip](registers)))
            if instruction is not None:
                for base, index, scale_, displacement, size, kind in instruction.operands:
                    address = displacement
                    if base >= 0:
                        address += registers[base]
                    if index >= 0:
                        address += registers[index] * scale_
                    address &= MASK
                    if low <= address < high:
                        continue
                    events.append((steps, kind, address, size, (rip, tuple(call[1] for call in calls[-1:-7:-1]))))
                    # The word of an atomic access may be the reference count of a Swift object.
                    if kind == "atomic" and address % 8 == 0 and address - 8 not in check.types:
                        check.types[address - 8] = program.type_of(address - 8)
                if instruction.kind == "call":
                    calls.append((rsp - 8, rip))
                elif instruction.kind == "syscall":
                    if not answered and select.select([self.connection], [], [], 0)[0]:
                        self.answer()
                        answered = True
                    if answered and registers[RAX] in EPOLL:
                        check.steps = steps
                        check.take(events, fresh)
                        return check
            steps += 1
            if libc.ptrace(SINGLESTEP, thread, None, None) < 0:
                raise OSError("a thread is gone")
            _, status = os.waitpid(thread, ALL)
            if not os.WIFSTOPPED(status):
                raise SystemExit(f"shared_lines: the thread ended: {status:x}")

    def answer(self):
        data = self.connection.recv(65536)
        if not data.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"shared_lines: {data!r}")


def plain(connection, request, times):
    for _ in range(times):
        connection.sendall(request)
        data = b""
        while b"\r\n\r\n" not in data:
            data += connection.recv(65536)
        if not data.startswith(b"HTTP/1.1 200"):
            raise SystemExit(f"shared_lines: {data!r}")


def loops_of(pid):
    """Returns the threads that may be event loops, with the CPU time of each."""
    found = {}
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm") as comm, open(f"/proc/{pid}/task/{task}/schedstat") as used:
            if comm.read().startswith("NIO-"):
                found[int(task)] = int(used.read().split()[0])
    return found


def connections(pid, url, request):
    """Returns a connection for each event loop, by its thread."""
    found, base = {}, urllib.parse.urlsplit(url)
    for _ in range(16):
        connection = socket.create_connection((base.hostname, base.port))
        plain(connection, request, 20)
        before = loops_of(pid)
        plain(connection, request, 300)
        after = loops_of(pid)
        busiest = max(after, key=lambda thread: after[thread] - before.get(thread, 0))
        found.setdefault(busiest, connection)
        if len(found) == 2:
            return found
    raise SystemExit(f"shared_lines: connections only on {list(found)}")


class Row:
    """One shared line, with each loop's average number of accesses in a check."""

    def __init__(self, line, runs):
        self.line = line
        touched = [[check.lines[line] for check in run if line in check.lines] for run in runs]
        each = lambda name: [sum(getattr(one, name) for one in loop) / len(run) for loop, run in zip(touched, runs)]
        self.visits, self.atomic, self.write, self.read = (each(name) for name in ("visits", "atomic", "write", "read"))
        words, written = (
            [set().union(*(getattr(one, name) for one in loop)) for loop in touched] for name in ("words", "written"))
        self.is_shared = all(2 * len(loop) >= len(run) for loop, run in zip(touched, runs)) and any(
            2 * sum(bool(one.written) for one in loop) >= len(run) for loop, run in zip(touched, runs))
        # If this is false, the loops use different words, which are in one cache line by chance.
        self.is_one_thing = bool(words[0] & written[1] or words[1] & written[0])
        # The greatest number of times in a check that the line can move between the loops' cores, if both loops check at the
        # same time. Each visit of the loop with fewer visits moves the line to that loop's core, and the other loop's next visit
        # moves it back. Two checks, one on each loop, share these two moves.
        self.exchanges = min(self.visits)

    @property
    def numbers(self):
        both = lambda pair: f"{pair[0]:.1f}" if f"{pair[0]:.1f}" == f"{pair[1]:.1f}" else f"{pair[0]:.1f}/{pair[1]:.1f}"
        return (f"{self.exchanges:.1f} exchanges; {both(self.visits)} visits, {both(self.atomic)} atomic, "
                f"{both(self.write)} writes, {both(self.read)} reads{'' if self.is_one_thing else '; different words'}")


def shared(runs):
    """Returns the lines that both loops touch in half of their checks, and that one loop writes in half of its checks."""
    lines = set().union(*(check.lines for check in runs[0])) & set().union(*(check.lines for check in runs[1]))
    rows = [row for row in (Row(line, runs) for line in lines) if row.is_shared]
    return sorted(rows, key=lambda row: (row.exchanges, sum(row.visits), row.line), reverse=True)


def demangled(names):
    names = [name for name in names if name]
    text = subprocess.run(["swift-demangle", "--compact", "--simplified"], input="\n".join(names), capture_output=True, text=True)
    return dict(zip(names, text.stdout.splitlines()))


def report(title, program, runs, places):
    rows = shared(runs)
    checks = [check for run in runs for check in run]
    each = lambda value: sum(map(value, checks)) / len(checks)
    print(f"\n## {title}\n\n{len(runs[0])} and {len(runs[1])} checks, {each(lambda check: check.steps):,.0f} instructions each, "
          f"{each(lambda check: check.totals['atomic']):,.0f} of them atomic, "
          f"on {each(lambda check: len(check.lines)):,.0f} lines.")
    for kind, some in (("of the same words", [row for row in rows if row.is_one_thing]),
                       ("of different words", [row for row in rows if not row.is_one_thing])):
        print(f"Shared, {kind}: {len(some)} lines, {sum(row.exchanges for row in some):.1f} exchanges, "
              f"{sum(sum(row.atomic) for row in some) / 2:.1f} atomic instructions a check.")
    print()
    types = {}
    for check in checks:
        types.update(check.types)
    wanted, about = set(), []
    for row in rows:
        line = row.line
        things = range(line * LINE - 8, line * LINE + LINE - 8, 8)
        names = collections.Counter(types[thing] for thing in things if types.get(thing))
        if program.file(line * LINE)[0]:
            names[program.symbol(line * LINE + LINE - 1)] += 1
        uses = collections.Counter()
        for check in checks:
            for use, count in check.places[line].items():
                uses[use] += count
                wanted.update(program.symbol(address) for address in (use[1], *use[2]))
        wanted.update(names)
        about.append((row, names, uses))
    text = demangled(sorted(name for name in wanted if name))
    short = lambda name: re.sub(r"\s+", " ", text.get(name, name or "?")).removeprefix("_ZN5swift")[:90]
    source = sources(program, {address for _, _, uses in about for _, rip, callers in uses for address in (rip, *callers)}) \
        if places else {}
    for row, names, uses in about:
        print(f"{row.line * LINE:x}: {row.numbers}; {', '.join(short(name) for name in names) or '?'}")
        chains = collections.Counter()
        for (kind, rip, callers), count in uses.items():
            chain = [f"{short(program.symbol(address))}{source.get(address, '')}" for address in (rip, *callers)]
            chains[kind, " < ".join(chain if places else chain[:3])] += count
        for (kind, chain), count in chains.most_common(12 if places else 2):
            print(f"    {count / len(checks):.1f} {kind}: {chain}")


def sources(program, addresses):
    """Returns the places in the sources, by address."""
    found = {}
    by_file = collections.defaultdict(list)
    for address in addresses:
        path, base = program.file(address)
        if path and "coatcheck" in path:
            by_file[path].append((address, address - base))
    for path, pairs in by_file.items():
        text = subprocess.run(["llvm-symbolizer", "--no-inlines", "--functions=none", "--basenames", f"--obj={path}"],
                              input="\n".join(hex(offset) for _, offset in pairs), capture_output=True, text=True).stdout
        for (address, _), place in zip(pairs, [part.strip() for part in text.split("\n\n") if part.strip()]):
            found[address] = f" [{place.splitlines()[0].rsplit(':', 1)[0]}]"
    return found


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--checks", type=int, default=6, help="of each loop")
    parser.add_argument("--places", action="store_true")
    options = parser.parse_args()
    folder = tempfile.mkdtemp(prefix="coatcheck-shared-")
    os.environ["NIO_SINGLETON_GROUP_LOOP_COUNT"] = "2"
    os.environ["COATCHECK"] = os.environ["COATCHECK_UNSTRIPPED"]
    brokers = scale.Brokers(folder, "shared", "sqlite:@DIR@/coatcheck.db", more="")
    try:
        broker, url = brokers.first, brokers.env["BROKER"]
        cookies = [load.sign_in(url, brokers.env["SANDBOX"], user) for user in ("ana", "ben")]
        host = urllib.parse.urlsplit(url).netloc
        requests = [(f"GET /v1/forward-auth HTTP/1.1\r\nHost: {host}\r\nCookie: {cookie}\r\n"
                     f"X-Coatcheck-Backend: {brokers.env['BACKEND_TOKEN']}\r\n\r\n").encode() for cookie in cookies]
        by_loop = connections(broker.pid, url, requests[0])
        program = Program(broker.pid)
        for title, pair in (("Each loop its own session", requests), ("One session on both loops", [requests[0]] * 2)):
            loops = [Loop(program, thread, connection, request)
                     for (thread, connection), request in zip(by_loop.items(), pair)]
            runs, least = ([], []), 1 << 62
            while min(map(len, runs)) < options.checks:
                for loop, run in zip(loops, runs):
                    loop.prepare()
                    check = loop.check()
                    least = min(least, check.steps)
                    # In some checks the five seconds of the cache are over, so the check reads the store. The script leaves out
                    # such a check.
                    run[:] = [each for each in [*run, check] if each.steps < 1.15 * least]
            report(title, program, runs, options.places)
            for loop in loops:
                loop.release()
    finally:
        brokers.stop()
        shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    signal.alarm(900)
    # The tracer and the traced threads run on one core.
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    main()
