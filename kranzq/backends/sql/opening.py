"""A URL becomes a work queue: the engine that it names, its schema brought up to date."""

from __future__ import annotations

import os

from kranzq import __version__
from kranzq.backends.sql.backend import SqlBackend
from kranzq.backends.sql.database import Database
from kranzq.backends.sql.schema import check
from kranzq.errors import MissingPackage, UsageFault
from kranzq.model.database_url import FORMS, shown


def open_database(url: str) -> Database:
    """The database that a URL names, whatever its schema. Raises UsageFault for a URL that is none."""
    scheme, mark, rest = url.partition("://")
    if mark and scheme == "sqlite":
        from kranzq.backends.sql.sqlite import SqliteDatabase  # noqa: PLC0415 - only the engine that is used

        path = rest.removeprefix("/") if rest.startswith("//") else rest
        if not path.startswith("/") or "\0" in path or path.endswith("/"):
            raise UsageFault(f"{url!r} names no absolute path of a SQLite file.", FORMS)
        return SqliteDatabase(os.path.normpath(path))
    if mark and scheme in {"postgresql", "postgres"}:
        try:
            from kranzq.backends.sql.postgres import PostgresDatabase  # noqa: PLC0415 - as above
        except ModuleNotFoundError as fault:
            if (fault.name or "").partition(".")[0] != "psycopg":
                raise
            raise MissingPackage("PostgreSQL", "psycopg", "postgres") from fault
        return PostgresDatabase(url)
    raise UsageFault(f"{shown(url)[:200]!r} names no database that kranzq knows.", FORMS)


def open_store(url: str) -> SqlBackend:
    """The work queue at a URL, its schema brought up to date. Raises SchemaTooNew, StoreUnavailable, Refused."""
    database = open_database(url)
    try:
        if check(database.where, database.schema()):
            database.migrate(__version__)
    except BaseException:
        database.close()
        raise
    return SqlBackend(database)
