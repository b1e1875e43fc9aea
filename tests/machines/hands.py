"""What other programs and hands do to the files of a machine's queue, while no verb runs."""

from __future__ import annotations

import json
import os
import time
from typing import Any

from tests.factories import kranz_entry, kranz_name
from tests.machines.asks import FAR
from tests.machines.bench import JOBS, now_ms
from tests.machines.comparison import Compared
from tests.machines.world import DAMAGED, Cell, Job, Now, World

ODD = {"name": "queued", "waiting": "waiting", "parked": "parked"}
"""Where a file is put whose name is no entry's."""


class Handled(Compared):
    """The acts of hands; after each all files are compared."""

    def _drop(self, kind: str, mission: str, priority: int) -> None:
        self._note("drop", kind, mission, priority)
        self.came += 1
        name = f"drop{self.came}.json"
        value: dict[str, Any] = {"missionId": mission, "priority": priority}
        own = {"id": os.urandom(16).hex()}
        job = Job("", own=kind != "name", signed=False)
        match kind:
            case "command":
                value["kranzq"], job = own | {"command": list(JOBS["ok"])}, job._replace(word="ok")
            case "again":
                value["kranzq"], job = own | {"again": True}, job._replace(again=True)
            case "later":
                value["kranzq"] = own | {"notBefore": "2097-01-01T00:00:00Z"}
                job = job._replace(not_before=FAR)
            case "after":
                value["kranzq"], job = own | {"after": ["m1"]}, job._replace(after=("m1",))
            case "array" | "half":
                job = Job("bad" if kind == "array" else "partial", own=False, signed=False)
            case _:
                pass
        text = {"array": "[]", "half": '{"missionId": '}.get(kind, json.dumps(value))
        path = self.bench.folder / name
        path.write_text(text)
        if kind == "half":
            os.utime(path, (time.time() - 60,) * 2)
        path.rename(self.bench.queue / "inbox" / name)
        whose, order = ("", 0) if job.bad else (mission, priority)

        def dropped(world: World) -> World:
            born, life = world.new_life()
            beside = any(run.state in {"claiming", "begun"} for run in world.runs_of(mission))
            return born.put(Cell("inbox", whose, order, -1, job, life, None, 0, name, self.came, beside))

        self._check([dropped(world) for world, _ in self.worlds], kind)

    def _leave(self, path: str) -> None:
        if path not in self.strangers:
            (self.bench.queue / path).write_text("mine")
            self.strangers.add(path)
        self._note("a strange file", path)
        self._check([world for world, _ in self.worlds], "")

    def _lose_hint(self, how: str) -> None:
        """The last number is only a hint: names and records tell it as well."""
        self._note("the hint", how)
        hint = self.bench.queue / ".seq"
        if hint.is_dir():
            hint.rmdir()
        hint.unlink(missing_ok=True)
        match how:
            case "folder":
                hint.mkdir()
            case "text":
                hint.write_text("seven")
            case "too large":
                hint.write_text("99999999999999999999")
            case _:
                pass
        number = -1 if how == "lost" else DAMAGED
        self._check([world._replace(seq=number) for world, _ in self.worlds], "")

    def _put(self, kind: str, mission: str) -> None:
        self._note("put", kind, mission)
        self.came += 1
        number = 1 + max([-1, self.seen.seq, *(cell.number for cell, _ in self.seen.cells)])
        name = f"odd{self.came}.json" if kind in ODD else kranz_name(mission, 1, number)
        word = {"kranz": "", "half": "partial", "folder": "folder"}.get(kind, "bad")
        data = {"kranz": kranz_entry(mission, 1, number), "half": b'{"missionId": ', "array": b"[]"}
        data |= dict.fromkeys(ODD, b"{}")
        temporary = self.bench.folder / name
        if kind == "folder":
            temporary.mkdir()
        elif kind == "link":
            whole = self.bench.folder / f"{name}.whole"
            whole.write_bytes(kranz_entry(mission, 1, number))
            temporary.symlink_to(whole)
        else:
            temporary.write_bytes(data.get(kind, kranz_entry("another", 1, number)))
        begun = now_ms()
        temporary.rename(self.bench.queue / (kind if kind in {"waiting", "parked"} else "") / name)
        job = Job(word, own=False, signed=False)
        cell = Cell("queued", mission, 1, number, job, 0, touched=Now(begun, now_ms()).instant)
        if kind in ODD:
            cell = Cell(ODD[kind], "", 0, -1, job, 0, name=name)

        def put(world: World) -> World:
            born, life = world.new_life()
            return born.put(cell._replace(life=life))

        self._check([put(world) for world, _ in self.worlds], kind)
