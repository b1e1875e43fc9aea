"""What may run: who signed an entry, and what a person has allowed for a checkout.

Beside the queue, not in it: the queue lies inside the checkout, where anything that writes could plant work, so keys
and approvals lie in the user's state directory. Below dispatching, which asks `may_run.Gate` before each claim.
"""

from __future__ import annotations
