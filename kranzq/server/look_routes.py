"""Looking at the work queue, and tending it: lists, one item with its history, counts, sweep and prune."""

from __future__ import annotations

from kranzq.backend.items import WorkStore
from kranzq.model.agents import Scope
from kranzq.model.work import MOST_PAGE, Page, WorkItem, check_number, span_ms
from kranzq.model.work_json import attempt_json, item_json, page_json, recovered_json, stats_json
from kranzq.server import work_answers as answers
from kranzq.server import work_bodies as forms
from kranzq.server.routing import Call, Route

_AT_ONCE = 50
_MOST_BYTES = 16 * 1024 * 1024
"""A page ends early behind so much text: five hundred items may have a gigabyte."""


def list_(call: Call) -> object:
    """A page of items."""
    said: forms.PageQuery = call.query
    return page_json(page_of(call.service.store, said.state, said.limit, said.cursor or None))


def show(call: Call) -> object:
    """One item."""
    return item_json(call.service.store.show(call.path["id"]))


def attempts(call: Call) -> object:
    """Its history."""
    return {"attempts": [attempt_json(one) for one in call.service.store.attempts(call.path["id"])]}


def stats(call: Call) -> object:
    """What there is."""
    return stats_json(call.service.store.stats())


def unseen(call: Call) -> object:
    """Items whose agent was never seen."""
    said: forms.UnseenQuery = call.query
    check_number("limit", said.limit, 0, MOST_PAGE)
    return {"items": [item_json(one) for one in call.service.store.unseen(said.limit)]}


def sweep(call: Call) -> object:
    """Lapse what is overdue."""
    return recovered_json(call.service.store.sweep())


def prune(call: Call) -> object:
    """Remove what ended long ago."""
    said: forms.PruneBody = call.body
    span_ms("older_than_s", said.older_than_s, 0, forms.MOST_AGE_S)
    return {"removed": call.service.store.prune(said.older_than_s)}


def page_of(store: WorkStore, state: str, limit: int, cursor: str | None = None) -> Page:
    """A page that is read in pieces, and ends early when it grows too large; its cursor goes on from there."""
    left, found, size = max(1, min(limit, MOST_PAGE)), list[WorkItem](), 0
    while True:
        page = store.page(state, limit=min(left, _AT_ONCE), cursor=cursor)
        found += page.items
        left -= len(page.items)
        size += sum(len(one.title) + len(one.payload) + len(one.result) for one in page.items)
        cursor = page.cursor
        if cursor is None or left <= 0 or size > _MOST_BYTES:
            return Page(tuple(found), cursor)


ROUTES: tuple[Route, ...] = (
    Route(
        "GET",
        "/v1/work",
        list_,
        "Items, newest change first, page by page.",
        Scope.READ,
        answers.PageOfItems,
        query=forms.PageQuery,
        statuses=(400, 422),
    ),
    Route("GET", "/v1/work/stats", stats, "What there is, counted.", Scope.READ, answers.StatsSeen),
    Route(
        "GET",
        "/v1/work/unseen",
        unseen,
        "Open items whose agent was never seen here: perhaps a mistyped name.",
        Scope.READ,
        answers.Items,
        query=forms.UnseenQuery,
        statuses=(400, 422),
    ),
    Route("GET", "/v1/work/{id}", show, "One item.", Scope.READ, answers.Item, statuses=(404,)),
    Route(
        "GET",
        "/v1/work/{id}/attempts",
        attempts,
        "Every claim of an item: who, when, how it ended, why.",
        Scope.READ,
        answers.Attempts,
        statuses=(404,),
    ),
    Route("POST", "/v1/work/sweep", sweep, "Let overdue leases lapse now.", Scope.OPERATE, answers.Recovered),
    Route(
        "POST",
        "/v1/work/prune",
        prune,
        "Remove items that ended longer ago, with their history.",
        Scope.OPERATE,
        answers.Pruned,
        forms.PruneBody,
    ),
)
