"""Repository keys: one text for one repository, whatever URL it was cloned by or however a person typed it.

A key is `host/path` in small letters, with the whole path: `lab.example/a/b/c` and `hub.example/b/c` are two. A name
that was typed without its host (`b/c`) means the repository of that path on whichever host.
"""

from __future__ import annotations

import posixpath
import re

from kranzq.errors import UsageFault

MOST_REPO = 200
LOCAL = "local:"
"""In front of the root of a clone that has no `origin`; such a key is equal to itself only."""
FORMS = "Write owner/repo, host/owner/repo or the URL that git clones from."
_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://(.*)", re.DOTALL)
_OF_A_HOST = frozenset({"http", "https", "ssh", "git", "ftp", "ftps", "git+ssh", "ssh+git", "git+https", "git+http"})
_SCP = re.compile(r"(?:[^/:@]*@)?([^/:@]+):(?!:)(.*)", re.DOTALL)
_PORT = re.compile(r":[0-9]*$")
_PART = re.compile(r"[A-Za-z0-9._~+-]+", re.ASCII)
_MOST_ROOT = 4096
_DRIVE = 1  # letters before a colon: `C:\repo` is no host


def repo_key(text: str) -> str:
    """The key of a git URL of any form, or of a typed name. Raises UsageFault for what names no shared repository.

    User, password, port, query, a `.git` at the end and the case of letters drop out. A name has two parts at least. A
    `file:` URL and a path on this disk are refused: they mean another repository on another machine.
    """
    given = text[: 2 * _MOST_ROOT].strip()
    if given.startswith(LOCAL):
        if not given.startswith(LOCAL + "/") or len(given) > _MOST_ROOT or not given.isprintable():
            raise _refused(given)
        return local_key(posixpath.normpath("/" + given.removeprefix(LOCAL).lstrip("/")))
    parts = [part for part in _address(given).split("/") if part]
    if parts and parts[-1].lower() == ".git":
        parts.pop()
    elif parts and parts[-1].lower().endswith(".git"):
        parts[-1] = parts[-1][:-4]
    key = "/".join(parts).lower()
    if len(parts) < 2 or len(key) > MOST_REPO or not all(_is_part(part) for part in parts):  # noqa: PLR2004 - owner/repo
        raise _refused(given)
    return key


def local_key(root: str) -> str:
    """The key of a clone that has no `origin`: nobody else's, but of whoever works below the same root."""
    return LOCAL + root


def same_repository(one: str | None, other: str | None) -> bool:
    """Whether two keys may mean one repository: they are equal, or one lacks the host that the other has.

    A key lacks its host when it has two parts, or no dot in the first one; it then means the key that has exactly one
    part more, in front. So `b/c` means `hub.example/b/c` and not `lab.example/a/b/c`. None means none.
    """
    if one is None or other is None:
        return False
    shorter, longer = sorted((one, other), key=len)
    if shorter == longer:
        return True
    if longer.startswith(LOCAL) or shorter.startswith(LOCAL):
        return False
    host, _, rest = longer.partition("/")
    first, _, path = shorter.partition("/")
    return bool(host) and rest == shorter and ("/" not in path or "." not in first)


def tail_of(key: str | None) -> str | None:
    """What all keys of one repository have in common: the last two parts. Stores find claims by it."""
    if key is None or key.startswith(LOCAL):
        return key
    return "/".join(key.split("/")[-2:])


def _address(text: str) -> str:
    """`host/path` of a URL, or the typed name."""
    if found := _SCHEME.fullmatch(text):
        scheme, rest = found.groups()
        if scheme.lower() not in _OF_A_HOST:
            raise _refused(text)
        place, _, path = re.split(r"[?#]", rest, maxsplit=1)[0].partition("/")
        return f"{_PORT.sub('', place.rpartition('@')[2])}/{path}"
    if found := _SCP.fullmatch(text):
        host, path = found.groups()
        if len(host) == _DRIVE:
            raise _refused(text)
        return f"{host}/{path}"
    if text.startswith(("/", "./", "../", "~", "\\", ".\\", "..\\")):
        raise _refused(text)
    return text


def _is_part(part: str) -> bool:
    return part not in {".", ".."} and _PART.fullmatch(part) is not None


def _refused(text: str) -> UsageFault:
    shown = re.sub(r"//[^/@]*@", "//***@", text[:1000])[:120]
    return UsageFault(f"{shown!r} names no repository that others can know.", FORMS)
