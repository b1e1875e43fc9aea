"""The user's programs are told what happens, at least once, whoever dies, and nobody waits for them."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import pytest

from kranzq.wiring import hooks
from tests.flocks import is_free
from tests.laboratory import PATIENCE, REPO, Laboratory, wait_for

pytestmark = pytest.mark.slow
HOOKS = ("enqueued", "started", "ended", "parked", "drained")
TELL = """
import json, os, sys
event = json.load(sys.stdin)
marks = [name for name in os.environ if name.startswith(("KRANZ", "GIT_"))]
links = [os.path.join("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
locks = [os.readlink(one) for one in links if os.path.lexists(one) and "flock" in os.readlink(one)]
with open(sys.argv[1], "a") as file:
    file.write(json.dumps(event | {"cwd": os.getcwd(), "marks": marks, "locks": locks}) + "\\n")
"""


def configure(lab: Laboratory, *command: str, hooks: tuple[str, ...] = HOOKS) -> None:
    """Let the user's settings name a program for each hook."""
    (lab.notes / "tell.py").write_text(TELL)
    words = command or (sys.executable, "-I", "-S", str(lab.notes / "tell.py"), str(lab.notes / "events"))
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{hook} = {json.dumps(words)}\n" for hook in hooks)
    (folder / "config.toml").write_text(f"[hooks]\nwindow = 0\n{lines}")


def heard(lab: Laboratory) -> list[dict[str, Any]]:
    """What the program was told so far."""
    path = lab.notes / "events"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def hears(lab: Laboratory, count: int) -> list[dict[str, Any]]:
    """The first events, once they have been told."""
    wait_for(lambda: len(heard(lab)) >= count, f"{count} events: {heard(lab)}")
    return heard(lab)


def outbox(lab: Laboratory) -> list[Path]:
    """What lies in the outbox to be handed over."""
    return sorted(Path(os.environ["XDG_STATE_HOME"]).glob("kranzq/hooks/*/*.json"))


def test_each_hook_is_told_once(lab: Laboratory) -> None:
    """From approval to the empty queue, with the checkout as working directory and nothing of the mission's."""
    configure(lab)
    lab.run("enqueue", "m1", "--priority", "7", "--", *lab.alone("m1"))
    lab.run("drain")

    events = hears(lab, 4)
    assert [(one["event"], one.get("mission")) for one in events] == [
        ("enqueued", "m1"),
        ("started", "m1"),
        ("ended", "m1"),
        ("drained", None),
    ]
    assert (events[0]["priority"], events[2]["outcome"], events[2]["fate"], events[3]["ran"]) == (
        7,
        "succeeded",
        "retire",
        1,
    )
    assert [one["id"] for one in events[:3]] == ["m1/0/enqueued", "m1/1/started", "m1/1/ended"]
    assert {(one["repo"], one["cwd"]) for one in events} == {(lab.checkout.root, lab.checkout.root)}
    assert [one["marks"] + one["locks"] for one in events] == [[]] * 4
    wait_for(lambda: not outbox(lab), "the outbox is empty")
    lab.assert_nothing_left()


def test_a_daemon_tells_while_the_mission_runs_and_spares_its_courier(lab: Laboratory) -> None:
    """`started` does not wait for the end, a slow hook for no turn, and no courier is taken for a leftover."""
    configure(lab, "sh", "-c", f'sleep 0.1; exec "$@" < /dev/stdin >> {lab.notes}/events', "sh", "cat")
    daemon = lab.daemon()
    lab.run("enqueue", "m1", "--", *lab.alone("m1", 60))
    hears(lab, 2)
    assert lab.count("end", "m1") == 0
    lab.release()
    for number in range(2, 7):
        lab.run("enqueue", f"m{number}", "--", *lab.alone(f"m{number}"))
    wait_for(lambda: lab.count("end", "m6"), "all have run")
    expected = {f"m{number}/1/{hook}" for number in range(1, 7) for hook in ("started", "ended")}
    wait_for(lambda: expected <= {one["id"] for one in heard(lab)}, "each start and end is told")
    lab.run("stop")

    assert daemon.wait(PATIENCE) == 0
    assert len([one for one in heard(lab) if one["event"] == "ended"]) == 6
    assert "leftovers" not in lab.log()
    wait_for(lambda: not outbox(lab), "the outbox is empty")


def test_an_end_is_told_although_the_dispatcher_was_killed_before_it_settled(lab: Laboratory) -> None:
    """Whoever settles it tells it; once more is allowed, never is not."""
    configure(lab, hooks=("ended",))
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    point = "before:kranzq.dispatch.settle:emit:1"
    killed = lab.killed(point, "drain")
    assert killed == -signal.SIGKILL
    assert heard(lab) == []
    lab.run("drain")

    assert {one["id"] for one in hears(lab, 1)} == {"m1/1/ended"}
    lab.assert_nothing_left()


def test_what_a_killed_courier_left_is_told_by_the_next_dispatcher(lab: Laboratory) -> None:
    """Files in the outbox outlive everybody."""
    configure(lab, "/no/such/program")
    lab.run("enqueue", "m1", "--", *lab.alone("m1"))
    wait_for(lambda: outbox(lab) and json.loads(outbox(lab)[0].read_text())["tries"], "it was tried")
    for pid, line in lab.processes().items():
        assert "courier" in line
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    wait_for(lambda: not lab.processes(), "the courier is gone")
    file = outbox(lab)[0]
    tell = [sys.executable, "-I", "-S", str(lab.notes / "tell.py"), str(lab.notes / "events")]
    file.write_text(json.dumps(json.loads(file.read_text()) | {"command": tell, "due": 0}))
    configure(lab, hooks=())
    lab.run("drain")

    assert [one["event"] for one in hears(lab, 1)] == ["enqueued"]


def test_an_enqueue_does_not_wait_for_its_hook(lab: Laboratory) -> None:
    """A hook that hangs delays nobody."""
    configure(lab, "sleep", "600")
    lab.run("enqueue", "m1", "--", "true", seconds=PATIENCE)

    assert len(outbox(lab)) == 1


def test_a_program_of_the_checkout_is_no_hook(lab: Laboratory) -> None:
    """A relative path would run what anybody has put there: refused, with the name of the setting."""
    configure(lab, "./hook.sh")

    assert "hooks.enqueued" in lab.run("check", code=None).stdout + lab.run("check", code=None).stderr
    done = lab.run("enqueue", "m1", "--", "true")
    assert "not told" in done.stderr
    assert outbox(lab) == []


def test_what_is_enqueued_in_a_mission_is_told_when_its_run_has_ended(lab: Laboratory) -> None:
    """Nothing of the dispatcher itself has a hook, and it stays: what the mission left is told all the same."""
    configure(lab, hooks=("enqueued",))
    daemon = lab.daemon()
    inner = f"cd {REPO} && {sys.executable} -m kranzq -C {lab.root} enqueue inner -- true"
    waits = f"until [ -e {lab.notes}/release ]; do sleep 0.01; done"
    lab.run("enqueue", "outer", "--", "sh", "-c", f"{waits}; {inner}")
    hears(lab, 1)
    wait_for(lambda: not [one for one in lab.processes().values() if "courier" in one], "the courier has left")
    lab.release()

    assert [one["mission"] for one in hears(lab, 2)] == ["outer", "inner"]
    assert daemon.poll() is None
    lab.run("stop")


def test_no_courier_is_started_while_names_are_changed(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """The event lies in the outbox before the lock is free, the courier is started after it."""
    configure(lab, hooks=("enqueued",))
    started, spawn = list[tuple[bool, int]](), os.posix_spawn

    def seen(*words: Any, **named: Any) -> int:
        started.append((is_free(lab.queue / ".mutate.flock"), len(outbox(lab))))
        return spawn(*words, **named)

    monkeypatch.setattr(os, "posix_spawn", seen)
    hooks.tell_hooks(lab.checkout, os.environ)
    try:
        lab.enqueue("m1")
    finally:
        while hooks._heard:
            hooks._heard.pop()()

    assert started == [(True, 1)]
    assert [one["mission"] for one in hears(lab, 1)] == ["m1"]
