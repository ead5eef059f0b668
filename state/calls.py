"""A function on its way through a database thread, and the one that waits for its verdict."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from sqlalchemy import Connection

from state.errors import MisuseError

T = TypeVar("T")


class Call:
    """One function, its staged outcome, and who hears it. Made by the waiter, filled by the thread."""

    __slots__ = ("_is_settled", "_loop", "_ready", "_waiter", "error", "fn", "value")

    def __init__(self, fn: Callable[[Connection], Any], loop: asyncio.AbstractEventLoop | None) -> None:
        self.fn = fn
        self.value: Any = None
        self.error: BaseException | None = None
        self._loop = loop
        self._is_settled = False
        self._waiter: asyncio.Future[Any] | None = None
        self._ready: threading.Lock | None = None
        if loop is None:
            self._ready = threading.Lock()
            self._ready.acquire()
        else:
            self._waiter = loop.create_future()

    def run(self, connection: Connection) -> None:
        """Run the function and stage its value. Its error is the caller's business."""
        self.value = self.error = None
        value = self.fn(connection)
        if isinstance(value, Iterator):
            raise MisuseError("A database function returned an open result or an iterator; let it return rows.")
        self.value = value

    async def verdict(self) -> Any:
        """Wait for the outcome; a cancelled waiter still waits for it, then is cancelled."""
        assert self._waiter is not None and self._loop is not None
        try:
            return await self._waiter
        except asyncio.CancelledError:
            # Our future went with the cancellation; the verdict comes to another one.
            while not self._is_settled:
                self._waiter = self._loop.create_future()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait((self._waiter,))
                if self._waiter.done() and not self._waiter.cancelled():
                    self._waiter.exception()
            raise

    def verdict_sync(self) -> Any:
        """Wait for the outcome on a thread; an interrupt waits for it too, then is raised."""
        assert self._ready is not None
        try:
            self._ready.acquire()
        except KeyboardInterrupt:
            self._ready.acquire()
            raise
        if self.error is not None:
            raise self.error
        return self.value

    def _settle(self) -> None:
        self._is_settled = True
        waiter = self._waiter
        if waiter is None or waiter.done():
            return
        if self.error is None:
            waiter.set_result(self.value)
        else:
            waiter.set_exception(self.error)


class Chore(Call):
    """A call that runs between two batches, outside any transaction."""

    __slots__ = ()


def answer(calls: Iterable[Call]) -> None:
    """Tell the waiters their staged outcomes, in order; each event loop is woken once."""
    by_loop: dict[asyncio.AbstractEventLoop, list[Call]] = {}
    for call in calls:
        if call._ready is not None:
            call._ready.release()
        elif call._loop is not None:
            by_loop.setdefault(call._loop, []).append(call)
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_settle_all, mine)
        except RuntimeError:
            # The loop was closed while its call was on the way: nobody is left to be told.
            continue


def _settle_all(calls: list[Call]) -> None:
    for call in calls:
        call._settle()
