"""The throw-away servers of the tests: gone with whoever started them, whatever became of him."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests import postgres
from tests.factories import ROOT, run_python
from tests.laboratory import is_alive, wait_for

pytestmark = pytest.mark.crash
STARTS = """
import sys
from tests import postgres
server = postgres.new_server()
server.make()
server.start()
print(server.folder, server.pid, flush=True)
sys.stdin.readline()
"""


@pytest.fixture(autouse=True)
def binaries() -> None:
    """Only where there is a server to start."""
    if not postgres.has_binaries():
        pytest.skip(postgres.MISSING)


def test_a_run_that_is_killed_leaves_no_server() -> None:
    """The server ends with the run, and the next run removes its folder."""
    with run_python(STARTS) as run:
        assert run.stdout is not None
        folder, pid = run.stdout.readline().split()
        assert is_alive(int(pid))
        run.kill()
    wait_for(lambda: not is_alive(int(pid)), "the server ends with its run")
    postgres.reap()

    assert not Path(folder).exists()


def test_the_script_starts_tells_and_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    """`start` prints a URL that works, also when it runs already; `stop` leaves nothing."""
    monkeypatch.setenv("KRANZQ_POSTGRES_NAME", f"test-{id(monkeypatch)}")

    def script(word: str, code: int = 0) -> str:
        words = [sys.executable, "-m", "tests.postgres", word]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        assert done.returncode == code, done.stderr
        return done.stdout.strip()

    try:
        url = script("start")
        assert script("start") == script("status") == url
        postgres.migrate(url)
    finally:
        script("stop")
    assert script("status") == "no server runs"
    assert script("nonsense", 2) == ""
