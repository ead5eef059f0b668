"""Serves the page and the daemon's own interface, inside the daemon's event loop."""

import asyncio
import contextlib
import ipaddress
import socket
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import Self

import uvicorn

from cron.page.access import Access, names_of_this_machine
from cron.page.app import build_app
from cron.page.served import Served
from state.clock import Sleep, system_sleep

LOOPBACK = "127.0.0.1"


class PortTaken(Exception):
    """The port or host cannot be listened on. The message is one sentence with the way out."""


def is_loopback(host: str) -> bool:
    """Tell whether nobody but this machine reaches a host."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def listening_socket(port: int, host: str = LOOPBACK) -> socket.socket:
    """Bind and listen. Raises PortTaken."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (OSError, UnicodeError) as error:
        raise PortTaken(f"{host!r} is no address of this machine; choose another with --host.") from error
    family, _, _, _, place = min(found, key=lambda one: one[0] != socket.AF_INET)
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        sock.bind(place)
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise PortTaken(
            f"Port {port} on {host} cannot be used ({error.strerror}); choose another with --port."
        ) from error
    sock.setblocking(False)
    return sock


@contextlib.contextmanager
def listening(port: int, host: str) -> Iterator[Sequence[socket.socket]]:
    """Listen on loopback, where the command line asks, and on `host`; port 0 picks a free one. Raises PortTaken."""
    with contextlib.ExitStack() as stack:
        first = stack.enter_context(listening_socket(port, host))
        sockets = [first]
        if host not in (LOOPBACK, "localhost", "0.0.0.0", "::"):
            sockets.append(stack.enter_context(listening_socket(first.getsockname()[1], LOOPBACK)))
        yield sockets


class _Server(uvicorn.Server):
    """uvicorn takes signals while it serves and raises them again afterwards; they are the daemon's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class PageServer:
    """Serves while it is entered. Open event streams end when `stop` is set, so that nobody blocks the shutdown.

    `token` is what every request must show, where others than this machine can ask; None on loopback.
    """

    def __init__(
        self,
        served: Served,
        sockets: socket.socket | Sequence[socket.socket],
        *,
        has_page: bool,
        stop: asyncio.Event,
        host: str = LOOPBACK,
        token: str | None = None,
        sleep: Sleep = system_sleep,
    ) -> None:
        self._sockets = [sockets] if isinstance(sockets, socket.socket) else list(sockets)
        self.port: int = self._sockets[0].getsockname()[1]
        self._closing = asyncio.Event()
        names = frozenset() if is_loopback(host) else names_of_this_machine(host)
        app = build_app(
            served,
            has_page=has_page,
            access=Access(port=self.port, token=token, names=names),
            stop=stop,
            closing=self._closing,
            sleep=sleep,
        )
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            lifespan="off",
            timeout_graceful_shutdown=2,
            ws="none",
            server_header=False,
            proxy_headers=False,
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._server.serve(sockets=self._sockets), name="page")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._closing.set()
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task])
