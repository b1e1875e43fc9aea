"""A fault ends with what to type next: whoever meets it at night must not have to look it up."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.cli.main import run

ROOT = Path(__file__).resolve().parents[3]
GENERAL = {"NotFound", "Refused", "Busy", "Conflict", "TryLater", "KranzqError"}
"""Errors whose advice is the second argument. Of UsageFault the command line names the verb's help itself."""


def without_advice() -> Iterator[str]:
    """Each place that makes such an error with a sentence alone."""
    for path in sorted((ROOT / "kranzq").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in GENERAL):
                continue
            is_open = any(isinstance(one, ast.Starred) for one in node.args) or node.keywords
            if len(node.args) < 2 and not is_open:
                yield f"{path.relative_to(ROOT)}:{node.lineno}"


def test_each_fault_is_made_with_its_advice() -> None:
    """There is a next step for each, or the sentence would end in a shrug."""
    assert list(without_advice()) == []


@pytest.mark.parametrize(
    ("words", "advice"),
    [
        (("enqueue", "m1", "--timeout", "soon", "--", "true"), "See: kranzq enqueue --help"),
        (("enqueue", "m1", "--env", "x", "--", "true"), "See: kranzq enqueue --help"),
        (("enqueue", "m1", "--file", "/no/such", "--", "true"), "See: kranzq enqueue --help"),
        (("edit", "m1", "--timeout", "soon"), "See: kranzq edit --help"),
        (("logs", "m1"), "kranzq list"),
    ],
    ids=lambda words: " ".join(words) if isinstance(words, tuple) else "",
)
def test_a_wrong_call_is_told_where_it_is_described(
    checkout: Path, words: tuple[str, ...], advice: str, capfd: pytest.CaptureFixture[str]
) -> None:
    """Also where the sentence says only what is wrong."""
    run(["-C", str(checkout), "init"])
    capfd.readouterr()
    assert run(["-C", str(checkout), *words]) in {2, 3}
    assert advice in capfd.readouterr().err


def test_a_wrong_setting_is_told_how_to_look_again(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """The file or variable is named; what is right again, `check` says."""
    monkeypatch.setenv("KRANZQ_MISSION_TIMEOUT", "soon")
    run(["-C", str(checkout), "init"])
    capfd.readouterr()
    assert run(["-C", str(checkout), "notify", "list"]) == 2
    assert "Mend it there, then: kranzq check" in capfd.readouterr().err
