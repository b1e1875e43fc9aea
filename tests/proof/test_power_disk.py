"""The model of a disk that loses its power, against examples that were worked out by hand."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import pytest

from tests.proof.power_calls import Opened, calls
from tests.proof.power_disk import Disk, Event, Names, Size, State, Sync, Told, Write, after, cuts, state, variants
from tests.proof.power_states import all_left, chosen_of, digest, everything

TOP, A, B = 0, 1, 2
"""The root; two folders in it."""
OLD, NEW = 10, 11
EMPTY = Disk(TOP, frozenset({TOP, A, B}), {(TOP, "a"): A, (TOP, "b"): B}, {})
ONE = Disk(TOP, EMPTY.folders, {**EMPTY.names, (A, "x"): OLD}, {OLD: b"old"})


def made(folder: int, name: str, inode: int) -> Names:
    """A file is created."""
    return Names((((folder, name), inode),))


def unlinked(folder: int, name: str) -> Names:
    """A name is removed."""
    return Names((((folder, name), None),))


def renamed(source: tuple[int, str], target: tuple[int, str], inode: int) -> Names:
    """A file gets another name."""
    return Names(((source, None), (target, inode)))


def exchanged(one: tuple[int, str], its: int, other: tuple[int, str], others: int) -> Names:
    """Two files get each other's names."""
    return Names(((one, others), (other, its)))


Tree = Mapping[str, bytes | None]


def left(disk: Disk, *events: Event, torn: bool = False) -> list[Tree]:
    """All that a cut after these events may leave, the two folders left out."""
    last = list(cuts(disk, events, torn=torn))[-1]
    states = everything(last, 10_000)
    assert states is not None
    distinct = {digest(one): one for one in states}
    return [{path: data for path, data in one.tree().items() if path not in {"a", "b"}} for one in distinct.values()]


def same(one: Sequence[Tree], *other: Tree) -> bool:
    """Whether these are the same states, in any order."""
    return sorted(one, key=repr) == sorted(other, key=repr)


def test_what_was_never_synced_may_be_missing() -> None:
    """A new name without a sync of its folder is there or not; that its file was synced helps nothing."""
    events: list[Event] = [made(A, "x", NEW), Write(NEW, 0, b"data"), Sync(NEW, 2)]

    assert same(left(EMPTY, *events), {}, {"a/x": b"data"})


def test_a_synced_folder_keeps_its_names_and_not_their_content() -> None:
    """The content is missing, short, in halves, or zeros as long as it was."""
    events: list[Event] = [made(A, "x", NEW), Write(NEW, 0, b"data"), Sync(A, 2)]

    contents = (b"data", b"", b"\0\0\0\0", b"\0\0ta", b"da\0\0", b"da")
    assert same(left(EMPTY, *events), *({"a/x": data} for data in contents))


def test_file_and_folder_synced_is_safe() -> None:
    """What `publish` does leaves exactly one state."""
    events: list[Event] = [
        made(A, ".t", NEW),
        Write(NEW, 0, b"data"),
        Sync(NEW, 2),
        renamed((A, ".t"), (A, "x"), NEW),
        Sync(A, 4),
    ]

    assert same(left(EMPTY, *events), {"a/x": b"data"})


def test_a_rename_is_whole() -> None:
    """Under its old name or under its new one: never neither, never both, also between two folders."""
    assert same(left(ONE, renamed((A, "x"), (B, "y"), OLD)), {"a/x": b"old"}, {"b/y": b"old"})


@pytest.mark.parametrize("folder", [A, B])
def test_a_sync_of_either_folder_makes_a_rename_safe(folder: int) -> None:
    """It is one change of both."""
    assert same(left(ONE, renamed((A, "x"), (B, "y"), OLD), Sync(folder, 1)), {"b/y": b"old"})


