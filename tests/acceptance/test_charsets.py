"""A stream whose charset has not every letter, or that takes nothing: no verb ends for it, and no settlement stops."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.laboratory import REPO, Laboratory, wait_for

LATIN = {"PYTHONIOENCODING": "latin-1"}


def kranzq(lab: Laboratory, *words: str, **more: object) -> subprocess.CompletedProcess[bytes]:
    """A verb in a process of its own, as a shell starts it: how its streams are opened is what matters."""
    env = os.environ | LATIN | {"PYTHONPATH": str(REPO)}
    given: dict[str, Any] = {"env": env, "capture_output": True, "timeout": 60} | more
    done: subprocess.CompletedProcess[bytes] = subprocess.run(lab.command(*words), check=False, **given)
    return done


@pytest.mark.parametrize("charset", ["latin-1", "ascii", "iso8859-15", "ascii:surrogateescape", "utf-8"])
def test_what_a_charset_has_not_is_shown_escaped(lab: Laboratory, charset: str) -> None:
    """A title of another script, and help with an ellipsis of our own, end no verb with a fault."""
    env = os.environ | {"PYTHONIOENCODING": charset, "PYTHONPATH": str(REPO), "PYTHONUTF8": "0"}
    lab.enqueue("m-1")
    kranzq(lab, "park", "m-1", "漢字 €")
    for words in (("list", "--parked"), ("status",), ("agent", "add", "--help"), ("why", "m-1")):
        done = kranzq(lab, *words, env=env)
        assert done.returncode == 0, done.stderr

    shown = kranzq(lab, "list", "--parked", env=env).stdout
    assert b"\\u6f22" in shown or "漢字".encode() in shown


def test_a_daemon_settles_on_a_terminal_that_has_no_ellipsis(lab: Laboratory) -> None:
    """Forty columns of Latin-1: the line below the log is cut, and the claim of an ended mission goes all the same."""
    controller, terminal = pty.openpty()
    os.set_blocking(controller, False)
    seen = bytearray()

    def read() -> bytes:
        try:
            seen.extend(os.read(controller, 65536))
        except BlockingIOError:
            pass
        return bytes(seen)

    import fcntl
    import struct
    import termios

    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 40, 0, 0))
    long = "a-mission-with-a-name-that-is-wider-than-the-terminal"
    lab.enqueue(long)
    lab.enqueue("after-it")
    start = (
        "import os, sys; os.setsid(); os.close(os.open(os.ttyname(1), os.O_RDWR)); os.execv(sys.argv[1], sys.argv[1:])"
    )
    process = subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", start, *lab.command("daemon")],
        cwd=REPO,
        env=os.environ | LATIN | {"TERM": "xterm", "PYTHONPATH": str(REPO)},
        stdin=terminal,
        stdout=terminal,
        stderr=terminal,
    )
    lab.started.append(process)
    os.close(terminal)

    wait_for(lambda: read() is not None and lab.outcomes("after-it"), "both have ended")
    wait_for(lambda: not lab.entries() or process.poll() is not None, "their claims have gone")
    assert process.poll() is None, seen
    assert b"~" in seen
    os.close(controller)


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("kind", ["full", "pipe"])
def test_a_stream_that_takes_nothing_does_not_change_the_exit_code(lab: Laboratory, stream: str, kind: str) -> None:
    """A mission is run, and an unknown one is unknown, whether anybody can read that or not."""
    lab.enqueue("m-1")
    for words, code in ((("drain",), 0), (("why", "m-2"), 3), (("enqueue", "--no-such"), 2)):
        with Broken(kind) as fd:
            streams = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, stream: fd}
            done = kranzq(lab, *words, capture_output=False, **streams)
        assert done.returncode == code, words

    assert lab.outcomes("m-1") == ["succeeded"]
    assert lab.entries() == []


class Broken:
    """Something that takes nothing: a full device, or a pipe without a reader."""

    def __init__(self, kind: str) -> None:
        self._kind = kind

    def __enter__(self) -> int:
        if self._kind == "full":
            self._fd = os.open(Path("/dev/full"), os.O_WRONLY)
        else:
            reader, self._fd = os.pipe()
            os.close(reader)
        return self._fd

    def __exit__(self, *_: object) -> None:
        os.close(self._fd)
