"""What `kranzq hook` puts into files of other programs, and takes out again without a trace.

A *fitting* is a marked block in a script of git's, or marked members of an agent's settings. `scripts`, `block`,
`json_text` and `settings` are pure: bytes in, bytes out; `places` finds the files, `change` shows and writes. The hooks
of kranzq itself, programs that are told of events, are another thing: see `kranzq.hooks`.
"""

from __future__ import annotations
