"""What goes to the terminal: text with control characters shown escaped, JSON with stable keys, local times."""

from __future__ import annotations

import contextlib
import datetime as dt
import json
import os
import sys
from typing import TextIO

import click

from kranzq.errors import KranzqError
from kranzq.model.clock import EARLIEST_S, LATEST_S
from kranzq.model.tokens import without_tokens

_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(32), *range(127, 160))}
_ESCAPED |= {code: f"\\u{code:04x}" for code in (*range(0x2028, 0x202F), *range(0x2066, 0x206A))}
_ESCAPED |= {code: f"\\u{code:04x}" for code in (0x061C, 0x200E, 0x200F)}
_ESCAPED |= {9: "\\t", 10: "\\n", 13: "\\r"}
"""Control characters, other ends of lines, and what turns text around: a name or a mission must not drive a terminal,
nor make two lines of one for whoever reads them in a pipe."""
_ESCAPED_IN_OUTPUT = {code: shown for code, shown in _ESCAPED.items() if code not in {9, 10}}

_DAY_S = 86400.0  # no zone is further from UTC


class OutputLost(KranzqError):
    """What was to be said could not be written; what was done is done."""

    def __init__(self, fault: OSError) -> None:
        super().__init__(f"The output could not be written: {fault.strerror}. What was asked for is done.")


def say(*lines: str) -> None:
    """Lines for people, on stdout; each stays one line, whatever names are in it."""
    _echo("\n".join(map(clean, lines)))


def mention(*lines: str) -> None:
    """As `say`, where nothing depends on its being read: a full disk or a reader that went away stops nobody."""
    with contextlib.suppress(OutputLost, BrokenPipeError):
        say(*lines)


def complain(*lines: str) -> None:
    """Lines about a fault, on stderr, which often ends in a log: a token that was typed is not repeated.

    Where nothing takes them the exit code says it alone.
    """
    told = without_tokens("\n".join(map(clean, lines)))
    with contextlib.suppress(OSError):
        click.echo(f"kranzq: {told}", err=True, color=_colour(sys.stderr))


def complain_of(fault: KranzqError) -> None:
    """A fault, with what to type next on a line of its own."""
    complain(fault.sentence, *([f"  {fault.advice}"] if fault.advice else []))


def say_json(value: object) -> None:
    """A value for programs, on stdout."""
    _echo(json.dumps(value, indent=2, ensure_ascii=True))


def clean(text: str) -> str:
    """The text as one line, with control characters shown instead of acting.

    Half characters, and letters that the output's charset has not, become visible, too: so what is cut to a width here
    has it there.
    """
    return _visible(text.translate(_ESCAPED))


def clean_output(text: str) -> str:
    """As `clean`, for what a mission printed: its lines and tabs stay."""
    return _visible(text.translate(_ESCAPED_IN_OUTPUT))


def shade(text: str, **style: bool | str) -> str:
    """Text with a colour, where colours are wanted; the text is cleaned first."""
    return click.style(clean(text), **style) if _colour(sys.stdout) else clean(text)  # type: ignore[arg-type]


def say_styled(text: str) -> None:
    """A line that was made of cleaned and shaded parts."""
    _echo(text)


def is_screen(stream: TextIO | None = None) -> bool:
    """Whether somebody looks at a stream (the standard output), on a terminal that can do more than lines."""
    return (stream or sys.stdout).isatty() and os.environ.get("TERM", "dumb") not in {"", "dumb"}


def local_time(seconds: float | None) -> str:
    """A wall time in the local zone, for people."""
    if seconds is None:
        return "-"
    return (
        dt.datetime.fromtimestamp(min(max(seconds, EARLIEST_S + _DAY_S), LATEST_S - _DAY_S))
        .astimezone()
        .strftime("%Y-%m-%d %H:%M:%S")
    )


def duration(seconds: float) -> str:
    """A length of time for people, two units at most."""
    whole = int(max(0.0, seconds))
    parts = [(whole // 86400, "d"), (whole % 86400 // 3600, "h"), (whole % 3600 // 60, "min"), (whole % 60, "s")]
    shown = [f"{count} {unit}" for count, unit in parts if count][:2]
    return " ".join(shown) or "0 s"


def charset() -> str:
    """What the output is written in: not all of them have each letter of a name."""
    return getattr(sys.stdout, "encoding", None) or "utf-8"


def _visible(text: str) -> str:
    return text.encode(charset(), "backslashreplace").decode(charset())


def _echo(text: str) -> None:
    try:
        click.echo(text, color=_colour(sys.stdout))
    except BrokenPipeError:
        raise
    except OSError as fault:
        raise OutputLost(fault) from fault


def _colour(stream: object) -> bool:
    isatty = getattr(stream, "isatty", None)
    return bool(isatty is not None and isatty() and not os.environ.get("NO_COLOR"))
