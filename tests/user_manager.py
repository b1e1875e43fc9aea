"""A user manager of systemd's for one test, where no systemd runs: in a mount namespace and control group of its own.

It looks for units in the test's `XDG_CONFIG_HOME`, and the processes that it starts are seen like any others.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.laboratory import PATIENCE, is_alive, wait_for

PROGRAMS = ("/usr/lib/systemd/systemd", "/lib/systemd/systemd")
GROUPS = [Path("/sys/fs/cgroup") / one for one in ("systemd", "unified", "")]
"""Where systemd keeps its own hierarchy: the first two beside controllers of the first version, else the last one."""
BEGIN = """
mount -t tmpfs tmpfs /run && mkdir -p /run/systemd/system || exit 77
for folder in $GROUPS; do mkdir "$folder" && echo $$ > "$folder/cgroup.procs" || exit 77; done
exec "$0" --user
"""


@dataclass
class UserManager:
    """A manager that runs."""

    process: subprocess.Popen[bytes]
    env: dict[str, str]
    log: Path

    def ask(self, *words: str) -> str:
        """What `systemctl` says, whatever its exit code."""
        argv = ["systemctl", "--user", "--no-pager", *words]
        done = subprocess.run(argv, env=self.env, capture_output=True, text=True, timeout=PATIENCE, check=False)
        return done.stdout.strip() or done.stderr.strip()

    def pid_of(self, unit: str) -> int:
        """The main process of a unit, 0 when it has none."""
        return int(self.ask("show", unit, "--property=MainPID", "--value") or 0)

    def end(self) -> None:
        """Let it leave as it does after the last session of its user."""
        self.process.terminate()
        self.process.wait(PATIENCE)


@contextlib.contextmanager
def user_manager() -> Iterator[UserManager]:
    """A manager with the environment of this process. Skips the test where none can be run."""
    program = next((one for one in PROGRAMS if os.path.exists(one)), None)
    if program is None:
        pytest.skip("needs systemd")
    folder = Path(tempfile.mkdtemp(prefix="kq-systemd-"))  # its sockets must have short names
    name = f"kranzq-{secrets.token_hex(4)}"
    groups = [one / name for one in GROUPS if (one / "cgroup.procs").exists()]
    env = {**os.environ, "XDG_RUNTIME_DIR": str(folder), "GROUPS": " ".join(map(str, groups))}
    with (folder / "log").open("wb") as log:
        words = ["unshare", *([] if os.geteuid() == 0 else ["-r"]), "--mount", "sh", "-c", BEGIN, program]
        process = subprocess.Popen(words, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
    manager = UserManager(process, env, folder / "log")
    state = ("show", "--property=SystemState", "--value")
    try:
        wait_for(lambda: process.poll() is not None or manager.ask(*state) == "running", "systemd runs")
        if process.poll() is not None:
            pytest.skip(f"needs the right to run a user manager: {manager.log.read_text(errors='replace')[-300:]}")
        yield manager
    finally:
        process.kill()
        process.wait(PATIENCE)
        for group in groups:
            _clear(group)
        shutil.rmtree(folder)


def _clear(group: Path) -> None:
    """End what is left in a control group, and remove it."""
    inner = sorted((path for path in group.rglob("*") if path.is_dir()), key=lambda path: -len(path.parts))
    for one in (*inner, group):
        with contextlib.suppress(FileNotFoundError):
            pids = [int(line) for line in (one / "cgroup.procs").read_text().split()]
            for pid in pids:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, 9)
            wait_for(lambda pids=pids: not any(map(is_alive, pids)), "what was in the group is gone")  # type: ignore[misc]
            wait_for(lambda one=one: _removed(one), "the group can be removed")  # type: ignore[misc]


def _removed(group: Path) -> bool:
    try:
        group.rmdir()
    except FileNotFoundError:
        return True
    except OSError:
        return False
    return True
