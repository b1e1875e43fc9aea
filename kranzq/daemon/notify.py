"""Talking to a service manager: ready, stopping, alive. Silent where nobody asked."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from kranzq.model.whole import parse_whole


class ServiceManager:
    """The manager behind `NOTIFY_SOCKET`, if there is one."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._address = environ.get("NOTIFY_SOCKET", "")
        pid, interval = environ.get("WATCHDOG_PID", ""), environ.get("WATCHDOG_USEC", "")
        self.ping_every_s: float | None = None
        if not pid or pid == str(os.getpid()):
            with contextlib.suppress(ValueError):
                self.ping_every_s = parse_whole(interval, 1) / 2_000_000

    def say(self, *lines: str) -> None:
        """Send lines such as READY=1; a manager that does not listen is no fault of ours."""
        if not self._address:
            return
        address = "\0" + self._address[1:] if self._address.startswith("@") else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as one,
        ):
            # a path with an end of a line in it must not say anything of its own
            shown = (line.replace("\n", "\\n") for line in lines)
            one.sendto("\n".join(shown).encode("utf-8", "surrogateescape"), address)
