"""The SQL backend: the work queue and presence in one schema, kept by SQLite or by PostgreSQL.

From below: `database` says what an engine does, `sqlite` and `postgres` do it, `statements` finds the named commands of
a dialect, `rows` alone spells columns; `schema`, `items`, `claims` and `presence` are the acts; `backend` puts them
together. Imported from its modules, not from here, so that nobody pays for the engine that is not used.
"""

from __future__ import annotations
