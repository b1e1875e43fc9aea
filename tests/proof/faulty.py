"""Faults from inside the program, where `strace` cannot tell the right call or cannot let it happen: see `faulty.c`."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.hurried import hurried_keeper
from tests.proof import tracing
from tests.proof.scenario import PATIENCE, World

SOURCE = Path(__file__).with_name("faulty.c")


@dataclass(frozen=True)
class Faulty:
    """The library, built."""

    library: Path

    @classmethod
    def made(cls, folder: Path) -> Faulty:
        """Build it there. Needs a C compiler."""
        library = folder / "faulty.so"
        words = ["gcc", "-O2", "-Wall", "-shared", "-fPIC", "-o", str(library), str(SOURCE), "-ldl"]
        subprocess.run(words, check=True, stdin=subprocess.DEVNULL)
        return cls(library)

    def run(self, world: World, argv: Sequence[str], point: tracing.Point, how: str) -> tracing.Traced:
        """Run the real program with a fault at a point of itself or of its first keeper; `how` as `faulty.c` has it.

        Raises `subprocess.TimeoutExpired` when it does not end.
        """
        fault = self.environment(world, point, how)
        of_keeper = point.role == tracing.KEEPER
        env = world.traced | ({"LAB_KEEPER": str(self._keeper(world, fault))} if of_keeper else fault)
        with subprocess.Popen(
            world.command(argv),
            cwd=world.folder,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        ) as process:
            try:
                out, err = process.communicate(timeout=PATIENCE)
            except subprocess.TimeoutExpired:
                world.end_live()
                process.kill()
                raise
        return tracing.Traced(code=process.returncode, out=out, err=err, was_hit=self.was_hit(world))

    def environment(self, world: World, point: tracing.Point, how: str) -> dict[str, str]:
        """What a program must find in its environment to meet the fault."""
        mark = world.folder / "hit"
        mark.unlink(missing_ok=True)
        return {
            "LD_PRELOAD": str(self.library),
            "LAB_FAULT": f"{point.name}:{point.ordinal}:{how}",
            "LAB_HIT": str(mark),
        }

    @staticmethod
    def was_hit(world: World) -> bool:
        """Whether it met the fault."""
        return (world.folder / "hit").exists()

    @staticmethod
    def _keeper(world: World, fault: dict[str, str]) -> Path:
        """A program in the keeper's place that becomes the first keeper with the fault, and every later one without."""
        mark = world.folder / "keeper-faulty"
        if mark.exists():
            mark.rmdir()
        program = world.folder / "faulty-keeper.py"
        program.write_text(
            f"import os, sys\n"
            f"words = [{sys.executable!r}, '-I', '-S', '-E', {str(hurried_keeper(world.folder))!r}]\n"
            f"try:\n"
            f"    os.mkdir({str(mark)!r})\n"
            f"    os.environ.update({fault!r})\n"
            f"except FileExistsError:\n"
            f"    pass\n"
            f"os.execv(words[0], [*words, *sys.argv[1:]])\n"
        )
        return program
