"""FileQueue: one open queue of missions, as a turn and the surfaces use it. Satisfies `MissionQueue`.

All work goes through the descriptors that were opened with it; it is opened anew for each turn.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Container, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TYPE_CHECKING, Self

from kranzq.backend import Accepted, Candidate
from kranzq.backends.file import aside, claims, enqueueing, entries, sequence, sources
from kranzq.backends.file.bad_files import BadFiles
from kranzq.backends.file.change import PATIENCE_S, change, number_lock
from kranzq.backends.file.entries import Bad, Names
from kranzq.backends.file.folders import Folders, ignore_runtime_state
from kranzq.backends.file.inbox import Inbox
from kranzq.backends.file.item_claims import ItemClaims
from kranzq.backends.file.layout import PAUSED, parse_entry_name
from kranzq.backends.file.moves import Moves
from kranzq.backends.file.withdrawing import Withdrawing
from kranzq.disk import atomic
from kranzq.disk.read import Unreadable, read_regular
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claimed, Place
from kranzq.model.entry import Entry
from kranzq.model.ids import MissionId
from kranzq.model.source import Source
from kranzq.model.state import State

if TYPE_CHECKING:
    from kranzq.disk.leavings import IsGone
    from kranzq.model.outcome import Fate


class FileQueue(Moves, Inbox, BadFiles, Withdrawing, ItemClaims):
    """The queue below one checkout's `.kranz/queue/`."""

    @classmethod
    def open(cls, checkout: Checkout) -> Self:
        """Open for looking; nothing is made or changed. Raises NoQueue, UnsafePath."""
        return cls(Folders.open(checkout))

    @classmethod
    def make(cls, checkout: Checkout, *, as_root: bool = False) -> Self:
        """Open for work, making what is missing. `as_root`: root means it in another user's checkout."""
        return cls(Folders.make(checkout, as_root=as_root))

    @classmethod
    def open_to_change(cls, checkout: Checkout, *, as_root: bool = False) -> Self:
        """Open for work; nothing is made. Raises NoQueue, and what `make` raises for unsafe directories."""
        return cls(Folders.open_to_change(checkout, as_root=as_root))

    @property
    def fd(self) -> int:
        """The descriptor of `queue/`, for the keeper."""
        return self.folders.queue

    @property
    def kranz_fd(self) -> int:
        """The descriptor of `.kranz`."""
        return self.folders.kranz

    def enqueue(
        self, new: Entry, floor: Callable[[MissionId], int | None], *, looked: bool = True
    ) -> Accepted[Entry, State]:
        """Make an entry or say what is there; takes `change` itself. Raises Unsettled, if nobody has `looked`."""
        with self.change():
            return enqueueing.enqueue(self.folders, new, floor=floor, looked=looked)

    def front(self, skip: Container[str] = (), missions: Container[str] | None = None) -> Candidate | None:
        """The first of `in_order` that is not in `skip`; with `missions`, entries of others are not even read."""
        return next((one for one in self.in_order(missions) if one.place.name not in skip), None)

    def in_order(self, missions: Container[str] | None = None) -> Iterator[Candidate]:
        """The entries in order, each read when its turn comes; bad files on the way are quarantined."""
        good, bad = entries.ordered(self.folders)
        for text in bad:
            self._set_aside(entries.check_name(self.folders, text))
        for text in good:
            name = parse_entry_name(text)
            if name is None or (missions is not None and name.mission not in missions):
                continue
            found = entries.read(self.folders, name)
            if isinstance(found, Bad):
                self._set_aside(found)
            elif found is not None:
                yield found

    def queued(self) -> Iterator[Place]:
        """What lies in `queue/` by its name, in order."""
        good = map(parse_entry_name, entries.ordered(self.folders)[0])
        return (entries.place_of(name, State.QUEUED) for name in good if name is not None)

    def admit_due(self) -> None:
        """Move what is due from `waiting/` to its place."""
        due = aside.next_due_ms(self.folders)
        now_ms = int(time.time() * 1000)
        if due is not None and due <= now_ms:
            with self.change():
                aside.admit_due(self.folders, now_ms)

    def next_due(self) -> float | None:
        """When the next waiting entry is due, in wall seconds."""
        due = aside.next_due_ms(self.folders)
        return None if due is None else due / 1000

    def claim(self, candidate: Candidate, pid: int, suffix: str) -> Claimed | None:
        """Take the candidate for a keeper; takes `change` itself."""
        with self.change():
            return self.take(candidate, pid, suffix)

    def take(self, candidate: Candidate, pid: int, suffix: str) -> Claimed | None:
        """As `claim`; `change` must be held."""
        return claims.take(self.folders, candidate, pid, suffix)

    def claims(self) -> Sequence[Claimed]:
        """All claims."""
        return list(claims.listed(self.folders))

    def claimed(self, name: str) -> Claimed | None:
        """The claim of this name, if it lies there."""
        return next(claims.named(self.folders, (name,)), None)

    def strange_claims(self) -> list[str]:
        """Names with a claim's mark that are no claims."""
        return claims.strange(self.folders)

    def places(self, mission: MissionId | None = None) -> Sequence[Place]:
        """Where entries are, all or one mission's, in order."""
        found = entries.places(self.folders, mission)
        return sorted(found, key=lambda place: (place.priority, place.number, place.name))

    def names(self) -> Names:
        """The names of all entries and claims, unread: what `missions_in` is asked about when they are gone."""
        return entries.all_names(self.folders)

    def read(self, place: Place) -> Entry | None:
        """The entry at a place, or None when it is gone or bad. For priority and number the name wins."""
        fd = entries.folder_of(self.folders, place.state)
        found = entries.read_entry(fd, place.name, place.mission) if fd is not None else None
        return replace(found[0], priority=place.priority, number=place.number) if isinstance(found, tuple) else None

    def change(self) -> AbstractContextManager[None]:
        """Hold `.mutate.flock`."""
        return change(self.folders, patience=PATIENCE_S)

    def still_there(self, claimed: Claimed) -> bool:
        """Whether the claim is the same file under the same name."""
        return claims.still_there(self.folders, claimed)

    @contextlib.contextmanager
    def take_number(self, floor: int | None) -> Iterator[int]:
        """A new number, recorded in `.seq`."""
        with number_lock(self.folders):
            number = sequence.next_number(self.folders, floor)
            sequence.record(self.folders, number)
            yield number

    def carry_out(self, place: Place, fate: Fate) -> Fate:
        """Do exactly `fate`; `change` must be held."""
        from kranzq.backends.file import fates  # noqa: PLC0415 - only who settles an end

        return fates.carry_out(self.folders, place, fate)

    def quarantine(self, place: Place, why: str) -> None:
        """Set a candidate aside that must never run."""
        with self.change(), contextlib.suppress(FileNotFoundError):
            aside.quarantine(self.folders, place.name, why)

    def bind(self, mission: MissionId, producer: str, reference: str) -> None:
        """Bind a mission to a producer's item, durably."""
        sources.write(self.folders, mission, producer, reference)

    def binding(self, mission: MissionId) -> tuple[str, str] | None:
        """The producer and reference that a mission is bound to."""
        found = sources.read(self.folders, mission)
        return (found.producer, found.reference) if found is not None else None

    def unbind(self, mission: MissionId) -> bool:
        """Take a binding back, as if it had never been."""
        return sources.remove(self.folders, mission)

    def bindings(self, mission: MissionId) -> dict[str, Source]:
        """A mission's bindings by what became of them: `bound`, `returned`, `cancelled`."""
        names = {"bound": sources.SOURCE, "returned": sources.RETURNED, "cancelled": sources.CANCELLED}
        found = {word: sources.read(self.folders, mission, name) for word, name in names.items()}
        return {word: source for word, source in found.items() if source is not None}

    def return_source(self, mission: MissionId) -> bool:
        """Mark a binding as returned: its producer has seen the end."""
        return sources.give_back(self.folders, mission)

    def cancel_source(self, mission: MissionId) -> bool:
        """Mark a binding as cancelled."""
        return sources.cancel(self.folders, mission)

    def replace_content(self, place: Place, data: bytes) -> None:
        """New content under a present name, only while that name is there; `change` must be held. Synced."""
        fd = entries.folder_of(self.folders, place.state)
        if fd is not None:
            atomic.exchange_content(fd, place.name, data)
            atomic.sync_folder(fd)  # or a power cut brings the old content back

    def why_parked(self, place: Place) -> str:
        """The reason of a parked entry."""
        return aside.why(self.folders, place.name)

    def quarantined(self) -> list[tuple[str, str]]:
        """Names in the quarantine with their reasons."""
        return [(name, aside.why(self.folders, name, "quarantine")) for name in aside.quarantined(self.folders)]

    def prune_quarantine(self, count: int, age_s: float) -> int:
        """Remove old quarantined files; how many."""
        from kranzq.backends.file import retention  # noqa: PLC0415 - only dispatchers clear away

        return retention.prune_quarantine(self.folders, count, age_s)

    def sweep_leavings(self, is_gone: IsGone) -> int:
        """Remove temporary files of writers that are gone; how many."""
        from kranzq.backends.file import retention  # noqa: PLC0415 - as above

        return retention.sweep_leavings(self.folders, is_gone)

    def paused(self) -> str | None:
        """Why no new turns may be done, or None."""
        try:
            found = read_regular(PAUSED, dir_fd=self.folders.queue)
        except Unreadable as fault:
            return f"{PAUSED} is there, but {fault.why}"
        if found is None:
            return None
        return found.data.decode("utf-8", "replace").strip() or "no reason was given"

    def pause(self, reason: str) -> None:
        """Let no new turn begin."""
        try:
            atomic.replace(self.folders.queue, PAUSED, reason[: aside.REASON_MOST].encode(), sync=True)
        except OSError as fault:
            raise atomic.store_fault(f"{self.folders.checkout.queue}/{PAUSED}", fault) from fault

    def resume(self) -> bool:
        """Let turns begin again; False when nothing was paused. Synced: a power cut does not bring the pause back."""
        try:
            if removed := atomic.remove(self.folders.queue, PAUSED):
                self.sync()
            return removed
        except IsADirectoryError:
            with self.change(), contextlib.suppress(FileNotFoundError):
                aside.quarantine(self.folders, PAUSED, "it is a directory, no file with a reason", wanted="paused")
            return True
        except OSError as fault:
            raise atomic.store_fault(f"{self.folders.checkout.queue}/{PAUSED}", fault) from fault

    def ignore_runtime_state(self) -> list[str]:
        """Complete `.kranz/.gitignore`; the lines that were added."""
        return ignore_runtime_state(self.folders.kranz)

    def sync(self) -> None:
        """Make all that was moved so far survive a power cut."""
        atomic.sync_folder(self.folders.queue)

    def close(self) -> None:
        """Close all descriptors."""
        self.folders.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
