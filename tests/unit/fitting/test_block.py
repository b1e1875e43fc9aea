"""A block goes into any script and out of it again, and nothing else of the script changes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.errors import Conflict
from kranzq.fitting import block
from kranzq.fitting.kinds import Mark

KIND, BODY, MARK = "git-pre-push", "exit 0\n", Mark("1.2.3")
SCRIPTS = st.builds(
    lambda first, rest: first + rest,
    st.sampled_from([b"#!/bin/sh", b"#!/bin/sh\n", b"#! /usr/bin/env bash\n", b"#!/bin/dash -e\n"]),
    st.binary(max_size=60).map(lambda text: text.replace(b"kranzq", b"")),
).filter(block.is_shell)


def put(text: bytes | None, body: str = BODY, mark: Mark = MARK) -> bytes:
    """The script with the block."""
    return block.put(text, KIND, body, mark, "pre-push")


def take(text: bytes) -> bytes | None:
    """The script without it."""
    return block.take(text, KIND, "pre-push")


@given(SCRIPTS)
def test_out_again_the_script_is_what_it_was(text: bytes) -> None:
    """Byte for byte, whatever is in it and whether its last line has an end."""
    assert take(put(text)) == text


@given(SCRIPTS)
def test_twice_in_is_once_in(text: bytes) -> None:
    """And a block of another version is replaced where it stands."""
    once = put(text)

    assert put(once) == once
    assert take(put(put(text, "exit 1\n", Mark("0.9")))) == text
    assert put(put(text, "exit 1\n", Mark("0.9"))) == once


@given(SCRIPTS)
def test_the_block_comes_first(text: bytes) -> None:
    """What stands before it is the script's first line and nothing else, so no script ends before it."""
    found = block.find(put(text), KIND, "pre-push")

    assert found is not None
    assert found.mark == MARK
    assert found.body == BODY.encode()
    assert put(text)[: found.start].rstrip(b"\n") == text.partition(b"\n")[0]


def test_a_script_that_was_made_for_it_goes_with_it() -> None:
    """If nobody has written anything into it since."""
    made = put(None)

    assert made.startswith(b"#!/bin/sh\n# >>> kranzq hook git-pre-push >>> 1.2.3 made=file\n")
    assert take(made) is None
    assert take(made + b"echo mine\n") == b"#!/bin/sh\necho mine\n"
    assert take(put(b"#!/bin/sh\n")) == b"#!/bin/sh\n"


def test_a_script_without_a_block_stays_as_it_is() -> None:
    """There is nothing to take out."""
    assert take(b"#!/bin/sh\necho\n") == b"#!/bin/sh\necho\n"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda text: text.replace(b"<<< kranzq", b"<<< gone"),
        lambda text: text.replace(b">>> kranzq", b">>> gone"),
        lambda text: text + text,
        lambda text: text.replace(b"made=", b"mode="),
    ],
    ids=["no end", "no beginning", "twice", "no mark"],
)
def test_a_block_of_which_a_half_is_gone_is_left_alone(spoil: Callable[[bytes], bytes]) -> None:
    """Where it ends cannot be told; a person is told where to look."""
    spoilt = spoil(put(b"#!/bin/sh\n\n"))

    with pytest.raises(Conflict, match=r"pre-push, line \d"):
        take(spoilt)
    with pytest.raises(Conflict):
        put(spoilt)


@pytest.mark.parametrize(
    ("first", "is_one"),
    [
        (b"#!/bin/sh\n", True),
        (b"#!/usr/bin/env bash\n", True),
        (b"#!/usr/bin/env -S zsh -e\n", True),
        (b"#!/usr/bin/python3\n", False),
        (b"#!/usr/bin/env node\n", False),
        (b"#!/bin/sh\r\n", False),
        (b"#!\n", False),
        (b"echo\n", False),
        (b"\x7fELF\0", False),
        (b"#!/bin/sh\n\0", False),
        (b"", False),
    ],
)
def test_only_scripts_of_shells_get_one(first: bytes, is_one: bool) -> None:  # noqa: FBT001
    """In anything else shell would be a mistake."""
    assert block.is_shell(first) is is_one
