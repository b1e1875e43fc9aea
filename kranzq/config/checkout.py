"""The settings of one checkout: what a trusted `kranzq.toml` adds, what it would change, and when to look again.

A file that is not trusted changes nothing; whoever loads says so in one line. A daemon asks `Renewal` before each turn,
which costs two looks at file stats as long as nothing has changed.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from kranzq.config import SETTINGS, Config
from kranzq.config.files import parse_settings
from kranzq.errors import KranzqError
from kranzq.events import Warned, emit
from kranzq.model.frozen import frozen
from kranzq.trust.approval import Approvals
from kranzq.trust.settings import NAME, SettingsSeen, look_at_settings


@frozen
class Change:
    """What one setting of the file does: the value now, the value with the file, and the one that the file gives."""

    name: str
    wanted: object
    now: object
    then: object


def load(environ: Mapping[str, str], seen: SettingsSeen, flags: Mapping[str, object] | None = None) -> Config:
    """The settings in force. Raises BadSetting and UnsafePath."""
    tables = parse_settings(seen.path, seen.data) if seen.state == "trusted" else None
    return Config.load(environ, checkout_settings=tables, flags=flags)


def changes(environ: Mapping[str, str], seen: SettingsSeen) -> list[Change]:
    """What each setting of the file would do, or does, beside the user's own. Raises BadSetting where one is wrong."""
    tables = parse_settings(seen.path, seen.data)
    now, then = Config.load(environ), Config.load(environ, checkout_settings=tables)
    found = []
    for setting in SETTINGS:
        table, _, key = setting.name.partition(".")
        if not key and table in tables:
            found.append(Change(table, tables[table], getattr(now, table), getattr(then, table)))
        keys = tables.get(table)
        if isinstance(keys, Mapping) and key in keys:
            values = (getattr(getattr(config, table), key) for config in (now, then))
            found.append(Change(setting.name, keys[key], *values))
    return found


@dataclass
class Renewal:
    """The settings of a checkout while a daemon runs. `root` is its canonical path."""

    root: str
    approvals: Approvals
    environ: Mapping[str, str]
    flags: Mapping[str, object] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Nothing was looked at yet."""
        self._stamp: object = None
        self._said: tuple[str, str] | None = None
        self._counted = ""

    def begin(self) -> Config:
        """The settings at the start. Raises BadSetting and UnsafePath."""
        self._stamp = self._stamped()
        seen = self._look()
        self._counted = seen.digest if seen.state == "trusted" else ""
        return load(self.environ, seen, self.flags)

    def changed(self) -> Config | None:
        """The settings if others count since the last question; None while all is as it was."""
        stamp = self._stamped()
        if stamp == self._stamp:
            return None
        self._stamp = stamp
        seen = self._look()
        counted = seen.digest if seen.state == "trusted" else ""
        if counted == self._counted:
            return None
        try:
            config = load(self.environ, seen, self.flags)
        except KranzqError as fault:
            emit(Warned(f"the settings stay as they were: {fault.sentence}"))
            return None
        self._counted = counted
        emit(Warned(f"{seen.path} counts from now on" if counted else "the settings of the user count from now on"))
        return config

    def _look(self) -> SettingsSeen:
        seen = look_at_settings(self.root, self.approvals)
        if seen.notice is not None and seen.notice != self._said:
            emit(Warned(". ".join(seen.notice)))
        self._said = seen.notice
        return seen

    def _stamped(self) -> object:
        try:
            seen = os.stat(f"{self.root}/.kranz/{NAME}", follow_symlinks=False)
        except OSError:
            return None, self.approvals.stamp(self.root)
        file = (seen.st_dev, seen.st_ino, seen.st_size, seen.st_mtime_ns, seen.st_ctime_ns)
        return file, self.approvals.stamp(self.root)
