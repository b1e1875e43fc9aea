"""One turn: hold, recover, choose, record, claim, prepare, start, watch over, decide, settle, let go."""

from __future__ import annotations