def test_a_torn_rename_leaves_neither_or_both() -> None:
    """Without whole renames each name comes to the disk for itself; a sync of one folder is none of the other."""
    rename = renamed((A, "x"), (B, "y"), OLD)

    both: Tree = {"a/x": b"old", "b/y": b"old"}
    assert same(left(ONE, rename, torn=True), {"a/x": b"old"}, {"b/y": b"old"}, both, {})
    assert same(left(ONE, rename, Sync(B, 1), torn=True), {"b/y": b"old"}, both)


def test_an_exchange_is_whole() -> None:
    """The content under a name is the old or the new one, and the other lies beside it or is gone."""
    disk = Disk(TOP, ONE.folders, {**ONE.names, (A, ".t"): NEW}, {OLD: b"old", NEW: b"new"})
    events: list[Event] = [exchanged((A, ".t"), NEW, (A, "x"), OLD), unlinked(A, ".t")]

    expected: list[Tree] = [{"a/.t": b"new", "a/x": b"old"}, {"a/.t": b"old", "a/x": b"new"}, {"a/x": b"new"}]
    assert same(left(disk, *events), *expected)


def test_changes_of_different_names_are_reordered() -> None:
    """The later one may be there without the earlier one."""
    events: list[Event] = [made(A, "x", 20), made(A, "y", 21)]

    assert same(left(EMPTY, *events), {}, {"a/x": b""}, {"a/y": b""}, {"a/x": b"", "a/y": b""})


def test_changes_of_the_same_name_keep_their_order() -> None:
    """A second rename never comes to the disk without the first: the file would have two names."""
    events: list[Event] = [renamed((A, "x"), (A, "y"), OLD), renamed((A, "y"), (B, "z"), OLD)]

    assert same(left(ONE, *events), {"a/x": b"old"}, {"a/y": b"old"}, {"b/z": b"old"})


def test_a_sync_makes_safe_what_its_changes_come_after() -> None:
    """The second rename is safe by a sync of its folder, and so is the first one, in a folder that was not synced."""
    events: list[Event] = [made(A, "x", NEW), renamed((A, "x"), (B, "y"), NEW), Sync(B, 2)]

    assert same(left(EMPTY, *events), {"b/y": b""})


def test_what_lies_in_a_lost_folder_is_lost() -> None:
    """A sync of a new folder does not keep the folder itself."""
    deep = Disk(TOP, EMPTY.folders | {30}, EMPTY.names, {})
    events: list[Event] = [made(A, "d", 30), made(30, "x", NEW), Sync(30, 2)]

    assert same(left(deep, *events), {}, {"a/d": None, "a/d/x": b""})


def test_a_sync_counts_from_its_beginning() -> None:
    """What changed while it went on it may not have seen."""
    events: list[Event] = [made(A, "x", 20), made(A, "y", 21), Sync(A, 1)]

    assert same(left(EMPTY, *events), {"a/x": b""}, {"a/x": b"", "a/y": b""})


def test_a_sync_of_everything() -> None:
    """One call for the whole file system."""
    events: list[Event] = [made(A, "x", NEW), Write(NEW, 0, b"data"), Told("done"), Sync(None, 3)]

    assert same(left(EMPTY, *events), {"a/x": b"data"})


def test_an_overwritten_file_may_be_what_it_was() -> None:
    """As long as it is not synced, from the old content to the new one; a file that was cut short has its old end."""
    contents = {one["a/x"] for one in left(ONE, Size(OLD, 0), Write(OLD, 0, b"new!"))}

    assert {b"old", b"", b"new!", b"ne", b"\0\0\0\0", b"ne\0\0", b"\0\0w!"} == contents
    assert same(left(ONE, Size(OLD, 0), Write(OLD, 0, b"new!"), Sync(OLD, 2)), {"a/x": b"new!"})


def test_a_second_name_is_a_name_of_the_same_file() -> None:
    """What is unknown of its content is the same under both."""
    events: list[Event] = [Write(OLD, 3, b"er"), Names((((B, "y"), OLD),))]

    found = left(ONE, *events)
    assert {len({data for data in one.values() if data is not None}) for one in found} == {1}
    assert {tuple(one) for one in found} == {("a/x",), ("a/x", "b/y")}


