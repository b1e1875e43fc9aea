"""What a person sees: the screens in a real terminal, that they fit, and that nothing on them drives it."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile

import pytest

from tests.factories import gone_pid
from tests.laboratory import PATIENCE, Laboratory, wait_for
from tests.terminal import DONE, terminal

pytestmark = [pytest.mark.slow, pytest.mark.system("tmux")]
TALKS = """
import sys, time
print("\\x1b[32mcompiling\\x1b[0m \\x1b]0;evil\\x07\\u202etrap 漢字", flush=True)
time.sleep(3600)
"""
SERVES = re.compile(r"kranzq serves unix:(\S+)")
SIZES = [(80, 24), (200, 60)]


def fill(lab: Laboratory) -> None:
    """A parked mission with a hostile reason, a bad file with a hostile name, some that wait, and one that talks."""
    lab.enqueue("talks", sys.executable, "-c", TALKS, priority=1)
    for number in range(30):
        lab.enqueue(f"m-{number}")
    lab.run("park", "m-3", "the tests \x1b[2J of 漢字 \u202e fail")
    (lab.queue / "bad\x1b[31m\u202ename.json").write_text("{")
    lab.daemon()
    lab.keeper("talks")
    wait_for(lambda: "compiling" in lab.run("logs", "talks", code=None).stdout, "it has talked")


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_status_tells_what_needs_a_person_then_what_runs_then_what_waits(
    lab: Laboratory, columns: int, lines: int
) -> None:
    """It fits the terminal, at any size, and shows what is hostile instead of obeying it."""
    fill(lab)
    with terminal(columns, lines) as one:
        one.kranzq(*lab.words("status"))
        shown = one.shows("WAITS", f"{DONE} 0")

    person, runs, waits = (shown.index(title) for title in ("NEEDS YOU", "RUNS", "WAITS"))
    assert person < shown.index("m-3 is parked") < runs < shown.index("> talks") < waits < shown.index("m-0")
    assert "the tests \\x1b[2J of 漢字 \\u202e fail" in shown
    assert "bad\\x1b[31m\\u202ename.json" in shown
    assert "compiling \\x1b]0;evil\\x07\\u202etrap 漢字" in shown
    assert "memory" in shown
    assert "see all with: kranzq list" in shown


def test_without_colours_the_screen_says_the_same(lab: Laboratory) -> None:
    """No colour stands alone: the text is the same with `NO_COLOR`, and has none."""
    lab.enqueue("m-1")
    lab.run("park", "m-1", "why not")
    with terminal() as one:
        one.kranzq(*lab.words("status"))
        coloured, colours = one.shows(f"{DONE} 0"), one.raw()
        one.line("export NO_COLOR=1")
        one.kranzq(*lab.words("status"))
        plain, none = one.shows(f"{DONE} 0"), one.raw()

    def without_times(text: str) -> list[str]:
        said = text.partition(f"{DONE} 0")[0]  # the shell's next prompt comes sooner or later
        return [line for line in said.splitlines() if "kranzq 0" not in line]

    assert without_times(plain) == without_times(coloured)
    assert "\x1b[31m" in colours or "\x1b[1m\x1b[31m" in colours
    assert "\x1b[" not in none


@pytest.mark.parametrize("verb", ["status", "list"])
def test_watching_follows_what_happens_and_leaves_a_clean_terminal(lab: Laboratory, verb: str) -> None:
    """A new mission appears, another size is drawn at once, and after Ctrl-C the terminal is as it was before."""
    lab.enqueue("first")
    with terminal() as one:
        one.line("echo before")
        one.shows("before")
        one.line(f"{sys.executable} -m kranzq -C {lab.root} {verb} --watch 0.2; echo '{DONE}' $?")
        one.shows("first", never=["before"])
        assert not one.cursor()
        lab.enqueue("second")
        one.shows("first", "second")
        one.resize(50, 14)
        one.shows("first", "second")
        one.keys("C-c")
        after = one.shows(f"{DONE} 0")

        assert one.cursor()
        assert "Interrupted" not in after
        assert "before" in one.history()  # tmux may have scrolled it off when the window was made smaller
        one.line("stty -a | tr ' ' '\\n' | grep -x -e echo -e icanon | sort | tr '\\n' +")
        one.shows("echo+icanon+")


def test_watching_survives_a_queue_and_a_checkout_that_vanish(lab: Laboratory) -> None:
    """What is gone is said, and what comes back is shown again."""
    lab.enqueue("first")
    with terminal() as one:
        one.kranzq(*lab.words("status", "--watch", "0.2"))
        one.shows("first", "WAITS")
        kept = lab.root.parent / "kept"
        os.rename(lab.root / ".kranz", kept)
        one.shows("WAITS", "nothing", never=["first"])
        os.rename(kept, lab.root / ".kranz")
        one.shows("first")
        os.rename(lab.root, lab.root.parent / "elsewhere")
        one.shows("is gone", "Looking again", never=["first"])
        os.rename(lab.root.parent / "elsewhere", lab.root)
        one.shows("first")
        one.keys("q")
        one.shows(f"{DONE} 0")


def test_watching_can_be_stopped_and_ended_like_any_program(lab: Laboratory) -> None:
    """Ctrl-Z gives the shell its screen back, `fg` goes on, and a TERM leaves it clean, too."""
    lab.enqueue("first")
    with terminal() as one:
        one.line("exec bash --norc")
        one.line("PS1='$ '; clear; echo before")
        one.shows("before")
        one.line(f"{sys.executable} -m kranzq -C {lab.root} status --watch 0.2; echo over $?")
        one.shows("first", never=["before"])
        one.keys("C-z")
        one.shows("before", "Stopped")
        assert one.cursor()
        one.line("fg")
        one.shows("WAITS", never=["before"])
        one.line("")
        pids = [pid for pid, words in lab.processes().items() if "status --watch" in words and "kranzq -C" in words]
        for pid in pids:
            os.kill(pid, 15)
        one.shows("before")
        wait_for(one.cursor, "the shell has its screen back")


def test_an_id_is_never_cut(lab: Laboratory) -> None:
    """On a narrow terminal it goes on in the next line."""
    name = "m-" + "0123456789" * 8
    lab.enqueue(name)
    with terminal(40, 40) as one:
        one.kranzq(*lab.words("list"))
        shown = one.shows(f"{DONE} 0")

    assert name in "".join(line[4:].split(" ")[0] for line in shown.splitlines())


def test_in_a_pipe_nothing_is_redrawn(lab: Laboratory) -> None:
    """A screen for nobody is refused, with what to do."""
    done = lab.run("status", "--watch", code=2)

    assert "needs a terminal" in done.stderr


@pytest.mark.parametrize(("columns", "lines"), SIZES)
def test_a_daemon_tells_below_its_log_what_it_does(lab: Laboratory, columns: int, lines: int) -> None:
    """What runs and what is next, while the log goes on above it, whole; at the end the line is gone."""
    with terminal(columns, lines) as one:
        one.kranzq(*lab.words("daemon"))
        one.shows("kranzq serves", "\nidle")
        lab.enqueue("works", *lab.alone("works", 3600.0))
        one.shows("running works 0:", "nothing next")
        lab.enqueue("behind")
        one.shows("running works 0:", "next behind")
        one.resize(40, lines)
        one.shows("running works 0:", "next behind")
        lab.release()
        one.shows("behind succeeded", "\nidle")
        lab.run("pause", "for lunch")
        one.shows("paused: for lunch")
        lab.run("resume")
        one.shows("\nidle")
        one.keys("C-c")
        shown = one.shows(DONE)

        assert [line for line in shown.splitlines() if line.startswith(("idle", "running"))] == []
        assert re.search(r"(idle|running works|\[it is over\]).*\d\d:\d\d:\d\d ", shown) is None, "it garbles the log"


def test_a_daemon_that_finds_a_mission_running_tells_since_when(lab: Laboratory) -> None:
    """The clock is that of the mission, not of the daemon."""
    lab.enqueue("works", *lab.alone("works", 3600.0))
    first = lab.daemon("--on-stop", "leave")
    lab.keeper("works")
    lab.kill(first)
    with terminal() as one:
        one.kranzq(*lab.words("daemon"))
        one.shows("works runs already", "running works 0:")
        lab.release()
        one.shows("works succeeded", "\nidle")
        one.keys("C-c")
        one.shows(DONE)


def test_a_daemon_in_the_background_leaves_the_terminal_to_others(lab: Laboratory) -> None:
    """Its log is written; a line there is none."""
    with terminal() as one:
        one.line("exec bash --norc")
        one.line("PS1='$ '")
        one.type([sys.executable, "-m", "kranzq", *lab.words("daemon")], then=" &")
        one.shows("kranzq serves")
        lab.enqueue("works")
        shown = one.shows("works succeeded")
        assert [line for line in shown.splitlines() if line.startswith(("idle", "running"))] == []
        lab.run("stop")


def test_all_checkouts_are_watched_and_one_that_vanishes_is_a_line(lab: Laboratory) -> None:
    """The others go on; a daemon's start makes its checkout known."""
    lab.daemon()
    other = lab.root.parent / "other"
    other.mkdir()
    lab.run("-C", str(other), "init")
    with terminal(200, 24) as one:
        one.kranzq("status", "--all", "--watch", "0.2")
        one.shows("NEEDS YOU", "other", never=["any more"])
        os.rename(other, lab.root.parent / "elsewhere")
        one.shows("no checkout here any more")
        lab.enqueue("works", *lab.alone("works", 3600.0))
        wait_for(lambda: re.search(r"works [0-9]", one.text()), "it is seen how long it runs")
        one.keys("C-c")
        one.shows(f"{DONE} 0")
        lab.release()


