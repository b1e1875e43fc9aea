"""Frozen classes as `dataclasses` makes them, whose methods are made together with their first instance.

`dataclasses` writes and compiles half a dozen methods for each class, at import. A verb imports some sixty such classes
and makes instances of a dozen, so it would spend a quarter of its time on methods that nobody calls.
"""

from __future__ import annotations

import dataclasses
from typing import Any, TypeVar, dataclass_transform

T = TypeVar("T")
_MADE = ("__repr__", "__eq__", "__hash__", "__init__")
"""In this order: as soon as another thread can make instances, they are whole."""


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
    methods = [name for name in _MADE if name not in body]
    body |= {"__slots__": names, "__match_args__": names, "__dataclass_fields__": _Fields()}
    body |= {"__setattr__": _refuse, "__delattr__": _refuse, "__getstate__": _state, "__setstate__": _set_state}
    body |= {"__replace__": dataclasses.replace}

    def complete() -> None:
        kept = ("__annotations__", "__module__", "__doc__", "__post_init__", *names)
        plain: Any = type(cls.__name__, (), {name: told[name] for name in kept if name in told})
        whole = dataclasses.dataclass(frozen=True)(plain)
        for name in ("__dataclass_params__", "__dataclass_fields__", *methods):
            setattr(made, name, vars(whole)[name])

    def first_init(self: Any, *values: Any, **named: Any) -> None:
        complete()
        made.__init__(self, *values, **named)  # not the one of a class that derives from it, which may have called this

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
