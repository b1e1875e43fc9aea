"""The next number. `.seq` is only a hint: the number is one more than the largest that any name bears.

Claims, waiting and parked entries count too, so an entry that comes back never meets a newer one of its own name.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence

from kranzq.backends.file import aside
from kranzq.backends.file.folders import Folders, names_in
from kranzq.backends.file.layout import (
    ADMITTING,
    FEW,
    SEQUENCE,
    all_regular,
    order_keys,
    parse_admitting,
    parse_claim_name,
    parse_entry_name,
    parse_waiting_name,
)
from kranzq.disk import atomic
from kranzq.disk.read import Unreadable, read_regular
from kranzq.errors import StoreUnavailable
from kranzq.model.entry import MAX_NUMBER

_NUMBER = re.compile(rb"\s*([0-9]{1,20})\s*")
_MAY_BE_NUMBER = r"(?a)[/.][0-9]{1,20}-([0-9]{1,20})-"
"""Behind the priority, and that behind the time in the names of `waiting/`."""


def next_number(folders: Folders, floor: int | None = None, names: Sequence[str] | None = None) -> int:
    """The number for a new entry, at least one more than `floor`; 0 in a fresh queue. The number lock must be held.

    `names` in the queue may have been read before the lock was taken: whoever gave out a number since has written it
    into `.seq` first. Where that does not tell, they are read again.
    """
    hint = _hint(folders)
    if names is None or hint < 0:
        names = tuple(names_in(folders.queue))
    aside_names = [*names_in(folders.aside("waiting")), *names_in(folders.aside("parked"))]
    largest = max(-1 if floor is None else floor, hint)
    if not _are_below(hint, [*names, *aside_names]):
        largest = max(largest, _largest(names), *map(_number_aside, aside_names))
    if largest >= MAX_NUMBER:
        raise StoreUnavailable(
            folders.checkout.queue,
            f"its numbers have reached {MAX_NUMBER}",
            advice=f"Cancel what bears that number (kranzq list), then remove {folders.checkout.queue}/{SEQUENCE}",
        )
    return largest + 1


def record(folders: Folders, number: int) -> None:
    """Write `.seq`, as kranz does before the entry. A crash in between only skips a number."""
    atomic.replace(folders.queue, SEQUENCE, str(number).encode(), mode=0o644, sync=False)


def _hint(folders: Folders) -> int:
    try:
        found = read_regular(SEQUENCE, dir_fd=folders.queue, limit=64)
    except Unreadable as fault:
        if fault.lacking is not None:  # it may be a good one
            raise atomic.store_fault(f"{folders.checkout.queue}/{SEQUENCE}", fault.lacking) from None
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


def _largest(names: Sequence[str]) -> int:
    """The largest number that a name in the queue bears; -1 for none."""
    regular = all_regular(names)
    if regular is not None:
        found = [int(max(name[4:24] for name in regular))]
    else:
        found = [int(key[4:24]) for key in order_keys(names).values() if key is not None]
    others = [name for name in names if name[-5:] != ".json" or name[0] == "."]  # no candidates
    found += (number for name in others if (number := _number_in(name)) is not None)
    return max(found, default=-1)


def _number_aside(name: str) -> int:
    """The number in a name of `waiting/` or `parked/`; -1 for none."""
    waiting = parse_waiting_name(name)
    entry = waiting.entry if waiting is not None else parse_entry_name(name)
    return -1 if entry is None else entry.number


def _are_below(hint: int, names: Sequence[str]) -> bool:
    """Whether no name bears a larger number than the hint, as nearly always: ten thousand are looked through at once.

    Whatever stands where a number may stand is taken for one, so False may be wrong, and True is not.
    """
    if len(names) <= FEW:
        return False
    text = "/" + "/".join(names)
    return f"/{ADMITTING}" not in text and max(map(int, re.findall(_MAY_BE_NUMBER, text)), default=-1) <= hint


def _number_in(name: str) -> int | None:
    """The number that a claim's name in `queue/` bears, or that of a file that is being admitted."""
    if name.startswith(ADMITTING):
        return parse_admitting(name)
    claim = parse_claim_name(name)
    return None if claim is None else claim.entry.number
