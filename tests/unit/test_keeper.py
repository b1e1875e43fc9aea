"""What a mission's keeper promises, tried with real processes and real kills."""

from __future__ import annotations

import fcntl
import json
import os
import select
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq import keeper as program
from kranzq.runs.keepers import Keeper, KeeperLost, Order, start_keeper

NONCE = "0123456789abcdef" * 2
PATIENCE = 30.0
ESCAPE = """
import os, signal, sys
out = sys.argv[1]
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.closerange(0, 100)
        fd = os.open(out + ".new", os.O_WRONLY | os.O_CREAT)
        os.write(fd, b"%d" % os.getpid())
        os.rename(out + ".new", out)
        os.close(fd)
        os.execve("/bin/sleep", ["sleep", "1000"], {})
    os._exit(0)
while not os.path.exists(sys.argv[2]):
    pass
"""
PRELUDE = """
import importlib.util, json, os, pathlib, signal, sys
spec = importlib.util.spec_from_file_location("stage", sys.argv[1])
stage = importlib.util.module_from_spec(spec)
spec.loader.exec_module(stage)
place = stage.Stage(pathlib.Path(sys.argv[2]))
"""
DISPATCHER = f"""{PRELUDE}
print(place.go(sys.argv[3], **json.loads(sys.argv[4])).pid, flush=True)
signal.pause()
"""
FULL_DISK = f"""{PRELUDE}
os.system(f"cd {{sys.argv[2]}}; {{sys.argv[3]}}")
said = stage.ended(place.go(sys.argv[4]))
print(json.dumps([said, place.end()]), flush=True)
"""
FILL = "cat /dev/zero > filler 2> /dev/null"
MOUNT = 'mount -t tmpfs -o size=256k tmpfs "$1" || exit 99; exec "$2" -c "$3" "$4" "$1/checkout" "$5" "$6"'

READ_ONLY = "mount --bind /proc /proc && mount -o remount,bind,ro /proc || exit 99; " + MOUNT.partition("; ")[2]


