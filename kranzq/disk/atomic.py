# Longer than 300 lines: whatever changes a name lies here and nowhere else, so that one look tells how.
"""The only module that renames. Every change is one system call that either happened or did not.

Names are relative to directory descriptors, so a checkout that is renamed meanwhile keeps its files and a link put in
the way is not followed. A file becomes visible only when it is complete; `sync` says whether a power cut may take it.
"""

from __future__ import annotations

import contextlib
import errno
import itertools
import os
import stat

from kranzq.disk import renameat2
from kranzq.disk.libc import last_error, libc
from kranzq.disk.modes import is_shared, mode_in
from kranzq.disk.read import GONE, LACKING
from kranzq.errors import KranzqError, Refused, StoreUnavailable

_LONGEST_HEAD = 160  # bytes: a name has 255, and the tail must fit as well
_counter = itertools.count()
_UNSUPPORTED = frozenset({errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EPERM})
_DENIED = frozenset({errno.EACCES, errno.EPERM})


class NotSynced(OSError):
    """The change was made, and the system could not promise that it lasts."""


def store_fault(path: str, fault: OSError, changed: str = "Nothing was changed.") -> KranzqError:
    """The error for people behind a refused write to `path`; `changed` says what had happened before it."""
    if isinstance(fault, NotSynced):
        return StoreUnavailable(path, f"{fault.strerror} while it was synced", "It was done, but may not last.")
    if fault.errno in _DENIED:
        return Refused(
            f"{path} may not be written: {fault.strerror}. {changed}", "Look at its owner and mode: kranzq check"
        )
    if fault.errno in LACKING:
        more = "Let this process open more files (ulimit -n) or have more memory, then try again."
        return StoreUnavailable(path, fault.strerror or str(fault), changed, more)
    return StoreUnavailable(path, fault.strerror or str(fault), changed)


def temporary_name(name: str) -> str:
    """A hidden name of our own beside `name`; its pid tells a sweeper whether the writer still lives.

    The random digits keep writers of several pid namespaces apart.
    """
    head = os.fsencode(name)[:_LONGEST_HEAD].decode("ascii", "ignore")
    return f".{head}.{os.getpid()}.{next(_counter)}{os.urandom(4).hex()}.tmp"


def owner_of(dir_fd: int, name: str) -> tuple[int, int] | None:
    """Whose file this is, as user and group; None when there is none."""
    try:
        seen = os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return None
    return seen.st_uid, seen.st_gid


def write_new(
    dir_fd: int, name: str, data: bytes, *, mode: int = 0o600, sync: bool, owner: tuple[int, int] | None = None
) -> os.stat_result:
    """Create `name` with `data`; it must not exist. It is given to `owner`. On failure nothing is left.

    Raises OSError.
    """
    fd = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, mode, dir_fd=dir_fd)
    try:
        _give(fd, owner)
        os.fchmod(fd, mode_in(dir_fd, mode))  # whatever the umask
        _write_all(fd, data)
        if sync:
            os.fsync(fd)
        return os.fstat(fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=dir_fd)
        raise
    finally:
        os.close(fd)


def _give(fd: int, owner: tuple[int, int] | None) -> None:
    seen = os.fstat(fd)
    if owner is None or owner == (seen.st_uid, seen.st_gid):
        return
    try:
        os.fchown(fd, *owner)
    except OSError as fault:
        why = f"it would not stay with its owner, user {owner[0]} and group {owner[1]}"
        raise OSError(fault.errno, why) from fault


def publish(dir_fd: int, name: str, data: bytes, *, mode: int = 0o600) -> os.stat_result:
    """Make a complete, synced file appear under `name`, which must be free (else FileExistsError).

    If the directory cannot be synced afterwards the file is withdrawn and the failure raised: what was not reported as
    done must not appear later.
    """
    temporary = temporary_name(name)
    seen, there = write_new(dir_fd, temporary, data, mode=mode, sync=True), temporary
    try:
        appear(dir_fd, temporary, name, seen.st_ino)
        there = name
        os.fsync(dir_fd)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(there, dir_fd=dir_fd)
        raise
    return seen


