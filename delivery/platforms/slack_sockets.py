"""Keeps one socket to Slack alive: watches it, and opens its successor before the old one is let go."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import timedelta
from enum import Enum
from typing import Protocol

from delivery.platforms.slack_waiting import first_of
from delivery.retry import RetryPolicy
from state.clock import Monotonic, Sleep

log = logging.getLogger(__name__)

PING_EVERY = 10.0
SILENT_AFTER = 25.0
"""Seconds without any frame, not even an answer to a ping, after which a socket counts as dead."""

LINGERS = 10.0
"""Seconds for which a socket that Slack will close goes on beside its successor."""

OPENINGS = RetryPolicy(first=timedelta(seconds=1), longest=timedelta(seconds=30))


class LineFailed(Exception):
    """A socket could not be opened now. `reason` is a sentence; `retry_after` seconds, if Slack gave them."""

    def __init__(self, reason: str, retry_after: float = 0.0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.retry_after = retry_after


class Line(Protocol):
    """One open socket."""

    @property
    def last_heard(self) -> float:
        """When the last frame came, on the monotonic clock."""

    @property
    def ending(self) -> asyncio.Event:
        """Set once the socket wants a successor: Slack will close it, or it is gone already."""

    @property
    def is_gone(self) -> bool:
        """Whether nothing can come any more."""

    async def ping(self) -> None:
        """Ask for a sign of life. Never raises."""

    async def close(self) -> None:
        """Close it and all that belongs to it. Idempotent, never raises."""


class _Why(Enum):
    ENDING = "slack asked for it"
    SILENT = "it fell silent"


class Sockets:
    """One socket, two while one takes over from the other.

    open_line: opens one. Raises LineFailed, which is tried again with growing waits, or AccountDown, which ends it.
    gap: called when a successor is there and, before it, nobody was listening for a while.
    finish: awaited at the end while the sockets are still open, for what is being handled.
    """

    def __init__(
        self,
        *,
        account: str,
        open_line: Callable[[], Awaitable[Line]],
        gap: Callable[[], None],
        finish: Callable[[], Awaitable[None]],
        monotonic: Monotonic,
        sleep: Sleep,
    ) -> None:
        self._account = account
        self._open_line = open_line
        self._gap = gap
        self._finish = finish
        self._monotonic = monotonic
        self._sleep = sleep
        self._lines: set[Line] = set()
        self._retiring: set[asyncio.Task[None]] = set()

    async def run(self) -> None:
        """Listen until cancelled. Raises AccountDown when the login is refused."""
        try:
            line = await self._open()
            while True:
                why = await self._watch(line)
                successor = await self._open()
                is_gap = why is _Why.SILENT or line.is_gone
                self._retire(line)
                log.info(
                    "A socket was replaced.",
                    extra={"action": "socket_replaced", "account": self._account, "why": why.value, "gap": is_gap},
                )
                line = successor
                if is_gap:
                    self._gap()
        finally:
            await self._end()

    async def _open(self) -> Line:
        failures = 0
        while True:
            try:
                line = await self._open_line()
            except LineFailed as failed:
                failures += 1
                wait = max(OPENINGS.wait(failures).total_seconds(), failed.retry_after)
                facts = {"account": self._account, "reason": failed.reason, "wait_s": wait}
                log.warning(
                    "A socket could not be opened; it is tried again.", extra={"action": "socket_failed", **facts}
                )
                await self._sleep(wait)
            else:
                self._lines.add(line)
                return line

    async def _watch(self, line: Line) -> _Why:
        """Return when the socket needs a successor."""
        while not line.ending.is_set():
            if self._monotonic() - line.last_heard >= SILENT_AFTER:
                return _Why.SILENT
            await first_of(_ping(line), self._sleep(PING_EVERY))
        return _Why.ENDING

    def _retire(self, line: Line) -> None:
        task = asyncio.ensure_future(self._let_go(line))
        self._retiring.add(task)
        task.add_done_callback(self._retiring.discard)

    async def _let_go(self, line: Line) -> None:
        """Close a socket that was replaced; one that Slack is about to close may still bring something."""
        if line.ending.is_set() and not line.is_gone:
            await self._sleep(LINGERS)
        await line.close()
        self._lines.discard(line)

    async def _end(self) -> None:
        try:
            await self._finish()
        finally:
            for task in tuple(self._retiring):
                task.cancel()
            if self._retiring:
                await asyncio.wait(tuple(self._retiring))
            for line in tuple(self._lines):
                await line.close()
            self._lines.clear()


async def _ping(line: Line) -> None:
    """Ask for a sign of life (on a dead line even that may hang) and wait until the line ends."""
    await line.ping()
    await line.ending.wait()
