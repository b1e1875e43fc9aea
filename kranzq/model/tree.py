"""The state of the working tree after a run that was ended by force: branch, commit, changed files, a lock left behind.

It is part of the run's record, so that a person can see what the next run of the mission begins with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

_LONGEST = 300
_NAMED = 20


class Changed(NamedTuple):
    """How many tracked files have changed, and the first of them; `complete` tells that all were looked at."""

    total: int
    names: tuple[str, ...]
    complete: bool = True


class Tree(NamedTuple):
    """A working tree at one moment. `changed` is None where it cannot be told; `lock` says where git's lock went."""

    branch: str | None = None
    commit: str | None = None
    changed: Changed | None = None
    lock: str | None = None

    def to_json(self) -> dict[str, object]:
        """The form in `run.json` and `history --json`."""
        files = self.changed
        return {
            "branch": self.branch,
            "commit": self.commit,
            "changed": None
            if files is None
            else {"count": files.total, "names": list(files.names), "complete": files.complete},
            "lock": self.lock,
        }

    @classmethod
    def from_json(cls, value: object) -> Tree | None:
        """The state in a record, or None when there is none."""
        if not isinstance(value, Mapping):
            return None
        branch, commit, lock = (_text(value.get(key)) for key in ("branch", "commit", "lock"))
        return cls(branch, commit, _files(value.get("changed")), lock)

    @property
    def sentence(self) -> str:
        """Half a sentence for people."""
        where = f"on branch {self.branch}" if self.branch is not None else "on no branch"
        at = f" at {self.commit[:12]}" if self.commit is not None else ""
        lock = f"; a lock of a killed git was moved to {self.lock}" if self.lock is not None else ""
        return f"{where}{at}, {_told(self.changed)}{lock}"


def _told(files: Changed | None) -> str:
    if files is None:
        return "which files have changed cannot be told"
    if not files.total:
        return "no tracked file has changed" if files.complete else "changed files were not all looked for"
    more = ", …" if files.total > len(files.names) else ""
    least = "" if files.complete else "at least "
    return f"{least}{files.total} changed file{'s' if files.total > 1 else ''}: {', '.join(files.names)}{more}"


def _files(value: object) -> Changed | None:
    if not isinstance(value, Mapping):
        return None
    count, names = value.get("count"), value.get("names")
    if type(count) is not int or not isinstance(names, list):
        return None
    shown = tuple(name[:_LONGEST] for name in names[:_NAMED] if isinstance(name, str))
    return Changed(count, shown, value.get("complete") is True)


def _text(value: object) -> str | None:
    return value[:_LONGEST] if isinstance(value, str) else None
