"""Names that would drive a terminal or forge a line: every verb that prints a name shows it as one harmless line."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from kranzq.cli.main import run
from kranzq.cli.say import clean
from tests.factories import enqueue, kranz_entry, kranz_name, make_queue
from tests.laboratory import laboratory

ENDS = ("\n", "\r", "\t", "\x0b", "\x1b[2J", "\x85", "\u2028", "\u2029", "\u202e", "\u061c")
EVIL = "x" + "".join(f"{end}forged {at}" for at, end in enumerate(ENDS))


@pytest.fixture
def trouble(checkout: Path) -> Path:
    """A checkout with such names wherever a name may lie, and with one in a reason."""
    with make_queue(checkout) as queue:
        name = enqueue(queue, "m1")
        place = queue.places()[0]
        with queue.change():
            queue.set_aside(place, f"because {EVIL}")
        enqueue(queue, "m2")
    folder = checkout / ".kranz/queue"
    for where in ("", "waiting", "parked", "inbox"):
        (folder / where).mkdir(exist_ok=True)
        (folder / where / f"{EVIL}{where}.json").write_text("?")
        os.utime(folder / where / f"{EVIL}{where}.json", (1, 1))
    (folder / f"{name}.claimed.{EVIL}").write_text("?")
    (folder / kranz_name("m3", 2, 9)).write_bytes(kranz_entry(f"m3{EVIL}"))
    return checkout


def assert_harmless(text: str) -> None:
    """No line begins where a name has an end of a line, and nothing but ends of lines is a control character."""
    assert not [line for line in text.splitlines() if line.startswith("forged")], text
    assert clean(text.replace("\n", "")) == text.replace("\n", "")


@pytest.mark.parametrize("mark", ["\u061c", "\u200e", "\u200f", "\u202e", "\u2066", "\u2069"])
def test_what_turns_text_around_is_shown(mark: str) -> None:
    """Each of the marks that do."""
    assert clean(f"a{mark}b") == f"a\\u{ord(mark):04x}b"


@pytest.mark.parametrize(
    "words",
    [
        ("list", "--all"),
        ("list", "--parked"),
        ("status",),
        ("why", "m1"),
        ("why", "m3"),
        ("check",),
        ("history", "--all"),
        ("recover", "--dry-run"),
        ("trust",),
        ("source", "list"),
        ("cancel", f"*{EVIL}"),
        ("list", EVIL),
        ("why", EVIL),
        (EVIL,),
    ],
    ids=lambda words: ascii(" ".join(words))[1:20],
)
def test_no_verb_prints_a_name_as_two_lines(
    trouble: Path, capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    """In a pipe, too: what reads the lines must find one name in one line."""
    run(["-C", str(trouble), *words])
    shown = capsys.readouterr()

    assert shown.out + shown.err
    assert_harmless(shown.out)
    assert_harmless(shown.err)


def test_the_log_of_a_dispatcher_is_harmless_and_json_has_the_names(
    trouble: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is quarantined is said in one line each; whoever wants the very name asks for JSON."""
    with laboratory(trouble) as lab:
        said = lab.run("drain", code=None).stderr

    assert said.count("set aside") >= 2
    assert_harmless(said)
    run(["-C", str(trouble), "list", "--all", "--json"])
    quarantined = [one["file"] for one in json.loads(capsys.readouterr().out)["quarantined"]]
    assert f"{EVIL}.json" in quarantined
    run(["-C", str(trouble), "list", "--all"])
    assert_harmless(capsys.readouterr().out)


def test_a_checkout_with_such_a_path_is_no_better(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The path of a checkout stands in many lines, and is one name in each."""
    root = tmp_path / EVIL.replace("/", "")
    root.mkdir()

    for words in (
        ("init",),
        ("init",),
        ("enqueue", "m1"),
        ("status",),
        ("check",),
        ("recover", "--dry-run"),
    ):
        run(["-C", str(root), *words])
        shown = capsys.readouterr()
        assert_harmless(shown.out)
        assert_harmless(shown.err)
