"""Tell a story: the real program in a scratch checkout, on a terminal, with what differs each time made steady."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

import psutil

from tests.casts.steady import Steady
from tests.casts.stories import AGENT, REVIEWER, Said, Started, Step, Story, Typed, Until
from tests.casts.terminal import Line, Span, run

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = ("COLUMNS", "LINES", "KRANZQ_", "KRANZ_", "GIT_", "XDG_", "LC_", "NO_COLOR", "NOTIFY_", "INVOCATION_")
PATIENCE_S = 60.0
SET_CHILD_SUBREAPER = 36


@dataclass(frozen=True)
class Shown:
    """A line of the cast, and how many seconds after the one before it is seen."""

    line: Line
    after_s: float


def tell(story: Story) -> list[Shown]:
    """The lines of a story. Call it in a process of its own: it adopts and buries what the story leaves behind.

    So a killed process is gone at once, whoever its parent was, and the program says the same of it each time.
    """
    ctypes.CDLL(None).prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    with tempfile.TemporaryDirectory(prefix="kranzq-cast-") as scratch, _Stage(Path(scratch).resolve()) as stage:
        shown: list[Shown] = []
        for step in story.steps:
            shown += stage.do(step)
        return shown[1:]  # without the blank line in front of the first command


@dataclass
class _Stage(contextlib.AbstractContextManager["_Stage"]):
    folder: Path
    _started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._app = self.folder / "app"
        self._app.mkdir()
        programs = self.folder / "bin"
        programs.mkdir()
        _program(
            programs / "kranzq",
            f'#!/bin/sh\nPYTHONPATH={shlex.quote(str(ROOT))} exec {shlex.quote(sys.executable)} -m kranzq "$@"\n',
        )
        self._env = {name: value for name, value in os.environ.items() if not name.startswith(LEFT_OUT)} | {
            "HOME": str(self.folder),
            "LC_ALL": "C.UTF-8",
            "TERM": "xterm-256color",
            "TZ": "UTC",
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
        }
        os.environ["TZ"] = "UTC"
        time.tzset()
        subprocess.run(
            ["git", "init", "--quiet", "--initial-branch=main", "."], cwd=self._app, env=self._env, check=True
        )
        _program(self._app / "agent", AGENT)
        _program(self._app / "reviewer", REVIEWER)
        self._steady = Steady(self.folder, datetime.now())  # noqa: DTZ005 - the program's own way of showing time

    def __exit__(self, *_: object) -> None:
        """End the daemon, with its mission, and whatever else was adopted."""
        while left := psutil.Process().children(recursive=True):
            for one in left:
                with contextlib.suppress(psutil.NoSuchProcess):
                    one.kill()
            with contextlib.suppress(ChildProcessError):
                while True:
                    os.waitpid(-1, 0)

    def do(self, step: Step) -> list[Shown]:
        """Take a step; what is seen of it."""
        self._steady.began = datetime.now()  # noqa: DTZ005 - as above
        match step:
            case Said():
                return [Shown((), 0.3), Shown((Span(f"# {step.text}", "dim"),), 0.6)]
            case Until():
                self._until(step.condition)
                return []
            case Started():
                self._started.append(
                    subprocess.Popen(
                        shlex.split(step.command),
                        cwd=self._app,
                        env=self._env,
                        stdin=subprocess.DEVNULL,
                        stdout=subprocess.DEVNULL,
                        stderr=subprocess.DEVNULL,
                        executable=self.folder / "bin" / "kranzq",
                    )
                )
                return self._prompt("", f"{step.command} &")
            case Typed():
                return self._typed(step)

    def _typed(self, step: Typed) -> list[Shown]:
        numbers = self._numbers() if "{" in step.command else {}
        named = {name: self._steady.process(pid) for name, pid in numbers.items()}
        seen = self._prompt(step.by, step.command.format(**named) if named else step.command)
        command = step.command.format(**numbers) if numbers else step.command
        env = {**self._env, "KRANZQ_AGENT": step.by} if step.by else self._env
        lines, code = run(command, self._app, env)
        if numbers:
            self._started.pop().wait(PATIENCE_S)
            os.waitpid(int(numbers["keeper"]), 0)
        for at, line in enumerate(lines):
            spans = [replace(span, text=self._steady(span.text)) for span in line]
            seen.append(Shown(tuple(spans), 0.08 if at else 0.5))
        if code:
            seen.append(Shown((Span(f"# exit code {code}", "dim"),), 0.08))
        return seen

    def _prompt(self, by: str, command: str) -> list[Shown]:
        prompt = (Span(f"{by} $ " if by else "$ ", "green", bold=True), Span(command, bold=True))
        return [Shown((), 0.3), Shown(prompt, 0.6)]

    def _numbers(self) -> dict[str, str]:
        told = subprocess.run(
            ["kranzq", "status", "--json"],
            cwd=self._app,
            env=self._env,
            executable=self.folder / "bin" / "kranzq",
            capture_output=True,
            check=True,
        )
        status = json.loads(told.stdout)
        return {"daemon": str(status["daemon"]["pid"]), "keeper": str(status["busy"]["pid"])}

    def _until(self, condition: str) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while subprocess.run(
            ["sh", "-c", condition],
            cwd=self._app,
            env=self._env,
            check=False,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode:
            assert time.monotonic() < deadline, f"not within {PATIENCE_S:g} s: {condition}"
            time.sleep(0.05)


def _program(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)
