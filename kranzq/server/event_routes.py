"""`/v1/events`: everything that items, missions and presence claims become, as it happens."""

from __future__ import annotations

from kranzq.model.agents import Scope
from kranzq.server.errors import HttpFault
from kranzq.server.event_stream import EventStream, Listening
from kranzq.server.live import observer, snapshots
from kranzq.server.routing import Call, Route


async def events(call: Call) -> object:
    """A stream that begins with a snapshot, or with what was missed since the event that the client names."""
    service = call.service
    seen, counted = service.shared(observer), service.shared(snapshots)
    listening = Listening(seen)
    await listening.begin(service)
    try:
        last = call.headers.get("last-event-id")
        place = seen.log.place(last) if last is not None else None
        begin = await counted.take() if place is None else None
    except BaseException:
        listening.end()
        raise

    async def may_go_on() -> bool:
        if call.caller.prove is not None:
            try:
                await service.pool.run(call.caller.check_again)
            except HttpFault:
                return False
        return True

    return EventStream(
        service,
        seen,
        counted,
        listening,
        place=place,
        begin=begin,
        lost=last is not None and place is None,
        may_go_on=may_go_on,
    )


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/v1/events",
        events,
        "What items, missions and presence claims become, as server-sent events; see the page on live events.",
        Scope.READ,
        bytes,
        media="text/event-stream",
    ),
)
