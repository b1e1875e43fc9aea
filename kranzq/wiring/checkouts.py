"""Which checkout a verb works in, and what must hold there before it does anything."""

from __future__ import annotations

import os
from collections.abc import Mapping

from kranzq.disk.gitdir import is_bare
from kranzq.errors import BareRepository, InsideMission, NoCheckout, Refused
from kranzq.model.checkout import Checkout


def find_checkout(start: str, environ: Mapping[str, str]) -> Checkout:
    """The checkout at or above `start`: the nearest `.git`; without git a `.kranz` that holds a queue.

    kranz's own home is none, nor is the user's. Raises NoCheckout, BareRepository.
    """
    here = os.path.realpath(start)
    above = list(_upwards(here))
    for root in above:
        if os.path.lexists(f"{root}/.git"):
            if is_bare(root):
                raise BareRepository(root)
            return Checkout(root, has_git=True)
        if is_bare(root):
            raise BareRepository(root)
    home, kranz_home = _homes(environ)
    for root in above:
        kranz = f"{root}/.kranz"
        if os.path.isdir(f"{kranz}/queue") and root != home and os.path.realpath(kranz) != kranz_home:
            return Checkout(root, has_git=False)
    raise NoCheckout(start)


def checkout_to_make(start: str, environ: Mapping[str, str]) -> Checkout:
    """The checkout that `init` makes the queue of: the one at or above `start`, else `start` itself.

    Raises Refused for the user's home and kranz's own, which are no checkouts.
    """
    try:
        return find_checkout(start, environ)
    except NoCheckout:
        root = os.path.realpath(start)
    home, kranz_home = _homes(environ)
    if home == root or kranz_home in {root, f"{root}/.kranz"}:
        raise Refused(f"{root} is a home directory, no checkout.", "Go into a repository or project directory.")
    return Checkout(root, has_git=False)


def refuse_inside_mission(checkout: Checkout, verb: str, environ: Mapping[str, str]) -> None:
    """Raise InsideMission when this process belongs to a mission of the same checkout."""
    if environ.get("KRANZ_CLAIM") and os.path.realpath(environ.get("KRANZ_REPO", "")) == checkout.root:
        raise InsideMission(verb, environ.get("KRANZ_MISSION_ID", "?"))


def is_meant_as_root(environ: Mapping[str, str]) -> bool:
    """Whether whoever started us means to work as root in another user's checkout."""
    from kranzq.disk.owners import AS_ROOT

    return environ.get(AS_ROOT, "") not in {"", "0"}


def environ_of(environ: Mapping[str, str], *, as_root: bool) -> Mapping[str, str]:
    """The environment as a flag of the command line changes it."""
    from kranzq.disk.owners import AS_ROOT

    return {**environ, AS_ROOT: "1"} if as_root else environ


def unsafe_here(checkout: Checkout) -> tuple[str, str] | None:
    """Why every verb that works would refuse this checkout, and what to do; None when it would not."""
    from kranzq.disk.owners import refuse_foreign_checkout, unsafe_folder

    as_root = is_meant_as_root(os.environ)
    try:
        if (unsafe := unsafe_folder(checkout, as_root=as_root)) is not None:
            raise unsafe.error()
        refuse_foreign_checkout(checkout, as_root=as_root)
    except Refused as fault:
        return fault.sentence, fault.advice
    return None


def _homes(environ: Mapping[str, str]) -> tuple[str, str]:
    home = os.path.realpath(environ.get("HOME") or "/nonexistent")
    return home, os.path.realpath(environ.get("KRANZ_HOME") or f"{home}/.kranz")


def _upwards(path: str) -> list[str]:
    found = [path]
    while (parent := os.path.dirname(found[-1])) != found[-1]:
        found.append(parent)
    return found
