"""The real program in a scratch checkout: started, killed, asked. It sees a home of its own, nothing of the user's."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import kranzq
from kranzq.errors import KranzqError
from kranzq.liveness.process import start_ticks
from kranzq.prove.scratch import Scratch

PATIENCE_S = 60.0
_KEPT = ("PATH", "LANG", "LC_ALL", "TMPDIR", "LD_LIBRARY_PATH")


class ProgramFault(KranzqError):
    """A verb failed in the scratch checkout, so that the trial says nothing about the disk."""

    def __init__(self, verb: str, code: int, said: str) -> None:
        super().__init__(f"kranzq {verb} ended with {code} in the scratch checkout: {said.strip() or 'no word'}")


@dataclass(frozen=True)
class Program:
    """How `kranzq` is started in one scratch checkout."""

    root: str
    environ: Mapping[str, str]

    @contextlib.contextmanager
    def started(self, *words: str) -> Iterator[subprocess.Popen[str]]:
        """A verb in a session of its own that runs beside the block, and is killed where the block ends before it."""
        process = subprocess.Popen(
            [sys.executable, "-m", "kranzq", "-C", self.root, *words],
            cwd=self.root,
            env=self.environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            process.kill()
            process.communicate()

    def run(self, *words: str, allowed: tuple[int, ...] = (0,)) -> str:
        """Run a verb to its end; what it printed. Raises ProgramFault."""
        with self.started(*words) as process:
            said, complained = self.finish(process, " ".join(words))
        if process.returncode not in allowed:
            raise ProgramFault(" ".join(words), process.returncode, complained)
        return said

    def finish(self, process: subprocess.Popen[str], verb: str) -> tuple[str, str]:
        """Wait for the end of one that was started; what it said and what it complained of. Raises ProgramFault."""
        try:
            return process.communicate(timeout=PATIENCE_S)
        except subprocess.TimeoutExpired:
            raise ProgramFault(verb, -1, f"it took longer than {PATIENCE_S:g} s") from None

    def ask(self, *words: str, allowed: tuple[int, ...] = (0,)) -> Any:
        """Run a verb with `--json`; what it answered."""
        said = self.run(*words, "--json", allowed=allowed)
        try:
            return json.loads(said)
        except ValueError:
            raise ProgramFault(" ".join(words), 0, "its answer is no JSON") from None

    def keeper(self) -> int | None:
        """The keeper that runs a mission of this checkout, if one does."""
        try:
            with open(f"{self.root}/.kranz/queue/.busy.json", encoding="utf-8") as file:
                process = json.load(file)["process"]
            pid, ticks = int(process["pid"]), int(process["startTicks"])
        except (OSError, ValueError, KeyError, TypeError):
            return None
        return pid if start_ticks(pid) == ticks else None


def program(scratch: Scratch, name: str) -> Program:
    """A new checkout with a home of its own, and the program in it."""
    root, home = scratch.make(name), scratch.make(f"{name}-home")
    os.makedirs(f"{root}/.git/objects")
    os.makedirs(f"{root}/.git/refs")
    with open(f"{root}/.git/HEAD", "x", encoding="ascii") as file:
        file.write("ref: refs/heads/main\n")
    ours = os.path.dirname(os.path.dirname(os.path.abspath(kranzq.__file__)))
    path = os.pathsep.join([ours, *filter(None, [os.environ.get("PYTHONPATH", "")])])
    kept = {variable: os.environ[variable] for variable in _KEPT if variable in os.environ}
    places = {"HOME": home, "XDG_STATE_HOME": f"{home}/state", "XDG_CONFIG_HOME": f"{home}/config"}
    ours_alone = {"PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1", "KRANZQ_MISSION_MIN_FREE_DISK": "0"}
    made = Program(root, kept | places | ours_alone)  # these missions need no space of their own
    made.run("init", "--yes")
    return made


def kill(pid: int) -> None:
    """End one process as a crash would."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
