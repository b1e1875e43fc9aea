"""`--watch` on a real terminal: what it takes for its size, and that whoever says so ends it at any instant."""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
import sys
import termios
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from tests.laboratory import PATIENCE, wait_for

_ENTER, _LEAVE = b"\x1b[?1049h", b"\x1b[?25h\x1b[?1049l"
_SIZES = "lambda size: [f'drawn {size.columns} {size.lines}']"
_DEAF = """
def frame(size):
    try:
        if not told:
            told.append(1)
            os.kill(os.getpid(), signal.{name})
            time.sleep(60)
    except (KeyboardInterrupt, SystemExit):
        pass
    return ["drawn"]
"""
_IN_A_STORM = f"""
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, lambda *_: None)
code = 0
try:
    watch({_SIZES}, 60)
except SystemExit as end:
    code = end.code
os._exit(code)
"""
"""What comes after the terminal was given back ends nothing any more."""


class Screen:
    """A program on a terminal, and all that it has written there."""

    def __init__(self, program: subprocess.Popen[bytes], master: int) -> None:
        self.program = program
        self._master = master
        self.written = b""

    def has(self, text: bytes) -> bool:
        """Whether it has written that by now."""
        with suppress(OSError):
            self.written += os.read(self._master, 65536)
        return text in self.written


@contextmanager
def screen(code: str, *, rows: int = 24, columns: int = 80) -> Iterator[Screen]:
    """Run Python on a terminal of that size."""
    master, slave = os.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
    os.set_blocking(master, False)
    head = "import os, signal, time\nfrom kranzq.cli.screen.watching import watch\ntold = []\n"
    program = subprocess.Popen([sys.executable, "-c", head + code], stdin=slave, stdout=slave)
    os.close(slave)
    try:
        yield Screen(program, master)
    finally:
        program.kill()
        program.wait()
        os.close(master)


def test_a_terminal_that_does_not_know_its_size_is_taken_for_a_usual_one() -> None:
    """A serial line, or one in a container, says 0: one short line of all would be shown there."""
    with screen(f"watch({_SIZES}, 60)", rows=0, columns=0) as one:
        wait_for(lambda: one.has(b"drawn 79 24"), "it is drawn")


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 0), ("SIGTERM", 143), ("SIGHUP", 129)])
def test_a_signal_that_came_where_nothing_can_be_raised_ends_it_too(name: str, code: int) -> None:
    """What a callback of the collector's swallows is raised again, and the terminal is as it was."""
    with screen(_DEAF.format(name=name) + "watch(frame, 60)") as one:
        wait_for(lambda: one.has(_LEAVE), "the terminal is given back")

        assert one.program.wait(PATIENCE) == code


def test_a_storm_of_signals_leaves_the_terminal_as_it_was() -> None:
    """The first one counts; the others come while it leaves."""
    with screen(_IN_A_STORM) as one:
        wait_for(lambda: one.has(b"drawn"), "it is drawn")
        for _ in range(20):
            for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
                one.program.send_signal(number)
        wait_for(lambda: one.has(_LEAVE), "the terminal is given back")

        assert one.program.wait(PATIENCE) in {0, 129, 143}
        assert one.written.count(_ENTER) == 1
