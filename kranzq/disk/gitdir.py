"""Where a checkout's git folder lies and what it says of branch and commit, read from its files without running git.

In a hostile checkout git runs what the checkout says; a bounded read of a few small files runs nothing. What cannot be
understood is told as None.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import NamedTuple

from kranzq.disk.read import Unreadable, read_regular

_POINTER = b"gitdir:"
_PATH_LIMIT = 8 * 1024
_CONFIG_LIMIT = 1024 * 1024
_PACKED_LIMIT = 64 * 1024 * 1024
_DEEPEST = 5  # as git: a symbolic ref that leads on and on is none
_REF = rb"refs/[^\0-\x20\x7f~^:?*\[\\]{1,250}"  # compiled when needed: finding a checkout must not pay for it
_OBJECT = rb"[0-9a-f]{40}(?:[0-9a-f]{24})?"
_YES = frozenset({b"true", b"yes", b"on", b"1"})
_OF_WORKTREES = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")


class GitFolder(NamedTuple):
    """`own` has the HEAD and index of one working tree, `common` what linked worktrees share."""

    own: str
    common: str

    @property
    def index_lock(self) -> str:
        """The file that a git which changes the index makes first and renames or removes last."""
        return f"{self.own}/index.lock"


class Head(NamedTuple):
    """What is checked out; `branch` is None when HEAD is detached, `commit` None before the first one."""

    branch: str | None
    commit: str | None


def git_folder(root: str) -> GitFolder | None:
    """The git folder of a plain repository, a linked worktree or a submodule; None where there is none."""
    path = f"{root}/.git"
    if os.path.isdir(path):
        return GitFolder(path, path)
    pointer = _read(path, _PATH_LIMIT)
    target = pointer.removeprefix(_POINTER).strip() if pointer is not None and pointer.startswith(_POINTER) else b""
    own = os.path.normpath(os.path.join(root, os.fsdecode(target)))
    if not target or b"\0" in target or not os.path.isdir(own):
        return None
    shared = (_read(f"{own}/commondir", _PATH_LIMIT) or b"").partition(b"\0")[0]
    common = os.path.normpath(os.path.join(own, os.fsdecode(shared.strip()))) if shared else own
    return GitFolder(own, common)


def is_own(folder: GitFolder, root: str) -> bool:
    """Whether the git folder says itself that it is this checkout's: a planted `.git` may point to anybody's."""
    path = f"{root}/.git"
    if folder.own == path:
        return not os.path.islink(path)
    back = _read(f"{folder.own}/gitdir", _PATH_LIMIT)  # of a linked worktree
    if back is not None and _leads_to(folder.own, back, path):
        return True
    return any(
        key == b"worktree" and _leads_to(folder.own, value, root) for key, value in _core(folder.own)
    )  # of a submodule


def head(folder: GitFolder) -> Head:
    """The branch and commit of a working tree."""
    text = _read(f"{folder.own}/HEAD", _PATH_LIMIT)
    name = _symbolic(text)
    if name is None:
        return Head(None, _object(text))
    branch = name.removeprefix(b"refs/heads/")
    if branch == b".invalid":  # another form of storing refs, which is not read here
        return Head(None, None)
    return Head(os.fsdecode(branch), _resolved(folder, name))


def is_bare(root: str) -> bool:
    """Whether a directory is a bare repository, or its `.git` says that there is no working tree."""
    if os.path.lexists(f"{root}/.git"):
        folder = git_folder(root)
        return folder is not None and folder.own == folder.common and _says_bare(folder.own)
    return all(os.path.isdir(f"{root}/{name}") for name in ("objects", "refs")) and (
        os.path.isfile(f"{root}/HEAD") and os.path.basename(root) != ".git"
    )


def _says_bare(own: str) -> bool:
    return any(key == b"bare" and value.lower() in _YES for key, value in _core(own))


def _core(own: str) -> Iterator[tuple[bytes, bytes]]:
    """The keys in the section `core` of a configuration, in small letters, and their values."""
    section = b""
    for name in ("config", "config.worktree"):
        for line in (_read(f"{own}/{name}", _CONFIG_LIMIT) or b"").splitlines():
            text = line.strip()
            if text.startswith(b"["):
                head_of_section, _, text = text[1:].partition(b"]")
                section = head_of_section.strip().lower()
            if section == b"core" and (text := _without_comment(text)):
                key, given, value = text.partition(b"=")
                yield key.strip().lower(), value.strip().strip(b'"') if given else b"true"


def _without_comment(text: bytes) -> bytes:
    quoted = False
    for at in range(len(text)):
        if text[at : at + 1] == b'"':
            quoted = not quoted
        elif text[at : at + 1] in {b"#", b";"} and not quoted:
            return text[:at].strip()
    return text.strip()


def _leads_to(own: str, text: bytes, path: str) -> bool:
    there = os.path.join(own, os.fsdecode(text.partition(b"\0")[0].strip()))
    return os.path.realpath(there) == os.path.realpath(path)


def _resolved(folder: GitFolder, name: bytes) -> str | None:
    for _ in range(_DEEPEST):
        base = folder.own if name.startswith(_OF_WORKTREES) else folder.common
        text = _read(os.path.join(base, os.fsdecode(name)), _PATH_LIMIT)
        if text is None:
            return _packed(folder, name)
        following = _symbolic(text)
        if following is None:
            return _object(text)
        name = following
    return None


def _packed(folder: GitFolder, name: bytes) -> str | None:
    data = _read(f"{folder.common}/packed-refs", _PACKED_LIMIT) or b""
    at = data.find(b" " + name + b"\n")
    return _object(data[data.rfind(b"\n", 0, at) + 1 : at]) if at >= 0 else None


def _symbolic(text: bytes | None) -> bytes | None:
    """The name in `ref: <name>`; one that leads out of the refs is none."""
    if text is None or not text.startswith(b"ref:"):
        return None
    name = text.removeprefix(b"ref:").strip()
    return name if re.fullmatch(_REF, name) and b".." not in name and b"//" not in name else None


def _object(text: bytes | None) -> str | None:
    name = (text or b"").strip()
    return name.decode() if re.fullmatch(_OBJECT, name) else None


def _read(path: str, limit: int) -> bytes | None:
    try:
        found = read_regular(path, limit=limit)
    except (Unreadable, OSError, ValueError):
        return None
    return found.data if found is not None else None
