"""Whole numbers on the command line: one kind of parameter for all options that take one."""

from __future__ import annotations

import click

from kranzq.model.whole import parse_whole


class Whole(click.ParamType[int]):
    """A whole number from `least` to `most` (None: no bound), in digits 0 to 9 alone."""

    name = "whole number"

    def __init__(self, least: int, most: int | None = None) -> None:
        self.bounds = (least,) if most is None else (least, most)

    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        """How help names it."""
        del param, ctx
        return "N"

    def convert(self, value: object, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The number; click says which option is wrong."""
        if isinstance(value, int):  # a default
            return value
        try:
            return parse_whole(str(value), *self.bounds)
        except ValueError as fault:
            self.fail(f"it {fault}.", param, ctx)