def test_recovery_of_many_claims_leaves_only_its_report(lab: Laboratory) -> None:
    """Whether it lasted long enough for a bar or not: at the end there is none."""
    for number in range(60):
        lab.enqueue(f"m-{number}")
    for name in lab.names():
        os.rename(lab.queue / name, lab.queue / f"{name}.claimed.{gone_pid()}.{'0' * 16}")
    with terminal(100, 24) as one:
        one.kranzq(*lab.words("recover"))
        shown = one.shows("busy lock free", f"{DONE} 0")

        assert "━" not in shown
        assert one.cursor()


def test_a_server_s_missions_are_a_screen_too(lab: Laboratory, monkeypatch: pytest.MonkeyPatch) -> None:
    """In the words of here, with who was asked; a server that went away is said and asked again."""
    lab.enqueue("first")
    folder = tempfile.mkdtemp(prefix="kranzq-", dir="/tmp")  # a socket's path must be short
    monkeypatch.setenv("XDG_STATE_HOME", folder)
    try:
        server = lab.start([*lab.command("serve")], log="server")
        found = wait_for(lambda: SERVES.search(lab.log("server")), "it serves")
        assert found is not None
        address = f"unix:{found[1]}"
        with terminal(200, 24) as one:
            one.kranzq("status", "--server", address, "--watch", "0.2")
            one.shows("WAITS", "first", f"at {address}")
            server.terminate()
            server.wait(PATIENCE)
            one.shows("Looking again", never=["first"])
            one.keys("C-c")
            one.shows(DONE)
    finally:
        shutil.rmtree(folder)
