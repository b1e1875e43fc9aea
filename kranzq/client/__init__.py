"""A kranzq server seen from somewhere else: its work queue and presence as the contracts that a local store fulfils.

`RemoteStore(Client(url, token))` is such a store; `AsyncClient` is for programs on a loop. Imports values, contracts
and errors only: nothing of this machine. Needs the extra `client`.
"""

from __future__ import annotations

from kranzq.client.async_client import AsyncClient
from kranzq.client.events import LiveEvent
from kranzq.client.remote import RemoteStore
from kranzq.client.remote_missions import RemoteMissions
from kranzq.client.sending import Client
from kranzq.client.values import LogPiece, Me

__all__ = ["AsyncClient", "Client", "LiveEvent", "LogPiece", "Me", "RemoteMissions", "RemoteStore"]
