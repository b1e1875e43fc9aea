"""Where we are, and which place a path means, as presence knows it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kranzq.errors import NotFound
from kranzq.wiring.checkouts import find_checkout

if TYPE_CHECKING:
    from kranzq.dispatch.whereabouts import Located
    from kranzq.model.presence import Whereabouts


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
