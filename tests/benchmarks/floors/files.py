"""The least that a queue of files can do: an entry that survives a power cut is written, synced, renamed, synced."""

from __future__ import annotations

import fcntl
import heapq
import os
import time
from pathlib import Path

ENTRY = b'{"missionId": "a-mission", "priority": 2, "command": ["true"]}'.ljust(200) + b"\n"


class FileFloor:
    """Entries as files with ordered names in one folder, claimed by a rename."""

    def __init__(self, folder: Path, *, sync: bool = True) -> None:
        folder.mkdir(exist_ok=True)
        self.folder = str(folder)
        self.sync = sync
        self._number = 0
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        self._lock = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT, 0o600)
        self._heap: list[str] = []

    def enqueue(self) -> int:
        """Make an entry; the moment just before it appeared under its name."""
        self._number += 1
        name, temporary = f"{self._number:020d}.json", f".{self._number}.tmp"
        fd = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=self._fd)
        try:
            os.write(fd, ENTRY)
            if self.sync:
                os.fsync(fd)
        finally:
            os.close(fd)
        appears = time.monotonic_ns()
        os.rename(temporary, name, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        if self.sync:
            os.fsync(self._fd)
        heapq.heappush(self._heap, name)
        return appears

    def scan(self) -> str:
        """The first name in order, from one look at all of them."""
        with os.scandir(self.folder) as found:
            return min(one.name for one in found if one.name[0] != ".")

    def claim_and_finish(self, *, scan: bool) -> None:
        """Claim the first entry and retire it, each synced; found by a scan, or known from a heap of names."""
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        known = heapq.heappop(self._heap)
        name = self.scan() if scan else known
        claim = f".{name}.claimed"
        os.rename(name, claim, src_dir_fd=self._fd, dst_dir_fd=self._fd)
        if self.sync:
            os.fsync(self._fd)
        os.unlink(claim, dir_fd=self._fd)
        if self.sync:
            os.fsync(self._fd)
        fcntl.flock(self._lock, fcntl.LOCK_UN)

    def close(self) -> None:
        """Close what is open."""
        os.close(self._fd)
        os.close(self._lock)
