"""Keys: private, durable, made once, found after a rotation, refused when they are not safe."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import pytest

from kranzq.disk.atomic import publish
from kranzq.errors import BadSetting, Refused, StoreUnavailable
from kranzq.trust import key as module
from kranzq.trust.key import Key, Keyring, base_dir, state_dir


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A state directory that does not exist yet, nor does its parent."""
    return str(tmp_path / "home" / ".local" / "kranzq")


def keys_in(state: str) -> list[str]:
    """The names of the key files, hidden ones too."""
    return sorted(name for name in os.listdir(f"{state}/keys") if name != "current")


def test_first_use_makes_one_private_key(state: str) -> None:
    """The first key is made in private folders, whatever the umask, and found again."""
    before = os.umask(0o777)
    try:
        key = Keyring(state).current()
    finally:
        os.umask(before)

    assert Keyring(state).current() == key
    assert Keyring(state).find(key.id) == key
    assert keys_in(state) == [f"{key.id}.key"]
    for path, mode in ((state, 0o700), (f"{state}/keys", 0o700), (f"{state}/keys/{key.id}.key", 0o600)):
        assert os.stat(path).st_mode & 0o777 == mode
    assert Path(f"{state}/keys/{key.id}.key").read_text(encoding="ascii") == f"{key.secret.hex()}\n"


def test_the_id_and_the_repr_reveal_nothing() -> None:
    """Neither the short name nor the printed form of a key has its secret in it."""
    key = Key.of(b"\xab" * 32)

    assert len(key.id) == 16
    assert "abab" not in key.id
    assert "ab" * 4 not in repr(key)
    assert "\\xab" not in repr(key)


def test_looking_makes_nothing(state: str) -> None:
    """Looking for a key in an empty home finds none and makes no folder."""
    assert Keyring(state).find("0" * 16) is None
    assert Keyring(state).find_current() is None
    assert not os.path.exists(state)


def test_old_keys_are_found_after_a_rotation(state: str) -> None:
    """A rotation gives a new current key and keeps the old one."""
    ring = Keyring(state)
    old = ring.current()

    new = ring.rotate()

    assert new != old
    assert ring.current() == ring.find_current() == new
    assert ring.find(old.id) == old


def test_rotation_before_first_use(state: str) -> None:
    """Rotating in an empty home makes the first key."""
    key = Keyring(state).rotate()

    assert Keyring(state).current() == key


@pytest.mark.parametrize("key_id", ["", "..", "../current", "0" * 17, "current", "A" * 16])
def test_only_a_key_id_becomes_a_path(state: str, key_id: str) -> None:
    """A text of another form is no key's name, so no path is built from it."""
    Keyring(state).current()

    assert Keyring(state).find(key_id) is None


def test_the_slower_of_two_first_uses_takes_the_winners_key(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another process names its key first, ours is withdrawn and both use the same."""
    winner: list[Key] = []

    def publish_late(dir_fd: int, name: str, data: bytes) -> os.stat_result:
        if name == "current" and not winner:
            monkeypatch.setattr(module, "publish", publish)
            winner.append(Keyring(state).current())
        return publish(dir_fd, name, data)

    monkeypatch.setattr(module, "publish", publish_late)

    key = Keyring(state).current()

    assert [key] == winner
    assert keys_in(state) == [f"{key.id}.key"]


@pytest.mark.race
def test_processes_that_start_together_share_one_key(state: str) -> None:
    """Four processes that make the first key at the same moment all sign with the same one."""
    code = (
        "import sys; from kranzq.trust.key import Keyring; print('ready', flush=True); sys.stdin.readline();"
        "print(Keyring(sys.argv[1]).current().id)"
    )
    started = [
        subprocess.Popen([sys.executable, "-c", code, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    for process in started:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"

    for process in started:
        assert process.stdin is not None
        process.stdin.write("go\n")
        process.stdin.flush()
    ids = {process.communicate()[0].strip() for process in started}

    assert [f"{key_id}.key" for key_id in ids] == keys_in(state)


def test_a_removed_current_key_is_replaced(state: str) -> None:
    """When somebody removed the current key, the next use makes a new one."""
    old = Keyring(state).current()
    os.unlink(f"{state}/keys/{old.id}.key")

    new = Keyring(state).current()

    assert new != old
    assert Keyring(state).find_current() == new


def test_a_readable_key_is_refused_with_the_cure(state: str) -> None:
    """A key that others may read is not used; the error names it and the command that mends it."""
    key = Keyring(state).current()
    path = f"{state}/keys/{key.id}.key"
    os.chmod(path, 0o640)

    with pytest.raises(Refused) as caught:
        Keyring(state).current()
    os.chmod(path, 0o600)

    assert path in caught.value.sentence
    assert f"chmod 600 {path}" in caught.value.advice
    assert Keyring(state).current() == key


def test_a_linked_key_is_refused(state: str, tmp_path: Path) -> None:
    """A link in the place of a key is not followed."""
    key = Keyring(state).current()
    path = f"{state}/keys/{key.id}.key"
    os.rename(path, tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", path)

    with pytest.raises(Refused, match="symbolic link"):
        Keyring(state).find(key.id)


def test_another_users_key_is_refused(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that belongs to another user is not used, and the error says whose it is."""
    key = Keyring(state).current()
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)

    with pytest.raises(Refused, match=f"belongs to user {os.getuid()}"):
        Keyring(state).find(key.id)


