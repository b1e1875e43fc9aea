"""Producer bindings: kranz's bytes, believed whole or not at all, and never written through a link."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kranzq.backends.file.backend import FileQueue
from kranzq.errors import UnsafePath, UsageFault
from kranzq.model.ids import MissionId

MISSION = MissionId("m-1a2b3c")


@pytest.fixture
def mission(folder: Path) -> Path:
    """The mission's folder, which is not there yet."""
    return folder.parent / "missions" / MISSION


def test_a_binding_has_the_bytes_of_kranz(queue: FileQueue, mission: Path) -> None:
    """Keys, order, layout and the missing last line end are kranz's."""
    queue.bind(MISSION, "gascity", "bead-17")
    source = queue.bindings(MISSION)["bound"]

    assert (mission / "enqueue-source.json").read_text() == (
        '{\n  "schemaVersion": 1,\n  "missionId": "m-1a2b3c",\n  "producer": "gascity",\n'
        f'  "externalRef": "bead-17",\n  "createdUnixSecs": {source.created_at}\n}}'
    )
    assert queue.binding(MISSION) == ("gascity", "bead-17")


def test_a_binding_ends_under_another_name_with_the_same_bytes(queue: FileQueue, mission: Path) -> None:
    """Returned and cancelled are renames, and a second one has nothing to do."""
    for end, name in ((queue.return_source, "returned"), (queue.cancel_source, "cancelled")):
        queue.bind(MISSION, "gascity", "bead-17")
        content = (mission / "enqueue-source.json").read_bytes()

        assert end(MISSION)
        assert not end(MISSION)
        assert (mission / f"enqueue-source.{name}.json").read_bytes() == content
        assert queue.bindings(MISSION)[name].producer == "gascity"
    assert queue.binding(MISSION) is None
    assert not queue.unbind(MISSION)


@pytest.mark.parametrize(("producer", "reference"), [("", "r"), (" ", "r"), ("p", ""), ("p", "\n")])
def test_a_blank_binding_is_refused(queue: FileQueue, mission: Path, producer: str, reference: str) -> None:
    """A binding names a producer and its item, or is none."""
    with pytest.raises(UsageFault):
        queue.bind(MISSION, producer, reference)

    assert not mission.exists()


@pytest.mark.parametrize(
    "change",
    [{"schemaVersion": 2}, {"schemaVersion": None}, {"missionId": "m-other"}, {"producer": " "}, {"externalRef": 7},
     {"producer": None}],
)  # fmt: skip
def test_a_binding_counts_whole_or_not_at_all(queue: FileQueue, mission: Path, change: dict[str, object]) -> None:
    """Another version, another mission, a blank or missing text: there is no binding."""
    queue.bind(MISSION, "gascity", "bead-17")
    path = mission / "enqueue-source.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))

    assert queue.binding(MISSION) is None


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b"\0" * 50, b"[" * 8000, b"\xff"])
def test_b38_a_damaged_binding_is_none(queue: FileQueue, mission: Path, content: bytes) -> None:
    """What was cut off is no binding, and can be written anew."""
    mission.mkdir(parents=True)
    (mission / "enqueue-source.json").write_bytes(content)

    assert queue.binding(MISSION) is None
    queue.bind(MISSION, "gascity", "bead-17")
    assert queue.binding(MISSION) == ("gascity", "bead-17")


@pytest.mark.parametrize("created", [None, "x", -5, 1.5])
def test_a_binding_without_a_time_has_time_zero(queue: FileQueue, mission: Path, created: object) -> None:
    """A missing or odd time does not spoil the binding."""
    queue.bind(MISSION, "gascity", "bead-17")
    path = mission / "enqueue-source.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"createdUnixSecs": created}))

    assert queue.bindings(MISSION)["bound"].created_at == 0


def test_b49_a_mission_folder_that_is_a_link_is_refused(queue: FileQueue, mission: Path, tmp_path: Path) -> None:
    """Nothing is written, renamed or removed behind a link."""
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere/enqueue-source.json").write_text("{}")
    mission.parent.mkdir()
    mission.symlink_to(tmp_path / "elsewhere")
    for act in (queue.unbind, queue.return_source, queue.cancel_source, queue.binding):
        with pytest.raises(UnsafePath):
            act(MISSION)
    with pytest.raises(UnsafePath):
        queue.bind(MISSION, "gascity", "bead-17")

    assert os.listdir(tmp_path / "elsewhere") == ["enqueue-source.json"]
