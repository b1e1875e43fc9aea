"""What a machine can ask for: each verb with the options that matter, as words for the program and as a model of it."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass, field

from hypothesis import strategies as st

from tests.machines import beside, library, turns, verbs, withdrawing
from tests.machines.bench import JOBS
from tests.machines.verbs import Edits, Wanted
from tests.machines.world import Job, Program

MISSIONS = ("m1", "m2", "m3", "m4")
FAR, PAST = 4_007_836_800_000, 978_307_200_000
SOON_MS = 300
_LONG_MS, _SHORT_MS = 50_000, 200


@dataclass(frozen=True)
class Ask:
    """One verb. `words` are what a person types; a due time of -1 is one that comes soon."""

    verb: str
    words: tuple[str, ...] = ()
    mission: str = ""
    job: Job = field(default_factory=lambda: Job(""))
    priority: int = 2
    due: int | None = None
    flags: frozenset[str] = frozenset()

    def __str__(self) -> str:
        return " ".join(self._words(self.due))

    @property
    def dispatches(self) -> bool:
        """Whether it must run in a process of its own."""
        return self.verb in {"drain", "recover", "library"}

    @property
    def dies(self) -> bool:
        """Whether its process is gone with a claim, and with what it has said of the checkout's lock."""
        return self.verb == "library" and self._then == "leave"

    @property
    def _then(self) -> str:
        """What becomes of a claim of the library's: it is left by one that is gone, if nothing else."""
        return next(iter(self.flags - {"free"}), "leave")

    def said(self, now: int) -> tuple[tuple[str, ...], Program]:
        """The words and the model, for a certain moment."""
        due = now + SOON_MS if self.due == -1 else self.due
        return (*self._words(due), *self.words), self._model(due)

    def _words(self, due: int | None) -> tuple[str, ...]:
        match self.verb:
            case "enqueue":
                return self._enqueue(due)
            case "edit":
                return self._edit(due)
            case "source":
                return ("source", *sorted(self.flags), self.mission) if self.mission else ("source", "reclaim", "--yes")
            case "trust":
                return ("trust", "--unsigned" if self.flags else "--withdraw", "--yes", "--json")
            case "cancel":
                return ("cancel", self.mission, "--yes")
            case "drain":
                return ("drain", "--once")
            case "library":
                return (
                    "library",
                    "free" if "free" in self.flags else "front",
                    self._then,
                    *filter(None, [self.mission]),
                )
            case "recover" | "pause" | "resume":
                return (self.verb,)
            case _:
                return (self.verb, self.mission)

    def _enqueue(self, due: int | None) -> tuple[str, ...]:
        job, words = self.job, ["enqueue", self.mission, "--priority", str(self.priority)]
        words += [f"--{flag}" for flag in sorted(self.flags) if flag != "source"]
        words += ["--source", f"tracker:{self.mission}"] if "source" in self.flags else []
        words += ["--not-before", _time(due)] if due is not None else []
        words += [word for mission in job.after for word in ("--after", mission)]
        words += ["--retries", str(job.retries)] if job.retries else []
        words += ["--timeout", f"{job.limit / 1000}s"] if job.limit else []
        words += ["--again"] if job.again else []
        return (*words, *(("--", *JOBS[job.word]) if job.word else ()))

    def _edit(self, due: int | None) -> tuple[str, ...]:
        words = ["edit", self.mission]
        words += ["--priority", str(self.priority)] if "priority" in self.flags else []
        words += ["--not-before", _time(due) if due else "now"] if due is not None else []
        words += (
            ["--timeout", f"{self.job.limit / 1000}s" if self.job.limit else "none"] if "limit" in self.flags else []
        )
        return tuple(words)

    def _model(self, due: int | None) -> Program:
        match self.verb:
            case "enqueue":
                job = self.job._replace(not_before=due)
                flags = ("once" in self.flags, "future" in self.flags, "source" in self.flags)
                return verbs.enqueue(Wanted(self.mission, self.priority, job, *flags))
            case "edit":
                priority = self.priority if "priority" in self.flags else None
                return verbs.edit(self.mission, Edits(priority, due, self.job.limit if "limit" in self.flags else None))
            case "source":
                return beside.end_source(self.mission, next(iter(self.flags))) if self.mission else (beside.reclaim,)
            case "trust":
                return beside.trust(unsigned=bool(self.flags))
            case "cancel":
                return (
                    withdrawing.cancel_all(self.mission)
                    if set(self.mission) & set("*[")
                    else withdrawing.cancel(self.mission)
                )
            case "drain":
                return turns.drain(once=True)
            case "recover":
                return beside.recovery()
            case "library":
                return library.library(self.mission, self._then, free="free" in self.flags)
            case "pause":
                return (beside.pause,)
            case "resume":
                return (beside.resume,)
            case "park":
                return verbs.park(self.mission)
            case "unpark":
                return verbs.unpark(self.mission)
            case _:
                return verbs.retry(self.mission)


