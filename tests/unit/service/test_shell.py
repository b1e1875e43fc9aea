"""What a service is told of the shell from which it is installed: all that its daemon needs, and no secret."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kranzq.service import shell
from tests.laboratory import REPO

SHELL = {
    "PATH": "/usr/bin:/bin",
    "HOME": "/home/ann",
    "XDG_STATE_HOME": "/state",
    "XDG_CONFIG_HOME": "relative/counts/as/not/set",
    "KRANZQ_DAEMON_ON_STOP": "wait",
    "KRANZQ_TOKEN": "kqa_secret",
    "KRANZQ_WORK_URL": "postgresql://me:word@host/work",
    "KRANZQ_MISSION_TIMEOUT": "",
    "KRANZQ_HOOKS_FAILED": "https://example.org/hooks/secret",
    "KRANZQ_HOOKS_DRAINED": "notify-send done",
    "GIT_DIR": "/elsewhere",
    "NOTIFY_SOCKET": "/run/x",
    "EDITOR": "ed",
}


def test_places_and_settings_are_told_and_secrets_are_not() -> None:
    """The URL of a database goes without its password, and that it does is said."""
    told = dict(shell.facts_here("/srv/project", SHELL).environment)
    told.pop("PYTHONPATH", None)

    assert told == {
        "PATH": "/usr/bin:/bin",
        "XDG_STATE_HOME": "/state",
        "KRANZQ_DAEMON_ON_STOP": "wait",
        "KRANZQ_HOOKS_DRAINED": "notify-send done",
        "KRANZQ_WORK_URL": "postgresql://me@host/work",
    }
    assert shell.left_out(SHELL) == ["KRANZQ_HOOKS_FAILED", "KRANZQ_TOKEN", "KRANZQ_WORK_URL"]


def test_the_program_is_the_kranzq_that_runs() -> None:
    """Its words start the same package, from anywhere, with nothing but what the service is told."""
    facts = shell.facts_here("/srv/project", {"PATH": "/usr/bin:/bin", "PYTHONPATH": "more"})
    told = dict(facts.environment)
    words = [*facts.program[:2], "-c", "import kranzq; print(kranzq.__file__)"]
    done = subprocess.run(words, cwd="/", env=told, capture_output=True, text=True, check=True, timeout=30)

    assert facts.program == (sys.executable, "-P", "-m", "kranzq")
    assert done.stdout.strip() == f"{REPO}/kranzq/__init__.py"
    if "PYTHONPATH" in told:
        assert told["PYTHONPATH"].split(os.pathsep) == [str(REPO), os.path.abspath("more")]


def test_an_installed_kranzq_needs_no_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Missions inherit the service's variables: where Python finds kranzq by itself, none is made for it."""
    monkeypatch.setattr(shell, "_WHERE", f"print({str(REPO / 'kranzq/__init__.py')!r})")

    assert "PYTHONPATH" not in dict(shell.facts_here("/srv/project", SHELL).environment)


def test_the_umask_is_the_shells() -> None:
    """It is looked at, and stays as it is."""
    before = os.umask(0o027)
    try:
        assert shell.facts_here("/srv/project", SHELL).umask == 0o027
        assert os.umask(0o027) == 0o027
    finally:
        os.umask(before)
