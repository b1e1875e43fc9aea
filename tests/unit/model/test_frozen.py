"""Frozen classes behave as those of `dataclasses` do, whatever is asked of them first."""

from __future__ import annotations

import copy
import dataclasses
import pickle
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeVar

import pytest

from kranzq.model.frozen import frozen
from tests.laboratory import PATIENCE

T = TypeVar("T")


def both(of: Callable[[Any], Any]) -> tuple[Any, Any]:
    """A class made by ours and the same one made by `dataclasses`."""
    return of(frozen), of(dataclass(frozen=True, slots=True))


def point(make: Any) -> Any:
    """A class with all that ours have: defaults, a factory, a hidden field, a check and a method."""

    @make
    class Point:
        """One point."""

        x: int
        y: int = 2
        near: list[int] = field(default_factory=list, compare=False)
        secret: str = field(default="s", repr=False)

        def __post_init__(self) -> None:
            if self.x < 0:
                raise ValueError("x is negative")

        @property
        def sum(self) -> int:
            """Both."""
            return self.x + self.y

    return Point


FIRST: dict[str, Callable[[Any], Any]] = {
    "by place": lambda cls: cls(1, 3),
    "by name": lambda cls: cls(x=1),
    "repr": lambda cls: repr(cls(1)),
    "equal": lambda cls: (cls(1) == cls(1), cls(1) == cls(2), cls(1) == 1, cls(1, near=[1]) == cls(1, near=[2])),
    "hash": lambda cls: hash(cls(1)) == hash(cls(1, 2)),
    "replace": lambda cls: repr(dataclasses.replace(cls(1), y=5)),
    "replace by copy": lambda cls: repr(getattr(cls(1), "__replace__", partial(dataclasses.replace, cls(1)))(y=5)),
    "as a dictionary": lambda cls: dataclasses.asdict(cls(1)),
    "fields": lambda cls: [(one.name, one.default, one.repr) for one in dataclasses.fields(cls)][:2],
    "is one": dataclasses.is_dataclass,
    "method": lambda cls: cls(1).sum,
    "copied": lambda cls: (repr(copy.copy(cls(1))), repr(copy.deepcopy(cls(1)))),
    "no other attribute": lambda cls: hasattr(cls(1), "__dict__"),
    "names": lambda cls: (cls.__name__, cls.__qualname__, cls.__module__, cls.__doc__, cls.__match_args__),
}


@pytest.mark.parametrize("first", FIRST)
def test_whatever_is_asked_first_has_the_answer_of_dataclasses(first: str) -> None:
    """No question needs another one before it."""
    ours, theirs = both(point)
    answers = [FIRST[first](cls) for cls in (ours, theirs)]

    if first == "by place":
        assert [repr(one) for one in answers] == [repr(answers[1])] * 2
    elif first != "by name":
        assert answers[0] == answers[1]


@pytest.mark.parametrize(
    ("wrong", "kind"),
    [
        (lambda cls: cls(), TypeError),
        (lambda cls: cls(1, z=3), TypeError),
        (lambda cls: cls(-1), ValueError),
        (lambda cls: setattr(cls(1), "x", 2), dataclasses.FrozenInstanceError),
        (lambda cls: delattr(cls(1), "x"), dataclasses.FrozenInstanceError),
        (lambda cls: dataclasses.replace(cls(1), z=2), TypeError),
    ],
    ids=["nothing given", "another name", "its own check", "set", "deleted", "replaced by another name"],
)
def test_what_dataclasses_refuse_is_refused(wrong: Callable[[Any], Any], kind: type[Exception]) -> None:
    """With the same kind of error, also by the very first instance."""
    for cls in both(point):
        with pytest.raises(kind):
            wrong(cls)


def test_nothing_is_made_for_a_class_that_is_only_imported() -> None:
    """That is what it is for."""
    ours = point(frozen)
    before = ours.__init__
    ours(1)

    assert ours.__init__ is not before


def test_methods_of_its_own_stay() -> None:
    """A repr that hides something is not replaced."""

    @frozen
    class Hides:
        """One."""

        word: str

        def __repr__(self) -> str:
            return "Hides()"

    assert repr(Hides("x")) == "Hides()"
    assert Hides("x") == Hides("x")


def test_a_class_of_a_kind_may_be_frozen() -> None:
    """Generic classes keep their parameters."""

    @frozen
    class Box(Generic[T]):
        """One."""

        inside: T

    assert Box[int](3).inside == 3
    match Box(4):
        case Box(found):
            assert found == 4


@frozen
class Packed:
    """Lies in the module, so that pickle finds it."""

    x: int
    y: str = "y"


def test_one_goes_through_pickle() -> None:
    """As to another process."""
    assert pickle.loads(pickle.dumps(Packed(1))) == Packed(1)


def test_the_first_one_may_come_out_of_pickle() -> None:
    """In another process nobody has made one before."""
    ours = point(frozen)
    first = object.__new__(ours)
    first.__setstate__([1, 2, [], "s"])

    assert first == ours(1)
    assert repr(first) == repr(ours(1))


def test_a_state_of_another_class_is_refused() -> None:
    """As it would come from another version of the program."""
    with pytest.raises(ValueError, match="zip"):
        object.__new__(Packed).__setstate__([1])  # type: ignore[attr-defined]


def test_who_changes_a_field_is_told_which() -> None:
    """In words."""
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot change field 'y'"):
        setattr(Packed(1), "y", "other")  # noqa: B010 - the type checker refuses it, too


def test_many_threads_may_make_the_first_one() -> None:
    """All of them get a whole one."""
    ours = point(frozen)
    start, made = threading.Barrier(8), []

    def make() -> None:
        start.wait(PATIENCE)
        made.append(ours(1))

    threads = [threading.Thread(target=make) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)

    assert made == [ours(1)] * 8


def test_one_that_derives_from_a_frozen_class_is_made_by_dataclasses() -> None:
    """It has the fields of both; ours would not know them, and says so."""

    @dataclass(frozen=True, slots=True)
    class More(Packed):
        """Another field."""

        z: int = 3

    assert repr(More(1)).endswith("More(x=1, y='y', z=3)")
    assert More(1) == More(1, "y", 3) != More(2)
    with pytest.raises(TypeError, match="derives from a frozen class"):
        frozen(More)


def test_a_class_that_derives_from_one_may_say_itself_how_it_is_made() -> None:
    """Also if its first instance is the first of both: it is made once, with what it hands on."""
    ours, theirs = both(point)
    for cls in (ours, theirs):

        class Named(cls):  # type: ignore[misc, valid-type]
            """Made of a word."""

            calls = 0

            def __init__(self, word: str) -> None:
                type(self).calls += 1
                super().__init__(len(word), y=7)

        one = Named("four")

        assert (one.x, one.y, one.sum, Named.calls) == (4, 7, 11, 1)
        assert one == Named("more") != Named("x")
