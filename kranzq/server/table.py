"""Everything that this server serves: the routes of each noun, and what runs beside them as long as the server does."""

from __future__ import annotations

from kranzq.server import work_routes
from kranzq.server.routing import Part, Route, Table

ROUTES: tuple[Route, ...] = (*work_routes.ROUTES,)
PARTS: tuple[Part, ...] = ()


def table() -> Table:
    """All routes, to be found by path."""
    return Table(ROUTES)
