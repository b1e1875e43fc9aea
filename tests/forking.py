"""Real processes that run kranzq without its start: forked from one that has imported everything already.

A start of the program takes a tenth of a second of a core before anything of it happens, and the stories of these
tests make thousands. What is forked here has a pid, descriptors, signals and an environment of its own, is killed like
any other, and flushes and leaves as Python does; only its command line and its first environment in `/proc` are those
of the process that it came from. So daemons, and whatever goes on beside a test, are started as ever, and
`KRANZQ_START_EACH=1` starts everything.
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import pkgutil
import re
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

REPO = Path(__file__).resolve().parent.parent
START_EACH = bool(os.environ.get("KRANZQ_START_EACH"))
_LEFT_OUT = re.compile(r"kranzq\.(keeper|hooks\.(courier|post)|testing|http|mcp|client|server|cli\.(mcp|serving))\b")
"""Programs of their own, and what needs an extra: to import these would cost more than it saves."""
_AT_START = re.compile(r"PYTHON(?!PATH$)|LC_|LANG")
"""Variables that Python reads when it starts."""
_ENVIRONMENT = dict(os.environ)
"""As it was before any test: what forks bears no mark of the test that happens to be the first."""
_MOST_INPUT = 60_000
"""As much as a pipe takes before anybody reads."""


@dataclass(frozen=True)
class Wish:
    """A program to be run: a module with a `main` that reads `sys.argv`, and where it runs."""

    program: str
    argv: Sequence[str]
    cwd: str
    env: Mapping[str, str]
    input: str | None = None
    output: int | None = None
    """A descriptor for all that it says; one with an output has a session of its own."""

    @property
    def words(self) -> list[str]:
        """The words that start it."""
        return [sys.executable, "-m", self.program.removesuffix(".__main__"), *self.argv]


def run(wish: Wish, seconds: float) -> subprocess.CompletedProcess[str]:
    """Run a program to its end, as `subprocess.run` does; without an output what it says is in the answer.

    Raises `subprocess.TimeoutExpired` after it has killed it.
    """
    if START_EACH or _of_start(wish.env) != _of_start(_ENVIRONMENT) or len(wish.input or "") > _MOST_INPUT:
        return _started(wish, seconds)
    if not _forks:
        _forks.append(_Forks())
    return _forks[0].run(wish, seconds)


def _of_start(env: Mapping[str, str]) -> dict[str, str]:
    return {name: text for name, text in env.items() if _AT_START.match(name)}


def _started(wish: Wish, seconds: float) -> subprocess.CompletedProcess[str]:
    stream = subprocess.PIPE if wish.output is None else wish.output
    with subprocess.Popen(
        wish.words,
        cwd=wish.cwd,
        env=wish.env,
        text=True,
        stdin=subprocess.DEVNULL if wish.input is None else subprocess.PIPE,
        stdout=stream,
        stderr=stream,
        start_new_session=wish.output is not None,
    ) as process:
        try:
            told, complained = process.communicate(wish.input, seconds)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return subprocess.CompletedProcess(wish.words, process.returncode, told, complained)


class _Forks:
    """The process that forks, as those see it who ask it."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.forking", str(theirs.fileno())],
                cwd=REPO,
                env=_ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
            )
        atexit.register(self._close)

    def run(self, wish: Wish, seconds: float) -> subprocess.CompletedProcess[str]:
        """Have it forked, and read until its end is told and its streams are closed, by whomever."""
        until = time.monotonic() + seconds
        with contextlib.ExitStack() as reading, contextlib.ExitStack() as theirs:

            def pipe() -> tuple[int, int]:
                read, write = os.pipe2(os.O_CLOEXEC)
                reading.callback(os.close, read)
                theirs.callback(os.close, write)
                return read, write

            answer, answering = pipe()
            streams = [] if wish.output is not None else [pipe(), pipe()]
            if wish.input is None:
                stdin = os.open(os.devnull, os.O_RDONLY)
                theirs.callback(os.close, stdin)
            else:
                stdin, giving = pipe()
                os.write(giving, wish.input.encode())
            order = os.memfd_create("order")
            theirs.callback(os.close, order)
            facts = [wish.program, *wish.argv], wish.cwd, dict(wish.env), _umask(), wish.output is not None
            os.pwrite(order, json.dumps(facts).encode(), 0)
            ends = [write for _, write in streams] if wish.output is None else [wish.output, wish.output]
            socket.send_fds(self._socket, [b"!"], [order, answering, stdin, *ends])
            theirs.close()
            said = _read([answer, *(read for read, _ in streams)], until)
        assert said[0], "what forks has gone"
        pid, *status = said[0].split()
        if not status:
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
            raise subprocess.TimeoutExpired(wish.words, seconds, *said[1:])
        texts = [text.decode() for text in said[1:]] or ["", ""]
        return subprocess.CompletedProcess(wish.words, os.waitstatus_to_exitcode(int(status[0])), *texts)

    def _close(self) -> None:
        self._socket.close()
        self._process.wait()


