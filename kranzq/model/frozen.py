"""Frozen classes as `dataclasses` makes them, whose methods are made when they are first called.

`dataclasses` writes and compiles half a dozen methods for each class, at import. A verb imports some sixty of them,
makes instances of a dozen and compares hardly any, so it would spend a quarter of its time on what nobody calls.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_WITH_FIRST_INSTANCE, _LATER = ("__init__",), ("__repr__", "__eq__", "__hash__")
"""Making them twice, by two threads at once, is making them once."""


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: type[T]) -> type[T]:
    """As `dataclasses.dataclass(frozen=True, slots=True)`, which makes those that derive from such a class.

    Raises TypeError for one whose bases have fields.
    """
    if any("_complete" in vars(base) for base in cls.__mro__):
        raise TypeError(f"{cls.__name__} derives from a frozen class: it is made by dataclass(frozen=True, slots=True)")
    told = vars(cls)
    names = tuple(told.get("__annotations__", ()))
    body = {name: what for name, what in told.items() if name not in {*names, "__dict__", "__weakref__"}}
    first = [name for name in _WITH_FIRST_INSTANCE if name not in body]
    later = [name for name in _LATER if name not in body]
    body |= {"__slots__": names, "__match_args__": names, "__dataclass_fields__": _Fields()}
    body |= {"__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _set_state}
    body |= {"__replace__": dataclasses.replace}

    def made_by_dataclasses(methods: Sequence[str], *, compared: bool) -> None:
        kept = ("__annotations__", "__module__", "__doc__", "__post_init__", *names)
        plain: Any = type(cls.__name__, (), {name: told[name] for name in kept if name in told})
        whole = dataclasses.dataclass(frozen=True, repr=compared, eq=compared)(plain)
        for name in ("__dataclass_params__", "__dataclass_fields__", *methods):
            setattr(made, name, vars(whole)[name])

    def complete() -> None:
        made_by_dataclasses(first, compared=False)

    def first_init(self: Any, *values: Any, **named: Any) -> None:
        complete()
        made.__init__(self, *values, **named)  # not the one of a class that derives from it, which may have called this

    def on_first_call(name: str) -> Callable[..., Any]:
        def call(self: Any, *others: Any) -> Any:
            made_by_dataclasses([*first, *later], compared=True)
            return getattr(made, name)(self, *others)

        return call

    body |= {name: on_first_call(name) for name in later}
    body |= {"_complete": staticmethod(complete), "__init__": body.get("__init__", first_init)}
    made: Any = type(cls)(cls.__name__, cls.__bases__, body)  # type: ignore[misc]  # a class of the same kind
    made.__qualname__ = cls.__qualname__
    return made  # type: ignore[no-any-return]


class _Fields:
    """What `dataclasses.fields`, `replace` and `asdict` look for: it is made, if there was no instance yet."""

    def __get__(self, instance: object, cls: Any) -> Any:
        cls._complete()
        return cls.__dataclass_fields__


def _refuse(_: object, name: str, *__: object) -> None:
    raise dataclasses.FrozenInstanceError(f"cannot change field {name!r}")


def _state(self: Any) -> list[object]:
    return [getattr(self, one.name) for one in dataclasses.fields(self)]


def _set_state(self: Any, state: list[object]) -> None:
    for one, what in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, one.name, what)
