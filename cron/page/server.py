"""Serves the page and the daemon's own interface on loopback, inside the daemon's event loop."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from types import TracebackType
from typing import Self

import uvicorn

from cron.page.app import Served, build_app


class PortTaken(Exception):
    """Somebody else listens on the port. The message is one sentence with the way out."""


def listening_socket(port: int, host: str = "127.0.0.1") -> socket.socket:
    """Bind and listen. Raises PortTaken."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        sock.bind((host, port))
        sock.listen(128)
    except OSError as error:
        sock.close()
        raise PortTaken(
            f"Port {port} on {host} cannot be used ({error.strerror}); choose another with --port."
        ) from error
    sock.setblocking(False)
    return sock


class _Server(uvicorn.Server):
    """uvicorn takes signals while it serves and raises them again afterwards; they are the daemon's."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class PageServer:
    """Serves while it is entered. Open event streams are told to end, so that nobody blocks the shutdown."""

    def __init__(self, served: Served, sock: socket.socket, *, has_page: bool, stop: asyncio.Event) -> None:
        self.port: int = sock.getsockname()[1]
        self._sock = sock
        app = build_app(served, has_page=has_page, port=self.port, stop=stop)
        config = uvicorn.Config(
            app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1, ws="none"
        )
        self._server = _Server(config)
        self._task: asyncio.Task[None] | None = None

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self._server.serve(sockets=[self._sock]), name="page")
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.should_exit = True
        if self._task is not None:
            await asyncio.wait([self._task])
