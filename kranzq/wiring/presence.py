"""Presence: a URL or the settings in, an open store out; and where we are, as presence knows it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from kranzq.errors import NotFound
from kranzq.wiring import working
from kranzq.wiring.checkouts import find_checkout

if TYPE_CHECKING:
    from kranzq.backend.presence import Presence
    from kranzq.dispatch.whereabouts import Located
    from kranzq.model.presence import Whereabouts


@contextlib.contextmanager
def open_presence(url: str | None, environ: Mapping[str, str], start: str | None = None) -> Iterator[Presence]:
    """Presence for a change; the database is made or brought up to date first."""
    with working.open_work(url, environ, start) as store:
        yield store.presence


@contextlib.contextmanager
def open_to_look(url: str | None, environ: Mapping[str, str], start: str | None = None) -> Iterator[Presence | None]:
    """Presence for a look; None where there is no database yet."""
    store = working.open_work_to_look(url, environ, start)
    if store is None:
        yield None
        return
    with store:
        yield store.presence


def whereabouts(start: str, environ: Mapping[str, str]) -> Whereabouts | None:
    """The repository, root and branch of the checkout at or above a directory; None where there is none."""
    from kranzq.dispatch.whereabouts import whereabouts as look

    try:
        return look(find_checkout(start, environ))
    except NotFound:
        return None


def named_place(
    path: str, start: str, here: Whereabouts | None, repo: str | None, environ: Mapping[str, str]
) -> dict[str, Any]:
    """A path as it is meant, as words of `subject_of` and `question_of`. Raises UsageFault.

    It is relative to the directory `start`, without links; in another repository it begins at that one's root.
    """
    from kranzq.model.presence import named_repo

    key = named_repo(repo, here)
    if key is not None and (here is None or key != here.repo) and not os.path.isabs(path):
        return {"path": path, "here": here}
    found = locate(path, start, here, environ)
    return {"path": found.path, "here": here, "clones": found.clones, "leads_to": found.leads_to}


def locate(path: str, start: str, here: Whereabouts | None, environ: Mapping[str, str]) -> Located:
    """The place of a path that is relative to a directory, without links. Raises UsageFault."""
    from kranzq.dispatch.whereabouts import locate as find

    return find(path, start, here, lambda directory: find_checkout(directory, environ))
