"""People are told: by webhook, as one message in a storm, at least once over a kill, and no receiver holds up work."""

from __future__ import annotations

import json
import os
import signal
import stat
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kranzq.wiring.missions import Missions
from tests.laboratory import Laboratory, wait_for
from tests.receiver import Receiver, is_signed, receiver

pytestmark = pytest.mark.slow


@pytest.fixture
def hears() -> Iterator[Receiver]:
    """A receiver that takes everything."""
    with receiver() as one:
        yield one


def configure(window: float = 0, **hooks: str) -> None:
    """Let the user's settings name a URL, or a program, for each hook."""
    folder = Path(os.environ["XDG_CONFIG_HOME"]) / "kranzq"
    folder.mkdir(parents=True, exist_ok=True)
    lines = "".join(f"{hook} = {json.dumps(whom.split())}\n" for hook, whom in hooks.items())
    (folder / "config.toml").write_text(f"[hooks]\nwindow = {window}\n{lines}")


def outbox() -> list[Path]:
    """What lies in outboxes to be handed over."""
    return sorted((Path(os.environ["XDG_STATE_HOME"]) / "kranzq/hooks").glob("*/*.json"))


def told(hears: Receiver, hook: str, count: int = 1) -> list[dict[str, Any]]:
    """The events of a hook, once so many have come."""
    wait_for(lambda: len([one for one in hears.events if one["event"] == hook]) >= count, f"{count} of {hook}")
    return [one for one in hears.events if one["event"] == hook]


def test_each_event_for_people_is_posted_and_signed(lab: Laboratory, hears: Receiver) -> None:
    """Ended, failed, parked, needs a person, drained; each with a sentence, an id and a signature."""
    url = hears.url("/in?key=1")
    configure(ended=url, failed=url, parked=url, needs_person=url, drained=url)
    lab.enqueue("bad", "false")
    lab.enqueue("none", "/no/such/command")
    lab.enqueue("m1", *lab.alone("m1"))
    lab.run("drain", code=None)

    drained = told(hears, "drained")
    assert {one["mission"] for one in told(hears, "ended", 3)} >= {"bad", "m1"}
    assert [one["mission"] for one in told(hears, "failed")] == ["bad"]
    assert [one["mission"] for one in told(hears, "parked")] == ["none"]
    assert [one["mission"] for one in told(hears, "needs_person")] == ["none"]
    assert f"{lab.root.name}: bad failed (run 1)" in told(hears, "failed")[0]["text"]
    assert drained[0]["repo"] == lab.checkout.root
    key = lab.run("notify", "secret").stdout.strip()
    assert all(path == "/in?key=1" and is_signed(headers, body, key) for path, headers, body in hears.came)
    assert [headers["webhook-id"] for _, headers, _ in hears.came] == [one["id"] for one in hears.events]
    file = Path(os.environ["XDG_STATE_HOME"]) / "kranzq/hooks/key"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_failure_that_is_tried_again_is_no_news_yet(lab: Laboratory, hears: Receiver) -> None:
    """`failed` is told of the last failure, `ended` of each run."""
    configure(ended=hears.url(), failed=hears.url())
    lab.enqueue("m1", "false", retries=3)
    lab.run("drain", code=None)

    assert told(hears, "ended")[0]["fate"] == "wait"
    wait_for(lambda: not outbox(), "all is told")
    assert [one["event"] for one in hears.events] == ["ended"]


def test_what_waits_for_a_person_is_told(lab: Laboratory, hears: Receiver) -> None:
    """An unsigned entry, a bad file and a mission without a command; each says what to type."""
    configure(needs_person=hears.url())
    lab.run("init")
    (lab.queue / "000-00000000000000000007-bad.json").write_text('{"missionId": "other"}')
    (lab.queue / "001-00000000000000000008-strange.json").write_text(
        '{"missionId": "strange", "priority": 1, "enqueuedSeq": 8}'
    )
    lab.run("enqueue", "bare")
    lab.run("drain", code=None)
    wait_for(lambda: not outbox(), "all is told")

    why = {one.get("mission") or "file": one["why"] for one in told(hears, "needs_person", 3)}
    assert "kranzq trust --unsigned" in why["strange"]
    assert "command" in why["bare"]
    assert "file" in why
    lab.run("drain", code=None)
    wait_for(lambda: not outbox(), "all is told")
    assert len(hears.events) == 3  # a drain that is started each minute says it once a day


