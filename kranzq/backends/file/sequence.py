"""The next number. `.seq` is only a hint: the number is one more than the largest that any name bears.

Claims, waiting and parked entries count too, so an entry that comes back never meets a newer one of its own name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator

from kranzq.backends.file import aside
from kranzq.backends.file.folders import Folders, names_in
from kranzq.backends.file.layout import (
    ADMITTING,
    SEQUENCE,
    is_candidate,
    order_keys,
    parse_claim_name,
    parse_entry_name,
    parse_waiting_name,
)
from kranzq.disk import atomic
from kranzq.disk.read import Unreadable, read_regular
from kranzq.errors import StoreUnavailable
from kranzq.model.entry import MAX_NUMBER

_NUMBER = re.compile(rb"\s*([0-9]{1,20})\s*")


def next_number(folders: Folders, floor: int | None = None) -> int:
    """The number for a new entry, at least one more than `floor`; 0 in a fresh queue. The number lock must be held."""
    largest = -1 if floor is None else floor
    largest = max(largest, _hint(folders), *_numbers(folders), -1)
    if largest >= MAX_NUMBER:
        raise StoreUnavailable(folders.checkout.queue, f"its numbers have reached {MAX_NUMBER}")
    return largest + 1


def record(folders: Folders, number: int) -> None:
    """Write `.seq`, as kranz does before the entry. A crash in between only skips a number."""
    atomic.replace(folders.queue, SEQUENCE, str(number).encode(), mode=0o644, sync=False)


def _hint(folders: Folders) -> int:
    try:
        found = read_regular(SEQUENCE, dir_fd=folders.queue, limit=64)
    except Unreadable as fault:
        return _set_aside(folders, fault.why)
    if found is None:
        return -1
    parsed = _NUMBER.fullmatch(found.data)
    if parsed is None or int(parsed[1]) > MAX_NUMBER:
        return _set_aside(folders, f"it holds {found.data[:40]!r}")
    return int(parsed[1])


def _set_aside(folders: Folders, why: str) -> int:
    """A damaged hint goes to the quarantine as any bad file does, under a name that is not hidden; the names tell."""
    with contextlib.suppress(FileNotFoundError):
        aside.quarantine(folders, SEQUENCE, f"it is no number ({why}); the next one comes from the names", wanted="seq")
    return -1


def _numbers(folders: Folders) -> Iterator[int]:
    names = list(names_in(folders.queue))
    yield from (int(key[4:24]) for key in order_keys(names).values() if key is not None)
    for name in names:
        if not is_candidate(name) and (number := _number_in(name)) is not None:
            yield number
    for name in names_in(folders.aside("waiting")):
        if (waiting := parse_waiting_name(name)) is not None:
            yield waiting.entry.number
    for name in names_in(folders.aside("parked")):
        if (parked := parse_entry_name(name)) is not None:
            yield parked.number


def _number_in(name: str) -> int | None:
    """The number that a claim's name in `queue/` bears, or that of a file that is being admitted."""
    if name.startswith(ADMITTING):
        rest = name.removeprefix(ADMITTING)
        return int(rest) if rest.isascii() and rest.isdigit() else None
    claim = parse_claim_name(name)
    return None if claim is None else claim.entry.number
