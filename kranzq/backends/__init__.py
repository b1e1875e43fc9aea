"""The implementations of the contracts in `kranzq.backend`; strangers to each other, named only by the wiring."""

from __future__ import annotations
