"""The tools that an agent calls over the Model Context Protocol. Needs the extra `mcp`."""

from __future__ import annotations
