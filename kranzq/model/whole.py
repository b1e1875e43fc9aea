"""Whole numbers as people and programs write them: digits 0 to 9 and nothing else. One parser for all of them.

What Python's `int` takes besides (a sign, underscores, blanks, digits of other scripts) is mostly a slip of the hand,
and whoever looks at it may read another number than the machine does.
"""

from __future__ import annotations

import re

_DIGITS = re.compile(r"[0-9]+", re.ASCII)
_LONGEST = 18
"""So many digits fit into 64 bits; a longer text is out of every range."""


def parse_whole(text: str, least: int = 0, most: int = 10**_LONGEST - 1) -> int:
    """The number that `text` means, from `least` to `most`. Raises ValueError with half a sentence."""
    digits = text.lstrip("0") or "0"
    if _DIGITS.fullmatch(text) is None or len(digits) > _LONGEST or not least <= int(digits) <= most:
        up = f"from {least} to {most}" if most < 10**_LONGEST - 1 else f"from {least} on"
        raise ValueError(f"must be a whole number {up}, in digits 0 to 9 alone, not {text!r:.80}")
    return int(digits)
