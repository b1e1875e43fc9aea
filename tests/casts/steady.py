"""What differs each time (numbers of processes, ids, times, folders) is shown as the same each time.

So a cast that is made again differs only where the program says something else, and a test can compare them.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

BEGIN = datetime(2027, 1, 15, 2, 14, 7)  # noqa: DTZ001 - shown as local time, as the program shows it
FIRST_PROCESS = 4101
UUID = r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
PROCESSES = re.compile(r"\b((?:pid|process|keeper) )(\d+(?:, \d+)*)")
CLAIM = re.compile(r"(?<=\.claimed\.)\d+(?=\.)")
IDS = re.compile(rf"\b(?:{UUID}|[0-9a-f]{{32}}|[0-9a-f]{{16}})\b")
WHOLE_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d")
TIME = re.compile(r"(?<![\d-] )\b\d\d:\d\d:\d\d\b")
DURATION = re.compile(r"\b\d+(?:\.\d+)? (?:ms|s|min|h)\b(?: \d+ (?:s|min)\b)?( *)")
VERSION = re.compile(r"\(kranzq \d[^)]*\)")
USER = re.compile(r"\b[\w.-]+@[\w.-]+\b(?!\.)")


@dataclass
class Steady:
    """One cast's names: the first process that is named is 4101, the next one 4102, and ids are made likewise."""

    folder: Path
    began: datetime
    """When the step began: times to come are told relative to it, in whole minutes."""
    _processes: dict[str, str] = field(default_factory=dict)
    _ids: dict[str, str] = field(default_factory=dict)

    def __call__(self, text: str) -> str:
        """The text with what is the same each time."""
        text = text.replace(str(self.folder / "app"), "/src/app").replace(str(self.folder), "~")
        text = WHOLE_TIME.sub(lambda found: self._time(found[0]), text)
        text = TIME.sub(f"{BEGIN:%H:%M:%S}", text)
        text = PROCESSES.sub(lambda found: found[1] + self._several(found[2]), text)
        text = CLAIM.sub(lambda found: self.process(found[0]), text)
        text = IDS.sub(lambda found: self._id(found[0]), text)
        text = DURATION.sub(lambda found: "1 s" + ("  " if len(found[1]) > 1 else found[1]), text)
        text = VERSION.sub("(kranzq)", text)
        return USER.sub("me@laptop", text)

    def process(self, pid: str) -> str:
        """The number that stands for a process."""
        return self._processes.setdefault(pid, str(FIRST_PROCESS + len(self._processes)))

    def _several(self, pids: str) -> str:
        return ", ".join(self.process(pid) for pid in pids.split(", "))

    def _id(self, found: str) -> str:
        """An id of the same form."""
        made = hashlib.sha256(str(len(self._ids)).encode()).hexdigest()
        letters = iter(made)
        return self._ids.setdefault(found, "".join(one if one == "-" else next(letters) for one in found))

    def _time(self, found: str) -> str:
        """A time as far from the beginning as it is from now, in whole minutes; none is older, however long it took."""
        moment, second = datetime.fromisoformat(found), timedelta(seconds=1)  # it is shown without its fraction
        ahead = moment > datetime.now()  # noqa: DTZ005 - the program's own way of showing time
        minutes = (moment + second - self.began) // timedelta(minutes=1) if ahead else 0
        return f"{BEGIN + timedelta(minutes=minutes):%Y-%m-%d %H:%M:%S}"
