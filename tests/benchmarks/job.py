"""The job that tells when it began: the first thing it does is to read the clock, the second to say so in a pipe."""

from __future__ import annotations

import os
import select
import shutil
import subprocess
from pathlib import Path

PATIENCE_S = 20.0
SOURCE = r"""
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
int main(int argc, char **argv) {
    struct timespec now;
    char line[32];
    clock_gettime(CLOCK_MONOTONIC, &now);
    int pipe = open(argv[argc - 1], O_WRONLY);
    int length = snprintf(line, sizeof line, "%lld\n", now.tv_sec * 1000000000LL + now.tv_nsec);
    return pipe < 0 || write(pipe, line, length) != length;
}
"""


class Job:
    """A program without anything to load, compiled here; without a compiler a script, which is slower for everybody.

    The pipe belongs to one subject: two that wait must not hear each other's jobs.
    """

    def __init__(self, folder: Path, name: str) -> None:
        """Make the pipe; the program is made once a folder."""
        self.pipe = folder / f"{name}.pipe"
        os.mkfifo(self.pipe)
        self._fd = os.open(self.pipe, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        self._left = b""
        self.argv = (*program(folder), str(self.pipe))

    def heard_ns(self) -> int:
        """When the next job began, by the clock of all processes; waits for it. Raises TimeoutError."""
        while b"\n" not in self._left:
            if not select.select([self._fd], [], [], PATIENCE_S)[0]:
                raise TimeoutError(f"no job began within {PATIENCE_S:g} s")
            self._left += os.read(self._fd, 4096)
        line, _, self._left = self._left.partition(b"\n")
        return int(line)

    def close(self) -> None:
        """Close the pipe."""
        os.close(self._fd)
        self.pipe.unlink()


def program(folder: Path) -> tuple[str, ...]:
    """The words that run it, without its pipe."""
    made = folder / "job"
    if made.exists():
        return (str(made),)
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        script = folder / "job.py"
        script.write_text("import sys, time\nt = time.monotonic_ns()\nopen(sys.argv[1], 'w').write(f'{t}\\n')\n")
        return ("/usr/bin/env", "python3", "-I", "-S", str(script))
    source = folder / "job.c"
    source.write_text(SOURCE)
    words = [compiler, "-O1", str(source), "-o", str(made)]
    if subprocess.run([*words, "-static"], capture_output=True, check=False).returncode:
        subprocess.run(words, check=True)
    return (str(made),)
