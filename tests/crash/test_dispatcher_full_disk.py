"""A dispatcher whose disk fills up at any of its changes: the mission runs once, and nothing counts as interrupted."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.laboratory import REPO, Laboratory

pytestmark = [pytest.mark.crash, pytest.mark.slow]
FIRST = 16
"""So many changes come before the claim of a first entry, and more."""
FULL_FROM = """
import importlib, json, os, sys
root, log = sys.argv[1], os.open(sys.argv[2], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
first, last = int(sys.argv[3]), int(sys.argv[4])
for name in ("kranzq.cli.main", "kranzq.cli.dispatching", "kranzq.wiring.dispatching", "tests.machines.full_disk"):
    importlib.import_module(name)
from kranzq.__main__ import main
from tests.machines.full_disk import fill
codes = []
for at in range(first, last):
    if (pid := os.fork()) == 0:
        os.dup2(log, 1)
        os.dup2(log, 2)
        sys.argv = ["kranzq", "-C", root, "drain", "--once"]
        fill(at)
        code = 70
        try:
            main()
        except SystemExit as end:
            code = end.code
        finally:
            os._exit(code)
    codes.append(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    if codes[-1] != 6:
        break
print(json.dumps(codes))
"""


def test_a_disk_that_is_full_before_go_interrupts_no_mission(lab: Laboratory) -> None:
    """Each drain finds the disk full one change later, until one of them has room enough to begin."""
    lab.enqueue("m1", *lab.alone("m1", 0.01))
    words = [sys.executable, "-c", FULL_FROM, str(lab.root), str(lab.notes / "log"), str(FIRST), "100"]

    done = subprocess.run(words, cwd=REPO, capture_output=True, text=True, check=True, timeout=100)
    codes = json.loads(done.stdout)
    lab.run("drain", code=None)

    assert set(codes[:-1]) == {6}, (codes, lab.log())
    assert lab.outcomes("m1").count("never began") > 5, (codes, lab.log())
    assert "interrupted" not in lab.outcomes("m1"), (codes, lab.outcomes("m1"), lab.log())
    assert lab.told() == ["start m1", "end m1"]
    lab.assert_nothing_left()
