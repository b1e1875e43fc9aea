"""Presence claims: "I am working on this path, branch or topic". Advisory: they block nobody and vanish by themselves.

What a claim is about is its `Subject`; the same subject claimed again by the same holder renews the claim. Every text
is one line and cut to its size, since it is shown to other agents. Times are wall milliseconds since 1970 by the clock
of the store; a claim lives while `expires_at` is greater than now, for every reader.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Sequence

from kranzq.errors import UsageFault
from kranzq.model.claim import Holder
from kranzq.model.frozen import frozen
from kranzq.model.repository import repo_key, same_repository
from kranzq.model.work import MOST_NAME, check_text, folded

DEFAULT_MINUTES, LEAST_MINUTES, MOST_MINUTES = 120, 5, 1440
MOST_PATH, MOST_BRANCH, MOST_TOPIC, MOST_NOTE = 400, 200, 120, 200
"""Sizes in characters, the ellipsis of what was cut included."""
MOST_CLAIMS = 100
"""So many live claims has one holder at most: a loop that claims topics cannot fill the table."""
_MOST_KEY = 4200
"""The longest key of a repository: that of a clone with a path as long as a system takes."""
_MOST_RAW = 16_384
"""A path as it is named, before `..` is resolved: longer than any that a system takes."""
_DRIVE = re.compile(r"[A-Za-z]:[\\/]")
_SPACE = re.compile(
    "[\\s\\x00-\\x1f\\x7f-\\x9f\u00ad\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u206f\ufeff\U000e0000-\U000e007f]+"
)
"""What becomes one space: blanks, control characters, and what is invisible or turns text around."""
_HALF = re.compile("[\ud800-\udfff]")


@frozen
class Whereabouts:
    """Where somebody works: the key and the canonical root of a clone, and its branch when one is checked out."""

    repo: str
    root: str
    branch: str | None = None


@frozen
class Subject:
    """What a claim is about. Absent parts are None; `path` is relative to the root, and empty for the whole of it."""

    repo: str | None = None
    path: str | None = None
    absolute_path: str | None = None
    branch: str | None = None
    topic: str | None = None

    @property
    def key(self) -> str:
        """One text for one subject: equal exactly when `same_as` holds."""
        return hashlib.sha256(json.dumps(self._identity()).encode()).hexdigest()

    def same_as(self, other: Subject) -> bool:
        """Whether both are one subject: each part is equal, an absent one to an absent one; a topic ignores case."""
        return self._identity() == other._identity()

    def cut(self) -> Subject:
        """The same with each text on one line and cut to its size; blank ones are absent, but for the path."""
        return Subject(
            _said(self.repo, _MOST_KEY),
            one_line(self.path, MOST_PATH) if self.path is not None else None,
            _said(self.absolute_path, MOST_PATH),
            _said(self.branch, MOST_BRANCH),
            _said(self.topic, MOST_TOPIC),
        )

    def _identity(self) -> tuple[str | None, ...]:
        topic = folded(self.topic) if self.topic is not None else None
        return self.repo, self.path, self.absolute_path, self.branch, topic


@frozen
class NewPresence:
    """A claim that is to be put. Making one checks and cuts it. Raises UsageFault.

    `home` is the repository in which the holder works: it helps to tell branches apart and is no part of the subject,
    so that a topic is one claim from wherever it is claimed.
    """

    holder: Holder
    subject: Subject
    note: str = ""
    minutes: int | None = None
    home: str | None = None
    channel: str = ""

    def __post_init__(self) -> None:
        """Check who claims, for how long, and what."""
        if not self.holder.name.strip():
            raise UsageFault("A presence claim needs the name of its holder.", "Name the agent.")
        check_text("agent", self.holder.name, MOST_NAME)
        check_text("agent uid", self.holder.uid, MOST_NAME)
        check_text("channel", self.channel, MOST_NAME)
        lifetime_ms(self.minutes)
        object.__setattr__(self, "subject", self.subject.cut())
        object.__setattr__(self, "home", _said(self.home, _MOST_KEY))
        object.__setattr__(self, "note", one_line(self.note, MOST_NOTE))
        if self.subject == Subject():
            raise _nothing_named()


@frozen
class PresenceClaim:
    """A claim as it is kept. Its topic and note are another agent's words: information, never an instruction."""

    id: str
    agent: str
    agent_uid: str
    channel: str
    subject: Subject
    home: str | None
    note: str
    created_at: int
    expires_at: int

    def is_live(self, now: int) -> bool:
        """The one rule of expiry."""
        return self.expires_at > now

    def to_json(self) -> dict[str, object]:
        """The claim as every surface gives it: the columns of the seed, and `home`."""
        about = self.subject
        return {
            "id": self.id,
            "agent": self.agent,
            "agent_uid": self.agent_uid,
            "channel": self.channel,
            "repo": about.repo,
            "path": about.path,
            "absolute_path": about.absolute_path,
            "branch": about.branch,
            "topic": about.topic,
            "note": self.note,
            "created_at": self.created_at,
            "expires_at": self.expires_at,
            "home": self.home,
        }


def holder_key(holder: Holder) -> str:
    """The one text by which a holder renews and releases: the uid where there is one, else the name without its case.

    A name alone is never the holder of what was claimed under a uid: two agents of one name do not end each other's.
    """
    return f"u:{holder.uid}" if holder.uid else f"n:{folded(holder.name)}"


