"""What the room of trust tells people: which file, what is wrong with it, what to type next. Word for word."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import pytest

from kranzq.errors import BadSetting, KranzqError, NotFound, UnsafePath
from kranzq.model.entry import Entry, Own
from kranzq.model.ids import MissionId
from kranzq.model.tokens import new_token
from kranzq.trust import approval as approval_module
from kranzq.trust import key as key_module
from kranzq.trust import operator_key as operator_module
from kranzq.trust.approval import Approvals
from kranzq.trust.key import Key, Keyring, base_dir, open_private
from kranzq.trust.mac import resign, sign
from kranzq.trust.may_run import Gate, Permit, PermitKind
from kranzq.trust.operator_key import OperatorKey
from kranzq.trust.settings import SettingsSeen, look_at_settings
from kranzq.trust.token_file import kept_in

ROOT = "/home/ada/project"
ENTRY = Entry(MissionId("m-1"), own=Own("0" * 32, command=("make",)))


@pytest.fixture
def state(tmp_path: Path) -> str:
    """A state directory with one key."""
    state = str(tmp_path / "kranzq")
    Keyring(state).current()
    return state


def told(call: Callable[[], object]) -> tuple[str, str]:
    """The sentence and the advice with which a call is refused."""
    with pytest.raises(KranzqError) as caught:
        call()
    return caught.value.sentence, caught.value.advice


def full(*_: object, **__: object) -> NoReturn:
    """What a full disk answers."""
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def permit_of(state: str, entry: Entry) -> Permit:
    """The gate's answer, with nothing tracked."""
    return Gate(Keyring(state), Approvals(state), net=lambda *_: None).may_run(entry, ROOT)


def test_the_gate_says_why_and_what_to_type(state: str) -> None:
    """The same words in `why`, `list`, `status` and the log."""
    signed = sign(ENTRY, ROOT, Keyring(state).current())
    assert signed.own is not None
    other = sign(ENTRY, ROOT, Key.of(b"x" * 32))
    assert other.own is not None

    assert permit_of(state, sign(ENTRY, "/elsewhere", Keyring(state).current())) == Permit(
        PermitKind.WAIT,
        "signed for /elsewhere: this checkout was moved or copied",
        "If it is yours, type: kranzq trust --here",
    )
    assert permit_of(state, other) == Permit(
        PermitKind.WAIT,
        f"signed by another user (key {other.own.key})",
        "To run it as your own: kranzq cancel m-1, then enqueue it yourself",
    )
    assert permit_of(state, replace(signed, own=replace(signed.own, command=("rm",)))) == Permit(
        PermitKind.QUARANTINE,
        "its signature is wrong: it was changed after it was signed",
        "Look at it, then: kranzq enqueue m-1",
    )
    assert permit_of(state, ENTRY) == Permit(
        PermitKind.WAIT, "unsigned", "To let such missions run here, type: kranzq trust --unsigned"
    )
    Approvals(state).allow_unsigned(ROOT)
    assert permit_of(state, ENTRY) == Permit(PermitKind.RUN, "unsigned, and this checkout lets unsigned missions run")


def test_a_key_that_is_not_safe_makes_its_entries_wait(state: str) -> None:
    """With the sentence of the fault, as half a sentence."""
    signed = sign(ENTRY, ROOT, Keyring(state).current())
    (name,) = (one for one in os.listdir(f"{state}/keys") if one.endswith(".key"))
    Path(f"{state}/keys/{name}").write_text("zz")

    assert permit_of(state, signed) == Permit(
        PermitKind.WAIT,
        f"{state}/keys/{name} does not hold the key that its name says",
        "Restore it from a backup, or remove it and enqueue again what it signed.",
    )


def test_what_waits_is_not_signed_anew_by_itself(state: str) -> None:
    """Only what a moved checkout brought along is."""
    key = Keyring(state).current()

    assert told(lambda: resign(ENTRY, ROOT, key, Keyring(state))) == (
        "Mission m-1 is not signed anew: its signature is not that of a moved entry (unsigned).",
        "See what holds it up: kranzq why m-1",
    )


@pytest.mark.parametrize(
    ("content", "what"), [(b"", "is empty"), (b" \n", "is empty"), (b"hunter2\n", "holds no key of a server")]
)
def test_a_bad_operator_key_says_how_to_mend_it(tmp_path: Path, state: str, content: bytes, what: str) -> None:
    """In the state directory it can be made anew; a file that was named is its owner's affair."""
    held = OperatorKey(state)
    held.make()
    Path(held.path).write_bytes(content)
    named = tmp_path / "named"
    named.write_bytes(content)
    named.chmod(0o600)

    assert told(held.read) == (
        f"{held.path} {what}.",
        "Restore it, or make a new key: kranzq agent key --rotate",
    )
    assert told(OperatorKey(state, str(named)).make) == (f"{named} {what}.", "Name the file that holds the key.")


