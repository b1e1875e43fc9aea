"""The calls by which the real program changes something, seen by `strace`, and faults put into exactly one of them.

A call is known by its role (the program itself, a thread of it, its keeper), its name, and its ordinal among the
process's calls of that name that change something. `strace` counts all calls of a name and process; both numbers come
from a recorded run, never from a list kept by hand.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from tests.hurried import hurried_keeper
from tests.laboratory import wait_for
from tests.proof.scenario import PATIENCE, World

OPENS = ("openat", "open", "creat")
LOCKS = ("flock", "fcntl")
STARTS = ("execve", "clone", "clone3", "fork", "vfork", "exit_group")
"""How others begin, and how it ends itself: killed there, a verb has said all that it has to say."""
SYNCS = ("fsync", "fdatasync", "syncfs", "sync")
NAMES = ("rename", "renameat", "renameat2", "link", "linkat", "unlink", "unlinkat", "rmdir", "symlink", "symlinkat")
TOLD = ("sendmsg", "sendto", "kill", "pidfd_send_signal")
"""What other processes are told: the word *go*, an answer, a signal."""
OTHERS = (
    *("write", "writev", "pwrite64", "pwritev", "pwritev2", "ftruncate", "truncate", "fallocate", "copy_file_range"),
    *("mkdir", "mkdirat", "utimensat", "chmod", "fchmod", "fchmodat", "chown", "fchown", "fchownat", "setxattr"),
)
CALLS = (*OPENS, *NAMES, *OTHERS, *SYNCS, *LOCKS, *STARTS, *TOLD)
PROGRAM, THREAD, KEEPER, CHILD = "program", "thread", "keeper", "child"
_LINE = re.compile(r"([0-9]+) +([a-z0-9_]+)\((.*)")
_ENDED = re.compile(r"([0-9]+) +\+\+\+ (killed by SIGKILL|exited with ([0-9]+))")
_MADE = re.compile(r"(?:resumed>.*)?\) += ([0-9]+)\Z")


@dataclass(frozen=True)
class Point:
    """One call that changes something. `at` is its number for `strace`, among all calls of the name."""

    role: str
    name: str
    ordinal: int
    at: int
    shown: str = ""
    """Its arguments, for people."""

    @property
    def label(self) -> str:
        """By which it is told, and found again in another run."""
        return f"{self.role}:{self.name}:{self.ordinal}"


@dataclass
class Traced:
    """What was seen of one run."""

    points: list[Point] = field(default_factory=list)
    was_hit: bool = False
    """Whether the fault met a call that changes something."""
    code: int = 0
    out: str = ""
    err: str = ""


def changes(name: str, arguments: str) -> bool:
    """Whether a call changes something that another process could see."""
    if name in OPENS:
        return "O_CREAT" in arguments or "O_TRUNC" in arguments or name == "creat"
    if name == "fcntl":
        return re.search(r"F_(OFD_)?SETLKW?\b", arguments) is not None
    if name in {"write", "writev"}:
        return not arguments.endswith(", 0) = 0")
    return True


def read(text: str, role: str) -> Traced:
    """The calls of a trace whose first process has the role; its children are not looked at, once they are others."""
    traced = Traced()
    every: Counter[tuple[int, str]] = Counter()
    changing: Counter[tuple[int, str]] = Counter()
    roles: dict[int, str] = {}
    last: dict[int, Point | None] = {}
    for line in text.splitlines():
        if (ended := _ENDED.match(line)) is not None:
            if ended[2].startswith("killed") and last.get(int(ended[1])) is not None:
                traced.was_hit = True
            continue
        made = _MADE.search(line)
        if made is not None and re.search(r"(clone3?|v?fork)\W", line):
            roles.setdefault(int(made[1]), THREAD if "CLONE_THREAD" in line else CHILD)
        if (found := _LINE.match(line)) is None:
            continue
        traced.was_hit = traced.was_hit or line.endswith(" (INJECTED)")
        pid, name, arguments = int(found[1]), found[2], found[3]
        mine = roles.setdefault(pid, role if not roles else CHILD)
        every[pid, name] += 1
        first = name == "execve" and every[pid, name] == 1 and mine == KEEPER
        if mine == CHILD or first or not changes(name, arguments):
            last[pid] = None
            continue
        changing[pid, name] += 1
        point = Point(mine, name, changing[pid, name], every[pid, name], arguments[:160])
        last[pid] = point
        traced.points.append(point)
    return traced


@dataclass(frozen=True)
class Fault:
    """What happens to the `at`-th call of a name in the process of a role; `how` as `strace` has it."""

    role: str
    name: str
    at: int
    how: str = "signal=SIGKILL"

    @property
    def words(self) -> list[str]:
        """The options of `strace`."""
        return ["-e", f"inject={self.name}:{self.how}:when={self.at}"]


def run(world: World, argv: Sequence[str], fault: Fault | None, *, role: str = PROGRAM) -> Traced:
    """Run the real program, with the process of a role under `strace`, to its end.

    The program is forked from one that has imported everything (`tests.forking`), so that what is traced is the verb.
    Raises `subprocess.TimeoutExpired` when it does not end.
    """
    log = world.folder / "trace"
    log.unlink(missing_ok=True)
    watched = watching(log, fault)
    if role == PROGRAM:
        done = _attached(world, argv, watched)
    else:
        done = world.run(*argv, code=None, env={"LAB_KEEPER": str(_traced_keeper(world, watched))})
        _await_whole(log)
    traced = read(log.read_text(errors="replace") if log.exists() else "", role)
    traced.code, traced.out, traced.err = done.returncode, done.stdout, done.stderr
    return traced


def _attached(world: World, argv: Sequence[str], watched: Sequence[str]) -> subprocess.CompletedProcess[str]:
    """Run the program with a tracer that comes before it begins."""
    told = world.folder / "attach"
    told.unlink(missing_ok=True)
    with ThreadPoolExecutor(1) as beside:
        running = beside.submit(lambda: world.run(*argv, code=None, env={"LAB_ATTACH": str(told)}))
        wait_for(told.exists, "the program waits for its tracer", seconds=PATIENCE)
        command = [_strace(), "-q", "-f", "-b", "execve", *watched, "-p", told.read_text()]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as tracer:
            try:
                return running.result()
            finally:
                try:
                    tracer.wait(PATIENCE)
                except subprocess.TimeoutExpired:
                    tracer.kill()


def _await_whole(log: Path) -> None:
    """Wait until the keeper's tracer has written all: it is nobody's child here."""
    mark = re.compile(r"\+\+\+ (killed|exited)")
    if log.exists():
        wait_for(lambda: mark.search(log.read_text(errors="replace")), "the keeper's tracer ends", seconds=PATIENCE)


def words(watched: Sequence[str]) -> list[str]:
    """The words of `strace` that stand before a program whose children go their way untraced."""
    return [_strace(), "-q", "-f", "-b", "execve", *watched]


def watching(log: Path, fault: Fault | None) -> list[str]:
    """The options of `strace` that name the calls, the file for them, and a fault."""
    faulty = fault.words if fault is not None else []
    return ["-e", f"trace={','.join(_known())}", "-o", str(log), *faulty]


def _known() -> Iterator[str]:
    """The calls that this machine's `strace` knows."""
    return (f"?{name}" for name in CALLS)


def _strace() -> str:
    found = shutil.which("strace")
    assert found is not None, "needs strace"
    return found


def _traced_keeper(world: World, watched: Sequence[str]) -> Path:
    """A program in the keeper's place that becomes the first keeper under `strace`, and every later one without."""
    mark = world.folder / "keeper-traced"
    shutil.rmtree(mark, ignore_errors=True)
    keeper = [sys.executable, "-I", "-S", "-E", str(hurried_keeper(world.folder))]
    traced = [_strace(), "-D", "-q", "-f", "-b", "execve", *watched, *keeper]
    program = world.folder / "traced-keeper.py"
    program.write_text(
        f"import os, sys\n"
        f"words = {keeper!r}\n"
        f"try:\n"
        f"    os.mkdir({str(mark)!r})\n"
        f"    words = {traced!r}\n"
        f"except FileExistsError:\n"
        f"    pass\n"
        f"os.execv(words[0], [*words, *sys.argv[1:]])\n"
    )
    return program
