"""What is read when somebody scrapes: what waits and runs, how old it is, and what the server has in hand."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kranzq.errors import KranzqError

if TYPE_CHECKING:
    from kranzq.backend.watching import StoreLooks
    from kranzq.server.observer import Observer
    from kranzq.server.service import Service
    from kranzq.wiring.missions import Missions

MOST_KINDS = 50
OTHERS = "(others)"
"""Kinds are texts that anybody makes up: those of which there is least are counted together."""
_GOOD_FOR_S = 1.0


class Scraped(Collector):
    """A collector that keeps what it read for a second, so that many who scrape cost no more than one."""

    def __init__(self, service: Service, looks: StoreLooks, missions: Missions | None, observer: Observer) -> None:
        self._service, self._looks, self._missions, self._observer = service, looks, missions, observer
        self._found: list[Metric] = []
        self._looked = float("-inf")

    def describe(self) -> list[Metric]:
        """Nothing that would be asked of the store when it is registered."""
        return []

    def collect(self) -> Iterable[Metric]:
        """What the last look found."""
        return self._found

    def look(self, fallbacks: Mapping[str, int]) -> None:
        """Look anew, if the last look is not new. A store or queue that is away leaves its part out, and is told."""
        if time.monotonic() - self._looked < _GOOD_FOR_S:
            return
        up = GaugeMetricFamily("kranzq_up", "Whether it could be read at this scrape.", labels=("what",))
        found: list[Metric] = [up, *self._of_server(fallbacks)]
        parts: dict[str, Callable[[], list[Metric]]] = {"store": self._of_store}
        if self._missions is not None:
            parts["queue"] = self._of_queue
        for name, read in parts.items():
            try:
                found += read()
                up.add_metric((name,), 1)
            except (KranzqError, OSError):
                up.add_metric((name,), 0)
        self._found, self._looked = found, time.monotonic()

    def _of_store(self) -> list[Metric]:
        store, stats = self._service.store, self._service.store.stats()
        depth = GaugeMetricFamily("kranzq_work_depth", "Items that wait or run.", labels=("state", "kind"))
        for (state, kind), many in self._depths().items():
            depth.add_metric((state, kind), many)
        items = GaugeMetricFamily("kranzq_work_items", "All items that are kept.", labels=("state",))
        for name, number in stats.by_state.items():
            items.add_metric((name,), number)
        size = GaugeMetricFamily("kranzq_store_bytes", "What the store takes on disk.", labels=("part",))
        size.add_metric(("data",), stats.size)
        size.add_metric(("log",), stats.log_size)
        age = max(0.0, time.time() - stats.oldest_open_ms / 1000) if stats.oldest_open_ms is not None else 0.0
        waits = self._looks.waits()
        return [
            depth,
            items,
            size,
            _gauge("kranzq_work_oldest_open_seconds", "The age of the oldest item that may be claimed.", age),
            _gauge("kranzq_work_overdue", "Leases that are over and were not swept yet.", stats.overdue),
            _gauge("kranzq_work_unseen", "Open items whose agent was never seen.", stats.unseen),
            _gauge("kranzq_presence_claims", "Presence claims that live.", len(store.presence.live())),
            _counter("kranzq_store_waits", "How often a write waited for another program.", waits.count),
            _counter("kranzq_store_wait_seconds", "How long writes waited for other programs.", waits.seconds),
        ]

    def _depths(self) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = defaultdict(int)
        for at, one in enumerate(sorted(self._looks.depths(), key=lambda one: -one.many)):
            found[one.state, one.kind if at < MOST_KINDS else OTHERS] += one.many
        return found

    def _of_queue(self) -> list[Metric]:
        missions = GaugeMetricFamily("kranzq_missions", "Missions in the queue.", labels=("state",))
        assert self._missions is not None
        for state, many in self._missions.counts().items():
            missions.add_metric((state,), many)
        return [missions]

    def _of_server(self, fallbacks: Mapping[str, int]) -> list[Metric]:
        by_name = CounterMetricFamily(
            "kranzq_identity_fallbacks", "How often somebody was known by name only.", labels=("name",)
        )
        for name, many in fallbacks.items():
            by_name.add_metric((name,), many)
        observer = self._observer
        return [
            by_name,
            _gauge("kranzq_event_streams", "Clients that listen to live events.", observer.listeners),
            _gauge("kranzq_observer_runs", "Whether store and queue are watched for them.", observer.is_running),
            _counter("kranzq_events", "Live events so far.", observer.log.head),
            _gauge("kranzq_waiting_claims", "Claims that wait for an item.", self._service.waiting.count),
            _gauge("kranzq_store_calls", "Calls of the store that have not returned.", self._service.pool.running),
        ]


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _counter(name: str, text: str, value: float) -> Metric:
    return CounterMetricFamily(name, text, value=value)
