"""What the package installs beside the program: the manual page, and what lets a shell complete."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kranzq.cli.main import VERBS
from tests.laboratory import REPO

SHARE = REPO / "share"


def test_the_manual_is_what_the_verbs_say() -> None:
    """Whoever changes a verb writes the page anew."""
    argv = [sys.executable, "scripts/manual.py", "--check"]
    done = subprocess.run(argv, cwd=REPO, capture_output=True, text=True, check=False)

    assert done.stdout == ""
    assert done.returncode == 0


@pytest.mark.system("man")
def test_the_manual_is_read_without_a_warning() -> None:
    """Each verb is there, and nothing in a help text is taken for a request of roff."""
    env = os.environ | {"MANWIDTH": "100", "LC_ALL": "C.UTF-8", "MANROFFSEQ": "", "MANPAGER": "cat"}
    argv = ["man", "--warnings", "-l", str(SHARE / "man/man1/kranzq.1")]
    done = subprocess.run(argv, env=env, capture_output=True, text=True, check=True)

    assert done.stderr == ""
    assert [verb for verb in VERBS if f"kranzq {verb} " not in done.stdout] == []


@pytest.mark.slow
def test_bash_completes_by_the_file_that_is_installed(tmp_path: Path) -> None:
    """As bash-completion reads it at the first TAB: verbs, and options of a verb."""
    program = tmp_path / "kranzq"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m kranzq "$@"\n')
    program.chmod(0o755)
    script = f"""
        source {SHARE}/bash-completion/completions/kranzq
        try() {{
            COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
            _kranzq_completion kranzq
            echo "${{COMPREPLY[@]}}"
        }}
        complete -p kranzq
        try kranzq hist
        try kranzq notify sec
        try kranzq enqueue --prio
    """
    env = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}", "PYTHONPATH": str(REPO)}
    bash = shutil.which("bash")
    assert bash is not None
    done = subprocess.run([bash, "--norc", "-c", script], env=env, capture_output=True, text=True, check=True, cwd="/")

    assert done.stdout.splitlines()[1:] == ["history", "secret", "--priority"]
    assert done.stderr == ""


def test_each_shell_has_its_file_and_the_package_installs_it() -> None:
    """Where each of them looks, below the prefix of the installation."""
    names = {str(path.relative_to(SHARE)) for path in SHARE.rglob("*") if path.is_file()}
    assert names == {
        "bash-completion/completions/kranzq",
        "fish/vendor_completions.d/kranzq.fish",
        "man/man1/kranzq.1",
        "zsh/site-functions/_kranzq",
    }
    assert '[tool.hatch.build.targets.wheel.shared-data]\n"share" = "share"' in (REPO / "pyproject.toml").read_text()