def appear(dir_fd: int, temporary: str, name: str, inode: int) -> None:
    """Give a new file its name, which must be free (else FileExistsError), and take the temporary one away.

    A link refuses as a rename that does not replace would, and Python offers it: what that rename needs is loaded only
    where a link is refused, which has many reasons that are none for a rename: a file system without links, a rule of
    the system's against them, no room for one more name. A kill in between leaves a hidden second name, which is swept
    like any temporary one.
    """
    try:
        os.link(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd, follow_symlinks=False)
    except OSError as fault:
        if not _has_inode(dir_fd, name, inode):
            if fault.errno == errno.EEXIST:
                raise
            move(dir_fd, temporary, dir_fd, name, inode=inode)
            return
    with contextlib.suppress(OSError):
        os.unlink(temporary, dir_fd=dir_fd)


def replace(
    dir_fd: int, name: str, data: bytes, *, mode: int = 0o600, sync: bool, owner: tuple[int, int] | None = None
) -> None:
    """Put `data` in the place of `name`, whether it exists or not. Synced, file and directory, when `sync`.

    A file that is a person's keeps its `owner`: whoever may not give it to them changes nothing, and OSError says so.
    """
    temporary = temporary_name(name)
    seen = write_new(dir_fd, temporary, data, mode=mode, sync=sync, owner=owner)
    try:
        try:
            os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
        except IsADirectoryError:
            # nobody's record: it is moved out of the way, for a record that cannot be written stops everything
            os.rename(name, temporary_name(name), src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
            os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        if not _has_inode(dir_fd, name, seen.st_ino):
            with contextlib.suppress(OSError):
                os.unlink(temporary, dir_fd=dir_fd)
            raise
    if sync:
        sync_folder(dir_fd)


def put_over(dir_fd: int, name: str, new_name: str) -> None:
    """Rename a complete, synced file, in the place of what `new_name` is, if anything. The directory is synced."""
    inode = _inode_of(dir_fd, name)
    try:
        os.rename(name, new_name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
    except OSError:
        if inode is None or not _has_inode(dir_fd, new_name, inode) or not _is_gone(dir_fd, name):
            raise
    sync_folder(dir_fd)


def sync_folder(dir_fd: int) -> None:
    """Make the names in a directory, which were changed, survive a power cut. Raises NotSynced."""
    try:
        os.fsync(dir_fd)
    except OSError as fault:
        raise NotSynced(fault.errno, fault.strerror) from fault


def move(from_fd: int, name: str, to_fd: int, new_name: str, *, inode: int | None = None) -> None:
    """Rename, refusing to replace (FileExistsError); FileNotFoundError when `name` is gone.

    Where the system cannot refuse, a link and an unlink do it. One that reports failure is checked by `inode` (looked
    up when it is not given): on network file systems such renames happened.
    """
    if inode is None:
        inode = _inode_of(from_fd, name)
    try:
        renameat2.rename2(from_fd, name, to_fd, new_name, renameat2.NOREPLACE)
    except OSError as fault:
        if inode is not None and _has_inode(to_fd, new_name, inode) and not _has_inode(from_fd, name, inode):
            return
        if fault.errno == errno.ESTALE:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from fault
        if fault.errno not in _UNSUPPORTED:
            raise
        _link_and_unlink(from_fd, name, to_fd, new_name)


def exchange_content(dir_fd: int, name: str, data: bytes, *, mode: int = 0o600) -> os.stat_result:
    """Replace the content of `name` in place, only if `name` is still there (else FileNotFoundError). Synced.

    A plain rename would make the name anew after somebody else has moved or removed it, and so double an entry; it is
    done only where the system cannot exchange, after a look at the name.
    """
    temporary = temporary_name(name)
    seen = write_new(dir_fd, temporary, data, mode=mode, sync=True)
    try:
        _exchange(dir_fd, temporary, name)
    finally:
        with contextlib.suppress(OSError):
            os.unlink(temporary, dir_fd=dir_fd)
    return seen


def remove(dir_fd: int, name: str) -> bool:
    """Unlink `name`; False when it was gone already. What is called stale and yet there is not gone: that is raised."""
    try:
        os.unlink(name, dir_fd=dir_fd)
    except OSError as fault:
        if fault.errno in GONE - {errno.ESTALE}:
            return False
        if not _is_gone(dir_fd, name):
            raise
        return fault.errno != errno.ESTALE
    return True


def sync_file_system(fd: int) -> None:
    """Make all that was written so far on the file system of `fd` survive a power cut, in one call."""
    call = getattr(libc(), "syncfs", None)
    if call is None:
        os.sync()
    elif call(fd) != 0:
        code = last_error()
        raise OSError(code, os.strerror(code))


def make_folder(name: str, *, dir_fd: int | None = None, mode: int = 0o755, sync: bool = True) -> bool:
    """Make a directory with exactly `mode`, or more in a shared one; False when it exists. Its parent is synced."""
    made = _make_shared(name, dir_fd, mode) if dir_fd is not None and is_shared(dir_fd) else _make(name, dir_fd, mode)
    if made and sync and dir_fd is not None:
        os.fsync(dir_fd)
    return made


def _make(name: str, dir_fd: int | None, mode: int) -> bool:
    try:
        os.mkdir(name, mode, dir_fd=dir_fd)
    except FileExistsError:
        return False
    os.chmod(name, mode, dir_fd=dir_fd)
    return True


def _make_shared(name: str, dir_fd: int, mode: int) -> bool:
    """As `_make`; it appears with its final mode, for in between another user would be refused."""
    if _inode_of(dir_fd, name) is not None:
        return False
    temporary = temporary_name(name)
    os.mkdir(temporary, 0o700, dir_fd=dir_fd)
    try:
        os.chmod(temporary, mode_in(dir_fd, mode, folder=True), dir_fd=dir_fd)
        move(dir_fd, temporary, dir_fd, name)
    except FileExistsError:
        os.rmdir(temporary, dir_fd=dir_fd)
        return False
    return True


def _write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view) :]


