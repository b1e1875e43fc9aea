"""Every verb that changes the queue of a checkout, and what trust and producers keep beside it."""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator

from tests.laboratory import wait_for
from tests.proof.scenario import FAR, Scenario, World, nothing

_WAITS = "while [ ! -e {notes}/release ]; do sleep 0.01; done; "


def queued(*missions: str, code: int = 0) -> Callable[[World], None]:
    """A queue with some missions."""

    def build(world: World) -> None:
        for mission in missions:
            world.run("enqueue", mission, *world.mission(mission, code))

    return build


def after(*steps: Callable[[World], object]) -> Callable[[World], None]:
    """One step after the other."""

    def build(world: World) -> None:
        for step in steps:
            step(world)

    return build


def verb(*words: str, code: int = 0) -> Callable[[World], None]:
    """A verb that was run before."""

    def build(world: World) -> None:
        world.run(*words, code=code)

    return build


def mission(name: str, *options: str, code: int = 0, first: str = "") -> Callable[[World], None]:
    """A mission that was queued with options."""

    def build(world: World) -> None:
        world.run("enqueue", name, *options, *world.mission(name, code, first=first))

    return build


def dropped(name: str, content: object) -> Callable[[World], None]:
    """A file that another program has dropped into the inbox."""

    def build(world: World) -> None:
        inbox = world.queue / "inbox"
        inbox.mkdir(parents=True, exist_ok=True)
        text = content if isinstance(content, str) else json.dumps(content)
        (inbox / name).write_text(text)
        os.utime(inbox / name, (1_700_000_000, 1_700_000_000))

    return build


def planted(path: str, text: str) -> Callable[[World], None]:
    """A file that somebody put below `.kranz`, long ago."""

    def build(world: World) -> None:
        target = world.kranz / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        os.utime(target, (1_700_000_000, 1_700_000_000))

    return build


def settings(text: str) -> Callable[[World], None]:
    """More settings of the user."""
    return lambda world: world.configure(text)


def serving_items(world: World) -> None:
    """Dispatchers that run items of the user's work queue beside missions, and one item."""
    command = '[work]\ncommand = ["sh", "-c", "echo $KRANZ_ITEM_TITLE >> NOTES/ran; echo fine"]\n'
    world.configure(command, 'backends = ["file", "sql"]\n')
    item = ("--title", "i-1", "--payload", "do", "--kind", "mission", "--id", "i-1")
    world.run("work", "enqueue", *item)


def killed(point: str, *words: str) -> Callable[[World], None]:
    """A verb that killed itself; what it had started has come to its end."""

    def build(world: World) -> None:
        world.killed(point, *(words or ("drain",)))
        world.await_quiet()

    return build


def keeper_killed(world: World) -> None:
    """A dispatcher and its keeper were killed while a mission ran, and the mission too."""
    world.run("enqueue", "m-1", *world.mission("m-1", first=_WAITS))
    world.killed("after:kranzq.runs.folder:RunFolder.write:3", "drain")
    wait_for(lambda: world.ran("m-1"), "the mission runs")
    record = json.loads((world.kranz / "missions" / "m-1" / "dispatch" / "001" / "run.json").read_bytes())
    for who in ("keeper", "process"):
        os.kill(record[who]["pid"], signal.SIGKILL)
    world.await_quiet()
    world.release()


def running(world: World) -> None:
    """A mission runs, under a `drain` beside everything."""
    world.start("drain")
    wait_for(lambda: world.ran("m-1") and _told(world, '"running"'), "the mission runs")


def _told(world: World, what: str) -> bool:
    record = world.kranz / "missions" / "m-1" / "dispatch" / "001" / "run.json"
    return record.exists() and what in record.read_text()


def daemon(world: World) -> None:
    """A daemon of this checkout, started beside everything."""
    world.start("daemon")
    wait_for((world.queue / ".daemon.json").exists, "the daemon says who it is")


def let_end(world: World) -> None:
    """Let what runs come to its end."""
    world.release()
    for process in world.live:
        process.wait(30)


def stopped(world: World) -> None:
    """The daemon that was told to stop leaves, and one that was not is told now."""
    if any(process.poll() is None for process in world.live):
        world.run("stop", code=None)  # it may be on its way already
    let_end(world)


def moved(world: World) -> None:
    """The checkout was moved from where its entries were signed."""
    elsewhere = world.folder / "elsewhere"
    shutil.rmtree(elsewhere, ignore_errors=True)
    world.root.rename(elsewhere)
    for one in ("m-1", "m-2", "m-3"):
        world.run("-C", str(elsewhere), "enqueue", one, *world.mission(one))
    elsewhere.rename(world.root)


