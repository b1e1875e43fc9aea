"""How kranzq touches a disk: bounded reads that follow no link, and moves that are whole or did not happen.

Below the queue, the busy lock and the run records, which all need the same care and know nothing of each other.
"""

from __future__ import annotations
