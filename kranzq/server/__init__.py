"""The HTTP process: work items, presence and missions for agents that are not on the command line of this machine.

`routing` is how a route is declared: one value from which dispatch, checks and the OpenAPI document are made. Each
`…_routes` module holds the routes of one noun as data; `app` collects them. Needs the extra `server`.
"""

from __future__ import annotations
