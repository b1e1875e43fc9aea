"""One file that a fitting is put into or taken out of: what it is now, what it shall be, the difference, and the act.

What was shown is what is written: a file that has changed meanwhile is left alone. It is replaced whole, with its
mode and owner.
"""

from __future__ import annotations

import contextlib
import difflib
import os
import stat
from dataclasses import replace

from kranzq.disk import atomic
from kranzq.disk.leavings import dead_temporaries
from kranzq.disk.read import ENTRY_LIMIT, Unreadable, read_regular
from kranzq.errors import Conflict, UnsafePath
from kranzq.fitting import block, settings
from kranzq.fitting.kinds import FOLDER, Kind, Mark, Place, Wish
from kranzq.fitting.places import Spot
from kranzq.fitting.scripts import by_hand, script_body
from kranzq.liveness import judge_claim
from kranzq.model.frozen import frozen
from kranzq.model.process import Liveness

ABSENT, INSTALLED, DIFFERS = "absent", "installed", "differs"
_EXECUTABLE = 0o111


@frozen
class Change:
    """What would become of one file; None is no file. `mode` is what it gets."""

    path: str
    before: bytes | None
    after: bytes | None
    mode: int
    folder_goes: bool = False
    """Whether its directory was made for it, and goes with it when it is empty."""

    @property
    def is_one(self) -> bool:
        """Whether anything would change."""
        return self.before != self.after

    def diff(self) -> list[str]:
        """The difference in lines, as `diff -u` shows it."""
        old, new = _lines(self.before), _lines(self.after)
        names = (
            self.path if self.before is not None else "/dev/null",
            self.path if self.after is not None else "/dev/null",
        )
        return [line.removesuffix("\n") for line in difflib.unified_diff(old, new, *names, n=2)]

    def write(self) -> None:
        """Carry it out. Raises Conflict when the file is not what it was, Refused and StoreUnavailable."""
        folder, name = os.path.split(self.path)
        try:
            if self.before is None:
                with contextlib.suppress(FileExistsError):
                    os.mkdir(folder, 0o755)
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                found = _read(self.path, name, fd)
                if (found[0] if found is not None else None) != self.before:
                    raise Conflict(f"{self.path} was changed by somebody else meanwhile.", "Type the same again.")
                if self.after is None:
                    os.unlink(name, dir_fd=fd)
                    atomic.sync_folder(fd)
                else:
                    owner = atomic.owner_of(fd, name)
                    atomic.replace(fd, name, self.after, mode=self.mode, sync=True, owner=owner)
                _sweep(fd, name)
            finally:
                os.close(fd)
        except OSError as fault:
            raise atomic.store_fault(self.path, fault) from fault
        if self.after is None and self.folder_goes:
            with contextlib.suppress(OSError):
                os.rmdir(folder)

    def sweep(self) -> None:
        """Where there is nothing to change: remove what a change that was killed has left beside the file."""
        folder, name = os.path.split(self.path)
        with contextlib.suppress(OSError):
            fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            try:
                _sweep(fd, name)
            finally:
                os.close(fd)


@frozen
class Seen:
    """What lies there of one kind: `state`, the version that wrote it, and why it could not be looked at."""

    kind: str
    path: str
    state: str
    version: str | None = None
    why: str = ""

    def to_json(self) -> dict[str, object]:
        """With the documented keys."""
        shown: dict[str, object] = {"kind": self.kind, "path": self.path, "state": self.state}
        return shown | {"version": self.version, "why": self.why}


def change_to_put(kind: Kind, spot: Spot, wish: Wish, version: str) -> Change:
    """The change that puts a fitting there, or in the place of an older one. Raises Conflict, UnsafePath."""
    found = _read(spot.path, spot.path)
    before, mode = found if found is not None else (None, spot.mode)
    mark = Mark(version, () if os.path.isdir(spot.folder) else (FOLDER,))
    if kind.place is Place.GIT:
        _check_script(kind, spot, wish, before, mode)
        after = block.put(
            before, kind.name, script_body(kind, wish), replace(mark, wish=wish if kind.enqueues else None), spot.path
        )
    else:
        after = settings.put(_text(before, spot.path), kind, wish, mark, spot.path).encode()
    return Change(spot.path, before, after, mode)


