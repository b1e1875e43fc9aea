"""Texts as systemd reads them: words of a command line, assignments, descriptions.

In quotes systemd undoes backslashes as C does, then expands `%`; in the words of a command line it expands `$` as well,
but not in the first one, which must be free of quotes and backslashes. See systemd.service(5), "Command lines", and
systemd.syntax(7), "Quoting".
"""

from __future__ import annotations

import re
from collections.abc import Sequence

_PLAIN = re.compile(r"[A-Za-z0-9_@+=:,./-]+", re.ASCII)
_NO_PROGRAM = re.compile(r"[\x00-\x1f\x7f'\"\\$\ud800-\udfff]")
_ESCAPED = {code: f"\\x{code:02x}" for code in (*range(1, 32), 127)}
_ESCAPED |= {0xDC00 + byte: f"\\x{byte:02x}" for byte in range(128, 256)}  # bytes of a path that is no UTF-8
_ESCAPED |= {ord("\\"): "\\\\", ord("\n"): "\\n", ord("\t"): "\\t", ord("%"): "%%"}


def quoted(text: str) -> str:
    """A text that is one word, whatever is in it; `$` stays as it is."""
    mark = "'" if '"' in text and "'" not in text else '"'
    inside = text.translate(_ESCAPED).replace(mark, f"\\{mark}")
    return f"{mark}{inside}{mark}"


def command_line(words: Sequence[str]) -> str:
    """The words of a program that is named by its absolute path.

    A program whose path systemd would not take as it is gets started by a shell, in whose place it runs.
    """
    if _NO_PROGRAM.search(words[0]):
        words = ["/bin/sh", "-c", 'exec "$@"', "sh", *words]
    return " ".join([_word(words[0]), *(_word(word.replace("$", "$$")) for word in words[1:])])


def assignment(name: str, value: str) -> str:
    """A variable and its value, as `Environment=` takes them."""
    return _word(f"{name}={value}")


def is_assignable(value: str) -> bool:
    """Whether systemd takes this value of a variable: it must be UTF-8 without control characters."""
    return not re.search(r"[\x00-\x08\x0b-\x1f\x7f\ud800-\udfff]", value)


def shown(text: str) -> str:
    """A text for people in one line of a unit, not at its end: there a backslash would join the next line.

    Outside of comments it also needs its `%` doubled.
    """
    return "".join(one if one.isprintable() else "\N{REPLACEMENT CHARACTER}" for one in text)


def _word(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else quoted(text)
