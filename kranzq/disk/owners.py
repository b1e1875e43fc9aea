"""Whose directories are these, and who else may write there? What may run must not lie where others could plant it.

A group counts as declared where a directory says so (setgid and writable by its group), or where git's own settings do
(`core.sharedRepository`, read from its file: git is not run).
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Iterator

from kranzq.disk.modes import is_shared
from kranzq.disk.read import Unreadable, open_folder, read_regular
from kranzq.errors import Refused, UnsafePath
from kranzq.model.checkout import Checkout
from kranzq.model.frozen import frozen

AS_ROOT = "KRANZQ_AS_ROOT"
_CONFIG_LIMIT = 1024 * 1024
_SECTION = r"\[\s*([A-Za-z0-9.-]+)\s*\](.*)"
_KEY = r"(?i:sharedrepository)\s*(?:=\s*\"?([^\s\"#;]*)\"?.*)?"
_BY_GROUP = frozenset({"group", "true", "yes", "on", "1", "all", "world", "everybody", "2", "3"})
_GROUP_MAY = 0o060


@frozen
class Unsafe:
    """Why nothing may run from a directory, half a sentence, and what mends it."""

    path: str
    why: str
    advice: str

    def error(self) -> Refused:
        """The refusal."""
        return UnsafePath(self.path, self.why, f"{self.advice}.")


def why_unsafe(fd: int, path: str, *, as_root: bool = False) -> Unsafe | None:
    """Why nothing that lies in this open directory may run; None when it may."""
    seen = os.fstat(fd)
    if seen.st_mode & stat.S_IWOTH:
        return Unsafe(path, "everybody may write to it, so anybody could plant missions", f"Type: chmod o-w {path}")
    shared = is_shared(fd)
    if seen.st_mode & stat.S_IWGRP and not shared and seen.st_gid != _primary_group(seen.st_uid):
        why = f"group {group_name(seen.st_gid)} may write to it, so its members could plant missions"
        advice = f"Type: kranzq init, or chmod g-w {path}; if the group is meant to share it: chmod g+s {path}"
        return Unsafe(path, why, advice)
    return None if as_root else _why_foreign(seen, path, shared=shared)


def refuse_foreign_checkout(checkout: Checkout, *, as_root: bool = False) -> None:
    """Raise Refused for a checkout of another user that no group shares, before anything is made in it."""
    try:
        seen = os.stat(checkout.root)
    except OSError:
        return
    if os.geteuid() == 0 and seen.st_uid != 0 and not as_root:
        raise Refused(
            f"{checkout.root} belongs to user {user_name(seen.st_uid)}, and this process runs as root.",
            f"Run kranzq as that user; in a container where root is meant: --as-root, or {AS_ROOT}=1",
        )
    if seen.st_uid in {os.geteuid(), 0} or os.geteuid() == 0:
        return
    group = declared_group(checkout)
    if group is None:
        raise Refused(
            f"{checkout.root} belongs to user {user_name(seen.st_uid)}, and nothing says that a group shares it.",
            "Use a checkout of your own, or let its owner declare the group: git config core.sharedRepository group",
        )
    if not _is_mine(group):
        raise Refused(
            f"{checkout.root} is shared by group {group_name(group)}, and this user is not in it.",
            "Use a checkout of your own, or join the group.",
        )
    if checkout.has_git and not os.access(checkout.git, os.R_OK):
        raise Refused(
            f"{checkout.git} may not be read by this user, and one half of the busy lock is on it.",
            f"Let its owner open it to the group: chmod -R g+rX {checkout.git}",
        )


def declared_group(checkout: Checkout) -> int | None:
    """The group that shares a checkout, by its directory or by git's settings; None where nothing says so."""
    with contextlib.suppress(OSError):
        for path in (checkout.root, checkout.kranz):
            if os.path.isdir(path) and is_shared(path):
                return os.stat(path).st_gid
        if checkout.has_git and _git_says_shared(common := _common_git(checkout.git)):
            return os.stat(common).st_gid
    return None


