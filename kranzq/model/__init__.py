"""What exists: frozen values without input or output, parsed once at the border and typed inside."""

from __future__ import annotations
