"""A person's file stays theirs: whoever puts something into it, root among them, gives it back as it was."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest

from kranzq.config import adding, config_path
from kranzq.disk import atomic
from kranzq.errors import Refused
from tests.laboratory import Laboratory

pytestmark = [pytest.mark.skipif(os.geteuid() != 0, reason="only root may give files away")]
THEIRS = 1000, 1001


def seen(path: Path) -> tuple[int, int, int]:
    """Whose it is, and its mode."""
    one = path.stat()
    return one.st_uid, one.st_gid, stat.S_IMODE(one.st_mode)


@pytest.mark.parametrize("kind", ["claude", "mcp"])
def test_settings_elsewhere_stay_their_owner_s(lab: Laboratory, tmp_path: Path, kind: str) -> None:
    """In and out again, as root: the person and their agent can read the file as before."""
    path = tmp_path / "settings.json"
    path.write_text("{}")
    path.chmod(0o600)
    os.chown(path, *THEIRS)
    lab.run("hook", "install", kind, "--yes", "--file", str(path))
    assert json.loads(path.read_text()) != {}
    assert seen(path) == (*THEIRS, 0o600)
    lab.run("hook", "remove", kind, "--yes", "--file", str(path))
    assert path.read_text() == "{}"
    assert seen(path) == (*THEIRS, 0o600)


def test_what_init_adds_to_stays_its_group_s() -> None:
    """The user's own settings keep a group that they were given."""
    path = Path(config_path(os.environ))
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("# mine\n")
    os.chown(path, os.geteuid(), THEIRS[1])
    path.chmod(0o640)

    assert adding.add(os.environ, {"mission": {"command": ["make"]}})
    assert seen(path) == (os.geteuid(), THEIRS[1], 0o640)


def test_who_may_not_give_a_file_back_does_not_take_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused with the reason, the file is what it was, and nothing lies beside it."""
    path = tmp_path / "settings.json"
    path.write_text("theirs")
    os.chown(path, *THEIRS)
    monkeypatch.setattr(os, "fchown", _refuse)
    fd = os.open(tmp_path, os.O_RDONLY)
    with pytest.raises(PermissionError) as caught:
        atomic.replace(fd, path.name, b"ours", sync=True, owner=atomic.owner_of(fd, path.name))
    os.close(fd)

    fault = atomic.store_fault(str(path), caught.value)
    assert isinstance(fault, Refused)
    assert "user 1000 and group 1001" in fault.sentence
    assert (path.read_text(), seen(path)[:2]) == ("theirs", THEIRS)
    assert os.listdir(tmp_path) == [path.name]


def _refuse(fd: int, uid: int, gid: int) -> None:
    raise PermissionError(1, "Operation not permitted")
