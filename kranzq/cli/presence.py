"""The verbs of presence: claim, release, list, who. Claims are advisory: they tell others, and block nobody."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kranzq.backend.presence import Put
from kranzq.cli.agent import agent_option, holder, open_presence, presence_to_look, store_option
from kranzq.cli.say import local_time, say, say_json
from kranzq.errors import Conflict, PresenceFull, UsageFault
from kranzq.model.claim import Holder
from kranzq.model.presence import (
    NewPresence,
    PresenceClaim,
    Subject,
    Whereabouts,
    holder_key,
    named_repo,
    one_line,
    subject_of,
)
from kranzq.model.repository import same_repository
from kranzq.model.who import OTHERS_WORDS, Question, Working, question_about, question_of, quoted, subject_text
from kranzq.wiring import presence as wiring

if TYPE_CHECKING:
    from kranzq.backend.presence import Presence

F = TypeVar("F", bound=Callable[..., object])
HEAD = "HEAD"
_MOST_SHOWN = 60


def _shared(verb: F) -> F:
    json_ = click.option("--json", "as_json", is_flag=True, help="For programs; keys are stable.")
    return agent_option(store_option(json_(verb)))


def _place(verb: F) -> F:
    repo = click.option(
        "--repo", metavar="REPO", help="owner/repo, host/owner/repo or a git URL; else this checkout's."
    )
    branch = click.option("--branch", metavar="NAME", help="A branch; HEAD is the one that is checked out.")
    return repo(branch(verb))


@click.group()
def presence() -> None:
    """Say what you work on, and ask who else does. Nobody is blocked; a claim vanishes when its time is over."""


@presence.command()
@click.argument("paths", metavar="[PATH]...", nargs=-1)
@_place
@click.option("--topic", metavar="WORDS", help="What it is about, where no path says it.")
@click.option("--note", default="", metavar="WORDS", help="What others should know; one line.")
@click.option("--ttl", metavar="DUR", help="How long it lasts: 5m to 24h, default 2h. Claim again to renew it.")
@_shared
@click.pass_obj
def claim(directory: str, /, *, paths: tuple[str, ...], as_json: bool, url: str | None, **said: Any) -> None:
    """Say that you work on paths, a branch, a topic, or (with --repo alone) on a whole repository.

    The same claim again renews it. Who else works on it is said at once.
    """
    here = wiring.whereabouts(directory, os.environ)
    branch = _branch(said["branch"], here)
    repo = said["repo"] or (here.repo if here is not None and branch is not None and not paths else None)
    about = {"repo": repo, "branch": branch, "topic": said["topic"]}
    subjects = [_subject(path, directory, here, about) for path in paths] or [subject_of(here=here, **about)]
    who_asks, minutes = holder(said["agent"]), _minutes(said["ttl"])
    home = here.repo if here is not None else None
    new = [NewPresence(who_asks, one, said["note"], minutes, home) for one in subjects]
    made, full = list[Put](), None
    with open_presence(directory, url) as store:
        try:
            made.extend(map(store.put, new))
        except PresenceFull as fault:
            full = fault  # what was claimed before it is told all the same
        others = [store.who(question_about(one.claim), caller=who_asks) for one in made]
    if as_json:
        claims = [
            one.claim.to_json() | {"renewed": one.renewed, "others_working_on_it": [who.to_json() for who in each]}
            for one, each in zip(made, others, strict=True)
        ]
        say_json({"claims": claims, "note": OTHERS_WORDS})
    else:
        for one, each in zip(made, others, strict=True):
            _say_claimed(one, each)
    if full is not None:
        raise full


@presence.command()
@click.argument("claims", metavar="[ID]...", nargs=-1)
@click.option("--all", "everything", is_flag=True, help="All claims that are yours.")
@_shared
@click.pass_context
def release(
    ctx: click.Context, claims: tuple[str, ...], *, everything: bool, agent: str | None, url: str | None, as_json: bool
) -> None:
    """Say that you are done: end claims of yours. One that has vanished already is no fault; another's stays."""
    if bool(claims) == everything:
        raise UsageFault("Name the claims to end, or --all of yours.", "See them with: kranzq presence list --mine")
    who_asks, others = holder(agent), list[PresenceClaim]()
    with presence_to_look(ctx.obj, url) as store:
        ended: list[PresenceClaim] = []
        if store is not None:
            for name in claims or (None,):
                ended += store.release(who_asks, name)
            names = set(claims) - {one.id for one in ended}
            others = [one for one in store.live() if one.id in names] if names else []
    if as_json:
        say_json({"released": [one.to_json() for one in ended]})
    else:
        say(
            *([f"Released: {subject_text(one.subject)}" for one in ended] or ["Nothing of yours was there to release."])
        )
    if others:
        raise Conflict(
            f"{others[0].id} is a claim of {one_line(others[0].agent, _MOST_SHOWN)}, and stays.",
            "Only its holder releases it: by the uid where it has one ($KRANZQ_AGENT_UID), else by the name (--agent).",
        )


