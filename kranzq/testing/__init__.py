"""For whoever writes a backend or tests against us: the conformance suite of `kranzq.backend`, and a clock to move."""

from __future__ import annotations