def share(fd: int, path: str, group: int) -> None:
    """Let a group write in an open directory of ours, and give what is made there to it. Raises Refused."""
    try:
        if os.fstat(fd).st_gid != group:
            os.fchown(fd, -1, group)
        os.fchmod(fd, stat.S_IMODE(os.fstat(fd).st_mode) & ~stat.S_IWOTH | stat.S_ISGID | 0o070)
    except OSError as fault:
        raise UnsafePath(path, f"it cannot be given to group {group_name(group)}: {fault.strerror}") from fault


def folders_of(checkout: Checkout) -> Iterator[tuple[str, int]]:
    """The directories below `.kranz` that decide who may plant missions, with open descriptors, as far as they are."""
    for path in (checkout.kranz, checkout.queue, checkout.missions, *_asides(checkout)):
        with contextlib.suppress(OSError):
            fd = open_folder(path)
            try:
                yield path, fd
            finally:
                os.close(fd)


def unsafe_folder(checkout: Checkout, *, as_root: bool = False) -> Unsafe | None:
    """The first directory of the queue that is a link or not safe; None when all are."""
    for path in (checkout.kranz, checkout.queue):
        if os.path.lexists(path) and (os.path.islink(path) or not os.path.isdir(path)):
            return Unsafe(path, "it is a link or no directory", "Remove it, then type: kranzq init")
    found = (why_unsafe(fd, path, as_root=as_root) for path, fd in folders_of(checkout))
    return next((one for one in found if one is not None), None)


def user_name(uid: int) -> str:
    """A user for people: the name, else the number."""
    import pwd  # noqa: PLC0415 - only a refusal names users

    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def group_name(gid: int) -> str:
    """A group for people: the name, else the number."""
    import grp  # noqa: PLC0415 - only a refusal names groups

    try:
        return grp.getgrgid(gid).gr_name
    except KeyError:
        return str(gid)


def _asides(checkout: Checkout) -> list[str]:
    return [f"{checkout.queue}/{name}" for name in ("waiting", "parked", "inbox")]


def _why_foreign(seen: os.stat_result, path: str, *, shared: bool) -> Unsafe | None:
    if seen.st_uid in {os.geteuid(), 0}:
        return None
    if not shared:
        why = f"it belongs to user {user_name(seen.st_uid)}, and this process runs as {user_name(os.geteuid())}"
        advice = f"Run kranzq as its owner; if a group shares this checkout, let the owner say so: chmod g+ws {path}"
        return Unsafe(path, why, advice)
    if not _is_mine(seen.st_gid):
        why = f"group {group_name(seen.st_gid)} shares it, and this user is not in it"
        return Unsafe(path, why, "Use a checkout of your own, or join the group")
    return None


def _is_mine(group: int) -> bool:
    return os.geteuid() == 0 or group in {os.getegid(), *os.getgroups()}


def _primary_group(uid: int) -> int | None:
    import pwd  # noqa: PLC0415 - only where a group may write

    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return os.getegid() if uid == os.geteuid() else None


def _common_git(git: str) -> str:
    """The directory of git's settings: `.git`, or for a linked worktree that of the main one."""
    if os.path.isdir(git):
        return git
    with contextlib.suppress(Unreadable):
        pointer = read_regular(git)
        if pointer is not None and pointer.data.startswith(b"gitdir: "):
            folder = os.path.join(os.path.dirname(git), os.fsdecode(pointer.data[8:].strip()))
            common = read_regular(f"{folder}/commondir")
            return folder if common is None else os.path.join(folder, os.fsdecode(common.data.strip()))
    return git


def _git_says_shared(folder: str) -> bool:
    """Whether `core.sharedRepository` gives the group a right to write; files that are included do not count."""
    try:
        found = read_regular(f"{folder}/config", limit=_CONFIG_LIMIT)
    except Unreadable:
        return False
    section, value = "", "false"
    for line in found.data.decode("utf-8", "replace").splitlines() if found is not None else ():
        text = line.strip()
        if (head := re.match(_SECTION, text)) is not None:
            section, text = head[1].lower(), head[2].strip()
        elif text.startswith("["):
            section = ""
        if section == "core" and (key := re.fullmatch(_KEY, text)) is not None:
            value = "true" if key[1] is None else key[1].lower()
    if value in _BY_GROUP:
        return True
    return re.fullmatch(r"0[0-7]{3}", value) is not None and int(value, 8) & _GROUP_MAY == _GROUP_MAY
