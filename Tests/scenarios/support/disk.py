"""A disk of a given size, which a test can fill. It is a tmpfs, so a script needs root or a mount namespace of its own
(`unshare --map-root-user --mount`).
"""

import contextlib
import os
import subprocess
import sys

from .measures import MIB
from .waiting import GaveUp


class Disk:
    """A separate file system of this size."""

    def __init__(self, case, size):
        self.path = case.folder / "disk"
        self.path.mkdir(mode=0o700)
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", self.path], capture_output=True, text=True)
        if done.returncode:
            raise GaveUp("no tmpfs can be mounted: " + done.stderr.strip())
        self.filler = self.path / "filler"

    def fill(self):
        with open(self.filler, "ab", buffering=0) as file:
            for size in (MIB, 4096, 1):
                with contextlib.suppress(OSError):
                    while file.write(bytes(size)):
                        pass

    def free(self):
        self.filler.unlink()

    def unmount(self):
        subprocess.run(["umount", "--lazy", self.path], capture_output=True)


def own_mounts():
    """Starts this script again in its own mount namespace. If the user lacks the right for this, it happens inside a user
    namespace."""
    if "OWN_MOUNTS" not in os.environ:
        may = subprocess.run(["unshare", "--mount", "true"], stderr=subprocess.DEVNULL).returncode == 0
        spaces = ["--mount"] if may else ["--user", "--map-root-user", "--mount"]
        os.execvpe("unshare", ["unshare", *spaces, sys.executable, *sys.argv], os.environ | {"OWN_MOUNTS": "1"})
