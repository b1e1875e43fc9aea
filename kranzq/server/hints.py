"""Next steps for whoever has no command line: where a fault says which verb to type, the route that does the same.

The verb travels beside it, for the client that is the command line.
"""

from __future__ import annotations

import re

_MISSION = r"(?P<mission>[A-Za-z0-9][A-Za-z0-9._-]{0,127}(?<!\.))"
_STEPS = (
    (r"presence release ID, or all of them with --all", "POST /v1/work-claims/release, with its id or {} for all"),
    (r"presence list(?: --mine)?", "GET /v1/work-claims"),
    (r"work list", "GET /v1/work"),
    (rf"why {_MISSION}", "GET /v1/missions/{mission}/why"),
    (rf"cancel {_MISSION}", "POST /v1/missions/{mission}/cancel"),
    (rf"unpark {_MISSION}", "POST /v1/missions/{mission}/unpark"),
    (rf"park {_MISSION}", "POST /v1/missions/{mission}/park"),
    (rf"retry {_MISSION}", "POST /v1/missions/{mission}/retry"),
    (rf"history {_MISSION}", "GET /v1/history?mission={mission}"),
    (r"history", "GET /v1/history"),
    (r"list(?: --all)?(?![\w-])", "GET /v1/missions"),
    (r"status", "GET /v1/status"),
)
_COMPILED = tuple((re.compile(rf"kranzq {verb}"), route) for verb, route in _STEPS)
_VERB = re.compile(r"kranzq ")


def in_routes(hint: str) -> str:
    """The hint with routes in the place of verbs that have one; a verb that has none stays, for a person there."""
    parts, at = list[str](), 0
    for found in _VERB.finditer(hint):
        if found.start() < at:
            continue
        matches = ((verb.match(hint, found.start()), route) for verb, route in _COMPILED)
        if (hit := next(((match, route) for match, route in matches if match is not None), None)) is not None:
            match, route = hit
            parts += [hint[at : match.start()], route.replace("{mission}", match.groupdict().get("mission", ""))]
            at = match.end()
    return "".join([*parts, hint[at:]])
