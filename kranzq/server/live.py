"""What events, missions, metrics and health share in one server: the checkout's missions, and who looks at what."""

from __future__ import annotations

import asyncio

from kranzq.backend.watching import StoreLooks
from kranzq.errors import NotFound
from kranzq.server.event_log import EventLog
from kranzq.server.health import Health
from kranzq.server.metrics import Metrics
from kranzq.server.observer import Group, Observer, Source
from kranzq.server.presence_watch import PresenceWatch
from kranzq.server.scraped import Scraped
from kranzq.server.service import Service
from kranzq.server.snapshots import Snapshots
from kranzq.server.telling import tell
from kranzq.wiring import watching
from kranzq.wiring.missions import Missions

_IDLE_S = 0.25
"""Not every change comes with a hint: without one, too, it is seen within half a second."""


def missions(service: Service) -> Missions | None:
    """The missions of the checkout in which the server was started; None where there is none."""
    try:
        return Missions.at(service.directory, service.environ)
    except NotFound:
        return None


def looks(service: Service) -> StoreLooks:
    """What is to be seen of the store from outside."""
    return watching.store_looks(service.store)


def observer(service: Service) -> Observer:
    """Who looks as long as somebody listens."""
    items = Source("item", service.shared(looks).items(), _IDLE_S)
    presence = Source("presence", PresenceWatch(service.store.presence), _IDLE_S)
    groups = [Group("store", (items, presence), service.store.wait_for_work)]
    if (found := service.shared(missions)) is not None:
        watch = watching.mission_watch(found.checkout)
        groups.append(Group("queue", (Source("mission", watch, 0.0),), no_hint))
    return Observer(EventLog(service.boot_id), groups, tell)


def no_hint(_: float) -> bool:
    """A queue gives no hints: the times of its folders are looked at, which costs next to nothing."""
    return False


def snapshots(service: Service) -> Snapshots:
    """What there is, counted."""
    return Snapshots(service, service.shared(observer).log, service.shared(missions))


def health(service: Service) -> Health:
    """When store and queue were seen."""
    return Health(service, service.shared(missions))


def metrics(service: Service) -> Metrics:
    """What is counted."""
    found = service.shared(missions)
    return Metrics(Scraped(service, service.shared(looks), found, service.shared(observer)))


async def measuring(service: Service) -> None:
    """Count as long as the server runs."""
    await service.shared(metrics).measure(service)


async def observing(service: Service) -> None:
    """Let the observer end with the server."""
    await service.closing.wait()
    await asyncio.sleep(0)
    await service.pool.run(service.shared(observer).close)
