"""Settings in force: the user's, and those of the checkout as far as the user has allowed them."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kranzq.errors import KranzqError
from kranzq.model.checkout import Checkout
from kranzq.wiring.trusting import approvals

if TYPE_CHECKING:
    from kranzq.config import Config
    from kranzq.trust.settings import SettingsSeen


def load_config(
    environ: Mapping[str, str], flags: Mapping[str, object] | None = None, checkout: Checkout | None = None
) -> Config:
    """The settings in force, for a checkout with those that a person has allowed there."""
    from kranzq.config import Config

    if checkout is None or not os.path.lexists(f"{checkout.kranz}/kranzq.toml"):
        return Config.load(environ, flags=flags)
    from kranzq.config.checkout import load

    return load(environ, checkout_settings(checkout, environ), flags)


def checkout_settings(checkout: Checkout, environ: Mapping[str, str]) -> SettingsSeen:
    """The settings file of a checkout, and whether it counts."""
    from kranzq.trust.settings import look_at_settings

    return look_at_settings(checkout.root, approvals(environ))


def has_command(environ: Mapping[str, str], checkout: Checkout | None = None) -> bool:
    """Whether a command is configured for missions that have none; a broken configuration is not said here."""
    try:
        return bool(load_config(environ, checkout=checkout).mission.command)
    except KranzqError:
        return True


def notices(checkout: Checkout, environ: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """What a person should know of the checkout: settings that do not count, runtime state that git tracks."""
    from kranzq.dispatch.planted import tracked_notice

    found = (checkout_settings(checkout, environ).notice, tracked_notice(checkout.root))
    return tuple(one for one in found if one is not None)
