"""A real terminal to try things in: tmux with a socket of its own. What it shows is read as a person would see it."""

from __future__ import annotations

import contextlib
import os
import secrets
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence

from tests.laboratory import PATIENCE, REPO, wait_for

DONE = "[it is over]"
_NOT_OURS = frozenset({"TMUX", "TMUX_PANE", "COLUMNS", "LINES", "NO_COLOR"})


class Terminal:
    """One window. Its shell types nothing of its own, so what is on the screen came from what was started."""

    def __init__(self, columns: int, lines: int) -> None:
        self._folder = tempfile.mkdtemp(prefix="kranzq-tmux-", dir="/tmp")  # a socket's path must be short
        self._name = f"kranzq-{secrets.token_hex(4)}"
        self._env = {name: text for name, text in os.environ.items() if name not in _NOT_OURS}
        self._env |= {"TMUX_TMPDIR": self._folder, "LC_ALL": "C.UTF-8", "PS1": "$ ", "PYTHONPATH": str(REPO)}
        self._tmux("-f", "/dev/null", "new-session", "-d", "-x", str(columns), "-y", str(lines), "exec sh")

    def type(self, argv: Sequence[str], *, then: str = "") -> None:
        """Start a program in the foreground of the shell, on a clear screen; `then` is what the shell does after it."""
        self.line("clear")
        wait_for(lambda: self.text().strip() in {"", "$", "#"}, "the screen is clear")
        self.line(f"clear; {shlex.join(argv)}{then}")

    def kranzq(self, *words: str) -> None:
        """Start the program; behind it the shell says its exit code."""
        self.type([sys.executable, "-m", "kranzq", *words], then=f"; echo '{DONE}' $?")

    def line(self, text: str) -> None:
        """Type a line."""
        self._tmux("send-keys", "-l", text)
        self.keys("Enter")

    def keys(self, *keys: str) -> None:
        """Press keys, by their tmux names."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, lines: int) -> None:
        """Make the window another size."""
        self._tmux("resize-window", "-x", str(columns), "-y", str(lines))

    def raw(self) -> str:
        """What is on the screen, with its colours."""
        return self._tmux("capture-pane", "-p", "-e")

    def text(self) -> str:
        """What is on the screen."""
        return self._tmux("capture-pane", "-p").rstrip("\n")

    def history(self) -> str:
        """What is on the screen and what was scrolled off it."""
        return self._tmux("capture-pane", "-p", "-S", "-").rstrip("\n")

    def shows(self, *texts: str, never: Sequence[str] = ()) -> str:
        """Wait until all these texts are on the screen at once, and none of the others; the screen."""
        seen = [""]

        def there() -> bool:
            seen[0] = self.text()
            return all(text in seen[0] for text in texts) and not any(text in seen[0] for text in never)

        try:
            wait_for(there, "the screen shows what it should")
        except AssertionError as fault:
            raise AssertionError(f"wanted {texts}, not {never}; the screen:\n{seen[0]}") from fault
        return seen[0]

    def cursor(self) -> bool:
        """Whether the cursor is shown, and the screen is the one that the shell has."""
        return self._tmux("display-message", "-p", "#{cursor_flag}#{alternate_on}").strip() == "10"

    def close(self) -> None:
        """End the server with all that runs in it."""
        with contextlib.suppress(subprocess.CalledProcessError):
            self._tmux("kill-server")
        shutil.rmtree(self._folder, ignore_errors=True)

    def _tmux(self, *words: str) -> str:
        argv = ["tmux", "-L", self._name, *words]
        done = subprocess.run(argv, env=self._env, check=True, capture_output=True, text=True, timeout=PATIENCE)
        return done.stdout


@contextlib.contextmanager
def terminal(columns: int = 80, lines: int = 24) -> Iterator[Terminal]:
    """A terminal of this size, gone at the end."""
    one = Terminal(columns, lines)
    try:
        yield one
    finally:
        one.close()
