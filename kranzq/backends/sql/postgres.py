"""PostgreSQL as an engine. To be written."""

from __future__ import annotations

from typing import Any


class PostgresDatabase:
    def __init__(self, url: str) -> None:
        raise NotImplementedError

    def __getattr__(self, name: str) -> Any:
        raise NotImplementedError