def lifetime_ms(minutes: int | None) -> int:
    """How long a claim lives: two hours if not said, at least five minutes, at most a day. Raises UsageFault."""
    if minutes is None:
        minutes = DEFAULT_MINUTES
    if type(minutes) is not int:
        raise UsageFault(f"ttl_minutes must be a whole number of minutes, not {str(minutes)[:40]!r}.")
    return min(max(minutes, LEAST_MINUTES), MOST_MINUTES) * 60_000


def one_line(text: str, most: int) -> str:
    """The text on one line, without what would act on a terminal or hide, cut with an ellipsis."""
    looked_at = 8 * most
    while True:
        flat = flat_text(text[:looked_at])  # of ten megabytes only what is shown
        if len(flat) > most:
            return flat[: most - 1] + "…"
        if looked_at >= len(text):
            return flat
        looked_at *= 4


def flat_text(text: str) -> str:
    """The text on one line: control characters and blanks in a row are one space; half characters are replaced."""
    return _HALF.sub("\ufffd", _SPACE.sub(" ", text).strip())


def subject_of(
    *,
    path: str | None = None,
    repo: str | None = None,
    branch: str | None = None,
    topic: str | None = None,
    here: Whereabouts | None = None,
    clones: Sequence[Whereabouts] = (),
    leads_to: str | None = None,
) -> Subject:
    """The subject that somebody names who works `here`. Blank texts count as not given. Raises UsageFault.

    Only a repository named: the whole of it. A path without a repository lies in that of `here`; an absolute one in
    whichever of `here` and `clones` has it, else it stays absolute. `leads_to` is the absolute path of a link's target
    outside of all clones. A branch or topic does not take over the repository of `here`.
    """
    key = named_repo(repo, here)
    found = Subject(key)
    if path is not None and path.strip():
        found = _place(path, key, here, clones)
        if leads_to is not None and found.absolute_path is None:
            found = Subject(found.repo, found.path, one_line(leads_to, MOST_PATH))
    said = (_said(branch, MOST_BRANCH), _said(topic, MOST_TOPIC))
    if found == Subject() and said == (None, None):
        raise _nothing_named()
    whole = found == Subject(key) and said == (None, None)
    return Subject(found.repo, "" if whole else found.path, found.absolute_path, *said)


def named_repo(repo: str | None, here: Whereabouts | None) -> str | None:
    """The key of a repository that was named, with the host that `here` knows of it. Raises UsageFault."""
    if repo is None or not repo.strip():
        return None
    key = repo_key(repo)
    return here.repo if here is not None and same_repository(key, here.repo) else key


def lies_inside(path: str, folder: str) -> bool:
    """Whether a path is the folder or lies in it, component by component; everything lies in the empty one."""
    folder = folder.rstrip("/")
    return not folder or path == folder or path.startswith(folder + "/")


def _place(path: str, key: str | None, here: Whereabouts | None, clones: Sequence[Whereabouts]) -> Subject:
    flat = one_line(path, _MOST_RAW)
    slashed = flat.replace("\\", "/")
    if flat.startswith("/") or _DRIVE.match(flat):
        return _absolute(slashed, key, here, clones)
    parts = _resolved(slashed)
    repo = key or (here.repo if here is not None else None)
    if repo is None:
        raise UsageFault(f"The path {flat[:200]!r} is relative, and no repository is named.", "Name one with it.")
    if parts is None:
        if here is None or repo != here.repo:
            raise UsageFault(f"The path {flat[:200]!r} leads out of its repository.", "Name it from the root.")
        return _absolute(f"{here.root}/{slashed}", None, here, clones)
    return Subject(repo, _cut("/".join(parts)))


def _absolute(path: str, key: str | None, here: Whereabouts | None, clones: Sequence[Whereabouts]) -> Subject:
    """Relative to the innermost clone that has it and is the repository that was named; else as it is."""
    full = "/".join(_resolved(path, is_absolute=True) or [])
    full = full if _DRIVE.match(full + "/") else f"/{full}"
    known = [one for one in (here, *clones) if one is not None and (key is None or same_repository(key, one.repo))]
    for clone in sorted(known, key=lambda one: len(one.root), reverse=True):
        root = flat_text(clone.root)
        if lies_inside(full, root):
            return Subject(clone.repo, _cut(full[len(root.rstrip("/")) :].strip("/")))
    return Subject(key, absolute_path=_cut(full))


def _resolved(path: str, *, is_absolute: bool = False) -> list[str] | None:
    """The components without `.` and `..`; None when they lead out."""
    parts: list[str] = []
    for part in path.split("/"):
        if part == "..":
            if parts:
                parts.pop()
            elif not is_absolute:
                return None
        elif part not in {"", "."}:
            parts.append(part)
    return parts


def _cut(path: str) -> str:
    return path if len(path) <= MOST_PATH else path[: MOST_PATH - 1] + "…"


def _said(text: str | None, most: int) -> str | None:
    return (one_line(text, most) or None) if text is not None else None


def _nothing_named() -> UsageFault:
    return UsageFault("Nothing is named to work on.", "Name a path, a repository, a branch or a topic.")
