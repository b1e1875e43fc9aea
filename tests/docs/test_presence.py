"""The page about presence: its example runs, and it describes what the library offers."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kranzq import work
from kranzq.model import presence

PAGE = (Path(__file__).resolve().parents[2] / "docs/reference/presence.md").read_text()
LIMITS = (
    presence.MOST_PATH,
    presence.MOST_BRANCH,
    presence.MOST_TOPIC,
    presence.MOST_CLAIMS,
    presence.DEFAULT_MINUTES,
    presence.LEAST_MINUTES,
    presence.MOST_MINUTES,
)


@pytest.mark.slow
def test_the_example_runs(checkout: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader copies works as it is printed, and leaves no claim behind."""
    monkeypatch.chdir(checkout)
    (example,) = re.findall(r"```python\n(.*?)```", PAGE, flags=re.DOTALL)
    exec(compile(example, "presence.md", "exec"), {})

    with work.open() as store:
        assert store.presence.live() == []


def test_every_name_of_presence_is_described() -> None:
    """Whoever imports one finds it on the page."""
    of_presence = {
        name
        for name in work.__all__
        if getattr(work, name).__module__.rpartition(".")[2] in {"presence", "who"} or "resence" in name
    }

    assert of_presence >= {"NewPresence", "Presence", "Subject", "question_of"}
    assert {name for name in of_presence if not re.search(rf"\b{name}\b", PAGE)} == set()


def test_every_limit_is_told() -> None:
    """Sizes and lengths of time stand on the page as the code has them."""
    assert [limit for limit in LIMITS if not re.search(rf"\b{limit}\b", PAGE)] == []
