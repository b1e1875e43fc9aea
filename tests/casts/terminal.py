"""What a terminal would show of a program: it runs on one, and the few signs for colour that it prints are read.

Any other sign to a terminal is an error here: a picture of it would be wrong.
"""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

COLUMNS = 112
_SPARE = 24
"""So much wider is the terminal: paths and numbers are longer before they are made the same, and a cut line is not."""
ROWS = 50
PATIENCE_S = 60.0
ESCAPE = re.compile(r"\x1b(?:\[([0-9;]*)m)?")
COLOURS = {"31": "red", "32": "green", "33": "yellow", "34": "blue", "35": "purple", "36": "cyan", "2": "dim"}


@dataclass(frozen=True)
class Span:
    """Some letters of a line, all alike; `colour` is a name of the picture's, or empty."""

    text: str
    colour: str = ""
    bold: bool = False


Line = tuple[Span, ...]


def run(command: str, cwd: Path, env: Mapping[str, str]) -> tuple[list[Line], int]:
    """The lines that a command of the shell prints on a terminal, and its exit code."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS + _SPARE, 0, 0))
        with subprocess.Popen(
            ["sh", "-c", command], cwd=cwd, env=env, stdin=theirs, stdout=theirs, stderr=theirs, start_new_session=True
        ) as started:
            os.close(theirs)
            theirs = -1
            try:
                shown = _all_of(ours)
            except TimeoutError:
                os.killpg(started.pid, signal.SIGKILL)
                raise
            code = started.wait(PATIENCE_S)
    finally:
        os.close(ours)
        if theirs >= 0:
            os.close(theirs)
    return lines(shown.decode()), code


def _all_of(terminal: int) -> bytes:
    """Everything until nobody has the other end any more, which is told as an error."""
    shown = b""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        left = max(0.0, deadline - time.monotonic())
        if not select.select([terminal], [], [], left)[0]:
            raise TimeoutError(shown.decode(errors="replace"))
        try:
            part = os.read(terminal, 65536)
        except OSError:
            return shown
        if not part:
            return shown
        shown += part


def lines(shown: str) -> list[Line]:
    """The lines of what was printed; raises ValueError at a sign that is not read here."""
    made = []
    colour, bold = "", False
    for text in shown.replace("\r\n", "\n").removesuffix("\n").split("\n") if shown else []:
        spans, begin = [], 0
        for sign in ESCAPE.finditer(text):
            if sign[1] is None:
                message = f"a sign to the terminal that cannot be drawn: {text!r}"
                raise ValueError(message)
            spans.append(Span(text[begin : sign.start()], colour, bold))
            begin = sign.end()
            for one in sign[1].split(";"):
                colour, bold = _after(one, colour, bold=bold)
        spans.append(Span(text[begin:], colour, bold))
        made.append(tuple(span for span in spans if span.text))
    return made


def _after(sign: str, colour: str, *, bold: bool) -> tuple[str, bool]:
    """The colour and weight after one sign."""
    if sign in {"", "0"}:
        return "", False
    if sign == "1":
        return colour, True
    return COLOURS.get(sign, colour), bold


def text_of(line: Sequence[Span]) -> str:
    """The letters of a line."""
    return "".join(span.text for span in line)
