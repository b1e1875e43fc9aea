"""The disk of a storm: a small file system in a mount namespace of the storm's own that becomes full and read-only.

Full: it is made as small as what lies in it, or allowed no more files. Read-only *whole*: the file system itself, which
works only while nobody has a file open for writing. Read-only: a second, read-only mount of it over the first: whoever
has files open there goes on writing, whoever opens a path is refused, as after a partly noticed fault.
"""

from __future__ import annotations

import os
import subprocess
import time
from pathlib import Path

SIZE, FILES = "1g", 4_000_000
ROOM = 8192


def can_mount() -> bool:
    """Whether a mount namespace of one's own can be had here."""
    words = ["unshare", "--mount", "--propagation", "private", "mount", "-t", "tmpfs", "none", "/mnt"]
    try:
        return subprocess.run(words, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


class Disk:
    """What lies at `place` while we live in a mount namespace of our own."""

    def __init__(self, folder: Path) -> None:
        self.place, self._behind, self._read_only = folder / "disk", folder / "behind", folder / "read-only"
        for path in (self.place, self._behind, self._read_only):
            path.mkdir()

    def mount(self) -> None:
        """Make it; other namespaces below ours see what happens to it."""
        _mount("-t", "tmpfs", "-o", f"size={SIZE},nr_inodes={FILES},mode=0755", "storm", str(self._behind))
        _mount("--bind", str(self._behind), str(self.place))
        _mount("--bind", str(self._behind), str(self._read_only))
        _mount("-o", "remount,bind,ro", str(self._read_only))  # while nobody writes there: then it is refused
        for one in (self._behind, self.place):
            _mount("--make-shared", str(one))

    def trouble(self, kind: str) -> bool:
        """Begin one kind of trouble; False where it was not possible just now."""
        if kind == "full":
            seen = os.statvfs(self._behind)
            used = (seen.f_blocks - seen.f_bfree) * seen.f_frsize
            return _tried("-o", f"remount,size={used + ROOM}", str(self._behind))
        if kind == "no inodes":
            return _tried("-o", f"remount,nr_inodes={self._files() + 2}", str(self._behind))
        if kind == "read-only whole":
            deadline = time.monotonic() + 0.5
            while not (done := _tried("-o", "remount,ro", str(self._behind))) and time.monotonic() < deadline:
                pass
            return done
        return _tried("--bind", str(self._read_only), str(self.place))

    def relief(self, kind: str) -> None:
        """End it."""
        if kind == "full":
            _mount("-o", f"remount,size={SIZE}", str(self._behind))
        elif kind == "no inodes":
            _mount("-o", f"remount,nr_inodes={FILES}", str(self._behind))
        elif kind == "read-only whole":
            _mount("-o", "remount,rw", str(self._behind))
        else:
            subprocess.run(["umount", "--lazy", str(self.place)], check=True)

    def _files(self) -> int:
        seen = os.statvfs(self._behind)
        return seen.f_files - seen.f_ffree


def _mount(*words: str) -> None:
    subprocess.run(["mount", *words], check=True)


def _tried(*words: str) -> bool:
    return subprocess.run(["mount", *words], capture_output=True, check=False).returncode == 0
