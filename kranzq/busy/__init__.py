"""One mission a checkout: the busy lock, its records, and kranz's lock beside it."""

from __future__ import annotations
