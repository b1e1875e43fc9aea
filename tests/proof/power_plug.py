"""One real confirmation: an ext4 on a disk that forgets what was not flushed, and whose plug is pulled.

The disk is a file of our own file system (`forgetful.c`, by FUSE) below a loop device. So the kernel's journal, its
barriers and its write-back are the real ones, and so is the program; only the disk's cache is made to forget, in blocks
of 512 bytes and in any order. The same disk mounted without barriers is never flushed: there entries must be lost, or
the experiment could not have found anything.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.forking import REPO
from tests.laboratory import wait_for

BYTES = 448 * 1024 * 1024
"""Of which a mission wants 256 MiB to be free. Only what was written takes memory."""
_SOURCE = Path(__file__).with_name("forgetful.c")
_TOOLS = ("gcc", "pkg-config", "mkfs.ext4", "mount", "umount", "unshare", "git")
_ALONE = ("unshare", "--mount", "--propagation", "private")


@dataclass
class Confirmed:
    """What the cuts of a real disk came to."""

    cuts: int = 0
    reported: int = 0
    """Entries that had been reported before a cut, over all cuts."""
    ended: int = 0
    forgot: int = 0
    """Blocks that the disk forgot."""
    flushes: int = 0
    damaged: int = 0
    """Cuts after which something was wrong."""
    faults: list[str] = field(default_factory=list)


def why_not() -> str:
    """Why it cannot be tried here; empty when it can."""
    if os.geteuid() != 0:
        return "needs root, to mount"
    if missing := [tool for tool in _TOOLS if shutil.which(tool) is None]:
        return f"needs {' and '.join(missing)}"
    if not os.access("/dev/fuse", os.W_OK) or not os.access("/dev/loop-control", os.W_OK):
        return "needs FUSE and loop devices"
    if subprocess.run(["pkg-config", "--exists", "fuse3"], check=False).returncode:
        return "needs libfuse3-dev"
    return ""


def confirm(folder: Path, seed: int, seconds: float, *, options: str = "barrier=1", most: int = 1000) -> Confirmed:
    """Work for so long on such a disk, and examine each state that a cut has left, at most so many."""
    folder.mkdir(parents=True)
    for name in ("fuse", "world", "notes"):
        (folder / name).mkdir()
    flags = subprocess.run(["pkg-config", "--cflags", "--libs", "fuse3"], check=True, capture_output=True, text=True)
    program = folder / "forgetful"
    subprocess.run(["gcc", "-O2", "-o", str(program), str(_SOURCE), *flags.stdout.split()], check=True)
    found = Confirmed()
    with _serving(program, folder):
        worked = _alone(folder, "WORK", str(seed), str(seconds), options)
    found.flushes = worked["flushes"]
    found.faults += worked["faults"]
    for cut in worked["cuts"][:most]:
        found.cuts += 1
        found.reported += len(cut["queued"])
        found.ended += len(cut["ended"])
        found.forgot += cut["forgot"]
        try:
            faults = _alone(folder, "CHECK", given=cut)
        except subprocess.CalledProcessError as fault:
            faults = [f"cannot be examined: {fault.stderr.strip().rpartition(chr(10))[2]}"]
        found.damaged += bool(faults)
        found.faults += [f"seed {seed}, {cut['image']}: {one}" for one in faults]
        (folder / str(cut["image"])).unlink()
    return found


def _alone(folder: Path, *words: str, given: Mapping[str, Any] | None = None) -> Any:
    """Run a part of it where nobody else sees what it mounts."""
    argv = [*_ALONE, sys.executable, "-m", "tests.proof.power_disk_world", *words]
    env = os.environ | {"PYTHONPATH": str(REPO)}
    text = json.dumps(given or {})
    done = subprocess.run(argv, cwd=folder, env=env, input=text, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


@contextlib.contextmanager
def _serving(program: Path, folder: Path) -> Iterator[None]:
    """The disk, as long as somebody works on it."""
    process = subprocess.Popen([str(program), str(folder / "fuse"), str(BYTES)], stdin=subprocess.DEVNULL)
    try:
        wait_for(lambda: (folder / "fuse" / "disk").exists() or process.poll() is not None, "the disk is there")
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder / "fuse")], check=False)
        process.terminate()
        process.wait()
