"""What lies below `.kranz` and is not believed: tracked by git, a link, or another user's. Named, and nothing more.

A clone, an archive or another user can put anything there. None of it is executed, signalled or retired by; this only
tells a person that it is there.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator

from kranzq.disk.modes import is_shared
from kranzq.disk.owners import user_name
from kranzq.disk.read import open_folder
from kranzq.disk.tracked import tracked
from kranzq.model.checkout import Checkout

_RECORDS = (".busy.json", ".daemon.json", ".repo.busy.lock", ".repo.busy.mission", ".stop", ".paused", ".seq")
_OF_A_RUN = ("run.json", "exit.json", "cancel.json", "return.json")
_RUNTIME = (".kranz/queue", ".kranz/missions")
_MOST = 2000
"""So many folders of missions are looked into; a repository with more planted ones is named by the first."""


def tracked_notice(root: str) -> tuple[str, str] | None:
    """That git tracks runtime state, and what to do; None where it does not. Entries and claims are named elsewhere."""
    found = tracked(root)
    if ".kranz" in found.names:
        text = "git tracks .kranz itself: nothing in it runs or is believed"
        return text, "Take it out of git with: git rm --cached .kranz"
    names = sorted(name for name in found.names if _is_runtime(name))
    if names:
        more = f" and {len(names) - 1} more" if len(names) > 1 else ""
        what = "it never runs and is not believed" if len(names) == 1 else "they never run and are not believed"
        advice = "Take them out of git with: git rm -r --cached .kranz/queue .kranz/missions"
        return f"git tracks {names[0]}{more}: {what}", advice
    if not found.told:
        return "git's index cannot be read, so nothing runs here", "Mend it (git status tells what is wrong with it)"
    return None


def unbelieved(checkout: Checkout, kranz: int) -> list[tuple[str, str]]:
    """Records that are links or another user's, each with the reason. `kranz` is a descriptor of `.kranz`."""
    owners = {os.geteuid(), 0, os.fstat(kranz).st_uid}
    found = list(_strange(kranz, "queue", _RECORDS, owners))
    found += _strange(kranz, ".", ("missions",), owners)
    missions = _names(kranz, "missions")[:_MOST]
    found += _strange(kranz, "missions", missions, owners)
    for mission in missions:
        folder = f"missions/{mission}/dispatch"
        runs = _names(kranz, folder)[:_MOST]
        found += _strange(kranz, f"missions/{mission}", ("dispatch",), owners)
        found += _strange(kranz, folder, runs, owners)
        for run in runs:
            found += _strange(kranz, f"{folder}/{run}", _OF_A_RUN, owners)
    return [(f"{checkout.kranz}/{name}", why) for name, why in found]


def _is_runtime(name: str) -> bool:
    if name.startswith(_RUNTIME[0] + "/") and (name.endswith(".json") or ".json.claimed." in name):
        return os.path.basename(name).startswith(".")
    return any(name == folder or name.startswith(f"{folder}/") for folder in _RUNTIME)


def _strange(kranz: int, folder: str, names: Iterable[str], owners: set[int]) -> Iterator[tuple[str, str]]:
    fd = _open(kranz, folder)
    if fd is None:
        return
    try:
        shared = is_shared(fd)
        for name in names:
            try:
                seen = os.stat(name, dir_fd=fd, follow_symlinks=False)
            except OSError:
                continue
            path = name if folder == "." else f"{folder}/{name}"
            if stat.S_ISLNK(seen.st_mode):
                yield path, "it is a link"
            elif seen.st_uid not in owners and not shared:
                yield path, f"it belongs to user {user_name(seen.st_uid)}"
    finally:
        os.close(fd)


def _names(kranz: int, folder: str) -> list[str]:
    fd = _open(kranz, folder)
    if fd is None:
        return []
    try:
        return sorted(os.listdir(fd))
    finally:
        os.close(fd)


def _open(kranz: int, folder: str) -> int | None:
    """A folder below `.kranz`, reached through no link."""
    fd = os.dup(kranz)
    for name in folder.split("/"):
        try:
            inner = open_folder(name, dir_fd=fd)
        except OSError:
            return None
        finally:
            os.close(fd)
        fd = inner
    return fd
