"""Claims on items beside those on entries: their names, and that nothing takes them for anything else."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kranzq.backends.file.layout import item_name, parse_claim_name, parse_item_name
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from tests.factories import enqueue, make_queue

SUFFIX = "0123456789abcdef"


@pytest.mark.parametrize("mission", ["item-c15e480f-e018", "item-a.b.1", "item-1.2.0123456789abcdef"])
def test_a_name_is_parsed_as_it_was_made(mission: str) -> None:
    """Also where an id looks like the end of a name."""
    name = item_name(MissionId(mission), 4711, SUFFIX)

    assert parse_item_name(name.text) == name
    assert parse_claim_name(name.text) is None
    assert ".claimed." not in name.text


@pytest.mark.parametrize(
    "text",
    [
        ".item.x.1",
        ".item.x.1.0123",
        f".item..1.{SUFFIX}",
        f"item.x.1.{SUFFIX}",
        f".item.x.0.{SUFFIX}",
        f".item.a b.1.{SUFFIX}",
    ],
)
def test_other_names_are_none(text: str) -> None:
    """They are ignored, as every name with a leading dot."""
    assert parse_item_name(text) is None


def test_it_lies_among_the_claims_and_among_the_places(checkout: Path) -> None:
    """Whoever looks for claims, or for what a mission does, sees it; candidates do not."""
    with make_queue(checkout) as queue:
        enqueue(queue, "m-1")
        mission = MissionId("item-x")
        made = queue.claim_item(mission, 4711, SUFFIX, b"{}")
        claims, places = queue.claims(), queue.places(mission)

        assert [one.place.name for one in claims] == [f".item.x.4711.{SUFFIX}"]
        assert claims[0].inode == made.inode
        assert claims[0].place.is_item
        assert [place.state for place in places] == [State.CLAIMED]
        assert [one.entry.mission for one in queue.in_order()] == ["m-1"]
        assert queue.item_content(made) == b"{}"
        assert queue.strange_claims() == []

        queue.end_item(made)
        queue.end_item(made)

        assert queue.claims() == []
        assert not [name for name in os.listdir(queue.fd) if name.startswith(".item")]


def test_a_claim_is_made_once(checkout: Path) -> None:
    """A name that is there already is never taken over."""
    with make_queue(checkout) as queue:
        queue.claim_item(MissionId("item-x"), 4711, SUFFIX, b"{}")

        with pytest.raises(FileExistsError):
            queue.claim_item(MissionId("item-x"), 4711, SUFFIX, b"{}")
