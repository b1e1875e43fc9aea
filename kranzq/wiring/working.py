"""The work queue: a URL in, an open store out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kranzq.backend.items import WorkStore


def open_work(url: str | None, environ: Mapping[str, str]) -> WorkStore:
    """The work queue at a URL; without one, the user's own file below the state directory."""
    from kranzq.backends.sql.opening import open_store
    from kranzq.trust.key import state_dir

    return open_store(url or f"sqlite://{state_dir(environ)}/work.db")
