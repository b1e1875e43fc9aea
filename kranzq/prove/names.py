"""Trials of the file system: renames that several processes want at once, syncs, and what identifies a file."""

from __future__ import annotations

import contextlib
import os
import shutil
import statistics
import time
from collections.abc import Iterator

from kranzq.disk.atomic import exchange_content, move, publish
from kranzq.disk.birth import born_ns
from kranzq.disk.mounts import NETWORK, keeps_renames, mount_at
from kranzq.disk.renameat2 import kernel_renames
from kranzq.model.trial import Trial, Verdict
from kranzq.prove.racing import race
from kranzq.prove.scratch import Scratch
from kranzq.prove.trying import Planned, each

_PROCESSES = 4
_FILES = 100
_SYNCS = 50
_OURS_ALONE = 0o600
_NO_DISK_S = 30e-6
"""A disk that keeps what it is told needs longer: even one with a cache that survives has to be reached."""
_LOCAL = "Move the checkout to a local file system of this machine"


def of_names(scratch: Scratch, seconds: float) -> Iterator[Trial]:
    """All trials of names, syncs and identity; about so long."""
    planned: tuple[Planned, ...] = (
        ("one claimer", (1, 2, 5), lambda: _claimed(scratch, seconds / 2)),
        ("refuses to replace", (1, 5), lambda: _refused(scratch, seconds / 4)),
        ("changed in place", (1, 5), lambda: _exchanged(scratch, seconds / 4)),
        ("synced", (1, 3), lambda: _synced(scratch)),
        ("survives a power cut", (1, 3), lambda: _of_power(scratch)),
        ("identity", (5,), lambda: _identified(scratch)),
        ("modes", (6,), lambda: _modes(scratch)),
    )
    return each(planned, "it cannot be done here: ", _LOCAL)


def _claimed(scratch: Scratch, seconds: float) -> Trial:
    """Several processes rename the same entries, each to its own claim: one wins each, and the file stays the same."""
    name, until, rounds, bad = "one claimer", time.monotonic() + seconds, 0, 0
    while rounds == 0 or time.monotonic() < until:
        with _folder(scratch, f"claims-{rounds}") as folder:
            inodes = [publish(folder, f"e-{number}", b"x").st_ino for number in range(_FILES)]
            wins = race(_PROCESSES, lambda who, at=folder: [n for n in range(_FILES) if _wins(at, n, who)])  # type: ignore[misc]
            won = sorted(number for one in wins for number in one)
            claims = {claim: os.stat(claim, dir_fd=folder).st_ino for claim in os.listdir(folder)}
            theirs = {f"e-{number}.claimed.{who}": inodes[number] for who, one in enumerate(wins) for number in one}
            bad += won != list(range(_FILES)) or claims != theirs
        rounds += 1
    if bad:
        text = f"in {bad} of {rounds} rounds an entry was lost, won twice, or another file afterwards"
        return Trial(name, (1, 2, 5), Verdict.BROKEN, rounds * _FILES, text, _LOCAL)
    text = f"{rounds * _FILES} entries wanted by {_PROCESSES} processes: one had each, none was lost"
    return Trial(name, (1, 2, 5), Verdict.HOLDS, rounds * _FILES, text)


def _wins(folder: int, number: int, who: int) -> bool:
    try:
        move(folder, f"e-{number}", folder, f"e-{number}.claimed.{who}")
    except FileNotFoundError:
        return False
    return True


