"""The statements of both dialects are the same ones: same names, same parameters, same steps of the schema."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kranzq.backends.sql import statements as module
from kranzq.backends.sql.schema import COMPATIBLE
from kranzq.backends.sql.statements import commands, migrations, statements

OF_POSTGRES_ALONE = {"most", "many"}
"""How many a claim takes, and many sets of values: SQLite does one after the other."""
OF_SQLITE_ALONE = {"boot", "now", "wall"}
"""Clocks: PostgreSQL has its own."""


def parameters(command: str) -> set[str]:
    """The parameters of a command, in either style."""
    return {one or other for one, other in re.findall(r"(?<![:\w]):([a-z_]+)|%\(([a-z_]+)\)s", command)}


def test_both_dialects_have_the_same_statements() -> None:
    """What one engine can do, the other can; `NAME_many` is only a quicker way to do NAME."""
    sqlite, postgres = set(statements("sqlite")), set(statements("postgres"))

    assert postgres - sqlite == {name for name in postgres if name.removesuffix("_many") != name}
    assert sqlite <= postgres
    assert {name.removesuffix("_many") for name in postgres} == sqlite


@pytest.mark.parametrize("name", sorted(statements("sqlite")))
def test_a_statement_has_the_same_parameters_in_both_dialects(name: str) -> None:
    """Whoever calls a statement need not know the engine."""
    sqlite = parameters(statements("sqlite")[name][0]) - OF_SQLITE_ALONE
    postgres = parameters(statements("postgres")[name][0]) - OF_POSTGRES_ALONE
    later = {one for command in statements("sqlite")[name][1:] for one in parameters(command)}

    assert sqlite - OF_POSTGRES_ALONE <= postgres
    assert postgres <= sqlite | later


def test_both_dialects_have_the_same_steps() -> None:
    """A step has one number and one name, and the schema knows it."""
    sqlite = [(number, name) for number, name, _ in migrations("sqlite")]

    assert sqlite == [(number, name) for number, name, _ in migrations("postgres")]
    assert [number for number, _ in sqlite] == sorted(COMPATIBLE)


def test_a_name_that_is_given_twice_is_found_out(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A second statement of a name would silently replace the first one."""
    (tmp_path / "statements" / "sqlite").mkdir(parents=True)
    (tmp_path / "statements" / "sqlite" / "some.sql").write_text("-- name: one\nselect 1;\n-- name: one\nselect 2;\n")
    monkeypatch.setattr(module, "_HERE", str(tmp_path))
    statements.cache_clear()
    with pytest.raises(ValueError, match="two sqlite statements are named one"):
        statements("sqlite")
    statements.cache_clear()


def test_parameters_are_told_from_casts_and_percent_signs() -> None:
    """`::type` is a cast, `%` a sign of the driver, and a comment is none of its business."""
    text = "-- :nothing;\nselect :one::text, 'a%' where x = :wall;\nselect 2;\n"

    assert commands(text, "postgres") == ("select %(one)s::text, 'a%%' where x = kranzq_now()", "select 2")
    assert commands(text, "sqlite") == ("select :one::text, 'a%' where x = :wall", "select 2")
