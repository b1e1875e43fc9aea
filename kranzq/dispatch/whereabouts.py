"""Where somebody works, and which file a path on this disk means: what presence knows of a checkout. Runs no git.

Links are resolved here, where there is a disk to ask; what then is one place has one name, whoever claims it.
"""

from __future__ import annotations

import os
from collections.abc import Callable

from kranzq.disk.gitdir import git_folder, head
from kranzq.disk.remote import origin
from kranzq.errors import KranzqError, UsageFault
from kranzq.model.checkout import Checkout
from kranzq.model.frozen import frozen
from kranzq.model.presence import Whereabouts, flat_text, lies_inside
from kranzq.model.repository import local_key, repo_key


@frozen
class Located:
    """A path without links: absolute. `clones` are checkouts that it led to, `leads_to` a target outside of any."""

    path: str
    clones: tuple[Whereabouts, ...] = ()
    leads_to: str | None = None


def whereabouts(checkout: Checkout) -> Whereabouts:
    """The key of the repository, the root, and the branch that is checked out.

    A repository whose `origin` is missing, or is no address that others could know, has a key of its own place.
    """
    folder = git_folder(checkout.root) if checkout.has_git else None
    url = origin(folder) if folder is not None else None
    branch = head(folder).branch if folder is not None else None
    try:
        key = repo_key(flat_text(url)) if url is not None else None
    except UsageFault:
        key = None
    return Whereabouts(key or local_key(flat_text(checkout.root)), checkout.root, branch)


def locate(path: str, directory: str, here: Whereabouts | None, find_checkout: Callable[[str], Checkout]) -> Located:
    """The place of a path that is relative to a directory. `find_checkout` finds the checkout at or above a directory.

    A link that leads out of every checkout keeps its own name in `here`, and its target beside it: whoever knows only
    one of the two finds it.
    """
    if "\0" in path:
        raise UsageFault("The path holds a NUL character, which no file system keeps.", "Take it out.")
    named = os.path.normpath(os.path.join(os.path.realpath(directory), path))
    real = os.path.realpath(os.path.join(directory, path))
    if here is not None and lies_inside(real, here.root):
        return Located(real, _nested(real, here, find_checkout))
    if (other := _around(real, find_checkout)) is not None:
        return Located(real, (other,))
    if here is not None and lies_inside(named, here.root):
        return Located(named, leads_to=real)
    return Located(real)


def _nested(real: str, here: Whereabouts, find_checkout: Callable[[str], Checkout]) -> tuple[Whereabouts, ...]:
    """A checkout inside this one, such as a submodule."""
    inner = _around(real, find_checkout)
    return (inner,) if inner is not None and inner.root != here.root else ()


def _around(real: str, find_checkout: Callable[[str], Checkout]) -> Whereabouts | None:
    """The checkout that a place lies in. What is not there yet lies where the nearest folder above it does."""
    while not os.path.isdir(real):
        real = os.path.dirname(real)
    try:
        return whereabouts(find_checkout(real))
    except KranzqError:
        return None