def _refused(scratch: Scratch, seconds: float) -> Trial:
    """Several processes make a file of the same name: one does, and its content stays."""
    name, until, rounds, bad = "refuses to replace", time.monotonic() + seconds, 0, 0
    while rounds == 0 or time.monotonic() < until:
        with _folder(scratch, f"same-{rounds}") as folder:
            wins = race(_PROCESSES, lambda who, at=folder: [n for n in range(_FILES) if _makes(at, n, who)])  # type: ignore[misc]
            for number in range(_FILES):
                makers = [who for who, one in enumerate(wins) if number in one]
                bad += len(makers) != 1 or _content(folder, f"s-{number}") != str(makers[0]).encode()
        rounds += 1
    tried = rounds * _FILES
    if bad:
        text = f"{bad} of {tried} files were made twice, or replaced"
        return Trial(name, (1, 5), Verdict.BROKEN, tried, text, _LOCAL)
    with _folder(scratch, "features") as folder:
        refuses, exchanges = kernel_renames(folder)
    if refuses and exchanges:
        return Trial(
            name, (1, 5), Verdict.HOLDS, tried, f"{tried} files wanted by {_PROCESSES} processes, made once each"
        )
    missing = " and ".join(
        [*([] if refuses else ["refuse to replace"]), *([] if exchanges else ["exchange two names"])]
    )
    text = f"renames here cannot {missing}; two steps do it, and a kill between them leaves two names for one file"
    return Trial(name, (1, 5), Verdict.WEAKER, tried, text, "It is put right by whoever looks next. " + _LOCAL)


def _makes(folder: int, number: int, who: int) -> bool:
    try:
        publish(folder, f"s-{number}", str(who).encode())
    except FileExistsError:
        return False
    return True


def _exchanged(scratch: Scratch, seconds: float) -> Trial:
    """One process changes contents while another renames: afterwards there is one file, under one name."""
    name = "changed in place"
    with _folder(scratch, "exchange") as folder:
        publish(folder, "a", b"0")

        def work(who: int) -> list[int]:
            done, until = 0, time.monotonic() + seconds  # of its own: on a busy machine it may begin late
            while time.monotonic() < until:
                try:
                    if who == 0:
                        exchange_content(folder, "a", b"%d" % done)
                    else:
                        move(folder, "a", folder, "b")
                        move(folder, "b", folder, "a")
                except FileNotFoundError:
                    continue
                except FileExistsError:  # the name that was moved away is there again
                    return [done, 1]
                done += 1
            return [done, 0]

        seen = race(2, work)
        left = [one for one in os.listdir(folder) if not one.startswith(".")]
    tried, doubled = sum(one[0] for one in seen), any(one[1] for one in seen)
    if len(left) == 1 and not doubled:
        text = f"{tried} changes and renames of one entry, of which there is one"
        return Trial(name, (1, 5), Verdict.HOLDS, tried, text)
    text = f"after {tried} changes and renames of one entry there are {2 if doubled else len(left)}"
    verdict = Verdict.BROKEN if kernel_exchanges(scratch) or not left else Verdict.WEAKER
    return Trial(name, (1, 5), verdict, tried, text, _LOCAL)


def kernel_exchanges(scratch: Scratch) -> bool:
    """Whether two names can be exchanged in one step."""
    with _folder(scratch, "exchanges") as folder:
        return kernel_renames(folder)[1]


def _synced(scratch: Scratch) -> Trial:
    """Files and directories can be synced, and how long that takes."""
    took = []
    with _folder(scratch, "synced") as folder:
        for number in range(_SYNCS):
            began = time.perf_counter()
            publish(folder, f"f-{number}", b"x" * 500)
            took.append(time.perf_counter() - began)
    typical = statistics.median(took)
    text = f"an entry is on the disk after {1000 * typical:.2f} ms (median of {_SYNCS}, slowest {1000 * max(took):.1f})"
    mount = mount_at(scratch.folder)
    if typical < _NO_DISK_S and (mount is None or mount.kind != "tmpfs"):
        text += ": so fast that something between here and the disk does not wait for it"
        return Trial(
            "synced", (1, 3), Verdict.WEAKER, _SYNCS, text, "Look for a cache that lies: LD_PRELOAD, the share"
        )
    return Trial("synced", (1, 3), Verdict.HOLDS, _SYNCS, text)


