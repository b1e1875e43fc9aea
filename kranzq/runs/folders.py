"""Run folders: `.kranz/missions/<mission>/dispatch/NNN/`, one for each try, and how to find them.

Everything goes through open descriptors and follows no link; what another user wrote is ignored. Where descriptors are
lacking an OSError says so: a run that is not seen would run again.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

from kranzq.disk import atomic
from kranzq.disk.modes import counts
from kranzq.disk.read import GONE, LACKING, open_folder
from kranzq.disk.tracked import tracked
from kranzq.errors import StoreUnavailable
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId
from kranzq.runs.folder import RunFolder

if TYPE_CHECKING:
    from kranzq.runs.record import RunRecord

_TRIES = 100
_DIGITS = 9


class Runs:
    """All runs of a checkout; `kranz` is a descriptor of its `.kranz`."""

    def __init__(self, checkout: Checkout, kranz: int) -> None:
        self.checkout = checkout
        self.kranz = kranz

    def missions(self) -> list[MissionId]:
        """All missions that have a folder."""
        found = []
        for name in self._names("missions"):
            with contextlib.suppress(Exception):
                found.append(MissionId(name))
        return sorted(found)

    def knows(self, mission: MissionId) -> bool:
        """Whether the mission has a folder, whatever lies in it."""
        return str(mission) in self._names("missions")

    def may_have(self, mission: MissionId) -> bool:
        """Whether the mission may have a folder. Most have none, and one call tells."""
        try:
            os.stat(f"missions/{mission}", dir_fd=self.kranz, follow_symlinks=False)
        except OSError as fault:
            return fault.errno not in GONE
        return True

    def are_hidden(self, mission: MissionId) -> bool:
        """Whether the mission's runs lie there and may not be looked at: they are another user's."""
        try:
            os.close(open_folder(f"missions/{mission}/dispatch", dir_fd=self.kranz))
        except OSError as fault:
            if fault.errno in LACKING:
                raise
            return fault.errno in {errno.EACCES, errno.EPERM}
        return False

    def numbers(self, mission: MissionId) -> list[int]:
        """The numbers of a mission's runs, oldest first."""
        if not self.may_have(mission):
            return []
        names = self._names("missions", mission, "dispatch")
        numbers = (int(name) for name in names if name.isascii() and name.isdigit() and len(name) <= _DIGITS)
        return sorted(number for number in numbers if number > 0 and _name(number) in names)

    def open(self, mission: MissionId, run: int) -> RunFolder | None:
        """One run's folder, or None when it is not there."""
        if self._is_tracked(mission, run):
            return None
        fd = self._open("missions", mission, "dispatch", _name(run))
        return None if fd is None else RunFolder(fd, f"{self._path(mission)}/{_name(run)}", mission, run)

    def open_folder(self, mission: MissionId, *inside: str) -> int | None:
        """A descriptor of a mission's own folder, or of one inside it (`dispatch` holds its runs); None without it."""
        return self._open("missions", mission, *inside)

    def records(self, mission: MissionId) -> Iterator[RunRecord]:
        """A mission's records, newest first."""
        for run in reversed(self.numbers(mission)):
            folder = self.open(mission, run)
            if folder is not None:
                with folder:
                    record = folder.read()
                if record is not None:
                    yield record

    def of_claim(self, mission: MissionId, claim: str) -> RunRecord | None:
        """The record that names a claim, newest first; None when no record does."""
        return next((record for record in self.records(mission) if record.claim == claim), None)

    def last(self, mission: MissionId) -> RunRecord | None:
        """The newest record of a mission."""
        return next(self.records(mission), None)

    def last_number(self, mission: MissionId) -> int | None:
        """The largest entry number in a mission's own records."""
        return max((record.number for record in self.records(mission)), default=None)

    def new(self, mission: MissionId) -> RunFolder:
        """Make the folder of the next run, 0700. Raises OSError as the disk does."""
        with contextlib.ExitStack() as stack:
            parent = self.kranz
            for name, mode in (("missions", 0o755), (str(mission), 0o755), ("dispatch", 0o700)):
                _make(name, parent, mode)
                parent = open_folder(name, dir_fd=parent)
                stack.callback(os.close, parent)
            following = max([0, *self.numbers(mission)]) + 1
            for run in range(following, following + _TRIES):
                if _make(_name(run), parent, 0o700):
                    fd = open_folder(_name(run), dir_fd=parent)
                    return RunFolder(fd, f"{self._path(mission)}/{_name(run)}", mission, run)
        raise StoreUnavailable(self._path(mission), "no free run number was found")

    def _is_tracked(self, mission: MissionId, run: int) -> bool:
        """Whether git brought this run along: then it is no run of ours. Where it cannot be told it counts."""
        folder = f".kranz/missions/{mission}"
        found = tracked(self.checkout.root, folder, f"{folder}/dispatch")
        return found.has(f"{folder}/dispatch/{_name(run)}") is True

    def _path(self, mission: MissionId) -> str:
        return f"{self.checkout.missions}/{mission}/dispatch"

    def _open(self, *names: str) -> int | None:
        parent = self.kranz
        for name in names:
            try:
                fd = open_folder(name, dir_fd=parent)
            except OSError as fault:
                if fault.errno in LACKING:
                    raise
                return None
            finally:
                if parent != self.kranz:
                    os.close(parent)
            if not counts(os.fstat(fd), self.kranz):
                os.close(fd)
                return None
            parent = fd
        return parent

    def _names(self, *names: str) -> list[str]:
        fd = self._open(*names)
        if fd is None:
            return []
        try:
            return os.listdir(fd)
        except OSError as fault:
            if fault.errno in LACKING:
                raise
            return []
        finally:
            os.close(fd)


def _make(name: str, parent: int, mode: int) -> bool:
    """Make a directory without syncing: the keeper syncs what was made for it together with the end."""
    return atomic.make_folder(name, dir_fd=parent, mode=mode, sync=False)


def _name(run: int) -> str:
    return f"{run:03d}"
