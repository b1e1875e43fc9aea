"""The dispatchers themselves, ready to run: the daemon and `drain`; and what stops and recovers them."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from kranzq.errors import NotFound
from kranzq.model.checkout import Checkout
from kranzq.wiring.configuring import load_config, notices
from kranzq.wiring.dispatchers import by_settings, dispatcher_parts, import_all, serves_items
from kranzq.wiring.hooks import with_hooks
from kranzq.wiring.queues import open_to_change
from kranzq.wiring.trusting import approvals

if TYPE_CHECKING:
    from kranzq.daemon.drain import Drained
    from kranzq.daemon.loop import Daemon
    from kranzq.dispatch.parts import Parts
    from kranzq.dispatch.recover import Confirm, Report


def daemon(checkout: Checkout, environ: Mapping[str, str], flags: Mapping[str, object]) -> Daemon:
    """A daemon for this checkout, ready to run."""
    from kranzq.backends.file.entries import missions_in
    from kranzq.config.checkout import Renewal
    from kranzq.daemon.loop import Daemon
    from kranzq.daemon.notify import ServiceManager
    from kranzq.daemon.pause import Timing
    from kranzq.daemon.stopping import Stopping, on_stop_here
    from kranzq.daemon.wake import Wake
    from kranzq.dispatch.planted import tracked_notice
    from kranzq.events import Warned, emit

    renewal = Renewal(checkout.root, approvals(environ), environ, flags)
    config = renewal.begin()
    import_all(items=serves_items(config))
    _say(one for one in [tracked_notice(checkout.root)] if one is not None)
    parts = with_hooks(dispatcher_parts(checkout, config, environ, warm=True), environ)
    wake = Wake()
    stopping = Stopping(wake, on_stop_here(config.daemon.on_stop, environ), lambda text: emit(Warned(text)))
    timing = Timing(config.daemon.scan_seconds, config.daemon.poll_seconds)

    def renew(parts: Parts) -> Parts:
        if (config := renewal.changed()) is None:
            return parts
        import_all(items=serves_items(config))
        timing.scan_s, timing.poll_s = config.daemon.scan_seconds, config.daemon.poll_seconds
        stopping.settle_on(on_stop_here(config.daemon.on_stop, environ))
        if parts.serves_items and parts.items is not None:
            parts.items().leases.drop_all()  # those that are made now take over what runs, as after a restart
        return dataclasses.replace(parts, **by_settings(checkout, config, environ))

    return Daemon(parts, wake, stopping, ServiceManager(environ), timing, missions_in, renew)


def drain(checkout: Checkout, environ: Mapping[str, str], *, once: bool) -> Drained:
    """Do turns until nothing due is left."""
    from kranzq.daemon.drain import drain as drain_parts
    from kranzq.daemon.stopping import Stopping, on_stop_here
    from kranzq.daemon.wake import Wake
    from kranzq.events import Warned, emit

    _say(notices(checkout, environ))
    config = load_config(environ, checkout=checkout)
    import_all(items=serves_items(config))
    wake = Wake()
    stopping = Stopping(wake, on_stop_here(config.daemon.on_stop, environ), lambda text: emit(Warned(text)))
    parts = with_hooks(dispatcher_parts(checkout, config, environ), environ)
    done = drain_parts(parts, wake, stopping, once=once)
    return dataclasses.replace(done, stopped=stopping.signal)


def stop_daemon(checkout: Checkout, *, now: bool, wait: bool) -> str | None:
    """Leave the wish to stop; a sentence for people, None when no daemon is there."""
    from kranzq.daemon.request import request_stop

    with contextlib.suppress(NotFound):
        open_to_change(checkout).close()  # refuses where nothing should be written
    return request_stop(checkout, now=now, wait=wait)


def recover(
    checkout: Checkout,
    environ: Mapping[str, str],
    *,
    dry_run: bool = False,
    kill: bool = True,
    confirm: Confirm | None = None,
) -> Report:
    """Put every claim of a gone holder where it belongs."""
    from kranzq.dispatch.after_crash import recover_now

    parts = with_hooks(dispatcher_parts(checkout, load_config(environ, checkout=checkout), environ), environ)
    return recover_now(parts, dry_run=dry_run, kill=kill, confirm=confirm)


def _say(found: Iterable[tuple[str, str]]) -> None:
    from kranzq.events import Warned, emit

    for notice in found:
        emit(Warned(". ".join(notice)))
