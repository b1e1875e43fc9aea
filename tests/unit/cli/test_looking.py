"""Promises of the looking verbs on the command line: exit codes, keys, a terminal that nothing can drive."""

from __future__ import annotations

import contextlib
import io
import json
import os
from pathlib import Path

import pytest

from kranzq.cli.main import run
from kranzq.cli.showing import _Terminal
from kranzq.cli.tables import fitted
from kranzq.disk.mounts import mount_of
from kranzq.model.outcome import Park
from tests.factories import enqueue, gone_pid, kranz_name, make_queue

MOUNTS = """\
1 0 8:1 / / rw,relatime - ext4 /dev/sda1 rw
2 1 0:5 / /proc rw,nosuid - proc proc rw,hidepid=2
3 1 0:9 / /home/a\\040b rw - nfs4 server:/b rw,vers=4.2
4 1 0:8 / /srv rw shared:7 - xfs /dev/sdb rw
5 4 0:8 / /srv ro - tmpfs tmpfs ro
"""


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and complaints of one command line."""
    code = run(words)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


def of(root: Path, *words: str) -> tuple[str, ...]:
    """A command line for a checkout."""
    return ("-C", str(root), *words)


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("list",), 0),
        (("status",), 0),
        (("history",), 0),
        (("why", "m-1"), 3),
        (("logs", "m-1"), 3),
        (("wait", "m-1"), 3),
        (("why", "../x"), 2),
        (("history", ".x"), 2),
        (("wait", "m-1", "--timeout", "soon"), 2),
        (("list", "--nonsense"), 2),
    ],
)
def test_a_checkout_without_a_queue_is_an_empty_one(
    checkout: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...], code: int
) -> None:
    """Looking before anything was enqueued is no fault, and makes nothing."""
    assert called(capsys, *of(checkout, *words))[0] == code
    assert not (checkout / ".kranz").exists()


@pytest.mark.parametrize("verb", ["list", "status", "history", "check"])
def test_outside_of_a_checkout_every_verb_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    """Exit 3, with what to do, and nothing on stdout."""
    code, out, err = called(capsys, *of(tmp_path, verb))

    assert (code, out) == (3, "")
    assert "no checkout" in err


def test_json_has_the_documented_keys(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Programs may rely on names and order of the keys."""
    with make_queue(checkout) as queue:
        enqueue(queue, "m-1")

    status = json.loads(called(capsys, *of(checkout, "status", "--json"))[1])
    listed = json.loads(called(capsys, *of(checkout, "list", "--json"))[1])
    history = json.loads(called(capsys, *of(checkout, "history", "--json"))[1])
    why = json.loads(called(capsys, *of(checkout, "why", "m-1", "--json"))[1])

    keys = "repo version daemon busy queued waiting parked quarantined inbox unsigned paused claims"
    assert list(status) == [*keys.split(), "next", "due", "waits", "warnings", "daemonHidden"]
    keys = "mission priority seq state due waitingFor signed note advice"
    assert list(listed["entries"][0]) == keys.split()
    assert history == {"runs": []}
    assert list(why) == ["mission", "state", "reasons"]
    assert [reason["reason"] for reason in why["reasons"]] == ["no daemon", "trust", "no command"]


