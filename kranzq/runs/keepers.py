"""Keepers as a dispatcher sees them: started ahead, given one order with *go*, listened to, reaped in one place.

Dropping a keeper (`close`, or the end of this process) never ends its mission; only `dismiss` sends one away, and only
before *go*, when it holds nothing.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
from array import array
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from kranzq.errors import EXIT_LATER, KranzqError
from kranzq.liveness import identity_of
from kranzq.model.frozen import frozen
from kranzq.model.process import ProcessIdentity

READY_WITHIN = 20.0
LEAVES_WITHIN = 2.0
PACKET_LIMIT = 1 << 18
KEEPER_PROGRAM = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "keeper.py")
_PASSED_ON = ("PATH", "LANG", "TZ", "HOME", "TMPDIR")


class KeeperLost(KranzqError):
    """A keeper that died or did not become ready before it had read *go*: nothing was started."""

    exit_code = EXIT_LATER

    def __init__(self, pid: int, why: str) -> None:
        super().__init__(f"The keeper {pid} is lost: {why}. Nothing was started.", "Try again.")
        self.pid = pid


@frozen
class Order:
    """All that a keeper needs to know of its mission; the JSON of it travels in a memory file, so it may be large."""

    kranzq: str
    mission: str
    run: int
    nonce: str
    executable: str
    argv: Sequence[str]
    env: Mapping[str, str]
    claim: str
    run_path: str
    timeout_seconds: float | None = None
    grace_seconds: float = 10.0
    on_survivors: Literal["end", "report"] = "end"
    oom_score_adjust: int = 300
    sync_parents: int = 0
    lease_ends_boottime: float | None = None
    record: str = ""
    """The content of `run.json`, for a keeper that must make a removed run folder anew."""
    output_cap: int | None = None
    """Bytes of the output that are kept: half from its beginning, half from its end."""

    def to_json(self) -> dict[str, object]:
        """The order in the keeper's words."""
        return {
            "version": 1,
            "kranzq": self.kranzq,
            "mission": self.mission,
            "run": self.run,
            "nonce": self.nonce,
            "executable": self.executable,
            "argv": list(self.argv),
            "env": dict(self.env),
            "claim": self.claim,
            "runPath": self.run_path,
            "timeoutSeconds": self.timeout_seconds,
            "graceSeconds": self.grace_seconds,
            "onSurvivors": self.on_survivors,
            "oomScoreAdjust": self.oom_score_adjust,
            "syncParents": self.sync_parents,
            "leaseEndsBoottime": self.lease_ends_boottime,
            "record": self.record,
            "outputCap": self.output_cap,
        }


class Keeper:
    """One keeper process, from its start to its reaping.

    `told_to_go`: it may have read *go*, so it is no longer ours to dismiss. `eof`: it will say nothing more.
    """

    def __init__(self, pid: int, pidfd: int, sock: socket.socket, identity: ProcessIdentity) -> None:
        self.pid = pid
        self.pidfd = pidfd
        self.identity = identity
        self.eof = False
        self.reaped = False
        self.told_to_go = False
        self._sock = sock
        self._ready = False

    def fileno(self) -> int:
        """The socket, to wait on: readable when there is a message or the end."""
        return self._sock.fileno()

    def await_ready(self, seconds: float = READY_WITHIN) -> None:
        """Wait until it is ready; raises KeeperLost, and sends it away, when it is not in time."""
        if self._ready:
            return
        poll = select.poll()
        poll.register(self._sock, select.POLLIN)
        message = self.read() if poll.poll(seconds * 1000) else None
        self._ready = message is not None and message.get("ready") == 1
        if not self._ready:
            self.dismiss()
            raise KeeperLost(self.pid, "it ended before it was ready" if self.eof else f"not ready in {seconds:.0f} s")

    def go(  # noqa: PLR0913 - each descriptor has its own name, or two of them are mistaken for each other
        self,
        order: Order,
        *,
        locks: tuple[int, ...],
        run: int,
        queue: int,
        cwd: int,
        output: int,
        log: int,
        input: int | None = None,  # noqa: A002 - the word for it in the order
    ) -> None:
        """Say *go*: from here on the keeper starts the mission whatever becomes of this process.

        All descriptors stay the caller's own; without `input` the mission reads /dev/null. Raises KeeperLost when it
        died first; then nothing was started.
        """
        self.await_ready()
        names = [*["lock"] * len(locks), "run", "queue", "cwd", "output", "log", "order"]
        names += ["input"] if input is not None else []
        memory = os.memfd_create("kranzq-order")
        try:
            with open(memory, "wb", closefd=False) as file:
                file.write(json.dumps(order.to_json()).encode())
            header = json.dumps({"go": 1, "fds": names}).encode()
            rights = array("i", [*locks, run, queue, cwd, output, log, memory, *([] if input is None else [input])])
            self.told_to_go = True  # first: whatever interrupts us after the call, the mission may run
            self._sock.sendmsg([header], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)], socket.MSG_NOSIGNAL)
        except OSError as fault:
            self.told_to_go = False
            raise KeeperLost(self.pid, f"it could not be told to start ({fault.strerror})") from fault
        finally:
            os.close(memory)

    def read(self) -> dict[str, Any] | None:
        """The next message, or None when none is there; `eof` says whether none can come any more."""
        while not self.eof:
            try:
                data = self._sock.recv(PACKET_LIMIT, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return None
            except OSError:  # reset: it died with something unread
                data = b""
            self.eof = not data
            with contextlib.suppress(ValueError):
                message = json.loads(data)
                if isinstance(message, dict):
                    return message
        return None

    def ended(self) -> bool:
        """Say whether the process has ended; it is not reaped by that."""
        if self.reaped:
            return True
        try:
            return os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
        except ChildProcessError:
            return True

    def reap(self) -> None:
        """Reap it once it has ended: the one place that does."""
        if not self.reaped and self.ended():
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PIDFD, self.pidfd, os.WEXITED | os.WNOHANG)
            self.reaped = True

    def dismiss(self) -> None:
        """Send it away before *go*. It holds nothing, so one that does not leave is killed."""
        self._sock.close()
        if self.pidfd < 0:
            return
        poll = select.poll()
        poll.register(self.pidfd, select.POLLIN)
        if not self.ended() and not poll.poll(LEAVES_WITHIN * 1000):
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)
            poll.poll()
        self.reap()
        self.close()

    def close(self) -> None:
        """Let go of the descriptors; a mission that it keeps goes on."""
        self._sock.close()
        if self.pidfd >= 0:
            os.close(self.pidfd)
            self.pidfd = -1


