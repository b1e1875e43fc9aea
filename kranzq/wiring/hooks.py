"""Who is told of events: the user's hooks, where there can be any."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import TYPE_CHECKING

from kranzq.errors import KranzqError
from kranzq.model.checkout import Checkout

if TYPE_CHECKING:
    from kranzq.dispatch.parts import Parts
    from kranzq.hooks.backlog import Backlog, Waiting
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


def seen_hooks(checkout: Checkout, environ: Mapping[str, str]) -> Backlog | None:
    """What waits to be told to hooks; None while no hook of any checkout was ever told."""
    from kranzq.trust.key import state_dir

    state = state_dir(environ)
    if not os.path.isdir(f"{state}/hooks"):  # most have none, and `status` need not pay for a look
        return None
    from kranzq.hooks import backlog

    def wanted() -> Collection[tuple[str, ...]] | None:
        try:
            return configured_hooks(checkout, environ).values()
        except KranzqError:
            return None  # said by whoever looks at the settings

    return backlog.look(state, checkout.root, wanted)


def hook_notices(checkout: Checkout, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What a person should know of receivers that take nothing, each with what to type."""
    found = seen_hooks(checkout, environ)
    return found.notices() if found is not None else ()


def drop_unwanted(checkout: Checkout, environ: Mapping[str, str]) -> tuple[Waiting, ...]:
    """Give up what waits for receivers that no hook names any more; who they are. Raises BadSetting."""
    configured_hooks(checkout, environ)
    found = seen_hooks(checkout, environ)
    unwanted = tuple(one for one in found.receivers if not one.configured) if found is not None else ()
    if unwanted:
        _outbox(checkout, environ).drop([one.mark for one in unwanted])
    return unwanted


def configured_hooks(checkout: Checkout, environ: Mapping[str, str]) -> dict[str, tuple[str, ...]]:
    """Whom each hook tells, as configured now; only hooks that tell anybody. Raises BadSetting."""
    from kranzq.wiring.configuring import load_config

    found = load_config(environ, checkout=checkout).hooks.commands()
    return {name: command for name, command in found.items() if command}


def is_url(command: Sequence[str]) -> bool:
    """Whether a hook is a webhook."""
    from kranzq.hooks import receivers

    return receivers.is_url(command)


def shown(command: tuple[str, ...]) -> str:
    """A hook for people: of a URL only its host."""
    from kranzq.hooks import receivers

    return receivers.shown(command)


def try_hook(checkout: Checkout, environ: Mapping[str, str], hook: str, command: tuple[str, ...]) -> str | None:
    """Tell a hook a test event, now; None when it has taken it, else why not."""
    return _outbox(checkout, environ).try_once(hook, command)


def signing_key(environ: Mapping[str, str], *, renew: bool) -> tuple[str, str]:
    """The key that signs what webhooks get, made on first use; and where it lies."""
    from kranzq.hooks.signing import SigningKey
    from kranzq.trust.key import state_dir

    key = SigningKey(state_dir(environ))
    return (key.renew() if renew else key.make()), key.path


def _outbox(checkout: Checkout, environ: Mapping[str, str], trouble: Callable[[str], None] | None = None) -> Outbox:
    from kranzq.events import Warned, emit, subscribe
    from kranzq.hooks.outbox import Outbox
    from kranzq.runs.command import mission_environment
    from kranzq.trust.key import state_dir
    from kranzq.wiring.configuring import load_config

    def configured() -> tuple[Mapping[str, tuple[str, ...]], float]:
        settings = load_config(environ, checkout=checkout).hooks
        return settings.commands(), settings.window

    outbox = Outbox(
        checkout.root,
        state_dir(environ),
        configured,
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
