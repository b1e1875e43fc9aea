"""A kranzq server seen from somewhere else: its work queue and presence as the contracts that a local store fulfils.

Imports values, contracts and errors only: nothing of this machine. Needs the extra `client`.
"""

from __future__ import annotations
