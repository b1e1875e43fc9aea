"""What a keeper does about output that is too much, tried with missions that write faster than anybody reads."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.dispatch.output import Output

MIB = 1 << 20
CAP = 4 * MIB
FLOOD = "import os\nfor at in range({count}): os.write(1, b'%015d\\n' % at * 65536)"


def _stage_module() -> Any:
    """The stage of the keeper's own tests."""
    path = Path(__file__).with_name("test_keeper.py")
    spec = importlib.util.spec_from_file_location("keeper_stage", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


there = _stage_module()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Any]:
    """A checkout with one claim and one run folder."""
    stage = there.Stage(tmp_path / "checkout")
    yield stage
    stage.let_go()


class Kept:
    """A sink that counts, and keeps the borders."""

    def __init__(self) -> None:
        self.parts: list[tuple[str, int]] = []
        self.bytes = b""

    def data(self, piece: bytes) -> None:
        """Keep bytes."""
        self.bytes += piece
        self.parts.append(("data", len(piece)))

    def gap(self, size: int) -> None:
        """Keep the number."""
        self.parts.append(("gap", size))

    def pause(self) -> None:
        """Nothing to do."""


def most_blocks(path: Path, stop: threading.Event, seen: list[int]) -> None:
    """Note the disk usage of a file as often as can be until told to stop."""
    while not stop.is_set():
        seen.append(path.stat().st_blocks * 512)
        time.sleep(0.001)


@pytest.mark.slow
def test_b25_output_over_its_cap_keeps_head_and_tail_and_a_bounded_disk(stage: Any) -> None:
    """A mission that writes 300 MB at once never takes much more than its cap; beginning and end can be read."""
    (stage.run / "output.log").touch()
    stop, seen = threading.Event(), [0]
    watcher = threading.Thread(target=most_blocks, args=(stage.run / "output.log", stop, seen))
    watcher.start()
    script = f'exec {sys.executable} -I -S -c "{FLOOD.format(count=300)}"'
    there.ended(stage.go(script, output_cap=CAP))
    stop.set()
    watcher.join()
    kept, path = Kept(), stage.run / "output.log"
    with path.open("rb") as file:
        Output(file.fileno()).pump(kept)
    gaps = [size for kind, size in kept.parts if kind == "gap"]

    assert stage.end()["exitCode"] == 0
    assert path.stat().st_size == 300 * MIB
    assert path.stat().st_blocks * 512 <= CAP + 256 * 1024
    assert max(seen) < 200 * MIB  # it came within a fraction of a second: looked at in time all the same
    assert len(gaps) == 1
    assert gaps[0] + len(kept.bytes) == 300 * MIB
    assert kept.bytes[: CAP // 2] == b"%015d\n" % 0 * 65536 + b"%015d\n" % 1 * 65536
    assert kept.bytes.endswith(b"%015d\n" % 298 * 65536 + b"%015d\n" % 299 * 65536)
    assert b"\0" not in kept.bytes


def test_output_below_its_cap_or_without_one_is_kept_whole(stage: Any, tmp_path: Path) -> None:
    """Nothing is left out before the cap is reached, nor where there is none."""
    script = f'exec {sys.executable} -I -S -c "{FLOOD.format(count=6)}"'
    there.ended(stage.go(script, output_cap=6 * MIB))
    other = there.Stage(tmp_path / "other")
    there.ended(other.go(script))
    other.let_go()

    for one in (stage, other):
        assert (one.run / "output.log").read_bytes() == b"".join(b"%015d\n" % at * 65536 for at in range(6))


def test_a_mission_that_goes_on_behind_the_hole_appends_to_the_same_file(stage: Any) -> None:
    """The hole grows while the mission lives; what it says last stands at the end of the one file."""
    script = (
        f'{sys.executable} -I -S -c "{FLOOD.format(count=12)}"; touch flooded;'
        " while [ ! -e go ]; do sleep 0.01; done; echo the last word"
    )
    keeper = stage.go(script, output_cap=CAP)
    path = stage.run / "output.log"
    there.until((stage.root / "flooded").exists)
    there.until(lambda: path.stat().st_blocks * 512 <= CAP + 256 * 1024)
    inode = path.stat().st_ino
    (stage.root / "go").touch()
    there.ended(keeper)

    assert path.stat().st_ino == inode
    assert path.read_bytes().endswith(b"the last word\n")


def test_a_file_system_without_holes_is_left_alone_and_said_once(tmp_path: Path) -> None:
    """Where no hole can be punched the output stays whole, and keeper.log has one line about it."""
    program = f"""
import ctypes, errno, os, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from kranzq import keeper
class NoHoles:
    def __getattr__(self, name):
        return lambda *args: ctypes.set_errno(errno.EOPNOTSUPP) or -1
keeper.LIBC = NoHoles()
fd = os.open({str(tmp_path / "output")!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
bound = keeper.Bound(fd, 65536)
for _ in range(3):
    os.write(fd, bytes(100000))
    if bound.cap is not None:
        bound.trim(bound.cap)
print(bound.look())
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert done.stderr.count("the output may grow over its cap") == 1
    assert done.stdout.strip() == "1.0"
    assert (tmp_path / "output").stat().st_size == 300000


def test_keeper_log_stays_small_whatever_is_to_be_noted(tmp_path: Path) -> None:
    """A fault that is noted for ever, or a mission that signals its keeper for ever, fills no disk."""
    program = f"""
import os, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from kranzq import keeper
os.dup2(os.open({str(tmp_path / "keeper.log")!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND), 2)
for _ in range(5000):
    keeper.note("x" * 200)
"""
    subprocess.run([sys.executable, "-c", program], check=True, env=os.environ)

    assert 200_000 < (tmp_path / "keeper.log").stat().st_size < 300_000


def test_what_is_punched_out_while_it_is_read_is_a_gap_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reader that is overtaken by the keeper shows no NULs: the rest of the piece is told as left out."""
    path = tmp_path / "output.log"
    path.write_bytes(b"x" * 6 * MIB)
    fd = os.open(path, os.O_WRONLY | os.O_APPEND)
    bound = there.program.Bound(fd, 2 * MIB)
    read = os.pread
    done: list[int] = []

    def overtaken(one: int, size: int, at: int) -> bytes:
        if at >= MIB - 65536 and not done:
            done.append(bound.trim(2 * MIB))
        return read(one, size, at)

    monkeypatch.setattr("kranzq.dispatch.output.os.pread", overtaken)
    kept = Kept()
    with path.open("rb") as file:
        Output(file.fileno()).pump(kept)
    os.close(fd)

    assert kept.bytes == b"x" * 2 * MIB
    assert [size for kind, size in kept.parts if kind == "gap"] == [4 * MIB]
