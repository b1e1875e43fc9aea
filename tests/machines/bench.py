"""What a machine works on: a checkout, the processes that run verbs in it, and what a hand does to its files."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from tests.laboratory import REPO, is_alive, wait_for

T = TypeVar("T")
SLOW_S = 3
"""So much later than its limit of time that a busy machine ends it in time."""
JOBS = {
    "ok": ("true",),
    "fail": ("false",),
    "defer": ("sh", "-c", "exit 75"),
    "later": ("sh", "-c", 'echo 2099-01-01T00:00:00Z > "$KRANZ_RUN_DIR/not-before"'),
    "killer": ("sh", "-c", "kill -9 $PPID"),
    "slow": ("sleep", str(SLOW_S)),
    "missing": ("/nonexistent/program",),
    "hang": ("sh", "-c", "while [ ! -e .kranz/release ]; do sleep 0.02; done"),
}
WORDS = {command: word for word, command in JOBS.items()}
_QUICK = "LATE_TERM = 0.01"
ANSWER_S = 120.0
"""Nothing depends on time but what this ends: a machine may have far more to do than these tests."""


@dataclass(frozen=True)
class Answer:
    """How a verb ended; `held`: the process that was stopped on its way."""

    code: int
    out: str = ""
    err: str = ""
    held: int = 0


class Worker:
    """One process that runs verbs on request."""

    def __init__(self, keeper: Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.machines.worker"],
            cwd=REPO,
            env=os.environ | {"MACHINE_KEEPER": str(keeper)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )

    def begin(self, argv: list[str], *, fork: bool = False, at: int = 0, number: int = 0, full: bool = False) -> None:
        """Ask for a verb; `at`: the change of the disk before which it gets the signal `number` (SIGKILL).

        With `full` it gets none: from that change on the disk is full for it.
        """
        self._say({"argv": argv, "fork": fork, "at": at, "signal": number, "full": full})

    def go_on(self) -> None:
        """Let what is held go on."""
        self._say({"go": "on"})

    def has_answered(self) -> bool:
        """Whether an answer can be read."""
        assert self._process.stdout is not None
        return bool(select.select([self._process.stdout], [], [], 0)[0])

    def answer(self) -> Answer:
        """Wait for the answer."""
        assert self._process.stdout is not None
        assert select.select([self._process.stdout], [], [], ANSWER_S)[0], "a verb does not come to its end"
        value = json.loads(self._process.stdout.readline())
        if "held" in value:
            return Answer(0, held=value["held"])
        return Answer(value["code"], value["out"], value["err"])

    def child(self) -> int:
        """The process in which its present verb runs."""
        text = Path(f"/proc/{self._process.pid}/task/{self._process.pid}/children").read_text()
        return int(text.split()[0])

    def close(self) -> None:
        """End it, and what it has begun."""
        with contextlib.suppress(OSError, IndexError):
            os.kill(self.child(), signal.SIGKILL)
        self._process.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()

    def _say(self, wanted: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(wanted) + "\n")
        self._process.stdin.flush()


@dataclass
class Bench:
    """Three workers, the third for what takes long, and one checkout after the other."""

    folder: Path
    count: int = 0
    root: Path = field(init=False)

    def __post_init__(self) -> None:
        """Make the keeper that does not wait a second for a late TERM, the settings, and the workers."""
        text = (REPO / "kranzq" / "keeper.py").read_text()
        quick, changes = re.subn(r"^LATE_TERM = 1\.0", _QUICK, text, flags=re.MULTILINE)
        assert changes == 1
        self.keeper = self.folder / "quick-keeper.py"
        self.keeper.write_text(quick.replace("os.fsync(fd)", "pass"))  # processes are killed here, no machine
        config = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"
        config.mkdir(parents=True)
        (config / "config.toml").write_text('[mission]\ncommand = ["true"]\n')
        self.git = self.folder / "git"
        subprocess.run(["git", "init", "--quiet", str(self.git)], check=True, stdin=subprocess.DEVNULL)
        self.workers = [Worker(self.keeper) for _ in range(3)]

    @property
    def kranz(self) -> Path:
        """The folder of all state."""
        return self.root / ".kranz"

    @property
    def queue(self) -> Path:
        """The folder of the entries."""
        return self.kranz / "queue"

    def begin(self) -> None:
        """A new checkout; every second one has git."""
        self.count += 1
        self.root = self.folder / f"checkout{self.count}"
        self.queue.mkdir(parents=True)
        if self.count % 2:
            shutil.copytree(self.git / ".git", self.root / ".git")
        for name in ("inbox", "waiting", "parked"):
            (self.queue / name).mkdir()

    def end(self) -> None:
        """Clear the checkout away."""
        self.release()
        until(lambda: not self.keepers(), "all keepers have left")
        shutil.rmtree(self.root)

    def close(self) -> None:
        """End all workers."""
        for worker in self.workers:
            worker.close()

    def argv(self, words: tuple[str, ...]) -> list[str]:
        """The arguments of the program in this checkout."""
        return ["-C", str(self.root), *words]

    def run(self, words: tuple[str, ...], who: int = 0, *, fork: bool = False) -> Answer:
        """One verb to its end."""
        self.workers[who].begin(self.argv(words), fork=fork)
        return self.workers[who].answer()

    def program(self, words: tuple[str, ...]) -> Answer:
        """One verb by the real program."""
        argv = [sys.executable, "-m", "kranzq", *self.argv(words)]
        done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
        return Answer(done.returncode, done.stdout, done.stderr)

    def killed(self, words: tuple[str, ...], at: int, number: int = signal.SIGKILL) -> Answer:
        """A verb that gets a signal before its `at`-th change of the disk, if it has so many."""
        self.workers[0].begin(self.argv(words), fork=True, at=at, number=number)
        return self.workers[0].answer()

    def refused(self, words: tuple[str, ...], at: int) -> Answer:
        """A verb for which the disk is full from its `at`-th change on."""
        self.workers[0].begin(self.argv(words), fork=True, at=at, full=True)
        return self.workers[0].answer()

    def together(self, one: tuple[str, ...], other: tuple[str, ...], at: int) -> list[Answer]:
        """Two verbs at once; with `at` the first is held there while the other runs, as far as that can."""
        first, second = self.workers[:2]
        first.begin(self.argv(one), fork=True, at=at, number=signal.SIGSTOP if at else 0)
        if not at:
            second.begin(self.argv(other), fork=True)
            return [first.answer(), second.answer()]
        answer = first.answer()
        held = bool(answer.held)
        second.begin(self.argv(other), fork=True)
        theirs = second.answer() if not held or self._is_free() else None
        if held:
            first.go_on()
            answer = first.answer()
        return [answer, theirs or second.answer()]

    def _is_free(self) -> bool:
        """Whether nobody holds the lock around a change of names."""
        try:
            fd = os.open(self.queue / ".mutate.flock", os.O_RDONLY)
        except FileNotFoundError:
            return True
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        finally:
            os.close(fd)
        return True

    def keepers(self) -> set[int]:
        """The keepers that live."""
        mark = os.fsencode(self.keeper)
        found = set()
        for name in filter(str.isdigit, os.listdir("/proc")):
            with contextlib.suppress(OSError):
                if mark in Path(f"/proc/{name}/cmdline").read_bytes() and is_alive(int(name)):
                    found.add(int(name))
        return found

    def dispatch(self, words: tuple[str, ...], over: Callable[[], bool] = bool, at: int = 0) -> Answer | None:
        """Dispatch in the third worker, told to stop at one of its changes with `at`.

        None while a mission goes on that does not end by itself, or as soon as it is `over`.
        """
        worker = self.workers[2]
        worker.begin(self.argv(words), fork=True, at=at, number=signal.SIGTERM if at else 0)
        until(lambda: worker.has_answered() or self.hangs() or over(), "a turn comes to something")
        return worker.answer() if worker.has_answered() else None

    def serves(self) -> bool:
        """Whether the third worker's daemon has said who it is; one that was killed left that as well."""
        with contextlib.suppress(OSError, ValueError, IndexError):
            value = json.loads((self.queue / ".daemon.json").read_bytes())
            return bool(value["process"]["pid"] == self.workers[2].child())
        return False

    def hangs(self) -> dict[str, Any] | None:
        """The record of a mission that runs and does not end by itself."""
        for path in self.kranz.glob("missions/*/dispatch/*/run.json"):
            with contextlib.suppress(OSError, ValueError):
                record: dict[str, Any] = json.loads(path.read_bytes())
                over = (path.parent / "exit.json").exists() and (path.parent / "exit.json").read_bytes().strip()
                if record["state"] == "running" and record["command"] == list(JOBS["hang"]) and not over:
                    return record
        return None

    def release(self) -> None:
        """Let what does not end by itself come to its end, from now on."""
        (self.kranz / "release").touch()

    def hold(self) -> None:
        """Let it not."""
        (self.kranz / "release").unlink(missing_ok=True)


def now_ms() -> int:
    """The wall time, in milliseconds."""
    return int(time.time() * 1000)


def until(condition: Callable[[], T], what: str) -> T:
    """Wait for a condition."""
    return wait_for(condition, what, seconds=ANSWER_S)
