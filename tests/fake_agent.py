"""A fake agent: the command of a mission that does what the worst of agents do, in the order in which it is told.

    python -I -S fake_agent.py NOTES MISSION [RUNS:]BEHAVIOUR[=VALUE] ...

RUNS is a number or a span (`1`, `2-4`): the behaviour then belongs to these runs of the mission alone. Without one that
ends it the agent obeys: it does what was asked and leaves with 0. It tells what it does in NOTES/told, a line each:
`start M`, `overlap M` (another was in the tree), `child M KIND PID` from the child itself, `at M PLACE`, `end M`.
Standard library only, and little of it: a trial runs dozens of these.
"""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import NoReturn

PATIENCE_S = 30.0
WHO = ("-c", "user.name=An Agent", "-c", "user.email=agent@example.org", "-c", "commit.gpgSign=false")
LATER = 75


class Agent:
    """One run of one mission. Each public method is a behaviour; its value is what stands behind the `=`."""

    def __init__(self, notes: str, mission: str) -> None:
        self.notes, self.mission = notes, mission
        self.run = int(os.environ.get("KRANZ_RUN_NUMBER", "0"))

    def behave(self, words: list[str]) -> None:
        """Do what is meant for this run, in order; leave with 0 if nothing of it ends the agent."""
        alone = os.open(f"{self.notes}/alone", os.O_RDWR | os.O_CREAT)
        os.set_inheritable(alone, True)  # whatever an agent leaves behind shall be met by the next one
        try:
            fcntl.flock(alone, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self.tell("overlap")
        self.tell("start")
        for word in words:
            name, value = self.meant(word)
            if name:
                getattr(self, name.replace("-", "_"))(value)
        self.exit("0")

    def meant(self, word: str) -> tuple[str, str]:
        """Name and value of a behaviour; an empty name when it is meant for another run."""
        head, colon, rest = word.partition(":")
        if not (colon and head.replace("-", "").isdigit()):
            head, rest = "", word
        first, _, last = head.partition("-")
        name, _, value = rest.partition("=")
        return (name, value) if not head or int(first) <= self.run <= int(last or first) else ("", "")

    def tell(self, what: str, more: str = "") -> None:
        """Write one line, whole, for whoever watches."""
        fd = os.open(f"{self.notes}/told", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        os.write(fd, f"{what} {self.mission}{f' {more}' if more else ''}\n".encode())
        os.close(fd)

    def told(self, what: str) -> int:
        """How many lines begin so."""
        with open(f"{self.notes}/told", encoding="utf-8") as file:
            return sum(line.startswith(f"{what} {self.mission} ") for line in file)

    # how it ends

    def exit(self, value: str) -> NoReturn:
        """Leave with an exit code, by itself."""
        self.tell("end")
        os._exit(int(value))

    def signal(self, value: str) -> None:
        """Die by a signal of its own."""
        os.kill(os.getpid(), int(value))

    def exec(self, value: str) -> NoReturn:
        """Become another program, a shell's."""
        os.execv("/bin/sh", ["sh", "-c", value])

    def limit(self, value: str) -> None:
        """Meet the limit that all missions share: it says *not now* so many times to each, with exit code 75."""
        if self.is_limited(int(value)):
            self.exit(str(LATER))

    def limit_named(self, value: str) -> None:
        """As `limit`, with exit code 0 and a time from which on it may be tried again."""
        if self.is_limited(int(value)):
            self.not_before("1")  # a time that is over before its end is recorded would be none
            self.exit("0")

    def is_limited(self, times: int) -> bool:
        """Whether the shared limit says no; it keeps its book in one file under one lock."""
        fd = os.open(f"{self.notes}/limit", os.O_RDWR | os.O_APPEND | os.O_CREAT, 0o600)
        fcntl.flock(fd, fcntl.LOCK_EX)
        refused = os.read(fd, 1 << 20).decode().split().count(self.mission)
        if refused < times:
            os.write(fd, f"{self.mission}\n".encode())
        os.close(fd)
        return refused < times

    def not_before(self, value: str) -> None:
        """Ask to be run again so many seconds from now, whatever the exit code says."""
        at = time.time() + float(value)
        with open(f"{os.environ['KRANZ_RUN_DIR']}/not-before", "w", encoding="utf-8") as file:
            file.write(time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(at)) + f".{int(at % 1 * 1000):03d}Z")

    # how it goes on

    def hang(self, value: str) -> None:
        """Say nothing and do nothing, for ever."""
        self.tell("at", value or "hang")
        while True:
            time.sleep(600)

    def wait(self, value: str) -> None:
        """Say that it has come to a place, and go on when that is opened."""
        self.tell("at", value)
        until(lambda: os.path.exists(f"{self.notes}/{value}"))

    def stop(self, value: str) -> None:
        """Stop itself, as control-Z does; only a CONT or a KILL ends that."""
        self.tell("at", value or "stop")
        os.kill(os.getpid(), signal.SIGSTOP)

    def ignore_term(self, value: str) -> None:
        """Be deaf to TERM from here on, with all that is started after."""
        del value
        signal.signal(signal.SIGTERM, signal.SIG_IGN)

    def trap_term(self, value: str) -> None:
        """Leave with this code when a TERM comes, as agents do that clean up first."""

        def leave(*_: object) -> None:
            self.exit(value)

        signal.signal(signal.SIGTERM, leave)

    def kill_parent(self, value: str) -> None:
        """Kill whoever started it."""
        del value
        os.kill(os.getppid(), signal.SIGKILL)

    # what it says and does

    def flood(self, value: str) -> None:
        """Print so many bytes, with a first and a last line that can be told from the rest."""
        block = b"x" * 99 + b"\n"
        os.write(1, b"the first line\n")
        for _ in range(int(value) // 10_000):
            os.write(1, block * 100)
        os.write(1, b"the last line\n")

    def close_streams(self, value: str) -> None:
        """Close all three standard streams."""
        del value
        os.closerange(0, 3)

    def change(self, value: str) -> None:
        """Change a file of the working tree."""
        with open(value, "a", encoding="utf-8") as file:
            file.write(f"{self.mission}, run {self.run}\n")

    def commit(self, value: str) -> None:
        """Change a file and commit it."""
        self.change(value)
        self.git("add", value)
        self.git("commit", "-q", "-m", f"{self.mission}: {value}")

    def leave_index_lock(self, value: str) -> None:
        """Change a tracked file and begin to commit it; git is killed in its editor and leaves its lock."""
        self.change(value)
        os.spawnvp(os.P_WAIT, "git", ["git", *WHO, "-c", "core.editor=kill -9 $PPID; :", "commit", "-q", "-a"])
        assert os.path.exists(".git/index.lock")

    def git(self, *words: str) -> None:
        """Run git; a fault of it ends the agent."""
        if os.spawnvp(os.P_WAIT, "git", ["git", *WHO, *words]):
            self.exit("1")

    # what it leaves behind

    def fork(self, value: str) -> None:
        """Leave so many children in its own session."""
        for _ in range(int(value or 1)):
            self.leave_behind("fork", lambda: None)

    def daemonize(self, value: str) -> None:
        """Leave a child the way daemons begin: fork, a session of its own, fork, no streams, no directory."""
        del value

        def detach() -> None:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.chdir("/")
            os.closerange(0, 3)

        self.leave_behind("daemonize", detach)

    def close_descriptors(self, value: str) -> None:
        """Leave a child in a session of its own that has closed everything and keeps its environment."""
        del value

        def close() -> None:
            os.setsid()
            os.closerange(0, 4096)

        self.leave_behind("close-descriptors", close)

    def clear_environment(self, value: str) -> None:
        """Leave a child in a session of its own that has an empty environment and keeps its descriptors."""
        del value

        def clear() -> None:
            os.setsid()
            self.become_another("clear-environment")

        self.leave_behind("clear-environment", clear)

    def vanish(self, value: str) -> None:
        """Leave a child that has done all of that: what neither net can see."""
        del value

        def drop_all() -> None:
            os.setsid()
            if os.fork():
                os._exit(0)
            os.closerange(0, 4096)
            self.become_another("vanish")

        self.leave_behind("vanish", drop_all)

    def storm(self, value: str) -> None:
        """Fork so many children that each wait for ever; to be said last."""
        for _ in range(int(value)):
            if os.fork() == 0:
                while True:
                    signal.pause()

    def leave_behind(self, kind: str, prepare: Callable[[], object]) -> None:
        """Fork a child that prepares itself, tells its pid and lingers; go on when it has."""
        before = self.told("child")
        if os.fork() == 0:
            prepare()
            self.linger(kind)
        until(lambda: self.told("child") > before)

    def become_another(self, kind: str) -> None:
        """Exec this program anew with an empty environment, as a child that lingers."""
        program = [sys.executable, "-I", "-S", os.path.abspath(__file__), self.notes, self.mission]
        os.execve(sys.executable, [*program, f"linger={kind}"], {})

    def linger(self, value: str) -> NoReturn:
        """Be a child: tell the pid, and stay."""
        self.tell("child", f"{value} {os.getpid()}")
        while True:
            time.sleep(600)


def until(condition: Callable[[], object]) -> None:
    """Wait for a condition; a trial that fails must not leave its agents waiting for ever."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            os._exit(99)
        time.sleep(0.002)


def main() -> None:
    """Be a child of an agent, or an agent."""
    notes, mission, *words = sys.argv[1:]
    agent = Agent(notes, mission)
    if words[:1] and words[0].startswith("linger="):
        agent.linger(words[0].partition("=")[2])
    agent.behave(words)


if __name__ == "__main__":
    main()
