"""A verb as the laboratory runs it: how its world is prepared, what is run there, and what it has to say.

A world is a checkout with a home of its own, always at the same path (what is signed names it). It is prepared once by
real verbs, kept, and put back before each trial, so that every trial begins with the same bytes under the same names.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

from tests.forking import REPO, Wish, run
from tests.hurried import hurried_keeper
from tests.laboratory import is_alive, wait_for

PARTS = ("checkout", "home", "notes")
PATIENCE = 60.0
FAR = "2099-01-01T00:00:00Z"
"""A due time that never comes while somebody looks."""
_KEPT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TMPDIR")
_CONFIG = '[mission]\ncommand = ["sh", "-c", "echo {mission_id} >> NOTES/ran"]\n'


@dataclass
class World:
    """One checkout, its user's home and the notes of its missions, below a folder of their own."""

    folder: Path
    live: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def root(self) -> Path:
        """The checkout."""
        return self.folder / "checkout"

    @property
    def kranz(self) -> Path:
        """The folder of all state of the checkout."""
        return self.root / ".kranz"

    @property
    def queue(self) -> Path:
        """The folder of the entries."""
        return self.kranz / "queue"

    @property
    def state(self) -> Path:
        """The folder of what is kept outside the checkout: keys, approvals, the work queue."""
        return self.folder / "home" / "state" / "kranzq"

    @property
    def database(self) -> Path:
        """The user's work queue."""
        return self.state / "work.db"

    @property
    def notes(self) -> Path:
        """Where missions tell that they ran."""
        return self.folder / "notes"

    @property
    def env(self) -> dict[str, str]:
        """The environment of everything that runs here."""
        home = self.folder / "home"
        kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
        kept |= {name: text for name, text in os.environ.items() if name.startswith("PYTHON")}
        return kept | {
            "HOME": str(home),
            "XDG_CONFIG_HOME": str(home / "config"),
            "XDG_STATE_HOME": str(home / "state"),
            "XDG_RUNTIME_DIR": str(home),
            "PYTHONPATH": str(REPO),
            "LAB_KEEPER": str(hurried_keeper(self.folder)),
            "KRANZQ_AGENT": "ann",
            "KRANZ_CLAIM_TTL": "0",
            "TZ": "UTC",
        }

    def make(self) -> None:
        """Make it anew, with a repository in which nothing of ours is yet."""
        self.clear()
        for part in PARTS:
            (self.folder / part).mkdir(parents=True, exist_ok=True)
        git = ["git", "init", "--quiet", "--initial-branch=main", str(self.root)]
        subprocess.run(git, check=True, stdin=subprocess.DEVNULL)
        self.configure()

    def configure(self, more: str = "", first: str = "") -> None:
        """Write the user's settings; `first` stands before all tables."""
        config = self.folder / "home" / "config" / "kranzq"
        config.mkdir(parents=True, exist_ok=True)
        (config / "config.toml").write_text((first + _CONFIG + more).replace("NOTES", str(self.notes)))

    def clear(self) -> None:
        """Remove all that is in it, and end what was started in it."""
        self.end_live()
        for part in PARTS:
            empty(self.folder / part)

    def keep(self) -> Path:
        """Keep it as it is now; where."""
        kept = self.folder / "kept"
        shutil.rmtree(kept, ignore_errors=True)
        kept.mkdir()
        self._copy(self.folder, kept)
        return kept

    def put_back(self) -> None:
        """Make it as it was when it was kept."""
        self.clear()
        self._copy(self.folder / "kept", self.folder)

    @staticmethod
    def _copy(source: Path, to: Path) -> None:
        """Everything with its times, its modes and its second names."""
        subprocess.run(["cp", "-a", *(str(source / part) for part in PARTS), str(to)], check=True)

    def words(self, argv: Sequence[str]) -> list[str]:
        """The arguments of the program; `{root}` and `{notes}` are filled in."""
        filled = (word.replace("{root}", str(self.root)).replace("{notes}", str(self.notes)) for word in argv)
        return ["-C", str(self.root), *filled]

    def command(self, argv: Sequence[str]) -> list[str]:
        """The words that start the real program here; `traced` is its environment."""
        return [sys.executable, "-m", "tests.proof.program", *self.words(argv)]

    @property
    def traced(self) -> dict[str, str]:
        """The environment of a program whose calls are counted: the same calls each time."""
        return self.env | {"PYTHONDONTWRITEBYTECODE": "1", "PYTHONHASHSEED": "0"}

    def run(
        self, *argv: str, code: int | None = 0, env: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end, in another process than any before."""
        return self._run("tests.proof.program", self.words(argv), code, env)

    def killed(self, point: str, *argv: str) -> None:
        """Run a verb that kills itself at a point of `tests.crash.killed`."""
        self._run("tests.crash.killed", [point, *self.words(argv)], -signal.SIGKILL, None)

    def _run(
        self, program: str, argv: list[str], code: int | None, env: Mapping[str, str] | None
    ) -> subprocess.CompletedProcess[str]:
        done = run(Wish(program, argv, str(self.folder), {**self.env, **(env or {})}), PATIENCE)
        if code is not None and done.returncode != code:
            raise AssertionError(f"{' '.join(argv)}: exit {done.returncode}, not {code}: {done.stdout}{done.stderr}")
        return done

    def start(self, *argv: str) -> subprocess.Popen[bytes]:
        """Start the real program beside the others; it is ended with the world at the latest."""
        with (self.folder / "live.log").open("ab") as log:
            process = subprocess.Popen(
                self.command(argv),
                cwd=self.folder,
                env=self.env,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        self.live.append(process)
        return process

    @staticmethod
    def mission(name: str, code: int = 0, *, first: str = "") -> tuple[str, ...]:
        """The words behind `--` of a mission that notes that it ran, and whether it was alone."""
        notes = "{notes}"
        alone = f"exec 9>>{notes}/alone; flock -n 9 || echo overlap >> {notes}/ran"
        return ("--", "sh", "-c", f"{alone}; echo {name} >> {notes}/ran; {first}exit {code}")

    def ran(self, mission: str) -> int:
        """How often a mission was started."""
        with contextlib.suppress(FileNotFoundError):
            return (self.notes / "ran").read_text().split().count(mission)
        return 0

    def release(self) -> None:
        """Let the missions end that wait for it."""
        (self.notes / "release").touch()

    def end_live(self) -> None:
        """Kill what `start` started, and every process that works below the folder."""
        for process in self.live:
            process.kill()
            process.wait(PATIENCE)
        self.live.clear()
        for pid in self.processes():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)

    def processes(self) -> list[int]:
        """Living keepers and missions of this world, and whatever else names it."""
        mark = os.fsencode(f"{self.folder}/")
        found = []
        for name in os.listdir("/proc"):
            if name.isdigit() and int(name) != os.getpid() and is_alive(int(name)):
                with contextlib.suppress(OSError):
                    if any(mark in Path(f"/proc/{name}/{part}").read_bytes() for part in ("cmdline", "environ")):
                        found.append(int(name))
        return found

    def await_quiet(self) -> None:
        """Wait until nothing lives here any more."""
        wait_for(lambda: not self.processes(), f"nothing lives below {self.folder}", seconds=PATIENCE)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end_live()


def empty(folder: Path) -> None:
    """Remove what is in a folder. It stays itself: an item's claim knows its checkout by the inode."""
    for path in folder.iterdir() if folder.is_dir() else ():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


def nothing(world: World) -> None:
    """Prepare nothing."""
    del world


@dataclass(frozen=True)
class Scenario:
    """One verb in one world. Names are short, in words of the glossary."""

    name: str
    argv: tuple[str, ...]
    """What is run, without the program and its `-C`."""
    build: Callable[[World], None]
    """Prepares a world that was just made; it is kept and put back before each trial."""
    code: int = 0
    """How it ends when nothing is in its way."""
    kind: str = "files"
    """`files`: the queue of the checkout; `sql`: the work queue."""
    turn: bool = False
    """It starts missions, so keepers belong to it."""
    begin: Callable[[World], None] = nothing
    """Starts before each trial what must live beside it."""
    end: Callable[[World], None] = nothing
    """Lets that come to its end after it."""
    again: int | None = 0
    """How it ends once more, when it was done; None: once more would be something else."""
    half: tuple[str, ...] = ()
    """A verb that does what it does first, where it does one thing after the other: that alone may be left."""

    def prepare(self, world: World) -> None:
        """Make the world, prepare and keep it."""
        world.make()
        self.build(world)
        world.await_quiet()
        world.keep()

    def put_back(self, world: World) -> None:
        """The world as it was prepared, with what lives beside it."""
        world.put_back()
        self.begin(world)