HELD = _WAITS
TWO = queued("m-1", "m-2")
ENDED = after(queued("m-1"), verb("drain"), queued("m-2"))
FAILED = after(mission("m-1", "--retries", "2", code=3), verb("drain"), queued("m-2"))
LATER = after(mission("m-1", "--not-before", FAR), queued("m-2"))
PARKED = after(TWO, verb("park", "m-1", "not now"))
UNSIGNED = {"missionId": "i-1"}
BOUND = after(mission("m-1", "--source", "tracker:7"), verb("drain"), queued("m-2"))
RUNNING = after(mission("m-1", first=HELD), queued("m-2"))


def _new(name: str, *options: str) -> tuple[str, ...]:
    return ("enqueue", name, *options, *World.mission(name))


def _approving() -> Iterator[Scenario]:
    yield Scenario("init", ("init",), nothing)
    yield Scenario("notify secret", ("notify", "secret"), nothing)
    yield Scenario("notify secret --new", ("notify", "secret", "--new"), verb("notify", "secret"))
    yield Scenario("first enqueue", _new("m-2"), nothing)
    yield Scenario("enqueue in half made", _new("m-2"), nothing, begin=half_made)
    yield Scenario("enqueue", _new("m-2"), queued("m-1"))
    yield Scenario("enqueue with priority", _new("m-2", "--priority", "0"), queued("m-1"))
    yield Scenario("enqueue not before", _new("m-2", "--not-before", FAR), queued("m-1"))
    yield Scenario("enqueue after", _new("m-2", "--after", "m-1"), queued("m-1"))
    yield Scenario("enqueue anew", _new("m-1"), ENDED)
    yield Scenario("enqueue once", _new("m-2", "--once"), queued("m-1"))
    yield Scenario("enqueue with source", _new("m-2", "--source", "tracker:7"), queued("m-1"))
    yield Scenario("enqueue with file", _new("m-2", "--file", "{notes}/../home/prompt"), after(_prompt, queued("m-1")))
    yield Scenario("enqueue again", _new("m-1", "--again"), RUNNING, begin=running, end=let_end, again=None)
    yield Scenario("enqueue after crash", _new("m-2"), killed_enqueue)
    yield Scenario("enqueue admits", _new("m-2"), after(queued("m-1"), dropped("b", UNSIGNED), dropped("c", "no JSON")))
    yield Scenario(
        "enqueue settles", _new("m-1"), after(queued("m-1"), killed("before:kranzq.dispatch.settle:_decided:1"))
    )
    yield Scenario("cancel", ("cancel", "m-1", "--why", "no"), TWO)
    yield Scenario("cancel waiting", ("cancel", "m-1"), LATER)
    yield Scenario("cancel parked", ("cancel", "m-1"), PARKED)
    yield Scenario("cancel inbox", ("cancel", "i-1"), after(queued("m-1"), dropped("b", UNSIGNED)))
    yield Scenario("cancel pattern", ("cancel", "m-*", "--yes"), queued("m-1", "m-2", "m-3"), again=3)
    yield Scenario("cancel running", ("cancel", "m-1"), RUNNING, begin=running, end=let_end, again=None)


def half_made(world: World) -> None:
    """Somebody died who had begun to make the queue: its folders are there, and no disk has been told of them."""
    world.queue.mkdir(parents=True)


def _prompt(world: World) -> None:
    (world.folder / "home" / "prompt").write_text("do it\n")


def killed_enqueue(world: World) -> None:
    """Three enqueues were killed on their way: a temporary file, a lock and an entry are left."""
    world.run("enqueue", "m-1", *world.mission("m-1"))
    for at in ("change:4", "change:8", "change:10"):
        world.killed(at, "enqueue", "m-9", *world.mission("m-9"))


def _amending() -> Iterator[Scenario]:
    yield Scenario("edit priority", ("edit", "m-2", "--priority", "0"), TWO)
    yield Scenario("edit due time", ("edit", "m-1", "--not-before", FAR), TWO)
    yield Scenario("edit to now", ("edit", "m-1", "--not-before", "now"), LATER)
    yield Scenario("edit timeout", ("edit", "m-1", "--timeout", "1h"), TWO)
    yield Scenario("edit parked", ("edit", "m-1", "--priority", "0", "--timeout", "1h"), PARKED)
    yield Scenario("park", ("park", "m-1", "not now"), TWO)
    yield Scenario("park waiting", ("park", "m-1", "not now"), LATER)
    yield Scenario("unpark", ("unpark", "m-1"), PARKED)
    yield Scenario("unpark waiting", ("unpark", "m-1"), after(LATER, verb("park", "m-1")))
    yield Scenario("retry ended", ("retry", "m-1"), ENDED)
    yield Scenario("retry failed", ("retry", "m-1"), FAILED)
    yield Scenario("retry parked", ("retry", "m-1"), PARKED)
    yield Scenario("pause", ("pause", "a reason"), TWO)
    yield Scenario("resume", ("resume",), after(TWO, verb("pause", "a reason")))
    yield Scenario("stop", ("stop",), after(TWO, verb("pause")), begin=daemon, end=stopped, again=None)


