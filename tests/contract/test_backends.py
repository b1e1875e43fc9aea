"""Every backend of missions keeps the same promises: the exported suite on each of them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from kranzq.backend import Backend
from kranzq.backends.memory import MemoryBackend
from kranzq.model.checkout import Checkout
from kranzq.model.claim import Claim
from kranzq.model.entry import Entry
from kranzq.model.state import State
from kranzq.testing.missions import MissionContract, MissionStore
from kranzq.wiring.library import mission_backend


class MemoryStore(MissionStore):
    """One backend in memory."""

    def __init__(self) -> None:
        self._backend = MemoryBackend()

    def open(self) -> Backend[Entry, Entry, State, Claim]:
        """The same backend for everybody."""
        return self._backend


class FileStore(MissionStore):
    """The queue of a checkout on disk, opened anew each time."""

    def __init__(self, root: Path) -> None:
        self._checkout = Checkout(str(root), has_git=(root / ".git").exists())

    def open(self) -> Backend[Entry, Entry, State, Claim]:
        """The backend as another process would have it."""
        return mission_backend(self._checkout, os.environ)


class TestMemoryBackend(MissionContract):
    """The fake."""

    @pytest.fixture
    def store(self) -> MemoryStore:
        """An empty one."""
        return MemoryStore()


class TestFileBackend(MissionContract):
    """The files that kranz shares."""

    @pytest.fixture
    def store(self, checkout: Path) -> FileStore:
        """A checkout without a queue."""
        return FileStore(checkout)


class TestFileBackendWithoutGit(MissionContract):
    """The same in a directory without git."""

    @pytest.fixture
    def store(self, tmp_path: Path) -> FileStore:
        """An empty directory."""
        return FileStore(tmp_path)
