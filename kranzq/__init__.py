"""kranzq: a mission dispatcher for repositories in which coding agents work.

An approved mission is queued as a file in the checkout; one dispatcher at a time claims it, holds the
checkout's busy lock, runs it through a keeper and records how it ended. The library's entrance is `kranzq.queue`.
"""

from __future__ import annotations

__version__ = "0.1.0"
