"""A clock for test processes, which a test can move."""

import mmap
import pathlib
import shutil
import struct
import subprocess

from .programs import HERE


class Clock:
    """The wall clock and the monotonic clock of all processes that preload the library `preloaded_clock.so`."""

    def __init__(self, case, name="clock", folder=None):
        folder = pathlib.Path(folder or case.folder)
        self.library = folder / "preloaded_clock.so"
        self.file = folder / name
        if not self.library.exists():
            subprocess.run(
                [shutil.which("cc") or "clang", "-shared", "-fPIC", "-O2", "-o", self.library, HERE / "preloaded_clock.c", "-ldl"], check=True)
        self.file.write_bytes(bytes(16))
        with open(self.file, "r+b") as file:
            self.memory = mmap.mmap(file.fileno(), 16)

    @property
    def environment(self):
        return {"LD_PRELOAD": str(self.library), "PRELOADED_CLOCK": str(self.file)}

    def set(self, wall=0.0, monotonic=0.0):
        """Sets each clock to the machine's time plus this number of seconds."""
        struct.pack_into("qq", self.memory, 0, int(wall * 1000), int(monotonic * 1000))
