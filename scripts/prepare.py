"""Make a virtual environment with kranzq in it, once: `prepare.py FOLDER [GROUP]`. Quick when nothing has changed.

Only the standard library and pip, also an old one that knows no dependency groups: their names are read here. A stamp
in the environment tells what it was made from; it is written last, so the next run finishes one that was interrupted.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import subprocess
import sys
import tomllib
import venv

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PYPROJECT = os.path.join(ROOT, "pyproject.toml")


def main(folder: str, group: str | None = None) -> None:
    """Bring the environment `folder` up to date; several callers at once wait for each other."""
    target = os.path.join(ROOT, folder)
    stamp = os.path.join(target, "kranzq.stamp")
    python = os.path.join(target, "bin", "python")
    with open(PYPROJECT, "rb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        content = file.read()
        wanted = hashlib.sha256(b"\0".join((content, target.encode(), sys.version.encode()))).hexdigest()
        found = _read(stamp)
        if found == wanted and os.path.exists(python):
            return
        print(f"Setting up {folder}: once, and after each change of pyproject.toml.", file=sys.stderr, flush=True)
        if os.path.exists(stamp):
            os.unlink(stamp)
        if found is not None or not os.path.exists(python):  # an environment of somebody's own is not emptied
            venv.create(target, clear=True, with_pip=True, symlinks=True)
        groups = tomllib.loads(content.decode())["dependency-groups"]
        _install(python, ["-e", ROOT, *(groups[group] if group else [])])
        with open(stamp, "w", encoding="ascii") as made:
            made.write(wanted)


def _read(path: str) -> str | None:
    try:
        with open(path, encoding="ascii") as file:
            return file.read()
    except FileNotFoundError:
        return None


def _install(python: str, what: list[str]) -> None:
    quiet = ["--quiet", "--quiet", "--disable-pip-version-check", "--no-input"]
    done = subprocess.run([python, "-m", "pip", "install", *quiet, *what], check=False)
    if done.returncode != 0:
        sys.exit("The packages above could not be installed: is the package index reachable?")


if __name__ == "__main__":
    main(*sys.argv[1:])