_forks: list[_Forks] = []


def _umask() -> int:
    text = Path("/proc/self/status").read_text()  # to ask the system call would change it for other threads
    return int(text.partition("\nUmask:")[2].split()[0], 8)


def _read(fds: Sequence[int], until: float) -> list[bytes]:
    """Everything from some pipes until all are closed, or until then."""
    said = dict.fromkeys(fds, b"")
    poll = select.poll()
    for fd in fds:
        poll.register(fd, select.POLLIN)
    left = len(fds)
    while left and (rest := until - time.monotonic()) > 0:
        for fd, _ in poll.poll(rest * 1000):
            if more := os.read(fd, 1 << 16):
                said[fd] += more
            else:
                poll.unregister(fd)
                left -= 1
    return list(said.values())


def _serve(orders: socket.socket) -> str | None:
    """Fork as often as asked. Returns in each process that was forked, with the name of what it is to run."""
    poll, children = select.poll(), dict[int, tuple[int, int]]()
    poll.register(orders, select.POLLIN)
    while True:
        for fd, _ in poll.poll():
            if fd in children:
                poll.unregister(fd)
                pid, answering = children.pop(fd)
                with contextlib.suppress(BrokenPipeError):  # whoever asked has lost patience
                    os.write(answering, b"%d\n" % os.waitpid(pid, 0)[1])
                os.close(answering)
                os.close(fd)
                continue
            data, fds, _, _ = socket.recv_fds(orders, 1, 5)
            if not data:
                return None
            pid = os.fork()
            if pid == 0:
                return _become(fds)
            order, answering, *streams = fds
            for one in (order, *streams):
                os.close(one)
            os.write(answering, b"%d\n" % pid)
            children[child := os.pidfd_open(pid)] = (pid, answering)
            poll.register(child, select.POLLIN)


def _become(fds: Sequence[int]) -> str:
    """Be what was ordered, in all that a new process has of its parent."""
    order, _, *streams = fds
    (program, *argv), cwd, env, umask, alone = json.loads(os.pread(order, 1 << 24, 0))
    for number, fd in enumerate(streams):
        os.dup2(fd, number)
    os.closerange(3, 1 << 16)
    if alone:
        os.setsid()
    os.umask(umask)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    time.tzset()
    sys.argv = [importlib.import_module(program).__file__ or "", *argv]
    return str(program)


def main() -> None:
    """Import everything, and serve until the tests have ended."""
    for one in pkgutil.walk_packages([str(REPO / "kranzq")], "kranzq."):
        if not _LEFT_OUT.match(one.name):
            with contextlib.suppress(Exception):  # a broken module fails the verbs that need it, and says so there
                importlib.import_module(one.name)
    for one_of_ours in ("tests.crash.killed", "tests.proof.program"):
        importlib.import_module(one_of_ours)
    gc.freeze()  # or the first collection in each of them copies all of this
    program = _serve(socket.socket(fileno=int(sys.argv[1])))
    if program is not None:
        _leave_after(importlib.import_module(program).main)


def _leave_after(program: Callable[[], None]) -> None:
    """Run it and leave as Python does, without taking every module apart, which costs more than most verbs."""
    try:
        program()
    except SystemExit as end:
        if not isinstance(end.code, int):
            raise
        vars(threading)["_shutdown"]()
        vars(atexit)["_run_exitfuncs"]()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(end.code & 0xFF)


if __name__ == "__main__":
    main()
