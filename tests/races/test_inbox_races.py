"""Many programs drop files while several processes look: each file is one entry, once."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.factories import PATIENT, names, run_python

pytestmark = [pytest.mark.race, pytest.mark.slow]
PRODUCERS, ADMITTERS, FILES = 8, 3, 25
PRODUCE = """
import json, os, sys
inbox, number, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
print("ready", flush=True)
sys.stdin.readline()
for one in range(count):
    made = f"{inbox}/.{number}-{one}"
    with open(made, "w") as file:
        json.dump({"missionId": f"m-{number}-{one}"}, file)
    os.rename(made, f"{inbox}/drop-{one % 3}-{number}-{one}")
"""
ADMIT = (
    PATIENT
    + """
import sys, time
from kranzq.wiring import queues
from kranzq.backend import Past
from kranzq.model.checkout import Checkout
checkout = Checkout(sys.argv[1], has_git=True)
print("ready", flush=True)
sys.stdin.readline()
until = time.monotonic() + 60
while time.monotonic() < until:
    with queues.make_queue(checkout) as queue:
        problems = queue.admit_dropped(lambda mission: Past())
        assert not problems, problems
        if len(list(queue.queued())) >= int(sys.argv[2]):
            break
"""
)


def test_b46_each_dropped_file_becomes_one_entry(checkout: Path) -> None:
    """Eight producers and three admitters: every mission is there once, with a number of its own."""
    inbox = checkout / ".kranz/queue/inbox"
    inbox.mkdir(parents=True)
    total = PRODUCERS * FILES
    processes = [run_python(PRODUCE, str(inbox), str(one), str(FILES)) for one in range(PRODUCERS)]
    processes += [run_python(ADMIT, os.path.realpath(checkout), str(total)) for _ in range(ADMITTERS)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    codes = [ended(process) for process in processes]

    assert codes == [0] * len(processes)
    entries = [name.removesuffix(".json").split("-", 2) for name in names(checkout)]
    assert sorted(mission for _, _, mission in entries) == sorted(
        f"m-{one}-{count}" for one in range(PRODUCERS) for count in range(FILES)
    )
    assert len({number for _, number, _ in entries}) == total
    assert names(checkout, "inbox") == names(checkout, "quarantine") == names(checkout, "parked") == []


def ended(process: subprocess.Popen[str]) -> int:
    """Its exit code."""
    process.communicate(timeout=90)
    return process.returncode
