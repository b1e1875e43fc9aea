"""Which states a power cut may leave: all of them where they are few, a choice by a seed where they are not."""

from __future__ import annotations

import hashlib
import itertools
import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from tests.proof.power_disk import Cut, Disk, Event, State, cuts, state, variants


@dataclass(frozen=True)
class Left:
    """A state that a cut may leave, and the last instant at which a cut may leave it: the most was promised there."""

    instant: int
    state: State


def all_left(
    disk: Disk, events: Sequence[Event], *, most: int, seed: int, torn: bool = False
) -> tuple[list[Left], bool]:
    """Distinct states over all instants, at most so many of each instant; and whether that is all that there are."""
    found: dict[bytes, Left] = {}
    complete = True
    for cut in cuts(disk, events, torn=torn):
        every = everything(cut, most)
        complete = complete and every is not None
        chosen = every if every is not None else chosen_of(cut, most, random.Random(f"{seed} {cut.instant}"))
        for one in chosen:
            found[digest(one)] = Left(cut.instant, one)
    return list(found.values()), complete


def digest(one: State) -> bytes:
    """Tells states apart: by paths, by bytes, and by which paths are names of the same file."""
    first: dict[int, str] = {}
    sign = hashlib.sha256()
    for path, inode in one.paths.items():
        data = one.files.get(inode)
        for part in (path.encode(), first.setdefault(inode, path).encode(), data if data is not None else b"\0/"):
            sign.update(len(part).to_bytes(8, "big") + part)
    return sign.digest()


def everything(cut: Cut, most: int) -> list[State] | None:
    """All states of a cut; None when there are more than `most`."""
    found: list[State] = []
    ways = {inode: variants(cut.disk.files.get(inode, b""), rows) for inode, rows in cut.contents.items()}
    for kept in _closed(cut, most):
        if kept is None:
            return None
        seen = state(cut, kept, {})
        unsafe = [inode for inode in ways if inode in seen.files]
        if len(found) + math.prod(len(ways[inode]) for inode in unsafe) > most:
            return None
        products = itertools.product(*(ways[inode] for inode in unsafe))
        found += [State(seen.paths, {**seen.files, **dict(zip(unsafe, data, strict=True))}) for data in products]
    return found


def _closed(cut: Cut, most: int) -> Iterator[frozenset[int] | None]:
    """Every set of pending changes that has with each change those that come before it; ends with None after `most`."""
    sets: list[frozenset[int]] = [frozenset()]
    for index, needs in enumerate(cut.needs):
        sets += [one | {index} for one in sets if needs <= one]
        if len(sets) > most:
            yield None
            return
    yield from sets


def chosen_of(cut: Cut, most: int, rng: random.Random) -> list[State]:
    """A choice of at most `most`: first what is most telling, then by chance.

    Telling are all and nothing, each change of a name lost or kept alone, and each way of one file with all names kept.
    """
    ways = {inode: variants(cut.disk.files.get(inode, b""), rows) for inode, rows in cut.contents.items()}
    whole = {inode: each[0] for inode, each in ways.items()}
    every = frozenset(range(len(cut.pending)))
    tried: list[tuple[frozenset[int], Mapping[int, bytes]]] = [
        (every, whole),
        (frozenset(), {}),
        (every, {}),
        (frozenset(), whole),
    ]
    telling = [(every, whole | {inode: data}) for inode, each in ways.items() for data in each[1:]]
    for index in every:
        lost, kept = every - _behind(cut, index), _before(cut, index)
        telling += [(lost, whole), (lost, {}), (kept, whole), (kept, {})]
    rng.shuffle(telling)
    tried += telling[: most * 2 // 3]
    found = {digest(one): one for one in itertools.starmap(lambda kept, data: state(cut, kept, data), tried)}
    for _ in range(most * 4):
        if len(found) >= most:
            break
        one = state(cut, _some(cut, rng), {inode: rng.choice(each) for inode, each in ways.items()})
        found[digest(one)] = one
    return list(found.values())[:most]


def _behind(cut: Cut, index: int) -> frozenset[int]:
    """A change and all that come after it."""
    found = {index}
    for later in range(index + 1, len(cut.pending)):
        if found & cut.needs[later]:
            found.add(later)
    return frozenset(found)


def _before(cut: Cut, index: int) -> frozenset[int]:
    """A change and all that come before it."""
    found, left = set[int](), [index]
    while left:
        if (one := left.pop()) not in found:
            found.add(one)
            left.extend(cut.needs[one])
    return frozenset(found)


def _some(cut: Cut, rng: random.Random) -> frozenset[int]:
    share = rng.choice((0.2, 0.5, 0.8, 0.95))
    found: set[int] = set()
    for index, needs in enumerate(cut.needs):
        if needs <= found and rng.random() < share:
            found.add(index)
    return frozenset(found)