@presence.command("list")
@click.option("--mine", is_flag=True, help="Only your own.")
@click.option("--repo", metavar="REPO", help="Only of this repository.")
@_shared
@click.pass_obj
def list_(directory: str, *, mine: bool, repo: str | None, agent: str | None, url: str | None, as_json: bool) -> None:
    """Show the claims that have not expired, the oldest first."""
    key, mine_key = named_repo(repo, wiring.whereabouts(directory, os.environ)), holder_key(holder(agent))
    with presence_to_look(directory, url) as store:
        found = _live(store, key)
    found = [one for one in found if not mine or holder_key(_holder_of(one)) == mine_key]
    if as_json:
        say_json({"claims": [one.to_json() for one in found]})
        return
    _table(found)


@presence.command()
@click.argument("path", required=False)
@_place
@click.option("--query", metavar="WORDS", help="Words that must all occur in a topic, note or path.")
@_shared
@click.pass_obj
def who(directory: str, /, *, path: str | None, as_json: bool, url: str | None, **said: Any) -> None:
    """Ask who else works on a path, a branch, words, or (without any) on the repository of this checkout."""
    here = wiring.whereabouts(directory, os.environ)
    question = _question(path, directory, here, said)
    caller = holder(said["agent"])
    with presence_to_look(directory, url) as store:
        found = store.who(question, caller=caller) if store is not None else ()
        mine = store.who(question) if store is not None and not found and not as_json else ()
    if as_json:
        asked = {
            "repo": question.repo,
            "path": question.path,
            "absolute_path": question.absolute_path,
            "branch": question.branch,
            "query": said["query"],
        }
        me = {"agent": caller.name, "repo": here.repo if here else None, "branch": here.branch if here else None}
        say_json({"asked": asked, "caller": me, "agents": [one.to_json() for one in found], "note": OTHERS_WORDS})
    elif found:
        _say_working(found)
    else:
        say("Nobody else says so." + (f" Under your own name, {caller.name}:" if mine else ""))
        _say_working(mine, "  ")


def _subject(path: str, directory: str, here: Whereabouts | None, about: dict[str, Any]) -> Subject:
    return subject_of(**_named(path, directory, here, about["repo"]), **about)


def _question(path: str | None, directory: str, here: Whereabouts | None, said: dict[str, Any]) -> Question:
    asked = {"repo": said["repo"], "branch": _branch(said["branch"], here), "query": said["query"]}
    named = _named(path, directory, here, said["repo"]) if path is not None else {"here": here}
    return question_of(**named, **asked)


def _named(path: str, directory: str, here: Whereabouts | None, repo: str | None) -> dict[str, Any]:
    """A path as it is meant: from the current directory, and in another repository from its root."""
    if not path.strip():  # a variable of a shell that is not set must not claim everything
        raise UsageFault("The path is blank.", "Name one, or . for the directory that you are in.")
    return wiring.named_place(path, directory, here, repo, os.environ)


def _branch(name: str | None, here: Whereabouts | None) -> str | None:
    if name != HEAD:
        return name
    if here is None or here.branch is None:
        raise UsageFault("No branch is checked out here.", "Name one with --branch NAME.")
    return here.branch


def _minutes(text: str | None) -> int | None:
    from kranzq.config import parse_duration

    try:
        return math.ceil(parse_duration(text) / 60) if text is not None else None
    except ValueError as fault:
        raise click.BadParameter(str(fault), param_hint="--ttl") from fault


def _live(store: Presence | None, repo: str | None) -> list[PresenceClaim]:
    found = store.live() if store is not None else []
    return [one for one in found if repo is None or same_repository(repo, one.subject.repo or one.home)]


def _holder_of(one: PresenceClaim) -> Holder:
    return Holder(one.agent, uid=one.agent_uid)


def _say_claimed(put: Put, others: Sequence[Working]) -> None:
    until = local_time(put.claim.expires_at / 1000)
    say(f"{'Renewed' if put.renewed else 'Claimed'} until {until}: {subject_text(put.claim.subject)}  ({put.claim.id})")
    if others:
        say("  Others work on it:")
        _say_working(others, "    ")


def _say_working(found: Sequence[Working], indent: str = "") -> None:
    for one in found:
        for match in one.matches:
            since = f", since {local_time(match.since_ms / 1000)}" if match.since_ms is not None else ""
            say(f"{indent}{one.facts.agent} {match.detail}{since}")


def _table(found: Sequence[PresenceClaim]) -> None:
    from kranzq.cli.tables import fitted

    if not found:
        say("Nobody says so.")
        return
    rows = [
        (
            one.agent,
            one.subject.repo or "-",
            subject_text(one.subject) + (f"; says {quoted(one.note)}" if one.note else ""),
            local_time(one.created_at / 1000),
            local_time(one.expires_at / 1000),
            one.id,
        )
        for one in found
    ]
    fitted(("AGENT", "REPOSITORY", "WORKS ON", "SINCE", "UNTIL", "ID"), rows, cut=(0, 1, 2))
