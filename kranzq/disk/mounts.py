"""Which file system a path lies in: some keep what is promised, some do not."""

from __future__ import annotations

import os
import re

from kranzq.model.frozen import frozen

NETWORK = frozenset(
    {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "ocfs2", "gfs2", "fuse.sshfs"}
)
"""Types whose locks or renames other machines may not see."""
KEEP_RENAMES = frozenset({"btrfs", "zfs", "bcachefs", "xfs", "ext3", "f2fs"})
"""Types that keep a rename whole over a power cut however they were made; ext4 can be made without its journal."""
_MOUNTS = "/proc/self/mountinfo"
_ESCAPE = re.compile(r"\\([0-7]{3})")


@frozen
class Mount:
    """One mounted file system: where, its type, its options."""

    at: str
    kind: str
    options: frozenset[str]


def network_mount(path: str) -> str | None:
    """What to call the network file system that the path lies in, or None when it lies on a local one."""
    mount = mount_at(path)
    return f"{mount.at} ({mount.kind})" if mount is not None and mount.kind in NETWORK else None


def mount_at(path: str) -> Mount | None:
    """The file system of a path, whose links are followed; None where the system does not tell."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as file:
            table = file.read()
    except OSError:
        return None
    return mount_of(os.path.realpath(path), table)


def keeps_renames(mount: Mount, device: int) -> bool | None:
    """Whether a rename stays whole over a power cut on the file system of that device; None when that is not known."""
    if mount.kind in KEEP_RENAMES:
        return True
    if mount.kind != "ext4":
        return None
    try:
        disk = os.path.basename(os.readlink(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}"))
        with open(f"/sys/fs/ext4/{disk}/journal_task", encoding="ascii") as file:
            return file.read().strip().isdigit()
    except OSError:
        return None


def mount_of(path: str, table: str) -> Mount | None:
    """The file system that a real path lies in, by the text of the kernel's table; of equal places the last one."""
    best: Mount | None = None
    for line in table.splitlines():
        fields = line.split(" ")
        if "-" not in fields:
            continue
        dash = fields.index("-")
        at = _ESCAPE.sub(lambda found: chr(int(found[1], 8)), fields[4])
        inside = path == at or path.startswith(at.rstrip("/") + "/")
        if inside and (best is None or len(at) >= len(best.at)):
            options = fields[5].split(",") + fields[dash + 3].split(",")
            best = Mount(at, fields[dash + 1], frozenset(options))
    return best
