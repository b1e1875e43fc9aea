"""What is known and done about a run: its records, its keeper as the dispatcher sees it, and what it may leave behind.

Above the model and the disk; knows no queue. The keeper itself is a program of its own, `kranzq/keeper.py`.
"""

from __future__ import annotations
