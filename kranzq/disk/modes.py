"""Who may write where: private by default, and as the directory says where a group shares it.

A directory is *shared* when it is setgid and writable by its group: that is how a checkout, and git, declares a group.
What is made in it gets the group's rights like the owner's, whatever the umask; nothing ever becomes writable by
everybody, and the umask of the process is never touched.
"""

from __future__ import annotations

import contextlib
import os
import stat

from kranzq.disk import renameat2

_OWNER = 0o700


def is_shared(directory: int | str) -> bool:
    """Whether an open directory, or the one at a path, is shared by a group."""
    mode = os.stat(directory).st_mode
    return bool(mode & stat.S_ISGID and mode & stat.S_IWGRP)


def mode_in(dir_fd: int, mode: int, *, folder: bool = False) -> int:
    """The mode of something new in an open directory: `mode`, and the same for the group where it is shared."""
    if not is_shared(dir_fd):
        return mode
    return mode | (mode & _OWNER) >> 3 | (stat.S_ISGID if folder else 0)


def counts(seen: os.stat_result, dir_fd: int) -> bool:
    """Whether a file may be believed as a record: ours, the system's, the folder's owner's, or a declared group's.

    Whoever owns a folder can put into it what he likes; a foreign folder is refused before anything is begun in it.
    """
    return seen.st_uid in {os.geteuid(), 0, os.fstat(dir_fd).st_uid} or is_shared(dir_fd)


def open_lock_file(name: str, dir_fd: int) -> int:
    """A descriptor of a lock file, made where it is missing; every user of a shared directory can open it.

    Raises OSError. It appears with its final mode, so a second user never meets one that he may not open.
    """
    flags = os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC
    if not is_shared(dir_fd):
        return os.open(name, flags | os.O_CREAT, 0o600, dir_fd=dir_fd)
    with contextlib.suppress(FileNotFoundError):
        return os.open(name, flags, dir_fd=dir_fd)
    temporary = f".{name.strip('.')}.{os.getpid()}.{os.urandom(4).hex()}.tmp"
    fd = os.open(temporary, flags | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=dir_fd)
    try:
        os.fchmod(fd, mode_in(dir_fd, 0o600))
        with contextlib.suppress(FileExistsError):
            _appear(dir_fd, temporary, name)
    finally:
        os.close(fd)
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary, dir_fd=dir_fd)
    return os.open(name, flags, dir_fd=dir_fd)


def _appear(dir_fd: int, temporary: str, name: str) -> None:
    """By a link, or where links are refused by a rename that refuses to replace, too."""
    try:
        os.link(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except FileExistsError:
        raise
    except OSError:
        renameat2.rename2(dir_fd, temporary, dir_fd, name, renameat2.NOREPLACE)
