"""File systems to measure on: the disk here, one in memory, and an ext4 with a journal as machines usually have."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from kranzq.disk.mounts import keeps_renames, mount_at

IMAGE_MIB = 3072
OURS = "KRANZQ_BENCH_MOUNTS"
"""Set where mounts are this run's own: whatever ends it, they end with it."""


@dataclass(frozen=True)
class Place:
    """A folder on one file system, or the reason why there is none."""

    name: str
    folder: Path | None
    why_not: str = ""
    has_journal: bool = True

    @property
    def there(self) -> Path:
        """The folder of a place that is there."""
        assert self.folder is not None, self.why_not
        return self.folder


def with_own_mounts(words: list[str]) -> list[str] | None:
    """The command that runs `words` where mounts are its own; None when they are already, or cannot be."""
    if os.environ.get(OURS) or os.geteuid() != 0 or shutil.which("unshare") is None:
        return None
    unshare = ["unshare", "--mount", "--propagation", "private"]
    if subprocess.run([*unshare, "true"], capture_output=True, check=False).returncode:
        return None
    return [*unshare, *words]


@contextlib.contextmanager
def places(folder: Path) -> Iterator[list[Place]]:
    """The three of them, below a folder of one's own; what was mounted is gone at the end."""
    with contextlib.ExitStack() as stack:
        yield [
            stack.enter_context(_journaled(folder)),
            stack.enter_context(_in_memory(folder)),
            disk(folder),
        ]


def disk(folder: Path) -> Place:
    """The file system on which the scratch folder lies."""
    here = folder / "disk"
    here.mkdir(exist_ok=True)
    mount = mount_at(str(here))
    device = here.stat().st_dev
    journal = mount is None or keeps_renames(mount, device) is not False
    kind = f" ({mount.kind}{'' if journal else ' without a journal'})" if mount is not None else ""
    return Place(f"the disk here{kind}", here, has_journal=journal)


@contextlib.contextmanager
def _journaled(folder: Path) -> Iterator[Place]:
    name = "ext4 with a journal"
    image, here = folder / "journaled.img", folder / "journaled"
    here.mkdir(exist_ok=True)
    if why := _why_no_mounts():
        yield Place(name, None, why)
        return
    with image.open("wb") as file:
        file.truncate(IMAGE_MIB << 20)
    words = [
        "mkfs.ext4",
        "-q",
        "-F",
        "-E",
        "lazy_itable_init=0,lazy_journal_init=0",
        "-O",
        "has_journal",
        "-i",
        "8192",
        str(image),
    ]
    try:
        subprocess.run(words, check=True, capture_output=True)
        subprocess.run(["mount", "-o", "loop", str(image), str(here)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as fault:
        yield Place(name, None, f"no loop image can be mounted here: {_said(fault)}")
        return
    try:
        yield Place(name, here)
    finally:
        subprocess.run(["umount", "--lazy", str(here)], check=False, capture_output=True)
        image.unlink()


@contextlib.contextmanager
def _in_memory(folder: Path) -> Iterator[Place]:
    here = folder / "memory"
    here.mkdir(exist_ok=True)
    if why := _why_no_mounts():
        yield Place("tmpfs", None, why)
        return
    try:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "mode=0755", "bench", str(here)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as fault:
        yield Place("tmpfs", None, f"cannot be mounted here: {_said(fault)}")
        return
    try:
        yield Place("tmpfs", here)
    finally:
        subprocess.run(["umount", "--lazy", str(here)], check=False, capture_output=True)


def _why_no_mounts() -> str:
    return "" if os.environ.get(OURS) else "only root may mount one"


def _said(fault: Exception) -> str:
    said = fault.stderr.decode(errors="replace").strip() if isinstance(fault, subprocess.CalledProcessError) else ""
    return said.partition("\n")[0] or str(fault)