def test_each_instant_is_cut() -> None:
    """Before the first event, and after each; what is promised at the last instant counts for a state."""
    events: list[Event] = [made(A, "x", NEW), Sync(A, 1), Told("done"), unlinked(A, "x")]

    found, complete = all_left(EMPTY, events, most=100, seed=1)

    assert complete
    assert sorted((len(one.state.paths), one.instant) for one in found) == [(2, 4), (3, 4)]
    assert len(list(cuts(EMPTY, events))) == 5


def test_a_choice_is_of_states_that_may_be() -> None:
    """What is chosen by a seed is among all, holds the most telling ones, and is the same for the same seed."""
    events: list[Event] = []
    for number in range(3):
        events += [made(A, f"t{number}", 40 + number), Write(40 + number, 0, b"ab")]
        events += [renamed((A, f"t{number}"), (B, f"x{number}"), 40 + number)]
    cut = list(cuts(EMPTY, events))[-1]
    every = everything(cut, 1_000_000)

    assert every is not None
    assert everything(cut, len(every) - 1) is None
    chosen = chosen_of(cut, 50, random.Random(7))
    assert {digest(one) for one in chosen} <= {digest(one) for one in every}
    assert len({digest(one) for one in chosen}) == 50
    assert [digest(one) for one in chosen] == [digest(one) for one in chosen_of(cut, 50, random.Random(7))]
    names = frozenset(range(6))
    for telling in (state(cut, names, {}), state(cut, (), {}), state(cut, names, {40 + n: b"ab" for n in range(3)})):
        assert digest(telling) in {digest(one) for one in chosen}


def test_digests_tell_second_names_from_copies() -> None:
    """Two files with the same bytes are another state than one file with two names."""
    assert digest(State({"x": 1, "y": 1}, {1: b"a"})) != digest(State({"x": 1, "y": 2}, {1: b"a", 2: b"a"}))
    assert digest(State({"x": 1}, {1: b""})) != digest(State({"x": 1}, {}))


def test_contents() -> None:
    """Bytes after changes, with zeros where nothing was written; the whole is the first variant."""
    changes: list[Write | Size] = [Write(1, 2, b"cd"), Size(1, 6), Write(1, 0, b"a")]

    assert after(b"", changes) == b"a\0cd\0\0"
    assert variants(b"", changes)[0] == b"a\0cd\0\0"
    assert {b"\0\0cd", b"\0\0cd\0\0", b""} <= set(variants(b"", changes))


def test_what_strace_wrote_is_read() -> None:
    """Hexadecimal texts, descriptors with paths, calls that others interrupt, and calls that never came back."""
    lines = [
        r'7 1.5 openat(AT_FDCWD<\x2f\x61>, "\x62\x2c", O_WRONLY|O_CREAT, 0600) = 3<\x2f\x61\x2f\x62\x2c>',
        r'7 1.6 write(3<\x2f\x61\x2f\x62\x2c>, "\x00\x22", 2 <unfinished ...>',
        r"8 1.7 fsync(4<\x2f\x61>) = 0",
        r"7 1.8 <... write resumed>)        = 2",
        r"7 1.85 --- SIGCHLD {si_signo=SIGCHLD} ---",
        r'7 1.9 unlink("\x62") = -1 ENOENT (No such file or directory)',
        r"7 2.0 exit_group(0)                     = ?",
        r"7 2.0 +++ exited with 0 +++",
    ]

    found = list(calls(lines))

    assert [(call.name, call.answer, call.since) for call in found] == [
        ("openat", 3, 0),
        ("fsync", 0, 1),
        ("write", 2, 1),
        ("unlink", -1, 3),
        ("exit_group", None, 4),
    ]
    assert found[0].values == (Opened("AT_FDCWD", "/a"), b"b,", "O_WRONLY|O_CREAT", "0600")
    assert found[0].opened == "/a/b,"
    assert found[2].values == (Opened("3", "/a/b,"), b'\0"', "2")
    with pytest.raises(ValueError, match="cannot be read"):
        list(calls(["7 1.0 nonsense"]))
