"""The work queue: a URL or the settings in, an open store out; and what lives beside it for longer than a call."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kranzq.errors import NotFound, UsageFault
from kranzq.model.database_url import FORMS, DatabaseUrl
from kranzq.model.frozen import frozen
from kranzq.wiring.checkouts import find_checkout
from kranzq.wiring.configuring import load_config

if TYPE_CHECKING:
    from kranzq.backend.items import WorkStore
    from kranzq.backend.presence import SharedStore
    from kranzq.backends.sql.database import Database
    from kranzq.config import Config, WorkSettings
    from kranzq.leases.sweeper import Sweeper


@frozen
class SchemaSeen:
    """The schema of a database beside the one that this program makes; version 0: nothing is there yet."""

    where: str
    version: int
    compatible: int
    newest: int

    @property
    def text(self) -> str:
        """What it means for a person."""
        if self.version == 0:
            return "nothing is there yet; the first item makes it"
        if not self.usable:
            return f"schema {self.version} of a newer kranzq; this one understands {self.newest} at most"
        if self.version < self.newest:
            return f"schema {self.version}; this kranzq brings it to {self.newest} at the next use"
        return f"schema {self.version}, up to date"

    @property
    def usable(self) -> bool:
        """Whether this program understands it."""
        return self.compatible <= self.newest

    def to_json(self) -> dict[str, object]:
        """The keys that the reference page lists."""
        return {
            "where": self.where,
            "version": self.version,
            "compatible": self.compatible,
            "newest": self.newest,
            "usable": self.usable,
        }


def work_config(environ: Mapping[str, str], start: str | None = None) -> Config:
    """The settings in force; `start` is a directory, whose checkout may have allowed settings of its own."""
    checkout = None
    if start is not None:
        try:
            checkout = find_checkout(start, environ)
        except NotFound:
            pass
    return load_config(environ, checkout=checkout)


def database_url(url: str | None, environ: Mapping[str, str], start: str | None = None) -> DatabaseUrl:
    """The database that is meant: by a URL, else by the settings, else the user's own file. Raises UsageFault."""
    from kranzq.trust.key import state_dir

    if url:
        try:
            return DatabaseUrl.parse(url)
        except ValueError as fault:
            raise UsageFault(f"The URL of the database {fault}.", FORMS) from fault
    named = work_config(environ, start).work.url
    return named if named is not None else DatabaseUrl(f"sqlite://{state_dir(environ)}/work.db")


def open_work(url: str | None, environ: Mapping[str, str], start: str | None = None) -> SharedStore:
    """The work queue, its schema brought up to date. What is missing of a SQLite file is made."""
    from kranzq.backends.sql.opening import open_store

    return open_store(database_url(url, environ, start).text)


def open_work_to_look(url: str | None, environ: Mapping[str, str], start: str | None = None) -> SharedStore | None:
    """The work queue for looking; None where there is none yet: whoever only looks makes no file."""
    named = database_url(url, environ, start)
    path = named.sqlite_path
    return None if path is not None and not os.path.lexists(path) else open_work(named.text, environ)


def open_database(url: str | None, environ: Mapping[str, str], start: str | None = None) -> Database | None:
    """The database whatever its schema; None for a SQLite file that is not there."""
    from kranzq.backends.sql import opening

    named = database_url(url, environ, start)
    path = named.sqlite_path
    return None if path is not None and not os.path.lexists(path) else opening.open_database(named.text)


def sweeper(store: WorkStore, settings: WorkSettings) -> Sweeper:
    """What sweeps a store in a program that lives long. A server's clock is the store's, else the boot clock is."""
    from kranzq.backends.sql.backend import SqlBackend
    from kranzq.leases.asleep import boot_clock
    from kranzq.leases.sweeper import Sweeper

    clock = boot_clock
    if isinstance(store, SqlBackend) and not (database := store.database).is_near:

        def clock() -> float:
            return database.wall_ms() / 1000

    return Sweeper(store, period_s=settings.sweep_seconds, retention_s=settings.retention, store_clock=clock)


def schema_of(url: str | None, environ: Mapping[str, str], start: str | None = None) -> SchemaSeen:
    """Which schema a database has. Changes nothing; a SQLite file that is not there is not made."""
    database = open_database(url, environ, start)
    if database is None:
        return SchemaSeen(str(database_url(url, environ, start)), 0, 0, _newest())
    try:
        found = database.schema()
        return SchemaSeen(database.where, found.version, found.compatible, _newest())
    finally:
        database.close()


def migrate(url: str | None, environ: Mapping[str, str], start: str | None = None) -> SchemaSeen:
    """Take the steps that are missing. Raises SchemaTooNew, StoreUnavailable."""
    from kranzq import __version__
    from kranzq.backends.sql.opening import open_database as opened

    database = opened(database_url(url, environ, start).text)
    try:
        found = database.migrate(__version__)
        return SchemaSeen(database.where, found.version, found.compatible, _newest())
    finally:
        database.close()


def _newest() -> int:
    from kranzq.backends.sql.schema import newest

    return newest()