def test_a_missing_operator_key_says_how_to_get_one(tmp_path: Path) -> None:
    """Also where not even its folder is there."""
    state, named = f"{tmp_path}/none", f"{tmp_path}/nowhere/key"

    assert told(OperatorKey(state).read) == (f"{state}/server.key is not there.", "Make it: kranzq agent key")
    assert told(OperatorKey(state, named).read) == (f"{named} is not there.", "Name the file that holds the key.")


def test_a_key_file_that_is_a_link_does_not_count(tmp_path: Path, state: str) -> None:
    """Nor does what it leads to, however good."""
    held = OperatorKey(state)
    held.make()
    elsewhere = tmp_path / "elsewhere"
    os.rename(held.path, elsewhere)
    os.symlink(elsewhere, held.path)

    assert held.current() is None


def test_a_rotation_makes_what_is_missing(tmp_path: Path) -> None:
    """And tells which file could not be written."""
    held = OperatorKey(f"{tmp_path}/new/state")

    assert held.rotate() == held.read()


@pytest.mark.parametrize("verb", ["make", "rotate"])
def test_a_full_disk_is_told_with_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str) -> None:
    """Whatever was to be written."""
    held = OperatorKey(f"{tmp_path}/state")
    monkeypatch.setattr(operator_module, "publish", full)
    monkeypatch.setattr(operator_module, "replace", full)

    sentence, _ = told(getattr(held, verb))

    assert held.path in sentence