def until(look: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Poll until `look` gives something true."""
    deadline = time.monotonic() + seconds
    while not (seen := look()):
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.002)
    return seen


def alive(pid: int) -> bool:
    """Say whether a process runs; a zombie does not."""
    seen = program.look_at(pid)
    return seen is not None and seen.state not in "ZX"


class Stage:
    """A checkout with one claim and one run folder, and what a dispatcher opens for *go*."""

    def __init__(self, root: Path) -> None:
        self.root, self.queue = root, root / ".kranz/queue"
        self.run = root / ".kranz/missions/m-1/dispatch/001"
        for folder in (root / ".git", self.queue, self.run):
            folder.mkdir(parents=True, exist_ok=True)
        self.claim = self.queue / "002-m-1.json.claimed.1.0123456789abcdef"
        self.claim.touch()
        self.locks: tuple[int, ...] = ()

    def hold(self) -> None:
        """Take both halves of the busy lock."""
        self.locks = (
            os.open(self.root / ".git", os.O_RDONLY),
            os.open(self.queue / ".busy.flock", os.O_RDWR | os.O_CREAT),
        )
        for lock in self.locks:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)

    def order(self, script: str, **changes: Any) -> Order:
        """An order to run a shell script here."""
        facts: dict[str, Any] = {
            "executable": "/bin/sh",
            "argv": ["sh", "-c", script],
            "env": {"PATH": os.environ["PATH"]},
            "claim": self.claim.name,
            "run_path": str(self.run),
            "grace_seconds": 0.3,
            "sync_parents": 3,
        }
        return Order(kranzq="1.0", mission="m-1", run=1, nonce=NONCE, **(facts | changes))

    def go(
        self,
        script: str,
        keeper: Keeper | None = None,
        input: int | None = None,  # noqa: A002 - as in `Keeper.go`
        **changes: Any,
    ) -> Keeper:
        """Hold, and send a keeper on its way with `script`."""
        keeper = keeper or start_keeper()
        if not self.locks:
            self.hold()
        append = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        names = {"run": self.run, "queue": self.queue, "cwd": self.root}
        fds = {name: os.open(path, os.O_RDONLY | os.O_DIRECTORY) for name, path in names.items()}
        fds |= {name: os.open(self.run / f"{name}.log", append, 0o600) for name in ("output", "log")}
        log = fds.pop("log")
        try:
            keeper.go(self.order(script, **changes), locks=self.locks, log=log, input=input, **fds)
        finally:
            for fd in (*fds.values(), log):
                os.close(fd)
        return keeper

    def let_go(self) -> None:
        """Close the locks, as a dispatcher that dies does."""
        for lock in self.locks:
            os.close(lock)
        self.locks = ()

    def is_free(self) -> bool:
        """Say whether the checkout's lock can be had."""
        with open(self.queue / ".busy.flock", "rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return False
            return True

    def keepers(self) -> list[int]:
        """The pids that F_GETLK names beside each lock, 0 where it names none; a keeper takes one after the other."""
        pids = []
        for path in (self.root / ".git", self.queue / ".busy.flock"):
            fd = os.open(path, os.O_RDONLY)
            answer = fcntl.fcntl(fd, fcntl.F_GETLK, struct.pack("hhqqi4x", fcntl.F_WRLCK, 0, 0, 0, 0))
            kind, _, _, _, pid = struct.unpack("hhqqi4x", answer)
            pids.append(0 if kind == fcntl.F_UNLCK else int(pid))
            os.close(fd)
        return pids

    def end(self) -> dict[str, Any]:
        """The end record, {} while there is none."""
        try:
            seen = json.loads((self.run / "exit.json").read_text())
        except FileNotFoundError:
            return {}
        assert isinstance(seen, dict)
        return seen

    def last_end(self) -> dict[str, Any]:
        """The end record with its last line."""
        until(lambda: "survivors" in self.end())
        return self.end()

    def output(self) -> str:
        """What the mission wrote."""
        return (self.run / "output.log").read_text()

    def number(self, name: str) -> int:
        """A pid that the mission has written to a file."""
        return int(until(lambda: (self.root / name).exists() and (self.root / name).read_text()))

    def wish(self, name: str, content: str = '{"by": "me"}') -> None:
        """Put a wish into the run folder, whole."""
        (self.run / "wish.new").write_text(content)
        (self.run / "wish.new").rename(self.run / name)


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    """A checkout whose lock is given back at the end."""
    stage = Stage(tmp_path / "checkout")
    yield stage
    stage.let_go()


def ended(keeper: Keeper) -> list[dict[str, Any]]:
    """Wait for a keeper's own end and give what it said."""
    assert select.select([keeper.pidfd], [], [], PATIENCE)[0], "the keeper did not leave"
    said = []
    while (message := keeper.read()) is not None:
        said.append(message)
    keeper.reap()
    keeper.close()
    return said


def stopped(keeper: Keeper) -> None:
    """Stop a keeper, and wait until it stands still."""
    os.kill(keeper.pid, signal.SIGSTOP)
    until(lambda: (seen := program.look_at(keeper.pid)) is not None and seen.state == "T")


def unhurried(folder: Path) -> str:
    """A copy of the program whose pauses have no end: what happens all the same was not waited for."""
    text = Path(program.__file__).read_text(encoding="utf-8")
    for name in ("TICK", "LATE_TERM"):
        assert text.count(f"\n{name} = 1.0 ") == 1
        text = text.replace(f"\n{name} = 1.0 ", f"\n{name} = 3600.0 ")
    (folder / "unhurried.py").write_text(text, encoding="utf-8")
    return str(folder / "unhurried.py")


def deaf(folder: Path) -> str:
    """A copy of the program that the kernel tells of no change in the run folder."""
    text, asks = Path(program.__file__).read_text(encoding="utf-8"), "quietly(fcntl.fcntl, self.run, fcntl.F_NOTIFY, "
    assert text.count(asks) == 1
    (folder / "deaf.py").write_text(text.replace(asks, "quietly(lambda *_: None, "), encoding="utf-8")
    return str(folder / "deaf.py")


def test_success_is_recorded_at_once(stage: Stage, tmp_path: Path) -> None:
    """A mission that leaves with 0 has its end on disk without any wait, told twice, with the space given back."""
    said = ended(stage.go("echo hello", start_keeper(unhurried(tmp_path))))

    end = stage.end()
    assert end == said[1]["end"] | {"survivors": []}
    assert (end["exitCode"], end["signal"], end["why"], end["counted"]) == (0, None, None, True)
    assert (end["version"], end["mission"], end["run"], end["nonce"], end["started"]) == (1, "m-1", 1, NONCE, True)
    assert end["startedAt"] <= end["endedAt"]
    assert [next(iter(each)) for each in said] == ["started", "end", "survivors"]
    assert stage.output() == "hello\n"
    assert sorted(os.listdir(stage.run)) == ["exit.json", "log.log", "output.log"]
    assert os.stat(stage.run / "exit.json").st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("script", "code", "number"), [("exit 7", 7, None), ("kill -9 $$", None, 9)])
def test_a_code_or_a_signal_is_recorded(stage: Stage, script: str, code: int | None, number: int | None) -> None:
    """Any other end is recorded with its code or its signal, and is the mission's own."""
    ended(stage.go(script))

    assert [stage.end()[key] for key in ("exitCode", "signal", "why")] == [code, number, None]


@pytest.mark.crash
def test_the_end_is_recorded_without_a_dispatcher(stage: Stage) -> None:
    """A dispatcher that is killed after *go* costs nothing: the mission ends, its record appears, the lock is free."""
    pid, dispatcher = apart(stage, f"while ! test -e {stage.root}/goon; do :; done; exit 7")
    until(lambda: stage.keepers() == [pid, pid])
    dispatcher.kill()
    dispatcher.wait()
    assert not stage.is_free()
    (stage.root / "goon").touch()

    assert stage.last_end()["exitCode"] == 7
    until(lambda: not alive(pid))
    assert stage.is_free()


def apart(stage: Stage, script: str, **changes: Any) -> tuple[int, subprocess.Popen[str]]:
    """Go from a dispatcher that is a process of its own; give the keeper's pid and that process."""
    argv = [sys.executable, "-c", DISPATCHER, __file__, str(stage.root), script, json.dumps(changes)]
    dispatcher = subprocess.Popen(argv, stdout=subprocess.PIPE, text=True)
    assert dispatcher.stdout is not None
    with dispatcher.stdout as out:
        return int(out.readline()), dispatcher


def test_a_mission_starts_clean(stage: Stage) -> None:
    """It has an empty mask, default dispositions, no input, and no descriptor but its output and the locks."""
    ended(stage.go("grep -E 'Sig(Blk|Ign)|^NSsid' /proc/self/status; readlink /proc/$$/fd/*; cat; pwd; echo $$"))

    lines = stage.output().splitlines()
    facts = dict(line.split(":\t") for line in lines if ":\t" in line)
    assert int(facts["SigBlk"], 16) == 0
    assert int(facts["SigIgn"], 16) & ~(0b11 << 31) == 0  # the C library's own two
    assert facts["NSsid"] == lines[-1]
    files = [line for line in lines if line.startswith("/")]
    output = str(stage.run / "output.log")
    assert files == [
        "/dev/null", output, output, str(stage.root / ".git"), str(stage.queue / ".busy.flock"), str(stage.root),
    ]  # fmt: skip


def test_texts_arrive_as_they_are(stage: Stage) -> None:
    """Arguments and environment reach the mission byte for byte, whatever their encoding, and nothing is added."""
    odd = b"\xff\xc3\xa4".decode("utf-8", "surrogateescape")
    ended(stage.go("", executable="/usr/bin/env", argv=["env", "-u", odd], env={"A": odd, "B": "x" * 100_000}))

    assert (stage.run / "output.log").read_bytes() == b"A=\xff\xc3\xa4\nB=" + b"x" * 100_000 + b"\n"


def test_only_the_mission_is_killed_first_for_memory(stage: Stage) -> None:
    """The mission's out-of-memory score is raised, the keeper's own is not."""
    own = Path("/proc/self/oom_score_adj").read_text()
    # The keeper lowers its own score after the spawn: the mission may look before that, so it looks until then.
    keeper = stage.go(
        f"cat /proc/self/oom_score_adj; until grep -qx -- {own.strip()} /proc/$PPID/oom_score_adj; do sleep 0.01; done",
        oom_score_adjust=200,
    )
    ended(keeper)

    assert stage.output().split() == [str(int(own) + 200)]


def test_a_stubborn_tree_is_ended(stage: Stage) -> None:
    """A cancelled tree that ignores TERM is killed after the grace, and nothing of it is left."""
    keeper = stage.go("trap '' TERM; sleep 1000 & echo $! > child; wait")
    child = stage.number("child")
    stage.wish("cancel.json")
    ended(keeper)

    end = stage.end()
    assert (end["why"], end["signal"], end["counted"], end["wish"]) == ("cancel", 9, True, {"by": "me"})
    assert end["survivors"] == []
    assert not alive(child)


def test_term_is_sent_once_and_the_grace_is_kept(stage: Stage) -> None:
    """A mission that cleans up on TERM gets one TERM and is left to do so, with the processes that it starts for it."""
    # no `touch`: one that has yet to leave would get the TERM too, and the shell would tell of that
    script = "trap 'echo term; sleep 0.2; echo done; exit 3' TERM; : > up; while :; do :; done"
    keeper = stage.go(script, grace_seconds=2 * PATIENCE)
    until((stage.root / "up").exists)
    stage.wish("return.json")
    ended(keeper)

    assert stage.output() == "term\ndone\n"
    assert [stage.end()[key] for key in ("why", "exitCode", "counted")] == ["return", 3, False]


def test_an_escapee_is_ended(stage: Stage) -> None:
    """What left session, parent, environment and descriptors is still ended before the keeper leaves."""
    escapee, goon = stage.root / "escapee", stage.root / "goon"
    keeper = stage.go("", executable=sys.executable, argv=["python", "-c", ESCAPE, str(escapee), str(goon)])
    pid = stage.number("escapee")
    [room] = stage.run.glob(".exit.json.*.1.tmp")  # for the first record, which the second one replaces soon
    with room.open() as first:
        goon.touch()
        ended(keeper)
        end, replaced = json.load(first), os.fstat(first.fileno()).st_nlink == 0

    assert (end["exitCode"], "survivors" in end, replaced) == (0, False, True)
    assert not alive(pid)
    assert stage.end()["survivors"] == []


def test_a_chain_of_forks_is_ended(stage: Stage) -> None:
    """A process that forks and leaves again and again, deaf to TERM, does not outrun the KILL."""
    chain = "import os, time\nwhile os.fork() == 0: time.sleep(0.002)"
    deaf = f"import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n{chain}"
    keeper = stage.go("", executable=sys.executable, argv=["python", "-S", "-c", deaf])
    ended(keeper)

    assert stage.end()["survivors"] == []


@pytest.mark.crash
def test_reported_survivors_block_nothing(stage: Stage) -> None:
    """With "report" a survivor is named and left, and the checkout is free although it has the lock open."""
    script = f"setsid sleep 1000 & echo $! > child; while ! test -e {stage.root}/goon; do :; done"
    pid, dispatcher = apart(stage, script, on_survivors="report")
    child = stage.number("child")
    until(lambda: program.command(child) == "sleep 1000")
    dispatcher.kill()
    dispatcher.wait()
    (stage.root / "goon").touch()
    survivors = stage.last_end()["survivors"]
    until(lambda: not alive(pid))

    assert [each["pid"] for each in survivors] == [child]
    assert survivors[0]["command"] == "sleep 1000"
    assert alive(child)
    assert stage.is_free()
    os.kill(child, signal.SIGKILL)


def test_a_living_dispatcher_keeps_its_lock(stage: Stage) -> None:
    """The keeper frees nothing while its dispatcher lives, which has yet to settle."""
    ended(stage.go("setsid sleep 1000 & echo $! > child", on_survivors="report"))

    assert not stage.is_free()
    os.kill(stage.number("child"), signal.SIGKILL)


@pytest.mark.parametrize("kind", [unhurried, deaf])
@pytest.mark.parametrize("content", ['{"by": "me"}', "", "[" * 9000])
def test_a_cancel_acts_fast(stage: Stage, tmp_path: Path, content: str, kind: Callable[[Path], str]) -> None:
    """A wish acts at once, and where the kernel tells nothing at the next tick, whatever is in it."""
    keeper = stage.go("touch up; exec sleep 1000", start_keeper(kind(tmp_path)))
    until((stage.root / "up").exists)
    stage.wish("cancel.json", content)
    ended(keeper)

    assert (stage.end()["why"], stage.end()["signal"]) == ("cancel", 15)
    assert stage.end()["wish"] == ({"by": "me"} if content.startswith("{") else None)


def test_a_wish_that_is_a_link_is_none(stage: Stage) -> None:
    """A link in the place of a wish ends nothing."""
    (stage.run / "cancel.json").symlink_to("/dev/null")
    os.link(stage.claim, stage.run / "return.json")
    ended(stage.go("exit 0"))

    assert (stage.end()["exitCode"], stage.end()["why"]) == (0, None)


def test_a_timeout_and_a_lapsed_lease_end_it(stage: Stage, tmp_path: Path) -> None:
    """The deadline and the end of the lease act without any dispatcher, and say which it was."""
    leased = Stage(tmp_path / "leased")
    keepers = [
        stage.go("exec sleep 1000", timeout_seconds=0.2),
        leased.go("exec sleep 1000", lease_ends_boottime=program.boot() + 0.4),
    ]
    for keeper in keepers:
        ended(keeper)
    leased.let_go()

    assert (stage.end()["why"], leased.end()["why"]) == ("timeout", "lease")


def lease(stage: Stage, ends: object) -> None:
    """Confirm the lease as whoever renews it does."""
    stage.wish("lease.json", json.dumps({"endsBoottime": ends}))


def test_a_confirmed_lease_goes_on(stage: Stage) -> None:
    """What `lease.json` says counts instead of the order, until that is over as well."""
    began = program.boot()
    keeper = stage.go("exec sleep 1000", lease_ends_boottime=began + 60)
    until(lambda: keeper.read() is not None)
    lease(stage, began + 1.5)
    ended(keeper)

    assert stage.end()["why"] == "lease"
    assert program.boot() - began >= 1.5


@pytest.mark.parametrize("ends", ["never", None, True, float("inf"), float("nan"), 1e12, [], {}])
def test_what_is_no_end_of_a_lease_changes_none(stage: Stage, ends: object) -> None:
    """A mission that writes there itself does not live for ever: no lease is longer than a day."""
    lease(stage, ends)
    ended(stage.go("exec sleep 1000", lease_ends_boottime=program.boot() + 0.4))

    assert stage.end()["why"] == "lease"


def test_after_a_sleep_the_lease_may_be_confirmed_first(stage: Stage) -> None:
    """A keeper that stood still gives whoever renews a moment: both may have been asleep with the host."""
    keeper = stage.go("exec sleep 1000", lease_ends_boottime=program.boot() + 2 * PATIENCE)
    until(lambda: keeper.read() is not None)
    stopped(keeper)
    lease(stage, program.boot())
    asleep = program.boot() + program.ASLEEP + 1.5
    until(lambda: program.boot() > asleep)
    (stage.run / "later").write_text(json.dumps({"endsBoottime": program.boot() + 2 * PATIENCE}))
    os.kill(keeper.pid, signal.SIGCONT)
    (stage.run / "later").rename(stage.run / "lease.json")
    awake = program.boot() + program.RENEWAL_WITHIN + 0.5
    until(lambda: program.boot() > awake)
    assert stage.end() == {}
    lease(stage, program.boot())
    ended(keeper)

    assert stage.end()["why"] == "lease"


def test_a_sleep_without_a_confirmed_lease_ends_it(stage: Stage) -> None:
    """The moment after a sleep is short: where nobody renews, the mission ends."""
    keeper = stage.go("exec sleep 1000", lease_ends_boottime=program.boot() + 2 * PATIENCE)
    until(lambda: keeper.read() is not None)
    stopped(keeper)
    lease(stage, program.boot())
    asleep = program.boot() + program.ASLEEP + 1.5
    until(lambda: program.boot() > asleep)
    os.kill(keeper.pid, signal.SIGCONT)
    ended(keeper)

    assert stage.end()["why"] == "lease"


def test_the_input_is_what_was_given(stage: Stage, tmp_path: Path) -> None:
    """Without one it is /dev/null; with one the mission reads it."""
    (tmp_path / "payload").write_text("read me")
    given = os.open(tmp_path / "payload", os.O_RDONLY)
    ended(stage.go("cat; readlink /proc/self/fd/0", input=given))
    os.close(given)
    assert stage.output() == f"read me{tmp_path}/payload\n"
    (stage.run / "output.log").unlink()
    ended(stage.go("readlink /proc/self/fd/0"))

    assert stage.output() == "/dev/null\n"


def test_a_term_from_outside_is_not_counted(stage: Stage) -> None:
    """A keeper that is told to end by somebody outside ends the tree, tells who it was, and nothing is counted."""
    keeper = stage.go("touch up; exec sleep 1000")
    until((stage.root / "up").exists)
    os.kill(keeper.pid, signal.SIGHUP)
    os.kill(keeper.pid, signal.SIGTERM)
    said = ended(keeper)

    assert {"term": {"sender": os.getpid()}} in said
    assert [stage.end()[key] for key in ("why", "counted", "signal")] == ["terminated", False, 15]


def test_a_term_from_inside_is_counted(stage: Stage) -> None:
    """A mission that ends its own keeper is interrupted, and that counts."""
    ended(stage.go("(kill $PPID; exec sleep 1000) & wait"))

    assert [stage.end()[key] for key in ("why", "counted")] == ["terminated", True]


@pytest.mark.parametrize(
    "script", ["touch up; exec sleep 1000", "trap 'exit 1' TERM; touch up; while :; do sleep 0.01; done"]
)
def test_a_stopped_service_fails_no_mission(stage: Stage, tmp_path: Path, script: str) -> None:
    """TERM at the mission first and then at its keeper is an interruption, also of one that traps TERM."""
    keeper = stage.go(script, start_keeper(unhurried(tmp_path)))
    until((stage.root / "up").exists)
    pid = until(lambda: (said := keeper.read()) and said.get("started"))["pid"]
    os.kill(pid, signal.SIGTERM)
    until(lambda: not alive(pid))
    os.kill(keeper.pid, signal.SIGTERM)
    ended(keeper)

    assert [stage.end()[key] for key in ("why", "counted")] == ["terminated", False]
    assert (stage.end()["signal"], stage.end()["exitCode"]) in {(15, None), (None, 1)}


@pytest.mark.crash
def test_a_go_in_flight_is_kept(stage: Stage) -> None:
    """A keeper that reads *go* after its dispatcher died starts the mission, and the lock was held on the way."""
    keeper = start_keeper()
    stopped(keeper)
    stage.go("exit 7", keeper)
    keeper.close()
    stage.let_go()
    assert not stage.is_free()
    os.kill(keeper.pid, signal.SIGCONT)

    assert stage.last_end()["exitCode"] == 7
    os.waitpid(keeper.pid, 0)
    assert stage.is_free()


def test_a_term_before_the_start_starts_nothing(stage: Stage) -> None:
    """A TERM that comes between *go* and the start is answered with "not started", and nothing is counted."""
    keeper = start_keeper()
    stopped(keeper)
    stage.go("touch ran", keeper)
    os.kill(keeper.pid, signal.SIGTERM)
    os.kill(keeper.pid, signal.SIGCONT)
    said = ended(keeper)

    assert said[-1] == {"notStarted": stage.end()}
    facts = [stage.end()[key] for key in ("started", "notStarted", "why", "counted", "survivors")]
    assert facts == [False, "request", "terminated", False, []]
    assert not (stage.root / "ran").exists()


def test_a_wish_before_the_start_starts_nothing(stage: Stage) -> None:
    """A mission that was cancelled before its start is not started."""
    stage.wish("cancel.json")
    ended(stage.go("touch ran"))

    assert [stage.end()[key] for key in ("notStarted", "why", "wish")] == ["request", "cancel", {"by": "me"}]
    assert not (stage.root / "ran").exists()


@pytest.mark.parametrize(("executable", "argv"), [("/nonexistent", ["x"]), ("/etc/passwd", ["x"]), ("/bin/sh", ["\0"])])
def test_a_command_that_cannot_run_is_the_entrys_fault(stage: Stage, executable: str, argv: list[str]) -> None:
    """A command that is missing, not executable or impossible is recorded as not started because of the entry."""
    ended(stage.go("", executable=executable, argv=argv))

    assert (stage.end()["started"], stage.end()["notStarted"]) == (False, "entry")
    assert executable in stage.end()["reason"]


def test_without_go_it_leaves(stage: Stage) -> None:
    """End-of-file and TERM before *go* both send a keeper away, and *go* to one that has left is refused."""
    alone, told = start_keeper(), start_keeper()
    alone._sock.shutdown(socket.SHUT_WR)
    os.kill(told.pid, signal.SIGTERM)

    assert select.select([alone.pidfd], [], [], PATIENCE)[0]
    assert select.select([told.pidfd], [], [], PATIENCE)[0]
    with pytest.raises(KeeperLost, match="Nothing was started"):
        stage.go("exit 0", told)
    alone.dismiss()
    told.dismiss()


def test_a_removed_run_folder_comes_back_with_the_claim(stage: Stage) -> None:
    """While the claim is there, a run folder that the mission removed is made anew for its end."""
    ended(stage.go("rm -rf .kranz/missions; exit 7"))

    assert (stage.end()["exitCode"], stage.end()["survivors"]) == (7, [])
    assert [path.stat().st_mode & 0o777 for path in (stage.run, *stage.run.parents[:3])] == [0o700, 0o700, 0o755, 0o755]


def test_without_a_claim_a_removed_run_folder_stays_removed(stage: Stage) -> None:
    """Where the claim is gone too, the end is told to the dispatcher and nothing is made."""
    said = ended(stage.go("rm -rf .kranz; exit 7"))

    assert [each["end"]["exitCode"] for each in said if "end" in each] == [7]
    assert not (stage.root / ".kranz").exists()


@pytest.mark.crash
def test_anybody_can_see_that_a_keeper_lives(stage: Stage) -> None:
    """F_GETLK names a living keeper and is empty from its SIGKILL on, while the mission still holds the lock."""
    keeper = stage.go("echo $$ > child; exec sleep 1000")
    child = stage.number("child")
    stage.let_go()
    assert stage.keepers() == [keeper.pid, keeper.pid]
    os.kill(keeper.pid, signal.SIGKILL)
    ended(keeper)

    assert stage.keepers() == [0, 0]
    assert not stage.is_free()
    os.kill(child, signal.SIGKILL)
    until(stage.is_free)


def test_the_package_may_be_removed(stage: Stage, tmp_path: Path) -> None:
    """A ready keeper needs no file of the package any more, not even to end survivors."""
    copy = tmp_path / "package" / "keeper.py"
    copy.parent.mkdir()
    shutil.copy(program.__file__, copy)
    keeper = start_keeper(str(copy))
    shutil.rmtree(copy.parent)
    ended(stage.go("sleep 1000 & exit 7", keeper))

    assert (stage.end()["exitCode"], stage.end()["survivors"]) == (7, [])


def test_the_claim_is_touched(stage: Stage) -> None:
    """The claim's time moves once a minute, and a claim that is gone is no fault."""
    ours, its = socket.socketpair()
    with ours, its:
        fds = {"run": -1, "queue": os.open(stage.queue, os.O_RDONLY)}
        keeper = program.Keeper(ours, [], fds, stage.order("").to_json())
        os.utime(stage.claim, (1, 1))
        keeper.touch_at = 0
        keeper.wait(0)
        touched = stage.claim.stat().st_mtime
        stage.claim.unlink()
        keeper.touch_at = 0
        keeper.wait(0)
        os.close(fds["queue"])

    assert touched > 1


def test_what_will_not_die_is_named(stage: Stage) -> None:
    """What outlives the KILL by half a minute is told and written down, once, while the keeper stays."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its, subprocess.Popen(["sleep", "1000"]) as child:
        run = os.open(stage.run, os.O_RDONLY)
        keeper = program.Keeper(ours, [], {"run": run}, stage.order("").to_json())
        keeper.name_stuck()
        told = json.loads(its.recv(1 << 16))
        os.close(run)
        child.kill()

    assert child.pid in {each["pid"] for each in told["stuck"]}
    assert json.loads((stage.run / "stuck.json").read_text()) == told
    assert keeper.stuck_named


def test_an_end_is_recorded_at_once_when_somebody_removed_the_room_for_it(stage: Stage) -> None:
    """The files that were made before the start are gone or others: another one is made, at the first try."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, its:
        run = os.open(stage.run, os.O_RDONLY)
        keeper = program.Keeper(ours, [], {"run": run}, stage.order("").to_json())
        keeper.spares = [keeper.new_file(), keeper.new_file()]
        gone, other = (stage.run / name for name, _ in keeper.spares)
        gone.unlink()
        other.unlink()
        other.write_text("somebody's")
        recorded = keeper.record(patient=False)
        os.close(run)

    assert recorded
    assert json.loads((stage.run / "exit.json").read_text()) == keeper.end
    assert other.read_text() == "somebody's"


@pytest.mark.system
def test_a_mission_runs_where_nobody_may_change_proc(tmp_path: Path) -> None:
    """As in some containers: which process a lack of memory kills first is a wish, and no reason to start nothing."""
    inside = [str(tmp_path), sys.executable, FULL_DISK, __file__, ":", "exit 7"]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", READ_ONLY, "sh", *inside], capture_output=True, text=True, check=False
    )
    if done.returncode == 99 or done.stderr.startswith("unshare:"):
        pytest.skip(f"mounting is not permitted: {done.stderr.strip()}")
    _, end = json.loads(done.stdout)

    assert (end.get("notStarted"), end["exitCode"], end["survivors"]) == (None, 7, [])


@pytest.mark.system
@pytest.mark.parametrize("when", ["before", "during"])
def test_a_full_disk_swallows_no_end(tmp_path: Path, when: str) -> None:
    """A disk that is full before the start stops the start; one that fills up later takes the end all the same."""
    scripts = [FILL, "exit 7"] if when == "before" else [":", f"{FILL}; exit 7"]
    inside = [str(tmp_path), sys.executable, FULL_DISK, __file__, *scripts]
    done = subprocess.run(
        ["unshare", "-m", "sh", "-c", MOUNT, "sh", *inside], capture_output=True, text=True, check=False
    )
    if done.returncode == 99 or done.stderr.startswith("unshare:"):
        pytest.skip(f"mounting is not permitted: {done.stderr.strip()}")
    messages, end = json.loads(done.stdout)

    said = {key: value for message in messages for key, value in message.items()}
    if when == "before":
        assert said["notStarted"]["notStarted"] == "environment"
        assert "started" not in said
    else:
        assert (end["exitCode"], end["survivors"]) == (7, [])
        assert "unwritten" not in said
