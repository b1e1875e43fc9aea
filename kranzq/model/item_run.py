"""The item of the work queue that a run was made for, as records keep it."""

from __future__ import annotations

from collections.abc import Mapping

from kranzq.model.frozen import frozen


@frozen
class ItemOfRun:
    """Which item a run was made for, and who holds it: `url` is the database's, without a password."""

    id: str
    attempt: int
    holder: str
    holder_uid: str
    url: str

    @property
    def entry_id(self) -> str:
        """What stands for an entry's id: earlier runs of the same item are counted by it."""
        return f"item:{self.id}"

    def to_json(self) -> dict[str, object]:
        """As `run.json` and the claim's file keep it."""
        return {
            "id": self.id,
            "attempt": self.attempt,
            "holder": self.holder,
            "holderUid": self.holder_uid,
            "url": self.url,
        }

    @classmethod
    def from_json(cls, value: object) -> ItemOfRun | None:
        """The item in a record, or None when it is none."""
        if not isinstance(value, Mapping):
            return None
        texts = [value.get(name) for name in ("id", "holder", "holderUid", "url")]
        attempt = value.get("attempt")
        if type(attempt) is not int or not all(isinstance(text, str) for text in texts):
            return None
        item, holder, uid, url = (str(text) for text in texts)
        return cls(item, attempt, holder, uid, url)
