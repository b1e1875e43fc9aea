"""The settings of a checkout count only as the very bytes that a person has allowed."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from kranzq.config.checkout import Renewal, changes, load
from kranzq.config.files import read_settings
from kranzq.errors import BadSetting, StoreUnavailable
from kranzq.events import Event, Warned, subscribe
from kranzq.trust.approval import Approvals
from kranzq.trust.settings import look_at_settings

TOML = '[mission]\ncommand = ["agent", "{mission_id}"]\n'


@pytest.fixture
def approvals(tmp_path: Path) -> Approvals:
    """What one user has allowed."""
    return Approvals(str(tmp_path / "state"))


@pytest.fixture
def root(tmp_path: Path) -> str:
    """A checkout with settings that nobody has looked at."""
    (tmp_path / "r/.kranz").mkdir(parents=True)
    (tmp_path / "r/.kranz/kranzq.toml").write_text(TOML)
    return str(tmp_path / "r")


@pytest.fixture
def warned() -> Iterator[list[str]]:
    """What was said to people."""
    said: list[str] = []

    def hear(event: Event) -> None:
        if isinstance(event, Warned):
            said.append(event.text)

    end = subscribe(hear)
    yield said
    end()


def allow(root: str, approvals: Approvals) -> None:
    """As a person does after reading."""
    approvals.allow_settings(root, look_at_settings(root, approvals).digest)


def edit(root: str, text: str) -> None:
    """Another content."""
    Path(root, ".kranz/kranzq.toml").write_text(text)


def test_nothing_counts_before_it_was_allowed(root: str, approvals: Approvals) -> None:
    """A file that came along changes no setting, and the notice says what to type."""
    seen = look_at_settings(root, approvals)

    assert seen.state == "not trusted"
    assert load({"HOME": "/nonexistent"}, seen).mission.command == ()
    assert seen.notice is not None
    assert "kranzq trust --settings" in seen.notice[1]


def test_allowed_bytes_count_until_they_are_edited(root: str, approvals: Approvals) -> None:
    """Any edit withdraws the trust; the very bytes that were allowed have it again."""
    allow(root, approvals)
    assert load({"HOME": "/nonexistent"}, look_at_settings(root, approvals)).mission.command == (
        "agent",
        "{mission_id}",
    )
    edit(root, TOML + "\n")
    changed = look_at_settings(root, approvals)
    assert changed.state == "changed"
    assert load({"HOME": "/nonexistent"}, changed).mission.command == ()
    edit(root, TOML)

    assert look_at_settings(root, approvals).state == "trusted"


def test_trust_is_of_one_checkout(root: str, approvals: Approvals, tmp_path: Path) -> None:
    """The same file in another checkout waits for a word of its own; withdrawn trust is gone."""
    allow(root, approvals)
    (tmp_path / "r").rename(tmp_path / "moved")
    assert look_at_settings(str(tmp_path / "moved"), approvals).state == "not trusted"
    (tmp_path / "moved").rename(tmp_path / "r")
    assert approvals.withdraw_settings(root)

    assert look_at_settings(root, approvals).state == "not trusted"
    assert not approvals.withdraw_settings(root)


@pytest.mark.parametrize("what", ["link", "folder", "fifo", "large", "writable", "foreign"])
def test_what_is_not_a_small_file_of_ours_is_refused(root: str, approvals: Approvals, what: str) -> None:
    """No link is followed, nothing blocks, and a file of another user or one for everybody never counts."""
    allow(root, approvals)
    path = Path(root, ".kranz/kranzq.toml")
    match what:
        case "link":
            path.rename(f"{root}/elsewhere.toml")
            path.symlink_to(f"{root}/elsewhere.toml")
        case "folder" | "fifo":
            path.unlink()
            path.mkdir() if what == "folder" else os.mkfifo(path)
        case "large":
            edit(root, "#" * 300_000)
        case "writable":
            path.chmod(0o666)
        case _:
            if os.geteuid() != 0:
                pytest.skip("needs root")
            os.chown(path, 65534, 65534)

    seen = look_at_settings(root, approvals)
    assert (seen.state, seen.data) == ("refused", b"")
    assert seen.notice is not None


def test_a_link_for_kranz_is_not_followed(root: str, approvals: Approvals) -> None:
    """Settings behind a link in the place of .kranz are none."""
    Path(root, ".kranz").rename(f"{root}/data")
    Path(root, ".kranz").symlink_to("data")

    assert look_at_settings(root, approvals).state == "none"


def test_what_a_file_changes_is_told_before_it_counts(root: str, approvals: Approvals) -> None:
    """Each setting of the file stands beside what counts now; a variable stays stronger; a wrong file is refused."""
    edit(root, TOML + 'grace_seconds = 3\n[daemon]\non_stop = "leave"\n')
    environ = {"HOME": "/nonexistent", "KRANZQ_DAEMON_ON_STOP": "wait"}
    found = {one.name: (one.now, one.then) for one in changes(environ, look_at_settings(root, approvals))}
    assert found == {
        "mission.command": ((), ("agent", "{mission_id}")),
        "mission.grace_seconds": (10, 3),
        "daemon.on_stop": ("wait", "wait"),
    }
    edit(root, "[mission]\ncomand = []\n")

    with pytest.raises(BadSetting, match=r"mission\.command"):
        changes(environ, look_at_settings(root, approvals))


def test_a_daemon_takes_what_is_allowed_and_drops_what_was_edited(
    root: str, approvals: Approvals, warned: list[str]
) -> None:
    """Asked again and again it answers only when something else counts, and says each state of the file once."""
    renewal = Renewal(root, approvals, {"HOME": "/nonexistent"})
    assert renewal.begin().mission.command == ()
    assert renewal.changed() is None
    allow(root, approvals)
    config = renewal.changed()
    assert config is not None
    assert config.mission.command == ("agent", "{mission_id}")
    assert renewal.changed() is None
    edit(root, TOML + "# more\n")
    config = renewal.changed()
    assert config is not None
    assert config.mission.command == ()
    edit(root, TOML + "# more and more\n")
    assert renewal.changed() is None

    assert [text.partition(". ")[0].replace(f"{root}/.kranz/kranzq.toml", "it") for text in warned] == [
        "it does not count: nobody has allowed it here",
        "it counts from now on",
        warned[2].partition(". ")[0].replace(f"{root}/.kranz/kranzq.toml", "it"),
        "the settings of the user count from now on",
    ]
    assert "was changed after it was allowed" in warned[2]


def test_settings_that_cannot_be_read_any_more_change_nothing(
    root: str, approvals: Approvals, warned: list[str]
) -> None:
    """When the user's own file is broken at that moment, the daemon goes on with what it has."""
    home = Path(root).parent / "home"
    (home / ".config/kranzq").mkdir(parents=True)
    renewal = Renewal(root, approvals, {"HOME": str(home)})
    renewal.begin()
    (home / ".config/kranzq/config.toml").write_text("[mission")
    allow(root, approvals)

    assert renewal.changed() is None
    assert "the settings stay as they were" in warned[-1]


@pytest.mark.parametrize("name", [".kranz", "kranzq.toml"])
def test_for_want_of_descriptors_settings_are_not_taken_for_missing_or_refused(
    root: str, approvals: Approvals, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Without them a mission would begin under others; whoever asks is told, and asks again."""
    allow(root, approvals)
    opens = os.open

    def none_left(path: str, *words: object, **named: object) -> int:
        if os.path.basename(path) == name:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return opens(path, *words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(StoreUnavailable, match="Too many open files"):
        look_at_settings(root, approvals)


def test_for_want_of_descriptors_the_users_own_file_is_not_called_unsafe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is sent to mend a good file."""
    own = tmp_path / "config.toml"
    own.write_text(TOML)

    def none_left(path: str, *_: object, **__: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)

    monkeypatch.setattr(os, "open", none_left)
    with pytest.raises(StoreUnavailable, match="Too many open files"):
        read_settings(str(own))
