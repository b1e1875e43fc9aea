"""The items of one checkout: who it is in the work queue, which groups it belongs to, and how the queue is opened."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Mapping
from typing import TYPE_CHECKING

from kranzq.backend.items import WorkStore
from kranzq.dispatch.items import Items, ItemSettings
from kranzq.dispatch.whereabouts import whereabouts
from kranzq.errors import KranzqError
from kranzq.liveness import machine_id
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Holder
from kranzq.model.repository import LOCAL, tail_of
from kranzq.model.work import MOST_NAME
from kranzq.wiring.working import database_url, sweeper

if TYPE_CHECKING:
    from kranzq.config import Config
    from kranzq.runner import Runner

_HEX = 32


def make_items(checkout: Checkout, config: Config, environ: Mapping[str, str], runner: Runner) -> Items:
    """The items of a checkout by these settings; the work queue is opened when it is first asked."""
    url = config.work.url or database_url(None, environ, checkout.root)
    settings = ItemSettings(
        holder=Holder(config.work.agent or default_name(checkout), uid=checkout_uid(checkout)),
        groups=frozenset({*config.work.groups, *repository_groups(checkout)}),
        url=str(url),
        lease_s=config.work.mission_lease,
        sweep_s=config.work.sweep_seconds,
        path=url.sqlite_path,
    )

    def open_store() -> WorkStore:
        from kranzq.backends.sql.opening import open_store as opened

        return opened(url.text)

    return Items(settings, runner, open_store, lambda store: sweeper(store, config.work))


def checkout_uid(checkout: Checkout) -> str:
    """The uid of a checkout in the work queue: no two share one, on whichever machines they lie."""
    seen = os.stat(checkout.root)
    what = "\0".join((machine_id(), checkout.root, str(seen.st_dev), str(seen.st_ino)))
    return f"checkout:{hashlib.sha256(os.fsencode(what)).hexdigest()[:_HEX]}"


def default_name(checkout: Checkout) -> str:
    """The name of a checkout for people: host and path, the beginning of a long path left out."""
    head = f"kranzq@{socket.gethostname()}:"
    root = checkout.root.encode("utf-8", "replace")
    return head + root[-max(1, MOST_NAME - len(head.encode())) :].decode("utf-8", "ignore").replace("\0", "")


def repository_groups(checkout: Checkout) -> frozenset[str]:
    """`repo:owner/name` of the repository's origin, and the same with its host in front; none without an origin."""
    try:
        key = whereabouts(checkout).repo
    except KranzqError:
        return frozenset()
    if key.startswith(LOCAL):
        return frozenset()
    return frozenset({f"repo:{key}", f"repo:{tail_of(key)}"})
