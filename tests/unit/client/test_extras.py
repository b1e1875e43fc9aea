"""Without an extra the verbs that need it say what to type."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
WITHOUT = "import sys; sys.modules[sys.argv[1]] = None; from kranzq.cli.main import run; sys.exit(run(sys.argv[2:]))"


@pytest.mark.parametrize(
    ("package", "words", "said"),
    [
        ("httpx2", ["work", "list", "--server", "unix:/none"], "pip install 'kranzq[client]'"),
        ("mcp", ["mcp"], "pip install 'kranzq[mcp]'"),
        ("pydantic", ["mcp"], "pip install 'kranzq[mcp]'"),
        ("uvicorn", ["serve"], "pip install 'kranzq[server]'"),
        ("psycopg", ["work", "list", "--url", "postgresql://localhost/x"], "pip install 'kranzq[postgres]'"),
        ("httpx2", ["list", "--server", "unix:/none"], "pip install 'kranzq[client]'"),
    ],
)
def test_a_missing_package_is_a_sentence(package: str, words: list[str], said: str, tmp_path: Path) -> None:
    """With the package that is missing, the pip of the very Python that runs, and 2."""
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, package, "-C", str(tmp_path), *words],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert (f"needs the package {package}" in done.stderr, said in done.stderr) == (True, True), done.stderr
    assert f"Type: {sys.executable} -m pip" in done.stderr
