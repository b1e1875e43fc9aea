"""Where a fitting goes: git's folder of scripts, an agent's settings. Asked, checked, and nothing made yet.

git is asked one question, `rev-parse --git-path hooks/NAME`, which runs nothing that a repository configures. What it
says is not believed where it leads out of the repository: a checkout that somebody else has made may name any folder.
"""

from __future__ import annotations

import os
import shlex
import stat
import subprocess
from collections.abc import Mapping

from kranzq.disk.gitdir import git_folder, is_own
from kranzq.disk.owners import user_name
from kranzq.errors import Conflict, NotFound, Refused, UnsafePath
from kranzq.fitting.kinds import Kind, Place
from kranzq.model.checkout import Checkout
from kranzq.model.frozen import frozen

_ASK = ("git", "-c", "core.fsmonitor=false", "rev-parse", "--git-path")
_OF_THE_USER = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM", "GIT_CONFIG_SYSTEM"})
"""Which settings git reads; all other variables of git's tell of another repository, or of a call that is under way."""
_PATIENCE_S = 10.0
_SHARED = "These scripts serve other repositories, too"


@frozen
class Spot:
    """The file of a fitting; `mode` is that of a new one, and `notes` are what a person should know of it."""

    path: str
    mode: int
    notes: tuple[str, ...] = ()

    @property
    def folder(self) -> str:
        """The directory that it lies in."""
        return os.path.dirname(self.path)


def spot_of(
    kind: Kind, checkout: Checkout | None, start: str, environ: Mapping[str, str], *, file: str | None, shared: bool
) -> Spot:
    """Where a fitting of that kind goes; `file` is another place than the usual one, from `start`.

    Raises NotFound, Refused, Conflict.
    """
    if file is not None:
        return Spot(os.path.join(os.path.realpath(os.path.dirname(os.path.join(start, file))), _name(file)), 0o644)
    if checkout is None:
        raise NotFound(
            f"There is no checkout at or above {start}.", "Go into one, or name the settings file with --file."
        )
    if kind.place is not Place.GIT:
        spot = Spot(f"{checkout.root}/{kind.file}", 0o644)
        if os.path.islink(spot.folder):
            raise UnsafePath(spot.folder, "it is a link, which may lead anywhere", "Name the file itself with --file.")
        return spot
    folder = os.path.realpath(_folder_of_scripts(kind, checkout, environ))
    notes = _check_folder(checkout, folder, shared=shared)
    return Spot(f"{folder}/{kind.file}", 0o755, notes)


def _name(file: str) -> str:
    name = os.path.basename(file)
    if name in {"", ".", ".."}:
        raise Conflict(f"{file} is no name of a file.", "Name the settings file with --file.")
    return name


def _folder_of_scripts(kind: Kind, checkout: Checkout, environ: Mapping[str, str]) -> str:
    """Where git looks for the script of that kind, as an absolute path.

    It is asked for the file: asked for the folder, it names the working tree for a core.hooksPath that is empty, where
    it runs nothing.
    """
    words = [*_ASK, f"hooks/{kind.file}"]
    if not checkout.has_git:
        raise NotFound(f"{checkout.root} has no git, so there are no scripts of git's.", "Type: git init, then again.")
    env = {name: text for name, text in environ.items() if not name.startswith("GIT_") or name in _OF_THE_USER}
    env |= {"GIT_OPTIONAL_LOCKS": "0", "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    try:
        done = subprocess.run(
            words,
            cwd=checkout.root,
            env=env,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_PATIENCE_S,
            check=False,
        )
    except FileNotFoundError as fault:
        raise NotFound("git was not found in PATH.", "Install git, or mend PATH, then try again.") from fault
    except (OSError, subprocess.TimeoutExpired) as fault:
        raise Refused(f"git cannot be asked: {fault}.", f"Try: {shlex.join(words)}") from fault
    told = os.fsdecode(done.stdout).removesuffix("\n")
    if done.returncode != 0 or not told:
        said = os.fsdecode(done.stderr).strip().splitlines()
        raise Refused(
            f"git does not say where its scripts lie: {said[0] if said else 'it gave no answer'}.",
            f"Try it yourself: git -C {shlex.quote(checkout.root)} rev-parse --git-path {words[-1]}",
        )
    return os.path.dirname(os.path.normpath(os.path.join(checkout.root, told)))


def _check_folder(checkout: Checkout, folder: str, *, shared: bool) -> tuple[str, ...]:
    """Whether a script may be put into that folder (its real path), and what to say of it."""
    git = git_folder(checkout.root)
    if git is None or not is_own(git, checkout.root):
        raise Refused(
            f"{checkout.git} leads to a repository that does not know this checkout.",
            "If it was moved, type: git worktree repair",
        )
    try:
        seen = os.stat(folder)
    except FileNotFoundError:
        seen = None
    if seen is not None and not stat.S_ISDIR(seen.st_mode):
        raise Conflict(
            f"{folder} is no directory: core.hooksPath switches git's scripts off.",
            "Change that first: git config --show-origin core.hooksPath",
        )
    if seen is not None and seen.st_uid != os.geteuid():
        raise Refused(f"{folder} belongs to user {user_name(seen.st_uid)}.", "Let its owner put the hook there.")
    if seen is not None and seen.st_mode & stat.S_IWOTH:
        raise Refused(f"Everybody may write to {folder}, so anybody could change what git runs.", f"chmod o-w {folder}")
    if _is_in(folder, os.path.realpath(git.common)):
        return ()
    if _is_in(folder, checkout.root):
        return ("It lies in the working tree (core.hooksPath), so whoever gets the repository gets it, too.",)
    if not shared:
        raise Refused(
            f"core.hooksPath is {folder}, outside of this repository. {_SHARED}.",
            "If you mean all of them, give --shared; if you do not know that folder, look at it first.",
        )
    return (f"{_SHARED}: {folder} is named by core.hooksPath.",)


def _is_in(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip("/") + "/")
