"""Texts for systemd: whatever is in a word, systemd reads that word again."""

from __future__ import annotations

import os
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kranzq.service.quoting import assignment, command_line, is_assignable, quoted, shown

PATHS = st.binary(max_size=30).map(lambda data: os.fsdecode(data.replace(b"\0", b"/")))
C_NAMES = {"n": "\n", "t": "\t", "\\": "\\", '"': '"', "'": "'"}


def words_of(line: str) -> list[str]:
    """The words of a line as systemd.syntax(7) tells: quotes, escapes of C, and a doubled `%` for one."""
    found: list[str] = []
    word, quote, at = "", "", 0
    begun = False
    while at < len(line):
        one = line[at]
        at += 1
        if one == "\\":
            code = line[at]
            if code == "x":
                word += os.fsdecode(bytes.fromhex(line[at + 1 : at + 3]))
                at += 3
            else:
                word += C_NAMES[code]
                at += 1
        elif quote:
            quote = "" if one == quote else quote
            word += one if quote else ""
        elif one in "'\"":
            quote, begun = one, True
        elif one == " ":
            found.append(word)
            word, begun = "", False
        else:
            word += one
    assert not quote
    if word or begun:
        found.append(word)
    return [re.sub(r"%(.)", lambda match: match[1] if match[1] == "%" else f"<{match[1]}>", one) for one in found]


@given(st.lists(PATHS, min_size=1, max_size=5))
def test_every_word_is_read_as_it_was(words: list[str]) -> None:
    """Bytes that are no UTF-8, quotes, ends of lines, `%`: each word stays one word, and itself."""
    joined = command_line(["/bin/true", *words])
    read = [os.fsencode(word.replace("$$", "$")) for word in words_of(joined)]

    assert "\n" not in joined
    assert joined.encode()  # a unit is UTF-8
    assert read == [b"/bin/true", *(os.fsencode(word) for word in words)]


@given(PATHS)
def test_a_dollar_is_doubled_in_a_word_and_left_alone_in_a_variable(text: str) -> None:
    """In the words of a command line it would be expanded; the value of a variable is taken as it is."""
    assert os.fsencode(words_of(assignment("NAME", text))[0]) == b"NAME=" + os.fsencode(text)
    assert command_line(["/bin/true", text]).count("$") == 2 * text.count("$")


@pytest.mark.parametrize("sign", ["'", '"', "\\", "$", "\n", "\udcff"])
def test_a_program_that_systemd_refuses_by_its_path_is_started_by_a_shell(sign: str) -> None:
    """The path of a program may have no quotes, backslashes or control characters, and `$` in it cannot be escaped."""
    read = [word.replace("$$", "$") for word in words_of(command_line([f"/a{sign}b", "c"]))]

    assert read == ["/bin/sh", "-c", 'exec "$@"', "sh", f"/a{sign}b", "c"]


def test_what_needs_no_quotes_has_none() -> None:
    """People read units: plain words stay plain, and of two quotes the one is taken that needs no backslash."""
    assert command_line(["/usr/bin/python3", "-P", "/srv/a b/é"]) == '/usr/bin/python3 -P "/srv/a b/é"'
    assert quoted('say "x"') == "'say \"x\"'"
    assert quoted("it's") == '"it\'s"'


@pytest.mark.parametrize(("value", "may"), [("a b$%é\n\t", True), ("\x1b", False), ("\udcff", False), ("\x7f", False)])
def test_values_that_systemd_does_not_take_are_known(value: str, *, may: bool) -> None:
    """It drops such a variable with a warning, and the service would run without it."""
    assert is_assignable(value) is may


def test_what_people_are_shown_stays_one_line() -> None:
    """A path with an end of a line in it adds no line to a unit."""
    assert shown("/a\n[Service]\nExecStart=/b\udcff") == "/a�[Service]�ExecStart=/b�"