def _inode_of(dir_fd: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_ino
    except OSError:
        return None


def _is_gone(dir_fd: int, name: str) -> bool:
    """Whether nothing has this name, as far as one may look: calls of network file systems fail and yet happen."""
    try:
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return False


def _links_of(dir_fd: int, name: str) -> int | None:
    try:
        return os.stat(name, dir_fd=dir_fd, follow_symlinks=False).st_nlink
    except OSError:
        return None


def _has_inode(dir_fd: int, name: str, inode: int) -> bool:
    return _inode_of(dir_fd, name) == inode


def _link_and_unlink(from_fd: int, name: str, to_fd: int, new_name: str) -> None:
    links = _links_of(from_fd, name)  # more than one: a run keeps the entry that it took
    try:
        os.link(name, new_name, src_dir_fd=from_fd, dst_dir_fd=to_fd, follow_symlinks=False)
    except OSError as fault:
        if fault.errno in GONE:
            raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), name) from fault
        if not stat.S_ISDIR(os.stat(name, dir_fd=from_fd, follow_symlinks=False).st_mode):
            raise
        if _inode_of(to_fd, new_name) is not None:
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name) from fault
        os.rename(name, new_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)  # a directory has no second name
        return
    try:
        os.unlink(name, dir_fd=from_fd)
    except FileNotFoundError:
        if os.stat(new_name, dir_fd=to_fd, follow_symlinks=False).st_nlink == links:
            return  # it did happen: network file systems ask twice
        os.unlink(new_name, dir_fd=to_fd)  # somebody else renamed the first name away: the file is theirs
        raise


def _exchange(dir_fd: int, temporary: str, name: str) -> None:
    try:
        renameat2.rename2(dir_fd, temporary, dir_fd, name, renameat2.EXCHANGE)
    except OSError as fault:
        if fault.errno not in _UNSUPPORTED:
            raise
        os.stat(name, dir_fd=dir_fd, follow_symlinks=False)
        os.rename(temporary, name, src_dir_fd=dir_fd, dst_dir_fd=dir_fd)