def change_to_take(kind: Kind, spot: Spot) -> Change:
    """The change that takes the fitting out. Raises Conflict, UnsafePath."""
    found = _read(spot.path, spot.path)
    if found is None:
        return Change(spot.path, None, None, spot.mode)
    before, mode = found
    mark = _mark(kind, before, spot.path)
    after: bytes | None = before
    if mark is not None and kind.place is Place.GIT:
        after = block.take(before, kind.name, spot.path)
    elif mark is not None:
        text = settings.take(before.decode(), kind, spot.path)
        after = None if text is None else text.encode()
    return Change(spot.path, before, after, mode, mark is not None and FOLDER in mark.made)


def look(kind: Kind, spot: Spot, version: str) -> Seen:
    """What lies there now, compared with what this version would put there for the same wish."""
    found = _read(spot.path, spot.path)
    mark = _mark(kind, found[0], spot.path) if found is not None else None
    if found is None or mark is None:
        return Seen(kind.name, spot.path, ABSENT)
    if kind.place is Place.GIT and not found[1] & _EXECUTABLE:
        return Seen(kind.name, spot.path, DIFFERS, mark.version, "it is not executable, so git does not run it")
    wish = mark.wish or Wish()
    if not change_to_put(kind, spot, wish, version).is_one:
        return Seen(kind.name, spot.path, INSTALLED, mark.version)
    if mark.version == version:
        return Seen(kind.name, spot.path, DIFFERS, mark.version, "it was changed by hand")
    if not change_to_put(kind, spot, wish, mark.version).is_one:
        return Seen(kind.name, spot.path, INSTALLED, mark.version)  # only the number is another one
    why = f"version {mark.version} wrote it otherwise than {version}, or it was changed by hand"
    return Seen(kind.name, spot.path, DIFFERS, mark.version, why)


def _check_script(kind: Kind, spot: Spot, wish: Wish, before: bytes | None, mode: int) -> None:
    if before is None:
        return
    if not block.is_shell(before):
        raise Conflict(
            f"{spot.path} is no script of a shell that is known here, so it is left as it is.",
            f"Let it start this itself, near its beginning: {by_hand(kind, wish)}",
        )
    if not mode & _EXECUTABLE:
        raise Conflict(
            f"{spot.path} is not executable, so git does not run it.",
            f"What is in it would run, too, if it were: look at it, then chmod +x {spot.path}, or remove it.",
        )


def _mark(kind: Kind, data: bytes, path: str) -> Mark | None:
    if kind.place is Place.GIT:
        found = block.find(data, kind.name, path)
        return found.mark if found is not None else None
    return settings.mark_in(_text(data, path) or "{}", kind, path)


def _text(data: bytes | None, path: str) -> str | None:
    """The text of a settings file. Raises Conflict where it is no UTF-8."""
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError as fault:
        line = data[: fault.start].count(b"\n") + 1
        raise Conflict(f"{path}, line {line}: this is no UTF-8.", "Mend it, then try again.") from fault


def _read(path: str, name: str, dir_fd: int | None = None) -> tuple[bytes, int] | None:
    try:
        found = read_regular(name, dir_fd=dir_fd, limit=ENTRY_LIMIT)
    except Unreadable as fault:
        raise UnsafePath(path, fault.why, "Look at it; name another file with --file, or change it by hand.") from fault
    return None if found is None else (found.data, stat.S_IMODE(found.stat.st_mode))


def _sweep(fd: int, name: str) -> None:
    """Remove temporary files of ours for that name; in somebody else's folder no other one is touched."""
    for left in dead_temporaries(fd, _is_gone):
        if left.startswith(f".{name}."):
            with contextlib.suppress(OSError):
                os.unlink(left, dir_fd=fd)


def _is_gone(pid: int, wrote_at: float) -> bool:
    """At whatever age: one that is taken for gone and lives is told that its file is, and has changed nothing."""
    return judge_claim(pid, None, wrote_at).verdict is Liveness.GONE


def _lines(data: bytes | None) -> list[str]:
    """Lines for a diff; a last line without an end shows it."""
    text = (data or b"").decode("utf-8", "backslashreplace")
    lines = text.split("\n")
    ended = [f"{line}\n" for line in lines[:-1]]
    return ended if not lines[-1] else [*ended, f"{lines[-1]}  (no newline at the end)\n"]
