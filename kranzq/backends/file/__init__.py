"""The mission queue as files in `.kranz/queue/`, shared with kranz: state is where the file is."""

from __future__ import annotations
