"""Presence on a database. A unique index has one row for one holder and subject, so that to renew is to put again."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

from kranzq.backend.presence import Put
from kranzq.backends.sql import rows
from kranzq.backends.sql.database import Database, Row, Transaction
from kranzq.errors import PresenceFull
from kranzq.events import PresenceClaimed, PresenceReleased, emit
from kranzq.model.claim import Holder
from kranzq.model.presence import MOST_CLAIMS, NewPresence, PresenceClaim, holder_key
from kranzq.model.who import Facts, Question, Working, who
from kranzq.model.work import MOST_NAME, check_text

PURGED_AT_ONCE = 100
"""So many expired rows go with each put and release: more than one put adds, and never so many that it takes long."""


class SqlPresence:
    """Satisfies `Presence`. May be shared by threads."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, new: NewPresence, /) -> Put:
        """Claim or renew."""
        name = str(uuid.uuid4())

        def act(transaction: Transaction) -> Row | None:
            values = rows.presence_values(new, name)
            _, found = transaction.several(
                [("presence_lock", {"holder": values["holder"]}), ("presence_put", {"most": MOST_CLAIMS, **values})]
            )
            # Last, and only what nobody holds: so whoever waits for a row holds none that others wait for.
            transaction.run("presence_purge", most=PURGED_AT_ONCE)
            return next(iter(found), None)

        row = self._database.write(act)
        if row is None:
            raise PresenceFull(new.holder.name, MOST_CLAIMS)
        claim = rows.presence(row)
        renewed = claim.id != name
        emit(PresenceClaimed(claim.id, claim.agent, renewed))
        return Put(claim, renewed)

    def live(self) -> list[PresenceClaim]:
        """All that has not expired."""
        return _claims(self._database.read(lambda transaction: transaction.all("presence_live"), single=True))

    def release(self, holder: Holder, claim: str | None = None) -> list[PresenceClaim]:
        """End the holder's claim, or all of them."""
        check_text("agent", holder.name, MOST_NAME)
        check_text("agent uid", holder.uid, MOST_NAME)
        check_text("id", claim or "", MOST_NAME)

        values = {"holder": holder_key(holder), "id": claim or "", "every": int(claim is None)}
        told: dict[str, PresenceClaim] = {}

        def act(transaction: Transaction) -> None:
            # Run again after a lost connection it finds nothing if its first run stood; what that one ended is told.
            told.update((one.id, one) for one in _claims(transaction.all("presence_release", **values)))
            transaction.run("presence_purge", most=PURGED_AT_ONCE)

        self._database.write(act)
        ended = sorted(told.values(), key=lambda one: (one.created_at, one.id))
        if ended:
            emit(PresenceReleased(tuple(one.id for one in ended), holder.name))
        return ended

    def about(self, question: Question) -> list[PresenceClaim]:
        """The live claims that one index or another finds for the question."""
        values = rows.question_values(question)
        found = self._database.read(lambda transaction: transaction.all("presence_about", **values), single=True)
        return _claims(found)

    def who(
        self, question: Question, *, caller: Holder | None = None, facts: Sequence[Facts] = ()
    ) -> tuple[Working, ...]:
        """Everybody but the caller who works on it."""
        return who(question, self.about(question), caller=caller, facts=facts)


def _claims(found: Sequence[Row]) -> list[PresenceClaim]:
    return [rows.presence(row) for row in found]
