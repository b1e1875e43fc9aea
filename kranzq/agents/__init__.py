"""An agent's side of the work queue: wait for an item, run a command with it under its lease, settle, go on.

`work` is the loop; `item_run` one item from its claim to its end; `item_command` the command of one item with all it
starts; `waiting` the pauses; `stopping` the signals. What keeps a lease lies in `kranzq.leases`, since the daemon
needs it as well.
"""

from __future__ import annotations
