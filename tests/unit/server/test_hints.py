"""Next steps of faults, for whoever has no command line."""

from __future__ import annotations

import pytest

from kranzq.client.asking import Ask
from kranzq.client.faults import fault_of
from kranzq.errors import NoSuchItem, NoSuchMission, PresenceFull, UsageFault
from kranzq.model.ids import MissionId
from kranzq.server.errors import Form, answer_to
from kranzq.server.hints import in_routes


@pytest.mark.parametrize(
    ("hint", "shown"),
    [
        ("See what there is: kranzq list, kranzq history", "See what there is: GET /v1/missions, GET /v1/history"),
        ("See what there is: kranzq work list", "See what there is: GET /v1/work"),
        ("See why: kranzq why m-1.x", "See why: GET /v1/missions/m-1.x/why"),
        ("Take it out first (kranzq cancel m2).", "Take it out first (POST /v1/missions/m2/cancel)."),
        ("Cancel it with: kranzq cancel m2.", "Cancel it with: POST /v1/missions/m2/cancel."),
        ("To run it once more: kranzq retry m1", "To run it once more: POST /v1/missions/m1/retry"),
        ("When it may run again: kranzq unpark m1", "When it may run again: POST /v1/missions/m1/unpark"),
        ("To set it aside: kranzq park m1", "To set it aside: POST /v1/missions/m1/park"),
        ("See: kranzq history m1", "See: GET /v1/history?mission=m1"),
        ("See which and why: kranzq list --all", "See which and why: GET /v1/missions"),
        ("Type: kranzq daemon (or once: kranzq drain)", "Type: kranzq daemon (or once: kranzq drain)"),
        ("Go on; kranzq cannot work there.", "Go on; kranzq cannot work there."),
        ("", ""),
    ],
)
def test_a_verb_becomes_the_route_that_does_the_same(hint: str, shown: str) -> None:
    """What has no route stays what a person types on that machine."""
    assert in_routes(hint) == shown


def test_both_are_told() -> None:
    """An HTTP caller reads the route, the client of the command line its verb; other forms stay as they were."""
    fault = NoSuchMission(MissionId("m1"))
    status, body, _ = answer_to(fault, Form.V1)
    assert (status, body["hint"], body["verb"]) == (404, in_routes(fault.advice), fault.advice)
    again = fault_of("there", status, body, Ask("GET", "/", dict, mission="m1"))
    assert (type(again), again.sentence, again.advice) == (NoSuchMission, fault.sentence, fault.advice)
    assert "verb" not in answer_to(UsageFault("No.", "Say it otherwise."), Form.V1)[1]
    assert "verb" not in answer_to(NoSuchItem("w-1"), Form.HOLDER)[1]
    assert "kranzq" not in str(answer_to(PresenceFull("ann", 100), Form.V1)[1]["hint"])
