"""What is counted while it happens: requests, what this process does with items, and how late the loop is.

What others do is not counted here; what there is of it is read at each scrape (`scraped`). Labels are of small sets:
routes are templates, never the paths that were asked for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, Info, disable_created_metrics
from prometheus_client.exposition import choose_encoder
from prometheus_client.process_collector import ProcessCollector

from kranzq import __version__, events
from kranzq.server.scraped import Scraped

if TYPE_CHECKING:
    from kranzq.server.routing import Route
    from kranzq.server.service import Service

_NONE = "(none)"
_FAST = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 60.0)
_SLOW = (0.01, 0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 4 * 3600, 86400)
_LAG = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)
_EVERY_S = 0.5
_STREAM = "text/event-stream"


class Metrics:
    """The metrics of one server, in a registry of their own. May be shared by threads."""

    def __init__(self, scraped: Scraped) -> None:
        disable_created_metrics()  # type: ignore[no-untyped-call]  # as the library has it
        registry = self.registry = CollectorRegistry()
        self._scraped = scraped
        Info("kranzq", "The program.", registry=registry).info({"version": __version__})
        self.requests = Counter("kranzq_http_requests", "Answers.", ("method", "route", "status"), registry=registry)
        self.took = Histogram(
            "kranzq_http_request_seconds",
            "From a request's first byte to the last of its answer; streams are not measured.",
            ("method", "route"),
            registry=registry,
            buckets=_FAST,
        )
        self.lag = Histogram(
            "kranzq_loop_lag_seconds", "How late the event loop wakes.", registry=registry, buckets=_LAG
        )
        self._work = _Work(registry)
        registry.register(scraped)
        ProcessCollector(registry=registry)

    def observe(self, route: Route | None, status: int, seconds: float) -> None:
        """One answer."""
        method, path = (route.method, route.path) if route is not None else (_NONE, _NONE)
        self.requests.labels(method, path, status).inc()
        if route is None or route.media != _STREAM:
            self.took.labels(method, path).observe(seconds)

    def hear(self, event: events.Event) -> None:
        """Something that this process did."""
        if (count := self._work.counts.get(type(event))) is not None:
            count(event)

    def text(self, accept: str, fallbacks: Mapping[str, int]) -> tuple[str | bytes, str]:
        """Everything, in the form that is asked for, and its type. For a thread: it asks the store."""
        encode, kind = choose_encoder(accept)
        self._scraped.look(fallbacks)
        return encode(self.registry), kind

    async def measure(self, service: Service) -> None:
        """Count from now until the server closes."""
        service.observers.append(self.observe)
        unsubscribe = events.subscribe(self.hear)
        loop = asyncio.get_running_loop()
        try:
            while not service.closing.is_set():
                meant = loop.time() + _EVERY_S
                await asyncio.sleep(_EVERY_S)
                self.lag.observe(max(0.0, loop.time() - meant))
        finally:
            unsubscribe()


class _Work:
    """What this process has done with items."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"kranzq_work_{name}", text, labels, registry=registry)

        self.enqueued = counter("enqueued", "Items that came.")
        self.claims = counter("claims", "Attempts: items that were given to a holder.")
        self.waited = Histogram(
            "kranzq_work_claim_wait_seconds",
            "How long items could have been claimed before they were for the first time.",
            registry=registry,
            buckets=_SLOW,
        )
        self.renewed = counter("renewals", "Leases that were renewed.")
        self.ended = counter("ended", "Items that their holder ended, by outcome.", "state")
        self.released = counter("released", "Items that their holder gave back, by what became of them.", "state")
        self.cancelled = counter("cancelled", "Items that were cancelled.")
        self.swept = counter(
            "swept", "Leases that lapsed, for the last time (failed), and items that came due.", "what"
        )
        self.pruned = counter("pruned", "Items that ended long ago and were removed.")
        for what in ("lapsed", "failed", "opened"):
            self.swept.labels(what)
        self.counts: dict[type[events.Event], Callable[[events.Event], None]] = {
            events.ItemEnqueued: lambda _: self.enqueued.inc(),
            events.ItemClaimed: self._claimed,
            events.LeaseRenewed: lambda _: self.renewed.inc(),
            events.ItemEnded: lambda one: self.ended.labels(vars(one)["state"]).inc(),
            events.ItemReleased: lambda one: self.released.labels(vars(one)["state"]).inc(),
            events.ItemCancelled: lambda _: self.cancelled.inc(),
            events.WorkSwept: self._count_swept,
            events.ItemsPruned: lambda one: self.pruned.inc(vars(one)["items"]),
        }

    def _claimed(self, one: events.Event) -> None:
        self.claims.inc()
        if (waited := vars(one)["waited_ms"]) is not None:
            self.waited.observe(waited / 1000)

    def _count_swept(self, one: events.Event) -> None:
        told = vars(one)
        self.swept.labels("lapsed").inc(len(told["lapsed"]))
        self.swept.labels("failed").inc(len(told["failed"]))
        self.swept.labels("opened").inc(told["opened"])
