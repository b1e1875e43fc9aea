"""What a setting's value may look like: parsers from a file's value, a variable's text or a flag.

Each raises ValueError with half a sentence, which whoever knows the setting's name and place completes. The command
line uses the same ones, so a duration is written in one way everywhere.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from typing import TypeGuard

from kranzq.model.database_url import DatabaseUrl
from kranzq.model.whole import parse_whole

PLACEHOLDERS = ("mission_id", "mission_dir", "repo")
_LEAST_CAP = 64 * 1024
_MOST_SECONDS = 3650 * 86400.0
_MOST_LEASE_S = 86400.0
_MOST_NAME, _MOST_GROUPS = 200, 60
_DURATION = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?) ?(s|m|h|d)?", re.ASCII)
_SIZE = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,9})?) ?(?:([kmgt])(i)?)?b?", re.ASCII | re.IGNORECASE)
_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}
_PLACEHOLDER = re.compile(r"(?<!\$)(?:\{\{([a-z_]+)\}\}|\{([a-z_]+)\})")
_ENVIRONMENT_NAME = re.compile(r"[^=\0\s,]+")


def expand(command: Sequence[str], *, mission_id: str, mission_dir: str, repo: str) -> tuple[str, ...]:
    """The configured command with its placeholders filled in, each once; `{{name}}` stands for a literal `{name}`."""
    texts = {"mission_id": mission_id, "mission_dir": mission_dir, "repo": repo}

    def fill(found: re.Match[str]) -> str:
        literal, name = found.groups()
        return texts[name] if literal is None else f"{{{literal}}}"

    return tuple(_PLACEHOLDER.sub(fill, argument) for argument in command)


def parse_duration(value: object) -> float:
    """Seconds from a number of them or a text such as `90s`, `5m`, `2h`, `1d`. Raises ValueError (half a sentence)."""
    seconds = math.nan
    if isinstance(value, str) and (found := _DURATION.fullmatch(value)):
        seconds = float(found[1]) * _UNITS[found[2] or ""]
    elif isinstance(value, int | float) and not isinstance(value, bool):
        seconds = min(value, _MOST_SECONDS + 1) + 0.0  # a huge whole number has no float
    if not 0 <= seconds <= _MOST_SECONDS:
        raise ValueError(
            f"must be a number of seconds or a text such as 90s, 5m, 2h or 1d (most: 3650d), not {_shown(value)}"
        )
    return seconds


def parse_size(value: object) -> int:
    """Bytes from a number of them or a text such as `512MiB` or `1GB`. Raises ValueError (half a sentence)."""
    if isinstance(value, str) and (found := _SIZE.fullmatch(value)):
        power = " kmgt".index((found[2] or " ").lower())
        return int(float(found[1]) * (1024 if found[3] else 1000) ** power)
    if isinstance(value, int) and not isinstance(value, bool) and value >= 0:
        return value
    raise ValueError(f"must be a number of bytes or a text such as 512MiB or 1GB, not {_shown(value)}")


def parse_cap(value: object) -> int | None:
    """A size that holds a few lines at least, or None for `none`."""
    if value == "none":
        return None
    if (size := parse_size(value)) < _LEAST_CAP:
        raise ValueError("must be at least 64KiB")
    return size


def parse_count(value: object) -> int:
    """A whole number from 1 on; text only as a variable has it."""
    if isinstance(value, str):
        return parse_whole(value, 1)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise ValueError(f"must be a whole number from 1 on, not {_shown(value)}")
    return value


def parse_positive(value: object) -> float:
    """A duration above zero."""
    if (seconds := parse_duration(value)) <= 0:
        raise ValueError("must be more than 0")
    return seconds


def parse_lease(value: object) -> float:
    """A duration above zero, at most a day: a crashed holder must not keep an item for longer."""
    if (seconds := parse_positive(value)) > _MOST_LEASE_S:
        raise ValueError("must be at most 24h")
    return seconds


def parse_database(value: object) -> DatabaseUrl | None:
    """A database, or None for `own`. What is wrong is said without the password that may stand in it."""
    if value == "own":
        return None
    return DatabaseUrl.parse(value if isinstance(value, str) else "")


def parse_timeout(value: object) -> float | None:
    """A duration above zero, or None for `none`."""
    return None if value == "none" else parse_positive(value)


def one_of(*words: str, automatic: str = "") -> Callable[[object], str | None]:
    """A parser that takes one of the words, and the word `automatic` as None."""

    def parse(value: object) -> str | None:
        if isinstance(value, str) and value in words:
            return value
        if automatic and value == automatic:
            return None
        known = ", ".join(f'"{word}"' for word in (*words, automatic) if word)
        raise ValueError(f"must be one of {known}, not {_shown(value)}")

    return parse


def parse_command(value: object) -> tuple[str, ...]:
    """A program and its arguments, whose placeholders are all known; empty for none."""
    command = _texts(value, "must be a list of texts, the program and its arguments")
    if command and not command[0]:
        raise ValueError("must begin with a program")
    for argument in command:
        for literal, name in _PLACEHOLDER.findall(argument):
            if not literal and name not in PLACEHOLDERS:
                known = ", ".join(f"{{{word}}}" for word in PLACEHOLDERS)
                raise ValueError(
                    f"has the unknown placeholder {{{name}}}; known are {known}, {{{{x}}}} is a plain {{x}}"
                )
    return command


def parse_hook(value: object) -> tuple[str, ...]:
    """A program, by its name or its absolute path, and its arguments; or one URL, also as a text; empty for none.

    A relative path would be looked up in the checkout, where anybody may have put something. What is wrong is said
    without the value: a URL is often a secret, and a program's argument may be one.
    """
    value = [value] if isinstance(value, str) and _is_url(value) else value
    if not _is_texts(value):
        raise ValueError("must be a list of texts, the program and its arguments, or one URL")
    command = tuple(value)
    if command and _is_url(command[0]):
        if len(command) > 1 or not _is_webhook(command[0]):
            raise ValueError("must be one http or https URL with a host, and without a user, a password or a #")
        return command
    if command and (not command[0] or ("/" in command[0] and not command[0].startswith("/"))):
        raise ValueError("must begin with a program, by its name or its absolute path")
    return command


def _is_url(text: str) -> bool:
    return text.strip().lower().startswith(("http:", "https:"))


def _is_webhook(url: str) -> bool:
    from urllib.parse import urlsplit  # noqa: PLC0415 - only a webhook needs it

    try:
        parts = urlsplit(url)
        is_port = parts.port is None or parts.port > 0
    except ValueError:
        return False
    plain = url.isascii() and url.isprintable() and " " not in url
    return (
        plain
        and url.startswith(("http://", "https://"))
        and bool(parts.hostname)
        and is_port
        and not ("@" in parts.netloc or "#" in url)
    )


BACKENDS = ("file", "sql")


def parse_backends(value: object) -> tuple[str, ...]:
    """What a dispatcher serves: `file`, the queue of its checkout, and perhaps `sql`, the work queue."""
    wanted = _texts(value, 'must be a list with "file" and perhaps "sql"')
    for word in wanted:
        if word not in BACKENDS:
            raise ValueError(f'has {word[:40]!r}; known are "file" and "sql"')
    if "file" not in wanted:
        raise ValueError('must have "file" in it: the queue of the checkout is always served')
    return tuple(dict.fromkeys(wanted))


def parse_name(value: object) -> str | None:
    """A short name, or None for `auto`."""
    if value == "auto":
        return None
    if not isinstance(value, str) or not value.strip() or len(value.encode()) > _MOST_NAME or not value.isprintable():
        raise ValueError(f"must be a name of at most {_MOST_NAME} bytes, not {_shown(value)}")
    return value


def parse_groups(value: object) -> tuple[str, ...]:
    """Names of groups."""
    groups = _texts(value, "must be a list of names")
    if len(groups) > _MOST_GROUPS:
        raise ValueError(f"must have at most {_MOST_GROUPS} names")
    return tuple(parse_name(group) or "auto" for group in groups)


def parse_environment(value: object) -> tuple[str, ...] | None:
    """Names of variables, or None for `inherit`."""
    if value == "inherit":
        return None
    names = _texts(value, 'must be "inherit" or a list of names')
    for name in names:
        if _ENVIRONMENT_NAME.fullmatch(name) is None:
            raise ValueError(f"has {name!r}, which is no name of a variable")
    return names


def split_command(text: str) -> list[str]:
    """Arguments from a text that is quoted as in a shell, though no shell ever sees it."""
    import shlex  # noqa: PLC0415 - only a command in a variable needs it

    try:
        return shlex.split(text)
    except ValueError as fault:
        raise ValueError(f"cannot be split into arguments: {fault}") from fault


def split_names(text: str) -> object:
    """Names from a text with spaces or commas between them; `inherit` alone stays that word."""
    return "inherit" if text.strip() == "inherit" else text.replace(",", " ").split()


def _texts(value: object, why: str) -> tuple[str, ...]:
    if not _is_texts(value):
        raise ValueError(f"{why}, not {_shown(value)}")
    return tuple(value)


def _is_texts(value: object) -> TypeGuard[Sequence[str]]:
    return isinstance(value, list | tuple) and all(isinstance(text, str) and "\0" not in text for text in value)


def _shown(value: object) -> str:
    return repr(value)[:80]
