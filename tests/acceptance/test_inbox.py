"""Programs in any language drop files into the inbox, and missions run."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.factories import kranz_entry
from tests.laboratory import PATIENCE, REPO, Laboratory, wait_for

pytestmark = pytest.mark.slow
RECIPE = re.search(
    r"```sh\n(.*)\n```", (REPO / "docs/howto/enqueue-from-any-language.md").read_text(), flags=re.MULTILINE
)


@pytest.fixture
def lab(checkout: Path) -> Iterator[Laboratory]:
    """A checkout in which unsigned entries may run, with a command for them."""
    with Laboratory(checkout) as one:
        one.run("init")
        one.run("trust", "--unsigned", "--yes")
        yield one


def configured(lab: Laboratory) -> dict[str, str]:
    """The environment that configures a command for missions without one."""
    return {"KRANZQ_MISSION_COMMAND": shlex.join(lab.alone("{mission_id}"))}


def drop(lab: Laboratory, name: str, content: bytes) -> None:
    """Put a file into the inbox as the page says."""
    made = lab.queue / "inbox" / f".{name}"
    made.write_bytes(content)
    made.rename(lab.queue / "inbox" / name)


def test_the_line_of_the_page_runs_a_mission(lab: Laboratory) -> None:
    """One line of shell is all that a program needs."""
    assert RECIPE is not None
    subprocess.run(["sh", "-eu", "-c", RECIPE[1]], cwd=lab.root, check=True)
    assert "fix-login" in lab.run("list").stdout
    assert "inbox" in lab.run("why", "fix-login").stdout
    lab.run("drain", env=configured(lab))

    assert lab.told() == ["start fix-login", "end fix-login"]
    assert lab.names("inbox") == []
    lab.assert_nothing_left()


def test_b29_a_daemon_wakes_for_the_inbox_even_when_it_was_replaced(lab: Laboratory) -> None:
    """What is dropped runs within moments, also in a directory that was removed and made again."""
    daemon = lab.daemon(env=configured(lab))
    drop(lab, "x", kranz_entry("m1"))
    wait_for(lambda: lab.count("end", "m1"), "the first one runs")
    shutil.rmtree(lab.queue / "inbox")
    wait_for((lab.queue / "inbox").is_dir, "the inbox is made again")
    drop(lab, "y", kranz_entry("m2"))
    wait_for(lambda: lab.count("end", "m2"), "the second one runs")
    lab.run("stop")

    assert daemon.wait(PATIENCE) == 0
    assert lab.count("start", "m1") == lab.count("start", "m2") == 1
    lab.assert_nothing_left()


def test_a_command_in_the_inbox_is_never_run(lab: Laboratory) -> None:
    """It names a mission; what runs is what the user has configured."""
    planted = ["touch", str(lab.notes / "planted")]
    content = {"missionId": "m1", "kranzq": {"id": "0" * 32, "command": planted}}
    drop(lab, "x", json.dumps(content).encode())
    lab.run("drain", env=configured(lab))

    assert lab.told() == ["start m1", "end m1"]
    assert not (lab.notes / "planted").exists()


def test_cancel_takes_what_lies_in_the_inbox(lab: Laboratory) -> None:
    """By its name and by a pattern."""
    for mission in ("m1", "m2", "other"):
        drop(lab, mission, kranz_entry(mission))

    assert json.loads(lab.run("cancel", "m1", "--json").stdout)["result"] == "removed"
    lab.run("cancel", "m*", "--yes")
    assert lab.names("inbox") == ["other"]
    assert json.loads(lab.run("status", "--json").stdout)["inbox"] == 1
