"""What an agent may read without calling a tool: the work queue, presence notes and missions, as JSON."""

from __future__ import annotations

import json

from kranzq.mcp.caller import Caller
from kranzq.mcp.item_words import brief_json
from kranzq.mcp.telling import ToolServer, told_of_a_resource
from kranzq.model.work_json import attempt_json, item_json, stats_json

WORK, PRESENCE, MISSIONS = "kranzq://work", "kranzq://presence", "kranzq://missions"
_MIME = "application/json"
_PAGE = 100


def add_resources(server: ToolServer, caller: Caller) -> None:
    """Offer all of them."""

    @server.resource(WORK, name="work", mime_type=_MIME, description="The queue items that changed last, and counts.")
    def work() -> str:
        with told_of_a_resource():
            store = caller.store()
            page = store.page(limit=_PAGE)
            return _text({"stats": stats_json(store.stats()), "items": [brief_json(one) for one in page.items]})

    @server.resource(WORK + "/{id}", name="item", mime_type=_MIME, description="One queue item, whole, with attempts.")
    def item(id: str) -> str:  # noqa: A002 - the name in the address
        with told_of_a_resource():
            store = caller.store()
            return _text({"item": item_json(store.show(id)), "attempts": [attempt_json(o) for o in store.attempts(id)]})

    @server.resource(PRESENCE, name="presence", mime_type=_MIME, description="All presence notes that count.")
    def presence() -> str:
        with told_of_a_resource():
            return _text({"claims": [one.to_json() for one in caller.store().presence.live()]})

    @server.resource(MISSIONS, name="missions", mime_type=_MIME, description="What runs and waits in the checkout.")
    def missions() -> str:
        with told_of_a_resource():
            return _text(caller.missions.status() | caller.missions.listing())

    @server.resource(MISSIONS + "/{mission}", name="mission", mime_type=_MIME, description="One mission and its runs.")
    def mission(mission: str) -> str:
        with told_of_a_resource():
            return _text(caller.missions.one(mission))


def _text(value: dict[str, object]) -> str:
    return json.dumps(value, ensure_ascii=False)
