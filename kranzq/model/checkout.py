"""One working tree, and where everything lies in it. The only place that spells the paths below `.kranz`."""

from __future__ import annotations

from kranzq.model.frozen import frozen

EVENTS = "events.jsonl"
"""What a kranz engine writes in the folder of a mission that it works on."""


@frozen
class Checkout:
    """A working tree: `root` is its canonical absolute path, `has_git` tells whether `.git` lies in it."""

    root: str
    has_git: bool

    @property
    def git(self) -> str:
        """The `.git` of the tree: a directory, or the file of a linked worktree or submodule."""
        return f"{self.root}/.git"

    @property
    def kranz(self) -> str:
        """The directory that kranz and kranzq share."""
        return f"{self.root}/.kranz"

    @property
    def queue(self) -> str:
        """The mission queue."""
        return f"{self.root}/.kranz/queue"

    @property
    def missions(self) -> str:
        """One folder for each mission."""
        return f"{self.root}/.kranz/missions"

    @property
    def busy_flock(self) -> str:
        """The busy lock's second half; never unlinked."""
        return f"{self.root}/.kranz/queue/.busy.flock"
