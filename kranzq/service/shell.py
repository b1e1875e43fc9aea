"""What the shell at hand decides: the kranzq that runs in it, and what its daemon and missions find there.

A service begins with next to nothing. So that it does what the same words do in this shell, it is given the same
program, search path, places and settings; secrets never, for every program of the user may read a unit.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping

import kranzq
from kranzq.errors import KranzqError
from kranzq.runs.command import mission_environment
from kranzq.service.facts import Facts

_PLACES = ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "XDG_CACHE_HOME", "KRANZ_HOME")
_PLAIN = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "KRANZ_CLAIM_TTL")
_OURS = "KRANZQ_"
_WHERE = "import importlib.util as u; found = u.find_spec('kranzq'); print(found.origin if found else '')"
_PATIENCE_S = 60


def facts_here(root: str, environ: Mapping[str, str]) -> Facts:
    """What a unit for the checkout at `root` must tell, so that it does as this shell does."""
    program = (sys.executable, "-P", "-m", "kranzq")  # -P: nothing that lies in the working directory is imported
    umask = os.umask(0)
    os.umask(umask)
    return Facts(root, program, tuple((_environment(environ) | _python_path(environ)).items()), umask)


def left_out(environ: Mapping[str, str]) -> list[str]:
    """The settings of this shell that hold a secret, and so are not told to a service, or not in full."""
    told = _environment(environ)
    return sorted(name for name, text in environ.items() if name.startswith(_OURS) and text and told.get(name) != text)


def _environment(environ: Mapping[str, str]) -> dict[str, str]:
    without_secrets = mission_environment(environ)
    names = [*_PLAIN, *_PLACES, *sorted(name for name in environ if name.startswith(_OURS))]
    found = {name: text for name in names if (text := without_secrets.get(name))}
    return {name: text for name, text in found.items() if name not in _PLACES or os.path.isabs(text)}


def _python_path(environ: Mapping[str, str]) -> dict[str, str]:
    """Where Python must look for this kranzq, if it is not installed: it may run from a folder of sources."""
    ours = os.path.dirname(os.path.dirname(os.path.abspath(kranzq.__file__)))
    bare = {name: environ[name] for name in ("HOME", "PATH") if name in environ}
    try:
        words = [sys.executable, "-P", "-c", _WHERE]
        done = subprocess.run(words, cwd="/", env=bare, capture_output=True, timeout=_PATIENCE_S, check=True)
    except (OSError, subprocess.SubprocessError) as fault:
        raise KranzqError(
            f"{sys.executable or 'Python'} cannot be started again: {fault}.", "Install kranzq anew, then try again."
        ) from fault
    if os.fsdecode(done.stdout).rstrip("\n") == f"{ours}/kranzq/__init__.py":
        return {}
    others = [os.path.abspath(one) for one in environ.get("PYTHONPATH", "").split(os.pathsep) if one]
    return {"PYTHONPATH": os.pathsep.join(dict.fromkeys([ours, *others]))}
