"""A world whose machine can be started again: what is there then is put on a disk in memory, as a power cut left it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from kranzq.disk.birth import born_ns_of
from tests.proof.power_disk import Told
from tests.proof.power_live import MAPPED
from tests.proof.power_recording import Recording, record
from tests.proof.power_states import Left
from tests.proof.scenario import PARTS, Scenario, World, empty, nothing

FIRST_BOOT = "11111111-1111-4111-8111-111111111111:1000000000"
"""The boot in which everything is prepared and recorded: it began long ago."""
STARTS_S = 60
"""So long after the cut the machine is there again, by its clock on the wall. It began to start half of that ago."""
_APART = ("notes", "kept", "keeper.py", "live.log")
_DISK = tuple(part for part in PARTS if part != "notes")


@dataclass
class PowerWorld(World):
    """A world, and the boot that its machine is in."""

    boot: str = FIRST_BOOT

    @property
    def env(self) -> dict[str, str]:
        """As of every world; and the boot."""
        return {**super().env, "LAB_BOOT": self.boot}

    def command(self, argv: Sequence[str]) -> list[str]:
        """The words that start the real program here, in this boot."""
        return [sys.executable, "-m", "tests.proof.power_boot", *self.words(argv)]

    def run(
        self, *argv: str, code: int | None = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end, in another process than any before, in this boot."""
        later = {} if self.boot == FIRST_BOOT else {"LAB_LATER": str(STARTS_S)}
        return self._run("tests.proof.power_boot", self.words(argv), code, {**later, **(env or {})})

    def killed(self, point: str, *argv: str) -> None:
        """Run a verb that kills itself at a point of `tests.crash.killed`, in this boot."""
        self._run("tests.proof.power_boot", self.words(argv), -signal.SIGKILL, {"LAB_KILL": point})

    def record(self, scenario: Scenario) -> Recording:
        """Run a verb under strace, and what lives beside it; what the mission notes is no part of the disk."""
        words = self.command(scenario.argv)
        if scenario.begin is not nothing:
            words = [sys.executable, "-m", "tests.proof.power_beside", scenario.name, str(self.folder)]
        return record(words, self.folder, env=self.traced, apart=_APART)

    def put_left(self, recording: Recording, left: Left) -> None:
        """Put on the disk what a cut has left there."""
        for part in _DISK:
            empty(self.folder / part)
        self._put_notes(recording, left.instant)
        paths: dict[int, Path] = {}
        for shown, inode in left.state.paths.items():
            path, data = self.folder / shown, left.state.files.get(inode)
            if data is None:
                path.mkdir(exist_ok=True)
            elif inode in paths:
                os.link(paths[inode], path)
                continue
            elif not shown.endswith(MAPPED):
                path.write_bytes(data)
            if inode in recording.modes and path.exists():
                path.chmod(recording.modes[inode])
            paths[inode] = path
        self._put_numbers(recording, paths)

    @contextlib.contextmanager
    def started_again(self) -> Iterator[None]:
        """Meanwhile the machine is in another boot."""
        self.boot = f"{uuid.uuid4()}:{time.time() + STARTS_S / 2}"
        try:
            yield
        finally:
            self.boot = FIRST_BOOT

    def _put_notes(self, recording: Recording, instant: int) -> None:
        """What had been done to the world until then."""
        shutil.rmtree(self.notes, ignore_errors=True)
        shutil.copytree(self.folder / "kept" / "notes", self.notes)
        for event in recording.events[:instant]:
            if isinstance(event, Told) and event.path.startswith("notes/"):
                with (self.folder / event.path).open("a") as file:
                    file.write(event.text)

    def _put_numbers(self, recording: Recording, paths: Mapping[int, Path]) -> None:
        """A run's record names its entry by inode and birth; on this disk it has others."""
        for path in [path for path in paths.values() if path.name == "run.json"]:
            try:
                value = json.loads(path.read_bytes())
            except ValueError:
                continue
            entry = paths.get(recording.numbers.get(value["entry"]["inode"], -1))
            if entry is not None:
                fd = os.open(entry.parent, os.O_RDONLY)
                value["entry"] |= {"inode": entry.lstat().st_ino, "bornNs": born_ns_of(entry.name, fd)}
                os.close(fd)
                path.write_text(json.dumps(value))
