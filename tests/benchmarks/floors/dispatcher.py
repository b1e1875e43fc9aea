"""The least that a dispatcher can do: hear of a file, claim it, start its job.

    python -I -S … dispatcher.py FOLDER durable|plain JOB PIPE

`durable` claims under a lock with a rename that is synced; `plain` starts the job at once. Reads nothing, keeps no
record, waits for nobody: whoever does more than this takes longer.
"""

from __future__ import annotations

import fcntl
import os
import sys

from tests.benchmarks.floors.inotify import Inotify


def main(folder: str, how: str, *argv: str) -> None:
    """Serve for ever."""
    here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    lock = os.open(f"{folder}/.lock", os.O_RDWR | os.O_CREAT, 0o600)
    watch = Inotify(folder)
    print("ready", flush=True)
    for name in watch.names():
        if name[0] == ".":
            continue  # its own claim
        claim = name
        if how == "durable":
            fcntl.flock(lock, fcntl.LOCK_EX)
            claim = f".{name}.claimed"
            os.rename(name, claim, src_dir_fd=here, dst_dir_fd=here)
            os.fsync(here)
            fcntl.flock(lock, fcntl.LOCK_UN)
        pid = os.posix_spawn(argv[0], argv, os.environ)
        os.waitpid(pid, 0)
        os.unlink(claim, dir_fd=here)


if __name__ == "__main__":
    main(*sys.argv[1:])