def test_a_storm_is_one_summary(lab: Laboratory, hears: Receiver) -> None:
    """The first three are told at once, all others together; none is left out, and none comes by itself."""
    hour = 3600.0
    configure(window=hour, failed=hears.url())
    for number in range(12):
        lab.enqueue(f"m{number}", "false")
    lab.run("drain", code=None)
    wait_for(lambda: len(outbox()) == 9, "three are told")
    windows = outbox()[0].parent / ".windows"
    kept = wait_for(lambda: {key: one for key, one in (lab.read(windows) or {}).items() if one[1] == 3}, "they count")
    (lab.notes / "windows").write_text(json.dumps({key: [begun - hour, many] for key, (begun, many) in kept.items()}))
    (lab.notes / "windows").replace(windows)  # the hour is over

    assert {one["mission"] for one in told(hears, "failed", 12)} == {f"m{number}" for number in range(12)}
    wait_for(lambda: not outbox(), "all is told")
    bodies = [json.loads(body) for _, _, body in hears.came]
    assert [one.get("count") for one in bodies] == [None, None, None, 9]
    assert bodies[-1]["outcomes"] == {"failed": 9}


def test_an_end_is_told_although_the_daemon_was_killed_between_it_and_the_notification(
    lab: Laboratory, hears: Receiver
) -> None:
    """The mission failed, its daemon died before anybody heard; the next daemon tells it."""
    configure(failed=hears.url())
    lab.run("enqueue", "m1", "--", "false")
    assert lab.killed("before:kranzq.dispatch.settle:emit:1", "drain") == -signal.SIGKILL
    assert hears.came == []
    lab.run("drain", code=None)

    assert {one["id"] for one in told(hears, "failed")} == {"m1/1/failed"}


def test_an_end_is_told_although_the_daemon_was_killed_before_a_courier_was_started(
    lab: Laboratory, hears: Receiver
) -> None:
    """It lies in the outbox, and the next daemon starts a courier for it before anything else."""
    configure(failed=hears.url())
    lab.run("enqueue", "m1", "--", "false")
    assert lab.killed("before:os:posix_spawn:1", "drain") == -signal.SIGKILL
    assert [json.loads(file.read_text())["event"]["id"] for file in outbox()] == ["m1/1/failed"]
    assert hears.came == []
    lab.daemon()

    assert {one["id"] for one in told(hears, "failed")} == {"m1/1/failed"}
    lab.run("stop")


def test_an_end_that_no_daemon_saw_is_told_by_the_next_one(lab: Laboratory, hears: Receiver) -> None:
    """A real daemon is killed while the mission runs; it fails with nobody there, and that is told afterwards."""
    configure(failed=hears.url())
    daemon = lab.daemon()
    lab.run("enqueue", "m1", "--", *lab.alone("m1", 60, 7))
    wait_for(lambda: lab.count("start", "m1"), "it runs")
    lab.kill(daemon)
    lab.release()
    wait_for(lambda: lab.count("end", "m1"), "it has ended")
    wait_for(lab.is_free, "its keeper is gone")
    assert hears.came == []
    lab.daemon()

    assert {one["id"] for one in told(hears, "failed")} == {"m1/1/failed"}
    lab.run("stop")


def test_what_is_parked_is_told_although_the_daemon_was_killed_right_before(lab: Laboratory, hears: Receiver) -> None:
    """It is told before the file moves, so whoever dies in between leaves it to the next one."""
    configure(parked=hears.url())
    lab.run("enqueue", "m1", "--", "/no/such/command")
    assert lab.killed("before:kranzq.backends.file.aside:emit:1", "drain") == -signal.SIGKILL
    assert hears.came == []
    lab.run("drain", code=None)

    assert {one["mission"] for one in told(hears, "parked")} == {"m1"}