def test_approvals_and_keys_are_written_durably(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of these is synced, or a power cut takes back what a person has decided."""
    synced: list[object] = []
    for module in (approval_module, key_module, operator_module):
        original: Any = module.replace

        def spy(*args: Any, original: Any = original, **given: Any) -> None:
            synced.append(given.get("sync"))
            original(*args, **given)

        monkeypatch.setattr(module, "replace", spy)
    state = f"{tmp_path}/state"
    Keyring(state).current()
    Keyring(state).rotate()
    Approvals(state).allow_unsigned(ROOT)
    OperatorKey(state).rotate()

    assert synced == [True, True, True]


def test_a_full_disk_names_the_file_of_the_key_or_approval(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a person knows where to make room."""
    state = f"{tmp_path}/state"
    record = f"{state}/trust/{hashlib.sha256(ROOT.encode()).hexdigest()}.json"
    monkeypatch.setattr(approval_module, "replace", full)
    assert record in told(lambda: Approvals(state).allow_unsigned(ROOT))[0]
    Keyring(state).current()
    monkeypatch.setattr(key_module, "replace", full)
    assert f"{state}/keys/current" in told(Keyring(state).rotate)[0]
    monkeypatch.setattr(key_module, "publish", full)
    assert f"{state}/keys/" in told(Keyring(f"{tmp_path}/other").current)[0].replace("other", "state")


def test_an_approval_says_since_when(state: str) -> None:
    """Under its own key; withdrawn, the time is that of the withdrawal; what is no text is none."""
    approvals = Approvals(state)
    approvals.allow_settings(ROOT, "d")
    approvals.allow_unsigned(ROOT)
    path = Path(f"{state}/trust/{hashlib.sha256(ROOT.encode()).hexdigest()}.json")
    allowed = json.loads(path.read_text())
    assert sorted(allowed) == ["root", "settings", "settingsAt", "unsigned", "unsignedAt"]
    assert approvals.settings(ROOT) == ("d", allowed["settingsAt"])
    assert allowed["settingsAt"].endswith("Z")

    approvals.withdraw_unsigned(ROOT)
    approvals.withdraw_settings(ROOT)
    assert sorted(json.loads(path.read_text())) == sorted(allowed)
    path.write_text(json.dumps({"root": ROOT, "settings": 7, "settingsAt": 8}))
    assert approvals.settings(ROOT) == ("", "")


def test_each_checkout_has_a_record_of_its_own(state: str) -> None:
    """What is allowed in one is not allowed in another, and both stay."""
    approvals = Approvals(state)
    approvals.allow_unsigned(ROOT)
    approvals.allow_unsigned("/elsewhere")

    assert [approvals.unsigned(root) for root in (ROOT, "/elsewhere", "/third")] == [True, True, False]


def test_a_home_that_is_none_is_told() -> None:
    """Named as the variable that it is."""
    with pytest.raises(BadSetting) as caught:
        base_dir({"HOME": "here"}, "XDG_STATE_HOME", ".local/state")

    assert caught.value.sentence == "environment: setting 'HOME' is no absolute path."
    assert caught.value.advice == "Set HOME to your home directory."
    assert base_dir({"HOME": "/h/"}, "XDG_STATE_HOME", ".local/state") == "/h/.local/state"
    assert base_dir({"HOME": "/h", "XDG_STATE_HOME": "/s/"}, "XDG_STATE_HOME", "x") == "/s"


def test_a_file_in_the_place_of_a_folder_is_named(tmp_path: Path) -> None:
    """And what the system says of it."""
    (tmp_path / "keys").write_text("")

    assert f"{tmp_path}/keys" in told(lambda: open_private(str(tmp_path), "keys", make=False))[0]


def test_a_folder_that_others_may_write_is_named(tmp_path: Path) -> None:
    """With the command that mends it."""
    (tmp_path / "keys").mkdir()
    (tmp_path / "keys").chmod(0o777)

    sentence, advice = told(lambda: open_private(str(tmp_path), "keys", make=False))
    assert sentence == f"{tmp_path}/keys is refused: other users may write in it."
    assert advice == f"If they did not, type: chmod go-w {tmp_path}/keys"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_users_folder_is_refused(tmp_path: Path) -> None:
    """With what to do about it."""
    (tmp_path / "keys").mkdir()
    os.chown(tmp_path / "keys", 12345, 12345)

    assert told(lambda: open_private(str(tmp_path), "keys", make=False)) == (
        f"{tmp_path}/keys is refused: it belongs to user 12345, and this process runs as 0.",
        "Run kranzq as its owner, or set XDG_STATE_HOME to a directory of your own.",
    )


def test_a_pointer_to_no_key_is_told(state: str) -> None:
    """With the cure; bytes that are no text are none either."""
    pointer = Path(f"{state}/keys/current")
    for content in (b"nothing\n", b"\xff\xfe\n"):
        pointer.write_bytes(content)
        assert told(Keyring(state).current) == (
            f"{pointer} names no key.",
            "Remove it; the next enqueue makes a new key.",
        )
    pointer.write_bytes(b"")
    pointer.chmod(0o644)
    assert told(Keyring(state).current)[1] == f"If they did not, type: chmod 600 {pointer}"


def test_keys_are_listed_newest_first(state: str) -> None:
    """The current one before all; a bad one with the reason as half a sentence."""
    ring = Keyring(state)
    first = ring.current().id
    ring.rotate()
    second = ring.current().id
    ring.rotate()
    Path(f"{state}/keys/{first}.key").write_text("zz")
    os.utime(f"{state}/keys/{first}.key", (10, 10))
    os.utime(f"{state}/keys/{second}.key", (20, 20))

    seen = ring.seen()

    assert [one.id for one in seen] == [ring.current().id, second, first]
    assert [one.current for one in seen] == [True, False, False]
    assert seen[2].fault == f"{state}/keys/{first}.key does not hold the key that its name says"


def test_the_settings_that_do_not_count_say_why(tmp_path: Path) -> None:
    """Always with the path of the file."""
    approvals, root = Approvals(str(tmp_path / "state")), str(tmp_path / "r")
    path = f"{root}/.kranz/kranzq.toml"
    assert look_at_settings(root, approvals) == SettingsSeen(path, "none")
    os.makedirs(f"{root}/.kranz")
    assert look_at_settings(root, approvals) == SettingsSeen(path, "none")
    Path(path).write_text("")
    Path(path).chmod(0o666)
    assert look_at_settings(root, approvals) == SettingsSeen(path, "refused", why="everybody may write it")
    os.unlink(path)
    os.symlink("/etc/hostname", path)
    linked = look_at_settings(root, approvals)
    assert (linked.path, linked.state) == (path, "refused")
    assert linked.why
    os.unlink(path)
    Path(path).write_bytes(b"#" * (256 * 1024 + 1))
    assert look_at_settings(root, approvals).state == "refused"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_users_settings_do_not_count(tmp_path: Path) -> None:
    """They are named with their owner."""
    os.makedirs(tmp_path / "r/.kranz")
    path = tmp_path / "r/.kranz/kranzq.toml"
    path.write_text("")
    os.chown(path, 12345, 12345)

    seen = look_at_settings(str(tmp_path / "r"), Approvals(str(tmp_path / "state")))

    assert seen == SettingsSeen(str(path), "refused", why="it belongs to user 12345")


def keep(path: Path) -> None:
    """Put a new token into a file."""
    with kept_in(str(path), new_token()):
        pass


def test_a_file_that_cannot_take_a_token_is_named(tmp_path: Path) -> None:
    """With the reason and what to do; nothing was changed."""
    (tmp_path / "t").write_text("thesis")
    assert told(lambda: keep(tmp_path / "t")) == (
        f"{tmp_path}/t is there and holds no token of an agent. It was not touched, and nothing else was changed.",
        "Name another file, or remove it.",
    )
    (tmp_path / "u.new").write_text("thesis")
    assert told(lambda: keep(tmp_path / "u")) == (
        f"{tmp_path}/u.new is there and holds something else. Nothing was changed.",
        "Remove it first.",
    )
    (tmp_path / "d").mkdir()
    with pytest.raises(UnsafePath) as caught:
        keep(tmp_path / "d")
    assert f"{tmp_path}/d" in caught.value.sentence
    assert caught.value.advice == "Name another file; nothing was changed."
    os.symlink("t", tmp_path / "l.new")
    with pytest.raises(UnsafePath, match="it is no plain file") as caught:
        keep(tmp_path / "l")
    assert f"{tmp_path}/l.new" in caught.value.sentence
    (tmp_path / "h").write_text("")
    os.link(tmp_path / "h", tmp_path / "k.new")
    with pytest.raises(UnsafePath, match="it is no plain file of yours"):
        keep(tmp_path / "k")
    with pytest.raises(NotFound, match="nowhere"):
        keep(tmp_path / "nowhere/t")


def test_two_that_write_one_file_do_not_meet(tmp_path: Path) -> None:
    """The second one is told to try again, and changes nothing."""
    path = tmp_path / "t"
    with kept_in(str(path), new_token()):
        assert told(lambda: keep(path)) == (
            f"Another process writes {path}.new at this moment. Nothing was changed.",
            "Try again.",
        )


def test_a_longer_token_file_is_replaced_whole(tmp_path: Path) -> None:
    """Nothing of what lay beside it stays."""
    first, second = new_token(), new_token()
    (tmp_path / "t.new").write_text(f"{first}\n")
    with kept_in(str(tmp_path / "t"), second):
        pass

    assert (tmp_path / "t").read_text() == f"{second}\n"


@pytest.mark.parametrize("call", ["ftruncate", "fsync", "fchmod"])
def test_a_full_disk_names_the_file_for_the_token(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """And leaves nothing beside it."""
    with monkeypatch.context() as patched:
        patched.setattr(os, call, full)
        sentence, _ = told(lambda: keep(tmp_path / "t"))

    assert f"{tmp_path}/t.new" in sentence
    assert os.listdir(tmp_path) == []


def test_bytes_that_are_no_text_are_no_token(tmp_path: Path) -> None:
    """They are somebody's file."""
    (tmp_path / "t").write_bytes(b"\xff\xfe")

    assert told(lambda: keep(tmp_path / "t"))[1] == "Name another file, or remove it."
    assert (tmp_path / "t").read_bytes() == b"\xff\xfe"


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_another_users_token_file_is_not_replaced(tmp_path: Path) -> None:
    """It is named with its owner."""
    path = tmp_path / "t"
    path.write_text(f"{new_token()}\n")
    os.chown(path, 12345, 12345)
    with pytest.raises(UnsafePath) as caught:
        keep(path)

    assert str(path) in caught.value.sentence
    assert "it belongs to user 12345" in caught.value.sentence
    assert caught.value.advice == "Name another file; nothing was changed."


def test_the_id_of_a_key_never_changes() -> None:
    """It stands in entries that wait: another way to make it would orphan them."""
    assert Key.of(b"x" * 32).id == "8b4776934cb733cf"


def test_settings_that_count_say_since_when(tmp_path: Path) -> None:
    """So do those that were changed after they were allowed."""
    approvals, root = Approvals(str(tmp_path / "state")), str(tmp_path / "r")
    os.makedirs(f"{root}/.kranz")
    path = Path(f"{root}/.kranz/kranzq.toml")
    path.write_text("a")
    digest = hashlib.sha256(b"a").hexdigest()
    approvals.allow_settings(root, digest)
    since = approvals.settings(root)[1]

    assert look_at_settings(root, approvals) == SettingsSeen(str(path), "trusted", b"a", digest, since)
    path.write_text("b")
    changed = hashlib.sha256(b"b").hexdigest()
    assert look_at_settings(root, approvals) == SettingsSeen(str(path), "changed", b"b", changed, since)
    assert since.endswith("Z")
