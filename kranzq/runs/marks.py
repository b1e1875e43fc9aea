"""The mark of a run, `KRANZ_CLAIM=<nonce>:<device>:<inode>`, read in the environments of others.

A dispatcher gives it to each mission; whoever looks for leftovers reads it here. Nothing is believed but the whole form
together with the checkout's root: what lies below `.kranz` could be planted.
"""

from __future__ import annotations

import re
import time

from kranzq.model.frozen import frozen
from kranzq.runs.holders import Key

_FORM = re.compile(rb"([0-9a-f]{32}):([0-9]{1,20}):([0-9]{1,20})")
_NONCE = re.compile(r"[0-9a-f]{32}")
_EXEC_PATIENCE = 0.5  # seconds that a process in the middle of exec has to show its environment: it may lack a core
_EXEC_LOOK_AGAIN = 0.001
_ENV_START = 47  # fields of /proc/PID/stat, counted from the state behind the name
_ENV_END = 48


@frozen
class Mark:
    """Which run a process belongs to: its nonce, and the checkout's first lock."""

    nonce: str
    key: Key


def is_nonce(text: str) -> bool:
    """Whether a text of a record can be a nonce at all."""
    return _NONCE.fullmatch(text) is not None


def read_mark(place: str, root: bytes) -> Mark | None:
    """The mark of a run in the checkout `root`, or None. PermissionError when we may not see."""
    values: dict[bytes, bytes] = {}
    environment = _environment(place)
    if b"KRANZ_CLAIM=" not in environment:
        return None
    for item in environment.split(b"\0"):
        name, _, value = item.partition(b"=")
        if name in {b"KRANZ_CLAIM", b"KRANZ_REPO"}:
            values.setdefault(name, value)
    form = _FORM.fullmatch(values.get(b"KRANZ_CLAIM", b""))
    if form is None or values.get(b"KRANZ_REPO") != root:
        return None
    return Mark(form[1].decode(), (int(form[2]), int(form[3])))


def _environment(place: str) -> bytes:
    """The environment a process was started with. In the middle of exec it looks empty, so it is read again then."""
    until = time.monotonic() + _EXEC_PATIENCE
    while True:
        text = _read(f"{place}/environ")
        if text or _shows_no_environment(place):
            return text
        if time.monotonic() > until:
            raise PermissionError(place)
        time.sleep(_EXEC_LOOK_AGAIN)


def _shows_no_environment(place: str) -> bool:
    """Whether an empty environment is the truth: it begins where it ends, or the process is gone."""
    fields = _read(f"{place}/stat").rpartition(b")")[2].split()
    if len(fields) <= _ENV_END or fields[0] in {b"Z", b"X"}:
        return True
    return fields[_ENV_START] == fields[_ENV_END] != b"0"


def _read(path: str) -> bytes:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except (FileNotFoundError, ProcessLookupError):
        return b""