def test_a_receiver_that_hangs_holds_up_no_mission(lab: Laboratory, hears: Receiver) -> None:
    """All missions run while the first request is not even answered; `status` and `check` show nothing worse."""
    hears.may_answer.clear()
    configure(ended=hears.url(), drained=hears.url())
    for number in range(5):
        lab.enqueue(f"m{number}", *lab.alone(f"m{number}"))
    lab.run("drain")

    assert [lab.count("end", f"m{number}") for number in range(5)] == [1] * 5
    wait_for(lambda: hears.came, "the courier asks")
    assert len(outbox()) == 6
    assert "6 events wait" in lab.run("notify", "list").stdout
    hears.may_answer.set()
    told(hears, "drained")


def test_a_receiver_that_is_away_is_named_and_told_later(lab: Laboratory, hears: Receiver) -> None:
    """`status` and `check` say who takes nothing and what to type; the event stays, and only the host is shown."""
    hears.answers["/secret"] = 503
    configure(failed=hears.url("/secret"))
    lab.enqueue("m1", "false")
    lab.enqueue("m2", "false")
    lab.run("drain", code=None)
    wait_for(lambda: outbox() and json.loads(outbox()[0].read_text())["tries"], "it was tried")

    for verb in ("status", "check"):
        said = lab.run(verb, code=None).stdout
        assert "it answered 503" in said
        assert "kranzq notify test" in said
        assert "/secret" not in said
    # the second event does not try a receiver that is away, however often the first one has by now
    assert {headers["webhook-id"] for _, headers, _ in hears.came} == {"m1/1/failed"}
    log = next((Path(os.environ["XDG_STATE_HOME"]) / "kranzq/hooks").glob("*/log")).read_text()
    assert "/secret" not in log


def test_a_screen_names_a_receiver_that_takes_nothing(lab: Laboratory) -> None:
    """What a pipe is told stands on a terminal, too."""
    configure(failed="/no/such/program")
    lab.enqueue("m1", "false")
    lab.run("drain", code=None)
    wait_for(lambda: outbox() and json.loads(outbox()[0].read_text())["tries"], "it was tried")

    warnings = [one.text for one in Missions.at(str(lab.root)).overview().status.warnings]
    assert any("a hook takes nothing: it could not be started" in text for text in warnings)


def test_a_receiver_that_was_mended_is_told_at_once(lab: Laboratory, tmp_path: Path) -> None:
    """Whoever has mended it tries it by hand; what waited for it need not wait for its pause, however long that is."""
    program = tmp_path / "teller"
    configure(failed=str(program))
    lab.enqueue("m1", "false")
    lab.run("drain", code=None)
    wait_for(lambda: outbox() and json.loads(outbox()[0].read_text())["tries"], "it was tried")
    waits = outbox()[0]
    (tmp_path / "later").write_text(json.dumps(json.loads(waits.read_text()) | {"due": time.time() + 800}))
    (tmp_path / "later").replace(waits)  # in one piece: a courier reads it meanwhile
    program.write_text(f"#!/bin/sh\ncat >>{tmp_path}/told\n")
    program.chmod(0o755)
    lab.run("notify", "test")

    wait_for(lambda: not outbox(), "nothing waits")
    events = [json.loads(line)["event"] for line in (tmp_path / "told").read_text().splitlines()]
    assert events == ["test", "failed"]


def test_what_waits_for_a_receiver_that_was_replaced_is_named_and_dropped(lab: Laboratory, hears: Receiver) -> None:
    """`status` says whom it waits for and what ends it; what another hook is still to be told stays."""
    hears.answers["/wrong"] = 503
    configure(failed=hears.url("/wrong"), drained="/no/such/program")
    lab.enqueue("m1", "false")
    lab.run("drain", code=None)
    wait_for(lambda: [json.loads(one.read_text())["tries"] > 0 for one in outbox()] == [True] * 2, "both were tried")
    assert "Nothing waits" in lab.run("notify", "drop").stdout
    assert "which no hook names" not in lab.run("status").stdout
    configure(failed=hears.url("/right"), drained="/no/such/program")
    lab.run("notify", "test", "failed")

    said = lab.run("status").stdout
    host = hears.url("/…")
    assert f"1 event waits for {host}, which no hook names any more and which takes nothing: it answered 503" in said
    assert "kranzq notify drop" in said
    assert "a hook takes nothing: it could not be started" in said
    assert "/no/such/program" in said
    assert json.loads(lab.run("notify", "drop", "--json").stdout) == {"dropped": [{"receiver": host, "events": 1}]}
    wait_for(lambda: len(outbox()) == 1, "it was given up")
    assert "which no hook names" not in lab.run("status").stdout
    assert "Nothing waits" in lab.run("notify", "drop").stdout
    assert {path for path, _, _ in hears.came} == {"/wrong", "/right"}


