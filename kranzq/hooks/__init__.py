"""Programs of the user's that are told what happens: an outbox of synced files, and a courier that hands them over.

Whoever makes something happen only writes a file; it never waits for a hook.
"""
