"""What `kranzq hook` works with: the checkout, a fitting's place, and the change that puts it in or takes it out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping

from kranzq import __version__
from kranzq.errors import KranzqError, NotFound, UsageFault
from kranzq.fitting import change
from kranzq.fitting.change import Change, Seen
from kranzq.fitting.kinds import KINDS, Kind, Place, Wish
from kranzq.fitting.places import Spot, spot_of
from kranzq.fitting.scripts import ci_job
from kranzq.model.checkout import Checkout
from kranzq.wiring.checkouts import find_checkout, is_meant_as_root

NOT_LOOKED = "unknown"


def to_put(
    kind: Kind, start: str, environ: Mapping[str, str], wish: Wish, *, file: str | None, shared: bool
) -> tuple[Change, tuple[str, ...]]:
    """The change that puts a fitting in, and what a person should know before it is made."""
    check_words(kind, wish, file=file, shared=shared)
    spot = _spot(kind, start, environ, file=file, shared=shared)
    notes = list(spot.notes)
    if shutil.which("kranzq", path=environ.get("PATH")) is None:
        notes.append(
            "kranzq is not found in PATH here: where that stays so, hooks enqueue nothing, and guards refuse missions."
        )
    return change.change_to_put(kind, spot, wish, __version__), tuple(notes)


def to_take(kind: Kind, start: str, environ: Mapping[str, str], *, file: str | None, shared: bool) -> Change:
    """The change that takes a fitting out."""
    if kind.place is Place.NOWHERE:
        raise UsageFault(f"{kind.name} is only printed, so there is nothing to take out.", "Remove the job by hand.")
    check_words(kind, Wish(), file=file, shared=shared)
    return change.change_to_take(kind, _spot(kind, start, environ, file=file, shared=shared))


def printed(kind: Kind, wish: Wish) -> str:
    """What is only printed."""
    return ci_job(kind, wish)


def looked(start: str, environ: Mapping[str, str], *, file: str | None) -> Iterator[Seen]:
    """What lies in each place, as far as it can be looked at; `file` stands for the agents' settings."""
    for kind in KINDS:
        if kind.place is Place.NOWHERE:
            continue
        path = ""
        try:
            named = file if kind.place is not Place.GIT else None
            spot = spot_of(
                kind, _checkout(start, environ, needed=named is None), start, environ, file=named, shared=True
            )
            path = spot.path
            yield change.look(kind, spot, __version__)
        except KranzqError as fault:
            yield Seen(kind.name, path, NOT_LOOKED, None, fault.sentence)


def check_words(kind: Kind, wish: Wish, *, file: str | None, shared: bool) -> None:
    """Whether what was said means anything for this kind. Raises UsageFault."""
    if file is not None and kind.place not in {Place.SETTINGS, Place.SERVERS}:
        raise UsageFault(f"--file is for the settings of an agent, and {kind.name} has none.", "Leave it out.")
    if shared and kind.place is not Place.GIT:
        raise UsageFault(f"--shared is for hooks of git, and {kind.name} is none.", "Leave it out.")
    if wish.agent and kind.place is not Place.SERVERS:
        raise UsageFault(f"--agent is for mcp, not for {kind.name}.", "Leave it out.")
    says = wish.mission or wish.timeout or wish.command or wish.missions_too or wish.priority is not None
    if says and not kind.enqueues:
        raise UsageFault(
            f"{kind.name} enqueues nothing, so a command and options of a mission mean nothing there.",
            "Leave them out; what enqueues: " + ", ".join(one.name for one in KINDS if one.enqueues),
        )


def _spot(kind: Kind, start: str, environ: Mapping[str, str], *, file: str | None, shared: bool) -> Spot:
    from kranzq.disk.owners import refuse_foreign_checkout

    checkout = _checkout(start, environ, needed=file is None)
    if checkout is not None and file is None:
        refuse_foreign_checkout(checkout, as_root=is_meant_as_root(environ))
    return spot_of(kind, checkout, start, environ, file=file, shared=shared)


def _checkout(start: str, environ: Mapping[str, str], *, needed: bool) -> Checkout | None:
    try:
        return find_checkout(os.path.realpath(start), environ)
    except NotFound:
        if needed:
            raise
        return None
