"""That a token which turns up is seen: what watches over a whole run must be able to fail."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.model.tokens import OPERATOR_PREFIX, new_token
from tests.token_watch import in_files, in_processes


@pytest.fixture
def elsewhere() -> Iterator[Path]:
    """A folder that the watch over this very run does not look into."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_a_token_in_a_file_is_seen_unless_it_is_all_that_is_there(elsewhere: Path) -> None:
    """A log shows it, a token's own file is what it is for, and one that a test made up is none."""
    token = new_token()
    (elsewhere / "log").write_text(f"before {token} after")
    (elsewhere / "ann.token").write_text(f"{token}\n")
    (elsewhere / "made-up").write_text("before kqa_" + "x" * 43)

    seen = list(in_files([elsewhere]))

    assert [line.split()[4].rstrip(",") for line in seen] == [str(elsewhere / "log")]


@pytest.mark.parametrize(
    ("words", "variables", "shown"),
    [
        ((new_token(),), {}, "in the arguments of"),
        ((), {"SECRET": new_token(OPERATOR_PREFIX)}, "in $SECRET of"),
        ((), {"KRANZQ_TOKEN": new_token(), "KRANZ_RUN_DIR": "x"}, "in $KRANZQ_TOKEN of"),
        ((), {"KRANZQ_TOKEN": new_token()}, ""),
        (("kqa_" + "x" * 43,), {}, ""),
    ],
    ids=["argument", "variable", "mission", "given", "made up"],
)
def test_a_token_of_a_process_is_seen(
    words: tuple[str, ...], variables: dict[str, str], shown: str, elsewhere: Path
) -> None:
    """In its arguments, in a variable, in a mission; not where somebody gave it to a program on purpose."""
    program = [sys.executable, "-c", "import sys; print(flush=True); sys.stdin.read()", *words]
    with subprocess.Popen(
        program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env={"MARK": str(elsewhere), **variables}
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdout.readline()
        seen = list(in_processes(os.fsencode(elsewhere)))
        process.stdin.close()

    assert [line for line in seen if shown and shown in line] == seen
    assert bool(seen) == bool(shown)