def _of_power(scratch: Scratch) -> Trial:
    """Not tried, for it would need a power cut: what the file system is known for."""
    mount, name = mount_at(scratch.folder), "survives a power cut"
    if mount is None:
        return Trial(name, (1, 3), Verdict.WEAKER, 0, "its type cannot be found out", _LOCAL)
    where = f"{mount.kind}, mounted at {mount.at}"
    if mount.kind in NETWORK:
        return Trial(name, (1, 2, 3, 5), Verdict.BROKEN, 0, f"{where}: other machines may not see its locks", _LOCAL)
    if mount.kind == "tmpfs":
        return Trial(name, (1, 3), Verdict.WEAKER, 0, f"{where}: a power cut takes everything", _LOCAL)
    kept = keeps_renames(mount, os.stat(scratch.folder).st_dev)
    if kept is None:
        text = f"{where}: not one of those that are known to keep a rename whole"
        return Trial(name, (1, 3), Verdict.WEAKER, 0, text, "If it has a journal, or copies on write, all is well")
    if kept:
        return Trial(name, (1, 3), Verdict.HOLDS, 0, f"{where}: it keeps a rename whole")
    text = f"{where}: it has no journal, so a power cut may undo half a rename"
    return Trial(
        name, (1, 3), Verdict.WEAKER, 0, text, "Make the journal: tune2fs -O has_journal; or another file system"
    )


def _identified(scratch: Scratch) -> Trial:
    """By what a stale holder is told from the holder: a file's number stays with it and with nobody else."""
    odd = []
    with _folder(scratch, "identity") as folder:
        numbers = [publish(folder, f"i-{number}", b"x").st_ino for number in range(_FILES)]
        for number, inode in enumerate(numbers):
            move(folder, f"i-{number}", folder, f"j-{number}")
            if os.stat(f"j-{number}", dir_fd=folder).st_ino != inode:
                odd.append("the number of a file is another one after a rename")
        if len(set(numbers)) != _FILES:
            odd.append("two files have the same number")
        wanted = 1_700_000_000_123_456_789
        os.utime("j-0", ns=(wanted, wanted), dir_fd=folder)
        kept = os.stat("j-0", dir_fd=folder).st_mtime_ns
        fd = os.open("j-0", os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        born = born_ns(fd)
        os.close(fd)
    if odd:
        return Trial("identity", (5,), Verdict.BROKEN, _FILES, odd[0], _LOCAL)
    if abs(kept - wanted) > 2 * 10**9:
        text = "the time of a change is not kept, so the age of a claim cannot be told"
        return Trial("identity", (5,), Verdict.WEAKER, _FILES, text, _LOCAL)
    text = f"{_FILES} files kept their number over a rename; birth times are {'known' if born else 'not known'}"
    return Trial("identity", (5,), Verdict.HOLDS, _FILES, text)


def _modes(scratch: Scratch) -> Trial:
    """Whether others can be kept out: where modes mean nothing, everybody who sees the share may approve."""
    with _folder(scratch, "modes") as folder:
        publish(folder, "m", b"x", mode=_OURS_ALONE)
        seen = os.stat("m", dir_fd=folder)
        linked = True
        try:
            os.link("m", "l", src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            linked = False
    if seen.st_mode & 0o777 != _OURS_ALONE or seen.st_uid != os.geteuid():
        text = f"a file made for its owner alone has mode {seen.st_mode & 0o777:o} and belongs to user {seen.st_uid}"
        return Trial("modes", (6,), Verdict.WEAKER, 1, text, "Whoever can write here can approve. " + _LOCAL)
    text = "owner and mode of a file are kept" + ("" if linked else "; there are no links here")
    return Trial("modes", (6,), Verdict.HOLDS, 1, text)


def _content(folder: int, name: str) -> bytes:
    fd = os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.read(fd, 100)
    finally:
        os.close(fd)


@contextlib.contextmanager
def _folder(scratch: Scratch, name: str) -> Iterator[int]:
    """A new folder, open, and gone afterwards: an hour of rounds would make more files than some disks can name."""
    path = scratch.make(name)
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)
        shutil.rmtree(path, ignore_errors=True)
