"""What long-lived programs do about leases of items: keep one's own, and let those of others lapse.

`kept` renews a claim from a thread of its own; `sweeper` lets overdue leases lapse on a timer; `asleep` tells both that
this process or its host stood still meanwhile. They see the contract of the work queue and nothing of what keeps it.
"""

from __future__ import annotations
