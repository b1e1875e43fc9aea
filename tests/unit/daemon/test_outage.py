"""Promises about the pause when nothing can be started: it grows, and ends with its cause where that can be seen."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kranzq.daemon.outage import Outage
from kranzq.model.policy import BACKOFF_FIRST_S, BACKOFF_MOST_S


class Scene:
    """A clock that is moved by hand, and a checkout with or without something in the way."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now, self.in_the_way, self.looks = 1000.0, False, 0
        self.parts: Any = SimpleNamespace(jitter=lambda: 0.0, obstacle=self.obstacle)
        monkeypatch.setattr("kranzq.daemon.outage.time.monotonic", lambda: self.now)

    def obstacle(self) -> str | None:
        """What is in the way now."""
        self.looks += 1
        return "a lock" if self.in_the_way else None


@pytest.fixture
def scene(monkeypatch: pytest.MonkeyPatch) -> Scene:
    """A scene."""
    return Scene(monkeypatch)


def test_the_pause_doubles_up_to_its_bound_and_begins_anew_after_a_start(scene: Scene) -> None:
    """Five seconds at first, a quarter of an hour at most."""
    one, pauses = Outage(), []
    for _ in range(12):
        one.begin(scene.parts, "no runner")
        pauses.append(one.left(scene.parts))
        scene.now += pauses[-1]
    one.end()
    one.begin(scene.parts, "no runner")

    assert pauses[:3] == [BACKOFF_FIRST_S, BACKOFF_FIRST_S * 2, BACKOFF_FIRST_S * 4]
    assert pauses[-1] == BACKOFF_MOST_S
    assert one.left(scene.parts) == BACKOFF_FIRST_S


def test_it_is_over_as_soon_as_the_checkout_is_free_again(scene: Scene) -> None:
    """Whoever removes a lock or frees space need not wait for the next try."""
    one = Outage()
    scene.in_the_way = True
    one.begin(scene.parts, "a lock")
    before = one.left(scene.parts)
    scene.in_the_way = False

    assert before == BACKOFF_FIRST_S
    assert one.left(scene.parts) == 0


def test_a_cause_that_cannot_be_seen_is_not_looked_for(scene: Scene) -> None:
    """A missing runner is found by the next try, not by looking at the checkout again and again."""
    one = Outage()
    one.begin(scene.parts, "no runner")
    for _ in range(10):
        one.left(scene.parts)

    assert scene.looks == 1
    assert one.left(scene.parts) == BACKOFF_FIRST_S
