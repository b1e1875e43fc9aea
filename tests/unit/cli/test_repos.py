"""Several checkouts at once: each one line, whatever became of it."""

from __future__ import annotations

import errno
import json
import os
import shutil
from pathlib import Path

import pytest

from kranzq.cli.main import run
from kranzq.cli.screen.drawing import Size
from kranzq.cli.screen.repos import repos_lines
from kranzq.cli.tables import wide
from kranzq.dispatch.busy_seen import BusySeen
from kranzq.dispatch.status import COUNTED, Notice, Status
from kranzq.wiring import repos as wired
from kranzq.wiring.repos import RepoSeen


def called(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    """Exit code, output and complaints of one command line."""
    code = run(words)
    shown = capsys.readouterr()
    return code, shown.out, shown.err


@pytest.fixture
def three(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[Path]:
    """Three checkouts without git that `init` has made known."""
    found = [tmp_path / name for name in ("one", "two", "three\x1b[2J")]
    for root in found:
        root.mkdir()
        assert called(capsys, "-C", str(root), "init")[0] == 0
    return found


def test_one_that_is_gone_is_one_line_and_no_error(three: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """The others are shown as if it had never been, and `forget` takes it out."""
    shutil.rmtree(three[1])
    code, text, _ = called(capsys, "status", "--all")
    told = json.loads(called(capsys, "status", "--all", "--json")[1])["repos"]

    assert code == 0
    assert next(line for line in text.splitlines() if str(three[1]) in line).endswith("no checkout here any more")
    assert "three\\x1b[2J" in text
    assert [(one["repo"], one["gone"]) for one in told][-1] == (str(three[1]), True)
    assert [one["status"] is None for one in told] == [False, False, True]
    assert "(gone)" in called(capsys, "repos")[1]
    assert str(three[1]) in called(capsys, "repos", "forget")[1]
    assert [one["repo"] for one in json.loads(called(capsys, "repos", "list", "--json")[1])["repos"]] == sorted(
        map(str, (three[0], three[2]))
    )
    assert "None is gone" in called(capsys, "repos", "forget")[1]


@pytest.mark.parametrize("below", ["", ".git", ".kranz/queue"])
@pytest.mark.parametrize("number", [errno.EACCES, errno.EIO, errno.ELOOP, errno.ENOTCONN, errno.ESTALE])
def test_one_that_cannot_be_looked_at_stops_no_other(
    three: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, number: int, below: str
) -> None:
    """A disk that is away, or a folder of others: all are listed, and `forget` takes out what is gone, and not it."""
    shutil.rmtree(three[1])
    refused = os.path.join(three[0], below) if below else str(three[0])
    stat, lstat = os.stat, os.lstat

    def refuse(path: object, fd: int | None) -> None:
        if fd is None and isinstance(path, str) and (path + "/").startswith(refused + "/"):
            raise OSError(number, os.strerror(number), path)

    def failing(path: object, *, dir_fd: int | None = None, follow_symlinks: bool = True) -> os.stat_result:
        refuse(path, dir_fd)
        return stat(path, dir_fd=dir_fd, follow_symlinks=follow_symlinks)  # type: ignore[arg-type]

    def failing_on_links(path: object, *, dir_fd: int | None = None) -> os.stat_result:
        refuse(path, dir_fd)
        return lstat(path, dir_fd=dir_fd)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "stat", failing)
    monkeypatch.setattr(os, "lstat", failing_on_links)
    listed = called(capsys, "repos", "list", "--json")
    seen = called(capsys, "status", "--all", "--json")
    forgotten = called(capsys, "repos", "forget")
    monkeypatch.undo()

    gone = {one["repo"]: one["gone"] for one in json.loads(listed[1])["repos"]}
    assert (listed[0], seen[0], forgotten[0]) == (0, 0, 0)
    assert gone == {str(three[0]): False, str(three[1]): True, str(three[2]): False}
    assert gone == {one["repo"]: one["gone"] for one in json.loads(seen[1])["repos"]}
    assert str(three[1]) in forgotten[1]
    assert str(three[0]) not in forgotten[1]


def test_a_link_to_itself_stops_no_other(three: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    """It is listed, stays when what is gone is forgotten, and can be taken out by hand."""
    shutil.rmtree(three[0])
    three[0].symlink_to(three[0])

    assert str(three[0]) in called(capsys, "repos")[1]
    assert called(capsys, "status", "--all")[0] == 0
    assert "None is gone" in called(capsys, "repos", "forget")[1]
    assert called(capsys, "repos", "remove", str(three[0]))[0] == 0


def test_one_that_cannot_be_read_is_one_line_and_stays(
    three: list[Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may come back, so `forget` leaves it."""
    listdir = os.listdir

    def refuse(path: str | bytes | int = ".") -> object:
        if path == str(three[0]):
            raise PermissionError(13, "Permission denied", path)
        return listdir(path)

    monkeypatch.setattr(os, "listdir", refuse)
    text = called(capsys, "status", "--all")[1]

    assert "it cannot be read: Permission denied" in text
    assert "None is gone" in called(capsys, "repos", "forget")[1]


def test_a_checkout_is_added_and_removed_from_anywhere_in_it(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also by a path that is not there any more; what is not in the list is exit 3."""
    (checkout / "deep").mkdir()

    assert "is known." in called(capsys, "-C", str(checkout / "deep"), "repos", "add")[1]
    assert "already" in called(capsys, "repos", "add", str(checkout))[1]
    assert called(capsys, "-C", str(checkout / "deep"), "repos", "remove")[0] == 0
    assert called(capsys, "repos", "remove", str(checkout))[0] == 3
    called(capsys, "repos", "add", str(checkout))
    shutil.rmtree(checkout)
    assert called(capsys, "repos", "remove", str(checkout))[0] == 0
    assert called(capsys, "repos", "add", str(checkout))[0] == 3


def test_an_unsafe_list_keeps_nobody_from_working(
    checkout: Path, isolated: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`init` says that the checkout will not be in it, and does what it was asked for."""
    folder = isolated / "state" / "kranzq" / "checkouts"
    folder.mkdir(parents=True)
    folder.chmod(0o777)
    code, _, complaints = called(capsys, "-C", str(checkout), "init")

    assert code == 0
    assert "will not show this checkout" in complaints
    assert (checkout / ".kranz" / "queue").is_dir()


def test_a_server_has_no_list_of_checkouts(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for both, neither is guessed; where only the variable names one, those of this machine are meant."""
    assert called(capsys, "status", "--all", "--server", "unix:/tmp/x")[0] == 2
    monkeypatch.setenv("KRANZQ_SERVER", "unix:/tmp/x")
    assert called(capsys, "status", "--all")[0] == 0


def test_enqueue_makes_nothing_known(checkout: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Hooks call it: it does what it must, and nothing beside it."""
    assert called(capsys, "-C", str(checkout), "enqueue", "m-1", "--", "true")[0] == 0

    assert wired.known(os.environ).roots() == []


@pytest.mark.parametrize(("columns", "rows"), [(20, 4), (80, 24), (200, 60)])
def test_the_screen_of_many_fits(columns: int, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each a line where there is room, with a sign beside the colour, and what does not fit is counted."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("HOME", "/srv/home")
    counts = dict.fromkeys(COUNTED, 1)
    busy = BusySeen("keeper", "", "m-1", 1, 40.0, 1)
    found = [
        RepoSeen("/srv/person\x1b[2J", Status("", None, None, counts, None, (), warnings=(Notice("bad\n"),) * 3)),
        RepoSeen("/srv/runs", Status("", None, busy, counts, None, ())),
        RepoSeen("/srv/home/gone", None, "there is no checkout here any more", is_gone=True),
    ]
    shown = repos_lines(found * 30, Size(columns, rows), 100.0)

    assert len(shown) <= rows
    assert [line for line in shown if wide(line) > columns or "\x1b" in line] == []
    whole = "\n".join(repos_lines(found, Size(200), 100.0))
    assert " !  /srv/person\\x1b[2J" in whole
    assert "bad\\n (and 2 more)" in whole
    assert " >  /srv/runs" in whole
    assert "m-1 1 min" in whole
    assert " x  ~/gone" in whole
