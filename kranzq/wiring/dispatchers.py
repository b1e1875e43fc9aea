"""What turns are made of: everything a dispatcher needs, from a checkout and its settings."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kranzq.model.checkout import Checkout
from kranzq.wiring.checkouts import is_meant_as_root
from kranzq.wiring.configuring import load_config
from kranzq.wiring.trusting import gate, private_folders

_OF_DISPATCHERS = (
    "kranzq.backends.file",
    "kranzq.busy",
    "kranzq.config",
    "kranzq.daemon",
    "kranzq.disk",
    "kranzq.dispatch",
    "kranzq.hooks",
    "kranzq.liveness",
    "kranzq.model",
    "kranzq.runs",
    "kranzq.trust",
    "kranzq.wiring",
)
_OF_ITEMS = ("kranzq.backends.sql", "kranzq.leases")
_WITH_ITEMS, _ELSEWHERE = "kranzq.daemon.item_watch", "kranzq.daemon.observed"
"""Modules that import watchdog: the one where items are served, the other where the kernel's own watch is not used."""
_PROGRAMS = frozenset({"kranzq.hooks.courier", "kranzq.hooks.post"})
_OF_OTHERS = frozenset({f"kranzq.wiring.{name}" for name in ("fitting", "guarding", "service")})
"""Programs of their own, and what only other verbs do: the memory of a daemon need not have them."""

if TYPE_CHECKING:
    from kranzq.config import Config
    from kranzq.dispatch.items import Items
    from kranzq.dispatch.parts import Parts, Settings
    from kranzq.runner import Runner


def dispatcher_parts(
    checkout: Checkout, config: Config, environ: Mapping[str, str], *, warm: bool = False, reaps: bool = True
) -> Parts:
    """Everything a dispatcher of this checkout needs. `warm`: keep a keeper ready; `reaps`: become a subreaper."""
    from kranzq.backends.file.backend import FileQueue
    from kranzq.busy.foreign import Engines
    from kranzq.busy.lock import BusyLock
    from kranzq.dispatch.parts import Parts
    from kranzq.runs.keepers import WarmKeepers
    from kranzq.runs.leftovers import become_subreaper

    keepers, as_root = WarmKeepers(), is_meant_as_root(environ)
    return Parts(
        checkout=checkout,
        open_queue=lambda: FileQueue.make(checkout, as_root=as_root),
        busy=BusyLock(checkout),
        engines=Engines(),
        keepers=keepers,
        after_start=keepers.warm if warm else lambda: None,
        gate=gate(environ),
        private_folders=private_folders(environ),
        is_subreaper=reaps and become_subreaper(),
        **by_settings(checkout, config, environ),
    )


def by_settings(checkout: Checkout, config: Config, environ: Mapping[str, str]) -> dict[str, Any]:
    """The parts of turns that settings decide: made at the start, and anew when other settings count."""
    from kranzq.runs.preflight import why_not_here

    return {
        "runner": runner_of(config, environ),
        "settings": turn_settings(config),
        "obstacle": lambda: why_not_here(checkout, config.mission.min_free_disk, patience_s=0),
        "items": items_of(checkout, config, environ),
        "serves_items": serves_items(config),
    }


def items_of(checkout: Checkout, config: Config, environ: Mapping[str, str]) -> Callable[[], Items]:
    """What makes the items of a checkout when they are first needed, and then gives the same."""

    @functools.cache
    def made() -> Items:
        from kranzq.wiring.items import make_items

        return make_items(checkout, config, environ, item_runner_of(config, environ))

    return made


def serves_items(config: Config) -> bool:
    """Whether dispatchers ask for items of the work queue."""
    return "sql" in config.backends


def item_runner_of(config: Config, environ: Mapping[str, str]) -> Runner:
    """What makes the command of an item: `work.command`, else that of missions."""
    command = config.work.command or config.mission.command
    return runner_of(dataclasses.replace(config, mission=dataclasses.replace(config.mission, command=command)), environ)


def import_all(*, items: bool) -> None:
    """Import whatever a dispatcher may come to need: while it runs, the package may be replaced or removed.

    What it imported later would be missing then, or be of another version than all the rest of it. `items`: it serves
    the work queue too.
    """
    from kranzq.daemon.watch import has_inotify

    needless = {name for name, is_needed in ((_WITH_ITEMS, items), (_ELSEWHERE, not has_inotify())) if not is_needed}
    for package in (*_OF_DISPATCHERS, *(_OF_ITEMS if items else ())):
        path = importlib.import_module(package).__path__
        for module in pkgutil.iter_modules(path, f"{package}."):
            if module.name in needless | _PROGRAMS | _OF_OTHERS:
                continue
            with contextlib.suppress(ImportError) if package in _OF_ITEMS else contextlib.nullcontext():
                importlib.import_module(module.name)  # of two engines one may not be installed
    if items:
        from kranzq.backends.sql.statements import statements

        for dialect in ("sqlite", "postgres"):
            statements(dialect)


def parts_of_a_verb(checkout: Checkout, environ: Mapping[str, str]) -> Parts:
    """What a verb settles an end with: this process becomes no dispatcher for it."""
    return dispatcher_parts(checkout, load_config(environ, checkout=checkout), environ, reaps=False)


def runner_of(config: Config, environ: Mapping[str, str]) -> Runner:
    """What makes a command of an entry, by these settings."""
    from kranzq.config import expand
    from kranzq.runs.command import MissionRunner

    mission = config.mission
    return MissionRunner(mission.command, expand, environ, mission.environment, mission.min_free_disk)


def turn_settings(config: Config) -> Settings:
    """The numbers and choices of a turn, from these settings."""
    from kranzq.dispatch.parts import Settings
    from kranzq.runs.retention import Keep

    mission = config.mission
    return Settings(
        grace_s=mission.grace_seconds,
        on_survivors=mission.on_survivors,
        park_interrupted=mission.on_interrupted == "park",
        timeout_s=mission.timeout,
        interruptions=mission.interruption_limit,
        deferral_s=mission.deferral_limit,
        output_cap=mission.output_cap,
        keep=Keep(*dataclasses.astuple(config.retention)),
    )
