"""Presence in a dictionary: the verified fake, for tests of what stands above. It passes the suite of `presence`."""

from __future__ import annotations

import threading
import uuid
from collections.abc import Sequence

from kranzq.backend.presence import Put
from kranzq.errors import PresenceFull
from kranzq.model.claim import Holder
from kranzq.model.clock import Clock, SystemClock, to_ms
from kranzq.model.presence import MOST_CLAIMS, NewPresence, PresenceClaim, holder_key, lifetime_ms
from kranzq.model.who import Facts, Question, Working, who
from kranzq.model.work import MOST_NAME, check_text


class MemoryPresence:
    """Satisfies `Presence`. May be shared by threads."""

    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._claims: dict[tuple[str, str], PresenceClaim] = {}
        self._mutex = threading.Lock()

    def put(self, new: NewPresence, /) -> Put:
        """Claim or renew."""
        holder = holder_key(new.holder)
        with self._mutex:
            now = self._forget()
            there = self._claims.get((holder, new.subject.key))
            if there is None and sum(key == holder for key, _ in self._claims) >= MOST_CLAIMS:
                raise PresenceFull(new.holder.name, MOST_CLAIMS)
            claim = PresenceClaim(
                id=str(uuid.uuid4()) if there is None else there.id,
                agent=new.holder.name,
                agent_uid=new.holder.uid,
                channel=new.channel,
                subject=new.subject,
                home=new.home,
                note=new.note,
                created_at=now if there is None else there.created_at,
                expires_at=now + lifetime_ms(new.minutes),
            )
            self._claims[holder, new.subject.key] = claim
        return Put(claim, there is not None)

    def live(self) -> list[PresenceClaim]:
        """All that has not expired."""
        with self._mutex:
            self._forget()
            return sorted(self._claims.values(), key=lambda one: (one.created_at, one.id))

    def release(self, holder: Holder, claim: str | None = None) -> list[PresenceClaim]:
        """End the holder's claim, or all of them."""
        check_text("id", claim or "", MOST_NAME)
        mine = holder_key(holder)
        with self._mutex:
            self._forget()
            keys = [key for key, one in self._claims.items() if key[0] == mine and claim in {None, one.id}]
            return [self._claims.pop(key) for key in keys]

    def about(self, question: Question) -> list[PresenceClaim]:
        """Every live claim may answer."""
        del question
        return self.live()

    def who(
        self, question: Question, *, caller: Holder | None = None, facts: Sequence[Facts] = ()
    ) -> tuple[Working, ...]:
        """Everybody but the caller who works on it."""
        return who(question, self.about(question), caller=caller, facts=facts)

    def _forget(self) -> int:
        """Drop what has expired; the time now."""
        now = to_ms(self._clock.now())
        self._claims = {key: one for key, one in self._claims.items() if one.is_live(now)}
        return now
