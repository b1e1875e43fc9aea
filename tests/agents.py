"""Agents to experiment with: the real command on a work queue of the test's own, and nothing left behind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.forking import Wish, run
from tests.laboratory import ALONE, PATIENCE, REPO, is_alive, wait_for

KRANZQ = (sys.executable, "-m", "kranzq")


@dataclass
class Agents:
    """A work queue below the test's home, and the agents that were started on it."""

    notes: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the folder in which commands tell about themselves."""
        self.notes.mkdir()
        (self.notes / "alone.py").write_text(ALONE)

    def run(
        self,
        *words: str,
        code: int | None = 0,
        env: dict[str, str] | None = None,
        input: str | None = None,  # noqa: A002 - as in `subprocess.run`
    ) -> subprocess.CompletedProcess[str]:
        """Run a verb of the queue to its end, in a process that is forked instead of started: see `tests.forking`."""
        wish = Wish("kranzq.__main__", ["work", *words], str(self.notes), self._env(env or {}), input)
        done = run(wish, 60)
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def ask(self, *words: str) -> dict[str, Any]:
        """The JSON that a verb answers with."""
        value = json.loads(self.run(*words, "--json").stdout)
        assert isinstance(value, dict)
        return value

    def start(self, *words: str, log: str = "log", env: dict[str, str] | None = None) -> subprocess.Popen[bytes]:
        """Start an agent in the background; what it says goes to a file of the notes."""
        with (self.notes / log).open("ab") as output:
            process = subprocess.Popen(
                [*KRANZQ, "work", "claim", *words],
                cwd=self.notes,
                env=self._env(env or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def alone(self, name: str, seconds: float, code: int = 0) -> tuple[str, ...]:
        """A command that tells when it starts and ends, and whether another was there at the same time."""
        program = str(self.notes / "alone.py")
        return (sys.executable, "-I", "-S", program, str(self.notes), name, str(seconds), str(code))

    def told(self, what: str, name: str) -> int:
        """How often a command told `start`, `end` or `overlap`."""
        path = self.notes / "told"
        return path.read_text().splitlines().count(f"{what} {name}") if path.exists() else 0

    def log(self, name: str = "log") -> str:
        """What agents in the background have said."""
        path = self.notes / name
        return path.read_text(errors="replace") if path.exists() else ""

    def item(self, name: str) -> dict[str, Any]:
        """One item as it is now."""
        found = self.ask("show", name)["item"]
        assert isinstance(found, dict)
        return found

    def attempts(self, name: str) -> list[str | None]:
        """How the attempts of an item ended, oldest first."""
        return [one["ended"] for one in self.ask("show", name)["attempts"]]

    def tree(self, process: subprocess.Popen[bytes]) -> list[int]:
        """The keeper of an agent and all that descends from it, once a command runs."""

        def look() -> list[int]:
            below = _below(process.pid)
            return below if len(below) > 1 else []

        return wait_for(look, f"a command runs: {self.log()}")

    def tree_now(self, process: subprocess.Popen[bytes]) -> list[int]:
        """What descends from an agent at this moment."""
        return _below(process.pid)

    def close(self) -> None:
        """End everything that was started here, and whatever came of it."""
        left = [pid for process in self.started for pid in _below(process.pid)]
        for process in self.started:
            process.kill()
            process.wait(PATIENCE)
        home = os.fsencode(os.environ["HOME"])
        left += [pid for pid in _pids() if pid != os.getpid() and home in _read(f"/proc/{pid}/environ")]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        wait_for(lambda: not any(is_alive(pid) for pid in left), "what agents left is gone")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @staticmethod
    def _env(more: dict[str, str]) -> dict[str, str]:
        return {**os.environ, "PYTHONPATH": str(REPO), **more}


def send(pids: Sequence[int], number: int) -> None:
    """Signal processes that are there."""
    for pid in pids:
        os.kill(pid, number)


def _below(pid: int) -> list[int]:
    children: dict[int, list[int]] = {}
    for one in _pids():
        fields = _read(f"/proc/{one}/stat").rpartition(b")")[2].split()
        if fields and fields[0] not in {b"Z", b"X"}:
            children.setdefault(int(fields[1]), []).append(one)
    found, ahead = [], [pid]
    while ahead:
        new = children.get(ahead.pop(0), [])
        found += new
        ahead += new
    return found


def _pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
