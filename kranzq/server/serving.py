"""One server process, from its sockets to its exit: within two seconds of the first signal, with code 0.

uvicorn raises the signal again when it is done, so that nothing after it would run, and waits for open streams without
end; so the signals are ours, and `closing` is the sign by which everything that waits comes to an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import logging
import os
import resource
import signal
import socket
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field

import uvicorn

from kranzq.events import subscribe
from kranzq.leases.sweeper import Sweeper
from kranzq.model.frozen import frozen
from kranzq.server.access import Door, host_names
from kranzq.server.app import App
from kranzq.server.listening import BACKLOG, Address, SocketFile, url_of
from kranzq.server.protocol import Bounded
from kranzq.server.routing import Part
from kranzq.server.service import Limits, Service
from kranzq.server.table import PARTS, table
from kranzq.server.telling import flush, tell, tell_event, tell_fault
from kranzq.wiring import serving as wiring
from kranzq.wiring import trusting, working

SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
_OTHER_FILES = 200
"""What a server has open beside its connections: a few for each thread that calls the store."""
_END_S = 0.5
"""So long open requests may take to end, once they were told."""


@frozen
class Options:
    """What was asked for on the command line."""

    directory: str
    url: str | None = None
    socket: str | None = None
    listen: str | None = None
    allow_remote: bool = False
    key_file: str | None = None
    host_names: tuple[str, ...] = ()
    origins: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)


class Server(uvicorn.Server):
    """uvicorn's, whose signals are somebody else's; `ready` is called when it takes requests."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to take requests."""
        await super().startup(sockets)
        self._ready()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave them alone."""
        yield


def serve(options: Options, environ: Mapping[str, str], ready: Callable[[list[str]], None]) -> None:
    """Serve until a signal comes; `ready` is told the URLs when requests are taken. Raises what cannot be begun."""
    address = Address.parse(options.listen) if options.listen else None
    key = trusting.operator_key(environ, options.key_file)
    key.make()
    if options.socket is None:
        wiring.make_socket_folder(environ)
    file = SocketFile(os.path.abspath(options.socket or wiring.default_socket(environ)))
    with contextlib.ExitStack() as stack:
        stack.callback(flush)
        stack.callback(subscribe(tell_event))
        sockets = [stack.enter_context(file.open())]
        stack.callback(file.close)
        hosts: frozenset[str] = frozenset()
        if address is not None:
            sockets.append(stack.enter_context(address.open(allow_remote=options.allow_remote)))
            hosts = host_names(address.host, sockets[-1].getsockname()[1], list(options.host_names))
        store = working.open_work(options.url, environ, options.directory)
        service = Service(store, environ, options.directory, fitting(options.limits))
        stack.callback(service.close)
        sweeper = working.sweeper(store, working.work_config(environ, options.directory).work)
        origins = frozenset(options.origins) | {f"https://{name}" for name in options.host_names}  # behind a proxy
        app = App(service, Door(store.agents, key.current, hosts, origins), table())
        config = _config(app, service.limits)
        urls = [url_of(one) for one in sockets]
        with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
            runner.run(_run(app, config, sockets, (*PARTS, _sweeping(sweeper)), lambda: ready(urls)))
            if service.running:
                _leave(file, tells=bool(service.pool.running))  # a thread that waits would keep the process


def fitting(limits: Limits) -> Limits:
    """The limits, with no more connections than this process may have open files for. Asks for more of those first."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = limits.connections + _OTHER_FILES
    if soft < wanted:
        soft = min(wanted, hard) if hard != resource.RLIM_INFINITY else wanted
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return dataclasses.replace(limits, connections=max(1, min(limits.connections, soft - _OTHER_FILES)))


async def _run(
    app: App, config: uvicorn.Config, sockets: list[socket.socket], parts: tuple[Part, ...], ready: Callable[[], None]
) -> None:
    service, loop = app.service, asyncio.get_running_loop()
    _quiet()
    server = Server(config, ready)

    def stop() -> None:
        if not service.closing.is_set():
            loop.call_later(_END_S, cut)
        service.closing.set()
        server.should_exit = True

    def cut() -> None:
        """Let go of those that have not read their answer or not sent their request."""
        for connection in list(server.server_state.connections):
            connection.transport.abort()

    for number in SIGNALS:
        loop.add_signal_handler(number, stop)
    running = [asyncio.create_task(_watched(part, service)) for part in parts]
    await server.serve(sockets)
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)


def _config(app: App, limits: Limits) -> uvicorn.Config:
    protocol = type("Protocol", (Bounded,), {"limits": limits})
    return uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=int(limits.idle_s) + 1,
        timeout_graceful_shutdown=1,
    )


async def _watched(part: Part, service: Service) -> None:
    """Run a part; a fault of one is told and does not end the others."""
    try:
        await part(service)
    except Exception as fault:  # noqa: BLE001 - what serves requests goes on
        tell_fault(f"the part {getattr(part, '__module__', '')}.{getattr(part, '__name__', part)}", fault)


def _sweeping(sweeper: Sweeper) -> Part:
    async def sweeping(service: Service) -> None:
        """Sweep as a daemon does, in one thread after the other."""
        while not service.closing.is_set():
            await service.pool.run(sweeper.sweep_if_due)
            await service.until_closing(max(0.1, sweeper.due_in()))

    return sweeping


def _quiet() -> None:
    """Let uvicorn say only what is a fault, and nothing of what strangers send."""

    class Tells(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            fault = record.exc_info[1] if record.exc_info else None
            if fault is not None and not isinstance(fault, asyncio.CancelledError):
                tell_fault("an answer that had begun", fault)

    for name in ("uvicorn", "uvicorn.error", "uvicorn.access"):
        logging.getLogger(name).propagate = False
    logger = logging.getLogger("uvicorn.error")
    logger.handlers[:] = [Tells()]
    logger.setLevel(logging.ERROR)


def _leave(file: SocketFile, *, tells: bool) -> None:
    """End the process although threads wait: what they had begun in the store is done whole or not at all."""
    file.close()
    if tells:
        tell("A call of the store is still waiting; the server ends without it.")
    flush()
    with contextlib.suppress(OSError):  # a full disk, or a reader that went away
        sys.stdout.flush()
    os._exit(0)
