"""Whole numbers: what a person reads is what the machine reads, or it is refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.model.whole import parse_whole

ODD = ("", "+5", "-5", "1_0", " 5", "5 ", "5\n", "\u0665", "\uff15", "5.0", "5e1", "0x5", "²", "five", "9" * 5000)
"""Texts that Python's own `int` takes in part, and that are no whole number to a person."""


@given(st.integers(0, 10**18 - 1), st.integers(0, 5))
def test_a_whole_number_is_its_digits(number: int, zeros: int) -> None:
    """Every number is read as it is written, with or without zeros in front."""
    assert parse_whole("0" * zeros + str(number)) == number


@pytest.mark.parametrize("text", ODD)
def test_nothing_else_is_one(text: str) -> None:
    """A sign, a blank, an underscore, digits of other scripts and endless ones are refused with the reason."""
    with pytest.raises(ValueError, match="must be a whole number from 0 to 255, in digits 0 to 9 alone, not '"):
        parse_whole(text, 0, 255)


@pytest.mark.parametrize(("text", "why"), [("0", "from 1 to 20"), ("21", "from 1 to 20"), ("1" * 20, "from 1 to 20")])
def test_bounds_are_named(text: str, why: str) -> None:
    """What is outside is refused with the bounds."""
    with pytest.raises(ValueError, match=why):
        parse_whole(text, 1, 20)


def test_without_a_bound_only_the_least_is_named() -> None:
    """Nobody asks for a number that does not fit into 64 bits."""
    with pytest.raises(ValueError, match="from 1 on,"):
        parse_whole("1" * 19, 1)
