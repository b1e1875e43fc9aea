"""A run of the real program, recorded call by call, as what it did to a model of the disk.

Each call that changes a name or a content below the root is taken over, or the recording fails: nothing is left out
unseen. In the end the model must hold exactly what lies on the disk. Times of files and changes of their modes are not
modelled: what is kept has the mode that it was given last.
"""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.proof.power_calls import Call, Value, calls
from tests.proof.power_disk import Disk, Event, Names, Size, Sync, Told, Write
from tests.proof.power_live import Live, UnmodelledError, opened, path_in

_CONTENT = "write,pwrite64,writev,pwritev,pwritev2,copy_file_range,sendfile,splice,ftruncate,truncate,fallocate"
_NAMES = "rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,symlink,symlinkat,mknod,mknodat"
_REST = "open,openat,openat2,creat,lseek,chmod,fchmod,fchmodat,fsync,fdatasync,syncfs,sync,sync_file_range,exit_group"
_FORM = ("-f", "--seccomp-bpf", "-ttt", "-y", "-xx", "-s", "100000000")
ENDED = "the keeper that recorded its end has left"
"""In the place of a path: the text is a mission."""
_HARMLESS = frozenset({"exit_group", "sync_file_range"})
_AT = {"mkdir": 1, "mkdirat": 2, "unlink": 1, "rmdir": 1, "unlinkat": 2, "rename": 1, "renameat": 2, "renameat2": 2}
"""How many values name a place."""


@dataclass(frozen=True)
class Recording:
    """What a run did: the disk before it, and all that happened to it in order."""

    disk: Disk
    events: tuple[Event, ...]
    modes: Mapping[int, int]
    """Each inode's last mode."""
    numbers: Mapping[int, int]
    """What the file system's numbers meant that a run's record mentions: inodes of entries."""
    code: int
    said: str


def record(argv: Sequence[str], root: Path, *, env: Mapping[str, str], apart: Iterable[str] = ()) -> Recording:
    """Run a program to its end under strace; what lies below `root` is the disk, but for the names in `apart`.

    Whatever it leaves running is waited for, too. What is written below a name in `apart` counts as told, for nothing
    takes that back. Raises UnmodelledError.
    """
    live = Live(root, frozenset(apart))
    before = live.frozen()
    log, heard = (root.with_name(f"{root.name}.{end}") for end in ("strace", "said"))
    strace = ["strace", *_FORM, "-e", f"trace={_CONTENT},{_NAMES},{_REST}", "-o", str(log), *argv]
    with heard.open("wb") as said:
        code = subprocess.run(
            strace, cwd=root, env=dict(env), stdin=subprocess.DEVNULL, stdout=said, stderr=said, check=False
        ).returncode
    taking = _Taking(live, str(heard))
    with log.open(encoding="ascii") as lines:
        for call in calls(lines):
            taking.take(call)
    log.unlink()
    live.verify()
    disk = Disk(live.top, frozenset(live.folders), before.names, before.files)
    return Recording(disk, tuple(live.events), live.modes, taking.numbers, code, heard.read_text())