def _allowing() -> Iterator[Scenario]:
    waits = after(queued("m-1"), dropped("b", UNSIGNED), queued("m-2"))
    toml = planted("kranzq.toml", "[mission]\ngrace_seconds = 3\n")
    yield Scenario("trust unsigned", ("trust", "--unsigned", "--yes"), waits)
    yield Scenario("trust settings", ("trust", "--settings", "--yes"), after(TWO, toml))
    yield Scenario("trust withdraw", ("trust", "--withdraw", "--yes"), after(waits, verb("trust", "--unsigned")))
    yield Scenario("trust here", ("trust", "--here", "--yes"), moved)
    yield Scenario("trust new key", ("trust", "--rotate-key", "--yes"), TWO, again=None)
    yield Scenario("repos add", ("repos", "add"), TWO)
    yield Scenario("repos remove", ("repos", "remove"), after(TWO, verb("init")), again=3)
    yield Scenario("source returned", ("source", "returned", "m-1"), BOUND)
    yield Scenario("source cancelled", ("source", "cancelled", "m-1"), BOUND)
    bound = "after:kranzq.dispatch.approve:_Approval._bind:1"
    orphan = killed(bound, "enqueue", "m-1", "--source", "tracker:7", "--", "true")
    yield Scenario("source reclaim", ("source", "reclaim", "--yes"), after(queued("m-2"), orphan))


def _recovering() -> Iterator[Scenario]:
    began = "after:kranzq.dispatch.turn:launch.claim:1"
    ended = "before:kranzq.dispatch.settle:_decided:1"
    decided = "after:kranzq.runs.folder:RunFolder.write:4"
    recover = ("recover", "--yes")
    yield Scenario("recover dead claim", recover, after(TWO, killed(began)))
    yield Scenario("recover ended run", recover, after(TWO, killed(ended)))
    yield Scenario("recover decided run", recover, after(TWO, killed(decided)))
    yield Scenario("recover interrupted run", recover, after(keeper_killed, queued("m-2")))
    few = settings("[retention]\nruns_per_mission = 1\nquarantine_count = 1\n")
    bad = after(planted("queue/odd.json", "odd"), planted("queue/odder.json", "odd"), verb("drain"))
    old = after(*[after(queued("m-1"), verb("drain")) for _ in range(3)], bad, queued("m-2"), few)
    yield Scenario("recover prunes", recover, old)


def _turning() -> Iterator[Scenario]:
    drain = ("drain",)
    yield Scenario("turn", drain, queued("m-1"), turn=True)
    yield Scenario("two turns", drain, TWO, turn=True)
    yield Scenario("turn that fails", drain, queued("m-1", code=3), turn=True, code=1, again=0)
    yield Scenario("turn that retries", drain, mission("m-1", "--retries", "2", code=3), turn=True)
    later = "echo 2099-01-01T00:00:00Z > $KRANZ_RUN_DIR/not-before; "
    yield Scenario("turn that defers", drain, mission("m-1", code=75, first=later), turn=True, code=75)
    slow = mission("m-1", "--timeout", "0.2s", first="sleep 30; ")
    yield Scenario("turn that times out", drain, slow, turn=True, code=1)
    missing = verb("enqueue", "m-1", "--", "/nonexistent/program")
    yield Scenario("turn not started", drain, after(missing, queued("m-2")), turn=True, code=1)
    odd = after(queued("m-1"), planted("queue/odd.json", "odd"), planted("queue/parked/lonely.json", "odd"))
    yield Scenario("turn with bad files", drain, odd, turn=True)
    inbox = after(verb("init"), verb("trust", "--unsigned"), dropped("b", UNSIGNED), dropped("c", "no JSON"))
    yield Scenario("turn admits", drain, inbox, turn=True)
    follow = after(queued("m-1"), mission("m-2", "--after", "m-1"))
    yield Scenario("turn lets go", drain, follow, turn=True)
    spoiled = after(queued("m-1", code=3), mission("m-2", "--after", "m-1"))
    yield Scenario("turn parks spoiled", drain, spoiled, turn=True, code=1)
    yield Scenario("turn of an item", drain, after(queued("m-1"), serving_items), turn=True)
    held = after(serving_items, killed("after:kranzq.runs.folder:RunFolder.write:4"), queued("m-1"))
    yield Scenario("turn after crash of an item", drain, held, turn=True)
    crashed = after(TWO, killed("after:kranzq.runs.folder:RunFolder.write:4"))
    yield Scenario("turn after crash", drain, crashed, turn=True)
    yield Scenario("turn after killed keeper", drain, after(keeper_killed, queued("m-2")), turn=True)


FILES: tuple[Scenario, ...] = (*_approving(), *_amending(), *_allowing(), *_recovering(), *_turning())
"""In the order of the command line's page."""
