"""A disk that syncs slowly: a library that is loaded before all others lets each sync wait, as on an ordinary SSD."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <time.h>
static void wait_a_while(void) {
    const char *text = getenv("BENCH_SYNC_US");
    long micros = text ? atol(text) : 0;
    struct timespec pause = {micros / 1000000, micros % 1000000 * 1000};
    if (micros > 0) nanosleep(&pause, 0);
}
int fsync(int fd) {
    wait_a_while();
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fsync"))(fd);
}
int fdatasync(int fd) {
    wait_a_while();
    return ((int (*)(int)) dlsym(RTLD_NEXT, "fdatasync"))(fd);
}
"""


def why_not() -> str:
    """Why it cannot be made here; empty when it can."""
    return "" if shutil.which("gcc") else "not installed here (package gcc)"


def environment(folder: Path, milliseconds: int) -> dict[str, str]:
    """What a process needs in its environment so that each sync takes so much longer."""
    if not milliseconds:
        return {}
    made = folder / "slow.so"
    if not made.exists():
        source = folder / "slow.c"
        source.write_text(SOURCE)
        words = ["gcc", "-O1", "-shared", "-fPIC", str(source), "-o", str(made), "-ldl"]
        subprocess.run(words, check=True, capture_output=True)
    return {"LD_PRELOAD": str(made), "BENCH_SYNC_US": str(milliseconds * 1000)}
