"""Is a file flocked? Read from the kernel's table of locks, so that asking takes nothing and disturbs nobody.

The table names the file system's own device, which overlayfs and btrfs do not show to stat; the mount of the open
descriptor tells it.
"""

from __future__ import annotations

import os
import re

_TABLE = "/proc/locks"
_FIRST_NAMESPACE = 0xEFFFFFFC  # PROC_PID_INIT_INO, the same in every kernel
_MOUNT_ID = re.compile(r"^mnt_id:\s*([0-9]+)$", re.MULTILINE)


def is_flocked(fd: int) -> bool | None:
    """Whether anybody holds a flock on the open file; None when it cannot be told from here.

    The table leaves out holders of pid namespaces that we cannot see, so only in the first one *nobody* is a proof.
    """
    try:
        table = _read(_TABLE)
    except OSError:
        return None
    device, inode = device_of(fd), os.fstat(fd).st_ino
    for line in table.splitlines():
        fields = line.split()
        if "FLOCK" not in fields or "->" in fields:  # an arrow marks one who waits
            continue
        where = next((field for field in fields if field.count(":") == 2), "")  # noqa: PLR2004 - MAJOR:MINOR:INODE
        if where.endswith(f":{inode}") and (device is None or where == f"{device}:{inode}"):
            return True
    return False if _sees_all() else None


def device_of(fd: int) -> str | None:
    """The device of an open file as the table writes it, or None where the system does not tell."""
    try:
        found = _MOUNT_ID.search(_read(f"/proc/self/fdinfo/{fd}"))
        mounts = _read("/proc/self/mountinfo")
    except OSError:
        return None
    for line in mounts.splitlines():
        number, _, device, *_ = line.split(" ")
        if found is not None and number == found[1]:
            major, _, minor = device.partition(":")
            return f"{int(major):02x}:{int(minor):02x}"
    return None


def _sees_all() -> bool:
    try:
        return os.stat("/proc/self/ns/pid").st_ino == _FIRST_NAMESPACE
    except OSError:
        return False


def _read(path: str) -> str:
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        return file.read()