class WarmKeepers:
    """One keeper that stands ready, so that no interpreter start lies between an approval and its mission."""

    def __init__(self, keeper_path: str | None = None) -> None:
        self._path = keeper_path
        self._warm: Keeper | None = None

    def warm(self) -> None:
        """Start one ahead, without waiting for it, unless one stands there alive. If that fails, `take` will tell."""
        if self._warm is not None and self._warm.ended():
            self.close()
        if self._warm is None:
            with contextlib.suppress(KeeperLost):
                self._warm = _spawn(self._path)

    def take(self) -> Keeper:
        """The warm one, if it is alive and becomes ready, or else a new one; it is the caller's from now on."""
        keeper, self._warm = self._warm, None
        if keeper is None:
            return start_keeper(self._path)
        try:
            keeper.await_ready()
        except KeeperLost:
            return start_keeper(self._path)
        if keeper.ended():
            keeper.dismiss()
            return start_keeper(self._path)
        return keeper

    def standing(self) -> ProcessIdentity | None:
        """The warm one, if there is one and it lives; it need not be ready."""
        return None if self._warm is None or self._warm.ended() else self._warm.identity

    def started(self) -> dict[int, int | None]:
        """Pid and start ticks of the warm one: a process of ours that is nobody's leftover."""
        return {} if self._warm is None else {self._warm.pid: self._warm.identity.start_ticks}

    def close(self) -> None:
        """Send the warm one away."""
        keeper, self._warm = self._warm, None
        if keeper is not None:
            keeper.dismiss()


def start_keeper(keeper_path: str | None = None) -> Keeper:
    """Start a keeper and wait until it is ready. Raises KeeperLost."""
    keeper = _spawn(keeper_path)
    keeper.await_ready()
    return keeper


def _spawn(keeper_path: str | None) -> Keeper:
    if signal.getsignal(signal.SIGCHLD) is signal.SIG_IGN:  # inherited so, children would vanish unreaped
        with contextlib.suppress(ValueError):  # not the main thread: then that one has the say
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with its:
        try:
            process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-E", keeper_path or KEEPER_PROGRAM, str(its.fileno())],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd="/",
                env={key: os.environ[key] for key in os.environ if key in _PASSED_ON or key.startswith("LC_")},
                start_new_session=True,
                pass_fds=(its.fileno(),),
            )
        except OSError as fault:  # no process or memory to be had, or the interpreter was removed
            ours.close()
            raise KeeperLost(0, f"it could not be started ({fault.strerror})") from fault
    process.returncode = 0  # an untruth that keeps `subprocess` from reaping behind the back of `reap`
    identity = identity_of(process.pid)
    if identity is None:
        ours.close()
        with contextlib.suppress(ChildProcessError):
            os.waitid(os.P_PID, process.pid, os.WEXITED)
        raise KeeperLost(process.pid, "it ended at once")
    return Keeper(process.pid, os.pidfd_open(process.pid), ours, identity)
