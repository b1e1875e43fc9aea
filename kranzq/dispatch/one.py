"""One mission: where it is and how its runs went. A look."""

from __future__ import annotations

from kranzq.dispatch.listed import Listed
from kranzq.dispatch.look import entries_of
from kranzq.dispatch.past import Run, history
from kranzq.dispatch.sight import Sight
from kranzq.dispatch.why import why
from kranzq.model.frozen import frozen
from kranzq.model.ids import MissionId
from kranzq.model.state import State
from kranzq.runs.folders import Runs


@frozen
class OneMission:
    """A mission. `entries` are those of the queue, the one that matters most first; none: `state` is `gone`."""

    mission: str
    state: State
    entries: tuple[Listed, ...]
    runs: tuple[Run, ...]

    def to_json(self) -> dict[str, object]:
        """The mission with the documented keys."""
        return {
            "mission": self.mission,
            "state": self.state.value,
            "entries": [one.to_json() for one in self.entries],
            "runs": [run.to_json() for run in self.runs],
        }


def one_mission(sight: Sight, mission: MissionId) -> OneMission:
    """Look at one mission. Raises NoSuchMission when nothing tells of it."""
    state = why(sight, mission, no_command=None).state
    past = history(Runs(sight.checkout, sight.queue.kranz_fd), mission, last=None, unended=True)
    return OneMission(mission, state, entries_of(sight, mission), tuple(past))
