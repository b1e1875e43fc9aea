"""The file of a service: looked at, written, taken away. What a person has edited is told from what kranzq wrote."""

from __future__ import annotations

import contextlib
import difflib
import os
from collections.abc import Iterator, Sequence
from typing import Literal

from kranzq.disk.atomic import owner_of, remove, replace, store_fault
from kranzq.disk.read import Unreadable, read_regular
from kranzq.model.frozen import frozen
from kranzq.service.manager import Manager
from kranzq.service.mark import is_mark, whose

Condition = Literal["not installed", "current", "differs", "edited", "foreign"]
_FILE_LIMIT = 256 * 1024
_UTF8 = ("utf-8", "surrogateescape")


@frozen
class Installed:
    """What lies where the service's file belongs, beside what would be installed now.

    `differs`: as kranzq wrote it, but another text than now. `edited`: changed by somebody since. `foreign`: never
    kranzq's; `why` says what it is where it could not be read. `of_another_shell`: *current* but for search path and
    umask.
    """

    condition: Condition
    wanted: str
    there: str = ""
    why: str = ""
    of_another_shell: bool = False

    @property
    def is_exact(self) -> bool:
        """Whether installing would change nothing."""
        return self.condition == "current" and not self.of_another_shell

    @property
    def is_theirs(self) -> bool:
        """Whether somebody else's words would be lost with the file."""
        return self.condition in {"edited", "foreign"}

    def diff(self, path: str) -> list[str]:
        """What installing would change, line by line; the whole text where nothing is there."""
        if self.condition == "not installed":
            return self.wanted.rstrip("\n").split("\n")
        there, wanted = (
            [line for line in text.rstrip("\n").split("\n") if not is_mark(line)] for text in (self.there, self.wanted)
        )
        return list(difflib.unified_diff(there, wanted, path, "as it would be installed", lineterm="", n=1))


def look(manager: Manager) -> Installed:
    """What is there. Raises UsageFault for a service that cannot be told."""
    wanted = manager.text()
    try:
        found = read_regular(manager.path, limit=_FILE_LIMIT)
    except Unreadable as fault:
        return Installed("foreign", wanted, why=fault.why)
    if found is None:
        return Installed("not installed", wanted)
    there = found.data.decode(*_UTF8)
    if there == wanted:
        return Installed("current", wanted, there)
    is_of = whose(found.data)
    if is_of != "ours":
        return Installed(is_of, wanted, there)
    same = manager.is_same(there, wanted)
    return Installed("current" if same else "differs", wanted, there, of_another_shell=same)


def write(manager: Manager, text: str) -> None:
    """Put the file in its place, whole or not at all. Raises what the disk says, as a fault for people."""
    folder, name = os.path.split(manager.path)
    try:
        os.makedirs(folder, exist_ok=True)
        with _opened(folder) as fd:
            replace(fd, name, text.encode(*_UTF8), mode=0o644, sync=True, owner=owner_of(fd, name))
    except OSError as fault:
        raise store_fault(manager.path, fault) from fault


def take_away(manager: Manager) -> Sequence[str]:
    """Remove the file and the links to it that its manager made; what went, by path."""
    folder, name = os.path.split(manager.path)
    gone = []
    try:
        for link in manager.links():
            if os.path.islink(link) and os.path.basename(os.readlink(link)) == name:
                os.unlink(link)
                gone.append(link)
                with contextlib.suppress(OSError):
                    os.rmdir(os.path.dirname(link))  # it was made for the first such link
        with _opened(folder) as fd:
            if remove(fd, name):
                gone.append(manager.path)
    except FileNotFoundError:
        pass
    except OSError as fault:
        raise store_fault(manager.path, fault) from fault
    return gone


@contextlib.contextmanager
def _opened(folder: str) -> Iterator[int]:
    """A descriptor of a folder of the user's, which may well be a link to where such files are kept."""
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
