"""Rows and values: the only place that spells columns."""

from __future__ import annotations

import hashlib
import json

from kranzq.backends.sql.database import Row
from kranzq.model.agents import NEVER, Agent, NewAgent, Scope, token_hash
from kranzq.model.presence import NewPresence, PresenceClaim, Subject, holder_key, lifetime_ms
from kranzq.model.repository import tail_of
from kranzq.model.who import Question
from kranzq.model.work import Attempt, ItemState, NewItem, Target, WorkItem, folded


def item(row: Row) -> WorkItem:
    """The item of a row that has its payload beside it."""
    return WorkItem(
        id=row["id"],
        seq=row["seq"],
        title=row["title"],
        payload=row["payload"],
        kind=row["kind"],
        target=Target(row["target_agent"], row["target_agent_uid"], row["target_group"]),
        priority=row["priority"],
        state=ItemState(row["state"]),
        claimed_by=row["claimed_by"],
        claimed_by_uid=row["claimed_by_uid"],
        claim_expires=row["claim_expires"],
        attempts=row["attempts"],
        declined=row["declined"],
        max_attempts=row["max_attempts"],
        created_by=row["created_by"],
        created_by_uid=row["created_by_uid"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
        not_before=row["not_before"],
        result=row["result"],
    )


def made(new: NewItem, name: str, row: Row) -> WorkItem:
    """The item that an enqueue has just made, from what the row tells of it."""
    return WorkItem(
        id=name,
        seq=row["seq"],
        title=new.title,
        payload=new.payload,
        kind=new.kind,
        target=new.target,
        priority=new.priority,
        state=ItemState(row["state"]),
        claimed_by="",
        claimed_by_uid="",
        claim_expires=None,
        attempts=0,
        declined=0,
        max_attempts=new.max_attempts,
        created_by=new.created_by,
        created_by_uid=new.created_by_uid,
        created_at=row["created_at"],
        updated_at=row["created_at"],
        not_before=new.not_before,
        result="",
    )


def attempt(row: Row) -> Attempt:
    """One line of the history."""
    return Attempt(
        attempt=row["attempt"],
        holder=row["holder"],
        holder_uid=row["holder_uid"],
        claimed_at=row["claimed_at"],
        ended_at=row["ended_at"],
        ended=row["ended"],
        why=row["why"],
    )


def new_values(new: NewItem, name: str) -> dict[str, object]:
    """The parameters of `enqueue`."""
    return {
        "id": name,
        "title": new.title,
        "payload": new.payload,
        "kind": new.kind,
        "target": new.target.key,
        "target_agent": new.target.agent,
        "target_agent_uid": new.target.uid,
        "target_group": new.target.group,
        "priority": new.priority,
        "max_attempts": new.max_attempts,
        "created_by": new.created_by,
        "created_by_uid": new.created_by_uid,
        "not_before": new.not_before,
        "digest": digest(new),
    }


def digest(new: NewItem) -> str:
    """What two enqueues must have in common to be one: everything but who asks, id and key."""
    parts = (new.title, new.payload, new.kind, new.target.key, new.priority, new.max_attempts, new.not_before)
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def creator(new: NewItem) -> str:
    """Whose idempotency keys are one's own: by uid where it is known, else by name."""
    return f"u:{new.created_by_uid}" if new.created_by_uid else f"n:{folded(new.created_by)}"


def presence(row: Row) -> PresenceClaim:
    """A presence claim."""
    return PresenceClaim(
        id=row["id"],
        agent=row["agent"],
        agent_uid=row["agent_uid"],
        channel=row["channel"],
        subject=Subject(row["repo"], row["path"], row["absolute_path"], row["branch"], row["topic"]),
        home=row["home"],
        note=row["note"],
        created_at=row["created_at"],
        expires_at=row["expires_at"],
    )


def presence_values(new: NewPresence, name: str) -> dict[str, object]:
    """The parameters of `presence_put`."""
    about = new.subject
    return {
        "id": name,
        "holder": holder_key(new.holder),
        "subject": about.key,
        "agent": new.holder.name,
        "agent_uid": new.holder.uid,
        "channel": new.channel,
        "repo": about.repo,
        "tail": tail_of(about.repo),
        "path": about.path,
        "absolute_path": about.absolute_path,
        "branch": about.branch,
        "topic": about.topic,
        "home": new.home,
        "note": new.note,
        "lifetime": lifetime_ms(new.minutes),
    }


def question_values(question: Question) -> dict[str, object]:
    """The parameters of `presence_about`: what an index finds claims by."""
    return {
        "tail": tail_of(question.repo),
        "branch": question.branch,
        "absolute": int(question.absolute_path is not None),
        "words": int(bool(question.words)),
    }


def agent(row: Row) -> Agent:
    """An agent; its hash stays in the row. A scope of a newer program is left out."""
    scopes = json.loads(row["scopes"])
    return Agent(
        uid=row["uid"],
        name=row["name"],
        groups=frozenset(json.loads(row["groups"])),
        scopes=frozenset(scope for scope in Scope if scope.value in scopes),
        expires_at=row["expires_at"],
        created_at=row["created_at"],
        rotated_at=row["rotated_at"],
        expired=bool(row["expired"]),
    )


def agent_values(new: NewAgent, token: str) -> dict[str, object]:
    """The parameters of `agent_add`."""
    return {
        "uid": new.uid,
        "name": new.name,
        "folded": folded(new.name),
        "token_hash": token_hash(token),
        "groups": json.dumps(sorted(new.groups)),
        "scopes": json.dumps([scope.value for scope in Scope if scope in new.scopes]),
        "life": new.life_ms or NEVER,
    }
