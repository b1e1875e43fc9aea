"""The outbox in a program that lives long."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kranzq.events import Ended, Enqueued, PassedOver, afterwards, with_afterwards
from kranzq.hooks import courier, outbox, receivers
from kranzq.hooks.outbox import Outbox
from tests.laboratory import state_of, wait_for


def test_couriers_that_have_ended_are_buried(tmp_path: Path) -> None:
    """The next event finds the one before it dead and lets it go, whichever outbox had started it."""
    state, trouble = tmp_path / "state", list[str]()
    state.mkdir(0o700)

    def tell(number: int) -> int:
        outbox = Outbox(str(tmp_path), str(state), lambda: ({"enqueued": ("true",)}, 0.0), {}, trouble.append)
        before = outbox.couriers()
        outbox.hear(Enqueued(f"m{number}", number, 2))
        (pid,) = outbox.couriers().keys() - before.keys()
        wait_for(lambda: state_of(pid) == "Z", "it has handed over all that there was")
        return pid

    first, second, third = (tell(number) for number in range(3))

    assert (state_of(first), state_of(second), state_of(third)) == (None, None, "Z")
    assert trouble == []


def kept(tmp_path: Path, commands: dict[str, tuple[str, ...]], trouble: list[str]) -> Outbox:
    """An outbox whose events nobody hands over."""
    (tmp_path / "state").mkdir(0o700, exist_ok=True)
    return Outbox(str(tmp_path), str(tmp_path / "state"), lambda: (commands, 0.0), {}, trouble.append, starts=False)


def files(one: Outbox) -> list[Path]:
    """What lies in an outbox."""
    return sorted(Path(one.path).glob("*.json"))


def test_a_dead_receiver_takes_no_room_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So many wait for each; what one has no room for is counted, and named once."""
    monkeypatch.setattr(outbox, "MOST_WAITING", 2)
    trouble = list[str]()
    one = kept(tmp_path, {"enqueued": ("dead",), "ended": ("alive",)}, trouble)
    for number in range(4):
        one.hear(Enqueued(f"m{number}", number, 2))
    one.hear(Ended("m0", 1, "succeeded", "retire", ""))

    events = [json.loads(file.read_text())["event"] for file in files(one)]
    assert [(event["event"], event["mission"]) for event in events] == [
        ("enqueued", "m0"),
        ("enqueued", "m1"),
        ("ended", "m0"),
    ]
    assert (Path(one.path) / "missed").read_bytes() == b".."
    assert len(trouble) == 1
    assert "2 wait for dead" in trouble[0]


def test_what_found_no_room_was_not_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a person should do is said by each dispatcher until it was kept; it is not missed, for it comes again."""
    monkeypatch.setattr(outbox, "MOST_WAITING", 1)
    one = kept(tmp_path, {"needs_person": ("program",)}, [])
    one.hear(PassedOver("first", "unsigned", True))
    for _ in range(2):
        one.hear(PassedOver("second", "unsigned", True))
    assert len(files(one)) == 1
    assert not (Path(one.path) / "missed").exists()
    files(one)[0].unlink()
    for _ in range(2):
        one.hear(PassedOver("second", "unsigned", True))

        assert [json.loads(file.read_text())["mission"] for file in files(one)] == ["second"]


@pytest.mark.parametrize(
    "command", [("https://chat.example.org/a/secret?key=1",), ("http://chat.example.org",), ("notify", "a b")]
)
def test_outbox_and_courier_agree_on_receivers(command: tuple[str, ...]) -> None:
    """Each has the rules by itself: what is a URL, what of it is shown, and the mark of a receiver."""
    as_read = json.loads(json.dumps(command))

    assert receivers.is_url(command) == courier.is_url(as_read)
    assert receivers.mark(command) == courier.whom({"command": as_read})
    assert courier.shown(as_read) == receivers.short(command)
    assert "secret" not in courier.shown(as_read)


def test_what_is_done_afterwards_is_done_once_when_the_outermost_lock_is_free() -> None:
    """At once where none is held, and also when what was done under it failed."""
    done = list[str]()

    def act() -> None:
        done.append("done")

    def fail() -> None:
        with with_afterwards():
            with with_afterwards():
                afterwards(act)
                afterwards(act)
            afterwards(act)
            assert done == ["done"]
            raise ValueError("failed")

    afterwards(act)
    assert done == ["done"]
    with pytest.raises(ValueError, match="failed"):
        fail()

    assert done == ["done", "done"]
