"""The one place that names implementations: checkout, user and configuration in, ready parts out.

Surfaces come through here. One module a subject, and each function imports only what it needs, so that a verb starts
fast: whoever imports names the module, since this package imports none of them by itself.

`checkouts` where we are; `queues` the open queue; `trusting` the user and what the user allows; `configuring` settings;
`hooks` who is told; `dispatchers` the parts of turns; and above these, one a family of verbs: `looking`, `waiting`,
`approving`, `dispatching`, `library`, `working` and, above them, `presence`, `agents`, `missions` and `serving`.
"""

from __future__ import annotations
