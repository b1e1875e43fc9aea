"""Events as lines for people: what the daemon and `drain` print. A listener like any other."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kranzq import events as e


def sentence(event: e.Event) -> str:
    """One event as one line without a time."""
    tell = _SENTENCES.get(type(event))
    return tell(event) if tell is not None else str(event.to_json())


def _enqueued(one: e.Enqueued) -> str:
    return f"{one.mission} queued with priority {one.priority}, number {one.seq}"


def _claimed(one: e.Claimed) -> str:
    return f"{one.mission} claimed for run {one.run}"


def _started(one: e.Started) -> str:
    return f"{one.mission} runs (run {one.run}, pid {one.pid})"


def _ended(one: e.Ended) -> str:
    reason = f": {one.reason}" if one.reason else ""
    return f"{one.mission} {one.outcome}{reason} (run {one.run}; {_FATES.get(one.fate, one.fate)})"


def _adopted(one: e.Adopted) -> str:
    return f"{one.mission} runs already (run {one.run}, keeper {one.keeper}); waiting for its end"


def _put_back(one: e.PutBack) -> str:
    return f"{one.mission} put back in its place: {one.evidence}"


def _leftovers(one: e.LeftoversEnded) -> str:
    of = f" of {one.mission}" if one.mission else ""
    return f"leftovers{of} ended and proven gone: pid {', '.join(map(str, one.pids))}"


def _vanished(one: e.Vanished) -> str:
    names = ", ".join(one.missions) or "nothing that was known"
    return f"{one.why}; gone with it: {names}"


def _work_swept(one: e.WorkSwept) -> str:
    counted = ((len(one.lapsed), "lapsed"), (len(one.failed), "failed by it"), (one.opened, "came due"))
    return "items of the work queue: " + ", ".join(f"{number} {what}" for number, what in counted if number)


def _item_released(one: e.ItemReleased) -> str:
    why = f": {one.why}" if one.why else ""
    return f"item {one.item} given back (attempt {one.attempt}), it is {one.state}{why}"


_FATES = {
    "retire": "done with",
    "return": "back in its place",
    "wait": "waits for its next try",
    "rotate": "waits, then goes behind its priority",
    "park": "parked for a person",
}
_SENTENCES: dict[type[e.Event], Callable[[Any], str]] = {
    e.Enqueued: _enqueued,
    e.Repeated: lambda one: f"{one.mission} is {one.state} already; {one.file} changes nothing",
    e.Claimed: _claimed,
    e.Started: _started,
    e.Ended: _ended,
    e.Adopted: _adopted,
    e.PutBack: _put_back,
    e.LeftoversEnded: _leftovers,
    e.Quarantined: lambda one: f"{one.file} set aside: {one.why}",
    e.Parked: lambda one: f"{one.mission} parked: {one.why}",
    e.Due: lambda one: f"{one.mission} may run now",
    e.Unparked: lambda one: f"{one.mission} parked no longer: {one.state}",
    e.Edited: lambda one: f"{one.mission} edited: {one.changes}",
    e.PassedOver: lambda one: f"{one.mission} passed over: {one.why}",
    e.Cancelled: lambda one: f"{one.mission} cancelled: {one.how}",
    e.ItemEnqueued: lambda one: f"item {one.item} enqueued for {one.target} with priority {one.priority}",
    e.ItemClaimed: lambda one: f"item {one.item} claimed (attempt {one.attempt}) by {one.holder}",
    e.ItemEnded: lambda one: f"item {one.item} {one.state} (attempt {one.attempt})",
    e.ItemReleased: _item_released,
    e.ItemCancelled: lambda one: f"item {one.item} cancelled: {one.why}",
    e.WorkSwept: _work_swept,
    e.ItemsPruned: lambda one: f"swept: {one.items} items that ended long ago",
    e.LeaseRenewed: lambda one: f"item {one.item}: lease of attempt {one.attempt} renewed",
    e.PresenceClaimed: lambda one: f"{one.agent} {'still ' if one.renewed else ''}works on {one.claim}",
    e.PresenceReleased: lambda one: f"{one.agent} is done with {', '.join(one.claims)}",
    e.AgentAdded: lambda one: f"agent {one.agent} added (uid {one.uid})",
    e.AgentRotated: lambda one: f"agent {one.agent} has a new token (uid {one.uid})",
    e.AgentRevoked: lambda one: f"agent {one.agent} revoked (uid {one.uid})",
    e.Drained: lambda one: (
        f"nothing more may run now ({one.ran} {'mission was' if one.ran == 1 else 'missions were'} tried)"
    ),
    e.WaitsBusy: lambda one: f"busy: {one.holder}",
    e.WatchLost: lambda one: f"warning: {one.why}",
    e.Swept: lambda one: f"swept: {one.runs} old runs, {one.quarantined} quarantined files, {one.leavings} leavings",
    e.StartsPaused: lambda one: f"warning: nothing is started for {one.seconds:.0f} s: {one.why}",
    e.Vanished: _vanished,
    e.Warned: lambda one: f"warning: {one.text}",
}
