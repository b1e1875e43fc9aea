"""The job that peers on PostgreSQL are given: it does nothing. A module of its own, for they look it up by its name."""

from __future__ import annotations

import importlib
import importlib.util
from typing import Any


async def nothing() -> None:
    """Do nothing."""


chancy_nothing: Any = None
if importlib.util.find_spec("chancy") is not None:
    chancy_nothing = importlib.import_module("chancy").job()(nothing)