class _Taking:
    """Takes calls over into the model."""

    def __init__(self, live: Live, heard: str) -> None:
        self.live, self.heard = live, heard
        self.main: int | None = None
        self.numbers: dict[int, int] = {}
        self.keepers: dict[int, str] = {}
        """The mission of each process that recorded its end."""
        self.over: list[int] = []
        """For each call that is over, how many events there were then."""
        self.at: dict[tuple[int, str], int] = {}
        """How far a process has written through a descriptor that does not append."""

    def take(self, call: Call) -> None:
        """Take one call over."""
        self.main = self.main or call.pid
        if call.answer is not None and call.answer >= 0:
            self._done(call)
        elif call.name == "exit_group" and call.pid == self.main:
            self._told(f"exit {call.values[0]!s}")
        elif call.name == "exit_group" and call.pid in self.keepers:
            self._told(self.keepers[call.pid], ENDED)
        self.over.append(len(self.live.events))

    def _done(self, call: Call) -> None:
        name, values, live = call.name, call.values, self.live
        match name:
            case "write" | "pwrite64":
                self._write(call)
            case "open" | "openat":
                self._open(call)
            case "fsync" | "fdatasync" | "syncfs" | "sync":
                self._sync(call)
            case "lseek":
                self.at[call.pid, opened(values[0]).number] = call.answer or 0
            case "ftruncate" | "fallocate":
                if live.is_file(values[0]):
                    self._resize(name, values)
            case "fchmod" | "chmod" | "fchmodat":
                self._mode(name, values)
            case "mkdir" | "mkdirat":
                if (slot := live.place(values[: _AT[name]])) is not None:
                    live.create(slot, _octal(values[-1]), folder=True)
            case "unlink" | "rmdir" | "unlinkat":
                if (slot := live.place(values[: _AT[name]])) is not None:
                    live.do(Names(((slot, None),)))
            case "rename" | "renameat" | "renameat2" | "link" | "linkat":
                self._two_names(name, values)
                self._note_keeper(call)
            case _ if name not in _HARMLESS and any(live.is_ours(path_in(value)) for value in values):
                raise UnmodelledError(f"{name}{values!r}")

    def _told(self, text: str, path: str = "") -> None:
        self.live.events.append(Told(text, path))

    def _write(self, call: Call) -> None:
        fd, data, answer = opened(call.values[0]), call.values[1], call.answer or 0
        if not isinstance(data, bytes):
            raise UnmodelledError(f"a text that strace cut short: {call!r}"[:300])
        if not self.live.is_file(fd):
            if fd.path == self.heard:
                self._told(data[:answer].decode("utf-8", "replace"))
            elif fd.path.startswith(self.live.root + "/"):
                self._told(data[:answer].decode("utf-8", "replace"), os.path.relpath(fd.path, self.live.root))
            return
        inode = self.live.inode(fd.path)
        if call.name == "pwrite64":
            at = int(str(call.values[3]))
        else:
            at = self.at.get((call.pid, fd.number), len(self.live.files[inode]))
            if (call.pid, fd.number) in self.at:
                self.at[call.pid, fd.number] = at + answer
        self.live.do(Write(inode, at, data[:answer]))
        self._learn(data)

    def _learn(self, data: bytes) -> None:
        """A run's record names its entry by the file system's number: what that is here must be known later."""
        if b'"inode"' not in data:
            return
        entry = json.loads(data)["entry"]
        folder = f"{self.live.root}/checkout/.kranz/queue/"
        for name in (entry["name"], json.loads(data)["claim"]):
            try:
                self.numbers[entry["inode"]] = self.live.inode(folder + name)
                return
            except UnmodelledError:
                continue

    def _note_keeper(self, call: Call) -> None:
        """Whoever records the end of a run is its keeper: when it leaves, that end counts."""
        if path_in(call.values[-1]) == "exit.json":
            run = opened(call.values[-2]).path
            self.keepers[call.pid] = run.split("/")[-3]

    def _open(self, call: Call) -> None:
        words = 2 if call.name == "openat" else 1
        values, live = call.values, self.live
        flags, slot = str(values[words]).split("|"), live.place(values[:words])
        if call.opened is None or slot is None or not live.is_ours(call.opened):
            return
        if "O_TMPFILE" in flags:
            raise UnmodelledError(f"{call!r}")
        if "O_CREAT" in flags and slot not in live.names:
            live.create(slot, _octal(values[words + 1]), folder=False)
        inode = live.names[slot]
        if "O_TRUNC" in flags and live.files.get(inode):
            live.do(Size(inode, 0))
        self.at.pop((call.pid, str(call.answer)), None)
        if "O_APPEND" not in flags:
            self.at[call.pid, str(call.answer)] = 0

    def _sync(self, call: Call) -> None:
        since = self.over[call.since - 1] if call.since else 0
        if call.name in {"sync", "syncfs"}:
            self.live.events.append(Sync(None, since))
        elif self.live.is_ours(path := opened(call.values[0]).path):
            self.live.events.append(Sync(self.live.inode(path), since))

    def _resize(self, name: str, values: Sequence[Value]) -> None:
        inode = self.live.inode(opened(values[0]).path)
        if name == "ftruncate":
            self.live.do(Size(inode, int(str(values[1]))))
            return
        if str(values[1]) != "0":
            raise UnmodelledError(f"fallocate{values!r}")
        if (end := int(str(values[2])) + int(str(values[3]))) > len(self.live.files[inode]):
            self.live.do(Size(inode, end))

    def _mode(self, name: str, values: Sequence[Value]) -> None:
        live = self.live
        if name == "fchmod":
            if live.is_file(values[0]):
                live.modes[live.inode(opened(values[0]).path)] = _octal(values[1])
        elif (slot := live.place(values[:2] if name == "fchmodat" else values[:1])) is not None:
            live.modes[live.names[slot]] = _octal(values[2 if name == "fchmodat" else 1])

    def _two_names(self, name: str, values: Sequence[Value]) -> None:
        half = 1 if name in {"rename", "link"} else 2
        source, target = self.live.place(values[:half]), self.live.place(values[half : half * 2])
        if source is None and target is None:
            return
        if source is None or target is None:
            raise UnmodelledError(f"{name}{values!r}: to or from another disk")
        if name.startswith("link"):
            self.live.do(Names(((target, self.live.names[source]),)))
        else:
            self.live.rename(source, target, exchange="RENAME_EXCHANGE" in str(values[-1]))


def _octal(value: Value) -> int:
    return int(str(value), 8)
