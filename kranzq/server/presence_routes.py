"""Presence on `/v1` and on its original paths (seed h): who says to work on what. Blocks nobody.

A server knows no disk: a path is what its text says. Who calls is told by the token; without one, by the name that is
sent, which means the agent that is registered under it when there is exactly one.
"""

from __future__ import annotations

from collections.abc import Iterable

from kranzq.errors import UsageFault
from kranzq.model.agents import Scope
from kranzq.model.claim import Holder
from kranzq.model.presence import NewPresence, PresenceClaim, Subject, subject_of
from kranzq.model.who import NOT_RUNNING, OTHERS_WORDS, Question, question_about, question_of, words_of
from kranzq.model.work import MOST_NAME, check_text
from kranzq.server import presence_bodies as forms
from kranzq.server.errors import Form
from kranzq.server.routing import Call, Route


def claim(call: Call) -> object:
    """Say that somebody works on something."""
    said: forms.PresenceBody | forms.PresenceOriginalBody = call.body
    holder = _known(call, said.agent)
    home = channel = leads_to = None
    path = said.path
    if isinstance(said, forms.PresenceBody):
        home, channel, leads_to = said.home, said.channel, said.absolute_path
    if isinstance(said, forms.PresenceBody) and leads_to is not None:
        named = Subject(said.repo, path, leads_to, said.branch, said.topic)
    else:
        named = subject_of(path=path, repo=said.repo, branch=said.branch, topic=said.topic)
    put = call.service.store.presence.put(
        NewPresence(holder, named, said.note or "", said.ttl_minutes, home, channel or "")
    )
    others = call.service.store.presence.who(question_about(put.claim), caller=holder)
    return {
        "claim": put.claim.to_json(),
        "claimed": True,
        "renewed": put.renewed,
        "others_working_on_it": [one.to_json() for one in others],
        "note": OTHERS_WORDS,
    }


def release(call: Call) -> object:
    """Say that somebody is done."""
    said: forms.ReleasePresenceBody | forms.ReleaseOriginalBody = call.body
    done = call.service.store.presence.release(_known(call, said.agent), said.id or None)
    return {"released": [one.to_json() for one in done], "note": OTHERS_WORDS}


def live(call: Call) -> object:
    """Every claim that has not expired."""
    return {"claims": [one.to_json() for one in call.service.store.presence.live()]}


def who(call: Call) -> object:
    """Who else works on it."""
    said: forms.WhoQuery | forms.WhoOriginalQuery = call.query
    absolute = said.absolute_path if isinstance(said, forms.WhoQuery) else ""
    if absolute:
        about = Subject(said.repo or None, said.path or None, absolute, said.branch or None).cut()
        question = Question(about.repo, about.path, about.absolute_path, about.branch, words_of(said.query))
    else:
        question = question_of(path=said.path, repo=said.repo, branch=said.branch, query=said.query)
    holder = _holder(call, said.agent)
    found = call.service.store.presence.who(question, caller=holder)
    return {
        "asked": {
            "repo": question.repo,
            "path": question.path,
            "absolute_path": question.absolute_path,
            "branch": question.branch,
            "query": said.query or None,
        },
        "caller": {"agent": holder.name, "repo": None, "branch": None} if holder is not None else None,
        "agents": [one.to_json() for one in found],
        "remote_agents": [],
        "unreachable_channels": [],
        "note": OTHERS_WORDS,
    }


def facts(call: Call) -> object:
    """What is known here of agents."""
    by_agent: dict[tuple[str, str], list[PresenceClaim]] = {}
    for one in call.service.store.presence.live():
        by_agent.setdefault((one.agent, one.agent_uid), []).append(one)
    return {"channel": "", "agents": [_facts(claims) for claims in by_agent.values()]}


def _facts(claims: list[PresenceClaim]) -> dict[str, object]:
    newest = claims[-1]
    return {
        "agent": newest.agent,
        "channel": newest.channel,
        "status": NOT_RUNNING,
        "goal": "",
        "repo": _first(one.subject.repo or one.home for one in reversed(claims)),
        "branch": _first(one.subject.branch for one in reversed(claims)),
        "git_checked_ms": None,
        "claims": [one.to_json() for one in claims],
    }


def _first(texts: Iterable[str | None]) -> str | None:
    return next((text for text in texts if text is not None), None)


def _known(call: Call, named: str | None) -> Holder:
    holder = _holder(call, named)
    if holder is None:
        raise UsageFault("Nobody says who works on it.", "Send an agent's token, or its name as 'agent'.")
    return holder


def _holder(call: Call, named: str | None) -> Holder | None:
    """Who calls: by token, else by the one registered agent of that name, else by the name alone."""
    check_text("agent", named or "", MOST_NAME)
    if call.caller.agent is not None:
        return call.caller.agent.holder
    if named is None or not named.strip():
        return None
    found = call.service.store.agents.named(named)
    return found[0].holder if len(found) == 1 else Holder(named)


_CLAIM = "Say what you work on; the same again renews it. Others are told, nobody is blocked."
_RELEASE = "Say that you are done: end one claim, or all of yours."
_WHO = "Who else works on a path, a branch, words, or a repository."
_FACTS = "What is known here of agents: their claims."

ROUTES: tuple[Route, ...] = (
    Route(
        "POST",
        "/v1/work-claims",
        claim,
        _CLAIM,
        Scope.WORK,
        forms.PresenceClaimed,
        forms.PresenceBody,
        statuses=(409,),
    ),
    Route(
        "POST",
        "/v1/work-claims/release",
        release,
        _RELEASE,
        Scope.WORK,
        forms.PresenceReleased,
        forms.ReleasePresenceBody,
    ),
    Route("GET", "/v1/work-claims", live, "Every claim that has not expired.", Scope.READ, forms.PresenceLive),
    Route(
        "GET",
        "/v1/work-facts/who",
        who,
        _WHO,
        Scope.READ,
        forms.WhoWorks,
        query=forms.WhoQuery,
        statuses=(400, 422),
    ),
    Route("GET", "/v1/work-facts", facts, _FACTS, Scope.READ, forms.AllFacts),
    Route(
        "POST",
        "/api/v1/work-claims",
        claim,
        _CLAIM,
        Scope.WORK,
        forms.PresenceClaimed,
        forms.PresenceOriginalBody,
        statuses=(409,),
        form=Form.ORIGINAL,
    ),
    Route(
        "POST",
        "/api/v1/work-claims/release",
        release,
        _RELEASE,
        Scope.WORK,
        forms.PresenceReleased,
        forms.ReleaseOriginalBody,
        form=Form.ORIGINAL,
    ),
    Route(
        "GET",
        "/api/v1/work-facts/who",
        who,
        _WHO,
        Scope.READ,
        forms.WhoWorks,
        query=forms.WhoOriginalQuery,
        statuses=(400, 422),
        form=Form.ORIGINAL,
    ),
    Route("GET", "/api/v1/work-facts", facts, _FACTS, Scope.READ, forms.AllFacts, form=Form.ORIGINAL),
)
