"""Files that are handed to a mission: `.kranz/missions/<mission>/input/`, complete and durable before its entry is.

What was there before under the same name is kept until the entry is made, and comes back if it is not.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping

from kranzq.disk import atomic
from kranzq.disk.read import Unreadable, open_folder, read_regular
from kranzq.errors import UnsafePath, UsageFault
from kranzq.model.checkout import Checkout
from kranzq.model.ids import MissionId

FOLDER = "input"
FILE_LIMIT = 64 * 1024 * 1024


class Inputs:
    """The input folder of one mission; `kranz` is a descriptor of the checkout's `.kranz`."""

    def __init__(self, checkout: Checkout, kranz: int, mission: MissionId) -> None:
        self.path = f"{checkout.missions}/{mission}/{FOLDER}"
        self._kranz = kranz
        self._mission = str(mission)
        self._names = (("missions", 0o755), (self._mission, 0o755), (FOLDER, 0o700))
        self._old: dict[str, str] = {}
        self._new: list[str] = []

    def holds(self, name: str, data: bytes) -> bool:
        """Whether exactly these bytes lie there under `name`."""
        try:
            with self._folder() as fd:
                found = read_regular(name, dir_fd=fd, limit=FILE_LIMIT)
        except (FileNotFoundError, Unreadable):
            return False
        return found is not None and found.data == data

    def put(self, files: Mapping[str, bytes]) -> None:
        """Write all files, durably. What was there is set aside for `undo`. Raises StoreUnavailable, UnsafePath."""
        try:
            with self._folder(make=True) as fd:
                for name, data in files.items():
                    if not self.holds(name, data):
                        self._set_aside(fd, name)
                        atomic.publish(fd, name, data)
                        self._new.append(name)
        except OSError as fault:
            raise atomic.store_fault(self.path, fault) from fault

    def undo(self) -> None:
        """Take back what was put, and bring back what was there."""
        with contextlib.suppress(OSError), self._folder() as fd:
            for name in self._new:
                atomic.remove(fd, name)
            for name, aside in self._old.items():
                atomic.move(fd, aside, fd, name)

    def remove_empty(self) -> None:
        """Remove the mission's folders as far as nothing lies in them."""
        with contextlib.suppress(OSError):
            missions = open_folder("missions", dir_fd=self._kranz)
            try:
                for path in (f"{self._mission}/{FOLDER}", self._mission):
                    with contextlib.suppress(FileNotFoundError):
                        os.rmdir(path, dir_fd=missions)
            finally:
                os.close(missions)

    def forget_old(self) -> None:
        """Remove what was replaced: the entry is there."""
        if self._old:
            with contextlib.suppress(OSError), self._folder() as fd:
                for aside in self._old.values():
                    atomic.remove(fd, aside)

    def _set_aside(self, fd: int, name: str) -> None:
        aside = atomic.temporary_name(name)
        with contextlib.suppress(FileNotFoundError):
            atomic.move(fd, name, fd, aside)
            self._old[name] = aside

    @contextlib.contextmanager
    def _folder(self, *, make: bool = False) -> Iterator[int]:
        with contextlib.ExitStack() as stack:
            parent = self._kranz
            for name, mode in self._names:
                if make:
                    atomic.make_folder(name, dir_fd=parent, mode=mode)
                try:
                    parent = open_folder(name, dir_fd=parent)
                except NotADirectoryError as fault:
                    raise UnsafePath(self.path, "it is a link or no directory") from fault
                stack.callback(os.close, parent)
            yield parent


def check_name(name: str) -> None:
    """Raise UsageFault for what cannot be the name of an input file."""
    if not name or name.startswith(".") or "/" in name:
        raise UsageFault(f"{name!r} cannot be the name of an input file.", "Give it a name that begins with no dot.")
