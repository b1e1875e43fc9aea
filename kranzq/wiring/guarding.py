"""What `kranzq guard` asks: the checkout of a mission by its marks, the store or server of an item."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kranzq.dispatch.inside import is_for_item, is_in_mission
from kranzq.errors import CannotTell, NoSuchItem, NotFound, UnsafePath
from kranzq.model.checkout import Checkout
from kranzq.model.frozen import frozen
from kranzq.wiring.checkouts import is_meant_as_root
from kranzq.wiring.remote import server_of

if TYPE_CHECKING:
    from kranzq.backend.presence import SharedStore
    from kranzq.dispatch.own_item import ItemMarks
    from kranzq.model.work import WorkItem
    from kranzq.runs.record import RunRecord


@frozen
class Guarded:
    """Whose claim was looked at and found to be its own."""

    mission: str | None = None
    run: int | None = None
    item: str | None = None
    attempt: int | None = None

    def to_json(self) -> dict[str, object]:
        """With the documented keys."""
        inside = self.mission is not None or self.item is not None
        shown: dict[str, object] = {"inside": inside, "mission": self.mission, "run": self.run}
        return shown | {"item": self.item, "attempt": self.attempt}


def is_inside(environ: Mapping[str, str]) -> bool:
    """Whether this process belongs to a mission or works on an item. Imports nothing: people's own pushes ask it."""
    return is_in_mission(environ) or is_for_item(environ)


def guard(environ: Mapping[str, str]) -> Guarded:
    """Look at the claim that this process acts under. Raises a KranzqError when it is not, or may not be, its own."""
    record, marks = None, None
    if is_in_mission(environ):
        record = _run(environ)
    if is_for_item(environ):
        from kranzq.dispatch.own_item import item_marks_in

        marks = item_marks_in(environ)
        _check_item(marks, environ, record)
    return Guarded(
        str(record.mission) if record is not None else None,
        record.run if record is not None else None,
        marks.id if marks is not None else None,
        marks.attempt if marks is not None else None,
    )


def guard_item(marks: ItemMarks, environ: Mapping[str, str], named: str | None, url: str | None) -> Guarded:
    """Look at an item that is named, wherever this process runs: a job that is about to merge what came of it."""
    _check_item(marks, environ, None, named=named, url=url)
    return Guarded(item=marks.id, attempt=marks.attempt)


def _run(environ: Mapping[str, str]) -> RunRecord:
    from kranzq.backends.file.folders import Folders
    from kranzq.disk.owners import unsafe_folder
    from kranzq.dispatch.own_claim import check_own, marks_in

    marks = marks_in(environ)
    checkout = Checkout(marks.repo, has_git=os.path.lexists(f"{marks.repo}/.git"))
    if os.path.realpath(marks.repo) != marks.repo:
        raise UnsafePath(marks.repo, "the checkout of this mission is reached by a link now")
    if (unsafe := unsafe_folder(checkout, as_root=is_meant_as_root(environ))) is not None:
        raise unsafe.error()
    try:
        with Folders.open(checkout) as folders:
            return check_own(checkout, folders.kranz, folders.queue, marks)
    except NotFound as fault:
        raise NotFound(
            f"{checkout.queue} is gone, and with it the claim of mission {marks.mission}.",
            "Stop working on it. Something removed it: git clean -fdx does, for one.",
        ) from fault
    except OSError as fault:
        raise CannotTell(f"mission {marks.mission}", f"{fault.filename or checkout.kranz}: {fault.strerror}") from fault


def _check_item(
    marks: ItemMarks,
    environ: Mapping[str, str],
    record: RunRecord | None,
    *,
    named: str | None = None,
    url: str | None = None,
) -> None:
    """Ask where the item is: the dispatcher's own database for one that a daemon runs, else what the caller uses."""
    from kranzq.dispatch.own_item import check_own_item

    server = None if record is not None else server_of(environ, named, url)
    if server is not None:
        from kranzq.wiring.remote import open_remote

        with open_remote(server, environ) as far:
            check_own_item(far.show(marks.id), marks.attempt, None)
        return
    item, now = _in_database(marks, environ, record, url)
    check_own_item(item, marks.attempt, now)


def _in_database(
    marks: ItemMarks, environ: Mapping[str, str], record: RunRecord | None, url: str | None
) -> tuple[WorkItem, int | None]:
    from kranzq.wiring.working import open_work_to_look

    start = environ.get("KRANZ_REPO") if record is not None else None
    store = open_work_to_look(url, environ, start)
    if store is None:
        raise NoSuchItem(marks.id)
    with store:
        return store.show(marks.id), _clock_of(store)


def _clock_of(store: SharedStore) -> int | None:
    from kranzq.backends.sql.backend import SqlBackend

    return store.database.wall_ms() if isinstance(store, SqlBackend) else None
