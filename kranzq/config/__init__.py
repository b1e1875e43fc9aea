"""One frozen value of all settings, validated whole before anything starts.

From, in rising order: defaults, the user's `config.toml`, the trusted settings of the checkout, `KRANZQ_*` variables,
flags. Surfaces make the value and hand its parts on; nothing below knows where they came from.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, Literal

from kranzq.config.files import config_path, parse_settings, read_settings
from kranzq.config.settings import (
    OTHER_VARIABLES,
    SETTINGS,
    TABLES,
    Setting,
    setting_named,
    unknown_setting,
    unknown_variables,
)
from kranzq.config.values import PLACEHOLDERS, expand, parse_duration, parse_size
from kranzq.errors import BadSetting
from kranzq.model.database_url import DatabaseUrl
from kranzq.model.frozen import frozen

__all__ = [
    "OTHER_VARIABLES",
    "PLACEHOLDERS",
    "SETTINGS",
    "Config",
    "DaemonSettings",
    "HookSettings",
    "MissionSettings",
    "RetentionSettings",
    "Setting",
    "StatusSettings",
    "WorkSettings",
    "config_path",
    "expand",
    "parse_duration",
    "parse_settings",
    "parse_size",
    "unknown_variables",
]


_ALONE = frozenset(setting.name for setting in SETTINGS if "." not in setting.name)
"""Settings that stand in no table."""


@frozen
class MissionSettings:
    """How a mission is run."""

    command: tuple[str, ...]
    grace_seconds: float
    on_survivors: Literal["end", "report"]
    on_interrupted: Literal["again", "park"]
    interruption_limit: int
    deferral_limit: float | None
    """Seconds; None: a mission may defer itself for ever."""
    timeout: float | None
    environment: tuple[str, ...] | None
    """Names of the variables that a mission gets; None: all of the dispatcher's but secrets and git's locations."""
    min_free_disk: int
    output_cap: int | None
    """Bytes; None: all of it is kept."""


@frozen
class DaemonSettings:
    """How the daemon behaves."""

    on_stop: Literal["wait", "leave", "end"] | None
    """None: decided by the environment in which the daemon runs."""
    poll_seconds: float
    scan_seconds: float
    recover_seconds: float


@frozen
class StatusSettings:
    """When `status` names a running mission, in seconds."""

    long_run: float
    long_silence: float


@frozen
class RetentionSettings:
    """What is kept of what is over; ages in seconds."""

    runs_per_mission: int
    runs_age: float
    quarantine_count: int
    quarantine_age: float


@frozen
class HookSettings:
    """Programs, or a URL each, that are told of events; empty: nobody is."""

    enqueued: tuple[str, ...]
    started: tuple[str, ...]
    ended: tuple[str, ...]
    failed: tuple[str, ...]
    parked: tuple[str, ...]
    drained: tuple[str, ...]
    needs_person: tuple[str, ...]
    window: float
    """Seconds within which many events of a hook become one."""

    def commands(self) -> dict[str, tuple[str, ...]]:
        """Whom each hook tells, in the order of the page."""
        names = ("enqueued", "started", "ended", "failed", "parked", "drained", "needs_person")
        return {name: getattr(self, name) for name in names}


@frozen
class WorkSettings:
    """The work queue; lengths of time in seconds."""

    url: DatabaseUrl | None
    """None: the user's own file."""
    lease: float
    retention: float
    sweep_seconds: float
    command: tuple[str, ...] = ()
    agent: str | None = None
    """None: made of host and checkout."""
    groups: tuple[str, ...] = ()
    mission_lease: float = 900.0


@frozen
class Config:
    """All settings."""

    mission: MissionSettings
    daemon: DaemonSettings
    status: StatusSettings
    retention: RetentionSettings
    work: WorkSettings
    hooks: HookSettings
    backends: tuple[str, ...] = ("file",)
    """What a dispatcher serves."""

    @classmethod
    def load(
        cls,
        environ: Mapping[str, str],
        *,
        checkout_settings: Mapping[str, object] | None = None,
        flags: Mapping[str, object] | None = None,
    ) -> Config:
        """The settings for this environment. Raises BadSetting and UnsafePath.

        `checkout_settings` has the form of the file; `flags` has whole names (`mission.timeout`), None = not given.
        """
        values = dict(_defaults())
        path = config_path(environ)
        values |= _from_tables(path, read_settings(path))
        values |= _from_tables(".kranz/kranzq.toml", checkout_settings or {})
        values |= _from_variables(environ)
        values |= _from_flags(flags or {})
        return cls(
            MissionSettings(**_table(values, "mission")),
            DaemonSettings(**_table(values, "daemon")),
            StatusSettings(**_table(values, "status")),
            RetentionSettings(**_table(values, "retention")),
            WorkSettings(**_table(values, "work")),
            HookSettings(**_table(values, "hooks")),
            _backends(values["backends"]),
        )


@functools.cache
def _defaults() -> Mapping[str, object]:
    return {setting.name: setting.parse(setting.default) for setting in SETTINGS}


def _table(values: Mapping[str, object], table: str) -> dict[str, Any]:
    return {key: values[name] for name, key in _keys(table)}


@functools.cache
def _keys(table: str) -> tuple[tuple[str, str], ...]:
    """The whole names of a table's settings, each with its key."""
    names = (setting.name for setting in SETTINGS if setting.name.startswith(f"{table}."))
    return tuple((name, name.partition(".")[2]) for name in names)


def _backends(value: object) -> tuple[str, ...]:
    assert isinstance(value, tuple)
    return value


def _from_tables(where: str, tables: Mapping[str, object]) -> dict[str, object]:
    values: dict[str, object] = {}
    for table, keys in tables.items():
        if table not in TABLES and table in _ALONE:
            values[table] = setting_named(where, table).value_of(keys, where, table)
            continue
        if not isinstance(keys, Mapping) and table in TABLES:
            raise BadSetting(where, table, "must be a table", f"Write [{table}] and its keys below it.")
        if table not in TABLES and not (isinstance(keys, Mapping) and keys):
            raise unknown_setting(where, table)
        assert isinstance(keys, Mapping)
        for key, value in keys.items():
            name = f"{table}.{key}"
            values[name] = setting_named(where, name).value_of(value, where, name)
    return values


def _from_variables(environ: Mapping[str, str]) -> dict[str, object]:
    """An empty variable counts as not set, as wrappers pass it on."""
    given = {name: environ[name] for name in environ if name.startswith("KRANZQ_")}
    return {
        setting.name: setting.value_of(text, "environment", setting.variable, as_text=True)
        for setting in (SETTINGS if given else ())
        if (text := given.get(setting.variable))
    }


def _from_flags(flags: Mapping[str, object]) -> dict[str, object]:
    where = "command line"
    return {
        name: setting_named(where, name).value_of(value, where, name, as_text=True)
        for name, value in flags.items()
        if value is not None
    }
