"""A wall clock that can be stepped: a small library that a program is started with adds an offset to what it reads.

Only the wall clock (`CLOCK_REALTIME`, `gettimeofday`, `time`) is changed, as a step of a real one would: intervals, the
boot clock and the kernel's own stamps of files stay. libfaketime changes more than that (it breaks absolute sleeps on
the monotonic clock) and leaves shared memory behind when its program is killed.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Mapping
from pathlib import Path

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>

static volatile long long *offset;
static int (*real)(clockid_t, struct timespec *);

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("STORM_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (fd >= 0) {
        void *page = mmap(NULL, 8, PROT_READ, MAP_SHARED, fd, 0);
        if (page != MAP_FAILED) offset = page;
    }
    real = dlsym(RTLD_NEXT, "clock_gettime");
}

int clock_gettime(clockid_t clock, struct timespec *at) {
    if (!real) real = dlsym(RTLD_NEXT, "clock_gettime");
    int failed = real(clock, at);
    if (!failed && offset && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE)) {
        long long ns = at->tv_sec * 1000000000LL + at->tv_nsec + *offset;
        at->tv_sec = ns / 1000000000LL;
        at->tv_nsec = ns % 1000000000LL;
    }
    return failed;
}

int gettimeofday(struct timeval *restrict at, void *restrict zone) {
    struct timespec now;
    (void)zone;
    if (clock_gettime(CLOCK_REALTIME, &now)) return -1;
    at->tv_sec = now.tv_sec;
    at->tv_usec = now.tv_nsec / 1000;
    return 0;
}

time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


class Clock:
    """The wall clock of all programs that are started with `environment`, and of their descendants.

    Whoever opens the same folder has the same clock. Without a compiler nothing is ever stepped.
    """

    def __init__(self, folder: Path) -> None:
        self._library, state = folder / "clock.so", folder / "clock"
        if not state.exists():
            state.write_bytes(bytes(8))
            _build(folder / "clock.c", self._library)
        self.can_step = self._library.exists()
        self.environment: Mapping[str, str] = {"LD_PRELOAD": str(self._library), "STORM_CLOCK": str(state)}
        if not self.can_step:
            self.environment = {}
        with state.open("r+b") as file:
            self._page = mmap.mmap(file.fileno(), 8)

    def step(self, seconds: float) -> None:
        """Let the wall clock be so far from the true one, for everybody, from now on."""
        self._page[:8] = struct.pack("=q", int(seconds * 1e9))


def _build(source: Path, library: Path) -> None:
    source.write_text(SOURCE)
    if compiler := shutil.which("cc") or shutil.which("gcc"):
        subprocess.run([compiler, "-O2", "-shared", "-fPIC", "-o", str(library), str(source), "-ldl"], check=True)
