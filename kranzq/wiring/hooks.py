"""Who is told of events: the user's hooks, where there can be any."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from kranzq.model.checkout import Checkout

if TYPE_CHECKING:
    from kranzq.dispatch.parts import Parts
    from kranzq.hooks.outbox import Outbox


def tell_hooks(checkout: Checkout, environ: Mapping[str, str], trouble: Callable[[str], None] | None = None) -> None:
    """Let the user's hooks be told of what happens from now on in this process, if there can be any.

    Events do not say in which checkout they happened, so a process has one outbox: the last one that was asked for.
    """
    from kranzq.trust.key import base_dir  # not `config_path`: its package is a third of an enqueue

    config = f"{base_dir(environ, 'XDG_CONFIG_HOME', '.config')}/kranzq/config.toml"
    places = (config, f"{checkout.kranz}/kranzq.toml")
    if any(map(os.path.lexists, places)) or any(name.startswith("KRANZQ_HOOKS_") for name in environ):
        _outbox(checkout, environ, trouble)  # most have no hooks, and their verbs need not pay for a look


def with_hooks(parts: Parts, environ: Mapping[str, str]) -> Parts:
    """The parts of a dispatcher that tells hooks, first of all what others have left to be told."""
    from dataclasses import replace

    outbox = _outbox(parts.checkout, environ)
    outbox.resume()
    return replace(parts, couriers=outbox.couriers)


def _outbox(checkout: Checkout, environ: Mapping[str, str], trouble: Callable[[str], None] | None = None) -> Outbox:
    from dataclasses import asdict

    from kranzq.events import Warned, emit, subscribe
    from kranzq.hooks.outbox import Outbox
    from kranzq.runs.command import mission_environment
    from kranzq.trust.key import state_dir
    from kranzq.wiring.configuring import load_config

    outbox = Outbox(
        checkout.root,
        state_dir(environ),
        lambda: asdict(load_config(environ, checkout=checkout).hooks),
        mission_environment(environ),
        trouble or (lambda text: emit(Warned(text))),
        starts="KRANZ_CLAIM" not in environ,
    )
    while _heard:
        _heard.pop()()
    _heard.append(subscribe(outbox.hear))
    return outbox


_heard: list[Callable[[], None]] = []
"""What ends the telling of hooks in this process."""
