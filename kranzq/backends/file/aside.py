"""Entries that do not run now: waiting, parked, quarantined. Each lies in a directory of its own, with its reason.

The reason is written before the file is moved, so a file that is set aside always has one; why an entry is parked is
told nowhere else, so that is synced. `change` must be held.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable

from kranzq.backends.file.folders import Aside, Folders, names_in
from kranzq.backends.file.layout import WHY, EntryName, parse_entry_name, parse_waiting_name, waiting_name
from kranzq.disk import atomic
from kranzq.disk.read import Unreadable, read_regular
from kranzq.events import Due, Parked, Quarantined, emit
from kranzq.model.clock import rfc3339

TAKEN = "its place in the queue was taken"
_TRIES = 1000
REASON_MOST = 1000
"""Characters of a reason that are kept: a longer one would not fit into what is read again."""
_LONGEST = 230
"""Bytes of a name in the quarantine: its reason and a number must fit behind it."""
_ZEROS = 16


def quarantine(folders: Folders, name: str, why: str, *, wanted: str | None = None, from_fd: int | None = None) -> None:
    """Set a file of `queue/` or the directory `from_fd` that is no valid entry aside with its bytes, as `wanted`.

    FileNotFoundError when it is gone.
    """
    shown = os.fsdecode(os.fsencode(wanted or name)[:_LONGEST])
    if shown.endswith(WHY):  # it would be taken for a reason, and be shown nowhere
        shown = shown.removesuffix(".json")

    def tell(target: str) -> None:
        emit(Quarantined(f"{folders.checkout.queue}/quarantine/{target}", why))

    _move(folders, name, "quarantine", shown, why, tell, from_fd=from_fd)


def park(folders: Folders, name: str, entry: EntryName, why: str, *, from_fd: int | None = None) -> None:
    """Set an entry aside for a person, from its present `name` in `queue/` or the directory `from_fd`."""
    _move(folders, name, "parked", entry.text, why, lambda _: emit(Parked(str(entry.mission), why)), from_fd=from_fd)


def wait(folders: Folders, name: str, entry: EntryName, due_ms: int | None) -> None:
    """Let an entry wait: one rename from its present `name` in `queue/`."""
    atomic.move(folders.queue, name, folders.made("waiting"), waiting_name(entry, due_ms).text)


def admit_due(folders: Folders, now_ms: int) -> None:
    """Move what is due back to `queue/`; where its name is taken it is parked with that reason."""
    waiting = folders.aside("waiting")
    if waiting is None:
        return
    for name in names_in(waiting):
        parsed = parse_waiting_name(name)
        if parsed is None or parsed.due_ms is None or parsed.due_ms > now_ms:
            continue
        try:
            atomic.move(waiting, name, folders.queue, parsed.entry.text)
        except FileExistsError:
            park(folders, name, parsed.entry, TAKEN, from_fd=waiting)
        except FileNotFoundError:
            continue
        else:
            emit(Due(str(parsed.entry.mission)))


def next_due_ms(folders: Folders) -> int | None:
    """When the next waiting entry is due, in wall milliseconds."""
    parsed = [parse_waiting_name(name) for name in names_in(folders.aside("waiting"))]
    return min((one.due_ms for one in parsed if one is not None and one.due_ms is not None), default=None)


def why(folders: Folders, name: str, which: Aside = "parked") -> str:
    """The reason beside a file that was set aside."""
    fd = folders.aside(which)
    try:
        found = read_regular(name + WHY, dir_fd=fd) if fd is not None else None
        value = json.loads(found.data) if found is not None else None
    except (Unreadable, ValueError, RecursionError):
        value = None
    text = value.get("why") if isinstance(value, dict) else None
    return text if isinstance(text, str) else "no reason was kept"


def set_why(folders: Folders, name: str, reason: str) -> None:
    """Put a reason beside an entry that is parked, or will be, under `name`."""
    _write_why(folders.made("parked"), name, reason, name, sync=True)


def forget_why(folders: Folders, name: str) -> None:
    """Remove the reason of an entry that is parked no longer."""
    if (fd := folders.aside("parked")) is not None:
        atomic.remove(fd, name + WHY)


def quarantined(folders: Folders) -> list[str]:
    """The names in the quarantine."""
    return sorted(name for name in names_in(folders.aside("quarantine")) if not name.endswith(WHY) and name[0] != ".")


def parked_names(folders: Folders) -> list[EntryName]:
    """The names of parked entries."""
    return sorted(one for name in names_in(folders.aside("parked")) if (one := parse_entry_name(name)) is not None)


def _move(
    folders: Folders,
    name: str,
    which: Aside,
    wanted: str,
    reason: str,
    tell: Callable[[str], None],
    *,
    from_fd: int | None = None,
) -> None:
    """Told before it is done: whoever is killed in between leaves the file to the next one, who tells it once more."""
    to_fd = folders.made(which)
    for count in range(_TRIES):
        target = wanted if not count else _numbered(wanted, count + 1)
        taken = set(names_in(to_fd))
        if target in taken:
            continue
        _write_why(to_fd, target, reason, name, sync=which == "parked")
        try:
            os.stat(name, dir_fd=folders.queue if from_fd is None else from_fd, follow_symlinks=False)
            tell(target)
            atomic.move(folders.queue if from_fd is None else from_fd, name, to_fd, target)
        except FileExistsError:
            continue
        except OSError:
            atomic.remove(to_fd, target + WHY)
            raise
        return
    raise FileExistsError(wanted)


def _write_why(fd: int, name: str, reason: str, was: str, *, sync: bool) -> None:
    shown = {"why": reason[:REASON_MOST], "at": rfc3339(time.time()), "from": was}
    atomic.replace(fd, name + WHY, json.dumps(shown, indent=2).encode(), sync=sync)


def _numbered(name: str, count: int) -> str:
    """A free neighbour of a taken name. More leading zeros leave what an entry's name says as it is."""
    return "0" * (count - 1) + name if parse_entry_name(name) is not None and count < _ZEROS else f"{name}.{count}"
