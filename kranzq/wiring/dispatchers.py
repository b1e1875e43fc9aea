"""What turns are made of: everything a dispatcher needs, from a checkout and its settings."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kranzq.model.checkout import Checkout
from kranzq.wiring.checkouts import is_meant_as_root
from kranzq.wiring.configuring import load_config
from kranzq.wiring.trusting import gate

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

if TYPE_CHECKING:
    from kranzq.config import Config
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
    from kranzq.runs.preflight import why_not_here

    keepers, as_root = WarmKeepers(), is_meant_as_root(environ)
    return Parts(
        checkout=checkout,
        open_queue=lambda: FileQueue.make(checkout, as_root=as_root),
        busy=BusyLock(checkout),
        engines=Engines(),
        keepers=keepers,
        after_start=keepers.warm if warm else lambda: None,
        runner=runner_of(config, environ),
        gate=gate(environ),
        settings=turn_settings(config),
        obstacle=lambda: why_not_here(checkout, config.mission.min_free_disk, patience_s=0),
        is_subreaper=reaps and become_subreaper(),
    )


def import_all() -> None:
    """Import whatever a dispatcher may come to need: while it runs, the package may be replaced or removed.

    What it imported later would be missing then, or be of another version than all the rest of it.
    """
    for package in _OF_DISPATCHERS:
        path = importlib.import_module(package).__path__
        for module in pkgutil.iter_modules(path, f"{package}."):
            importlib.import_module(module.name)


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
