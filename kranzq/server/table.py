"""Everything that this server serves: the routes of each noun, and what runs beside them as long as the server does."""

from __future__ import annotations

from kranzq.server import (
    amend_routes,
    batch_routes,
    event_routes,
    health_routes,
    identity_routes,
    live,
    look_routes,
    mission_routes,
    openapi,
    original_routes,
    pages,
    presence_routes,
    session_routes,
    work_routes,
)
from kranzq.server.routing import Part, Route, Table
from kranzq.server.service import Service

ROUTES: tuple[Route, ...] = (
    *work_routes.ROUTES,
    *batch_routes.ROUTES,
    *look_routes.ROUTES,
    *event_routes.ROUTES,
    *mission_routes.ROUTES,
    *amend_routes.ROUTES,
    *health_routes.ROUTES,
    *original_routes.ROUTES,
    *identity_routes.ROUTES,
    *presence_routes.ROUTES,
    *session_routes.ROUTES,
    *openapi.ROUTES,
)


async def waking(service: Service) -> None:
    """Let nobody wait for work any longer when the server closes."""
    await service.waiting.until_closing()


PARTS: tuple[Part, ...] = (waking, live.observing, live.measuring)


def table() -> Table:
    """All routes, to be found by path, and the pages beside them."""
    return Table((*ROUTES, *pages.ROUTES))
