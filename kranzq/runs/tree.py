"""A look at the working tree after a run that was ended by force; bounded, and no program is run for it."""

from __future__ import annotations

from kranzq.disk.changed import changed
from kranzq.disk.gitdir import git_folder, head
from kranzq.model.tree import Tree


def look_at_tree(root: str, lock: str | None = None) -> Tree | None:
    """The present state of a checkout; None where there is no git."""
    folder = git_folder(root)
    if folder is None:
        return None
    there = head(folder)
    return Tree(there.branch, there.commit, changed(root, folder.own), lock)