def test_a_folder_in_which_others_may_write_is_refused(state: str) -> None:
    """Keys in a folder that others may change are not used."""
    Keyring(state).current()
    os.chmod(f"{state}/keys", 0o770)

    with pytest.raises(Refused, match="write in it") as caught:
        Keyring(state).current()

    assert "chmod go-w" in caught.value.advice


def test_a_linked_folder_is_refused(state: str, tmp_path: Path) -> None:
    """A link in the place of the key folder is not followed, for reading or for making."""
    Keyring(state).current()
    os.rename(f"{state}/keys", tmp_path / "elsewhere")
    os.symlink(tmp_path / "elsewhere", f"{state}/keys")

    for use in (Keyring(state).current, Keyring(state).find_current):
        with pytest.raises(Refused, match="cannot be opened as a directory"):
            use()


@pytest.mark.parametrize("content", [b"", b"zz" * 32, b"ab" * 31, b"ab" * 32, b"\xff" * 64])
def test_a_key_file_with_another_content_is_refused(state: str, content: bytes) -> None:
    """A key file that does not hold the key of its name is refused by name."""
    key = Keyring(state).current()
    Path(f"{state}/keys/{key.id}.key").write_bytes(content)

    with pytest.raises(Refused, match=key.id):
        Keyring(state).find(key.id)


@pytest.mark.parametrize("what", ["keys", "current", "key"])
def test_for_want_of_descriptors_nobody_is_told_to_remove_a_key(
    state: str, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """That it cannot be opened now is no fault of the key, and passes."""
    name = f"{Keyring(state).current().id}.key" if what == "key" else what
    real = os.open

    def lacking(path: str, *args: int, **rest: int) -> int:
        if os.path.basename(path) == name:
            raise OSError(errno.EMFILE, os.strerror(errno.EMFILE), path)
        return real(path, *args, **rest)

    Keyring(state).current()
    monkeypatch.setattr(os, "open", lacking)
    with pytest.raises(StoreUnavailable, match="Too many open files") as told:
        Keyring(state).find_current()

    assert "ulimit -n" in told.value.advice


def test_a_pointer_to_nothing_is_refused(state: str) -> None:
    """A file `current` that names no key is refused, not guessed about."""
    Keyring(state).current()
    Path(f"{state}/keys/current").write_bytes(b"../x\n")

    with pytest.raises(Refused, match="names no key"):
        Keyring(state).current()


def test_a_state_directory_that_cannot_be_made(tmp_path: Path) -> None:
    """A file where a directory must be is a fault of the store, named with its path."""
    (tmp_path / "file").write_text("", encoding="ascii")

    with pytest.raises(StoreUnavailable, match="keys"):
        Keyring(str(tmp_path / "file" / "kranzq")).current()


def test_endless_changes_are_given_up(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the pointer cannot be made although it is not there, the call ends with an error and leaves no key."""

    def refuse(dir_fd: int, name: str, data: bytes) -> os.stat_result:
        if name == "current":
            raise FileExistsError
        return publish(dir_fd, name, data)

    monkeypatch.setattr(module, "publish", refuse)

    with pytest.raises(StoreUnavailable):
        Keyring(state).current()
    assert keys_in(state) == []


@pytest.mark.parametrize("name", ["current", "key"])
def test_a_full_disk_is_told(state: str, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """A disk that takes no key is a fault of the store."""

    def full(dir_fd: int, given: str, data: bytes) -> os.stat_result:
        if given.endswith(name):
            raise OSError(28, "No space left on device")
        return publish(dir_fd, given, data)

    monkeypatch.setattr(module, "publish", full)

    with pytest.raises(StoreUnavailable, match="No space left"):
        Keyring(state).current()


def test_a_rotation_that_cannot_be_written_is_told(state: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When the new key cannot be made current, the old one stays current."""
    old = Keyring(state).current()

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "replace", full)

    with pytest.raises(StoreUnavailable):
        Keyring(state).rotate()
    assert Keyring(state).current() == old


def test_where_state_lies() -> None:
    """The state directory follows the XDG specification: relative values count as not set."""
    assert state_dir({"XDG_STATE_HOME": "/s/", "HOME": "/h"}) == "/s/kranzq"
    assert state_dir({"XDG_STATE_HOME": "s", "HOME": "/h/"}) == "/h/.local/state/kranzq"
    assert state_dir({"HOME": "/"}) == "/.local/state/kranzq"
    assert base_dir({}, "XDG_CONFIG_HOME", ".config").startswith("/")
    with pytest.raises(BadSetting, match="HOME"):
        state_dir({"HOME": "h"})


def test_all_keys_are_shown_the_current_one_first(tmp_path: Path) -> None:
    """Whoever rotates sees what signs, what still verifies, and which file is not safe; looking makes nothing."""
    keys = Keyring(str(tmp_path / "state"))
    assert keys.seen() == []
    assert not (tmp_path / "state").exists()
    first, second = keys.current(), keys.rotate()
    (tmp_path / "state/keys/notes.key").write_text("no key")
    (tmp_path / f"state/keys/{first.id}.key").chmod(0o644)

    seen = keys.seen()
    assert [(one.id, one.current) for one in seen] == [(second.id, True), (first.id, False)]
    assert seen[0].fault == ""
    assert "other users may read" in seen[1].fault