def _time(ms: int) -> str:
    if ms < 0:
        return "SOON"
    moment = dt.datetime.fromtimestamp(ms // 1000, tz=dt.UTC)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{ms % 1000:03d}Z"


_mission = st.sampled_from(MISSIONS)
_due = st.sampled_from((*[None] * 7, FAR, PAST, -1))
_words = st.sampled_from(
    (*("ok", "fail", "defer", "killer") * 3, *("later", "missing", "") * 2, "slow", "hang")  # mostly what is over soon
)
_flags = st.sets(st.sampled_from(("once", "future", "future", "source")), max_size=2).map(frozenset)
_after = st.sampled_from((*[()] * 7, ("m1",), ("m2",), ("m3", "m4")))


@st.composite
def enqueues(draw: st.DrawFn) -> Ask:
    """An approval with some of its options."""
    word = draw(_words)
    limit = _SHORT_MS if word == "slow" else draw(st.sampled_from((0, 0, _LONG_MS)))
    retries, again = draw(st.sampled_from((0, 0, 1, 2))), draw(st.sampled_from((False, False, True)))
    job = Job(word, retries, draw(_after), again, None, limit)
    return Ask("enqueue", (), draw(_mission), job, draw(st.integers(0, 3)), draw(_due), draw(_flags))


@st.composite
def edits(draw: st.DrawFn) -> Ask:
    """A change of mind about when and how long."""
    flags = draw(st.sets(st.sampled_from(("priority", "limit")), max_size=2).map(frozenset))
    due = draw(st.sampled_from((None, 0, FAR, PAST, -1) if flags else (0, FAR, PAST, -1)))
    job = Job("", limit=draw(st.sampled_from((0, _LONG_MS))))
    return Ask("edit", (), draw(_mission), job, draw(st.integers(0, 3)), due, flags)


def _plain(verb: str) -> st.SearchStrategy[Ask]:
    return _mission.map(lambda mission: Ask(verb, (), mission))


_cancels = st.sampled_from((*MISSIONS, *MISSIONS, "m[12]", "m*")).map(lambda mission: Ask("cancel", (), mission))
_sources = st.builds(
    lambda mission, how: Ask("source", (), mission, flags=frozenset({how})),
    _mission,
    st.sampled_from(("returned", "cancelled")),
)
_trusts = st.booleans().map(lambda yes: Ask("trust", flags=frozenset({"unsigned"} if yes else ())))
_permits = st.sampled_from((Ask("pause"), *[Ask("resume")] * 4))
changes = st.one_of(
    enqueues(), enqueues(), enqueues(), edits(), edits(), _plain("park"), _plain("unpark"), _plain("retry"), _cancels
)
"""The verbs by which people change the queue."""
others = st.one_of(_sources, st.just(Ask("source")), _trusts, _permits)
"""The verbs that change something beside it."""
_claims = st.builds(
    lambda mission, flags: Ask("library", (), mission, flags=flags),
    st.sampled_from((*[""] * 6, *MISSIONS)),
    st.sampled_from([frozenset(words) for words in (("finish",), ("release",), (), ("free",), ("free", "finish"))]),
)
_drain, _recover = st.just(Ask("drain")), st.just(Ask("recover"))
dispatching = st.one_of(_drain, _drain, _drain, _recover, _claims)
"""The verbs that run missions or settle them, and programs that take one by the library."""
