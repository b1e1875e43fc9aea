"""What git tracks never runs, whatever its signature says: entries in any place of the queue, and mission folders."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId
from kranzq.trust.approval import Approvals
from kranzq.trust.key import Keyring
from kranzq.trust.mac import sign
from kranzq.trust.may_run import Gate, PermitKind
from kranzq.trust.second_net import CANNOT_TELL, TRACKED, why_tracked

pytestmark = pytest.mark.system("git")
NAME = "002-00000000000000000007-m.json"


def entry(mission: str = "m", number: int = 7) -> Entry:
    """An entry as it is read from its place."""
    return Entry(MissionId(mission), 2, number, own=Own(id="1" * 32, command=("true",)))


def track(root: Path, name: str) -> None:
    """Put a file below the root and let git track it."""
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    subprocess.run(["git", "add", "-f", name], cwd=root, check=True)


@pytest.mark.parametrize(
    "place", [NAME, f"waiting/1767225600000.{NAME}", f"waiting/after.{NAME}", f"parked/{NAME}", f"{NAME}.claimed.7"]
)
def test_a_tracked_entry_is_known_wherever_it_lies(checkout: Path, place: str) -> None:
    """A rename inside the queue does not make another entry of it; other numbers are other entries."""
    track(checkout, f".kranz/queue/{place}")

    found = why_tracked(entry(), str(checkout))
    assert found is not None
    assert found[0] == TRACKED
    assert why_tracked(entry(number=8), str(checkout)) is None


@pytest.mark.parametrize("name", ["missions/m/plan.md", "missions/M/plan.md", "Missions/m/dispatch/001/run.json"])
def test_a_mission_whose_folder_is_tracked_never_runs(checkout: Path, name: str) -> None:
    """A folder that a clone brought along is not worked with, in any case of the letters."""
    track(checkout, f".kranz/{name}")

    assert why_tracked(entry(number=99), str(checkout)) is not None
    assert why_tracked(entry("other"), str(checkout)) is None


def test_a_signature_does_not_help_what_is_tracked(checkout: Path, tmp_path: Path) -> None:
    """An entry with the user's own good signature waits as well: a commit would bring it back again and again."""
    keys = Keyring(str(tmp_path / "state"))
    gate = Gate(keys, Approvals(str(tmp_path / "state")))
    signed = sign(entry(), str(checkout), keys.current())
    assert gate.may_run(signed, str(checkout)).kind is PermitKind.RUN
    track(checkout, f".kranz/queue/{NAME}")

    permit = gate.may_run(signed, str(checkout))
    assert (permit.kind, permit.why) == (PermitKind.WAIT, TRACKED)
    assert "git rm" in permit.advice


def test_settings_that_are_tracked_hold_up_nothing(checkout: Path) -> None:
    """A team may keep kranzq.toml and .gitignore in git: they are no entries."""
    for name in ("kranzq.toml", ".gitignore"):
        track(checkout, f".kranz/{name}")

    assert why_tracked(entry(), str(checkout)) is None


def test_an_index_that_cannot_be_read_lets_nothing_run(checkout: Path) -> None:
    """Where nobody can tell, entries wait, with the reason."""
    (checkout / ".git/index").write_bytes(b"DIRC\0\0\0\x09\0\0\0\x01 and more")

    found = why_tracked(entry(), str(checkout))
    assert found is not None
    assert found[0] == CANNOT_TELL


def test_a_tree_without_git_has_nothing_tracked(tmp_path: Path) -> None:
    """Without a repository there is nothing that a clone could have brought."""
    assert why_tracked(entry(), str(tmp_path)) is None


@pytest.mark.parametrize(
    ("name", "place"),
    [
        (f".kranz/queue/{NAME}", ".kranz/queue"),
        (".kranz/missions/m/plan.md", ".kranz/missions/m"),
        (".kranz/missions/m/dispatch/001/run.json", ".kranz/missions/m"),
    ],
)
def test_it_says_how_to_take_it_out_of_git(checkout: Path, name: str, place: str) -> None:
    """The command is whole, and about the smallest folder."""
    track(checkout, name)

    assert why_tracked(entry(), str(checkout)) == (TRACKED, f"Take it out of git with: git rm -r --cached {place}")


@pytest.mark.parametrize("folder", [".kranz", ".kranz/queue", ".kranz/missions", ".kranz/Missions/M"])
def test_what_is_tracked_as_one_thing_is_known_by_any_folder_around_it(checkout: Path, folder: str) -> None:
    """A submodule or a link in the place of a folder brings along all that lies below it."""
    path = checkout / folder
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to("/nowhere")
    subprocess.run(["git", "add", "-f", folder], cwd=checkout, check=True)

    assert why_tracked(entry(), str(checkout)) is not None
    assert (why_tracked(entry("other"), str(checkout)) is None) is (folder == ".kranz/Missions/M")


def test_an_index_that_cannot_be_read_says_what_to_do(checkout: Path) -> None:
    """And says what to do."""
    (checkout / ".git/index").write_bytes(b"DIRCnonsense" * 9)

    assert why_tracked(entry(), str(checkout)) == (
        CANNOT_TELL,
        "Mend the index (git status tells what is wrong with it)",
    )