def test_bad_settings_drop_nothing(lab: Laboratory) -> None:
    """Who cannot be read may still be meant."""
    configure(failed="/no/such/program")
    lab.enqueue("m1", "false")
    lab.run("drain", code=None)
    configure(failed="./relative")

    assert "hooks.failed" in lab.run("notify", "drop", code=2).stderr
    assert len(outbox()) == 1
    assert "which no hook names" not in lab.run("status", code=None).stdout


def test_a_redirect_is_not_followed(lab: Laboratory, hears: Receiver) -> None:
    """An event goes where the user said, and nowhere else."""
    with receiver() as other:
        hears.answers["/x"] = 307
        hears.headers["Location"] = other.url("/elsewhere")
        configure(drained=hears.url())
        done = lab.run("notify", "test", code=1)

        assert "307" in done.stdout
        assert len(hears.came) == 1
        assert other.came == []


def test_a_test_is_sent_by_hand(lab: Laboratory, hears: Receiver) -> None:
    """Each configured hook is tried now, and the exit code tells; nothing is left to be told."""
    configure(failed=hears.url(), drained="/no/such/program")
    done = lab.run("notify", "test", "failed")
    assert "failed: http://127.0.0.1" in done.stdout
    assert (hears.events[0]["event"], hears.events[0]["hook"]) == ("test", "failed")
    answer = json.loads(lab.run("notify", "test", "--json", code=1).stdout)
    assert [(one["hook"], one["taken"]) for one in answer["tried"]] == [("failed", True), ("drained", False)]
    assert "could not be started" in answer["tried"][1]["why"]
    assert "/no/such/program" in lab.run("check", code=None).stdout
    assert lab.run("notify", "test", "other", code=2).stderr.count("Configured are: failed, drained") == 1
    assert outbox() == []


def test_a_clone_cannot_name_a_receiver(lab: Laboratory, hears: Receiver) -> None:
    """What a checkout brings along is told to nobody before a person has seen it; then it is."""
    lab.run("init")
    (lab.root / ".kranz/kranzq.toml").write_text(f'[hooks]\nfailed = ["{hears.url()}"]\nwindow = 0\n')
    lab.enqueue("m1", "false")
    lab.run("drain", code=None)
    assert outbox() == []
    assert lab.run("notify", "test", code=2).stderr.count("No hook is configured") == 1
    lab.run("trust", "--settings", "--yes")
    lab.enqueue("m2", "false")
    lab.run("drain", code=None)

    assert [one["mission"] for one in told(hears, "failed")] == ["m2"]


@pytest.mark.timeout(180)  # the pauses between tries are the real ones
def test_an_outbox_has_an_end_and_what_it_missed_is_told(lab: Laboratory, hears: Receiver) -> None:
    """A full outbox takes nothing more; `status` says how many were missed, and so does the next event."""
    hears.answers["/x"] = 503
    configure(failed=hears.url())
    lab.enqueue("m1", "false")
    lab.run("drain", code=None)
    wait_for(lambda: outbox() and json.loads(outbox()[0].read_text())["tries"], "it was tried")
    folder = outbox()[0].parent
    record = json.loads(outbox()[0].read_text()) | {"due": time.time() + 800, "mission": "other", "command": ["true"]}
    (folder / "a").write_text(json.dumps(record))
    tail = outbox()[0].name.split(".", 2)[2]  # the receiver that is away
    for number in range(5000):
        (folder / f"9{number:019d}.1.{tail}").hardlink_to(folder / "a")
    lab.enqueue("m2", "false")
    lab.run("drain", code=None)
    assert "1 events were told to no hook" in lab.run("status").stdout
    hears.answers.clear()
    first = outbox()[0]
    wait_for(lambda: not first.exists(), "the next one is told", seconds=100)

    assert json.loads(hears.came[-1][2])["missed"] == 1
    wait_for(lambda: not (folder / "missed.telling").exists(), "what was missed is told once")
    for file in folder.glob("9*.json"):
        file.unlink()
