"""A checkout to experiment in: real dispatchers, missions that tell whether they were alone, and nothing left behind.

Every process of one laboratory bears its home or its folders in environment, command line or working directory; by
that it is found, and ended at the end, whatever became of its parents.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self, TypeVar

from kranzq.backend import Accepted
from kranzq.model.checkout import Checkout
from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.runs.folders import Runs
from kranzq.runs.record import RunRecord
from kranzq.trust.mac import sign
from kranzq.wiring import queues, trusting
from tests.flocks import is_free
from tests.forking import Wish, run

T = TypeVar("T")
REPO = Path(__file__).resolve().parent.parent
PATIENCE = 30.0
IN_OTHER_NAMESPACE = ("unshare", "--pid", "--fork", "--kill-child", "--mount-proc")
ALONE = """
import fcntl, os, sys, time
folder, mission, seconds, code = sys.argv[1:]
alone = os.open(folder + "/alone", os.O_RDWR | os.O_CREAT)
told = os.open(folder + "/told", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
try:
    fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
except BlockingIOError:
    os.write(told, f"overlap {mission}\\n".encode())
os.write(told, f"start {mission}\\n".encode())
until = time.monotonic() + float(seconds)
while time.monotonic() < until and not os.path.exists(folder + "/release"):
    time.sleep(0.002)
os.write(told, f"end {mission}\\n".encode())
sys.exit(int(code))
"""


def wait_for(condition: Callable[[], T], what: str, *, seconds: float = PATIENCE) -> T:
    """Poll until the condition is true; its value. Fails with `what` when that takes too long."""
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, f"not within {seconds:g} s: {what}"
        time.sleep(0.01)
    return found


def is_alive(pid: int) -> bool:
    """Whether a process is there and no zombie."""
    return state_of(pid) not in {None, "Z", "X"}


def listens(pid: int, number: int = signal.SIGTERM) -> bool:
    """Whether a process has something of its own to do when a signal comes: until then it would just die of it."""
    found = re.search(rb"^SigCgt:\s*([0-9a-f]+)$", _read(f"/proc/{pid}/status"), re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> (number - 1) & 1)


def state_of(pid: int) -> str | None:
    """The letter of its state, None when there is no such process."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[0]


@dataclass
class Laboratory:
    """One checkout with everything that was started in it."""

    root: Path
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        """Make the folder in which missions tell about themselves."""
        self.checkout = Checkout(os.path.realpath(self.root), has_git=(self.root / ".git").exists())
        self.notes = self.root.parent / "notes"
        self.notes.mkdir()
        self.home = os.environ["HOME"]
        (self.notes / "alone.py").write_text(ALONE)

    @property
    def queue(self) -> Path:
        """The folder of the entries."""
        return self.root / ".kranz" / "queue"

    def alone(self, mission: str, seconds: float = 0.02, code: int = 0) -> tuple[str, ...]:
        """A command that tells when it starts and ends, and whether another was there."""
        program = str(self.notes / "alone.py")
        return (sys.executable, "-I", "-S", program, str(self.notes), mission, str(seconds), str(code))

    def enqueue(self, mission: str, *command: str, priority: int = 2, **own: Any) -> Accepted[Entry, State]:
        """Queue a signed mission as `kranzq enqueue` does; without a command it is one that tells about itself."""
        fields = Own(id=secrets.token_hex(16), command=command or self.alone(mission), **own)
        entry = Entry(MissionId(mission), priority, own=fields)
        signed = sign(entry, self.checkout.root, trusting.keyring(os.environ).current())
        with queues.make_queue(self.checkout) as queue:
            runs = Runs(self.checkout, queue.kranz_fd)
            return queue.enqueue(signed, runs.last_number)

    def words(self, *words: str) -> list[str]:
        """The arguments of the program in this checkout."""
        return ["-C", str(self.root), *words]

    def command(self, *words: str) -> list[str]:
        """The words that start the program in this checkout."""
        return [sys.executable, "-m", "kranzq", *self.words(*words)]

    def run(
        self, *words: str, code: int | None = 0, env: dict[str, str] | None = None, seconds: float = 60
    ) -> subprocess.CompletedProcess[str]:
        """Run a verb to its end, in a process that is forked instead of started: see `tests.forking`."""
        wish = Wish("kranzq.__main__", self.words(*words), str(REPO), os.environ | (env or {}))
        done = run(wish, seconds)
        assert code is None or done.returncode == code, (done.returncode, done.stdout, done.stderr)
        return done

    def killed(self, point: str, *words: str, env: dict[str, str] | None = None) -> int:
        """The exit code of a verb that kills itself at a point of `tests.crash.killed`; what it says is in the log."""
        with (self.notes / "log").open("ab") as log:
            argv = [point, *self.words(*words)]
            wish = Wish("tests.crash.killed", argv, str(REPO), os.environ | (env or {}), output=log.fileno())
            return run(wish, PATIENCE).returncode

    def start(
        self, argv: Sequence[str], *, env: dict[str, str] | None = None, log: str = "log"
    ) -> subprocess.Popen[bytes]:
        """Start a program in the background; its output goes to a file of the notes."""
        with (self.notes / log).open("ab") as output:
            process = subprocess.Popen(
                argv,
                cwd=REPO,
                env=os.environ | (env or {}),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self.started.append(process)
        return process

    def daemon(
        self, *flags: str, before: Sequence[str] = (), env: dict[str, str] | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a daemon and wait until it has said who it is, and, where its pid is known, obeys signals."""
        said = self.read(self.queue / ".daemon.json")
        process = self.start([*before, *self.command("daemon", *flags)], env=env)

        def ready() -> bool:
            assert process.poll() is None, self.log()
            now = self.read(self.queue / ".daemon.json")
            if now is None or now == said:
                return False
            return bool(before) or (now["process"]["pid"] == process.pid and listens(process.pid))

        wait_for(ready, "the daemon says who it is")
        return process

    def log(self, name: str = "log") -> str:
        """What programs in the background have said."""
        path = self.notes / name
        return path.read_text(errors="replace") if path.exists() else ""

    def read(self, path: Path) -> dict[str, Any] | None:
        """A JSON object of a file, None while there is none that can be read."""
        try:
            value = json.loads(path.read_bytes())
        except (OSError, ValueError, RecursionError):  # a test may have put anything there
            return None
        return value if isinstance(value, dict) else None

    def told(self) -> list[str]:
        """The lines of all missions so far."""
        path = self.notes / "told"
        return path.read_text().splitlines() if path.exists() else []

    def count(self, what: str, mission: str) -> int:
        """How often a mission told `start`, `end` or `overlap`."""
        return self.told().count(f"{what} {mission}")

    def release(self) -> None:
        """Let all missions that wait come to their end."""
        (self.notes / "release").touch()

    def records(self, mission: str) -> list[RunRecord]:
        """The records of a mission's runs, oldest first."""
        with queues.make_queue(self.checkout) as queue:
            return list(Runs(self.checkout, queue.kranz_fd).records(MissionId(mission)))[::-1]

    def outcomes(self, mission: str) -> list[str]:
        """The outcomes of a mission's ended runs, oldest first."""
        return [record.outcome.value for record in self.records(mission) if record.outcome is not None]

    def keeper(self, mission: str) -> int:
        """The pid of the keeper of a mission's last run, once its mission runs."""
        last = wait_for(lambda: [one for one in self.records(mission)[-1:] if one.process], f"{mission} runs")[0]
        return last.keeper.pid

    def names(self, folder: str = "") -> list[str]:
        """The names in the queue or one of its folders that are not hidden."""
        path = self.queue / folder
        return sorted(name for name in os.listdir(path) if name[0] != ".") if path.is_dir() else []

    def entries(self) -> list[str]:
        """Everything of the queue that is an entry or a claim, wherever it lies.

        What moves from one folder to another may be seen in neither: so two looks must have seen the same.
        """
        seen = self._entries()
        while (again := self._entries()) != seen:
            seen = again
        return seen

    def _entries(self) -> list[str]:
        places = [self.names(folder) for folder in ("", "waiting", "parked", "quarantine")]
        return [name for names in places for name in names if ".json" in name and not name.endswith(".why.json")]

    def is_free(self) -> bool:
        """Whether nobody holds either half of the busy lock."""
        return all(is_free(path) for path in (self.root / ".git", self.queue / ".busy.flock") if path.exists())

    def processes(self) -> dict[int, str]:
        """Living processes of this laboratory, this one left out, with their command lines."""
        found = {}
        marks = (os.fsencode(self.home), os.fsencode(self.root.parent))
        for name in os.listdir("/proc"):
            pid = int(name) if name.isdigit() else 0
            if pid and pid not in {os.getpid(), os.getppid()} and is_alive(pid) and _bears(pid, marks):
                found[pid] = _read(f"/proc/{pid}/cmdline").replace(b"\0", b" ").decode(errors="replace")
        return found

    def assert_nothing_left(self) -> None:
        """All is drained: no entry, no claim, no lock, no record of a holder, no process, no overlap."""
        wait_for(lambda: not self.processes(), f"all processes are gone: {self.processes()}")
        wait_for(self.is_free, "the kernel has freed what they held")  # of a dying one the marks go before the locks

        assert self.entries() == []
        left = [name for name in os.listdir(self.queue) if name in {".busy.json", ".repo.busy.lock", ".mutate.lock"}]
        assert left == []
        assert not [line for line in self.told() if line.startswith("overlap")]

    def kill(self, process: subprocess.Popen[bytes], number: int = signal.SIGKILL) -> None:
        """Signal a process that was started here, and bury it when it was killed."""
        process.send_signal(number)
        if number == signal.SIGKILL:
            process.wait(PATIENCE)

    def kill_all(self) -> bool:
        """Kill whatever lives in this laboratory; whether nothing did. To be repeated: some may fork meanwhile."""
        left = self.processes()
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return not left

    def close(self) -> None:
        """End everything that was started here, and whatever came of it."""
        for process in self.started:
            process.kill()
            process.wait(PATIENCE)
        wait_for(self.kill_all, "everything that was started here is gone")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


@contextlib.contextmanager
def laboratory(root: Path) -> Iterator[Laboratory]:
    """A laboratory in a checkout, cleared away at the end."""
    with Laboratory(root) as one:
        yield one


def _bears(pid: int, marks: Sequence[bytes]) -> bool:
    try:
        there = os.fsencode(os.readlink(f"/proc/{pid}/cwd"))
    except OSError:
        there = b""
    seen = (there, _read(f"/proc/{pid}/cmdline"), _read(f"/proc/{pid}/environ"))
    return any(mark in text for mark in marks for text in seen)


def _read(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError:
        return b""