def test_parked_ones_are_listed_with_their_reason(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`--parked` shows nothing else, `--all` shows them beside the rest."""
    with make_queue(checkout) as queue:
        enqueue(queue, "parked")
        with queue.change():
            queue.carry_out(queue.places()[0], Park("it was \x1b[2J interrupted"))
        enqueue(queue, "queued")

    only = called(capsys, *of(checkout, "list", "--parked"))[1]
    both = called(capsys, *of(checkout, "list", "--all"))[1]
    plain = called(capsys, *of(checkout, "list"))[1]

    assert "it was \\x1b[2J interrupted" in only
    assert "queued" not in only
    assert "parked" in both
    assert "queued" in both
    assert "parked" not in plain


def test_a_table_is_aligned_and_harmless(capsys: pytest.CaptureFixture[str]) -> None:
    """Names of strangers cannot break a row or drive the terminal."""
    fitted(("A", "B"), [("x\ny", "\x1b[31m"), ("long name", "z")])

    assert capsys.readouterr().out == "A          B\nx\\ny       \\x1b[31m\nlong name  z\n"


def test_a_terminal_gets_output_escaped_line_by_line() -> None:
    """Escapes, bytes that are no text and characters cut in two do no harm; ends of lines stay ends of lines."""
    shown = io.StringIO()
    terminal = _Terminal(shown)

    for piece in (b"a\x1b[31m\xff\r\nb\xe2", b"\x82\xac\rc\0"):
        terminal.data(piece)
    terminal.gap(5)

    assert shown.getvalue() == "a\\x1b[31m\N{REPLACEMENT CHARACTER}\nb€\nc\\x00\n… 5 bytes left out …\n"


@pytest.mark.parametrize(
    ("path", "kind"),
    [("/", "ext4"), ("/homely", "ext4"), ("/home/a b/repo", "nfs4"), ("/srv", "tmpfs"), ("/proc/1", "proc")],
)
def test_the_file_system_of_a_path_is_found(path: str, kind: str) -> None:
    """The innermost mount counts, of two on one place the later; names with spaces are understood."""
    mount = mount_of(path, MOUNTS)

    assert mount is not None
    assert mount.kind == kind


def test_check_names_what_is_wrong_and_what_to_do(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wrong setting and an open directory are faults, a mistyped variable and a bad file are warnings."""
    make_queue(checkout).close()
    queue = checkout / ".kranz/queue"
    (queue / kranz_name("bad")).write_text("[")
    (queue / "x.claimed.y").touch()
    (queue / f".entry.json.{gone_pid()}.0abc.tmp").touch()
    queue.chmod(0o777)
    monkeypatch.setenv("KRANZQ_MISSION_TIMEOUT", "soon")
    monkeypatch.setenv("KRANZQ_MISION_TIMEOUT", "5m")

    code, out, _ = called(capsys, *of(checkout, "check", "--json"))

    checks = json.loads(out)["checks"]
    states = {(one["name"], one["state"]) for one in checks}
    assert code == 1
    assert {("settings", "fault"), ("folder", "fault"), ("variables", "warning")} <= states
    assert {("entries", "warning"), ("claim names", "warning"), ("temporary files", "warning")} <= states
    assert all(list(one) == ["name", "state", "text", "advice"] for one in checks)
    assert all(one["advice"] for one in checks if one["state"] == "warning")


def test_check_is_content_with_a_good_checkout(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit 0, one line each, and only the missing daemon is mentioned."""
    make_queue(checkout).close()

    code, out, _ = called(capsys, *of(checkout, "check", "--json"))

    here = {"file system", "disk", "inotify", "machine id", "processes"}  # these tell of the machine that runs the test
    wrong = [one["name"] for one in json.loads(out)["checks"] if one["state"] != "ok" and one["name"] not in here]
    assert wrong == ["daemon"]
    assert code == 0


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (("kranzq", "why", ""), ["one", "two"]),
        (("kranzq", "logs", "t"), ["two"]),
        (("kranzq", "wait", "--timeout", "5m", "o"), ["one"]),
        (("kranzq", "st"), ["status", "stop"]),
        (("kranzq", "nonsense", ""), []),
    ],
)
def test_completion_offers_missions_and_verbs(
    checkout: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    typed: tuple[str, ...],
    offered: list[str],
) -> None:
    """A press of the key shows what could come next, and nothing else."""
    with make_queue(checkout) as queue:
        enqueue(queue, "one")
        enqueue(queue, "two")
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("_KRANZQ_COMPLETE", "bash_complete")
    monkeypatch.setenv("COMP_WORDS", " ".join(typed))
    monkeypatch.setenv("COMP_CWORD", str(len(typed) - 1))

    with contextlib.suppress(SystemExit):
        run([])

    shown = capsys.readouterr()
    assert [line.removeprefix("plain,") for line in shown.out.split()] == offered
    assert shown.err == ""


def test_missions_of_a_checkout_are_not_offered_for_a_server(
    checkout: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are other ones; a checkout that is named goes before the variable."""
    with make_queue(checkout) as queue:
        enqueue(queue, "one")
    monkeypatch.chdir(checkout)
    monkeypatch.setenv("KRANZQ_SERVER", "unix:/none")
    monkeypatch.setenv("_KRANZQ_COMPLETE", "bash_complete")
    for typed, offered in (("kranzq why o", ""), ("kranzq park o", ""), ("kranzq -C . why o", "plain,one")):
        monkeypatch.setenv("COMP_WORDS", typed)
        monkeypatch.setenv("COMP_CWORD", str(len(typed.split(" ")) - 1))
        with contextlib.suppress(SystemExit):
            run([])
        shown = capsys.readouterr()
        assert (shown.out.strip(), shown.err) == (offered, "")


def test_completion_makes_nothing_and_says_nothing_on_a_fault(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Outside of a checkout, or with a queue that is a link, there is nothing to offer and nothing to complain of."""
    root = tmp_path / "repo"
    (root / ".git").mkdir(parents=True)
    (root / ".kranz").symlink_to("/nowhere")
    monkeypatch.setenv("_KRANZQ_COMPLETE", "zsh_complete")
    monkeypatch.setenv("COMP_WORDS", "kranzq why ")
    monkeypatch.setenv("COMP_CWORD", "2")
    for where in (tmp_path, root):
        monkeypatch.chdir(where)
        with pytest.raises(SystemExit):
            run([])

    shown = capsys.readouterr()
    assert (shown.out.strip(), shown.err) == ("", "")
    assert sorted(os.listdir(root)) == [".git", ".kranz"]
