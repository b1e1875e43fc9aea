"""Every event is a sentence for people in the log of a dispatcher."""

from __future__ import annotations

import inspect

import pytest

from kranzq import events
from kranzq.daemon.tell import sentence

KINDS = [kind for _, kind in inspect.getmembers(events, inspect.isclass) if issubclass(kind, events.Event)]
SAMPLES = {
    "str": "a-1",
    "int": 3,
    "int | None": None,
    "bool": False,
    "float": 5.0,
    "tuple[str, ...]": ("a-1",),
    "tuple[int, ...]": (3,),
}


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind is not events.Event])
def test_each_event_is_told_in_words(kind: type[events.Event]) -> None:
    """No event is printed as its fields: whoever reads the log at night is a person."""
    fields = {name: SAMPLES[str(kind.__annotations__[name])] for name in kind.field_names}
    told = sentence(kind(**fields))

    assert "{" not in told
    assert told.strip() == told != ""
