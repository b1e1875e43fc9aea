"""Clients of one server: `Client` for threads, `AsyncClient` for a loop. Both send the same requests in the same way.

The token goes into one header and nowhere else. A proxy of the environment is asked only where what it is told is
encrypted; redirections are not followed, so that no other server is shown the token.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

import httpx2

from kranzq import __version__
from kranzq.client.address import FORMS, Address
from kranzq.client.asking import PATIENCE_S, Ask, Patience
from kranzq.client.events import Following, LiveEvent, read_events, read_events_on_loop
from kranzq.client.faults import OK, check_server, fault_of, retry_after, value_of
from kranzq.client.receiving import IDENTITY, Answer, receive, receive_on_loop
from kranzq.errors import KranzqError, ServerUnreachable, StoreUnavailable, TryLater, UsageFault

T = TypeVar("T")
CONNECT_S, ANSWER_S = 5.0, 30.0
_NEVER_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout)


class _Sender:
    """What both clients share: where, as whom, and what becomes of a try."""

    def __init__(self, url: str, token: str | None, agent_token: str | None, patience_s: float) -> None:
        self.address = Address.parse(url)
        self.patience_s = patience_s
        self._headers = {"accept": "application/json", "user-agent": f"kranzq/{__version__}"} | IDENTITY
        for name, said in (("authorization", token), ("x-agent-token", agent_token)):
            if said is not None:
                self._headers[name] = ("Bearer " if name == "authorization" else "") + _checked(said)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.address})"

    @contextlib.contextmanager
    def _address_is_read(self) -> Iterator[None]:
        try:
            yield
        except httpx2.InvalidURL as fault:
            raise UsageFault(f"{str(self.address)[:200]!r} is no address of a server: {fault}.", FORMS) from fault

    def _options(self) -> dict[str, Any]:
        return {
            "base_url": self.address.base,
            "headers": self._headers,
            "timeout": httpx2.Timeout(ANSWER_S, connect=CONNECT_S),
            "trust_env": self.address.base.startswith("https://"),
        }

    def _request(self, client: httpx2.Client | httpx2.AsyncClient, ask: Ask[Any]) -> httpx2.Request:
        timeout = httpx2.Timeout(ANSWER_S + ask.waits_s, connect=CONNECT_S)
        body = dict(ask.body) if ask.body is not None else None
        try:
            return client.build_request(ask.method, ask.path, params=dict(ask.query), json=body, timeout=timeout)
        except ValueError as fault:  # half a character, or no number
            raise UsageFault(f"Something in the call cannot be sent as JSON: {str(fault)[:200]}.") from None

    def _following(self, last: str, patience_s: float | None) -> Following:
        return Following(str(self.address), self.patience_s if patience_s is None else patience_s, last)

    def _answered(self, ask: Ask[T], answer: Answer) -> T | _Again:
        """The value, or that it may be sent again. Raises what the server tells of."""
        where = str(self.address)
        if ask.is_raw and answer.status in OK:
            check_server(where, answer.status, answer.headers)
            return self._value(ask, answer)
        told = value_of(where, answer.status, answer.headers, answer.data)
        if answer.status not in OK:
            fault = fault_of(where, answer.status, told, ask)
            again = isinstance(fault, TryLater) or (isinstance(fault, StoreUnavailable) and ask.is_repeatable)
            if answer.status == httpx2.codes.SERVICE_UNAVAILABLE and again:
                return _Again(fault, retry_after(answer.status, answer.headers))
            raise fault
        return self._value(ask, told)

    def _value(self, ask: Ask[T], told: object) -> T:
        try:
            return ask.read(told)
        except (KeyError, TypeError, ValueError) as fault:
            raise ServerUnreachable(
                str(self.address), f"its answer to {ask.method} {ask.path} has another form than this kranzq knows"
            ) from fault

    def _broken(self, ask: Ask[Any], fault: httpx2.RequestError) -> _Again:
        """What a connection that failed means. Raises where it may not be sent again."""
        never = isinstance(fault, _NEVER_SENT)
        why = str(fault).rstrip(".") or type(fault).__name__
        if never or ask.is_repeatable:
            return _Again(ServerUnreachable(str(self.address), why), None)
        raise ServerUnreachable(
            str(self.address), f"{why}; whether the call was carried out is not known", "Look before you repeat it."
        ) from fault


class _Again:
    """A try that came to nothing, and the fault if there is no other."""

    def __init__(self, fault: KranzqError, after_s: float | None) -> None:
        self.fault, self.after_s = fault, after_s


class Client(_Sender):
    """A server, for threads. Raises UsageFault for an address or token that is none.

    `tell` gets a sentence when a call has to be repeated, once a call: whoever waits should know for what.
    """

    def __init__(
        self,
        url: str,
        token: str | None = None,
        *,
        agent_token: str | None = None,
        patience_s: float = PATIENCE_S,
        tell: Callable[[str], None] | None = None,
    ) -> None:
        super().__init__(url, token, agent_token, patience_s)
        self._tell = tell
        transport = httpx2.HTTPTransport(uds=self.address.socket) if self.address.socket is not None else None
        with self._address_is_read():
            self._client = httpx2.Client(transport=transport, **self._options())

    def send(self, ask: Ask[T]) -> T:
        """The value of a request, which is repeated for a while where that is safe. Raises as a local store does."""
        patience, has_told = Patience(time.monotonic() + self.patience_s), False
        while True:
            try:
                sent = self._client.send(self._request(self._client, ask), stream=True)
                found = self._answered(ask, receive(str(self.address), ask, sent))
            except httpx2.RequestError as fault:
                found = self._broken(ask, fault)
            if not isinstance(found, _Again):
                return found
            if (pause := patience.next_pause(time.monotonic(), found.after_s)) is None:
                raise found.fault
            if self._tell is not None and not has_told:
                has_told = True
                self._tell(f"{found.fault.sentence} Trying again for {self.patience_s:.0f} s.")
            time.sleep(pause)

    def events(self, last: str = "", *, patience_s: float | None = None) -> Generator[LiveEvent]:
        """What items, missions and presence become, from now on or from behind an event's id: for ever, so close it.

        A cut stream is opened again where it was cut. Raises ServerUnreachable when that did not work for `patience_s`
        (the client's; `inf`: never), and Refused once the token opens nothing any more.
        """
        return read_events(self._client, self._following(last, patience_s))

    def close(self) -> None:
        """Let go of connections."""
        self._client.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class AsyncSender(_Sender):
    """A server, for one loop; `AsyncClient` gives its verbs names."""

    def __init__(
        self, url: str, token: str | None = None, *, agent_token: str | None = None, patience_s: float = PATIENCE_S
    ) -> None:
        super().__init__(url, token, agent_token, patience_s)
        transport = httpx2.AsyncHTTPTransport(uds=self.address.socket) if self.address.socket is not None else None
        with self._address_is_read():
            self._client = httpx2.AsyncClient(transport=transport, **self._options())

    async def send(self, ask: Ask[T]) -> T:
        """As `Client.send`."""
        patience = Patience(time.monotonic() + self.patience_s)
        while True:
            try:
                sent = await self._client.send(self._request(self._client, ask), stream=True)
                found = self._answered(ask, await receive_on_loop(str(self.address), ask, sent))
            except httpx2.RequestError as fault:
                found = self._broken(ask, fault)
            if not isinstance(found, _Again):
                return found
            if (pause := patience.next_pause(time.monotonic(), found.after_s)) is None:
                raise found.fault
            await asyncio.sleep(pause)

    def events(self, last: str = "", *, patience_s: float | None = None) -> AsyncGenerator[LiveEvent]:
        """As `Client.events`."""
        return read_events_on_loop(self._client, self._following(last, patience_s))

    async def close(self) -> None:
        """Let go of connections."""
        await self._client.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, fault: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


def _checked(token: str) -> str:
    if not token.isascii() or not token.isprintable() or not token.strip() or " " in token:
        raise UsageFault(
            "The token for the server is blank, or holds what no token does.",
            "Look at the file that KRANZQ_TOKEN_FILE names; it is not shown here.",
        )
    return token
